"""The units that a method removes at once: tokens, words, sentences, or given spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.offsets import offsets_of
from lrp_companion.words import Units, check_unit, units_of


def units_in(clf: Classifier, texts: Sequence[EncodedText], unit: Any) -> list[Units]:
    """The units of each text; `unit` is "token", "word", "sentence", or a list of spans (for several texts,
    one list each).

    Raises
    ------
    InputError : another unit; spans that a text does not have; a text without offsets.
    """
    check_unit("attribute", unit)
    if clf.reads_images and unit != "token":
        got, expected = f"unit {unit!r} with {clf.card.name!r}, which reads images", "unit 'token': a patch"
        raise InputError("attribute", got=got, expected=expected, hint="leave it out")
    if isinstance(unit, str):
        asked: list[Any] = [unit] * len(texts)
    elif len(texts) == 1 and not _lists_of_spans(unit):
        asked = [unit]
    elif len(unit) == len(texts) and _lists_of_spans(unit):
        asked = list(unit)
    else:
        got, hint = f"unit {unit!r} for {len(texts)} texts", "pass one list of spans per text"
        raise InputError("attribute", got=got, expected="spans for each text", hint=hint)
    return [_units(clf, text, one) for text, one in zip(texts, asked, strict=True)]


def _lists_of_spans(unit: Sequence[Any]) -> bool:
    """Whether the entries are lists of spans and not spans."""
    return all(isinstance(one, (list, tuple)) and one and not isinstance(one[0], int) for one in unit)


def _units(clf: Classifier, text: EncodedText, unit: Any) -> Units:
    joined, offsets = ("", ()) if unit == "token" else offsets_of(clf, text)
    return units_of("attribute", unit, tokens=text.tokens, text=joined, offsets=offsets, special=text.special)


def unit_choice(unit: Any) -> dict[str, str]:
    """A record's choice of unit; empty for tokens.

    >>> unit_choice("token"), unit_choice("word"), unit_choice(["rare grace"])
    ({}, {'unit': 'word'}, {'unit': 'span'})
    """
    if not isinstance(unit, str):
        return {"unit": "span"}
    return {} if unit == "token" else {"unit": unit}
