"""AttnLRP and CP-LRP of LXT beside those of the package, family by family, on random networks in float64.

LXT runs several times: as it comes; with less added where it divides by the input of an activation; with the
RMSNorms that it patches in float64, where they work in float32; with the softmax of `transformers` in
float64, too; and with all of it. What a change takes away was its part of the difference.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

from lrp_companion.loading.reading import fingerprint_of
from lrp_companion.tape.encoder import Encoder, some_masks

LAYERS, HIDDEN, HEADS, INNER, VOCABULARY, LABELS = 3, 32, 4, 48, 200, 3
SHARED = {"num_key_value_heads": 2, "head_dim": 8}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {}),
    "gpt2": ("GPT2", {"n_inner": INNER}),
    "llama": ("Llama", SHARED),
    "qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "qwen3": ("Qwen3", SHARED),
    "gemma3_text": (
        "Gemma3Text",
        {**SHARED, "query_pre_attn_scalar": 8, "sliding_window": 6, "sliding_window_pattern": 2},
    ),
}
"""What LXT 2.1 has rules for and this package wires: the name in `transformers`, and sizes of its own."""
CHANGES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "stabiliser 1e-15": {"stabiliser": 1e-15},
    "norms in float64": {"precise": ["norms"]},
    "softmax, too": {"precise": ["norms", "softmax"]},
    "all three": {"stabiliser": 1e-15, "precise": ["norms", "softmax"]},
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "AttnLRP": ("attnLRP", {}),
    "CP-LRP, gate held constant": ("cp_LRP", {"gate": "constant"}),
}
"""LXT's map of rules, and options here. Its CP-LRP holds the gate of a gated MLP constant, too."""


def network_of(family: str, *, seed: int) -> nn.Module:
    """A random classifier of a family in float64; every parameter is drawn."""
    name, sizes = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        num_labels=LABELS,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        max_position_embeddings=64,
        **sizes,
    )
    network = getattr(transformers, f"{name}ForSequenceClassification")(config).double().eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, value in network.named_parameters():
            noise = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            if "norm" in key.lower() or ".ln_" in key:
                offset = 0.0 if key.endswith("bias") or family.startswith("gemma") else 1.0
                value.copy_(offset + 0.2 * noise)
            else:
                value.copy_(noise * (0.2 if value.ndim == 1 else 1.2 / value.shape[1] ** 0.5))
    return network.requires_grad_(False)


def ours(network: nn.Module, rows: list[dict[str, Any]], *, gate: str, bypass: bool) -> list[dict[str, Any]]:
    """Scores and logits of the package for the same ids and targets."""
    encoder, out = Encoder(network), []
    mask = frozenset(range(1, LAYERS + 1)) if bypass else frozenset()
    for row in rows:
        ids = torch.tensor([row["input_ids"]])
        tape = encoder.forward(ids, torch.ones_like(ids), gate=gate)
        start = nn.functional.one_hot(torch.tensor([row["target"]]), LABELS).double()
        scores = some_masks(tape, start, [mask])[mask]["word"][0]
        out.append({"scores": scores.numpy(), "logit": tape.logits[0, row["target"]].item()})
    return out


def theirs(python: Path, jobs: list[dict[str, Any]], scratch: Path) -> list[dict[str, Any]]:
    """What LXT says to each job, run in its environment."""
    for number, job in enumerate(jobs):
        job["out"] = str(scratch / f"{number}.json")
    listed, script = scratch / "jobs.json", Path(__file__).with_name("lxt_scores.py")
    listed.write_text(json.dumps(jobs), encoding="utf-8")
    subprocess.run([python, script, listed], check=True, stderr=subprocess.DEVNULL)
    return [json.loads(Path(job["out"]).read_text(encoding="utf-8")) for job in jobs]


def compared(mine: list[dict[str, Any]], other: list[dict[str, Any]]) -> dict[str, float]:
    """The largest difference of scores and of logits, each over the largest, and the least r of a text."""
    pairs = [(one["scores"], np.array(two["scores"])) for one, two in zip(mine, other, strict=True)]
    largest = max(float(np.abs(one).max()) for one, _ in pairs)
    logits = [(one["logit"], two["logit"]) for one, two in zip(mine, other, strict=True)]
    return {
        "relative": max(float(np.abs(one - two).max()) for one, two in pairs) / largest,
        "r": min(float(np.corrcoef(one, two)[0, 1]) for one, two in pairs),
        "logits": max(abs(a - b) for a, b in logits) / max(abs(a) for a, _ in logits),
    }


def asked(texts: int, *, seed: int) -> list[dict[str, Any]]:
    """Random ids, of 5 to 24 tokens, and a target for each."""
    draw = np.random.default_rng(seed)
    return [
        {
            "input_ids": draw.integers(1, VOCABULARY, draw.integers(5, 25)).tolist(),
            "target": int(draw.integers(LABELS)),
        }
        for _ in range(texts)
    ]


def measure(python: Path, *, texts: int, seed: int) -> dict[str, Any]:
    """Compare every family, method and change; return the record."""
    rows, jobs, questions = [], [], asked(texts, seed=seed)
    with tempfile.TemporaryDirectory() as scratch:
        for family in FAMILIES:
            network, folder = network_of(family, seed=seed), Path(scratch, family)
            network.save_pretrained(folder)
            for method, (rules, options) in METHODS.items():
                if family == "bert" and rules == "cp_LRP":
                    continue  # LXT has no such map for BERT
                gate = options.get("gate", "uniform") if Encoder(network).wiring.gated else "uniform"
                row: dict[str, Any] = {"family": family, "method": method, "weights": fingerprint_of(network)}
                rows.append({**row, "mine": ours(network, questions, gate=gate, bypass=rules == "cp_LRP")})
                jobs += [
                    {"folder": str(folder), "texts": questions, "options": {"rules": rules, **more}}
                    for more in CHANGES.values()
                ]
        answers = iter(theirs(python, jobs, Path(scratch)))
    versions: dict[str, str] = {}
    for row in rows:
        mine, row["changes"] = row.pop("mine"), {}
        for change in CHANGES:
            one = next(answers)
            versions = one.get("versions", versions)
            row["changes"][change] = one if "failed" in one else compared(mine, one["rows"])
        print(json.dumps(row), flush=True)
    sizes = {"layers": LAYERS, "hidden": HIDDEN, "heads": HEADS, "inner": INNER, "vocabulary": VOCABULARY}
    here = {name: version(name) for name in ("torch", "transformers")}
    return {
        "config": {"dtype": "float64", "seed": seed, "texts": texts, "epsilon": 0.0, **sizes},
        "versions": {"here": here, "LXT's environment": versions},
        "rows": rows,
    }
