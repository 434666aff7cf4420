"""Memory of a long text through a causal model of a billion-parameter shape, on random weights, by layer.

`python -m benchmarks.long_context --layers 2 --tokens 4096 --out FILE` runs AttnLRP once with the tape of one
layer at a time and once with all, each in a process of its own, and writes how much memory each took at most.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHAPE = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64,
}  # fmt: skip
"""Widths of Llama 3.2 1B (16 layers); the vocabulary is small, because random words need no more."""


def once(layers: int, tokens: int, *, recompute: bool) -> dict[str, Any]:
    """AttnLRP of one random text: seconds, and the process's peak in bytes before and after."""
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification

    from lrp_companion.models.encoder import Encoder
    from lrp_companion.propagation import some_masks

    config = LlamaConfig(
        **SHAPE, vocab_size=1000, num_hidden_layers=layers, max_position_embeddings=tokens, pad_token_id=0
    )
    torch.manual_seed(0)
    encoder = Encoder(
        LlamaForSequenceClassification(config).eval().requires_grad_(False), recompute=recompute
    )
    ids = torch.randint(1, 1000, (1, tokens))
    before, start = _peak(), time.perf_counter()
    with torch.no_grad():
        encoder.forward(ids[:, :8], torch.ones(1, 8, dtype=torch.long))
        plain = time.perf_counter()
        tape = encoder.forward(ids, torch.ones_like(ids))
        forward = time.perf_counter() - plain
        parts = some_masks(tape, torch.tensor([[1.0, 0.0]]), [frozenset()])[frozenset()]
    seconds = time.perf_counter() - start
    finite = bool(parts["word"].isfinite().all())
    return {"before": before, "peak": _peak(), "seconds": seconds, "forward": forward, "finite": finite}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(layers: int, tokens: int) -> dict[str, Any]:
    """Both ways, each in a new process, so that neither inherits the other's peak."""
    rows = {}
    for name, flag in (("one layer", ["--recompute"]), ("all layers", [])):
        command = [sys.executable, "-m", "benchmarks.long_context", "--inner", "--layers", str(layers)]
        done = subprocess.run([*command, "--tokens", str(tokens), *flag], capture_output=True, text=True)
        failed = {"failed": (done.stderr.strip().splitlines() or ["ended by the system"])[-1]}
        rows[name] = json.loads(done.stdout) if done.returncode == 0 else failed
    return rows


def main() -> None:
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--layers", type=int, default=2)
    read.add_argument("--tokens", type=int, default=4096)
    read.add_argument("--recompute", action="store_true")
    read.add_argument("--inner", action="store_true")
    read.add_argument("--out", type=Path)
    args = read.parse_args()
    if args.inner:
        print(json.dumps(once(args.layers, args.tokens, recompute=args.recompute)))
        return
    from lrp_companion.provenance import surroundings

    row = {"layers": args.layers, "tokens": args.tokens, "shape": SHAPE, "dtype": "float32", "seed": 0}
    row |= {"measured": measure(args.layers, args.tokens), "surroundings": surroundings()}
    text = json.dumps(row, indent=1) + "\n"
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
