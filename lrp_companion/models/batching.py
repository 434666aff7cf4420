"""Batches of token sequences under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lrp_companion.schema import InputError


def check_budget(batch_tokens: int) -> int:
    """The budget if it is a whole number of tokens, at least 1; else raise `InputError`."""
    if isinstance(batch_tokens, bool) or not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise InputError(
            "batches", got=f"batch_tokens {batch_tokens!r}", expected="a whole number of tokens, at least 1", hint="try batch_tokens=4096"
        )
    return batch_tokens


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sequences, neighbours in length together, at most `batch_tokens` tokens a batch with its padding.

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
