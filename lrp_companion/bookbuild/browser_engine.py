"""Stages a classifier for the browser: the engine as one script, the weights in parts of 8 bits.

What is staged, in one folder:

- `engine.js` defines `window.LRPCompanion`; it holds the worker's text (the modules of
  `widgets/static/engine/`, joined) and the compiled kernel, and loads nothing.
- `model.js`, the manifest: sizes, where each tensor lies, labels, the tokenizer with its vocabulary.
- `part-00.js`, ...: bytes in base64. Each is a call of `LRPCompanion.receive`, so a page opened from disk
  loads it as a script; on a web host the same file is fetched, its bytes are checked, and the browser keeps
  them.

A matrix is rounded row by row in blocks of 64 columns: steps of 8 bits with a 32-bit scale for each block.
LayerNorms, biases and the classifier stay 32-bit floats.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lrp_companion.models.encoder import Wiring
from lrp_companion.models.pretrained import Classifier
from lrp_companion.schema import ModelError, SourceError
from lrp_companion.widgets.base import STATIC, embed

ENGINE = STATIC / "engine"
WORKER = (
    "refusal", "kernel", "activations", "rules", "encoder", "forward", "embedding_relevance", "propagation",
    "tokenizer", "explain", "masks", "weights", "worker",
)  # fmt: skip
"""The worker's modules, each after those that it imports."""
FORMAT, BLOCK, MAX_TOKENS = 1, 64, 128
PART_BYTES = 2_000_000
MOST_WEIGHTS = 120_000_000
"""Weights of the layers that a browser is asked to hold, 4 bytes each."""
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_FUSED = re.compile(
    r"\(f32x4\.add (\(local\.get \$\w+\)) \(f32x4\.mul (\(local\.get \$\w+\)) (\(local\.get \$\w+\))\)\)"
)


def joined(*modules: str) -> str:
    """Return engine modules as one text: without imports and exports, in this order."""
    texts = ((ENGINE / f"{name}.js").read_text(encoding="utf-8") for name in modules)
    return "\n".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)


def kernels() -> tuple[bytes, bytes]:
    """Return the compiled kernel twice: with fused products (relaxed SIMD), then as it is written.

    Raises
    ------
    SourceError : the package `wasmtime`, which compiles it, is not installed.
    """
    try:
        from wasmtime import wat2wasm
    except ImportError:
        expected, hint = (
            "its compiler, the package wasmtime",
            "install the extra book: pip install -e .[book]",
        )
        raise SourceError("stage", got="the engine's kernel", expected=expected, hint=hint) from None
    text = (ENGINE / "kernel.wat").read_text(encoding="utf-8")
    fused = _FUSED.sub(r"(f32x4.relaxed_madd \2 \3 \1)", text)
    return bytes(wat2wasm(fused)), bytes(wat2wasm(text))


def engine_script() -> str:
    """Return the engine as a classic script, which defines `window.LRPCompanion`."""
    worker = f'"use strict";\n{joined(*WORKER)}\nlisten();\n'
    compiled = [base64.b64encode(kernel).decode() for kernel in kernels()]
    content = embed({"worker": worker, "kernels": compiled})
    page = joined("refusal", "companion")
    return (
        f'"use strict";\nwindow.LRPCompanion ??= (() => {{\nconst ENGINE = {content};\n{page}\n'
        "return LRPCompanion;\n})();\n"
    )


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return steps (rows, columns) of 8 bits and scales (rows, blocks): `w` is near `step * scale`.

    >>> steps, scales = quantised(np.array([[1.0, -2.0], [0.0, 0.0]], dtype=np.float32))
    >>> steps.tolist(), scales.ravel().round(4).tolist()
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
    """Return a classifier whose weights are those that the browser works with; `clf` stays as it is."""
    network = copy.deepcopy(clf.network)
    out = Classifier(network, clf.tokenizer, card=clf.card)
    with torch.no_grad():
        for name, tensor in _tensors(out.encoder.wiring):
            if _in_steps(name, tensor):
                kept = torch.from_numpy(restored(*quantised(tensor.detach().cpu().numpy())))
                tensor.copy_(kept)
    return out


def _tensors(wiring: Wiring) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight under the name that the engine knows it by."""
    yield "word", wiring.word.weight
    yield "position", wiring.position.weight
    if wiring.type is not None:
        yield "type", wiring.type.weight
    modules: list[tuple[str, nn.Module | None]] = [
        ("embedding_norm", wiring.embedding_norm),
        ("projection", wiring.projection),
    ]
    for number, layer in enumerate(wiring.layers, start=1):
        names = ("query", "key", "value", "attention_out", "attention_norm", "up", "down", "output_norm")
        modules += [(f"{number}.{name}", getattr(layer, name)) for name in names]
    modules += [(f"head{k}", linear) for k, (linear, _) in enumerate(wiring.head)]
    for name, module in modules:
        if module is not None:
            yield f"{name}.weight", module.weight  # type: ignore[misc]
            yield f"{name}.bias", module.bias  # type: ignore[misc]


def _in_steps(name: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor is staged in 8 bits: matrices, but for type embeddings and the head."""
    return tensor.ndim == 2 and name != "type" and not name.startswith("head")


@dataclass(frozen=True)
class Staged:
    """What `stage` wrote: the folder, its files' bytes, and the bytes that the engine takes in."""

    folder: Path
    bytes_on_disk: int
    bytes_loaded: int
    parts: int


def stage(clf: Classifier, folder: Path, *, max_tokens: int = MAX_TOKENS) -> Staged:
    """Write the engine and a classifier's weights into a folder, for `LRPCompanion.load`.

    Parameters
    ----------
    clf : a classifier with a WordPiece tokenizer: BERT, DistilBERT, ELECTRA.
    folder : where the files go; it is made, and parts of an earlier stage are taken away.
    max_tokens : longer texts are refused in the page.

    Raises
    ------
    ModelError : the engine cannot run the model: another tokenizer, an activation function that it does not
        have, sizes that the kernel cannot tile, or too many weights.
    SourceError : the kernel's compiler is not installed.
    """
    manifest = _manifest(clf, min(max_tokens, clf.max_tokens))
    script = engine_script()
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.js"):
        stale.unlink()
    for number, part in enumerate(_parts(clf, manifest)):
        manifest["parts"].append({"bytes": len(part), "sum": zlib.adler32(part)})
        content = base64.b64encode(part).decode()
        (folder / f"part-{number:02}.js").write_text(f'LRPCompanion.receive("{content}");\n')
    (folder / "engine.js").write_text(script, encoding="utf-8")
    (folder / "model.js").write_text(f"LRPCompanion.receive({embed(manifest)});\n", encoding="utf-8")
    on_disk = sum(path.stat().st_size for path in folder.glob("*.js"))
    parts = manifest["parts"]
    return Staged(folder, on_disk, sum(part["bytes"] for part in parts), len(parts))


def _pieces(clf: Classifier, places: int) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """Rows of tensors, each piece small enough for a part, with the arrays that hold them."""
    for name, tensor in _tensors(clf.encoder.wiring):
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


def _parts(clf: Classifier, manifest: dict[str, Any]) -> Iterator[bytes]:
    """The bytes of each part, as full as its pieces let it be; says in the manifest where they lie."""
    places = manifest["tokenizer"]["maxTokens"] + manifest["firstPosition"]
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
        manifest["pieces"].append(piece)
    yield bytes(part)


def _refuse(clf: Classifier, got: str, expected: str, hint: str) -> None:
    raise ModelError("stage", got=f"{clf.card.name!r} with {got}", expected=expected, hint=hint)


ACTIVATIONS = {"gelu": torch.nn.functional.gelu, "relu": torch.relu, "tanh": torch.tanh}


def _activation(clf: Classifier, function: Any) -> str:
    """The engine's name of an activation function, told by its values."""
    points = torch.linspace(-4, 4, 41)
    values = function(points)
    for name, known in ACTIVATIONS.items():
        if torch.allclose(values, known(points), atol=1e-6):
            return name
    expected = f"one of {', '.join(ACTIVATIONS)}"
    _refuse(clf, "an activation function the engine does not have", expected, "choose another model")
    raise AssertionError


def _manifest(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine needs to know beside the weights; refuses what it cannot run."""
    w = clf.encoder.wiring
    first = w.layers[0]
    hidden, inner, heads = first.query.in_features, first.up.out_features, w.heads
    sizes = {"head width": hidden // heads, "inner width": inner, "embedding width": w.word.embedding_dim}
    for name, size in sizes.items():
        if size % 8:
            _refuse(clf, f"{name} {size}", "a multiple of 8", "choose another model")
    weights = sum(t.numel() for name, t in _tensors(w) if name != "word")
    if weights > MOST_WEIGHTS:
        expected = f"at most {MOST_WEIGHTS:,}, 4 bytes each in the browser's memory"
        _refuse(clf, f"{weights:,} weights", expected, "choose a smaller model")
    return {
        "format": FORMAT,
        "name": clf.card.name,
        "fingerprint": clf.card.fingerprint,
        "labels": list(clf.labels),
        "layers": len(w.layers),
        "heads": heads,
        "hidden": hidden,
        "inner": inner,
        "block": BLOCK,
        "activation": _activation(clf, first.activation),
        "head": [
            {"name": f"head{k}", "activation": None if function is None else _activation(clf, function)}
            for k, (_, function) in enumerate(w.head)
        ],
        "normEps": w.embedding_norm.eps,
        "firstPosition": w.first_position,
        "hasType": w.type is not None,
        "hasProjection": w.projection is not None,
        "tokenizer": _tokenizer(clf, max_tokens),
        "pieces": [],
        "parts": [],
    }


def _tokenizer(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine's WordPiece needs; refuses tokenizers that work another way."""
    backend = getattr(clf.tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend else {}
    kinds = tuple((state.get(key) or {}).get("type") for key in ("model", "normalizer", "pre_tokenizer"))
    if kinds != ("WordPiece", "BertNormalizer", "BertPreTokenizer"):
        expected, hint = "BERT's WordPiece", "choose a BERT, DistilBERT or ELECTRA classifier"
        _refuse(clf, "another tokenizer", expected, hint)
    model, normalizer = state["model"], state["normalizer"]
    vocabulary = clf.tokenizer.convert_ids_to_tokens(range(len(clf.tokenizer)))
    strip = normalizer["strip_accents"]
    return {
        "vocabulary": vocabulary,
        "special": {token["content"]: token["id"] for token in state["added_tokens"]},
        "cls": clf.tokenizer.cls_token_id,
        "sep": clf.tokenizer.sep_token_id,
        "unknown": clf.tokenizer.convert_tokens_to_ids(model["unk_token"]),
        "lowercase": normalizer["lowercase"],
        "stripAccents": normalizer["lowercase"] if strip is None else strip,
        "clean": normalizer["clean_text"],
        "chinese": normalizer["handle_chinese_chars"],
        "prefix": model["continuing_subword_prefix"],
        "longest": model["max_input_chars_per_word"],
        "maxTokens": max_tokens,
    }
