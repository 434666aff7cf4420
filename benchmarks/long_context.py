"""`python -m benchmarks.long_context`: time and memory of a long text through a billion parameters.

The network has the shape of Llama 3.2 1B and random weights, in bfloat16, with one layer's tape at a time
(`recompute=True`). AttnLRP and the mask gradient run beside one plain forward pass of the `transformers`
network, each in a process of its own, whose peak of resident memory is read. The record is
`results/long_context.json`.
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

from benchmarks import pages

SHAPE = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
}
"""Widths of Llama 3.2 1B (16 layers); the vocabulary is small, because random words need no more."""
VOCABULARY = 1000
KINDS = ("forward", "attnlrp", "mask-gradient")
RECORD = pages.ROOT / "results" / "long_context.json"


def once(kind: str, layers: int, tokens: int, *, dtype: str, threads: int, recompute: bool) -> dict[str, Any]:
    """One random text: seconds of the clock and of the processor, and the peak in bytes before and after."""
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = LlamaConfig(
        **SHAPE,
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        max_position_embeddings=max(tokens, 64),
        pad_token_id=0,
        dtype=dtype,
    )
    torch.set_default_dtype(getattr(torch, dtype))
    network = LlamaForSequenceClassification(config).eval().requires_grad_(False)
    torch.set_default_dtype(torch.float32)
    ids = torch.randint(1, VOCABULARY, (1, tokens))
    run(kind, network, ids[:, :16], recompute=recompute)  # what is made at the first call
    before, clock, processor = _peak(), time.perf_counter(), time.process_time()
    scores = run(kind, network, ids, recompute=recompute)
    used = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - processor}
    weights = sum(value.numel() for value in network.parameters())
    finite = bool(scores.isfinite().all())
    return {"before": before, "peak": _peak(), **used, "parameters": weights, "finite": finite}


def run(kind: str, network: Any, ids: Any, *, recompute: bool) -> Any:
    """The logits, or one score for each token."""
    import torch

    from lrp_companion.tape.encoder import Encoder, some_masks

    ones = torch.ones_like(ids)
    if kind == "forward":
        with torch.no_grad():
            return network(input_ids=ids, attention_mask=ones, use_cache=False).logits
    encoder = Encoder(network, recompute=recompute)
    start = torch.tensor([[1.0, 0.0]], dtype=network.dtype)
    if kind == "attnlrp":
        with torch.no_grad():
            return some_masks(encoder.forward(ids, ones), start, [frozenset()])[frozenset()]["word"]
    keep = torch.ones(ids.shape, dtype=network.dtype, requires_grad=True)
    return torch.autograd.grad(encoder.forward(ids, ones, keep=keep).logits[0, 0], keep)[0]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(given: argparse.Namespace, setting: dict[str, Any]) -> None:
    """Every kind at every length, each in a new process, so that none inherits another's peak.

    The record is there after each of them.
    """
    rows: list[dict[str, Any]] = []
    for tokens in given.tokens:
        for kind in KINDS:
            command = [sys.executable, "-m", "benchmarks.long_context", "--inner", kind]
            options = {
                "layers": given.layers,
                "tokens": tokens,
                "dtype": given.dtype,
                "threads": given.threads,
            }
            flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
            kept = ["--all-layers"] if given.all_layers else []
            done = subprocess.run([*command, *flags, *kept], capture_output=True, text=True)
            failed = {"failed": (done.stderr.strip().splitlines() or ["ended by the system"])[-1]}
            of_kind = json.loads(done.stdout) if done.returncode == 0 else failed
            rows.append({"kind": kind, "tokens": tokens, **of_kind})
            print(json.dumps(rows[-1]), flush=True)
            pages.write(pages.plain({**setting, "rows": rows}), given.out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    read = argparse.ArgumentParser(prog="python -m benchmarks.long_context", description=__doc__)
    read.add_argument("--layers", type=int, default=16)
    read.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096])
    read.add_argument("--dtype", default="bfloat16")
    read.add_argument("--threads", type=int, default=1)
    read.add_argument("--all-layers", action="store_true", help="keep the tape of all layers")
    read.add_argument("--inner", choices=KINDS, help=argparse.SUPPRESS)
    read.add_argument("--out", type=Path, default=RECORD)
    given = read.parse_args(arguments)
    options = {"dtype": given.dtype, "threads": given.threads}
    if given.inner:
        options |= {"recompute": not given.all_layers}
        print(json.dumps(once(given.inner, given.layers, given.tokens[0], **options)))
        return 0
    from lrp_companion.lab.execute import surroundings

    config = {"layers": given.layers, **SHAPE, "vocabulary": VOCABULARY, **options, "seed": 0}
    config["recompute"] = not given.all_layers
    measure(given, {"config": config, **surroundings()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
