// BERT's WordPiece with its normaliser, as the wheel `tokenizers` does it: the same ids for the same text.

import { refuse } from "./refusal.js";

/**
 * A token that is found in a text before its words: it takes white space on its left or right along, or it
 * only stands alone, with no part of a word next to it.
 * @typedef {{ pattern: string, id: number, left: boolean, right: boolean, alone: boolean }} AddedToken
 */
/**
 * `vocabulary` by id, null where an id has no token; `notPieces` are ids that no word is split into by
 * this name, `renamed` pieces that go by another one. `lower` and `apart` hold the characters that change,
 * `order` the canonical order of marks that stay.
 * @typedef {{
 *   vocabulary: (string | null)[], notPieces: number[], renamed: { [piece: string]: number },
 *   added: AddedToken[][], reserved: number[],
 *   before: number[], after: number[], unknown: number, kinds: number[],
 *   lower: { [character: string]: string } | null, apart: { [character: string]: string } | null,
 *   order: { [character: string]: number }, prefix: string, longest: number, maxTokens: number,
 * }} TokenizerData
 */
/** @typedef {{ ids: number[], tokens: string[], special: boolean[] }} Encoded */
/** @typedef {{ expression: RegExp, tokens: Map<string, AddedToken> }} Finder of added tokens */

// What the normaliser and the splitter do with a character. The manifest says it of each, as tried on the
// tokenizer itself, because they follow another version of Unicode than the browser.
const DROPPED = 1, SPACE = 2, ACCENT = 4, PUNCTUATION = 8, BETWEEN = 16, ALONE = 32, STACKED = 64, WORD = 128;
const BLANKS = "\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" +
  "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a";
const HANGUL = /[\uac00-\ud7a3]/u; // syllables, which are taken apart by arithmetic
const SEPARATORS = "\u001c\u001d\u001e\u001f"; // white space for Python, which refuses texts of it alone

/**
 * The kinds of all characters.
 * @param {number[]} runs how many characters, and of which kinds (a sum), in turn
 * @returns {Uint8Array}
 */
function kindsOf(runs) {
  const kinds = new Uint8Array(0x110000);
  for (let k = 0, at = 0; k < runs.length; at += runs[k], k += 2) kinds.fill(runs[k + 1], at, at + runs[k]);
  return kinds;
}

/**
 * An expression that finds these tokens, the longest first.
 * @param {AddedToken[]} tokens
 * @returns {Finder}
 */
function finderOf(tokens) {
  const patterns = tokens.map(({ pattern }) => pattern).sort((a, b) => b.length - a.length);
  const escaped = patterns.map((pattern) => pattern.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  const expression = new RegExp(escaped.join("|") || "(?!)", "gu");
  return { expression, tokens: new Map(tokens.map((token) => [token.pattern, token])) };
}

/** Turns texts into ids. */
export class Tokenizer {
  /** @param {TokenizerData} data */
  constructor(data) {
    this.data = data;
    this.kinds = kindsOf(data.kinds);
    const foreign = new Set(data.notPieces);
    this.ids = new Map(Object.entries(data.renamed));
    data.vocabulary.forEach((token, id) => token !== null && !foreign.has(id) && this.ids.set(token, id));
    this.finders = data.added.map(finderOf);
    this.reserved = new Set(data.reserved);
  }

  /**
   * The tokens of a text, with those that the tokenizer puts before and after it.
   * @param {string} text
   * @returns {Encoded}
   */
  encode(text) {
    const { before, after, maxTokens, vocabulary } = this.data;
    checkText(text);
    const words = this.split(
      text,
      this.finders[0],
      (rest) =>
        this.split(
          this.normalised(rest),
          this.finders[1],
          (plain) => this.words(plain).flatMap((word) => this.pieces(word)),
        ),
    );
    const ids = [...before, ...words, ...after], last = before.length + words.length;
    const special = ids.map((_, place) => place < before.length || place >= last);
    if (ids.length > maxTokens) {
      refuse("encode", `a text of ${ids.length} tokens`, `at most ${maxTokens} tokens`, "shorten it");
    }
    if (!words.length) {
      const got = "a text in which the tokenizer finds no token";
      refuse("encode", got, "a text with at least one word", "write a word");
    }
    this.checkSpecial(words);
    return { ids, special, tokens: ids.map((id) => vocabulary[id] ?? "") };
  }

  /**
   * Refuse a special token that a text spells: the model would read an end that is none. An unknown word is a
   * word like any other.
   * @param {number[]} ids
   * @returns {void}
   */
  checkSpecial(ids) {
    const spelled = ids.find((id) => this.reserved.has(id));
    if (spelled === undefined) return;
    const got = `a text with the special token ${this.data.vocabulary[spelled]} in it`;
    refuse("encode", got, "text without special tokens", "write the token's text in another way");
  }

  /**
   * The ids of a text: added tokens where they are found, and `rest` of what is between them.
   * @param {string} text
   * @param {Finder} finder
   * @param {(text: string) => number[]} rest
   * @returns {number[]}
   */
  split(text, { expression, tokens }, rest) {
    const ids = [];
    let done = 0;
    for (const { 0: pattern, index } of text.matchAll(expression)) {
      const token = /** @type {AddedToken} */ (tokens.get(pattern));
      let start = index, end = index + pattern.length;
      if (token.alone && (this.isWord(text, start, -1) || this.isWord(text, end, 0))) continue;
      if (token.left) {
        while (start && BLANKS.includes(text[start - 1])) start -= 1;
        start = Math.max(start, done);
      }
      while (token.right && end < text.length && BLANKS.includes(text[end])) end += 1;
      if (done < start) ids.push(...rest(text.slice(done, start)));
      ids.push(token.id);
      done = end;
    }
    return done < text.length ? [...ids, ...rest(text.slice(done))] : ids;
  }

  /**
   * Whether the character before or at a place is part of a word.
   * @param {string} text
   * @param {number} place
   * @param {-1 | 0} side
   * @returns {boolean}
   */
  isWord(text, place, side) {
    const character = side ? [...text.slice(Math.max(0, place - 2), place)].at(-1) : text.slice(place);
    return Boolean(character) && (this.kindOf(/** @type {string} */ (character)) & WORD) > 0;
  }

  /**
   * Of which kinds a character is.
   * @param {string} character
   * @returns {number}
   */
  kindOf(character) {
    return this.kinds[/** @type {number} */ (character.codePointAt(0))];
  }

  /**
   * The text without what is not read, as the vocabulary spells it.
   * @param {string} text
   * @returns {string}
   */
  normalised(text) {
    const { lower, apart } = this.data;
    let letters = [...text].flatMap((character) => {
      const kind = this.kindOf(character);
      if (kind & DROPPED) return [];
      if (kind & SPACE) return [" "];
      return kind & ALONE ? [" ", character, " "] : [character];
    });
    if (apart) letters = this.withoutAccents(letters, apart);
    if (lower) letters = letters.map((character) => lower[character] ?? character);
    return letters.join("");
  }

  /**
   * Letters and accents taken apart, without the accents; marks that stay are in their canonical order.
   * @param {string[]} letters
   * @param {{ [character: string]: string }} apart
   * @returns {string[]}
   */
  withoutAccents(letters, apart) {
    const { order } = this.data;
    /** @type {string[]} */
    const out = [];
    let from = 0; // where the marks begin that are put in order
    for (const letter of letters) {
      const parts = HANGUL.test(letter) ? letter.normalize("NFD") : apart[letter] ?? letter;
      for (const character of parts) {
        const kind = this.kindOf(character);
        let to = out.length;
        if (kind & STACKED) { while (to > from && order[out[to - 1]] > order[character]) to -= 1; }
        if (!(kind & ACCENT)) out.splice(to, 0, character);
        if (!(kind & STACKED)) from = out.length;
      }
    }
    return out;
  }

  /**
   * A text split at white space and around punctuation.
   * @param {string} text
   * @returns {string[]}
   */
  words(text) {
    /** @type {string[]} */
    const words = [];
    let open = false;
    for (const character of text) {
      const kind = this.kindOf(character), inside = !(kind & (BETWEEN | PUNCTUATION));
      if (inside && open) words[words.length - 1] += character;
      else if (!(kind & BETWEEN)) words.push(character);
      open = inside;
    }
    return words;
  }

  /**
   * The longest pieces of a word that the vocabulary has, from the left; else the unknown token.
   * @param {string} word
   * @returns {number[]}
   */
  pieces(word) {
    const { data } = this, letters = [...word], ids = [];
    if (letters.length > data.longest) return [data.unknown];
    for (let from = 0; from < letters.length;) {
      let to = letters.length, id;
      for (; to > from; to--) {
        id = this.ids.get((from ? data.prefix : "") + letters.slice(from, to).join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) return [data.unknown];
      ids.push(id);
      from = to;
    }
    return ids;
  }
}

/**
 * Refuse what cannot be read at all, before any work.
 * @param {unknown} text
 * @returns {void}
 */
function checkText(text) {
  const word = "a text with at least one word";
  if (typeof text !== "string") refuse("encode", `a ${typeof text}`, "a string", "pass a string");
  const given = /** @type {string} */ (text);
  if ([...given].every((character) => (BLANKS + SEPARATORS).includes(character))) {
    refuse("encode", "a text that is empty or only white space", word, "write a word");
  }
  if (/\p{Cs}/u.test(given)) refuse("encode", "a text with a lone surrogate", "Unicode", "type it again");
  if (given.length > 20000) {
    refuse("encode", `${given.length} characters`, "at most 20,000 characters", "shorten the text");
  }
}
