"""BERT's WordPiece for the page: the vocabulary, and what the tokenizer does with every character."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.texts import reserved_ids

DROPPED, SPACE, ACCENT, PUNCTUATION, BETWEEN, ALONE, STACKED, WORD = 1, 2, 4, 8, 16, 32, 64, 128
"""Kinds of characters, to be added up: dropped, read as a space, dropped once accents are apart, a word by
itself, between words, set apart by spaces, put in order among its neighbours once accents are apart, part of
a word for an added token that wants to stand alone."""
MARK = "ĸ"  # put between characters: no other letter becomes it, and nothing happens to it
IOTA = "\u0345"  # of all marks the one that comes last


def tokenizer_data(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine's WordPiece needs; refuses tokenizers that work another way."""
    backend: Any = getattr(clf.tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend else {}
    kinds = tuple((state.get(key) or {}).get("type") for key in ("model", "normalizer", "pre_tokenizer"))
    if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer"):
        _refuse(clf, "another tokenizer", "BERT's WordPiece")
    model, normalizer = state["model"], state["normalizer"]
    strip = normalizer["strip_accents"]
    normalizer = {**normalizer, "strip_accents": normalizer["lowercase"] if strip is None else strip}
    pieces = backend.get_vocab(with_added_tokens=False)  # the state leaves out all but one token of an id
    vocabulary = _by_id(clf, pieces, state["added_tokens"])
    before, after = _around(clf)
    added = _added(clf, backend, state["added_tokens"])
    characters = character_kinds(normalizer) | STACKED * _stacked()
    if any(token["alone"] for tokens in added for token in tokens):
        characters |= WORD * _word_characters()
    return {
        "vocabulary": vocabulary,
        "notPieces": [k for k, token in enumerate(vocabulary) if token and pieces.get(token) != k],
        "renamed": {token: k for token, k in pieces.items() if vocabulary[k] != token},
        "added": added,
        "reserved": sorted(reserved_ids(clf.tokenizer)),
        "before": before,
        "after": after,
        "unknown": pieces[model["unk_token"]],
        "lower": _changed("lowercase") if normalizer["lowercase"] else None,
        "apart": _changed("apart") if normalizer["strip_accents"] else None,
        "order": _order(characters),
        "kinds": _runs(characters),
        "prefix": model["continuing_subword_prefix"],
        "longest": model["max_input_chars_per_word"],
        "maxTokens": max_tokens,
    }


def drops_hidden(clf: Classifier) -> bool:
    """Whether a text means the same to the tokenizer without characters that are not seen."""
    state = json.loads(clf.tokenizer.backend_tokenizer.to_str())
    added = {token["id"] for token in state["added_tokens"]}
    known = reserved_ids(clf.tokenizer) | {clf.tokenizer.unk_token_id}
    return bool(state["normalizer"]["clean_text"]) and added <= known


def _refuse(clf: Classifier, got: str, expected: str) -> NoReturn:
    got, hint = f"{clf.card.name!r} with {got}", "choose a BERT, DistilBERT or ELECTRA classifier"
    raise ModelError("stage", got=got, expected=expected, hint=hint)


def _by_id(clf: Classifier, pieces: dict[str, int], added: list[dict[str, Any]]) -> list[str | None]:
    """The tokens by id, None where an id has no token; refuses ids that the page could not tell apart."""
    named: dict[int, str] = {}
    for token, number in [*pieces.items(), *((t["content"], t["id"]) for t in added)]:
        if named.setdefault(number, token) != token:
            got = f"the token id {number} of both {named[number][:40]!r} and {token[:40]!r}"
            _refuse(clf, got, "one token for each id")
    names = clf.tokenizer.convert_ids_to_tokens(sorted(named))  # an added token as the normaliser writes it
    by_id = dict(zip(sorted(named), names, strict=True))
    return [by_id.get(number) for number in range(max(named) + 1)]


def _around(clf: Classifier) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and after a text."""
    (text,) = clf.encode(["a"])
    words = np.flatnonzero(~text.special).tolist()
    if any(text.types) or words != list(range(words[0], words[-1] + 1)):
        _refuse(clf, "a text in several parts or of other token types", "one text, of token types 0")
    return list(text.input_ids[: words[0]]), list(text.input_ids[words[-1] + 1 :])


def _added(clf: Classifier, backend: Any, tokens: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The tokens that are found in a text before its words: in the text as it is, then in what the normaliser
    makes of the rest.
    """
    out: list[list[dict[str, Any]]] = [[], []]
    for token in tokens:
        if token["special"] and getattr(clf.tokenizer, "split_special_tokens", False):
            continue
        content = token["content"]
        pattern = backend.normalizer.normalize_str(content) if token["normalized"] else content
        if not pattern or pattern in [other["pattern"] for other in out[token["normalized"]]]:
            got = f"an added token {content[:40]!r} that reads like " + ("another" if pattern else "nothing")
            _refuse(clf, got, "added tokens that differ")
        sides = {"left": token["lstrip"], "right": token["rstrip"], "alone": token["single_word"]}
        out[token["normalized"]].append({"pattern": pattern, "id": token["id"], **sides})
    return out


def _step(name: str) -> Any:
    """One step of BERT's normaliser; "apart" takes letters and accents apart and keeps both."""
    from tokenizers.normalizers import NFD, BertNormalizer

    none = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return NFD() if name == "apart" else BertNormalizer(**{**none, name: True})


def _codes(chosen: Iterable[int]) -> list[np.ndarray]:
    """The chosen code points in parts, without surrogates and the mark."""
    codes = np.array([code for code in chosen if not 0xD800 <= code < 0xE000 and code != ord(MARK)])
    return np.array_split(codes, len(codes) // 4096 + 1)


def _tried(name: str, characters: list[str], before: str = "") -> list[str]:
    """What a step makes of each character by itself, or of each behind another one."""
    text = MARK + MARK.join(before + character for character in characters) + MARK
    return _step(name).normalize_str(text).split(MARK)[1:-1]


@functools.cache
def _changed(name: str) -> dict[str, str]:
    """What a step makes of the characters that it changes, but for the syllables of Hangul, which any browser
    takes apart by arithmetic.
    """
    out = {}
    for some in _codes(code for code in range(0x110000) if not 0xAC00 <= code < 0xD7A4):
        characters = list(map(chr, some))
        pairs = zip(characters, _tried(name, characters), strict=True)
        out.update({before: after for before, after in pairs if after != before})
    return out


def character_kinds(normalizer: dict[str, Any]) -> np.ndarray:
    """Return for every code point what the tokenizer does with it, a sum of kinds, by trying it.

    The normaliser follows another version of Unicode than a browser does, so no list of categories would do.
    """
    return _normalised_kinds(normalizer["clean_text"], normalizer["handle_chinese_chars"]) | _split_kinds()


@functools.cache
def _split_kinds() -> np.ndarray:
    """The kinds that are the pre-tokenizer's, which has no options."""
    from tokenizers.pre_tokenizers import BertPreTokenizer

    kinds = np.zeros(0x110000, dtype=np.uint8)
    for some in _codes(range(len(kinds))):
        text = MARK + MARK.join(map(chr, some)) + MARK
        covered = {span for _, span in BertPreTokenizer().pre_tokenize_str(text)}
        inside = np.zeros(len(text), dtype=bool)
        for first, last in covered:
            inside[first:last] = True
        alone = [(place, place + 1) in covered for place in range(1, len(text), 2)]
        kinds[some] = PUNCTUATION * np.array(alone) + BETWEEN * ~inside[1::2]
    return kinds


@functools.cache
def _normalised_kinds(clean_text: bool, handle_chinese_chars: bool) -> np.ndarray:
    """The kinds that are the normaliser's."""
    kinds = np.zeros(0x110000, dtype=np.uint8)
    for some in _codes(range(len(kinds))):
        characters = [chr(code) for code in some]
        cleaned = _tried("clean_text", characters) if clean_text else characters
        spaced = _tried("handle_chinese_chars", characters) if handle_chinese_chars else characters
        bare = _tried("strip_accents", characters)
        for k, (code, character) in enumerate(zip(some, characters, strict=True)):
            kinds[code] = (
                DROPPED * (not cleaned[k])
                + SPACE * (clean_text and cleaned[k] == " ")
                + ACCENT * (not bare[k])
                + ALONE * (spaced[k] == f" {character} ")
            )
    return kinds


@functools.cache
def _stacked() -> np.ndarray:
    """For every code point whether it is a mark that is put in order among its neighbours."""
    out = np.zeros(0x110000, dtype=np.uint8)
    out[ord(IOTA)] = 1
    for some in _codes(code for code in range(len(out)) if code != ord(IOTA)):
        characters = list(map(chr, some))
        pairs = zip(characters, _tried("apart", characters, IOTA), strict=True)
        out[some] = [after == character + IOTA for character, after in pairs]
    return out


def _order(kinds: np.ndarray) -> dict[str, int]:
    """The place in the canonical order of the characters that are put in order and not dropped after that."""
    from unicodedata import combining

    stay = np.flatnonzero((kinds & STACKED).astype(bool) & ~(kinds & ACCENT).astype(bool))
    return {chr(code): combining(chr(code)) for code in stay}


@functools.cache
def _word_characters() -> np.ndarray:
    """For every code point whether it is part of a word next to an added token that wants to stand alone."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import WordPiece

    trial = Tokenizer(WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    trial.add_tokens([AddedToken(MARK, single_word=True, normalized=False)])
    out = np.zeros(0x110000, dtype=np.uint8)
    out[ord(MARK)] = 1
    for some in _codes(range(len(out))):
        text = "".join(f"\n{MARK}{chr(code)}" for code in some)
        encoded = trial.encode(text)
        seen_ends = {start for (start, _), number in zip(encoded.offsets, encoded.ids, strict=True) if number}
        out[some] = [3 * k + 1 not in seen_ends for k in range(len(some))]
    return out


def _runs(values: np.ndarray) -> list[int]:
    """Return neighbours that are equal as their number and their value, in turn.

    >>> _runs(np.array([0, 0, 3]))
    [2, 0, 1, 3]
    """
    starts = np.flatnonzero(np.diff(values.astype(int), prepend=-1))
    lengths = np.diff(starts, append=len(values))
    return np.stack([lengths, values[starts]], axis=1).ravel().tolist()
