"""Stages a classifier for the browser: the engine as one script, the weights in parts of 8 bits.

What is staged, in one folder:

- `engine.js` defines `window.LRPCompanion`; it holds the worker's text (the modules of
  `widgets/static/engine/`, joined) and the compiled kernel, and loads nothing.
- `model.js`, the manifest: sizes, where each tensor lies, labels, the tokenizer with its vocabulary.
- `part-00.bin`, ...: bytes, which are fetched from a web host and checked, and the browser keeps them.
- `part-00.js`, ...: the same in base64, in a call of `LRPCompanion.receive`, so that a page opened from disk
  loads them as scripts.

A matrix is rounded row by row in blocks of 64 columns: steps of 8 bits with a 32-bit scale for each block.
LayerNorms, biases and the classifier stay 32-bit floats.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrp_companion.checks import ModelError, extra
from lrp_companion.families.tasks import CLASSES
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.comparison import CLOSE
from lrp_companion.loading.texts import EncodedText
from lrp_companion.page.browser_tokenizer import tokenizer_data
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import STATIC, embed

ENGINE = STATIC / "engine"
WORKER = (
    "refusal",
    "kernel",
    "activations",
    "rules",
    "encoder",
    "forward",
    "embedding_relevance",
    "propagation",
    "tokenizer",
    "explain",
    "masks",
    "weights",
    "worker",
)
"""The worker's modules, each after those that it imports."""
FORMAT, MAX_TOKENS = 2, 128
MOST_WEIGHTS = 120_000_000
"""The most weights in layers for a browser, 4 bytes each."""
BLOCK = 64
"""Columns that share a scale."""
PART_BYTES = 2_000_000
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_FUSED = re.compile(
    r"\(f32x4\.add (\(local\.get \$\w+\)) \(f32x4\.mul (\(local\.get \$\w+\)) (\(local\.get \$\w+\))\)\)"
)


def joined(*modules: str) -> str:
    """Return engine modules as one text: without imports and exports, in this order."""
    texts = ((ENGINE / f"{name}.js").read_text(encoding="utf-8") for name in modules)
    return "\n".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)


def kernels() -> tuple[bytes, bytes]:
    """Return the compiled kernel twice: with fused products (relaxed SIMD), then as it is written."""
    with extra("stage"):
        from wasmtime import wat2wasm
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


@dataclass(frozen=True)
class Staged:
    """What `stage` wrote: the folder, the bytes that a page loads from disk and from a web host, and what the
    engine makes of them: 32-bit floats, but for word embeddings, which stay in 8 bits.
    """

    folder: Path
    bytes_on_disk: int
    bytes_sent: int
    bytes_in_memory: int


def stage(clf: Classifier, folder: Path, *, max_tokens: int = MAX_TOKENS) -> Staged:
    """Write the engine and a classifier's weights into a folder, for `LRPCompanion.load`.

    Parameters
    ----------
    clf : a classifier with a WordPiece tokenizer: BERT, DistilBERT, ELECTRA.
    folder : where the files go; it is made, and parts of an earlier stage are removed.
    max_tokens : longer texts are refused in the page.

    Raises
    ------
    ModelError : the engine cannot run the model (task, tokenizer, activation function, sizes, too many
        weights), or it would give other tokens or logits than Python.
    SourceError : the kernel's compiler is not installed.
    """
    script = engine_script()
    manifest = _manifest(clf, min(max_tokens, clf.max_tokens))
    check_page(clf, manifest, tensors(clf.encoder.wiring))
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*"):
        stale.unlink()
    places = manifest["tokenizer"]["maxTokens"] + manifest["firstPosition"]
    for number, part in enumerate(parts(clf, places, manifest["pieces"])):
        manifest["parts"].append({"bytes": len(part), "sum": zlib.adler32(part)})
        content = base64.b64encode(part).decode()
        (folder / f"part-{number:02}.bin").write_bytes(part)
        (folder / f"part-{number:02}.js").write_text(f'LRPCompanion.receive("{content}");\n')
    (folder / "engine.js").write_text(script, encoding="utf-8")
    (folder / "model.js").write_text(f"LRPCompanion.receive({embed(manifest)});\n", encoding="utf-8")
    on_disk, parts_on_disk, sent = (
        sum(path.stat().st_size for path in folder.glob(of)) for of in ("*.js", "part-*.js", "part-*.bin")
    )
    kept = sum(t.numel() * (1 if name == "word" else 4) for name, t in tensors(clf.encoder.wiring))
    return Staged(folder, on_disk, on_disk - parts_on_disk + sent, kept)


def _refusal(clf: Classifier, got: str, expected: str, hint: str) -> ModelError:
    return ModelError("stage", got=f"{clf.card.name!r} with {got}", expected=expected, hint=hint)


def _activation(clf: Classifier, function: Any) -> str | None:
    """The engine's name of an activation function, found by its values; None for none."""
    points = torch.cat(
        [torch.linspace(-8, 8, 321), torch.tensor([-1000.0, -100, -30, -11, 11, 30, 100, 1000])]
    )
    expected = f"one of {', '.join(filter(None, PHI))}"
    try:
        values = points if function is None else function(points.to(clf.dtype)).float().cpu()
    except (RuntimeError, TypeError, ValueError, IndexError):  # it wants another shape, or has weights
        values = None
    for name, known in PHI.items():
        if values is not None and values.shape == points.shape:
            wanted = known(points.to(clf.dtype)).float()
            if torch.allclose(values, wanted, atol=1e-6 if clf.dtype.itemsize >= 4 else 1e-2):
                return name
    raise _refusal(clf, "an activation function the engine does not have", expected, "choose another model")


def _manifest(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine needs besides the weights; what it would compute otherwise, `check_page` finds out."""
    w: Any = clf.encoder.wiring
    if w.task != CLASSES or clf.regression or len(clf.labels) < 2:
        one = (", with one output" if w.task == CLASSES else "") + ", a regression" * clf.regression
        raise _refusal(
            clf, f"the task {w.task!r}{one}", "two or more classes of a text", "explain it with attribute()"
        )
    first = w.layers[0]
    hidden, inner, heads = first.query.in_features, first.up.out_features, w.heads
    sizes = {"head width": hidden // heads, "inner width": inner, "embedding width": w.word.embedding_dim}
    for name, size in sizes.items():
        if size % 8:
            raise _refusal(clf, f"{name} {size}", "a multiple of 8", "choose another model")
    weights = sum(t.numel() for name, t in tensors(w) if name != "word")
    if weights > MOST_WEIGHTS:
        expected = f"at most {MOST_WEIGHTS:,}, 4 bytes each in the browser's memory"
        raise _refusal(clf, f"{weights:,} weights", expected, "choose a smaller model")
    return {
        "format": FORMAT,
        "name": visible(clf.card.name),
        "fingerprint": clf.card.fingerprint,
        "labels": [visible(str(label)) for label in clf.labels],
        "layers": len(w.layers),
        "heads": heads,
        "hidden": hidden,
        "inner": inner,
        "block": BLOCK,
        "activation": _activation(clf, first.activation),
        "head": [
            {"name": f"head{k}", "activation": _activation(clf, function)}
            for k, (_, function) in enumerate(w.head)
        ],
        "normEps": w.embedding_norm.eps,
        "firstPosition": w.first_position,
        "hasType": w.type is not None,
        "hasProjection": w.projection is not None,
        "tokenizer": tokenizer_data(clf, max_tokens),
        "pieces": [],
        "parts": [],
    }


# -- the weights, rounded to 8 bits in blocks, in parts that a page can load one by one -----------------


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return steps (rows, columns) of 8 bits and scales (rows, blocks): `w` is near `step * scale`."""
    rows, columns = matrix.shape
    padded = np.pad(matrix.astype(np.float32), ((0, 0), (0, -columns % BLOCK))).reshape(rows, -1, BLOCK)
    scales = np.abs(padded).max(-1) / np.float32(127)
    steps = np.rint(padded / np.where(scales == 0, 1, scales)[..., None]).astype(np.int8)
    return steps.reshape(rows, -1)[:, :columns], scales


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


PHI: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "tanh": torch.tanh,
    None: lambda z: z,
}
"""The engine's activation functions."""


@torch.no_grad()
def check_page(clf: Classifier, manifest: dict[str, Any], named: Iterator[tuple[str, torch.Tensor]]) -> None:
    """Compare the engine's arithmetic, on the weights before they are rounded, with the network's own."""
    tensors = dict(named)
    by_part = {(name.lstrip("0123456789"), tensor.shape) for name, tensor in tensors.items()}
    one_size = len(by_part) == len({part for part, _ in by_part})  # the engine has one for all layers
    data = manifest["tokenizer"]
    ordinary = [k for k, token in enumerate(data["vocabulary"]) if token and k not in data["reserved"]]
    count = max(1, min(12, data["maxTokens"] - len(data["before"]) - len(data["after"])))
    inner = [ordinary[k * (len(ordinary) - 1) // count] for k in range(count)]
    ids = [*data["before"], *inner, *data["after"]]
    here = page_logits(manifest, tensors, ids)
    special, types = np.zeros(len(ids), dtype=bool), (0,) * len(ids)
    text = EncodedText("", tuple(ids), tuple(map(str, ids)), special, types)
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
