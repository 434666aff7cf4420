"""Checks a model before it is staged: the logits of the engine's arithmetic must be those of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.compute import CLOSE
from lrp_companion.loading.texts import EncodedText

PHI: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    None: lambda z: z,
}
"""The engine's activation functions."""


@torch.no_grad()
def check_page(clf: Classifier, manifest: dict[str, Any], named: Iterator[tuple[str, torch.Tensor]]) -> None:
    """Compare the engine's arithmetic, on the weights before they are rounded, with the network's own.

    Raises
    ------
    ModelError : the logits differ by more than rounding.
    """
    tensors = dict(named)
    by_part = {(name.lstrip("0123456789"), tensor.shape) for name, tensor in tensors.items()}
    one_size = len(by_part) == len({part for part, _ in by_part})  # the engine has one for all layers
    data = manifest["tokenizer"]
    ordinary = [k for k, token in enumerate(data["vocabulary"]) if token and k not in data["reserved"]]
    count = max(1, min(12, data["maxTokens"] - len(data["before"]) - len(data["after"])))
    inner = [ordinary[k * (len(ordinary) - 1) // count] for k in range(count)]
    ids = [*data["before"], *inner, *data["after"]]
    here = page_logits(manifest, tensors, ids)
    text = EncodedText("", tuple(ids), tuple(map(str, ids)), np.zeros(len(ids), dtype=bool))
    numbers, mask, further = clf.batch([text])
    there = clf.logits(numbers, mask, **further)[0].double().cpu()
    apart = float((here - there).abs().max()) if here.shape == there.shape and one_size else float("inf")
    if not apart <= CLOSE[clf.dtype] * (1 + float(there.abs().max())):
        got = f"{clf.card.name!r}, whose logits in the page would be {apart:.2g} from Python's"
        expected, hint = "layers of its family, of one size", "explain it in Python, with attribute()"
        raise ModelError("stage", got=got, expected=expected, hint=hint)


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
