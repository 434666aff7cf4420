"""`python -m benchmarks.lattice_memory LAYERS TOKENS BUDGET THREADS`: memory and seconds of all masks.

It prints by how many bytes the process grows, and seconds. A process of its own, because the peak of memory
is a number of the whole process.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks.cases import wide_encoder
from lrp_companion.tape.encoder import all_masks


@torch.no_grad()
def main(layers: int, tokens: int, budget: int, threads: int) -> None:
    """Print the growth beyond what the model and its tape hold."""
    torch.set_num_threads(threads)
    ids = torch.arange(tokens)[None] % 30 + 5
    tape = wide_encoder(layers).forward(ids, torch.ones_like(ids))
    held = _status("VmRSS")
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
    begin = time.perf_counter()
    all_masks(tape, torch.tensor([[0.0, 1.0]]), memory=budget)
    seconds = time.perf_counter() - begin
    print(max(0, _status("VmHWM") - held), seconds)


def _status(name: str) -> int:
    """Resident bytes of this process now (VmRSS) or at most (VmHWM), without the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
