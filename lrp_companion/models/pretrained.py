"""`load_classifier`: the embedded model, a folder in the hub's format, or a hub id; and tokenisation."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrp_companion.models.compute import check_device
from lrp_companion.models.config_entries import check_all_layers, check_entries, longest
from lrp_companion.models.encoder import FAMILIES, Encoder, Wiring
from lrp_companion.paths import as_path
from lrp_companion.schema import InputError, ModelCard, ModelError, SourceError, choose

EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
BOOKKEEPING = (
    "_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id",
)  # fmt: skip
"""Entries of `config.json` on which no score depends; labels are compared by name."""
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it; `special` is True where a token is special. Shape (T,) each."""

    text: str
    input_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: np.ndarray

    def __len__(self) -> int:
        return len(self.input_ids)


class Classifier:
    """A text classifier with its tokenizer, ready to be explained. Made by `load_classifier`."""

    def __init__(self, network: nn.Module, tokenizer: Any, *, card: ModelCard) -> None:
        self.network, self.tokenizer, self.card = network, tokenizer, card
        self.encoder = Encoder(network)
        first = next(network.parameters())
        self.device, self.dtype = first.device, first.dtype
        self.labels, self.max_tokens = card.labels, card.max_tokens
        self.mask_id, self.pad_id = tokenizer.mask_token_id, tokenizer.pad_token_id

    def __repr__(self) -> str:
        c = self.card
        sizes = f"{c.layers} layers, {c.hidden} wide, {c.dtype}, {self.device.type}"
        return f"Classifier({c.name!r} from {c.source}: {c.family}, {sizes})"

    def encode(self, texts: str | Sequence[str], *, truncate: bool = False) -> list[EncodedText]:
        """Tokenise texts; refuse what cannot be explained, before any work.

        Raises
        ------
        InputError : no texts; a text that is no string, is empty, has no token but special ones, or is beyond
            `max_tokens` (unless `truncate`, which cuts the end).
        """
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            got, expected = f"texts of type {type(texts).__name__}", "a string or a list of strings"
            raise InputError("encode", got=got, expected=expected, hint="pass strings only")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            hint = "pass a string or a list of strings"
            raise InputError("encode", got="no texts", expected="at least one text", hint=hint)
        for k, text in enumerate(texts):
            _check_text(k, text)
        rows = self.tokenizer(texts, truncation=False, verbose=False, return_special_tokens_mask=True)
        columns = zip(texts, rows["input_ids"], rows["special_tokens_mask"], strict=True)
        return [
            self._encoded(k, text, list(ids), list(special), truncate=truncate)
            for k, (text, ids, special) in enumerate(columns)
        ]

    def _encoded(
        self, k: int, text: str, ids: list[int], special: list[int], *, truncate: bool
    ) -> EncodedText:
        """Text k as the tokenizer gives it, cut to `max_tokens` if it may be."""
        if len(ids) > self.max_tokens:
            if not truncate:
                got, expected = f"text {k} of {len(ids)} tokens", f"at most {self.max_tokens} tokens"
                hint = "shorten it, or pass truncate=True to cut its end"
                raise InputError("encode", got=got, expected=expected, hint=hint)
            ids, special = ([*row[: self.max_tokens - 1], row[-1]] for row in (ids, special))
        if all(special):
            got, hint = f"text {k}, in which the tokenizer finds no token", "write a word"
            raise InputError("encode", got=got, expected="a text with at least one word", hint=hint)
        tokens = tuple(self.tokenizer.convert_ids_to_tokens(ids))
        return EncodedText(text, tuple(ids), tokens, np.array(special, dtype=bool))

    @torch.no_grad()
    def logits(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The logits (B, C) of the `transformers` model for ids and mask (B, T)."""
        extra = {}
        if self.encoder.wiring.first_position:
            # Left to itself, RoBERTa skips a position where a token is replaced by padding.
            positions = self.encoder.position_ids(input_ids.shape[1], input_ids.device)
            extra["position_ids"] = positions.expand_as(input_ids)
        return self.network(input_ids=input_ids, attention_mask=attention_mask, **extra).logits


def _check_text(k: int, text: object) -> None:
    """Refuse text k unless it is a string with something in it that UTF-8 can hold."""
    word = "a text with at least one word"
    if not isinstance(text, str):
        got, expected, hint = f"text {k} of type {type(text).__name__}", "a string", "pass strings only"
    elif not text.strip():
        got, expected = f"text {k}, which is empty or only whitespace", word
        hint = "leave it out or write a word"
    elif any("\ud800" <= c <= "\udfff" for c in text):
        got, expected = f"text {k} with a lone surrogate", "valid Unicode"
        hint = "decode the text as UTF-8 first"
    else:
        return
    raise InputError("encode", got=got, expected=expected, hint=hint)


def embedded_models() -> list[str]:
    """Names of the models that the package carries."""
    return sorted(path.parent.name for path in EMBEDDED_FOLDER.glob("*/config.json"))


@torch.inference_mode(False)  # weights that are made in it can have no gradient
def load_classifier(
    name: str | os.PathLike = "companion",
    *,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
) -> Classifier:
    """Load a sequence classifier of the BERT wiring, to be explained.

    Code that a folder or a hub repository brings along is never run: a model that needs it is refused.

    Parameters
    ----------
    name : an embedded model ("companion"), a folder in the hub's on-disk format, or a hub id.
    device : "cpu", "cuda", "cuda:1", ...
    dtype : "float32", "float64" or "bfloat16"; weights on disk are converted.
    revision : branch, tag or commit, for a hub id only.

    Raises
    ------
    SourceError : the folder, the hub or the id cannot be reached or read.
    ModelError : the model is no sequence classifier, or of a wiring that is not supported.

    >>> load_classifier("companion").card.layers  # doctest: +SKIP
    12
    """
    weights_dtype = DTYPES[choose("load_classifier", "dtype", dtype, tuple(DTYPES))]
    place = check_device("load_classifier", device)
    files = _locate(name, revision)
    config = files.read("config")
    _check_config(files.name, config)
    network, report = files.read("network")
    _check_complete(files.name, report["missing_keys"])
    check_all_layers(files.name, config, report["unexpected_keys"])
    tokenizer = files.read("tokenizer")
    _check_tokenizer(files.name, tokenizer, config.vocab_size)
    _check_finite(files.name, network)
    fingerprint = _fingerprint(network)  # before the weights are converted
    network.eval().requires_grad_(False).to(device=place, dtype=weights_dtype)
    card = _card(files, config, Encoder(network).wiring, tokenizer, dtype=dtype, fingerprint=fingerprint)
    return Classifier(network, tokenizer, card=card)


def _check_config(name: str, config: Any) -> None:
    """Refuse what is no classifier, or of a kind that `Encoder` does not know."""
    check_entries(name, config)
    architectures = config.architectures or []
    positions = getattr(config, "position_embedding_type", "absolute")
    refused = (
        (
            config.model_type not in FAMILIES,
            f"{name!r} of family {config.model_type!r}",
            f"one of {', '.join(FAMILIES)}",
            "choose a sequence classifier of these families",
        ),
        (
            not any(a.endswith("ForSequenceClassification") for a in architectures),
            f"{name!r}, saved as {', '.join(architectures) or 'no known architecture'}",
            "a sequence classifier",
            "choose a model that was fine-tuned for sequence classification",
        ),
        (
            config.num_labels < 2,
            f"{name!r} with {config.num_labels} label",
            "a classifier with at least 2 labels",
            "regression heads are not supported",
        ),
        (
            positions not in (None, "absolute"),
            f"{name!r} with position embeddings of type {positions!r}",
            "learned absolute positions",
            "choose another model",
        ),
    )
    for applies, got, expected, hint in refused:
        if applies:
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def _check_complete(name: str, missing_keys: Iterable[str]) -> None:
    """Refuse a model for which transformers had to make up weights."""
    missing = sorted(key for key in missing_keys if "position_ids" not in key)
    if missing:
        got, hint = f"{name!r} without the weights {', '.join(missing[:3])}", "fine-tune the model first"
        raise ModelError("load_classifier", got=got, expected="a complete, fine-tuned classifier", hint=hint)


def _check_finite(name: str, network: nn.Module) -> None:
    """Refuse weights that are NaN or infinite."""
    for key, value in sorted(network.state_dict().items()):
        if value.is_floating_point() and not torch.isfinite(value).all():
            got, hint = f"{name!r} with a weight {key} that is not finite", "load another checkpoint"
            raise ModelError("load_classifier", got=got, expected="finite weights", hint=hint)


def _check_tokenizer(name: str, tokenizer: Any, vocabulary: int) -> None:
    """Refuse a tokenizer without the special tokens that are needed, or of another vocabulary."""
    for special in ("mask", "pad", "cls", "sep"):
        if getattr(tokenizer, f"{special}_token_id") is None:
            got, hint = f"{name!r}, whose tokenizer has no {special} token", "choose another tokenizer"
            expected = "mask, pad, cls and sep tokens"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    # Where its files are missing, transformers makes a tokenizer of special tokens only.
    if not len(tokenizer.all_special_ids) < len(tokenizer) <= vocabulary:
        got = f"{name!r}, whose tokenizer has {len(tokenizer)} tokens for the model's {vocabulary}"
        expected = "the tokenizer the model was trained with"
        hint = "save the tokenizer beside the model with save_pretrained"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def _card(
    files: _Files, config: Any, wiring: Wiring, tokenizer: Any, *, dtype: str, fingerprint: str
) -> ModelCard:
    """The record of a loaded model."""
    positions = int(wiring.position.num_embeddings) - wiring.first_position
    settings = {key: value for key, value in files.read("settings").items() if key not in BOOKKEEPING}
    return ModelCard(
        name=files.name,
        source=files.source,
        family=config.model_type,
        layers=len(wiring.layers),
        heads=wiring.heads,
        hidden=wiring.layers[0].query.in_features,
        max_tokens=min(positions, longest(files.name, tokenizer)),
        labels=tuple(str(config.id2label[k]) for k in range(config.num_labels)),
        dtype=dtype,
        fingerprint=fingerprint,
        tokenizer=_tokenizer_fingerprint(tokenizer),
        config=_digest(settings),
    )


@dataclass(frozen=True)
class _Files:
    """Where a model is read from: `path` is a folder or, for the source "hub", an id."""

    name: str
    path: str
    source: str
    revision: str | None

    def read(self, what: str) -> Any:
        """Read "settings", "config", "network" (with a report of its keys) or "tokenizer"."""
        try:
            with _quietly():
                return self._from_pretrained(what)
        except Exception as error:  # transformers raises many kinds; each means that the model cannot be read
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            if self.source == "hub":
                got = f"hub id {self.name!r}, which cannot be loaded ({reason})"
                expected = "a hub id that can be reached"
                embedded = 'the embedded model: load_classifier("companion")'
                hint = f"check the id and the connection, or use {embedded}"
            else:
                got = f"folder {self.name!r} whose {what} cannot be read ({reason})"
                expected = "config.json, weights and tokenizer files in the hub's format"
                hint = "save the model and its tokenizer there with save_pretrained"
            raise SourceError("load_classifier", got=got, expected=expected, hint=hint) from error

    def _from_pretrained(self, what: str) -> Any:
        from transformers import (
            AutoConfig,
            AutoModelForSequenceClassification,
            AutoTokenizer,
            PretrainedConfig,
        )

        options: dict[str, Any] = {}
        if self.source == "hub" and self.revision:
            options["revision"] = self.revision
        if what == "settings":
            return PretrainedConfig.get_config_dict(self.path, **options)[0]
        # Unset, transformers asks on standard input whether to run code that comes with the model.
        options["trust_remote_code"] = False
        if what == "config":
            return AutoConfig.from_pretrained(self.path, **options)
        if what == "tokenizer":
            return AutoTokenizer.from_pretrained(self.path, use_fast=True, **options)
        return AutoModelForSequenceClassification.from_pretrained(
            self.path, dtype="auto", output_loading_info=True, **options
        )


def _locate(name: str | os.PathLike, revision: str | None) -> _Files:
    """Which of the three sources a name means, and where the model lies there."""
    if not isinstance(name, (str, os.PathLike)):
        got, expected = f"a name of type {type(name).__name__}", "an embedded model, a folder, or a hub id"
        raise InputError("load_classifier", got=got, expected=expected, hint="pass a string or a path")
    text = os.fspath(name)
    if text in embedded_models():
        return _Files(text, str(EMBEDDED_FOLDER / text), "embedded", revision)
    place = as_path("load_classifier", "name", text) if text.strip() else Path(text)
    if text.strip() and place.is_dir():
        return _Files(place.resolve().name, str(place), "folder", revision)
    is_path = isinstance(name, os.PathLike) or text.startswith((".", "/", "~"))
    if is_path or not text.strip() or text.count("/") > 1 or "\\" in text:
        got, expected = f"{text!r}, which is no folder", "an embedded model, a folder, or a hub id"
        hint = f"embedded models: {', '.join(embedded_models()) or 'none'}"
        raise SourceError("load_classifier", got=got, expected=expected, hint=hint)
    return _Files(text, text, "hub", revision)


def check_name(name: str) -> None:
    """Refuse a name that can mean neither an embedded model, nor a folder, nor a hub id; nothing is read."""
    _locate(name, None)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the progress bars, load reports and retry notes of `transformers` and the hub.

    Their settings are put back afterwards.
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, bars, hub_level = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    hub.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _tokenizer_fingerprint(tokenizer: Any) -> str:
    """Of all that turns a text into ids: vocabulary, normaliser, splitting, special tokens, length."""
    backend = getattr(tokenizer, "backend_tokenizer", None)  # none where the family has no fast tokenizer
    state = json.loads(backend.to_str()) if backend else tokenizer.get_vocab()
    per_call = ("truncation", "padding")  # every call sets them
    state = {key: value for key, value in state.items() if key not in per_call}
    return _digest([state, sorted(tokenizer.all_special_ids), int(tokenizer.model_max_length)])


def _fingerprint(network: nn.Module) -> str:
    """Of names and values of all weights."""
    digest = hashlib.sha256()
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode())
        if value.ndim:
            digest.update(value.contiguous().view(torch.uint8).numpy().tobytes())
        else:  # a scalar cannot be viewed as bytes
            digest.update(str(value.item()).encode())
    return digest.hexdigest()[:16]
