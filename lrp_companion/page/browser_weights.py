"""The weights of a staged model: rounded to 8 bits in blocks, in parts that a page can load one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from lrp_companion.loading.classifier import Classifier

BLOCK = 64
"""Columns that share a scale."""
PART_BYTES = 2_000_000


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return steps (rows, columns) of 8 bits and scales (rows, blocks): `w` is near `step * scale`.

    >>> steps, scales = quantised(np.array([[1.0, -2.0], [0.0, 0.0]], dtype=np.float32))
    >>> steps.tolist(), scales.ravel().astype(float).round(4).tolist()
    ([[64, -127], [0, 0]], [0.0157, 0.0])
    """
    rows, columns = matrix.shape
    padded = np.pad(matrix.astype(np.float32), ((0, 0), (0, -columns % BLOCK))).reshape(rows, -1, BLOCK)
    scales = np.abs(padded).max(-1) / np.float32(127)
    steps = np.rint(padded / np.where(scales == 0, 1, scales)[..., None]).astype(np.int8)
    return steps.reshape(rows, -1)[:, :columns], scales


def restored(steps: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return what the engine multiplies with, (rows, columns), 32-bit: step times scale."""
    return steps.astype(np.float32) * np.repeat(scales, BLOCK, axis=1)[:, : steps.shape[1]]


def as_staged(clf: Classifier) -> Classifier:
    """Return a classifier with the weights that the browser uses; `clf` does not change."""
    network = copy.deepcopy(clf.network)
    out = Classifier(network, clf.tokenizer, card=clf.card)
    with torch.no_grad():
        for name, tensor in tensors(out.encoder.wiring):
            if _in_steps(name, tensor):
                kept = torch.from_numpy(restored(*quantised(tensor.detach().cpu().numpy())))
                tensor.copy_(kept)
    return out


def modules(wiring: Any) -> Iterator[tuple[str, Any]]:
    """Every linear map and norm under its name in the engine."""
    named: list[tuple[str, Any]] = [
        ("embedding_norm", wiring.embedding_norm),
        ("projection", wiring.projection),
    ]
    for number, layer in enumerate(wiring.layers, start=1):
        names = ("query", "key", "value", "attention_out", "attention_norm", "up", "down", "output_norm")
        named += [(f"{number}.{name}", getattr(layer, name)) for name in names]
    named += [(f"head{k}", linear) for k, (linear, _) in enumerate(wiring.head)]
    yield from ((name, module) for name, module in named if module is not None)


def tensors(wiring: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight under its name in the engine; a missing bias is 0."""
    yield "word", wiring.word.weight
    yield "position", wiring.position.weight
    if wiring.type is not None:
        yield "type", wiring.type.weight
    for name, module in modules(wiring):
        yield f"{name}.weight", module.weight
        bias = module.bias
        yield f"{name}.bias", module.weight.new_zeros(module.weight.shape[0]) if bias is None else bias


def _in_steps(name: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor is staged in 8 bits: matrices, except type embeddings and the head."""
    return tensor.ndim == 2 and name != "type" and not name.startswith("head")


def _pieces(clf: Classifier, places: int) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """Rows of tensors, each piece small enough for a part, with the arrays that hold them."""
    for name, tensor in tensors(clf.encoder.wiring):
        values = tensor.detach().cpu().to(torch.float32).numpy()
        values = values[:places] if name == "position" else np.atleast_2d(values)
        rows, columns = values.shape
        step = max(1, PART_BYTES // columns) if _in_steps(name, tensor) else rows
        for start in range(0, rows, step):
            block = values[start : start + step]
            piece = {"name": name, "rows": len(block), "columns": columns, "from": start, "of": rows}
            if _in_steps(name, tensor):
                yield piece, list(quantised(block))
            else:
                yield piece, [np.ascontiguousarray(block)]


def parts(clf: Classifier, places: int, table: list[dict[str, Any]]) -> Iterator[bytes]:
    """The bytes of each part, as full as its pieces let it be; where they lie is added to the table.

    Of the position embeddings the first `places` are taken.
    """
    part, number = bytearray(), 0
    for piece, arrays in _pieces(clf, places):
        if part and len(part) + sum(array.nbytes for array in arrays) > 1.1 * PART_BYTES:
            yield bytes(part)
            part, number = bytearray(), number + 1
        piece["part"] = number
        for key, array in zip(("at", "scales"), arrays, strict=False):
            piece[key] = len(part)
            part += array.astype(array.dtype.newbyteorder("<")).tobytes()
            part += bytes(-len(part) % 4)
        table.append(piece)
    yield bytes(part)
