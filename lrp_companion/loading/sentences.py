"""Sentence encoders: the modules of sentence-transformers as one network, and what SetFit puts on top."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrp_companion.checks import ModelError, shown
from lrp_companion.families.wiring import Norm, UnitLength

POOLINGS = {"mean": "mean", "cls": "first", "max": "max"}
"""What a pooling reads, by the names of sentence-transformers."""
SIMILARITIES = ("cosine", "dot")
Part = tuple[str, Mapping[str, Any]]
"""A module of sentence-transformers: the name of its class, and its configuration."""


class SentenceEncoder(nn.Module):
    """A network whose logits are the embedding of a text, or the outputs of a linear `head` on it.

    A token whose mask is 0 is in no mean and no maximum, as in sentence-transformers; a pooling of the first
    token reads it even so. Shapes: `input_ids` and `attention_mask` (B, T); logits (B, C).
    """

    main_input_name = "input_ids"

    def __init__(
        self, base: Any, parts: Sequence[Part], *, similarity: str | None, head: nn.Linear | None = None
    ) -> None:
        super().__init__()
        kinds = [kind for kind, _ in parts]
        modes = [mode for kind, config in parts if kind == "Pooling" for mode in _modes(config)]
        known = kinds[:2] == ["Transformer", "Pooling"] and {*kinds[2:]} <= {"Normalize"}
        if (
            not known
            or len(modes) != 1
            or modes[0] not in POOLINGS
            or similarity not in (None, *SIMILARITIES)
        ):
            got = f"an encoder of {', '.join(kinds)} with pooling {', '.join(modes)}, similarity {similarity}"
            expected = (
                f"Transformer, Pooling ({', '.join(POOLINGS)}) and Normalize, {' or '.join(SIMILARITIES)}"
            )
            raise ModelError("load_classifier", got=got, expected=expected, hint="choose such an encoder")
        if hasattr(base, "pooler"):
            base.pooler = None  # no pooling reads it
        self.base_model, self.config, self.base_model_prefix = base, base.config, base.base_model_prefix
        self.pooling, self.similarity, self.normalised = POOLINGS[modes[0]], similarity, len(kinds) > 2
        if head is None:
            width = self.config.hidden_size
            head = nn.Linear(width, width, bias=False, dtype=base.dtype)
            nn.init.eye_(head.weight)
        self.head = head

    @property
    def steps(self) -> tuple[tuple[nn.Linear | Norm, None], ...]:
        """What follows the pooling, for a wiring."""
        unit = ((UnitLength(self.head, 0.0), None),) if self.normalised else ()
        return (*unit, (self.head, None))

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> SimpleNamespace:
        """The logits, of that name."""
        x = self.base_model(input_ids, attention_mask=attention_mask, **inputs).last_hidden_state
        whole = attention_mask is None or attention_mask.ndim != 2
        mask = torch.ones_like(x[..., :1]) if whole else attention_mask.to(x).unsqueeze(-1)
        if self.pooling == "mean":
            x = (x * mask).sum(1) / mask.sum(1)
        else:
            x = x[:, 0] if self.pooling == "first" else x.masked_fill(mask == 0, -torch.inf).amax(1)
        return SimpleNamespace(logits=self.head(nn.functional.normalize(x) if self.normalised else x))


def label(config: Any, names: Sequence[Any] | None = None, problem: str = "regression") -> Any:
    """Name the outputs in a configuration; without names they are the coordinates of an embedding."""
    named = [f"coordinate {k}" for k in range(config.hidden_size)] if names is None else map(str, names)
    config.id2label, config.problem_type = dict(enumerate(named)), problem
    return config


def _modes(config: Mapping[str, Any]) -> list[str]:
    """The poolings that a configuration names, as version 6 or as earlier ones write them."""
    old = [key.removeprefix("pooling_mode_") for key, on in config.items() if on is True and "mode" in key]
    return [*np.atleast_1d(config.get("pooling_mode", [key.partition("_tok")[0] for key in old]))]


def check_texts(name: str, tokenizer: Any, *, prompt: Any, lower: Any) -> None:
    """Refuse an encoder that reads other texts than it is given."""
    if prompt or (lower and tokenizer.tokenize("A") != tokenizer.tokenize("a")):
        got = f"{name!r} with default_prompt_name {shown(prompt)} and do_lower_case {bool(lower)}"
        expected, hint = "an encoder that reads texts as they are", "unset it, and put it into your texts"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def opened(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """The network and the tokenizer of an object that holds both: a `SentenceTransformer`, a `SetFitModel`, a
    `CrossEncoder` or a pipeline of `transformers`; anything else as it is.
    """
    body = model if hasattr(model, "similarity_fn_name") else getattr(model, "model_body", None)
    holder = model if body is None else body
    if body is None and not (hasattr(model, "model") and hasattr(model, "tokenizer")):
        return model, tokenizer
    tokenizer = copy.deepcopy(holder.tokenizer) if tokenizer is None else tokenizer
    tokenizer.model_max_length = getattr(holder, "max_seq_length", None) or tokenizer.model_max_length
    modules = [] if body is None else list(body)
    lower = getattr(modules[0], "do_lower_case", False) if modules else False
    prompt = getattr(holder, "default_prompt_name", None)
    check_texts(type(model).__name__, tokenizer, prompt=prompt, lower=lower)
    if body is None:
        return model.model, tokenizer
    parts = [(type(one).__name__, getattr(one, "get_config_dict", dict)()) for one in modules]
    base = copy.deepcopy(modules[0].auto_model)
    if body is model:
        label(base.config)
        return SentenceEncoder(base, parts, similarity=body.similarity_fn_name or SIMILARITIES[0]), tokenizer
    if model.normalize_embeddings:
        parts.append(("Normalize", {}))
    head = _head_of(model, base.config)
    return SentenceEncoder(base, parts, similarity=None, head=head), tokenizer


def _head_of(model: Any, config: Any) -> nn.Linear:
    """The head of a SetFitModel as one linear map; its labels go into the configuration.

    A logistic regression of two classes has one logit, that of the second.
    """
    theirs = model.model_head
    if isinstance(theirs, nn.Module):
        scale = theirs.temperature + theirs.eps
        weight, bias = (None if part is None else part / scale for part in theirs.linear.parameters())
        names, sigmoid = range(len(weight)), theirs.multitarget
    else:
        weight, bias = torch.tensor(theirs.coef_), torch.tensor(theirs.intercept_)
        names, sigmoid = theirs.classes_[-len(weight) :].tolist(), len(weight) == 1
        x = np.random.default_rng(0).normal(size=(4, weight.shape[1]))
        logits = torch.tensor(x) @ weight.T + bias
        ours = logits.sigmoid() if sigmoid else logits.softmax(-1)
        if not np.allclose(theirs.predict_proba(x)[:, -len(weight) :], ours, atol=1e-6):
            got, hint = f"a head {type(theirs).__name__} of another form", "train a LogisticRegression"
            expected = "one whose probabilities are the softmax of a linear map"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    named = [model.labels[k] if model.labels and isinstance(k, int) else k for k in names]
    label(config, named, "multi_label_classification" if sigmoid else "single_label_classification")
    head = nn.Linear(weight.shape[1], len(weight), bias=bias is not None, dtype=weight.dtype)
    head.weight.data, head.bias.data = weight.detach().clone(), bias.detach().clone()
    return head
