"""`load_classifier`: the embedded model, a folder in the hub's format, or a hub id; tokenisation; device and
dtype.
"""

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

from lrp_companion.models.encoder import FAMILIES, Encoder
from lrp_companion.schema import InputError, ModelCard, ModelError, SourceError, choose

EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
BOOKKEEPING = (
    "_name_or_path",
    "_commit_hash",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "id2label",
    "label2id",
)
"""What `config.json` says that no score depends on; labels are compared by name."""
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
        return f"Classifier({c.name!r} from {c.source}: {c.family}, {c.layers} layers, {c.hidden} wide, {c.dtype}, {self.device.type})"

    def encode(self, texts: str | Sequence[str], *, truncate: bool = False) -> list[EncodedText]:
        """Tokenise texts; refuse what cannot be explained, before any work.

        Raises
        ------
        InputError : no texts; a text that is no string, empty, without any token of its own, or beyond
            `max_tokens` (unless `truncate`, which cuts the end).
        """
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise InputError(
                "encode",
                got=f"texts of type {type(texts).__name__}",
                expected="a string or a list of strings",
                hint="pass strings only",
            )
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise InputError(
                "encode",
                got="no texts",
                expected="at least one text",
                hint="pass a string or a list of strings",
            )
        for k, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(
                    "encode",
                    got=f"text {k} of type {type(text).__name__}",
                    expected="a string",
                    hint="pass strings only",
                )
            if not text.strip():
                raise InputError(
                    "encode",
                    got=f"text {k}, which is empty or only whitespace",
                    expected="a text with at least one word",
                    hint="leave it out or write a word",
                )
            if any("\ud800" <= c <= "\udfff" for c in text):
                raise InputError(
                    "encode",
                    got=f"text {k} with a lone surrogate",
                    expected="valid Unicode",
                    hint="decode the text as UTF-8 first",
                )
        out = []
        rows = self.tokenizer(texts, truncation=False, verbose=False, return_special_tokens_mask=True)
        for k, text in enumerate(texts):
            ids, special = list(rows["input_ids"][k]), list(rows["special_tokens_mask"][k])
            if len(ids) > self.max_tokens:
                if not truncate:
                    raise InputError(
                        "encode",
                        got=f"text {k} of {len(ids)} tokens",
                        expected=f"at most {self.max_tokens} tokens",
                        hint="shorten it, or pass truncate=True to cut its end",
                    )
                ids = [*ids[: self.max_tokens - 1], ids[-1]]
                special = [*special[: self.max_tokens - 1], special[-1]]
            if all(special):
                raise InputError(
                    "encode",
                    got=f"text {k}, in which the tokenizer finds no token",
                    expected="a text with at least one word",
                    hint="write a word",
                )
            tokens = tuple(self.tokenizer.convert_ids_to_tokens(ids))
            out.append(EncodedText(text, tuple(ids), tokens, np.array(special, dtype=bool)))
        return out

    @torch.no_grad()
    def logits(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The `transformers` model's own logits (B, C) for ids and mask (B, T)."""
        extra = {}
        if (
            self.encoder.wiring.first_position
        ):  # RoBERTa would count positions anew where a token is replaced by padding
            extra["position_ids"] = self.encoder.position_ids(input_ids.shape[1], input_ids.device).expand_as(
                input_ids
            )
        return self.network(input_ids=input_ids, attention_mask=attention_mask, **extra).logits


def embedded_models() -> list[str]:
    """Names of the models that the package carries."""
    return sorted(path.parent.name for path in EMBEDDED_FOLDER.glob("*/config.json"))


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
    kind = DTYPES[choose("load_classifier", "dtype", dtype, tuple(DTYPES))]
    where = _device(device)
    name, path, source = _locate(name)
    config = _read(name, path, source, revision, "config")
    if config.model_type not in FAMILIES:
        raise ModelError(
            "load_classifier",
            got=f"{name!r} of family {config.model_type!r}",
            expected=f"one of {', '.join(FAMILIES)}",
            hint="choose a sequence classifier of these families",
        )
    architectures = config.architectures or []
    if not any(a.endswith("ForSequenceClassification") for a in architectures):
        raise ModelError(
            "load_classifier",
            got=f"{name!r}, saved as {', '.join(architectures) or 'no known architecture'}",
            expected="a sequence classifier",
            hint="choose a model that was fine-tuned for sequence classification",
        )
    if config.num_labels < 2:
        raise ModelError(
            "load_classifier",
            got=f"{name!r} with {config.num_labels} label",
            expected="a classifier with at least 2 labels",
            hint="regression heads are not supported",
        )
    if getattr(config, "position_embedding_type", "absolute") not in (None, "absolute"):
        raise ModelError(
            "load_classifier",
            got=f"{name!r} with position embeddings of type {config.position_embedding_type!r}",
            expected="learned absolute positions",
            hint="choose another model",
        )
    network, info = _read(name, path, source, revision, "network")
    missing = sorted(key for key in info["missing_keys"] if "position_ids" not in key)
    if missing:
        raise ModelError(
            "load_classifier",
            got=f"{name!r} without the weights {', '.join(missing[:3])}",
            expected="a complete, fine-tuned classifier",
            hint="fine-tune the model first",
        )
    tokenizer = _read(name, path, source, revision, "tokenizer")
    for special in ("mask", "pad", "cls", "sep"):
        if getattr(tokenizer, f"{special}_token_id") is None:
            raise ModelError(
                "load_classifier",
                got=f"{name!r}, whose tokenizer has no {special} token",
                expected="mask, pad, cls and sep tokens",
                hint="choose another tokenizer",
            )
    if (
        not len(tokenizer.all_special_ids) < len(tokenizer) <= config.vocab_size
    ):  # transformers makes an empty one where the files are missing
        raise ModelError(
            "load_classifier",
            got=f"{name!r}, whose tokenizer has {len(tokenizer)} tokens for the model's {config.vocab_size}",
            expected="the tokenizer the model was trained with",
            hint="save the tokenizer beside the model with save_pretrained",
        )
    fingerprint = _fingerprint(name, network)
    network.eval().requires_grad_(False).to(device=where, dtype=kind)
    encoder = Encoder(network)
    card = ModelCard(
        name=name,
        source=source,
        family=config.model_type,
        layers=len(encoder.wiring.layers),
        heads=encoder.wiring.heads,
        hidden=encoder.wiring.layers[0].query.in_features,
        max_tokens=min(
            int(encoder.wiring.position.num_embeddings) - encoder.wiring.first_position,
            int(tokenizer.model_max_length),
        ),
        labels=tuple(str(config.id2label[k]) for k in range(config.num_labels)),
        dtype=dtype,
        fingerprint=fingerprint,
        tokenizer=_tokenizer_fingerprint(tokenizer),
        config=_digest(
            {
                key: value
                for key, value in _read(name, path, source, revision, "settings").items()
                if key not in BOOKKEEPING
            }
        ),
    )
    return Classifier(network, tokenizer, card=card)


def _device(device: str) -> torch.device:
    try:
        where = torch.device(device)
    except RuntimeError:
        raise InputError(
            "load_classifier",
            got=f"device {device!r}",
            expected='a device such as "cpu" or "cuda"',
            hint="check the name",
        ) from None
    if where.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "load_classifier",
            got=f"device {device!r}",
            expected="a device this machine has",
            hint='PyTorch sees no CUDA device here; use device="cpu"',
        )
    return where


def _locate(name: str | os.PathLike) -> tuple[str, str, str]:
    """Name for the record, path or id to load, and which of the three sources it is."""
    if not isinstance(name, (str, os.PathLike)):
        raise InputError(
            "load_classifier",
            got=f"a name of type {type(name).__name__}",
            expected="an embedded model, a folder, or a hub id",
            hint="pass a string or a path",
        )
    text = os.fspath(name)
    if text in embedded_models():
        return text, str(EMBEDDED_FOLDER / text), "embedded"
    if text and Path(text).is_dir():
        return Path(text).resolve().name, text, "folder"
    if (
        not text.strip()
        or isinstance(name, os.PathLike)
        or text.startswith((".", "/", "~"))
        or text.count("/") > 1
        or "\\" in text
    ):
        raise SourceError(
            "load_classifier",
            got=f"{text!r}, which is no folder",
            expected="an embedded model, a folder, or a hub id",
            hint=f"embedded models: {', '.join(embedded_models()) or 'none'}",
        )
    return text, text, "hub"


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the progress bars, load reports and retry notes of `transformers` and the hub; settings are put
    back afterwards.
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


def _read(name: str, path: str, source: str, revision: str | None, what: str) -> Any:
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PretrainedConfig

    options: dict[str, Any] = {"revision": revision} if source == "hub" and revision else {}
    try:
        with _quietly():
            if what == "settings":
                return PretrainedConfig.get_config_dict(path, **options)[0]
            options["trust_remote_code"] = (
                False  # unset, transformers asks on standard input whether to run a folder's own code
            )
            if what == "config":
                return AutoConfig.from_pretrained(path, **options)
            if what == "tokenizer":
                return AutoTokenizer.from_pretrained(path, use_fast=True, **options)
            return AutoModelForSequenceClassification.from_pretrained(
                path, dtype="auto", output_loading_info=True, **options
            )
    except Exception as error:  # transformers raises many kinds; each means that this model cannot be read
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if source == "hub":
            raise SourceError(
                "load_classifier",
                got=f"hub id {name!r}, which cannot be loaded ({reason})",
                expected="a hub id that can be reached",
                hint='check the id and the connection, or use the embedded model: load_classifier("companion")',
            ) from error
        raise SourceError(
            "load_classifier",
            got=f"folder {name!r} whose {what} cannot be read ({reason})",
            expected="config.json, weights and tokenizer files in the hub's format",
            hint="save the model and its tokenizer there with save_pretrained",
        ) from error


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _tokenizer_fingerprint(tokenizer: Any) -> str:
    """Of everything that turns a text into ids: vocabulary, normaliser, splitting, special tokens, greatest
    length.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)  # none where the family has no fast tokenizer
    state = json.loads(backend.to_str()) if backend else tokenizer.get_vocab()
    state = {
        key: value for key, value in state.items() if key not in ("truncation", "padding")
    }  # set anew by every call
    return _digest([state, sorted(tokenizer.all_special_ids), int(tokenizer.model_max_length)])


def _fingerprint(name: str, network: nn.Module) -> str:
    digest = hashlib.sha256()
    for key, value in sorted(network.state_dict().items()):
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ModelError(
                "load_classifier",
                got=f"{name!r} with a weight {key} that is not finite",
                expected="finite weights",
                hint="load another checkpoint",
            )
        digest.update(key.encode())
        digest.update(
            value.contiguous().view(torch.uint8).numpy().tobytes()
            if value.ndim
            else str(value.item()).encode()
        )
    return digest.hexdigest()[:16]
