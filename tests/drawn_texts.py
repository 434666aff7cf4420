"""Texts on which the page's tokenizer is compared with Python's."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
STRETCHES = (
    (0x20, 0x7F),
    (0x20, 0x7F),
    (0x00, 0x24F),
    (0x250, 0x3FF),
    (0x400, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xDFF),
    (0x0E00, 0x10FF),
    (0x1100, 0x11FF),
    (0x1D00, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFFFD),
    (0x10000, 0x12FFF),
    (0x16000, 0x1E8FF),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x2FA1F),
    (0xE0000, 0xE01EF),
    (0x0300, 0x036F),
)
"""Ranges of characters that the texts are drawn from: many scripts, marks, controls, emoji."""
HARD = (
    "e\u0301a\u0323\u0302 a\u0302\u0323",
    "İSTANBUL ẞ ΣΑΣ ﬁ Ǆ",
    "\u3400\u4e00字\U00020000",
    "한국어 각",
    "👨\u200d👩\u200d👧 🇩🇪 ©\ufe0f",
    "a\u200bb\xad\ufeffc\u202ed\u2066",
    "x\x00\x07\x1b[31m\x85\x1c",
    "שלום עולם",
    "فيلم رائع",
    "\u1dfa\ua953\u0f71\U0001d165\U0001d16d\u302e",
    "½ ² Ⅷ ＦＵＬＬ",
    "\ue000 \U000f0000 \u0378 \ufffd",
)


def texts_to_try(data: dict[str, Any], count: int, *, seed: int = 0) -> list[str]:
    """Texts for a tokenizer to be tried on: characters of many scripts, pieces of the vocabulary, added
    tokens alone, with neighbours and misspelled, words that are too long, and white space of every kind.
    """
    draw = np.random.default_rng(seed)
    words = [token for token in data["vocabulary"] if token]
    special = [data["vocabulary"][token["id"]] for tokens in data["added"] for token in tokens] or words[:1]

    def drawn(items: Any) -> str:
        return str(items[draw.integers(len(items))])

    def some(least: int, most: int, one: Callable[[], str]) -> str:
        return "".join(one() for _ in range(draw.integers(least, most)))

    def character() -> str:
        low, high = STRETCHES[draw.integers(len(STRETCHES))]
        code = int(draw.integers(low, high))
        return " " if 0xD800 <= code < 0xE000 else chr(code)

    def misspelled() -> str:
        token = drawn(special)
        at = int(draw.integers(len(token) + 1))
        return token[:at] + (character() if draw.random() < 0.5 else drawn(["", " ", "x"])) + token[at:]

    makers: list[Callable[[], str]] = [
        lambda: some(1, 6, character),
        lambda: drawn(words).removeprefix(data["prefix"]),
        lambda: some(1, 4, lambda: drawn(words).removeprefix(data["prefix"])),
        lambda: drawn(words).upper(),
        lambda: drawn(special) if draw.random() < 0.3 else misspelled(),
        lambda: drawn(HARD),
        lambda: drawn(words)[:3] * int(draw.integers(1, 60)),
        lambda: drawn(BLANKS),
        lambda: some(1, 4, character),
        lambda: unicodedata.normalize("NFD", drawn(words)) + chr(int(draw.integers(0x300, 0x370))),
    ]

    def piece() -> str:
        return makers[draw.integers(len(makers))]() + drawn(["", " ", " "])

    return [*HARD, *(some(1, 9, piece) for _ in range(count - len(HARD)))]
