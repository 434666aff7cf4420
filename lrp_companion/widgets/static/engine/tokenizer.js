// BERT's WordPiece with its normaliser, as the wheel `tokenizers` does it: the same ids for the same text.

import { refuse } from "./refusal.js";

/**
 * @typedef {{
 *   vocabulary: string[],
 *   special: { [content: string]: number },
 *   cls: number, sep: number, unknown: number,
 *   lowercase: boolean, stripAccents: boolean, kinds: number[],
 *   prefix: string, longest: number, maxTokens: number,
 * }} TokenizerData
 */
/** @typedef {{ ids: number[], tokens: string[], special: boolean[] }} Encoded */

// What the normaliser and the splitter do with a character. The manifest says it of each, as tried on the
// tokenizer itself, because they follow another version of Unicode than the browser.
const DROPPED = 1, SPACE = 2, ACCENT = 4, PUNCTUATION = 8, BETWEEN = 16, ALONE = 32;

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

/** Turns texts into ids. */
export class Tokenizer {
  /** @param {TokenizerData} data */
  constructor(data) {
    this.data = data;
    this.kinds = kindsOf(data.kinds);
    this.ids = new Map(data.vocabulary.map((token, id) => [token, id]));
    const names = Object.keys(data.special).sort((a, b) => b.length - a.length);
    const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    this.special = new RegExp(`(${escaped.join("|")})`, "u");
  }

  /**
   * The tokens of a text between the first and the last special one.
   * @param {string} text
   * @returns {Encoded}
   */
  encode(text) {
    const { data } = this;
    checkText(text);
    const ids = [data.cls], special = [true];
    for (const piece of text.split(this.special)) {
      if (Object.hasOwn(data.special, piece)) {
        ids.push(ordinary(piece, data)); // an unknown word is a word like any other
        special.push(false);
        continue;
      }
      for (const word of this.words(piece)) {
        for (const id of this.pieces(word)) {
          ids.push(id);
          special.push(false);
        }
      }
    }
    ids.push(data.sep);
    special.push(true);
    if (ids.length > data.maxTokens) {
      refuse("encode", `a text of ${ids.length} tokens`, `at most ${data.maxTokens} tokens`, "shorten it");
    }
    if (special.every(Boolean)) {
      const got = "a text in which the tokenizer finds no token";
      refuse("encode", got, "a text with at least one word", "write a word");
    }
    return { ids, special, tokens: ids.map((id) => data.vocabulary[id]) };
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
   * The text without what is not read, split at white space and around punctuation.
   * @param {string} text
   * @returns {string[]}
   */
  words(text) {
    const { lowercase, stripAccents } = this.data;
    let letters = [...text].flatMap((character) => {
      const kind = this.kindOf(character);
      if (kind & DROPPED) return [];
      if (kind & SPACE) return [" "];
      return kind & ALONE ? [" ", character, " "] : [character];
    });
    if (stripAccents) {
      letters = [...letters.join("").normalize("NFD")].filter((character) =>
        !(this.kindOf(character) & ACCENT)
      );
    }
    if (lowercase) letters = letters.flatMap((character) => [...character.toLowerCase()]);
    /** @type {string[]} */
    const words = [];
    let open = false;
    for (const character of letters) {
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
 * The id of the unknown word; another special token in a text is refused: the model would read an end that is
 * none.
 * @param {string} piece
 * @param {TokenizerData} data
 * @returns {number}
 */
function ordinary(piece, { special, unknown }) {
  if (special[piece] !== unknown) {
    const got = `a text with the special token ${piece} in it`, expected = "text without special tokens";
    refuse("encode", got, expected, "write the token's text in another way");
  }
  return unknown;
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
  if (!given.trim()) refuse("encode", "a text that is empty or only white space", word, "write a word");
  if (/\p{Cs}/u.test(given)) refuse("encode", "a text with a lone surrogate", "Unicode", "type it again");
  if (given.length > 20000) {
    refuse("encode", `${given.length} characters`, "at most 20,000 characters", "shorten the text");
  }
}
