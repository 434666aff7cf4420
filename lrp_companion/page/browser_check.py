"""Checks a model before it is staged: the page's tokens and logits, computed here from what the page gets,
must be those of Python.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import torch

from lrp_companion.checks import CompanionError, ModelError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.compute import CLOSE
from lrp_companion.loading.texts import EncodedText
from lrp_companion.page import browser_tokenizer as kinds

CHOOSE = "choose a classifier with BERT's own layers and tokenizer"
TRIED = 300
"""Texts whose tokens are compared."""
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


def check_page(
    clf: Classifier, manifest: dict[str, Any], tensors: Iterator[tuple[str, torch.Tensor]]
) -> None:
    """Refuse a model for which the page would give other tokens or other logits than Python.

    Raises
    ------
    ModelError : a text has other tokens, or the logits differ by more than rounding.
    """
    _check_tokens(clf, manifest["tokenizer"])
    _check_logits(clf, manifest, dict(tensors))


def _refuse(clf: Classifier, got: str, expected: str, hint: str) -> NoReturn:
    raise ModelError(
        "stage", got=f"{clf.card.name!r}, for which the page {got}", expected=expected, hint=hint
    )


def _check_tokens(clf: Classifier, data: dict[str, Any]) -> None:
    page = PageTokenizer(data)
    for text in texts_to_try(data, TRIED):
        there, here = page.encode(text), _ids(clf, text, data["maxTokens"])
        if here is not None and any(clf.encode([text])[0].types):
            _refuse(clf, "would give token types 0, Python others", "a text of token types 0", CHOOSE)
        if there != here:
            got = f"would read {ascii(text[:60])} as {_few(there)}, Python as {_few(here)}"
            _refuse(clf, got, "the same token ids", CHOOSE)


def _few(ids: list[int] | None) -> str:
    """Token ids in a message."""
    if ids is None:
        return "no text for it"
    return f"{ids[:12]}" if len(ids) <= 12 else f"{ids[:12]} and {len(ids) - 12} more"


def _ids(clf: Classifier, text: str, max_tokens: int) -> list[int] | None:
    """What Python reads; None where it refuses the text, or the page's limit does."""
    try:
        (encoded,) = clf.encode([text])
    except CompanionError:
        return None
    return list(encoded.input_ids) if len(encoded) <= max_tokens else None


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


class PageTokenizer:
    """`static/engine/tokenizer.js` once more, from the same data."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        runs = np.reshape(data["kinds"], (-1, 2))
        self.kinds = np.repeat(runs[:, 1], runs[:, 0])
        foreign = set(data["notPieces"])
        self.pieces = {t: k for k, t in enumerate(data["vocabulary"]) if t is not None and k not in foreign}
        self.pieces.update(data["renamed"])
        self.finders = []
        for tokens in data["added"]:
            patterns = sorted((token["pattern"] for token in tokens), key=len, reverse=True)
            expression = re.compile("|".join(map(re.escape, patterns)) or "(?!)")
            self.finders.append((expression, {token["pattern"]: token for token in tokens}))

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None where the page refuses it."""
        data, (raw, normal) = self.data, self.finders
        if not text.strip() or any("\ud800" <= c < "\ue000" for c in text):
            return None

        def words(plain: str) -> list[int]:
            return [number for word in self.words(plain) for number in self.pieces_of(word)]

        ids = self.split(text, raw, lambda rest: self.split(self.normalised(rest), normal, words))
        whole = [*data["before"], *ids, *data["after"]]
        refused = not ids or len(whole) > data["maxTokens"] or not set(ids).isdisjoint(data["reserved"])
        return None if refused else whole

    def split(self, text: str, finder: Any, rest: Callable[[str], list[int]]) -> list[int]:
        """The ids of a text: added tokens where they are found, and `rest` of what is between them."""
        (expression, tokens), ids, done = finder, list[int](), 0
        for matched in expression.finditer(text):
            token, start, end = tokens[matched[0]], matched.start(), matched.end()
            beside = text[max(0, start - 1) : start] + text[end : end + 1]
            if token["alone"] and any(self.kinds[ord(c)] & kinds.WORD for c in beside):
                continue
            if token["left"]:
                while start and text[start - 1] in BLANKS:
                    start -= 1
                start = max(start, done)
            while token["right"] and end < len(text) and text[end] in BLANKS:
                end += 1
            ids += [*(rest(text[done:start]) if done < start else ()), token["id"]]
            done = end
        return [*ids, *(rest(text[done:]) if done < len(text) else ())]

    def normalised(self, text: str) -> str:
        """The text without what is not read, as the vocabulary spells it."""
        data, letters = self.data, list[str]()
        for c in text:
            kind = self.kinds[ord(c)]
            if not kind & kinds.DROPPED:
                letters += [" "] if kind & kinds.SPACE else [" ", c, " "] if kind & kinds.ALONE else [c]
        if data["apart"] is not None:
            letters = self.without_accents(letters)
        lower = data["lower"] or {}
        return "".join(lower.get(c, c) for c in letters)

    def without_accents(self, letters: list[str]) -> list[str]:
        """Letters and accents taken apart, without the accents; marks that stay are put in order."""
        order, out, first = self.data["order"], list[str](), 0
        for letter in letters:
            hangul = 0xAC00 <= ord(letter) < 0xD7A4
            for c in (
                unicodedata.normalize("NFD", letter) if hangul else self.data["apart"].get(letter, letter)
            ):
                kind, to = self.kinds[ord(c)], len(out)
                while kind & kinds.STACKED and c in order and to > first and order[out[to - 1]] > order[c]:
                    to -= 1
                if not kind & kinds.ACCENT:
                    out.insert(to, c)
                if not kind & kinds.STACKED:
                    first = len(out)
        return out

    def words(self, text: str) -> list[str]:
        """A text split at white space and around punctuation."""
        words, within = list[str](), False
        for c in text:
            kind = self.kinds[ord(c)]
            inside = not kind & (kinds.BETWEEN | kinds.PUNCTUATION)
            if inside and within:
                words[-1] += c
            elif not kind & kinds.BETWEEN:
                words.append(c)
            within = inside
        return words

    def pieces_of(self, word: str) -> list[int]:
        """The longest pieces of a word that the vocabulary has, from the left; else the unknown token."""
        data, ids, start = self.data, list[int](), 0
        if len(word) > data["longest"]:
            return [data["unknown"]]
        while start < len(word):
            prefix = data["prefix"] if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.pieces), None)
            if end is None:
                return [data["unknown"]]
            ids.append(self.pieces[prefix + word[start:end]])
            start = end
        return ids


PHI: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    None: lambda z: z,
}
"""The engine's activation functions."""


@torch.no_grad()
def _check_logits(clf: Classifier, manifest: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Compare the engine's arithmetic, on the weights before they are rounded, with the network's own."""
    by_part = {(name.lstrip("0123456789"), tensor.shape) for name, tensor in tensors.items()}
    if len(by_part) != len({part for part, _ in by_part}):
        _refuse(clf, "would take layers of several sizes for layers of one", "layers of one size", CHOOSE)
    data = manifest["tokenizer"]
    ordinary = [k for k, token in enumerate(data["vocabulary"]) if token and k not in data["reserved"]]
    count = max(1, min(12, data["maxTokens"] - len(data["before"]) - len(data["after"])))
    inner = [ordinary[k * (len(ordinary) - 1) // count] for k in range(count)]
    ids = [*data["before"], *inner, *data["after"]]
    here = page_logits(manifest, tensors, ids)
    text = EncodedText("", tuple(ids), tuple(map(str, ids)), np.zeros(len(ids), dtype=bool))
    numbers, mask, further = clf.batch([text])
    there = clf.logits(numbers, mask, **further)[0].double().cpu()
    apart = float((here - there).abs().max()) if here.shape == there.shape else float("inf")
    if not apart <= CLOSE[clf.dtype] * (1 + float(there.abs().max())):
        got = f"would give other logits than Python, {apart:.2g} apart"
        _refuse(clf, got, "the layers of its family and no more", "explain it in Python, with attribute()")


def page_logits(manifest: dict[str, Any], tensors: dict[str, torch.Tensor], ids: list[int]) -> torch.Tensor:
    """The logits (C,) of token ids by the steps of `static/engine/forward.js`, in float64."""

    def tensor(name: str) -> torch.Tensor:
        return tensors[name].detach().cpu().double()

    def map_(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ tensor(f"{name}.weight").T + tensor(f"{name}.bias")

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = tensor(f"{name}.weight"), tensor(f"{name}.bias")
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, manifest["normEps"])

    first = manifest["firstPosition"]
    x = tensors["word"][ids].detach().cpu().double() + tensor("position")[first : first + len(ids)]
    if manifest["hasType"]:
        x = x + tensor("type")[0]
    x = norm("embedding_norm", x)
    x = map_("projection", x) if manifest["hasProjection"] else x
    phi = PHI[manifest["activation"]]
    for layer in range(1, manifest["layers"] + 1):
        parts = (map_(f"{layer}.{name}", x) for name in ("query", "key", "value"))
        q, k, v = (part.unflatten(-1, (manifest["heads"], -1)).transpose(0, 1) for part in parts)
        attention = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        read = (attention @ v).transpose(0, 1).flatten(1)
        x = norm(f"{layer}.attention_norm", x + map_(f"{layer}.attention_out", read))
        x = norm(f"{layer}.output_norm", x + map_(f"{layer}.down", phi(map_(f"{layer}.up", x))))
    out = x[0]
    for step in manifest["head"]:
        out = PHI[step["activation"]](map_(step["name"], out))
    return out
