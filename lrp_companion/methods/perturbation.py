"""Removing tokens from a text: Leave-One-Out, and the runs behind perturbation curves.

Four removals: `attention-mask` (no token attends to it; the paper's LOO), `mask-token` and `pad-token` (its
word is replaced), `delete` (it is deleted and later tokens move up; without [CLS] the classifier reads the
new first token). Under `pad-token` a causal classifier is read where the whole text is read, also
if the padding token now stands there; `transformers`, given such ids, would read the last one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.arrays import bool_array
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, choose, shown
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import compare, row_read
from lrp_companion.loading.compute import as_recorded, usual_device
from lrp_companion.loading.texts import Text
from lrp_companion.methods.common import (
    check_classifier,
    check_finite,
    check_mask_token,
    check_output,
    check_pad_token,
    read_output,
    settle,
    targets_of,
    to_numpy,
    watch,
)
from lrp_companion.methods.text_method import Work, text_method
from lrp_companion.methods.units import unit_choice, units_in
from lrp_companion.schema import REMOVALS
from lrp_companion.tape.batching import budget, token_batches
from lrp_companion.tape.packed import Row, packed_logits


@torch.no_grad()
def kept_logits(
    clf: Classifier,
    jobs: Sequence[tuple[EncodedText, np.ndarray]],
    *,
    removal: str = "attention-mask",
    batch_tokens: int | None = None,
    progress: bool | None = None,
    label: str = "loo",
) -> Tensor:
    """Logits (N, C) of texts with only their kept tokens; `keep` is bool, shape (T,), for each job.

    A token to which no token attends changes only its own hidden state. So under `attention-mask` removed
    tokens are not run at all, the others keep their positions, and only the token that the classifier reads
    (the first; in a causal model the last) always stays in the batch. Up to rounding, this equals running the
    whole text under the mask. A batch has at most `batch_tokens` tokens; the default keeps a CPU (1,024) or a
    GPU (65,536) busy.
    """
    check_removal(clf, removal)
    at_once = budget(batch_tokens, clf.device, work="removals")
    numbered, words = clf.vocabulary([text for text, _ in jobs])
    rows = [_row(clf, text, keep, removal) for text, (_, keep) in zip(numbered, jobs, strict=True)]
    planned = token_batches([len(row) for row in rows], at_once)
    with as_recorded(clf.device, clf.network), torch.no_grad():
        compare(clf, list({id(text): text for text, _ in jobs}.values()))
        out = torch.empty(len(jobs), len(clf.labels), dtype=clf.dtype)
        for batch in watch(planned, progress=progress, label=label):
            some = [rows[k] for k in batch]
            out[batch] = packed_logits(clf.encoder.wiring, some, words=words, device=clf.device).cpu()
    check_finite(clf, to_numpy(out), "logits")
    return out


def check_removal(clf: Classifier, removal: str) -> None:
    """Refuse an unknown removal, one whose token the tokenizer lacks, and any that would replace a patch."""
    if clf.reads_images and choose("attribute", "removal", removal, REMOVALS) != REMOVALS[0]:
        got, expected = f"removal {removal!r} with {clf.card.name!r}, which reads images", "'attention-mask'"
        hint = "leave it out: no token attends to a patch that is removed"
        raise InputError("attribute", got=got, expected=expected, hint=hint)
    if choose("attribute", "removal", removal, REMOVALS) == "mask-token":
        check_mask_token(clf, "removal 'mask-token'")
    if removal == "pad-token":
        check_pad_token(clf, "removal 'pad-token'")


def _row(clf: Classifier, text: EncodedText, keep: Any, removal: str) -> Row:
    """The rest of a text, as the encoder runs it."""
    keep = bool_array("removal", "keep", keep)
    if keep.shape != (len(text),):
        raise InputError(
            "removal",
            got=f"a mask of shape {keep.shape}",
            expected=f"({len(text)},), one entry per token",
            hint="special tokens count too",
        )
    reads_one = clf.encoder.wiring.causal and removal == "attention-mask"  # the last token reads nothing then
    if not keep.any() and not reads_one:
        raise InputError(
            "removal",
            got="a text with every token removed",
            expected="at least one token kept",
            hint="keep the special tokens",
        )
    ids, places, types = np.asarray(text.input_ids), np.arange(len(text)), np.asarray(text.types)
    readout, read = clf.encoder.wiring.readout, row_read(clf, text)
    if removal == "delete":
        if readout == "place" and not keep[read]:
            got = "the token that is read removed by 'delete'"
            hint = "choose another removal, such as 'attention-mask'"
            raise InputError("removal", got=got, expected="a text with the token to be read", hint=hint)
        # without its last token a text is read at the one before that the network does not skip
        skipped = clf.reader.skipped
        counted = keep if skipped is None else keep & (ids != skipped)
        candidates = np.flatnonzero(counted[: read + 1])
        left = int(keep[: candidates[-1]].sum()) if readout in ("place", "last") and len(candidates) else 0
        return Row(ids[keep], places[: keep.sum()], types=types[keep], read=left)
    if removal == "attention-mask":
        stay = keep.copy()
        if readout == "mean":  # of the tokens that are left
            return Row(ids[stay], places[stay], types=types[stay], length=len(text))
        stay[[read, read + 1] if readout == "two" else read] = True
        unread = tuple(np.flatnonzero(~keep[stay]).tolist())
        at = int(stay[:read].sum())
        return Row(ids[stay], places[stay], unread, types=types[stay], read=at, length=len(text))
    filler = clf.mask_id if removal == "mask-token" else clf.pad_id
    return Row(np.where(keep, ids, filler), places, types=types, read=read)


@text_method("loo", "output", "unit")
def loo(work: Work, *, removal: str = "attention-mask") -> list[Attribution]:
    """Leave-One-Out: `LOO_i = f(x) - f(x without i)`, one forward pass per token (section 2.1 of the
    paper), or per `unit`, whose tokens are removed at once: "word", "sentence", or spans as in
    `Attribution.spans`.
    """
    check_removal(work.clf, removal)  # also where there is no text
    check_output(work.output, work.clf)
    groups = units_in(work.clf, work.texts, work.unit)
    jobs = [
        (text, units.kept_without(i, len(text)))
        for text, units in zip(work.texts, groups, strict=True)
        for i in range(-1, len(units))
    ]
    batching: dict[str, Any] = {"batch_tokens": work.batch_tokens, "progress": work.progress}
    logits = kept_logits(work.clf, jobs, removal=removal, **batching)
    choices = {"removal": removal, "output": work.output, **unit_choice(work.unit)}
    out, at = [], 0
    for text, units, target in zip(work.texts, groups, work.targets, strict=True):
        of_text = logits[at : at + len(units) + 1]
        at += len(units) + 1
        chosen = settle([target], of_text[:1])
        values = work.read(of_text, chosen.expand(len(of_text)))
        known: dict[str, Any] = {"target": chosen, "logit": of_text[0, chosen], "choices": choices}
        out.append(work.record(text, values[0] - values[1:], units=units, **known))
    return out


def removal_evaluator(
    clf: Classifier,
    text: Text | EncodedText,
    *,
    target: int | str,
    removal: str = "attention-mask",
    output: str = "logit",
    position: int | str | None = None,
    batch_tokens: int | None = None,
) -> Callable[[np.ndarray], np.ndarray]:
    """A function from kept-token masks (steps, T) to the explained output (steps,), for `perturbation_curve`.

    A set of kept tokens is run once, however many rankings use it.

    >>> evaluate = removal_evaluator(clf, "a film of rare grace", target=1)  # doctest: +SKIP
    >>> evaluate(np.ones((1, 7), dtype=bool)).shape                          # doctest: +SKIP
    (1,)
    """
    check_classifier("removal", clf)
    encoded = text if isinstance(text, EncodedText) else clf.encode_one("removal", text, position=position)
    check_output(output, clf)
    (chosen,) = targets_of(clf, target, 1)
    if chosen is None:
        got, hint = "target None", "name the class whose output to follow"
        raise InputError("removal", got=got, expected="a class", hint=hint)
    known: dict[bytes, float] = {}

    @usual_device()
    def evaluate(keep: np.ndarray) -> np.ndarray:
        kept = _masks(keep)
        rows = {row.tobytes(): row for row in kept}
        new = {key: row for key, row in rows.items() if key not in known}
        if new:
            logits = kept_logits(
                clf,
                [(encoded, row) for row in new.values()],
                removal=removal,
                batch_tokens=batch_tokens,
                progress=False,
            )
            classes = torch.full((len(logits),), chosen)
            values = read_output(logits, classes, output, multi_label=clf.multi_label)
            known.update(zip(new, to_numpy(values).tolist(), strict=True))
        return np.array([known[row.tobytes()] for row in kept])

    return evaluate


def _masks(keep: object) -> np.ndarray:
    """Masks of kept tokens as bool, (steps, tokens); else `InputError`."""
    masks = bool_array("removal", "masks", keep)
    if masks.ndim != 2:
        got, hint = f"masks {shown(keep)}", "pass one row of True and False per step"
        raise InputError("removal", got=got, expected="shape (steps, tokens)", hint=hint)
    return masks
