"""Removing tokens from a text: Leave-One-Out, and the runs behind perturbation curves.

Four removals: `attention-mask` (no token attends to it; the paper's LOO), `mask-token` and `pad-token` (its
word is replaced), `delete` (it is deleted and later tokens move up; without [CLS] the classifier reads the
new first token). Under `pad-token` a causal classifier is read where the whole text is read, also
if the padding token now stands there; `transformers`, given such ids, would read the last one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.arrays import bool_array
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, choose
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import compare, row_read
from lrp_companion.loading.compute import as_recorded, usual_device
from lrp_companion.loading.texts import Text
from lrp_companion.methods.common import (
    Request,
    check_classifier,
    check_output,
    check_replacement,
    classes_of,
    finite,
    groups_of,
    places_of,
    read_output,
    replacements,
    targets_of,
    to_numpy,
    unit_choice,
    watch,
)
from lrp_companion.registry import method
from lrp_companion.schema import REMOVALS
from lrp_companion.tape.batching import budget, token_batches
from lrp_companion.tape.packed import packed_logits
from lrp_companion.tape.rows import Row, Whole
from lrp_companion.words import Units


@torch.no_grad()
def kept_logits(
    clf: Classifier,
    jobs: Sequence[tuple[EncodedText, np.ndarray]],
    *,
    removal: str = "attention-mask",
    batch_tokens: int | None = None,
    progress: bool | None = None,
    label: str = "loo",
    places: Sequence[int] | None = None,
) -> Tensor:
    """Logits (N, C) of texts with only their kept tokens; `keep` is bool, shape (T,), for each job. Those at
    several `places` of every text are (N, k, C).

    A token to which no token attends changes only its own hidden state. So under `attention-mask` removed
    tokens are not run at all, the others keep their positions, and only the token that the classifier reads
    (the first; in a causal model the last) always stays in the batch. Up to rounding, this equals running the
    whole text under the mask. A batch has at most `batch_tokens` tokens; the default keeps a CPU (1,024) or a
    GPU (65,536) busy. In a causal model nothing changes before the first removed token, so what comes before
    is run once per text (not under `delete`, which moves positions); its keys and values are kept for as many
    texts as fit into a batch.
    """
    check_removal(clf, removal)
    at_once = budget(batch_tokens, clf.device, work="removals")
    with as_recorded(clf.device, clf.network):
        compare(clf, list({id(text): text for text, _ in jobs}.values()))
    numbered, words = clf.vocabulary([text for text, _ in jobs])
    read = [[row_read(clf, text)] if places is None else places for text in numbered]
    rows = [
        _row(clf, text, keep, removal, at) for text, (_, keep), at in zip(numbered, jobs, read, strict=True)
    ]
    wiring = clf.encoder.wiring
    run = partial(packed_logits, wiring, words=words, device=clf.device)
    with as_recorded(clf.device, clf.network), torch.no_grad():
        out = torch.empty(len(jobs), 1 if places is None else len(places), len(clf.labels), dtype=clf.dtype)
        shared = wiring.causal and wiring.readout in ("place", "last") and removal != "delete"
        groups = list(_few_texts(jobs, at_once)) if shared else [list(range(len(jobs)))]
        several = len(groups) > 1  # one bar
        for some in watch(groups, progress=progress if several else False, label=label):
            here = _shortened(jobs, rows, some, run) if shared else {k: rows[k] for k in some}
            planned = token_batches([len(here[k]) for k in some], at_once)
            for batch in watch(planned, progress=False if several else progress, label=label):
                of_batch = [some[k] for k in batch]
                logits = run([here[k] for k in of_batch]).cpu()
                out[of_batch] = logits.unflatten(0, (len(batch), -1))
    finite(clf, to_numpy(out), "logits")
    return out[:, 0] if places is None else out


SHORT = 16
"""Texts of fewer tokens are run whole: a pass for what they share costs more than it saves."""


def _few_texts(jobs: Sequence[tuple[EncodedText, np.ndarray]], tokens: int) -> Iterator[list[int]]:
    """The jobs, some texts at a time: as many as have so many tokens together, of one at least."""
    by_text: dict[int, list[int]] = {}
    for k, (text, _) in enumerate(jobs):
        by_text.setdefault(id(text), []).append(k)
    some, left = list[int](), tokens
    for of_text in by_text.values():
        length = len(jobs[of_text[0]][0])
        if some and length > left:
            yield some
            some, left = [], tokens
        some, left = some + of_text, left - length
    if some:
        yield some


def _shortened(
    jobs: Sequence[tuple[EncodedText, np.ndarray]],
    rows: Sequence[Row],
    some: Sequence[int],
    run: Callable[..., Tensor],
) -> dict[int, Row]:
    """The rows of these jobs, each without what comes before its first change, where that saves request."""
    out, by_text = dict[int, Row](), dict[int, list[int]]()
    for k in some:
        by_text.setdefault(id(jobs[k][0]), []).append(k)
    for of_text in by_text.values():
        text = jobs[of_text[0]][0]
        # nothing before it is removed, and what is read stays
        first = {k: min(int(np.append(jobs[k][1], False).argmin()), *rows[k].read) for k in of_text}
        out |= {k: rows[k] for k in of_text}
        if len(text) >= SHORT and sum(first.values()) > len(text):
            whole = Whole([], [])
            places = np.arange(len(text))
            types = np.asarray(text.types)
            run([Row(np.asarray(text.input_ids), places, types=types, read=(len(text) - 1,))], whole=whole)
            out |= {k: rows[k].after(first[k], whole) for k in of_text if first[k]}
    return out


def check_removal(clf: Classifier, removal: str) -> None:
    """Refuse an unknown removal, one whose token the tokenizer lacks, and any that would replace a patch."""
    choose("attribute", "removal", removal, REMOVALS[:1] if clf.reads_images else REMOVALS)
    check_replacement(clf, removal)


def _row(clf: Classifier, text: EncodedText, keep: Any, removal: str, read: Sequence[int]) -> Row:
    """The rest of a text that is read at these places, as the encoder runs it."""
    keep = bool_array("removal", "keep", keep)
    if keep.shape != (len(text),):
        got, expected = f"a mask of shape {keep.shape}", f"({len(text)},), one entry per token"
        raise InputError("removal", got=got, expected=expected, hint="special tokens count too")
    reads_nothing = clf.encoder.wiring.causal and removal == "attention-mask"  # then its last token
    if not keep.any() and not reads_nothing:
        got, hint = "a text with every token removed", "keep the special tokens"
        raise InputError("removal", got=got, expected="at least one token kept", hint=hint)
    ids, places, types = np.asarray(text.input_ids), np.arange(len(text)), np.asarray(text.types)
    readout, read = clf.encoder.wiring.readout, list(read)
    if removal == "delete":
        if readout == "place" and not keep[read].all():
            got = "the token that is read removed by 'delete'"
            hint = "choose another removal, such as 'attention-mask'"
            raise InputError("removal", got=got, expected="a text with the token to be read", hint=hint)
        # without its last token a text is read at the one before that the network does not skip
        skipped = clf.reader.skipped
        counted = keep if skipped is None else keep & (ids != skipped)
        last = [np.flatnonzero(counted[: place + 1])[-1:] for place in read]
        reads_one = readout in ("place", "last")
        left = tuple(int(keep[: place[0]].sum()) if reads_one and len(place) else 0 for place in last)
        return Row(ids[keep], places[: keep.sum()], types=types[keep], read=left)
    if removal == "attention-mask":
        stay = keep.copy()
        if readout in ("mean", "max"):  # of the tokens that are left
            return Row(ids[stay], places[stay], types=types[stay], length=len(text))
        stay[[0, 1] if readout == "two" else read] = True
        if clf.encoder.wiring.masks_whole:  # a closed query reads all tokens, closed or not
            stay[:] = True
        unread = tuple(np.flatnonzero(~keep[stay]).tolist())
        at = tuple(int(stay[:place].sum()) for place in read)
        return Row(ids[stay], places[stay], unread, types=types[stay], read=at, length=len(text))
    return Row(np.where(keep, ids, replacements(clf)[removal]), places, types=types, read=tuple(read))


@method("loo", takes=("output", "unit"))
def loo(request: Request, *, removal: str = "attention-mask") -> list[Attribution]:
    """Leave-One-Out: `LOO_i = f(x) - f(x without i)`, one forward pass per token (section 2.1 of the
    paper), or per `unit`, whose tokens are removed at once: "word", "sentence", or spans as in
    `Attribution.spans`.
    """
    check_removal(request.clf, removal)  # also where there is no text
    units = request.units()
    choices = {"removal": removal, "output": request.output, **unit_choice(request.unit)}
    out = []
    for k, of_text in enumerate(_without_each(request, units, removal)):
        chosen = classes_of([request.targets[k]], of_text[:1])
        values = request.read(of_text, chosen.expand(len(of_text)))
        known: dict[str, Any] = {"target": chosen, "logit": of_text[0, chosen], "choices": choices}
        out.append(request.record(request.texts[k], values[0] - values[1:], units=units[k], **known))
    return out


def _without_each(request: Request, units: Sequence[Units], removal: str) -> list[Tensor]:
    """The logits (1 + U, C) of each text: complete, and without each of its units. Texts that share a forward
    pass share the removals, too.
    """
    options: dict[str, Any] = {"batch_tokens": request.batch_tokens, "progress": request.progress}
    options |= {"removal": removal, "label": request.name}
    kept = [
        [of.kept_without(i, len(text)) for i in range(-1, len(of))]
        for text, of in zip(request.texts, units, strict=True)
    ]
    groups, out = groups_of(request.texts), dict[int, Tensor]()
    if alone := [group[0] for group in groups if len(group) == 1]:
        logits = kept_logits(
            request.clf, [(request.texts[k], keep) for k in alone for keep in kept[k]], **options
        )
        out = dict(zip(alone, logits.split([len(kept[k]) for k in alone]), strict=True))
    for group in groups:
        if len(group) == 1:
            continue
        texts = [request.texts[k] for k in group]
        run = max(texts, key=len)
        whole = [
            [np.append(keep, np.ones(len(run) - len(keep), dtype=bool)) for keep in kept[k]] for k in group
        ]
        distinct = {keep.tobytes(): keep for of_text in whole for keep in of_text}
        row = {key: n for n, key in enumerate(distinct)}
        places = places_of(request.clf, texts) or [0]
        logits = kept_logits(
            request.clf, [(run, keep) for keep in distinct.values()], places=places, **options
        )
        for n, (k, of_text) in enumerate(zip(group, whole, strict=True)):
            out[k] = logits[[row[keep.tobytes()] for keep in of_text], n % len(places)]
    return [out[k] for k in range(len(request.texts))]


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
    chosen: Any = targets_of(clf, target, 1)[0]
    known: dict[Any, float] = {}

    @usual_device()
    def evaluate(keep: np.ndarray) -> np.ndarray:
        network = clf.follow().identity  # another one after any change
        kept = np.asarray(keep)
        rows = {(network, row.tobytes()): row for row in kept}
        new = {key: row for key, row in rows.items() if key not in known}
        if new:
            jobs = [(encoded, row) for row in new.values()]
            how: dict[str, Any] = {"removal": removal, "batch_tokens": batch_tokens, "progress": False}
            logits = kept_logits(clf, jobs, **how)
            classes = torch.full((len(logits),), chosen)
            values = read_output(logits, classes, output, multi_label=clf.multi_label)
            known.update(zip(new, to_numpy(values).tolist(), strict=True))
        return np.array([known[network, row.tobytes()] for row in kept])

    return evaluate
