"""What every method on text needs: batches, targets, outputs, and the record at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lrp_companion.models.batching import budget, pad, token_batches
from lrp_companion.models.offsets import offsets_of
from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.schema import Attribution, InputError
from lrp_companion.words import Units

Targets = Sequence[int | None]


def check_targets(target: int | Sequence[int] | None, count: int, classes: int) -> list[int | None]:
    """One target per input: None (the predicted class), one class for all, or a list of classes."""
    targets: list[Any] = list(target) if isinstance(target, (list, tuple, np.ndarray)) else [target] * count
    if len(targets) != count:
        raise InputError(
            "attribute",
            got=f"{len(targets)} targets for {count} inputs",
            expected="one target per input",
            hint="pass a single class or a list as long as the inputs",
        )
    for t in targets:
        if t is not None and (
            isinstance(t, (bool, np.bool_)) or not isinstance(t, (int, np.integer)) or not 0 <= t < classes
        ):
            raise InputError(
                "attribute",
                got=f"target {t!r}",
                expected=f"a class from 0 to {classes - 1}, or None",
                hint="None explains the predicted class",
            )
    return [None if t is None else int(t) for t in targets]


def check_options(method: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse options that a method has no use for."""
    for name in options:
        if name not in allowed:
            raise InputError(
                "attribute",
                got=f"option {name!r} for method {method}",
                expected=f"one of {', '.join(sorted(allowed))}",
                hint="leave it out or change the method",
            )


def settle(targets: Targets, logits: Tensor) -> Tensor:
    """The targets as a tensor (B,), the predicted class where none was named."""
    predicted = logits.argmax(-1)
    return torch.stack(
        [
            predicted[k] if t is None else torch.as_tensor(t, device=logits.device)
            for k, t in enumerate(targets)
        ]
    )


def read_output(logits: Tensor, targets: Tensor, output: str) -> Tensor:
    """The explained number of each row, (B,): the target's logit, its margin over the best other class, or
    its probability.
    """
    chosen = logits.gather(-1, targets[:, None])[:, 0]
    if output == "logit":
        return chosen
    if output == "probability":
        return logits.softmax(-1).gather(-1, targets[:, None])[:, 0]
    others = logits.scatter(-1, targets[:, None], -torch.inf)
    return chosen - others.amax(-1)


def output_gradient(logits: Tensor, targets: Tensor, output: str) -> Tensor:
    """d output / d logits, (B, C): where relevance starts. For the logit a one-hot, for the margin a
    contrastive start.
    """
    with torch.enable_grad():
        leaf = logits.detach().clone().requires_grad_(True)
        return torch.autograd.grad(read_output(leaf, targets, output).sum(), leaf)[0]


def batches(
    clf: Classifier,
    texts: Sequence[EncodedText],
    *,
    batch_tokens: int | None,
    progress: bool | None,
    label: str,
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Padded batches of texts: their indices, ids (B, T) and mask (B, T)."""
    plan = token_batches([len(t) for t in texts], budget(batch_tokens, clf.device))
    for rows in watch(plan, progress=progress, label=label):
        yield rows, *pad([texts[i].input_ids for i in rows], clf.pad_id, clf.device)


def watch(items: Iterable, *, progress: bool | None, label: str, total: int | None = None) -> Iterable:
    """A progress bar on standard error: always, never, or (None) on a terminal once the work has taken three
    seconds.
    """
    hidden = not sys.stderr.isatty() if progress is None else not progress
    return tqdm(
        items, desc=label, total=total, disable=hidden, delay=3 if progress is None else 0, leave=False
    )


def attribution(
    clf: Classifier,
    text: EncodedText,
    scores: Tensor | np.ndarray,
    *,
    method: str,
    target: Tensor | int,
    logit: Tensor | float,
    choices: Mapping[str, Any],
    parts: Mapping[str, np.ndarray] | None = None,
    details: Mapping[str, Any] | None = None,
    units: Units | None = None,
) -> Attribution:
    """The record of one explained text; scores beyond its length (padding) are cut off. With `units` there is
    one score for each of these.
    """
    joined, offsets = offsets_of(clf, text)
    return Attribution(
        tokens=units.names if units else text.tokens,
        scores=to_numpy(scores)[: len(text)],
        target=int(target),
        logit=to_numpy(logit).item(),
        special=units.special if units else text.special,
        method=method,
        choices=choices,
        parts=parts or {},
        details={
            "label": clf.labels[int(target)],
            "model": clf.card.name,
            "dtype": clf.card.dtype,
            **(details or {}),
        },
        text=joined,
        offsets=units.offsets if units else offsets,
    )


def to_numpy(x: Tensor | np.ndarray | float) -> np.ndarray:
    return x.detach().double().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x, dtype=np.float64)
