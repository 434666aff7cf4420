"""Words, sentences and spans of a text as groups of its tokens, from the tokenizer's offsets. NumPy only."""

from __future__ import annotations

import itertools
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import regex

from lrp_companion.checks import InputError, choose

Span = tuple[int, int]
"""Positions of the first character and of the one after the last."""
UNITS = ("token", "word", "sentence")
OF_CHATS = ("message", "document")
_MARK = regex.compile(r"[\p{M}\p{Cf}--\u200b]", regex.V1)
"""An accent, a joiner or the like, which belongs to the character before it; a space of no width is none."""
_WORD = regex.compile(  # letters and digits; what joins them: an apostrophe, a hyphen, a number's sign
    r"""MARK* [\p{L}\p{N}_] (?: [\p{L}\p{N}_] | MARK
        | (?: ['’-] | (?<=\d)[.,:/٫٬](?=\d)) (?=[\p{L}\p{N}_]) )*
    | [^\s\p{L}\p{N}_]+""".replace("MARK", _MARK.pattern),
    regex.V1 | regex.VERBOSE,
)
_SENTENCE = regex.compile(r"[^\n]*?(?:[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？]+|(?=\n)|$)")
_NAME = regex.compile(r"[\[<](?!0x[0-9A-F]{2}>).+[\]>]")  # <0xE4> is no name, but a byte
SPACES = "▁Ġ "
"""How vocabularies write a space; its token may have the place of the letter that follows."""
FURTHER, SPACE = "…", "␣"
"""How a further token of one character is shown, and a token of spaces."""


@dataclass(frozen=True)
class Units:
    """Groups of tokens, in reading order.

    Attributes
    ----------
    members : indices of the tokens of each unit.
    names : the text of each unit; for a special token its name.
    offsets : position of each unit in the text; (0, 0) for a special token.
    special : bool, shape (U,), True where the unit is a special token.
    """

    members: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    offsets: tuple[Span, ...]
    special: np.ndarray

    def __len__(self) -> int:
        return len(self.members)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the tokens of each unit: (..., T) to (..., U)."""
        return np.stack([values[..., member].sum(-1) for member in self.members], axis=-1)

    def kept_without(self, unit: int, tokens: int) -> np.ndarray:
        """Kept tokens, bool (T,), when one unit of a text is removed; -1 keeps all."""
        kept = np.ones(tokens, dtype=bool)
        if unit >= 0:
            kept[self.members[unit]] = False
        return kept

    def of_tokens(self, tokens: int) -> np.ndarray:
        """The unit of every token, (T,); -1 for a token of no unit."""
        out = np.full(tokens, -1)
        for unit, member in enumerate(self.members):
            out[member] = unit
        return out


def word_spans(text: str) -> list[Span]:
    """Positions of the words of a text: runs of letters, digits and marks, and runs of other characters.

    An apostrophe or hyphen between letters belongs to the word, as do the signs within 3.5, 10,000 and 12:30,
    and a mark or a sign without a form of its own, such as a joiner or a soft hyphen, to the character before
    it. In a script without spaces the runs count as words.

    >>> text = "It's a well-made film, 3.5 stars of 5."
    >>> [text[start:end] for start, end in word_spans(text)]
    ["It's", 'a', 'well-made', 'film', ',', '3.5', 'stars', 'of', '5', '.']
    """
    return [match.span() for match in _WORD.finditer(text)]


def sentence_spans(text: str) -> list[Span]:
    """Positions of the sentences of a text: up to `.`, `!`, `?` or `…` before a space, or a line's end.

    >>> text = "A dull plot. But what an actor!"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['A dull plot.', 'But what an actor!']
    """
    spans = (_trimmed(text, match.span()) for match in _SENTENCE.finditer(text))
    return [span for span in spans if span[0] < span[1]]


def _trimmed(text: str, span: Span) -> Span:
    """A span without the spaces at its ends."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _span(operation: str, text: str, span: Any) -> Span:
    """The position of a phrase that is in the text once, or of a pair of positions."""
    if not isinstance(span, str):
        start, end = span
        return _trimmed(text, (start, min(end, len(text))))
    count = text.count(span) if span.strip() else 0
    if count == 1:
        return _trimmed(text, (text.index(span), text.index(span) + len(span)))
    got, expected = f"the phrase {span!r}, {count} times in the text", "a phrase that is there once"
    hint = "copy it from the text, or pass (start, end)"
    raise InputError(operation, got=got, expected=expected, hint=hint)


def units_of(
    operation: str,
    unit: Any,
    *,
    tokens: Sequence[str],
    text: str,
    offsets: Sequence[Span],
    special: np.ndarray,
    follows: str = "",
    whole: bool = False,
) -> Units:
    """Group the tokens of a text; `unit` is one of `UNITS`, or a list of phrases and pairs of positions.

    A token that spans several words joins them, and a token of spaces belongs to the next word, so that words
    and sentences cover every token; a span has those inside it, not those at its ends unless it is `whole`.
    Special tokens are separate units, except with spans. Words are those of the text with what `follows` it.

    Raises
    ------
    InputError : another unit; a text without offsets; a phrase that is not in it exactly once; a span without
        a token; two spans that share one.
    """
    if isinstance(unit, str):
        choose(operation, "unit", unit, UNITS if unit in OF_CHATS else (*UNITS, *OF_CHATS))
    if unit == "token":
        names = readable(tokens, text, offsets, special)
        places = tuple(offsets) or ((0, 0),) * len(tokens)
        return Units(tuple(np.arange(len(tokens))[:, None]), names, places, np.array(special))
    if len(offsets) != len(tokens):
        got, hint = "tokens without offsets", "explain a text with a fast tokenizer, read by this version"
        raise InputError(operation, got=got, expected="the place of each token in its text", hint=hint)
    if not isinstance(unit, str):
        spans = sorted(unit if whole else [_span(operation, text + follows, span) for span in unit])
        if any(end > start for (_, end), (start, _) in itertools.pairwise(spans)):
            got, hint = f"spans that overlap: {spans}", "ask for one of them at a time"
            raise InputError(operation, got=got, expected="each character in one span", hint=hint)
        return _of_spans(operation, text, offsets, special, spans)
    spans = (word_spans if unit == "word" else sentence_spans)(text + follows)
    return _of_parts(text, tokens, offsets, special, spans)


def _within(text: str, offset: Span, spans: Sequence[Span], *, spaces: bool = False) -> list[int]:
    """The spans that a token overlaps; they are in reading order and do not overlap. A token of nothing but
    `spaces` overlaps one as others do, or none.
    """
    start, end = _trimmed(text, offset)
    if spaces and start == end:
        start, end = offset
    first = bisect_right(spans, start, key=lambda span: span[1])
    last = first
    while start < end and last < len(spans) and spans[last][0] < end:
        last += 1
    return list(range(first, last))


def _of_spans(
    operation: str, text: str, offsets: Sequence[Span], special: np.ndarray, spans: list[Span]
) -> Units:
    members: list[list[int]] = [[] for _ in spans]
    for token, offset in enumerate(offsets):
        reached = [] if special[token] else _within(text, offset, spans, spaces=True)
        if len(reached) > 1:
            got, hint = f"two spans in the token {text[slice(*offset)]!r}", "join them"
            raise InputError(operation, got=got, expected="at most one span in each token", hint=hint)
        for k in reached:
            members[k].append(token)
    for span, member in zip(spans, members, strict=True):
        if not member:
            got, hint = f"the span {span} without a token", "was the text cut to the model's length?"
            raise InputError(operation, got=got, expected="a span with a token in it", hint=hint)
    names = tuple(text[start:end].strip() or SPACE for start, end in spans)
    places = tuple((start, min(end, len(text))) for start, end in spans)  # a part of it may follow
    return Units(tuple(map(np.array, members)), names, places, np.zeros(len(spans), dtype=bool))


def _of_parts(
    text: str, tokens: Sequence[str], offsets: Sequence[Span], special: np.ndarray, spans: list[Span]
) -> Units:
    """Units of words or sentences: neighbouring tokens that overlap the same span."""
    reached = [
        [] if alone else _within(text, offset, spans) for offset, alone in zip(offsets, special, strict=True)
    ]
    places = range(len(tokens))
    if places and not special[-1] and not reached[-1]:
        reached[-1] = [k for k, (_, end) in enumerate(spans) if end > len(text)][:1]  # what follows
    for k in (*reversed(places[:-1]), *places):  # a token of spaces goes with the next one, else the last one
        beside = k + 1 if k + 1 < len(tokens) and reached[k + 1] else k - 1
        if not reached[k] and not special[k] and beside >= 0:
            reached[k] = reached[beside]
    members: list[list[int]] = []
    last = -1
    for k in places:
        if reached[k] and last >= reached[k][0]:
            members[-1].append(k)
            last = max(last, *reached[k])
        else:
            members.append([k])
            last = reached[k][-1] if reached[k] else -1
    names, where = [], []
    for member in members:
        start, end = _trimmed(text, (offsets[member[0]][0], max(offsets[k][1] for k in member)))
        while start < end < len(text) and _MARK.match(text, end):
            end += 1  # marks that the tokenizer strips belong to their letter
        alone = special[member[0]]
        names.append(tokens[member[0]] if alone else text[start:end] or SPACE)
        where.append((0, 0) if alone else (start, end))
    marks = np.array([bool(special[member[0]]) for member in members])
    return Units(tuple(map(np.array, members)), tuple(names), tuple(where), marks)


def readable(
    tokens: Sequence[str], text: str, offsets: Sequence[Span], special: np.ndarray
) -> tuple[str, ...]:
    """Return tokens in readable form: the text itself where a vocabulary spells bytes or spaces.

    A token that equals its text, apart from case and accents, does not change; nor do `##ing` and names such
    as [UNK]. Each character is shown once: a further token of it is shown as `…`, one of the space as `␣`.

    >>> offsets = [(0, 0), (0, 1), (0, 2), (2, 3), (2, 3)]
    >>> readable(["<s>", "▁", "ca", "Ã", "¼"], "caü", offsets, np.array([True, *[False] * 4]))
    ('<s>', '␣', 'ca', 'ü', '…')
    """
    if len(offsets) != len(tokens):
        return tuple(tokens)
    out, shown, last = [], 0, 0
    for token, offset, alone in zip(tokens, offsets, special, strict=True):
        start, end = _trimmed(text, offset)
        if start < last and not alone:  # the second text comes first, or a text comes twice
            shown = 0
        spelled = start >= shown and folded(token.removeprefix("##")) == folded(text[start:end])
        if alone or _NAME.fullmatch(token) or spelled:
            out.append(token)
        elif start == end or not token.strip(SPACES):
            out.append(SPACE)
            end = start
        else:
            out.append(text[max(start, shown) : end] or FURTHER)
        shown, last = max(shown, end), start
    return tuple(out)


def folded(text: str) -> str:
    """Without case and accents, as tokenizers compare."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in letters if not unicodedata.combining(c))
