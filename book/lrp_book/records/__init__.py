"""Makers of single records in `results/`: each ran once, and `results/README.md` has its call."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.families import Wiring
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.sources import Dataset

Arrays = dict[str, np.ndarray]


def is_bert(wiring: Wiring) -> bool:
    """Whether this has BERT's order: learned positions, norms after the sums, the first token read."""
    return (
        wiring.position is not None
        and wiring.rotary is None
        and not (wiring.causal or wiring.masks_whole)
        and wiring.readout == "first"
        and all(layer.attention_norm is not None and layer.gate is None for layer in wiring.layers)
        and all(layer.attention_input_norm is None for layer in wiring.layers)
    )


def config_of(clf: Classifier, data: Dataset, texts: Sequence[EncodedText], seed: int) -> dict[str, Any]:
    """The configuration behind numbers on some texts: model, data, number of texts, draw and lengths."""
    lengths = [len(text) for text in texts]
    return {
        "model": clf.card.name,
        "layers": clf.card.layers,
        "weights": clf.card.fingerprint,
        "dtype": clf.card.dtype,
        "data": f"{data.name}/{data.split} from {data.source}",
        "fingerprint": data.fingerprint,
        "texts": len(texts),
        "seed": seed,
        "tokens": {"mean": round(float(np.mean(lengths)), 2), "least": min(lengths), "most": max(lengths)},
    }


def rounded(value: Any, digits: int = 5) -> Any:
    """Numbers as a record keeps them: rounded, and None where undefined."""
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else round(float(value), digits)
    return value


def in_chunks(
    out: Path,
    lengths: Mapping[int, int],
    make: Callable[[Sequence[int]], Arrays],
    *,
    config: Mapping[str, Any],
    told: Callable[[Arrays], Mapping[str, Any]],
    chunk: int,
    say: Callable[[str], None],
    first: str = "longest",
) -> tuple[Arrays, dict[str, Any]]:
    """Make a record, `out` (.npz), chunk by chunk; go on with one that was begun.

    `lengths` are those of the examples, `make` gives the arrays of some of them, `told` what the manifest
    says of all arrays beside configuration and versions. `first` says which examples come first: the
    longest, the shortest, or, "drawn", those that `lengths` has first.
    """
    manifest, done = out.with_suffix(".json"), Arrays()
    if out.exists():
        if json.loads(manifest.read_text())["config"] != json.loads(json.dumps(dict(config))):
            raise SystemExit(f"{manifest} is of another configuration; choose another --out")
        done = dict(np.load(out))
    known = set(done["example"].tolist()) if done else set()
    left = [k for k in lengths if k not in known]
    if first != "drawn":
        left.sort(key=lengths.__getitem__, reverse=first == "longest")
    say(f"{out.name}: {len(known)} texts are there, {len(left)} to go")
    out.parent.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {"config": dict(config), "made with": surroundings()}
    started = time.perf_counter()
    for start in range(0, len(left), chunk):
        some = left[start : start + chunk]
        new = {name: _narrow(values) for name, values in make(some).items()}
        done = {name: np.concatenate([done[name], new[name]]) if done else new[name] for name in new}
        made |= {"texts": len(done["example"]), **told(done)}
        part = out.with_suffix(".part.npz")
        np.savez_compressed(part, **done)  # type: ignore[arg-type]
        os.replace(part, out)
        manifest.write_text(json.dumps(made, indent=1) + "\n")
        say(f"{start + len(some)} of {len(left)} texts after {time.perf_counter() - started:.1f} s")
    return done, made


def _narrow(values: np.ndarray) -> np.ndarray:
    """Float32 and int32, half the size, except what is already narrower."""
    kinds = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    return values.astype(kinds.get(values.dtype, values.dtype))
