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
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from lrp_companion.bookbuild.browser_tokenizer import tokenizer_data
from lrp_companion.bookbuild.browser_weights import BLOCK, parts, tensors
from lrp_companion.models.pretrained import Classifier
from lrp_companion.schema import ModelError, SourceError
from lrp_companion.widgets.base import STATIC, embed

ENGINE = STATIC / "engine"
WORKER = (
    "refusal", "kernel", "activations", "rules", "encoder", "forward", "embedding_relevance", "propagation",
    "tokenizer", "explain", "masks", "weights", "worker",
)  # fmt: skip
"""The worker's modules, each after those that it imports."""
FORMAT, MAX_TOKENS = 1, 128
MOST_WEIGHTS = 120_000_000
"""The most weights in layers for a browser, 4 bytes each."""
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


@dataclass(frozen=True)
class Staged:
    """What `stage` wrote: the folder, its files' bytes, those that the engine takes in, and what it makes of
    them: 32-bit floats, but for word embeddings, which stay in 8 bits.
    """

    folder: Path
    bytes_on_disk: int
    bytes_loaded: int
    bytes_in_memory: int
    parts: int


def stage(clf: Classifier, folder: Path, *, max_tokens: int = MAX_TOKENS) -> Staged:
    """Write the engine and a classifier's weights into a folder, for `LRPCompanion.load`.

    Parameters
    ----------
    clf : a classifier with a WordPiece tokenizer: BERT, DistilBERT, ELECTRA.
    folder : where the files go; it is made, and parts of an earlier stage are removed.
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
    places = manifest["tokenizer"]["maxTokens"] + manifest["firstPosition"]
    for number, part in enumerate(parts(clf, places, manifest["pieces"])):
        manifest["parts"].append({"bytes": len(part), "sum": zlib.adler32(part)})
        content = base64.b64encode(part).decode()
        (folder / f"part-{number:02}.js").write_text(f'LRPCompanion.receive("{content}");\n')
    (folder / "engine.js").write_text(script, encoding="utf-8")
    (folder / "model.js").write_text(f"LRPCompanion.receive({embed(manifest)});\n", encoding="utf-8")
    on_disk = sum(path.stat().st_size for path in folder.glob("*.js"))
    sizes = [part["bytes"] for part in manifest["parts"]]
    kept = sum(t.numel() * (1 if name == "word" else 4) for name, t in tensors(clf.encoder.wiring))
    return Staged(folder, on_disk, sum(sizes), kept, len(sizes))


def _refuse(clf: Classifier, got: str, expected: str, hint: str) -> NoReturn:
    raise ModelError("stage", got=f"{clf.card.name!r} with {got}", expected=expected, hint=hint)


ACTIVATIONS = {"gelu": torch.nn.functional.gelu, "relu": torch.relu, "tanh": torch.tanh}


def _activation(clf: Classifier, function: Any) -> str:
    """The engine's name of an activation function, found by its values."""
    points = torch.linspace(-4, 4, 41)
    values = function(points)
    for name, known in ACTIVATIONS.items():
        if torch.allclose(values, known(points), atol=1e-6):
            return name
    expected = f"one of {', '.join(ACTIVATIONS)}"
    _refuse(clf, "an activation function the engine does not have", expected, "choose another model")


def _manifest(clf: Classifier, max_tokens: int) -> dict[str, Any]:
    """What the engine needs besides the weights; refuses what it cannot run."""
    w: Any = clf.encoder.wiring
    if not w.is_bert:
        expected = "a network in BERT's order (norms after the sums, [CLS] read)"
        _refuse(clf, f"family {clf.card.family!r}", expected, "choose a BERT, DistilBERT or ELECTRA")
    if clf.regression:
        _refuse(clf, "one output, a regression", "two or more classes", "explain it with attribute()")
    first = w.layers[0]
    hidden, inner, heads = first.query.in_features, first.up.out_features, w.heads
    sizes = {"head width": hidden // heads, "inner width": inner, "embedding width": w.word.embedding_dim}
    for name, size in sizes.items():
        if size % 8:
            _refuse(clf, f"{name} {size}", "a multiple of 8", "choose another model")
    weights = sum(t.numel() for name, t in tensors(w) if name != "word")
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
        "tokenizer": tokenizer_data(clf, max_tokens),
        "pieces": [],
        "parts": [],
    }
