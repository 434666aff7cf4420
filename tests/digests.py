"""What the package computes and prints, to compare two checkouts.

`python tests/digests.py > before.json`, then on the other `python tests/digests.py --compare before.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "book")]
warnings.simplefilter("ignore")
os.environ |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100", "NO_COLOR": "1", "TQDM_DISABLE": "1"}

import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from tiny_models import FAMILIES, IMAGE_FAMILIES, TEXTS, build, mean_pooled, pre_norm, vision  # noqa: E402

import lrp_companion as lrp  # noqa: E402
from lrp_companion.cli import main as command  # noqa: E402
from lrp_companion.lab.load import load_runs  # noqa: E402
from lrp_companion.lab.paper.report import report  # noqa: E402
from lrp_companion.methods import IMAGE_METHODS  # noqa: E402
from lrp_companion.registry import METHODS  # noqa: E402

OPTIONS: dict[str, dict[str, Any]] = {
    "hybrid": {"exact": 3, "groups": 4, "seed": 1},
    "ig": {"n_steps": 5},
    "lrp": {"bypass": [2]},
    "mask-gradient": {"groups": 3, "nodes": [0, 0.5, 1], "seed": 4},
    "sampled-loo": {"budget": 3, "seed": 8},
    "shapley": {"exact": 6, "permutations": 8},
}
FURTHER: dict[str, dict[str, Any]] = {
    "margin": {"output": "margin"},
    "probability": {"output": "probability"},
    "contrast": {"target": 1, "contrast": 0},
    "all": {"target": "all"},
    "word": {"unit": "word"},
    "delete": {"removal": "delete"},
    "embedding": {"site": "embedding"},
    "completion": {"completion": 3},
    "written": {"completion": " plot .", "contrast": " film !"},
    "position": {"position": 2},
}
"""More calls than one of each method; a method that refuses one of them says so in the same words."""
LANGUAGE = {
    "modernbert": "ForMaskedLM",
    "gpt2": "LMHeadModel",
    "gemma2": "ForCausalLM",
    "llama": "ForCausalLM",
}
COMMANDS = (
    "--help",
    "explain --help",
    "check --help",
    "report --help",
    "sources",
    "explain 'a film of rare grace' --method attnlrp",
    "explain 'a film of rare grace' --method loo --json",
    "explain 'a film of rare grace' --method mask-gradient:groups=4 --target positive",
    "explain 'a film of rare grace' --method lrp:bypass=99",
    "check 'a film of rare grace' 'the plot is dull .'",
)
Value = list[float] | str


def networks() -> Iterator[tuple[str, Any, Any]]:
    """Every tiny network with its tokenizer, by name."""
    for family in FAMILIES:
        if family not in IMAGE_FAMILIES:
            yield family, *build(family, labels=3)
    yield "mean-pooled", *mean_pooled(labels=3)
    for family in LANGUAGE:
        yield f"{family} tokens", *pre_norm(family, task=LANGUAGE[family])
    for family in IMAGE_FAMILIES:
        yield family, vision(family), None


def explained(name: str, model: Any, inputs: Any, method: str, **options: Any) -> Iterator[tuple[str, Value]]:
    """The scores of one call, and what else its records hold."""
    try:
        records = lrp.attribute(model, inputs, method=method, progress=False, **options)
    except (lrp.CompanionError, ValueError, TypeError) as error:
        yield f"refused/{name}", str(error)
        return
    scores = np.concatenate([record.scores for record in records])
    rest = [{**record.to_dict(), "scores": None, "parts": sorted(record.parts)} for record in records]
    for one in rest:
        one["logit"] = round(one["logit"], 9)
        one["details"] = {k: v for k, v in one["details"].items() if not _is_measured(v)}
    yield f"scores/{name}", [float(f"{value:.12g}") for value in scores]
    yield f"bytes/{name}", _digest(b"".join(record.scores.tobytes() for record in records))
    yield f"records/{name}", json.dumps(rest, ensure_ascii=False, default=str)


def _is_measured(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, (list, tuple)) and any(map(_is_measured, value)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def scores() -> Iterator[tuple[str, Value]]:
    """Every method on every tiny network, and further options."""
    for name, network, tokenizer in networks():
        clf = lrp.load_classifier(network, tokenizer, dtype="float64")
        inputs: Any = ["a film of [MASK] grace"] if name == "modernbert tokens" else list(TEXTS)
        if clf.reads_images:
            inputs = np.random.default_rng(0).normal(size=(2, 2, 6, 9))
        for method in METHODS:
            own = OPTIONS.get(method, {})
            yield from explained(f"{name}/{method}", clf, inputs, method, **own)
            for label, further in FURTHER.items():
                given = inputs[0] if "completion" in further else inputs
                chosen = own | further
                yield from explained(f"{name}/{method}/{label}", clf, given, method, **chosen)
    net, images = lrp.LinearAttention(seed=3), np.random.default_rng(1).random((2, 14, 14))
    for method in IMAGE_METHODS:
        yield from explained(
            f"digits/{method}", net, images, method, **({"n_steps": 5} if method == "ig" else {})
        )


def printed() -> Iterator[tuple[str, Value]]:
    """What ten commands print, the tables of the committed runs, the addresses of the book's pages."""
    for line in COMMANDS:
        out, error = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(error),
            contextlib.suppress(SystemExit),
        ):
            command(shlex.split(line))
        yield f"command/{line}", (out.getvalue() + error.getvalue()).replace(str(ROOT), "ROOT")
    yield "tables", report(load_runs([ROOT / "results"]))
    pages = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    yield "pages", json.dumps(pages, indent=1)


def differences(old: dict[str, Value], new: dict[str, Value]) -> Iterator[str]:
    """What differs, one line each: names, the largest distance of scores, the first line of a text."""
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if a is None or b is None:
            yield f"{name}: {'gone' if b is None else 'new'}"
        elif a != b and isinstance(a, list) and isinstance(b, list):
            apart = np.abs(np.subtract(a, b)).max() if len(a) == len(b) else np.inf
            yield f"{name}: max abs difference {apart:.3g}"
        elif a != b:
            pairs = zip(f"{a}\n".split("\n"), f"{b}\n".split("\n"), strict=False)
            first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            yield f"{name}:\n  - {first[0][:400]}\n  + {first[1][:400]}"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--compare", type=Path, help="digests of another checkout")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    made = dict([*printed(), *scores()])
    if given.compare is None:
        print(json.dumps(made, indent=0, ensure_ascii=False))
    else:
        said = list(differences(json.loads(given.compare.read_text(encoding="utf-8")), made))
        print("\n".join([*said, f"{len(said)} of {len(made)} differ"]))
        sys.exit(bool(said))
