"""Layer-wise relevance propagation on text: AttnLRP, CP-LRP, PA-LRP and every mask between, as one method.

AttnLRP bypasses no layer, CP-LRP bypasses all; PA-LRP (Bakish et al. 2025, for learned absolute positions) is
AttnLRP read at word + position. The methods differ by entries, not by code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from lrp_companion.masks import NONE
from lrp_companion.methods.common import (
    Targets,
    attribution,
    batches,
    check_targets,
    output_gradient,
    settle,
    to_numpy,
)
from lrp_companion.models.offsets import offsets_of
from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.propagation import MEMORY, all_masks, some_masks
from lrp_companion.registry import method
from lrp_companion.schema import (
    SITES,
    TARGET_CHOICES,
    Attribution,
    InputError,
    Lattice,
    check_layers,
    choose,
    number,
    scores_at,
    whole,
)


def check_epsilon(epsilon: float) -> float:
    """A finite epsilon, 0 or above."""
    return number("attribute", "epsilon", epsilon, least=0, hint="try epsilon=0.0 or 1e-6")


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
                text_parts = {key: value[k, : len(texts[i])] for key, value in parts.items()}
                out[place][i] = attribution(
                    clf,
                    texts[i],
                    scores_at(text_parts, site),
                    method=name,
                    target=chosen[k],
                    logit=tape.logits[k, chosen[k]],
                    choices=choices,
                    parts=text_parts,
                )
    return out


@method("lrp")
def lrp(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    bypass: Iterable[int] = (),
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[Attribution]:
    """LRP with the attention of the layers in `bypass` (from 1) held constant; Eq. (1) to (5)."""
    shared: dict[str, Any] = {"epsilon": epsilon, "output": output}
    shared |= {"batch_tokens": batch_tokens, "progress": progress}
    return lrp_masks(clf, texts, targets, masks=[bypass], name="lrp", site=site, **shared)[0]


@method("attnlrp")
def attnlrp(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[Attribution]:
    """AttnLRP (Achtibat et al. 2024): relevance through values, softmax, queries and keys in every layer."""
    shared: dict[str, Any] = {"epsilon": epsilon, "output": output}
    shared |= {"batch_tokens": batch_tokens, "progress": progress}
    return lrp_masks(clf, texts, targets, masks=[NONE], name="attnlrp", site=site, **shared)[0]


@method("cp-lrp")
def cp_lrp(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    site: str = "word",
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[Attribution]:
    """CP-LRP (Ali et al. 2022): the attention weights of every layer are constants."""
    shared: dict[str, Any] = {"epsilon": epsilon, "output": output}
    shared |= {"batch_tokens": batch_tokens, "progress": progress}
    return lrp_masks(
        clf, texts, targets, masks=[range(1, clf.card.layers + 1)], name="cp-lrp", site=site, **shared
    )[0]


@method("pa-lrp")
def pa_lrp(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    epsilon: float = 0.0,
    output: str = "logit",
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> list[Attribution]:
    """PA-LRP for learned absolute positions: AttnLRP with the share of each position added to its token."""
    shared: dict[str, Any] = {"epsilon": epsilon, "output": output}
    shared |= {"batch_tokens": batch_tokens, "progress": progress}
    return lrp_masks(clf, texts, targets, masks=[NONE], name="pa-lrp", site="word+position", **shared)[0]


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
    whole("layer_lattice", "memory", memory, hint="2 * 2**30 bytes are 2 GiB")
    (encoded,) = clf.encode(text, truncate=truncate)
    eps = check_epsilon(epsilon)
    choose("layer_lattice", "site", site, SITES)
    choose("layer_lattice", "output", output, TARGET_CHOICES)
    ids = torch.tensor([encoded.input_ids], device=clf.device)
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    chosen = settle(check_targets(target, 1, len(clf.labels)), tape.logits)
    parts = all_masks(tape, output_gradient(tape.logits, chosen, output), epsilon=eps, memory=memory)
    by_mask = {key: to_numpy(value)[:, 0] for key, value in parts.items()}
    joined, offsets = offsets_of(clf, encoded)
    return Lattice(
        tokens=encoded.tokens,
        scores=scores_at(by_mask, site),
        target=int(chosen),
        logit=float(tape.logits[0, chosen]),
        special=encoded.special,
        site=site,
        parts=by_mask,
        label=clf.labels[int(chosen)],
        text=joined,
        offsets=offsets,
    )
