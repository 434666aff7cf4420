"""`load_classifier`: the embedded model, a folder in the hub's format, or a hub id; and tokenisation."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion.models.accepted import check_complete, check_config, check_finite, check_tokenizer
from lrp_companion.models.compute import check_device
from lrp_companion.models.config_entries import check_all_layers
from lrp_companion.models.encoder import Encoder, Readout, Tape
from lrp_companion.models.model_card import card_of, fingerprint_of
from lrp_companion.models.places import EMBEDDED_FOLDER, embedded_models
from lrp_companion.models.reading import readable
from lrp_companion.models.tasks import MASKED_TOKEN, TOKEN_CLASSES
from lrp_companion.models.texts import EncodedText, Reader, Text, places_read, token_types
from lrp_companion.models.wiring import LinearRows, RootMeanSquare
from lrp_companion.schema import (
    MULTI_LABEL,
    REGRESSION,
    InputError,
    ModelCard,
    ModelError,
    choose,
    is_whole,
)

__all__ = ["EMBEDDED_FOLDER", "Classifier", "EncodedText", "embedded_models", "load_classifier"]
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


CLOSE = {torch.float32: 1e-3, torch.float64: 1e-8}
"""Largest allowed difference of logits between tape and network, as a fraction of 1 + the largest logit; as
in float32 where the network works in float32 in places.
"""
TRIED = 8
"""Tokens of the forward pass that is compared when a model is loaded."""


class Classifier:
    """A text classifier with its tokenizer, ready to be explained. Made by `load_classifier`."""

    def __init__(
        self, network: nn.Module, tokenizer: Any, *, card: ModelCard, recompute: bool = False
    ) -> None:
        self.network, self.tokenizer, self.card = network, tokenizer, card
        self.encoder = Encoder(network, recompute=recompute)
        first = next(network.parameters())
        self.device, self.dtype = first.device, first.dtype
        self.labels, self.max_tokens = card.labels, card.max_tokens
        self.mask_id = tokenizer.mask_token_id
        known = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        self.pad_id = next(k for k in known if k is not None)  # any token will do where none is attended to
        self.multi_label = card.problem_type == MULTI_LABEL
        self.regression = card.problem_type == REGRESSION
        self._classes: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        c = self.card
        sizes = f"{c.layers} layers, {c.hidden} wide, {c.dtype}, {self.device.type}"
        return f"Classifier({c.name!r} from {c.source}: {c.family}, {sizes})"

    def encode(
        self, texts: Text | Iterable[Text], *, truncate: bool = False, position: int | None = None
    ) -> list[EncodedText]:
        """Tokenise texts and pairs of texts; refuse what cannot be explained, before any work.

        Parameters
        ----------
        texts : a string; a pair as a tuple of two strings; or a list of these.
        truncate : cut what is beyond `max_tokens`: the end of a text; for a pair, that of the longer text
            first.
        position : the token whose classes are explained, from 0, counting special tokens; only for a model of
            token classes.

        Raises
        ------
        InputError : no texts; a text that is not a string, is empty, has only special tokens, spells a
            special token such as [SEP], or is beyond `max_tokens`; a position that is missing, beyond a text,
            or not applicable.

        >>> clf = load_classifier("companion")
        >>> [text.tokens for text in clf.encode(("A fine film.", "Not bad."))]
        [('[CLS]', 'a', 'fine', 'film', '.', '[SEP]', 'not', 'bad', '.', '[SEP]')]
        """
        w = self.encoder.wiring
        reader = Reader(self.tokenizer, self.max_tokens, w.types, reads_mask=w.task == MASKED_TOKEN)
        encoded = reader.encode(texts, truncate=truncate)
        return encoded if w.task != TOKEN_CLASSES and position is None else self._at(encoded, position)

    def _at(self, texts: list[EncodedText], position: object) -> list[EncodedText]:
        """The texts with the token that is explained."""
        if self.encoder.wiring.task != TOKEN_CLASSES:
            got, expected = f"position {position!r}", "a position only for a model of token classes"
            raise InputError("encode", got=got, expected=expected, hint="leave it out")
        shortest = min(len(text) for text in texts)
        if not is_whole(position) or not 0 <= int(position) < shortest:
            got = f"position {position!r}" if position is not None else "no position"
            expected = f"the token whose classes are explained, from 0 to {shortest - 1}"
            raise InputError(
                "encode", got=got, expected=expected, hint="attribute(clf, text, position=2, ...)"
            )
        return [dataclasses.replace(text, read=int(position)) for text in texts]

    def class_of(self, target: Any) -> Any:
        """A class by its text: for a language model the token that spells it; else the target itself.

        Raises
        ------
        InputError : a text of several tokens, or of none.
        """
        if not (self.encoder.wiring.of_vocabulary and isinstance(target, str)) or target in self.labels:
            return target
        ids = self.tokenizer(target, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            return int(ids[0])
        tokens = ", ".join(self.tokenizer.convert_ids_to_tokens(ids)) or "none"
        got, expected = f"target {target!r} of {len(ids)} tokens ({tokens})", "the text of one token"
        raise InputError("attribute", got=got, expected=expected, hint="name its first token")

    def narrowed(self, classes: Sequence[int]) -> Classifier:
        """The same classifier with only these classes, in this order."""
        out, wiring = copy.copy(self), self.encoder.wiring
        (last, activation), labels = wiring.head[-1], tuple(self.labels[k] for k in classes)
        assert not isinstance(last, (nn.LayerNorm, RootMeanSquare))  # a head ends with its map to the classes
        head = (*wiring.head[:-1], (LinearRows(last, tuple(classes)), activation))
        out.encoder = copy.copy(self.encoder)
        out.encoder.wiring = dataclasses.replace(wiring, head=head)
        out.labels, out.card = labels, dataclasses.replace(self.card, labels=labels)
        out._classes = tuple(classes)
        return out

    def tape(self, text: EncodedText, **inputs: Any) -> Tape:
        """One forward pass of one text, kept; `inputs` as of `Encoder.forward`."""
        ids = torch.tensor([text.input_ids], device=self.device)
        place = places_read([text], self.device)
        return self.encoder.forward(
            ids, torch.ones_like(ids), types=self.types_of(text), place=place, **inputs
        )

    def types_of(self, text: EncodedText) -> Tensor | None:
        """Token types (1, T) of one text; None where all are 0."""
        return token_types([text], self.device)

    def extra_inputs(self, shape: torch.Size | tuple[int, int], types: Tensor | None) -> dict[str, Tensor]:
        """Further inputs of the `transformers` model besides ids and mask (B, T)."""
        extra = {}
        if self.encoder.wiring.first_position:
            # Left to itself, RoBERTa skips a position where a token is replaced by padding.
            extra["position_ids"] = self.encoder.position_ids(shape[1], self.device).expand(*shape)
        if types is not None and self.encoder.wiring.types > 1:
            extra["token_type_ids"] = types.expand(*shape)
        return extra

    @torch.no_grad()
    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        types: Tensor | None = None,
        place: Tensor | None = None,
    ) -> Tensor:
        """The logits (B, C) of the `transformers` model for ids, mask and token types (B, T), read at `place`
        (B,) if the model reads a place.
        """
        extra = self.extra_inputs(input_ids.shape, types)
        return self.run_network(attention_mask, place=place, input_ids=input_ids, **extra)

    def run_network(self, attention_mask: Tensor, *, place: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """The logits (B, C) of the `transformers` model for its inputs: ids or embeddings, positions, types.

        A causal network finds the token to read by the id of padding; here it is the last token of the mask.
        """
        base = self.encoder.wiring.base
        if base is None:
            logits = self.network(attention_mask=attention_mask, **inputs).logits
            if self.encoder.wiring.readout == "place":
                logits = Readout.of("place", logits[..., 0], logits.dtype, place=place).read(logits)
            return logits if self._classes is None else logits[:, list(self._classes)]
        hidden = base(attention_mask=attention_mask, use_cache=False, **inputs).last_hidden_state
        attended = attention_mask if attention_mask.ndim == 2 else hidden.new_ones(hidden.shape[:2])
        x = Readout.of(self.encoder.wiring.readout, attended, hidden.dtype, place=place).read(hidden)
        for module, activation in self.encoder.wiring.head:
            x = module(x) if activation is None else activation(module(x))
        return x


@torch.inference_mode(False)  # weights that are made in it can have no gradient
def load_classifier(
    model: str | os.PathLike | nn.Module = "companion",
    tokenizer: Any = None,
    *,
    device: str = "cpu",
    dtype: str | torch.dtype = "float32",
    revision: str | None = None,
    recompute: bool = False,
) -> Classifier:
    """Load a model of a supported family (`models.families`) to explain: a classifier of texts or tokens, or
    a model that predicts the next or a masked token.

    Code from a folder or a hub repository is never run: a model that needs it is refused. One forward pass is
    compared with the `transformers` model's, so a network that computes something other than its family is
    also refused.

    Parameters
    ----------
    model : an embedded model ("companion"), a folder in the hub's on-disk format or of a PEFT adapter (which
        is merged, with `peft`), a hub id, or a network of `transformers` in memory, which is copied.
    tokenizer : the tokenizer of a network in memory.
    device : "cpu", "cuda", "cuda:1", ...
    dtype : "float32", "float64" or "bfloat16", or PyTorch's dtypes; weights are converted.
    revision : branch, tag or commit, only for a hub id.
    recompute : keep the tape of one layer at a time, for long texts and large models; every layer that is
        walked runs once more. Up to rounding, scores are the same.

    Raises
    ------
    InputError : a network without a tokenizer, a tokenizer without a network, an unknown device or dtype.
    SourceError : the folder, the hub or the id cannot be reached or read.
    ModelError : the model is not a sequence classifier, its wiring is not supported, or its logits are not
        finite.

    >>> load_classifier("companion").card.layers
    12
    """
    dtype = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype
    weights_dtype = DTYPES[choose("load_classifier", "dtype", dtype, tuple(DTYPES))]
    if not isinstance(recompute, bool):
        got, hint = f"recompute {recompute!r}", "True saves memory"
        raise InputError("load_classifier", got=got, expected="True or False", hint=hint)
    place = check_device("load_classifier", device)
    files = readable(model, tokenizer, revision)
    config = files.read("config")
    check_config(files.name, config)
    network, report = files.read("network")
    check_complete(files.name, report["missing_keys"])
    check_all_layers(files.name, config, report["unexpected_keys"])
    tokenizer = files.read("tokenizer")
    wiring = Encoder(network).wiring
    check_tokenizer(files.name, tokenizer, config.vocab_size, causal=wiring.causal)
    check_finite(files.name, network)
    fingerprint = fingerprint_of(network)  # before the weights are converted
    precise = torch.float32 if weights_dtype == torch.bfloat16 else weights_dtype
    network.eval().requires_grad_(False).to(device=place, dtype=precise)
    if any(layer.cap is not None for layer in wiring.layers):
        network.set_attn_implementation("eager")  # others leave the cap out, depending on the version
    card = card_of(files, config, wiring, tokenizer, dtype=dtype, fingerprint=fingerprint)
    _check_forward(Classifier(network, tokenizer, card=card))
    network.to(dtype=weights_dtype)
    return Classifier(network, tokenizer, card=card, recompute=recompute)


@torch.no_grad()
def _check_forward(clf: Classifier) -> None:
    """Refuse a network whose logits are not finite or not those of its wiring, on two rows, one padded."""
    name, ordinary = clf.card.name, _ordinary_ids(clf)
    ids = torch.tensor([ordinary, ordinary[::-1]], device=clf.device)
    mask = torch.ones_like(ids)
    mask[1, -1:] = 0
    types = torch.zeros_like(ids)
    if clf.encoder.wiring.types > 1:
        types[:, ids.shape[1] // 2 :] = 1
    there, here = clf.logits(ids, mask, types), clf.encoder.forward(ids, mask, types=types).logits
    if not (there.isfinite().all() and here.isfinite().all()):
        got, hint = f"{name!r}, whose logits are not finite", "load another checkpoint, or check config.json"
        raise ModelError("load_classifier", got=got, expected="finite logits", hint=hint)
    apart = float((there - here).abs().max())
    in_single = clf.encoder.wiring.single_precision
    close = CLOSE[torch.float32 if in_single else here.dtype]
    if apart > close * (1 + float(there.abs().max())):
        got = f"{name!r}, whose logits are {apart:.2g} away from those of its family's layers"
        expected = f"a network that computes what {clf.card.family} does"
        hint = "check config.json (such as is_decoder), or register the wiring of your network with family()"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def _ordinary_ids(clf: Classifier) -> list[int]:
    """A few token ids that are not special, spread over the vocabulary."""
    special = set(clf.tokenizer.all_special_ids)
    ids = [k for k in range(len(clf.tokenizer)) if k not in special]
    count = min(TRIED, clf.max_tokens)
    return [ids[k * (len(ids) - 1) // max(1, count - 1)] for k in range(count)]
