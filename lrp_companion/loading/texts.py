"""Texts and pairs of texts as a model reads them: token ids, token types, and special tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lrp_companion.checks import InputError, is_whole, shown
from lrp_companion.schema import Texts
from lrp_companion.words import Span

Message = Mapping[str, Any]
"""One turn of a chat, with its `role` and `content`, as chat templates take it."""
Text = str | tuple[str, str] | Sequence[int] | Sequence[Message]
"""A text; a pair of texts that the classifier reads together; token ids; or the messages of a chat."""
SPACE_SIGN, BROKEN = "▁", "\ufffd"
"""How vocabularies of SentencePiece spell a space, and what stands for bytes that are no character."""
LEXED = ("name", "operator", "variable_begin", "block_begin")
"""Parts of a template among which the names are that it reads."""
MARK = "\ue000"
"""A character of private use."""
TRIES = 1_000
"""How often a text is read again because another thread has set how the same tokenizer cuts and pads."""
TEXT_OR_PAIR = "a string, a pair (first, second) of strings, token ids, messages, or a list of these"


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it; `special` is True where a token is special. Shape (T,) each.

    Attributes
    ----------
    types : token types, 0 or 1; the model sums their embedding with those of words and positions.
    text, pair : the text; for a pair the first and the second text, else `pair` is None.
    whole : number of tokens, untruncated; 0 where nothing can be cut.
    details : what a record says of its input beside tokens.
    read : index of the token that is explained, if a model reads one: a masked token, a token with classes,
        or the last token that is not padding.
    bare : whether no special tokens were added to `text`.
    typed : whether the tokenizer's answer has token types, which some networks add where they have no table.
    along : an object; texts with the same one are explained from one forward pass.
    offsets : (start, end) in characters of each token in `joined`, (0, 0) if special; () where a tokenizer
        gives none, or where ids are not those of their text.
    follows : the text after a prompt, which completes the prompt's last word.
    chat, template : messages, and further options of their chat template.
    """

    text: str
    input_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: np.ndarray
    types: tuple[int, ...]
    pair: str | None = None
    whole: int = 0
    details: Mapping[str, str] = field(default_factory=dict)
    read: int | None = None
    bare: bool = False
    typed: bool = False
    along: object = None
    offsets: tuple[Span, ...] = ()
    follows: str = ""
    chat: Sequence[Message] = ()
    template: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def joined(self) -> str:
        """The text; of a pair both texts, each on its line."""
        return self.text if self.pair is None else f"{self.text}\n{self.pair}"

    @property
    def key(self) -> tuple[int, ...]:
        """The token ids."""
        return self.input_ids

    @property
    def source(self) -> Text:
        """What was encoded: the text, the pair, or the token ids."""
        if self.bare:
            return list(self.input_ids)
        return self.text if self.pair is None else (self.text, self.pair)


def beside_ids(texts: Sequence[EncodedText], device: torch.device) -> dict[str, Tensor | None]:
    """What a batch has besides ids and mask: "types", token types (B, T) padded on the right, None where all
    are 0; "place", indices (B,) of the tokens that are explained, the last one where a text names none, and
    None if no text names one.
    """
    types: Tensor | None = None
    if any(any(text.types) for text in texts):
        width = max(len(text) for text in texts)
        rows = [[*text.types, *[0] * (width - len(text))] for text in texts]
        types = torch.tensor(rows, device=device)
    if all(text.read is None for text in texts):
        return {"types": types, "place": None}
    places = [len(text) - 1 if text.read is None else text.read for text in texts]
    return {"types": types, "place": torch.tensor(places, device=device)}


def kind_of(given: Any) -> tuple[str, Any]:
    """What one input is, and the input: a "text"; a "pair", a tuple of strings (but `Texts` of a data set are
    several texts); "ids", a list or an array of whole numbers, as a list; a "chat", a list of messages; ""
    for several inputs and for anything else.
    """
    if isinstance(given, str):
        return "text", given
    if str(getattr(given, "dtype", "")).removeprefix("torch.").startswith(("int", "uint")) and given.ndim:
        given = given.tolist()
    if isinstance(given, tuple) and given and not isinstance(given, Texts):
        return "pair", given
    if isinstance(given, list) and given:
        if all(map(is_whole, given)):
            return "ids", given
        if all(isinstance(one, Mapping) for one in given):
            return "chat", given
    return "", given


@dataclass(frozen=True)
class Reader:
    """A tokenizer with the model's limits: `max_tokens`, and the size of the `vocabulary` (None: not known).

    With `reads_mask` a text has one mask token, which is explained. A causal classifier reads the last token
    whose id is not `skipped`. `prompts` are chats that a model is to continue; `template` has further options
    of the chat template.
    """

    tokenizer: Any
    max_tokens: int
    reads_mask: bool = False
    vocabulary: int | None = None
    skipped: int | None = None
    prompts: bool = False
    template: Mapping[str, Any] | None = None

    def encode(self, texts: Any, *, truncate: bool = False) -> list[EncodedText]:
        """Tokenise texts and pairs, see `Classifier.encode`."""
        kind, texts = kind_of(texts)
        several = isinstance(texts, Iterable) and not isinstance(texts, (bytes, Mapping, Set))
        one = kind or not several or getattr(texts, "ndim", 1) != 1
        items = [(kind, texts)] if one else [kind_of(item) for item in texts]
        if not items:
            raise InputError("encode", got="no texts", expected="one text or more", hint="pass a text")
        for k, (kind, item) in enumerate(items):
            sides = item if kind == "pair" and len(item) == 2 else (item,)
            strings = all(isinstance(side, str) for side in sides)
            if not (kind in ("ids", "chat") or (strings and all(side.strip() for side in sides))):
                got = "which is empty or only whitespace" if strings else f"of type {type(item).__name__}"
                hint = "write a word, or leave it out; put separate texts into a list"
                raise _refused(k, got, TEXT_OR_PAIR, hint)
        return [self._encoded(k, *item, truncate=truncate) for k, item in enumerate(items)]

    def _encoded(self, k: int, kind: str, item: Any, *, truncate: bool) -> EncodedText:
        """Text k as the tokenizer gives it, cut as the tokenizer cuts it if it is beyond `max_tokens`. Token
        ids have offsets if they are those of the text that they spell.
        """
        tokenizer, most, bare = self.tokenizer, self.max_tokens, kind in ("ids", "chat")
        chat, template = item if kind == "chat" else (), self.template
        if template and not chat:
            raise _refused(k, f"that is no chat, with {', '.join(template)}", "a chat", "leave them out")
        text = self.templated(chat, template, k) if chat else item
        sides: tuple[str, ...] = item if kind == "pair" else (text,)
        row = Encoding([*map(int, item)], []) if kind == "ids" else tokenised(tokenizer, sides, bare=bare)
        self.check_ids(k, row.ids)
        untruncated = len(row.ids)
        if untruncated > most and not truncate:
            hint = "shorten it, or pass truncate=True to cut it as its tokenizer does"
            raise _refused(k, f"of {untruncated} tokens", f"at most {most} tokens", hint)
        if kind == "ids":
            left = getattr(tokenizer, "truncation_side", "right") == "left"
            ids = row.ids[max(0, untruncated - most) :] if left else row.ids[:most]
            sides = (tokenizer.decode(ids, clean_up_tokenization_spaces=False),)
            again = tokenised(tokenizer, sides, bare=True)
            row = Encoding(ids, [], spans=again.spans if again.ids == ids else ())
        elif untruncated > most:
            row = tokenised(tokenizer, sides, bare=bare, max_length=most)
        if bare:  # a template has the special tokens already, and they are no words
            control = control_ids(tokenizer)
            special = [int(i in control) for i in row.ids]
            spans = [(0, 0) if mark else span for mark, span in zip(special, row.spans, strict=False)]
            row = row._replace(special=special, spans=tuple(spans))
        self._check_words(k, row, sides, bare=bare)
        read = row.ids.index(tokenizer.mask_token_id) if self.reads_mask else None
        if self.skipped is not None and row.ids[-1] == self.skipped:
            others = [place for place, i in enumerate(row.ids) if i != self.skipped]
            read = others[-1] if others else 0
        return EncodedText(
            sides[0],
            tuple(row.ids),
            tuple(token_texts(tokenizer, row.ids)),
            np.array(row.special, dtype=bool),
            row.types or (0,) * len(row.ids),
            pair=sides[1] if len(sides) == 2 else None,
            whole=untruncated,
            details={"cut": f"{len(row.ids)} of {untruncated} tokens"} if untruncated > most else {},
            read=read,
            bare=bare,
            typed=bool(row.types),
            offsets=row.spans,
            chat=chat,
            template=template,
        )

    def templated(self, chat: Any, template: Mapping[str, Any] | None = None, k: int = 0) -> str:
        """The text k that the tokenizer's chat template makes of messages; for a model that continues a text,
        with the beginning of the answer, or up to the end of the answer that the chat begins.
        """
        begun, given = chat[-1].get("role") == "assistant", template or {}
        source = self.tokenizer.get_chat_template(given.get("chat_template"), given.get("tools"))
        from jinja2 import Environment  # what `apply_chat_template` needs

        own = ("messages", "add_generation_prompt", "continue_final_message")
        pairs = itertools.pairwise(value for _, kind, value in Environment().lex(source) if kind in LEXED)
        read = {"chat_template", *(name for before, name in pairs if before != ".")}.difference(own)
        unused = [name for name in given if name not in read]
        if unused:
            got, hint = f"with {unused[0]!r}, which its chat template does not read", "leave it out"
            raise _refused(k, got, "options of the template", hint)
        asked = {"continue_final_message" if begun else "add_generation_prompt": self.prompts}
        try:
            return str(self.tokenizer.apply_chat_template(chat, tokenize=False, **asked, **given))
        except Exception as error:  # a template raises what it likes
            got, hint = f"which its chat template refuses: {error}", "write what the template reads"
            raise _refused(k, got, "messages and options of the template", hint) from error

    def spans_of(self, k: int, text: EncodedText, unit: str) -> list[Span]:
        """Where the messages of a chat, or the documents of its template, stand in the text k that was made.
        For each the text is made again with a mark in its place: nothing else may change.
        """
        template, of_chat = text.template or {}, unit == "message"
        items = list(text.chat if of_chat else template.get("documents") or ())
        key, spans = "content" if of_chat else "text", list[Span]()
        made = self.templated(text.chat, template) if items else ""
        for at, item in enumerate(items):
            said: Any = item.get(key) or ""
            if said == "" and of_chat:
                continue  # such as a call of a tool
            marked = [*items[:at], {**item, key: MARK}, *items[at + 1 :]]
            given = (marked, template) if of_chat else (text.chat, {**template, "documents": marked})
            parts = self.templated(*given).split(MARK)
            span = len(parts[0]), len(made) - len(parts[-1])
            same = parts[0] + made[slice(*span)] + parts[-1] == made
            if len(parts) != 2 or not same or made[slice(*span)] not in (said, str(said).strip()):
                got = f"whose {unit} {at} (from 0), {shown(said)}, is not once in it as it is"
                hint = "the template drops, repeats or changes it; name spans of the text instead"
                raise _refused(k, got, f"each {unit} as it was given", hint)
            spans.append(span)
        if not spans:
            expected = "a chat, or documents for its template"
            raise _refused(k, f"without a {unit}", expected, "take another unit")
        return spans

    def check_ids(self, k: int, ids: Sequence[int]) -> None:
        """Refuse ids of text k that the model has no embedding for."""
        wrong = [i for i in ids if self.vocabulary is not None and not 0 <= i < self.vocabulary]
        if wrong:
            hint = "take the tokenizer that the model was trained with"
            raise _refused(k, f"with the token id {wrong[0]}", f"ids from 0 below {self.vocabulary}", hint)

    def _check_words(self, k: int, row: Encoding, sides: Sequence[str], *, bare: bool) -> None:
        """Refuse a text without words, one without its mask token, and one that spells a special token: the
        model would see an end inside the text. An unknown word is none, nor is an added marker, such as [E1].
        """
        if all(row.special) or (len(sides) == 2 and row.sides not in ((), (0, 1))):
            raise _refused(
                k, "with no token but special ones", "a text with at least one word", "write a word"
            )
        reserved = set() if bare else reserved_ids(self.tokenizer, masked=self.reads_mask)
        spelled = [i for i, mark in zip(row.ids, row.special, strict=True) if i in reserved and not mark]
        if spelled:
            got = f"with the special token {token_texts(self.tokenizer, spelled[:1])[0]} in it"
            hint = "pass a pair as a tuple (first, second), a prompt as messages or as token ids"
            raise _refused(k, got, "text without special tokens", hint)
        if self.reads_mask and row.ids.count(self.tokenizer.mask_token_id) != 1:
            mask, count = self.tokenizer.mask_token, row.ids.count(self.tokenizer.mask_token_id)
            hint = f"such as 'The capital of France is {mask}.'"
            raise _refused(k, f"with {count} mask tokens", f"one {mask}, the token to predict", hint)


def _refused(k: int, got: str, expected: str, hint: str) -> InputError:
    return InputError("encode", got=f"text {k} {got}", expected=expected, hint=hint)


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


class Encoding(NamedTuple):
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
) -> Encoding:
    """What a tokenizer makes of a text or a pair, untruncated or cut to `max_length`; if `bare` without
    special tokens. Fast tokenizers keep how they cut and pad as state, which other threads set, too, so
    the result is checked.
    """
    options: dict[str, Any] = {"add_special_tokens": not bare, "return_special_tokens_mask": True}
    options |= {"verbose": False, "truncation": max_length is not None, "max_length": max_length}
    for _ in range(TRIES):
        read = tokenizer(*sides, return_offsets_mapping=tokenizer.is_fast, **options)
        parts = read.encodings or ()
        whole = all(len(one) == max_length if max_length else not one.overflowing for one in parts)
        if whole and all(all(one.attention_mask) for one in parts):
            break
    else:
        raise RuntimeError("other threads change how the tokenizer cuts and pads at the same time")
    row = Encoding(read["input_ids"], read["special_tokens_mask"], tuple(read.get("token_type_ids", ())))
    if not read.is_fast:
        return row
    of = read.sequence_ids(0)
    shift = {None: 0, 0: 0, 1: len(sides[0]) + 1}
    moved = zip(read["offset_mapping"], of, strict=True)
    spans = tuple((start + shift[side], end + shift[side]) for (start, end), side in moved)
    return row._replace(spans=spans, sides=tuple(sorted({*of} - {None})))
