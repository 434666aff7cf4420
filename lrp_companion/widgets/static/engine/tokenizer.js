// BERT's WordPiece with its normaliser, as the wheel `tokenizers` does it: the same ids for the same text.

import { refuse } from "./refusal.js";

/**
 * @typedef {{
 *   vocabulary: string[],
 *   special: { [content: string]: number },
 *   cls: number, sep: number, unknown: number,
 *   lowercase: boolean, stripAccents: boolean, clean: boolean, chinese: boolean,
 *   prefix: string, longest: number, maxTokens: number,
 * }} TokenizerData
 */
/** @typedef {{ ids: number[], tokens: string[], special: boolean[] }} Encoded */

const WHITE = /\p{White_Space}/u;
const IGNORED = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/u;
const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/u;
const ACCENT = /\p{Mn}/gu;

/** @type {[number, number][]} */
const CHINESE = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
];

/**
 * Whether a character is one of the ideographs that stand alone.
 * @param {string} character
 * @returns {boolean}
 */
function isChinese(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  return CHINESE.some(([first, last]) => first <= code && code <= last);
}

/** Turns texts into ids. */
export class Tokenizer {
  /** @param {TokenizerData} data */
  constructor(data) {
    this.data = data;
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
        ids.push(data.special[piece]);
        special.push(true);
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
   * The text without what is not read, split at white space and around punctuation.
   * @param {string} text
   * @returns {string[]}
   */
  words(text) {
    const { data } = this;
    let out = "";
    for (const character of text) {
      if (data.clean && isDropped(character)) continue;
      if (data.clean && WHITE.test(character)) out += " ";
      else out += data.chinese && isChinese(character) ? ` ${character} ` : character;
    }
    if (data.stripAccents) out = out.normalize("NFD").replace(ACCENT, "");
    if (data.lowercase) out = [...out].map((character) => character.toLowerCase()).join("");
    /** @type {string[]} */
    const words = [];
    let open = false;
    for (const character of out) {
      const space = WHITE.test(character), alone = PUNCTUATION.test(character);
      if (alone) words.push(character);
      else if (!space) open ? words[words.length - 1] += character : words.push(character);
      open = !space && !alone;
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
 * Whether the normaliser drops a character: what is no text, but for tabs and ends of lines.
 * @param {string} character
 * @returns {boolean}
 */
function isDropped(character) {
  if (character === "\t" || character === "\n" || character === "\r") return false;
  return character === "\0" || character === "\ufffd" || IGNORED.test(character);
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
