"""Layer-wise relevance propagation on text: AttnLRP, CP-LRP, PA-LRP and every mask between, as one method.

AttnLRP bypasses no layer, CP-LRP bypasses all; PA-LRP (Bakish et al. 2025, for learned absolute positions) is
AttnLRP read at word + position. The methods differ by entries, not by code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from lrp_companion.methods.common import (
    Targets,
    attribution,
    batches,
    check_targets,
    output_gradient,
    settle,
    to_numpy,
)
from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.propagation import MEMORY, all_masks, some_masks
from lrp_companion.schema import (
    SITES,
    TARGET_CHOICES,
    Attribution,
    InputError,
    Lattice,
    check_layers,
    choose,
    scores_at,
)


def check_epsilon(epsilon: float) -> float:
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, (int, float))
        or not math.isfinite(epsilon)
        or epsilon < 0
    ):
        raise InputError(
            "attribute",
            got=f"epsilon {epsilon!r}",
            expected="a finite number, 0 or above",
            hint="try epsilon=0.0 or 1e-6",
        )
    return float(epsilon)


def lrp(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    name: str = "lrp",
    bypass: Iterable[int] = (),
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[Attribution]:
    """LRP with the attention of the layers in `bypass` (from 1) held constant; Eq. (1) to (5) of the
    paper.
    """
    (maps,) = lrp_masks(
        clf,
        texts,
        targets,
        masks=[bypass],
        name=name,
        site=site,
        epsilon=epsilon,
        output=output,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    return maps


@torch.no_grad()
def lrp_masks(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    masks: Sequence[Iterable[int]],
    name: str = "lrp",
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[list[Attribution]]:
    """LRP under several masks from one forward: one list of attributions per mask, in the order of the
    masks.
    """
    layers = [check_layers("attribute", mask, clf.card.layers) for mask in masks]
    eps = check_epsilon(epsilon)
    choose("attribute", "site", site, SITES)
    choose("attribute", "output", output, TARGET_CHOICES)
    out: list[list[Attribution]] = [[None] * len(texts) for _ in layers]  # type: ignore[list-item]
    for rows, ids, attended in batches(clf, texts, batch_tokens=batch_tokens, progress=progress, label=name):
        tape = clf.encoder.forward(ids, attended)
        chosen = settle([targets[i] for i in rows], tape.logits)
        by_mask = some_masks(tape, output_gradient(tape.logits, chosen, output), layers, epsilon=eps)
        for place, mask in enumerate(layers):
            parts = {key: to_numpy(value) for key, value in by_mask[mask].items()}
            choices = {"site": site, "epsilon": eps, "output": output, "bypass": tuple(sorted(mask))}
            for k, i in enumerate(rows):
                own = {key: value[k, : len(texts[i])] for key, value in parts.items()}
                out[place][i] = attribution(
                    clf,
                    texts[i],
                    scores_at(own, site),
                    method=name,
                    target=chosen[k],
                    logit=tape.logits[k, chosen[k]],
                    choices=choices,
                    parts=own,
                )
    return out


def attnlrp(
    clf: Classifier, texts: Sequence[EncodedText], targets: Targets, **options: Any
) -> list[Attribution]:
    """AttnLRP (Achtibat et al. 2024): relevance through values, softmax, queries and keys in every layer."""
    return lrp(clf, texts, targets, name="attnlrp", bypass=(), **options)


def cp_lrp(
    clf: Classifier, texts: Sequence[EncodedText], targets: Targets, **options: Any
) -> list[Attribution]:
    """CP-LRP (Ali et al. 2022): the attention weights of every layer are constants."""
    return lrp(clf, texts, targets, name="cp-lrp", bypass=range(1, clf.card.layers + 1), **options)


def pa_lrp(
    clf: Classifier, texts: Sequence[EncodedText], targets: Targets, **options: Any
) -> list[Attribution]:
    """PA-LRP for learned absolute positions: AttnLRP with each position's share added to its token."""
    return lrp(clf, texts, targets, name="pa-lrp", bypass=(), site="word+position", **options)


@torch.no_grad()
def layer_lattice(
    clf: Classifier,
    text: str,
    *,
    target: int | None = None,
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    truncate: bool = False,
    memory: int = MEMORY,
) -> Lattice:
    """Relevance of one text under all 2**L bypass masks of the layers, from one forward and 2**L - 1
    layer-backwards.

    Row k of `Lattice.scores` has bit l-1 set where layer l is bypassed: row 0 is AttnLRP, the last row
    CP-LRP. `memory`, in bytes, bounds what is held beside the model and the tape of one forward: masks are
    carried back in blocks that fit. Results do not depend on it, to rounding; 12 layers at BERT-base width
    and 64 tokens need less than 2 GiB.

    >>> lattice = layer_lattice(clf, "a film of rare grace")  # doctest: +SKIP
    >>> lattice.scores.shape                                  # doctest: +SKIP
    (4096, 7)
    """
    if not isinstance(text, str):
        raise InputError(
            "layer_lattice",
            got=f"a text of type {type(text).__name__}",
            expected="one string",
            hint="call it once per text",
        )
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise InputError(
            "layer_lattice",
            got=f"memory {memory!r}",
            expected="a whole number of bytes",
            hint="2 * 2**30 is 2 GiB",
        )
    (encoded,) = clf.encode(text, truncate=truncate)
    eps = check_epsilon(epsilon)
    choose("layer_lattice", "site", site, SITES)
    choose("layer_lattice", "output", output, TARGET_CHOICES)
    ids = torch.tensor([encoded.input_ids], device=clf.device)
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    chosen = settle(check_targets(target, 1, len(clf.labels)), tape.logits)
    parts = all_masks(tape, output_gradient(tape.logits, chosen, output), epsilon=eps, memory=memory)
    own = {key: to_numpy(value)[:, 0] for key, value in parts.items()}
    return Lattice(
        tokens=encoded.tokens,
        scores=scores_at(own, site),
        target=int(chosen),
        logit=float(tape.logits[0, chosen]),
        special=encoded.special,
        site=site,
        parts=own,
        label=clf.labels[int(chosen)],
    )
