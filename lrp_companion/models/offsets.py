"""The position of each token in its text, as a fast tokenizer gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrp_companion.models.texts import EncodedText, tokenised
from lrp_companion.words import Span

if TYPE_CHECKING:
    from lrp_companion.models.pretrained import Classifier


def offsets_of(clf: Classifier, text: EncodedText) -> tuple[str, tuple[Span, ...]]:
    """Return a text and the position of each token in it, (start, end) in characters; (0, 0) if special.

    The texts of a pair are joined, each on its line. If the tokenizer gives no positions, or the ids are not
    those of the text, there are none: `()`.
    """
    if clf.reads_images:
        return "", ()
    sides = [text.text] if text.pair is None else [text.text, text.pair]
    joined = "\n".join(sides)
    if not getattr(clf.tokenizer, "is_fast", False):
        return joined, ()
    ids, offsets = _read(clf.tokenizer, text, sides)
    return joined, tuple(offsets) if tuple(ids) == text.input_ids else ()


def _read(tokenizer: Any, text: EncodedText, sides: list[str]) -> tuple[list[int], list[Span]]:
    """Ids and offsets, read again; those of the second text continue after the first."""
    options: dict[str, Any] = {"return_offsets_mapping": True, "add_special_tokens": not text.bare}
    options["max_length"] = len(text) if text.cut else None
    read = tokenised(tokenizer, *([side] for side in sides), **options)
    shift = {None: 0, 0: 0, 1: len(sides[0]) + 1}
    moved = zip(read["offset_mapping"][0], read.sequence_ids(0), strict=True)
    spans = [(start + shift[k], end + shift[k]) for (start, end), k in moved]
    if text.bare:  # the template's special tokens are no words
        spans = [(0, 0) if mark else span for span, mark in zip(spans, text.special, strict=False)]
    return list(read["input_ids"][0]), spans
