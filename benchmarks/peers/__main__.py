"""`python -m benchmarks.peers`: the scores of LXT and captum beside those of the package, in float64.

LXT needs an older transformers than this project, so it gets an environment: made once from the package index
(a few minutes, several GB: its PyTorch brings CUDA) and kept for the next run. Models and token ids go there
as files, scores come back as files. What is compared: AttnLRP with LXT; LOO and IG with captum, which runs
here; and LXT's rules family by family (`families`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks import pages
from benchmarks.peers import families, ig_captum, loo_captum
from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import EMBEDDED_FOLDER, Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.sources import load_dataset

REQUIREMENTS = ("lxt==2.1", "transformers==4.57.6")
STABILISERS = {"LXT": 1e-10, "LXT, stabiliser 1e-15": 1e-15}
"""LXT as it comes, and with less added to what it divides by; this project adds nothing."""
STEPS, PER_EVAL = 50, 64
RECORD = pages.ROOT / "results" / "peers.json"
ENVIRONMENT = pages.ROOT / "_build" / "peers-environment"
# layers, hidden, heads, inner: small, wide, deep
SHAPES = ((2, 32, 2, 64), (4, 96, 6, 192), (12, 48, 4, 96))


def environment(folder: Path) -> Path:
    """The Python of LXT's environment, which is made where it is missing."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (folder / "ready").is_file():
        print(f"Making an environment with {', '.join(REQUIREMENTS)} in {folder.name} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        (folder / "ready").write_text("\n".join(REQUIREMENTS), encoding="utf-8")
    return python


def random_model(folder: Path, shape: tuple[int, int, int, int], *, seed: int) -> Path:
    """Save a random BERT classifier with the embedded model's tokenizer; every parameter is drawn."""
    layers, hidden, heads, inner = shape
    tokenizer = transformers.AutoTokenizer.from_pretrained(EMBEDDED_FOLDER / "companion")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        num_labels=3,
    )
    network = transformers.BertForSequenceClassification(config).double()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in network.named_parameters():
            noise = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            if "LayerNorm.weight" in name:
                value.copy_(1 + 0.2 * noise)
            else:
                value.copy_(noise * (0.2 if value.ndim == 1 else 1.2 / value.shape[1] ** 0.5))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def attnlrp_lxt(
    python: Path, folder: Path, records: list[Attribution], ids: list[list[int]], stabiliser: float
) -> Any:
    """What `lxt_scores.py` says of the same ids and targets."""
    texts = [{"input_ids": row, "target": record.target} for row, record in zip(ids, records, strict=True)]
    job = {"folder": str(folder), "texts": texts, "options": {"stabiliser": stabiliser}}
    with tempfile.TemporaryDirectory() as scratch:
        return families.theirs(python, [job], Path(scratch))[0]


def difference(name: str, peer: str, ours: list[Attribution], theirs: list[np.ndarray]) -> dict[str, Any]:
    """The largest difference over all scores, and the same over the largest score."""
    scores, others = (np.concatenate(rows) for rows in ([row.scores for row in ours], theirs))
    largest = float(np.abs(scores - others).max())
    return {
        "method": name,
        "peer": peer,
        "texts": len(ours),
        "scores": len(scores),
        "difference": largest,
        "relative": largest / float(np.abs(scores).max()),
    }


def compare(clf: Classifier, texts: list[str], folder: Path, python: Path) -> Any:
    """Rows of one model, and the versions of LXT's environment."""
    encoded = clf.encode(texts)
    records = attribute(clf, texts, method="attnlrp", epsilon=0.0)
    rows = []
    for peer, stabiliser in STABILISERS.items():
        answer = attnlrp_lxt(python, folder, records, [list(text.input_ids) for text in encoded], stabiliser)
        rows.append(difference("AttnLRP", peer, records, [np.array(row["scores"]) for row in answer["rows"]]))
    pairs = list(zip(encoded, [record.target for record in records], strict=True))
    for name, peer, call in (
        ("loo", "captum FeatureAblation", lambda text, k: loo_captum(clf, text, k, per_eval=PER_EVAL)),
        ("ig", "captum LayerIntegratedGradients", lambda text, k: ig_captum(clf, text, k, n_steps=STEPS)),
    ):
        options: dict[str, Any] = {"n_steps": STEPS} if name == "ig" else {}
        ours = attribute(clf, texts, method=name, **options)
        rows.append(difference(name.upper(), peer, ours, [call(*pair) for pair in pairs]))
    card = clf.card
    model = {"model": card.name, "layers": card.layers, "hidden": card.hidden, "weights": card.fingerprint}
    return [{**model, **row} for row in rows], answer["versions"]


def measure(python: Path, *, texts: int, seed: int) -> dict[str, Any]:
    """Compare on random models and the embedded one; return the record."""
    data = load_dataset("sst2", split="validation", source="embedded")
    chosen = [data.texts[k] for k in data.order(texts, seed=seed)]
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = [
            random_model(Path(scratch, f"random-{k}"), shape, seed=seed + k) for k, shape in enumerate(SHAPES)
        ]
        for folder in [*folders, EMBEDDED_FOLDER / "companion"]:
            name = "companion" if folder.name == "companion" else folder
            clf = load_classifier(name, dtype="float64")
            of_model, versions = compare(clf, chosen, folder, python)
            rows += of_model
            for row in of_model:
                print(line(row), flush=True)
    here = {name: version(name) for name in ("torch", "transformers", "captum")}
    config = {
        "dtype": "float64",
        "seed": seed,
        "data": data.describe(),
        "texts": texts,
        "epsilon": 0.0,
        "n_steps": STEPS,
        "requirements": list(REQUIREMENTS),
    }
    return {"config": config, "versions": {"here": here, "LXT's environment": versions}, "rows": rows}


def line(row: dict[str, Any]) -> str:
    """One row as a line for the terminal."""
    where = f"{row['model']}, {row['layers']} layers"
    return f"{row['method']} against {row['peer']} on {where}: {row['difference']:.1e}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    add = parser.add_argument
    add("--texts", type=int, default=24, help="how many embedded sentences (default: 24)")
    add("--seed", type=int, default=0, help="of the sample and of the random models (default: 0)")
    text = "folder of LXT's environment, made there where it is missing (default: under _build)"
    text = "compare the families only, and leave the rest of the record as it is"
    add("--families-only", action="store_true", help=text)
    add("--environment", type=Path, default=ENVIRONMENT, help=text)
    add("--out", type=Path, default=RECORD, help="the record (default: results/peers.json)")
    given = parser.parse_args(arguments)
    transformers.utils.logging.set_verbosity_error()
    python = environment(given.environment)
    options = {"texts": given.texts, "seed": given.seed}
    record = pages.load(given.out) if given.families_only else measure(python, **options)
    record["families"] = pages.plain(families.measure(python, **options))
    pages.write(record, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
