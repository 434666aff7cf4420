"""Texts and pairs of texts as a model reads them: token ids, token types, and special tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lrp_companion.checks import InputError, ModelError, is_whole, reason_of
from lrp_companion.schema import Texts
from lrp_companion.words import Span

Message = Mapping[str, Any]
"""One turn of a talk, with its `role` and `content`, as chat templates take it."""
Text = str | tuple[str, str] | Sequence[int] | Sequence[Message]
"""A text; a pair of texts that the classifier reads together; token ids; or the messages of a talk."""
MOST_TEXTS = 1_000_000
SPACE_SIGN, BROKEN = "▁", "\ufffd"
"""How vocabularies of SentencePiece spell a space, and what stands for bytes that are no character."""
TRIES = 1_000
"""How often a text is read again because another thread has set how the same tokenizer cuts and pads."""
TEXT_OR_PAIR = "a string, a pair (first, second) of strings, token ids, messages, or a list of these"


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it; `special` is True where a token is special. Shape (T,) each.

    Attributes
    ----------
    text, pair : the text; for a pair the first and the second text, else `pair` is None.
    types : token types, 0 or 1; the model sums their embedding with those of words and positions.
    whole : tokens before truncation.
    read : the place that is explained, if a model reads one: that of a masked token, of a token with classes,
        or of the last token where that is not the last of the text.
    bare : whether this is all that the model reads: no special tokens were added to `text`.
    typed : whether the tokenizer's answer has token types, which some networks add where they have no table.
    along : what texts share that one forward pass serves: beginnings of one text, or its places.
    offsets : the place of each token in `joined`, (start, end) in characters, (0, 0) if special; () where a
        tokenizer gives none, or where ids are not those of their text.
    follows : what stands after a beginning of a text, so that its words are those of the whole.
    """

    text: str
    input_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: np.ndarray
    pair: str | None = None
    types: tuple[int, ...] = ()
    whole: int = 0
    read: int | None = None
    bare: bool = False
    typed: bool = False
    along: object = None
    offsets: tuple[Span, ...] = ()
    follows: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", self.types or (0,) * len(self.input_ids))
        object.__setattr__(self, "whole", self.whole or len(self.input_ids))

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def joined(self) -> str:
        """The text; of a pair both texts, each on its line."""
        return self.text if self.pair is None else f"{self.text}\n{self.pair}"

    @property
    def details(self) -> dict[str, str]:
        """What a record says of its input beside tokens: of a text only that it was cut."""
        return {"cut": f"{len(self)} of {self.whole} tokens"} if self.cut else {}

    @property
    def cut(self) -> bool:
        """Whether the model reads a part of the text only."""
        return len(self) < self.whole

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that differ where texts do."""
        return self.input_ids

    @property
    def source(self) -> Text:
        """What was encoded: the text, the pair, or the token ids."""
        if self.bare:
            return Ids(self.input_ids, self.types if self.typed else ())
        return self.text if self.pair is None else (self.text, self.pair)


def token_types(texts: Sequence[EncodedText], device: torch.device) -> Tensor | None:
    """Token types (B, T), padded on the right; None where all are 0."""
    if not any(any(text.types) for text in texts):
        return None
    width = max(len(text) for text in texts)
    rows = [[*text.types, *[0] * (width - len(text))] for text in texts]
    return torch.tensor(rows, device=device)


def places_read(texts: Sequence[EncodedText], device: torch.device) -> Tensor | None:
    """The places that are explained, (B,); None if the model determines what it reads.

    Where it does for some texts only, it reads the last token of the others.
    """
    if all(text.read is None for text in texts):
        return None
    places = [len(text) - 1 if text.read is None else text.read for text in texts]
    return torch.tensor(places, device=device)


def listed(texts: Any) -> list[Text]:
    """The inputs of an argument, checked; a tuple of strings is one pair (but `Texts` of a data set are not),
    a list of numbers one text's ids, a list of messages one talk. What a tokenizer returned counts as the ids
    in it.

    Raises
    ------
    InputError : no texts; another type; a text that is empty or that UTF-8 cannot hold.

    >>> listed(("a film", "of grace")), listed(["a film", "of grace"]), listed([[2, 7, 3], [2, 3]])
    ([('a film', 'of grace')], ['a film', 'of grace'], [[2, 7, 3], [2, 3]])
    """
    texts = _rows_of(texts)
    if isinstance(texts, Ids) or (isinstance(texts, (str, tuple)) and not isinstance(texts, Texts)):
        texts = [texts]
    # an array of one number has no items, and those of a frame are its names
    no_list = isinstance(texts, (bytes, Mapping, Set)) or getattr(texts, "ndim", 1) != 1
    if no_list or not isinstance(texts, Iterable):
        got, hint = f"texts of type {type(texts).__name__}", "pass strings, or pairs as tuples of two strings"
        raise InputError("encode", got=got, expected=TEXT_OR_PAIR, hint=hint)
    items = [_rows_of(item) for item in itertools.islice(texts, MOST_TEXTS + 1)]
    if not 0 < len(items) <= MOST_TEXTS:
        got, hint = f"more than {MOST_TEXTS} texts" if items else "no texts", "pass one, or a part at a time"
        raise InputError("encode", got=got, expected="as many as fit into memory", hint=hint)
    if is_ids(items) or is_talk(items):
        items = [items]
    for k, item in enumerate(items):
        pair = isinstance(item, tuple) and not isinstance(item, Texts)
        if pair and len(item) != 2:
            got, hint = f"text {k}, a tuple of {len(item)}", "put separate texts into a list"
            raise InputError("encode", got=got, expected="a pair (first, second)", hint=hint)
        sides = (
            zip((", first of its pair", ", second of its pair"), item, strict=True) if pair else [("", item)]
        )
        for name, text in () if is_ids(item) or is_talk(item) else sides:
            got, expected = f"text {k}{name} of type {type(text).__name__}", "a string"
            if isinstance(text, str):
                got, expected = f"text {k}{name}, which is empty or only whitespace", "a text with a word"
            if not isinstance(text, str) or not text.strip():
                raise InputError("encode", got=got, expected=expected, hint="leave it out, or write a word")
    return items


class Ids(list):
    """Token ids as a tokenizer answered them: with their types, and how much padding stood before them."""

    def __init__(self, ids: Iterable[int], types: Iterable[int] = (), before: int = 0) -> None:
        super().__init__(ids)
        self.types, self.before = tuple(types), before


def _rows_of(given: Any) -> Any:
    """Ids in the form that `listed` reads: those of a tokenizer's answer, without padding, or of an array."""
    if isinstance(given, Mapping) and "input_ids" in given:
        ids, *sides = (_rows_of(given.get(k)) for k in ("input_ids", "attention_mask", "token_type_ids"))
        one = is_ids(ids)
        try:
            rows: Any = [ids] if one else ids if isinstance(ids, list) else None
            columns = [[None] * len(rows) if side is None else [side] if one else side for side in sides]
            made = [_unpadded(*row) for row in zip(rows, *columns, strict=True)]
        except (IndexError, TypeError, ValueError):
            got, hint = "a tokenizer's answer of another form", "leave tokens out, or remove them by a method"
            expected = "lists of ids, for each a mask of 1 from the first to the last token, and types"
            raise InputError("encode", got=got, expected=expected, hint=hint) from None
        return made[0] if one else made
    whole = str(getattr(given, "dtype", "")).removeprefix("torch.").startswith(("int", "uint", "bool"))
    return given.tolist() if whole and getattr(given, "ndim", None) else given


def _unpadded(ids: list[int], mask: Any, types: Any) -> Ids:
    """Ids where a mask is 1, with their types; padding stands at one end or both."""
    both = list(zip(ids, ids if types is None else types, mask or [1] * len(ids), strict=True))
    kept = [place for place, (*_, one) in enumerate(both) if one]
    if kept[-1] - kept[0] + 1 != len(kept):
        raise ValueError("a gap")
    read = both[kept[0] : kept[-1] + 1]
    return Ids((i for i, *_ in read), () if types is None else (kind for _, kind, _ in read), kept[0])


def is_ids(item: Any) -> bool:
    """Whether this is a list of token ids."""
    return isinstance(item, list) and bool(item) and all(map(is_whole, item))


def is_talk(item: Any) -> bool:
    """Whether this is a list of messages."""
    return isinstance(item, list) and bool(item) and all(isinstance(one, Mapping) for one in item)


def is_one(given: Any) -> bool:
    """Whether this is one text, pair, talk or row of ids, and no list of them."""
    given = _rows_of(given)
    one = isinstance(given, (str, tuple)) and not isinstance(given, Texts)
    return one or is_ids(given) or is_talk(given)


def _check_pair(k: int, item: tuple) -> None:
    """Refuse a tuple that is not a pair of texts."""
    if len(item) != 2:
        got, hint = f"text {k}, a tuple of {len(item)}", "put separate texts into a list"
        raise InputError("encode", got=got, expected="a pair (first, second)", hint=hint)
    for place, text in zip(("first", "second"), item, strict=True):
        _check_text(f"text {k}, {place} of its pair,", text)


def _check_text(name: str, text: object) -> None:
    """Refuse a text unless it is a string with something in it that UTF-8 can hold."""
    name = name.removesuffix(",")
    if not isinstance(text, str):
        got, expected = f"{name} of type {type(text).__name__}", "a string"
        hint = "pass strings only; a pair is a tuple of two strings"
    elif not text.strip():
        got, expected = f"{name}, which is empty or only whitespace", "a text with at least one word"
        hint = "leave it out or write a word"
    elif any("\ud800" <= c <= "\udfff" for c in text):
        got, expected = f"{name} with a lone surrogate", "valid Unicode"
        hint = "decode the text as UTF-8 first"
    else:
        return
    raise InputError("encode", got=got, expected=expected, hint=hint)


@dataclass(frozen=True)
class Reader:
    """A tokenizer with the model's limits: `max_tokens`, the number of token `types` (0: no table of them),
    and the size of the `vocabulary` (None: not known).

    With `reads_mask` a text has one mask token, which is explained. A causal classifier reads the last token
    whose id is not `skipped`, wherever that is. `prompts` are talks that a model is to continue. Where a
    network `counts_padding`, the positions of a text depend on what stands before it.
    """

    tokenizer: Any
    max_tokens: int
    types: int = 0
    reads_mask: bool = False
    vocabulary: int | None = None
    skipped: int | None = None
    prompts: bool = False
    counts_padding: bool = False

    def encode(self, texts: Any, *, truncate: bool = False) -> list[EncodedText]:
        """Tokenise texts and pairs, see `Classifier.encode`."""
        return [self._encoded(k, item, truncate=truncate) for k, item in enumerate(listed(texts))]

    def _encoded(self, k: int, item: Any, *, truncate: bool) -> EncodedText:
        """Text k as the tokenizer gives it; if it is beyond `max_tokens` as the tokenizer cuts it. Token ids
        have places if they are those of the text that they spell.
        """
        bare, most = isinstance(item, list), self.max_tokens
        if is_ids(item):
            row = Row([int(i) for i in item], [], tuple(getattr(item, "types", ())))
            if self.counts_padding and isinstance(item, Ids) and item.before:
                got, hint = f"text {k} with padding before it", "pass the text alone, or pad it at its end"
                expected = "no padding before a text, where the network counts positions through it"
                raise InputError("encode", got=got, expected=expected, hint=hint)
        else:
            sides = (self._templated(k, item),) if bare else item if isinstance(item, tuple) else (item,)
            row = tokenised(self.tokenizer, sides, bare=bare)
        self.check_ids(k, row.ids)
        whole = self._length(k, len(row.ids), truncate=truncate)
        if is_ids(item):
            left = getattr(self.tokenizer, "truncation_side", "right") == "left"
            part = slice(max(0, whole - most), None) if left else slice(most)
            ids, types = row.ids[part], row.types[part]
            sides = (self.tokenizer.decode(ids, clean_up_tokenization_spaces=False),)
            again = tokenised(self.tokenizer, sides, bare=True)
            row = Row(ids, [], types, again.spans if again.ids == ids else ())
        elif whole > most:
            row = tokenised(self.tokenizer, sides, bare=bare, max_length=most)
        if bare:  # a template has the special tokens already, and they are no words
            control = control_ids(self.tokenizer)
            special = [int(i in control) for i in row.ids]
            spans = [(0, 0) if mark else span for mark, span in zip(special, row.spans, strict=False)]
            row = row._replace(special=special, spans=tuple(spans))
        if all(row.special) or (len(sides) == 2 and row.sides not in ((), (0, 1))):
            got, hint = f"text {k} with no token but special ones", "write a word"
            raise InputError("encode", got=got, expected="a text with at least one word", hint=hint)
        if not bare:
            self._check_special(k, row.ids, row.special)
        self._check_types(k, row.types or (0,))
        read = self._mask_place(k, row.ids) if self.reads_mask else None
        if self.skipped is not None and row.ids[-1] == self.skipped:
            others = [place for place, i in enumerate(row.ids) if i != self.skipped]
            read = others[-1] if others else 0
        return EncodedText(
            sides[0],
            tuple(row.ids),
            tuple(token_texts(self.tokenizer, row.ids)),
            np.array(row.special, dtype=bool),
            pair=sides[1] if len(sides) == 2 else None,
            types=row.types,
            whole=whole,
            read=read,
            bare=bare,
            typed=bool(row.types),
            offsets=row.spans,
        )

    def _templated(self, k: int, talk: Any) -> str:
        """The text that the tokenizer's chat template makes of messages; for a model that continues a text,
        with the beginning of the answer, or up to the end of the answer that the talk begins.
        """
        hint = "pass the text, or the token ids of a template of your own"
        if not all({"role", "content"} <= set(message) for message in talk):
            got, expected = f"text {k}, a message without its role or its content", "both in each message"
            hint = "such as {'role': 'user', 'content': 'a text'}"
            raise InputError("encode", got=got, expected=expected, hint=hint)
        begun = talk[-1]["role"] == "assistant"
        asked = {"continue_final_message" if begun else "add_generation_prompt": self.prompts}
        try:
            return str(self.tokenizer.apply_chat_template(talk, tokenize=False, **asked))
        except Exception as error:  # templates are programs, which raise what they like
            got = f"text {k} of messages that the chat template refuses ({reason_of(error, 150)})"
            expected = "messages such as {'role': 'user', 'content': 'a text'}"
            raise InputError("encode", got=got, expected=expected, hint=hint) from None

    def _length(self, k: int, whole: int, *, truncate: bool) -> int:
        """The number of tokens of text k, if it may be so long."""
        if whole <= self.max_tokens or truncate:
            return whole
        got, expected = f"text {k} of {whole} tokens", f"at most {self.max_tokens} tokens"
        hint = "shorten it, or pass truncate=True to cut it as its tokenizer does"
        raise InputError("encode", got=got, expected=expected, hint=hint)

    def check_ids(self, k: int, ids: Sequence[int]) -> None:
        """Refuse ids of text k that the model has no embedding for."""
        wrong = next((i for i in ids if self.vocabulary is not None and not 0 <= i < self.vocabulary), None)
        if wrong is None:
            return
        assert self.vocabulary is not None
        got, expected = f"text {k} with the token id {wrong}", f"ids from 0 to {self.vocabulary - 1}"
        hint = "take the tokenizer that the model was trained with"
        raise InputError("encode", got=got, expected=expected, hint=hint)

    def _mask_place(self, k: int, ids: Sequence[int]) -> int:
        """The position of the one mask token of a text."""
        mask = self.tokenizer.mask_token_id
        if list(ids).count(mask) == 1:
            return list(ids).index(mask)
        got = f"text {k} with {list(ids).count(mask)} mask tokens"
        expected = f"one {self.tokenizer.mask_token}, the token to predict"
        hint = f"such as 'The capital of France is {self.tokenizer.mask_token}.'"
        raise InputError("encode", got=got, expected=expected, hint=hint)

    def _check_special(self, k: int, ids: Sequence[int], special: Sequence[int]) -> None:
        """Refuse a special token that the text itself spells: the model would see an end inside the text.

        An unknown word is not a special token here, nor is a marker that somebody added, such as [E1].
        """
        reserved = reserved_ids(self.tokenizer, masked=self.reads_mask)
        spelled = [i for i, mark in zip(ids, special, strict=True) if i in reserved and not mark]
        if spelled:
            (name,) = token_texts(self.tokenizer, spelled[:1])
            got, expected = f"text {k} with the special token {name} in it", "text without special tokens"
            hint = "pass a pair as a tuple (first, second), a prompt as messages or as token ids"
            raise InputError("encode", got=got, expected=expected, hint=hint)

    def _check_types(self, k: int, types: Sequence[int]) -> None:
        if self.types and max(types) >= self.types:
            got, expected = f"text {k} with token type {max(types)}", f"token types below {self.types}"
            hint = "take the tokenizer that the model was trained with, or leave out token types"
            raise InputError("encode", got=got, expected=expected, hint=hint)


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Tokens as text: " Paris" for `ĠParis`, where a vocabulary spells bytes, and for `▁Paris`. A token that
    was added, a part of a character, and the `##` of a further piece stay as the vocabulary has them; `<k>`
    is an id without a token.
    """
    names = [
        name or f"<{i}>" for i, name in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)
    ]
    decoder = repr(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None))
    added = set(getattr(tokenizer, "added_tokens_decoder", ()))
    if "ByteLevel(" in decoder:
        from tokenizers.decoders import ByteLevel

        read = [ByteLevel().decode([name]) for name in names]
    elif SPACE_SIGN in decoder:
        read = [name.replace(SPACE_SIGN, " ") for name in names]
    else:
        return names
    return [
        name if i in added or BROKEN in text else text for i, name, text in zip(ids, names, read, strict=True)
    ]


def reserved_ids(tokenizer: Any, *, masked: bool = False) -> set[int]:
    """Ids of the tokens that no text may spell: those that begin, end, pad or mask texts; where a `masked`
    token is read, not the last.
    """
    names = ["bos", "eos", "cls", "sep", "pad", *([] if masked else ["mask"])]
    ids = [getattr(tokenizer, f"{name}_token_id", None) for name in names]
    return {i for i in ids if i is not None and i != tokenizer.unk_token_id}


def control_ids(tokenizer: Any) -> set[int]:
    """Ids of the tokens that a tokenizer marks as special, those that were added to it included; an unknown
    word is a word.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    marked = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    return marked - {tokenizer.unk_token_id}


class Row(NamedTuple):
    """What a tokenizer makes of a text or a pair: ids, which of them it added, token types, places in the
    joined texts ((0, 0) if special), and which sides have a token; () where it tells nothing.
    """

    ids: list[int]
    special: list[int]
    types: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()
    sides: tuple[int, ...] = ()


def tokenised(
    tokenizer: Any, sides: Sequence[str], *, max_length: int | None = None, bare: bool = False
) -> Row:
    """What a tokenizer makes of a text or a pair: whole, or cut as it cuts to `max_length`; if `bare` without
    special tokens. Fast tokenizers keep how they cut and pad as state, which other threads set, too, so
    the result is checked.

    Raises
    ------
    ModelError : a tokenizer that fails.
    """
    options: dict[str, Any] = {
        "add_special_tokens": not bare,
        "return_special_tokens_mask": True,
        "verbose": False,
    }
    options |= {"truncation": max_length is not None, "max_length": max_length}
    try:
        for _ in range(TRIES):
            read = tokenizer(*sides, return_offsets_mapping=tokenizer.is_fast, **options)
            parts = read.encodings or ()
            whole = all(len(one) == max_length if max_length else not one.overflowing for one in parts)
            if whole and all(all(one.attention_mask) for one in parts):
                break
        else:
            raise RuntimeError("other threads change it at the same time")
    except BaseException as error:
        # Of Rust: an expression of its own that backtracks without end makes it panic, which no Exception is.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = reason_of(error, 150)
        got, hint = f"a text on which the tokenizer fails ({reason})", "check tokenizer.json, or the text"
        raise ModelError("encode", got=got, expected="token ids", hint=hint) from None
    row = Row(read["input_ids"], read["special_tokens_mask"], tuple(read.get("token_type_ids", ())))
    if not read.is_fast:
        return row
    of = read.sequence_ids(0)
    shift = {None: 0, 0: 0, 1: len(sides[0]) + 1}
    moved = zip(read["offset_mapping"], of, strict=True)
    spans = tuple((start + shift[side], end + shift[side]) for (start, end), side in moved)
    return row._replace(spans=spans, sides=tuple(sorted({*of} - {None})))
