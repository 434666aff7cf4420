"""Sentence encoders: a network, a pooling and a norm, as sentence-transformers has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrp_companion.checks import ModelError
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
        x = pooled(x, attention_mask, self.pooling)
        return SimpleNamespace(logits=self.head(nn.functional.normalize(x) if self.normalised else x))


def pooled(x: Tensor, attention_mask: Tensor | None, pooling: str) -> Tensor:
    """The mean or maximum (B, D) of states (B, T, D) over tokens that a mask keeps, or the first one."""
    whole = attention_mask is None or attention_mask.ndim != 2
    mask = (torch.ones(x.shape[:2]) if whole else attention_mask).to(x).unsqueeze(-1)  # type: ignore[union-attr]
    if pooling == "mean":
        return (x * mask).sum(1) / mask.sum(1)
    return x[:, 0] if pooling == "first" else x.masked_fill(mask == 0, -torch.inf).amax(1)


def label(config: Any, names: Sequence[Any] | None = None, problem: str = "regression") -> Any:
    """Name the outputs in a configuration; without names they are the coordinates of an embedding."""
    named = [f"coordinate {k}" for k in range(config.hidden_size)] if names is None else map(str, names)
    config.id2label, config.problem_type = dict(enumerate(named)), problem
    return config


def _modes(config: Mapping[str, Any]) -> list[str]:
    """The poolings that a configuration names, as version 6 or as earlier ones write them."""
    old = [key.removeprefix("pooling_mode_") for key, on in config.items() if on is True and "mode" in key]
    return [*np.atleast_1d(config.get("pooling_mode", [key.partition("_tok")[0] for key in old]))]
