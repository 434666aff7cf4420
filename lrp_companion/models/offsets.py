"""The position of each token in its text, as a fast tokenizer gives it."""

from __future__ import annotations

from typing import Any

from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.words import Span


def offsets_of(clf: Classifier, text: EncodedText) -> tuple[str, tuple[Span, ...]]:
    """Return a text and the position of each token in it, (start, end) in characters; (0, 0) if special.

    The texts of a pair are joined, each on its line. If the tokenizer gives no positions, or the ids are not
    those of the text, there are none: `()`.
    """
    if clf.reads_images:
        return "", ()
    first, second = text.text, getattr(text, "pair", None)
    sides = [first] if second is None else [first, second]
    if not getattr(clf.tokenizer, "is_fast", False):
        return "\n".join(sides), ()
    ids, offsets = _read(clf.tokenizer, sides)
    if len(ids) > len(text):  # a text that was cut
        if len(sides) == 2:
            ids, offsets = _read(clf.tokenizer, sides, truncation="longest_first", max_length=len(text))
        else:
            ids, offsets = ([*row[: len(text) - 1], row[-1]] for row in (ids, offsets))
    return "\n".join(sides), tuple(offsets) if tuple(ids) == text.input_ids else ()


def _read(tokenizer: Any, sides: list[str], **cut: Any) -> tuple[list[int], list[Span]]:
    """Ids and offsets; those of the second text continue after the first."""
    options = {"truncation": False, "verbose": False, "return_offsets_mapping": True, **cut}
    read = tokenizer(*([side] for side in sides), **options)
    shift = {None: 0, 0: 0, 1: len(sides[0]) + 1}
    moved = zip(read["offset_mapping"][0], read.sequence_ids(0), strict=True)
    return list(read["input_ids"][0]), [(start + shift[k], end + shift[k]) for (start, end), k in moved]
