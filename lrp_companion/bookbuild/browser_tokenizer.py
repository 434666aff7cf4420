"""BERT's WordPiece for the page: the vocabulary, and what the tokenizer does with every character."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lrp_companion.models.pretrained import Classifier
from lrp_companion.schema import ModelError

DROPPED, SPACE, ACCENT, PUNCTUATION, BETWEEN, ALONE = 1, 2, 4, 8, 16, 32
"""Kinds of characters, to be added up: dropped, read as a space, dropped once accents are apart, a word by
itself, between words, set apart by spaces."""


def tokenizer_data(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine's WordPiece needs; refuses tokenizers that work another way."""
    backend = getattr(clf.tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend else {}
    kinds = tuple((state.get(key) or {}).get("type") for key in ("model", "normalizer", "pre_tokenizer"))
    if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer"):
        got, expected = f"{clf.card.name!r} with another tokenizer", "BERT's WordPiece"
        hint = "choose a BERT, DistilBERT or ELECTRA classifier"
        raise ModelError("stage", got=got, expected=expected, hint=hint)
    model, normalizer = state["model"], state["normalizer"]
    vocabulary = clf.tokenizer.convert_ids_to_tokens(range(len(clf.tokenizer)))
    strip = normalizer["strip_accents"]
    return {
        "vocabulary": vocabulary,
        "special": {token["content"]: token["id"] for token in state["added_tokens"]},
        "cls": clf.tokenizer.cls_token_id,
        "sep": clf.tokenizer.sep_token_id,
        "unknown": clf.tokenizer.convert_tokens_to_ids(model["unk_token"]),
        "lowercase": normalizer["lowercase"],
        "stripAccents": normalizer["lowercase"] if strip is None else strip,
        "kinds": _runs(character_kinds(backend, normalizer)),
        "prefix": model["continuing_subword_prefix"],
        "longest": model["max_input_chars_per_word"],
        "maxTokens": max_tokens,
    }


def character_kinds(backend: Any, normalizer: dict[str, Any]) -> np.ndarray:
    """Return for every code point what the tokenizer does with it, a sum of kinds, by trying it.

    The normaliser follows another version of Unicode than a browser does, so no list of categories would do.
    """
    from tokenizers.normalizers import BertNormalizer

    none = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    steps = {
        key: BertNormalizer(**{**none, key: True})
        for key in ("clean_text", "handle_chinese_chars", "strip_accents")
    }
    kinds = np.zeros(0x110000, dtype=np.uint8)
    mark = "x"  # between the characters, and nothing happens to it
    codes = np.array(
        [code for code in range(len(kinds)) if not 0xD800 <= code < 0xE000 and code != ord(mark)]
    )
    for some in np.array_split(codes, len(codes) // 4096):
        characters = [chr(code) for code in some]
        text = mark + mark.join(characters) + mark
        pieces = {key: step.normalize_str(text).split(mark)[1:-1] for key, step in steps.items()}
        covered = {span for _, span in backend.pre_tokenizer.pre_tokenize_str(text)}
        inside = np.zeros(len(text), dtype=bool)
        for first, last in covered:
            inside[first:last] = True
        for k, (code, character) in enumerate(zip(some, characters, strict=True)):
            place = 2 * k + 1
            kinds[code] = (
                DROPPED * (normalizer["clean_text"] and not pieces["clean_text"][k])
                + SPACE * (normalizer["clean_text"] and pieces["clean_text"][k] == " ")
                + ACCENT * (not pieces["strip_accents"][k])
                + PUNCTUATION * ((place, place + 1) in covered)
                + BETWEEN * (not inside[place])
                + ALONE
                * (
                    normalizer["handle_chinese_chars"]
                    and pieces["handle_chinese_chars"][k] == f" {character} "
                )
            )
    return kinds


def _runs(values: np.ndarray) -> list[int]:
    """Return neighbours that are equal as their number and their value, in turn.

    >>> _runs(np.array([0, 0, 3]))
    [2, 0, 1, 3]
    """
    starts = np.flatnonzero(np.diff(values.astype(int), prepend=-1))
    lengths = np.diff(starts, append=len(values))
    return np.stack([lengths, values[starts]], axis=1).ravel().tolist()
