"""`python -m benchmarks.lattice_memory LAYERS TOKENS BUDGET THREADS`: bytes by which all masks let a process grow, and seconds.

A process of its own, because the peak of memory is a number of the whole process.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import torch

from benchmarks.cases import wide_encoder
from lrp_companion.propagation import all_masks


@torch.no_grad()
def main(layers: int, tokens: int, budget: int, threads: int) -> None:
    """Print the growth beyond what the model and its tape hold."""
    torch.set_num_threads(threads)
    ids = torch.arange(tokens)[None] % 30 + 5
    tape = wide_encoder(layers).forward(ids, torch.ones_like(ids))
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    begin = time.perf_counter()
    all_masks(tape, torch.tensor([[0.0, 1.0]]), memory=budget)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(max(0, peak - held), seconds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
