"""Batches of token sequences under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lrp_companion.schema import InputError

BUSY = {"cpu": 512, "cuda": 8_192}
"""Tokens a batch of work that keeps a tape, by device: on a processor more tokens only add padding (measured
from 128 to 4,096); on a GPU a guess, with 10 GiB of tape at BERT-base width and 512 tokens."""


def budget(batch_tokens: int | None, device: torch.device) -> int:
    """The number given, checked, or what keeps this device busy.

    >>> budget(64, torch.device("cpu")), budget(None, torch.device("cpu"))
    (64, 512)
    """
    return BUSY.get(device.type, BUSY["cpu"]) if batch_tokens is None else check_budget(batch_tokens)


def check_budget(batch_tokens: int) -> int:
    """The budget if it is a whole number of tokens, at least 1; else raise `InputError`."""
    if isinstance(batch_tokens, bool) or not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise InputError(
            "batches",
            got=f"batch_tokens {batch_tokens!r}",
            expected="a whole number of tokens, at least 1",
            hint="try batch_tokens=4096",
        )
    return batch_tokens


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sequences, neighbours in length together, at most `batch_tokens` tokens a batch with its
    padding.

    A sequence longer than the budget makes a batch of its own. Longest first, so that memory peaks at once.

    >>> token_batches([3, 9, 4], 10)
    [[1], [2, 0]]
    """
    check_budget(batch_tokens)
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if room < 1:
            batches.append([])
            room = max(1, batch_tokens // max(1, lengths[index]))
        batches[-1].append(index)
        room -= 1
    return batches


def pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (B, T) padded on the right, and the mask that is 1 on real tokens."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, (torch.arange(width, device=device) < lengths[:, None]).long()
