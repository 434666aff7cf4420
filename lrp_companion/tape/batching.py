"""Batches of token sequences under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lrp_companion.checks import whole

BUSY = {
    "tape": {"cpu": 512, "cuda": 8_192},
    "places": {"cpu": 4_096, "cuda": 65_536},
    "path": {"cpu": 1_024, "cuda": 16_384},
    "removals": {"cpu": 1_024, "cuda": 65_536},
    "masks": {"cpu": 1_536, "cuda": 65_536},
}
"""Tokens that keep a device busy, by kind of work.

"tape": work that keeps a tape. On a CPU more tokens only add padding (measured from 128 to 4,096); the
number for a GPU is a guess, about 10 GiB of tape at BERT-base width and 512 tokens.
"places": backward passes from several places of one tape.
"path": steps on a path of one text, where nothing is padded.
"removals": texts without some of their tokens, forward only.
"masks": masks of one text carried back together (measured on a CPU from 16 to 128 masks).
"""


def budget(batch_tokens: int | None, device: torch.device, *, work: str = "tape") -> int:
    """The given number, checked, or by default what keeps this device busy at a kind of work.

    >>> budget(64, torch.device("cpu")), budget(None, torch.device("cpu"), work="removals")
    (64, 1024)
    """
    busy = BUSY[work]
    if batch_tokens is None:
        return busy.get(device.type, busy["cpu"])
    return whole("batches", "batch_tokens", batch_tokens, hint="try batch_tokens=4096")


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sequences in batches of at most `batch_tokens` tokens, padding included.

    Sequences of similar length share a batch, and one that is longer than the budget is alone in its batch.
    The longest come first, so that memory peaks at once.

    >>> token_batches([3, 9, 4], 10)
    [[1], [2, 0]]
    """
    batches: list[list[int]] = []
    left = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if left < 1:
            batches.append([])
            left = max(1, batch_tokens // max(1, lengths[index]))
        batches[-1].append(index)
        left -= 1
    return batches


def pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (B, T) padded on the right, and the mask that is 1 on real tokens."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, (torch.arange(width, device=device) < lengths[:, None]).long()
