"""Removing tokens from a text: Leave-One-Out, the runs behind perturbation curves, and Shapley values.

Four removals: `attention-mask` (no token attends to it; the paper's LOO), `mask-token` and `pad-token` (its
word is replaced), `delete` (it is deleted and later tokens move up; without [CLS] the classifier reads the
new first token). Under `pad-token` a causal classifier is read where the whole text is read, also
if the padding token now stands there; `transformers`, given such ids, would read the last one before it.

A Shapley value is what a token adds to the explained output, averaged over the orders in which tokens come.
The players are the units that LOO removes, without special tokens: those always stay and have score 0, for
without any token a text cannot be run. So the scores of a text add up to `f(x) - f(x without any unit)`.
LOO_i is one term of the mean, the one where i comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, bool_array, choose, whole
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import row_read
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
from lrp_companion.tape.encoder import as_recorded, budget, token_batches
from lrp_companion.tape.packed import Row, Whole, packed_logits
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
        clf.check_logits(list({id(text): text for text, _ in jobs}.values()))
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


def asked_logits(request: Request, jobs: Sequence[tuple[EncodedText, np.ndarray]], **how: Any) -> Tensor:
    """`kept_logits` with the classifier, the batches and the progress bar of a request."""
    shown: dict[str, Any] = {"progress": request.progress, "label": request.name}
    return kept_logits(request.clf, jobs, batch_tokens=request.batch_tokens, **shown, **how)


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
    """The rows of these jobs, each without what comes before its first change, where that saves work."""
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
    pairs = zip(request.texts, units, strict=True)
    kept = [[of.kept_without(i, len(text)) for i in range(-1, len(of))] for text, of in pairs]
    groups, out = groups_of(request.texts), dict[int, Tensor]()
    if alone := [group[0] for group in groups if len(group) == 1]:
        jobs = [(request.texts[k], keep) for k in alone for keep in kept[k]]
        logits = asked_logits(request, jobs, removal=removal)
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
        jobs = [(run, keep) for keep in distinct.values()]
        logits = asked_logits(request, jobs, places=places, removal=removal)
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

    def evaluate(keep: np.ndarray) -> np.ndarray:
        network = clf.follow().identity  # another one after any change
        kept = np.asarray(keep)
        rows = {(network, row.tobytes()): row for row in kept}
        new = {key: row for key, row in rows.items() if key not in known}
        if new:
            jobs = [(encoded, row) for row in new.values()]
            how: dict[str, Any] = {"removal": removal, "batch_tokens": batch_tokens, "progress": False}
            logits = kept_logits(clf, jobs, **how)
            classes = torch.full((len(logits),), chosen, device=logits.device)
            values = read_output(logits, classes, output, multi_label=clf.multi_label)
            known.update(zip(new, to_numpy(values).tolist(), strict=True))
        return np.array([known[network, row.tobytes()] for row in kept])

    return evaluate


MOST_EXACT = 16
"""Units of a text up to which all subsets may be asked for: 65,536 forward passes."""
ROWS, NUMBERS = 32_768, 2**24
"""Subsets that are run in one call, and logits of one call, which a vocabulary of classes fills sooner."""


@method("shapley", takes=("output", "unit"))
def shapley(
    request: Request,
    *,
    removal: str = "attention-mask",
    exact: int = 12,
    permutations: int = 128,
    seed: int = 0,
) -> list[Attribution]:
    """Shapley values of tokens (or of a `unit`) by removal: `sum over S without i of
    |S|! (n - |S| - 1)! / n! (f(S and i) - f(S))` (Shapley 1953), special tokens always kept.

    Texts of at most `exact` units run all 2**n subsets. Longer ones run the subsets along `permutations`
    random orders, each with its reverse (Mitchell et al. 2022), every subset once. `details` has the
    "standard error" of each score (0 if exact), over the pairs of orders; "passes"; "value" and "empty",
    the explained output of the whole text and of the special tokens alone; and, if exact, the pairwise
    "interactions" (`interactions_of`), one row for each unit.
    """
    check_removal(request.clf, removal)
    hint = "2**n forward passes for n units; exact=0 samples every text"
    whole("attribute", "exact", exact, least=0, most=MOST_EXACT, hint=hint)
    if whole("attribute", "permutations", permutations, least=4, hint="try 128") % 2:
        got, expected = f"permutations {permutations}", "an even number: each order runs with its reverse"
        raise InputError("attribute", got=got, expected=expected, hint=f"try {permutations + 1}")
    groups = request.units()
    players = [np.flatnonzero(~units.special) for units in groups]
    keeps, along = [], []
    for text, units, some in zip(request.texts, groups, players, strict=True):
        n = len(some)
        orders = None if n <= exact else _orders(n, permutations, [seed, *text.key])
        rows, places = (subsets(n), None) if orders is None else _along(orders)
        along.append((orders, places))
        kept = np.ones((len(rows), len(units) + 1), dtype=bool)  # the last column: tokens of no unit
        kept[:, some] = rows
        keeps.append(kept[:, units.of_tokens(len(text))])
        reads_nothing = request.clf.encoder.wiring.causal and removal == "attention-mask"
        if not reads_nothing and not keeps[-1].any(1).all():
            got, expected = "a text without special tokens", "a token that stays in the empty subset"
            hint = "take 'attention-mask', or spans as units"
            raise InputError("attribute", got=f"{got} under {removal!r}", expected=expected, hint=hint)
    choices: dict[str, Any] = {"removal": removal, "exact": exact, "permutations": permutations, "seed": seed}
    choices |= {"output": request.output, **unit_choice(request.unit)}
    out = []
    for k, (values, target, logit) in enumerate(_values(request, keeps, removal)):
        errors, details = np.zeros(len(groups[k])), dict[str, Any]()
        scores = np.zeros(len(groups[k]))
        orders, places = along[k]
        if orders is None or places is None:
            scores[players[k]] = shapley_of(values)
            between = np.zeros((len(scores), len(scores)))
            between[np.ix_(players[k], players[k])] = interactions_of(values)
            details["interactions"] = between
        else:
            scores[players[k]], errors[players[k]] = _sampled(values[places], orders)
        details |= {"standard error": errors, "passes": (len(values), 0)}
        details |= {"value": values[-1], "empty": values[0]}
        known: dict[str, Any] = {"target": target, "logit": logit, "choices": choices, "details": details}
        out.append(request.record(request.texts[k], scores, units=groups[k], **known))
    return out


def subsets(players: int) -> np.ndarray:
    """All subsets of n players, bool (2**n, n), in the order of binary numbers with player 0 in front."""
    places = np.arange(players)[::-1]
    return (np.arange(2**players)[:, None] >> places & 1).astype(bool)


def shapley_of(values: np.ndarray) -> np.ndarray:
    """Shapley values (n,) of a game with the values (2**n,) of its `subsets`.

    >>> shapley_of(np.array([0.0, 0.0, 1.0, 3.0]))
    array([2., 1.])
    """
    n, sizes = _shape(values)
    cube = np.reshape(values, (2,) * n)
    out = np.empty(n)
    for i in range(n):
        before, after = np.moveaxis(cube, i, 0)
        out[i] = ((after - before).ravel() * _weights(sizes, n, i)).sum()
    return out


def interactions_of(values: np.ndarray) -> np.ndarray:
    """Shapley interactions (n, n) of a game with the values (2**n,) of its `subsets`; 0 on the diagonal.

    `I_ij = sum over S without i, j of |S|! (n - |S| - 2)! / (n - 1)! (f(S, i, j) - f(S, i) - f(S, j) + f(S))`
    (Grabisch and Roubens 1999): what two add together beyond what each adds.

    >>> interactions_of(np.array([0.0, 0.0, 1.0, 3.0])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    n, sizes = _shape(values)
    cube = np.reshape(values, (2,) * n)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            (neither, right), (left, both) = np.moveaxis(cube, (i, j), (0, 1))
            gains = (both - left - right + neither).ravel()
            out[i, j] = out[j, i] = (gains * _weights(sizes, n, i, j)).sum()
    return out


def _shape(values: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of players, and the number of members of each subset as a cube."""
    n = len(values).bit_length() - 1
    return n, subsets(n).sum(1).reshape((2,) * n)


def _weights(sizes: np.ndarray, players: int, *out: int) -> np.ndarray:
    """`|S|! (m - |S|)! / (m + 1)!` of each subset S of the m players that are not `out`."""
    m = players - len(out)
    sizes = np.moveaxis(sizes, out, range(len(out)))[(0,) * len(out)].ravel()
    return np.array([1 / ((m + 1) * comb(m, size)) for size in range(m + 1)])[sizes]


def _orders(players: int, permutations: int, seed: Sequence[int]) -> np.ndarray:
    """Random orders of n players, (P, n); the second half are the first half's reverses."""
    generator = np.random.default_rng(seed)
    orders = generator.permuted(np.tile(np.arange(players), (permutations // 2, 1)), axis=1)
    return np.concatenate([orders, orders[:, ::-1]])


def _along(orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct subsets along orders (P, n), bool (R, n), and where each order meets them, (P, n + 1)."""
    steps = np.arange(orders.shape[1] + 1)
    along = np.argsort(orders, axis=1)[:, None, :] < steps[:, None]  # none, the first, the first two ...
    rows, places = np.unique(along.reshape(-1, orders.shape[1]), axis=0, return_inverse=True)
    return rows, places.reshape(len(orders), -1)


def _sampled(along: np.ndarray, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) and standard errors (n,) from the values (P, n + 1) along the orders (P, n)."""
    gains = np.empty(orders.shape)
    np.put_along_axis(gains, orders, np.diff(along, axis=1), axis=1)
    first, second = np.split(gains, 2)
    pairs = (first + second) / 2
    return pairs.mean(0), pairs.std(0, ddof=1) / len(pairs) ** 0.5


def _values(
    request: Request, keeps: Sequence[np.ndarray], removal: str
) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
    """Of each text the explained output with only the kept tokens of each row (R, T), all of them in the last
    row; the class; its logit with all of them.
    """

    if not keeps:
        return
    logits = partial(asked_logits, replace(request, progress=False), removal=removal)
    whole_text = logits([(text, rows[-1]) for text, rows in zip(request.texts, keeps, strict=True)])
    targets = classes_of(request.targets, whole_text)
    jobs = ((k, row) for k, rows in enumerate(keeps) for row in rows[:-1])
    count = sum(len(rows) - 1 for rows in keeps)
    at_once = max(1, min(ROWS, NUMBERS // whole_text.shape[1]))
    done = np.empty(count)
    for start in watch(range(0, count, at_once), progress=request.progress, label=request.name):
        some = list(islice(jobs, at_once))
        after = logits([(request.texts[k], row) for k, row in some])
        done[start : start + len(some)] = to_numpy(request.read(after, targets[[k for k, _ in some]]))
    last = to_numpy(request.read(whole_text, targets))
    start = 0
    for k, rows in enumerate(keeps):
        end = start + len(rows) - 1
        yield np.append(done[start:end], last[k]), targets[k], whole_text[k, targets[k]]
        start = end
