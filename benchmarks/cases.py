"""The comparisons: each checks that both sides agree, times them together, and returns plain rows.

A row holds `what`, `against`, `unit`, `goal` (a ratio) and `sense` ("at least" or "at most"), the `ratio`
(median, low, high over the repeats), all `seconds`, the largest difference of the two sides (`equal`, over
the largest score, with its `tolerance`), and `note`.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from benchmarks import peers
from benchmarks.clock import Shape, interleaved, multiplier, ratio, slope
from lrp_companion.lab.perturbation_paths import shared_curves
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import explain, removal_evaluator
from lrp_companion.metrics import pearson, perturbation_curve
from lrp_companion.metrics.faithfulness import ORDERS
from lrp_companion.schema import path_masks
from lrp_companion.sources import Dataset
from lrp_companion.tape.encoder import Encoder, all_masks, pad, some_masks
from lrp_companion.toys.linear_attention import LinearAttention

Row = dict[str, Any]
STEPS = 50
EXACT = 2e-3  # float32 over 12 layers, relative to the largest score
NO_GOAL = float("nan")


class Disagreement(RuntimeError):
    """Two sides of a comparison give different scores, so their times say nothing."""


@dataclass(frozen=True)
class Size:
    """How much is measured; `quick` is enough to see that everything runs."""

    repeats: int
    sentences: int
    reviews: int
    ig_sentences: int
    curve_sentences: int
    mask_sample: int
    lattice_tokens: int
    loo_lengths: tuple[int, ...]
    lengths: tuple[int, ...]
    layers: tuple[int, ...]
    lattice_layers: tuple[int, ...]
    batches: tuple[int, ...]
    wide_layers: int
    peer_lengths: tuple[int, ...]
    minimum: float


FULL = Size(
    repeats=5,
    sentences=24,
    reviews=3,
    ig_sentences=6,
    curve_sentences=1,
    mask_sample=3,
    lattice_tokens=24,
    loo_lengths=(16, 32, 64, 128, 256),
    lengths=(16, 32, 64, 128, 256, 512),
    layers=(2, 6, 12, 24),
    lattice_layers=(2, 4, 6, 8, 10, 12),
    batches=(1, 4, 16, 64),
    wide_layers=12,
    peer_lengths=(16, 64, 256),
    minimum=0.2,
)
QUICK = Size(2, 3, 1, 1, 1, 2, 6, (8, 16), (8, 16), (2, 4), (2, 4), (1, 4), 2, (8,), 0.0)


@dataclass(frozen=True)
class Bench:
    """A model, sentences, how much is measured, and long reviews."""

    clf: Classifier
    texts: list[EncodedText]
    size: Size
    long: Dataset

    @cached_property
    def shape(self) -> Shape:
        return shape_of(self.clf)

    @cached_property
    def targets(self) -> list[int]:
        clf = self.clf
        with torch.no_grad():
            logits = [clf.logits(*pad([text.input_ids], clf.pad_id, clf.device)) for text in self.texts]
        return [int(of_text.argmax()) for of_text in logits]

    @cached_property
    def reviews(self) -> list[EncodedText]:
        chosen = self.long.order(self.size.reviews, seed=0)
        return self.clf.encode([self.long.texts[k] for k in chosen], truncate=True)

    @cached_property
    def low(self) -> Classifier:
        """The same weights in bfloat16."""
        network = copy.deepcopy(self.clf.network).to(torch.bfloat16)
        return Classifier(network, self.clf.tokenizer, card=replace(self.clf.card, dtype="bfloat16"))

    def of_depth(self, layers: int) -> Classifier:
        """Random weights in the model's shape, with another number of layers."""
        config = copy.deepcopy(self.clf.network.config)
        config.num_hidden_layers = layers
        torch.manual_seed(layers)
        network = AutoModelForSequenceClassification.from_config(config).float().eval().requires_grad_(False)
        card = replace(self.clf.card, name=f"random-{layers}", layers=layers)
        return Classifier(network, self.clf.tokenizer, card=card)

    def text_of(self, tokens: int) -> EncodedText:
        """Random words, [CLS] and [SEP] at the ends."""
        words = np.random.default_rng(tokens).integers(5, len(self.clf.tokenizer), tokens - 2)
        ids = (self.clf.tokenizer.cls_token_id, *map(int, words), self.clf.tokenizer.sep_token_id)
        special = np.zeros(tokens, dtype=bool)
        special[[0, -1]] = True
        return EncodedText("", ids, tuple(map(str, ids)), special, (0,) * tokens)

    def time(
        self, sides: dict[str, Callable[[], Any]], *, repeats: int | None = None
    ) -> dict[str, list[float]]:
        return interleaved(sides, repeats=repeats or self.size.repeats, minimum=self.size.minimum)

    def first(self, count: int) -> tuple[list[EncodedText], list[int]]:
        return self.texts[:count], self.targets[:count]


def shape_of(clf: Classifier) -> Shape:
    wiring = clf.encoder.wiring
    first = wiring.layers[0]
    return Shape(len(wiring.layers), first.query.in_features, first.up.out_features, wiring.heads)


def _loo(clf: Classifier, texts: list[EncodedText], targets: list[int]) -> list[np.ndarray]:
    return [record.scores for record in explain("loo", clf, texts, targets, progress=False)]


def _distance(scores: Any, expected: Any) -> float:
    """The largest difference, relative to the largest score, over all texts."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(scores, expected, strict=True)]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def _equal(what: str, scores: Any, expected: Any, tolerance: float = EXACT) -> dict[str, float]:
    distance = _distance(scores, expected)
    if not distance <= tolerance:
        difference = f"the two sides differ by {distance:.2g} of the largest score"
        raise Disagreement(f"{what}: {difference}, {tolerance} is allowed")
    return {"equal": distance, "tolerance": tolerance}


def _row(
    what: str,
    against: str,
    goal: float,
    above: list[float],
    below: list[float],
    *,
    at_most: bool = False,
    **more: Any,
) -> Row:
    """The ratio `above / below`; ours is below, or above where the goal is a cost."""
    seconds = {"ours": above, "other": below} if at_most else {"ours": below, "other": above}
    return {
        "what": what,
        "against": against,
        "goal": goal,
        "sense": "at most" if at_most else "at least",
        "ratio": ratio(above, below),
        "seconds": seconds,
        **more,
    }


def leave_one_out(bench: Bench) -> Iterator[Row]:
    """LOO against the plain loop, captum, and the arithmetic of the unshared computation."""
    clf, (texts, targets) = bench.clf, bench.first(bench.size.sentences)
    pairs = [*zip(texts, targets, strict=True)]
    words = f"{len(texts)} sentences, {sum(map(len, texts)):,} tokens"

    def loop() -> list[np.ndarray]:
        return [peers.loo_loop(clf, *pair) for pair in pairs]

    def captum(per_eval: int, pairs: list[tuple[EncodedText, int]] = pairs) -> list[np.ndarray]:
        return [peers.loo_captum(clf, *pair, per_eval=per_eval) for pair in pairs]

    expected = loop()
    ours, low = _loo(clf, texts, targets), _loo(bench.low, texts, targets)
    same = _equal("LOO and the loop", ours, expected)
    in_bfloat16 = [pearson(a[~t.special], b[~t.special]) for a, b, t in zip(low, ours, texts, strict=True)]

    few = pairs[:: max(1, len(texts) // 8)]
    trial = bench.time({str(n): lambda n=n: captum(n, few) for n in (4, 16, 64)}, repeats=1)
    best = int(min(trial, key=lambda n: trial[n][0]))
    as_captum = _equal("LOO and FeatureAblation", ours, captum(best))

    arithmetic = sum(bench.shape.loo(len(text)) for text in texts)
    multiply, operations = multiplier(bench.shape, work=arithmetic / 2)
    sides = {
        "ours": lambda: _loo(clf, texts, targets),
        "low": lambda: _loo(bench.low, texts, targets),
        "loop": loop,
        "captum": lambda: captum(best),
        "multiply": multiply,
    }
    seconds = bench.time(sides, repeats=min(3, bench.size.repeats))
    limit = [s / operations * arithmetic for s in seconds["multiply"]]
    rate = operations / float(np.median(seconds["multiply"])) / 1e9
    in_low = {
        "r": float(np.nanmean(in_bfloat16)),
        "note": "in bfloat16; r with LOO in float32, mean over sentences",
    }
    at_best = {"note": f"{best} removals a forward, its best", **as_captum}
    at_rate = {"note": f"matrix products at {rate:.0f} GFLOP/s", "rate": rate}
    by_captum, unshared = "captum FeatureAblation", "arithmetic limit, nothing shared"
    yield _row("LOO", "plain loop", 3.3, seconds["loop"], seconds["ours"], note=words, **same)
    yield _row("LOO, bfloat16", "plain loop", 6.0, seconds["loop"], seconds["low"], **in_low)
    yield _row("LOO", by_captum, 1.15, seconds["captum"], seconds["ours"], **at_best)
    yield _row("LOO, bfloat16", by_captum, 2.0, seconds["captum"], seconds["low"], **in_low)
    yield _row("LOO", unshared, 0.9, limit, seconds["ours"], **at_rate)
    yield _row(by_captum, unshared, NO_GOAL, limit, seconds["captum"], note="for comparison")


def gradients(bench: Bench) -> Iterator[Row]:
    """Integrated gradients and LRP against captum's LayerIntegratedGradients."""
    clf, (texts, targets) = bench.clf, bench.first(bench.size.ig_sentences)
    pairs = [*zip(texts, targets, strict=True)]

    def ours() -> list[np.ndarray]:
        records = explain("ig", clf, texts, targets, n_steps=STEPS, progress=False)
        return [record.scores for record in records]

    def captum() -> list[np.ndarray]:
        return [peers.ig_captum(clf, *pair, n_steps=STEPS) for pair in pairs]

    same = _equal("integrated gradients and captum's", ours(), captum())
    lrp = {"lrp": lambda: explain("attnlrp", clf, texts, targets, progress=False)}
    seconds = bench.time({"ours": ours, "other": captum, **lrp}, repeats=min(3, bench.size.repeats))
    note, peer = f"{len(texts)} sentences", "captum LayerIntegratedGradients"
    yield _row(f"IG, {STEPS} steps", peer, 1.0, seconds["other"], seconds["ours"], note=note, **same)
    note = f"{note}; other scores, so time only"
    yield _row("AttnLRP", peer, 20.0, seconds["other"], seconds["lrp"], note=note)


def relevance(bench: Bench) -> Iterator[Row]:
    """LRP against a forward and against automatic differentiation."""
    clf, (texts, targets) = bench.clf, bench.first(32)
    ids, mask = pad([t.input_ids for t in texts], clf.pad_id, clf.device)
    chosen = torch.tensor(targets)

    def ours() -> list[np.ndarray]:
        return [record.scores for record in explain("attnlrp", clf, texts, targets, progress=False)]

    seconds = bench.time({"ours": ours, "forward": lambda: clf.logits(ids, mask)})
    what, forward = f"AttnLRP, batch of {len(texts)}", "one forward of the batch"
    note = f"the transformers model's forward, padded to {ids.shape[1]} tokens"
    note = f"{note}; ours splits the texts into batches with less padding"
    yield _row(what, forward, 2.3, seconds["ours"], seconds["forward"], at_most=True, note=note)
    chosen = torch.tensor(targets)
    yield from _beside_autograd(bench, f"batch of {len(texts)}", texts, ids, mask, chosen)
    for tokens in bench.size.peer_lengths:
        text = bench.text_of(tokens)
        one = torch.tensor([text.input_ids])
        yield from _beside_autograd(bench, f"{tokens} tokens", [text], one, torch.ones_like(one), chosen[:1])


def _beside_autograd(
    bench: Bench, name: str, texts: list[EncodedText], ids: Tensor, mask: Tensor, chosen: Tensor
) -> Iterator[Row]:
    """Either rule, and both from one forward, against the modified gradient with fused attention."""
    clf, targets = bench.clf, chosen.tolist()
    wholly = frozenset(range(1, clf.card.layers + 1))

    def ours(method: str) -> list[np.ndarray]:
        return [record.scores for record in explain(method, clf, texts, targets, progress=False)]

    def theirs(bypass: bool) -> Tensor:
        return peers.lrp_autograd(clf.encoder.wiring, ids, mask, chosen, bypass=bypass)

    @torch.no_grad()
    def both() -> list[Tensor]:
        tape = clf.encoder.forward(ids, mask, only_read=True)
        start = torch.eye(len(clf.labels))[chosen]
        parts = some_masks(tape, start, [frozenset(), wholly])
        return [parts[frozenset()]["word"], parts[wholly]["word"]]

    sides = {
        "AttnLRP": lambda: ours("attnlrp"),
        "AttnLRP, autograd": lambda: theirs(False),
        "CP-LRP": lambda: ours("cp-lrp"),
        "CP-LRP, autograd": lambda: theirs(True),
        "both": both,
    }
    seconds = bench.time(sides, repeats=3 * bench.size.repeats)
    both_theirs = [
        a + b for a, b in zip(seconds["AttnLRP, autograd"], seconds["CP-LRP, autograd"], strict=True)
    ]
    peer = "autograd with fused attention"
    for k, (what, method) in enumerate({"AttnLRP": "attnlrp", "CP-LRP": "cp-lrp"}.items()):
        expected = [row[: len(text)].numpy() for row, text in zip(theirs(bool(k)), texts, strict=True)]
        same = _equal(f"{what} and the modified gradient", ours(method), expected)
        times = seconds[what], seconds[f"{what}, autograd"]
        yield _row(f"{what}, {name}", peer, 1.03, *times, at_most=True, **same)
    same = _equal("both rules", [row.numpy() for row in both()], [theirs(k).numpy() for k in (False, True)])
    note = "from one forward, against the peer twice"
    what = f"AttnLRP and CP-LRP, {name}"
    yield _row(what, peer, 0.85, seconds["both"], both_theirs, at_most=True, note=note, **same)


def mask_gradients(bench: Bench) -> Iterator[Row]:
    """The gradient of the mask against a forward, and eight groups of it against LOO on long reviews."""
    clf, (texts, targets) = bench.clf, bench.first(32)
    ids, mask = pad([t.input_ids for t in texts], clf.pad_id, clf.device)

    def ours() -> Any:
        return explain("mask-gradient", clf, texts, targets, progress=False)

    seconds = bench.time({"ours": ours, "forward": lambda: clf.logits(ids, mask)})
    what, forward = f"mask gradient, one pass, batch of {len(texts)}", "one forward of the batch"
    note = f"the transformers model's forward, padded to {ids.shape[1]} tokens"
    yield _row(what, forward, 3.0, seconds["ours"], seconds["forward"], at_most=True, note=note)

    reviews, scores = bench.reviews, {}

    def each(name: str, method: str, **options: Any) -> None:
        """One review at a time."""
        records = [explain(method, clf, [text], [0], progress=False, **options)[0] for text in reviews]
        scores[name] = [record.scores for record in records]

    sides = {"eight": lambda: each("eight", "mask-gradient", groups=8), "loo": lambda: each("loo", "loo")}
    seconds = bench.time(sides, repeats=min(2, bench.size.repeats))
    rs = [
        pearson(a[~text.special], b[~text.special])
        for a, b, text in zip(scores["eight"], scores["loo"], reviews, strict=True)
    ]
    kind = "long embedded reviews" if bench.long.source == "embedded" else "reviews of IMDB"
    lengths = sorted(map(len, reviews))
    note = f"{len(lengths)} {kind}, {lengths[0]} to {lengths[-1]} tokens, one at a time"
    more = {"note": f"{note}; mean r with LOO at the words: {np.mean(rs):.2f}", "data": bench.long.describe()}
    yield _row("mask gradient, K = 8", "exact LOO", 8.0, seconds["loo"], seconds["eight"], **more)


@torch.no_grad()
def masks(bench: Bench) -> Iterator[Row]:
    """All masks of the layers against one run per mask, on batches of the same number of tokens."""
    yield from _masks_of(bench, bench.of_depth(6), 10.0, "6 layers")
    yield from _masks_of(bench, bench.clf, 20.0, f"{bench.shape.layers} layers")


def _masks_of(bench: Bench, clf: Classifier, goal: float, name: str) -> Iterator[Row]:
    tokens, layers, shape = bench.size.lattice_tokens, clf.card.layers, shape_of(clf)
    copies = max(1, 384 // tokens)
    together = copies if layers <= 6 else 1  # the larger tree fills the processor with one text
    ids = torch.tensor([bench.text_of(tokens).input_ids]).expand(copies, -1)
    start = torch.eye(len(clf.labels))[:1].expand(copies, -1)
    count = min(bench.size.mask_sample, 2**layers)
    numbers = np.random.default_rng(0).choice(2**layers, count, replace=False)
    sample = [frozenset(layer + 1 for layer in range(layers) if k >> layer & 1) for k in numbers.tolist()]

    def ours() -> torch.Tensor:
        tape = clf.encoder.forward(ids[:together], torch.ones_like(ids[:together]))
        return all_masks(tape, start[:together])["word"][:, 0]

    def one_by_one() -> list[torch.Tensor]:
        return peers.one_run_per_mask(clf, ids, start, sample)

    expected = [of_mask[0].numpy() for of_mask in one_by_one()]
    same = _equal("all masks and one run per mask", ours()[numbers].numpy(), expected)
    arithmetic = together * shape.all_masks(tokens)
    multiply, operations = multiplier(shape, work=arithmetic / 2)
    sides = {"ours": ours, "other": one_by_one, "multiply": multiply}
    seconds = bench.time(sides, repeats=min(3, bench.size.repeats))
    each = [s * 2**layers * together / (len(sample) * copies) for s in seconds["other"]]
    limit = [s / operations * arithmetic for s in seconds["multiply"]]
    what, tree = f"all {2**layers:,} masks, {name}", "arithmetic limit of the shared tree"
    note = f"{together} text(s) of {tokens} tokens at once"
    note = f"{note}; the other side {len(sample)} of the masks, {copies} texts at once"
    yield _row(what, "one run per mask, batched the same", goal, each, seconds["ours"], note=note, **same)
    yield _row(what, tree, NO_GOAL, limit, seconds["ours"], note="for comparison")


def curves(bench: Bench) -> Iterator[Row]:
    """Perturbation curves of methods and of all masks on the paper's paths, with and without sharing."""
    clf, (texts, targets) = bench.clf, bench.first(bench.size.curve_sentences)
    paths = [frozenset(), *(m for path in path_masks(clf.card.layers).values() for m in path)]
    by_mask = [explain("lrp", clf, texts, targets, bypass=mask, progress=False) for mask in paths]
    records = {
        "loo": explain("loo", clf, texts, targets, progress=False),
        "ig": explain("ig", clf, texts, targets, n_steps=8, progress=False),
        **dict(zip(paths, by_mask, strict=True)),
    }
    rankings = [{name: of_name[k].scores for name, of_name in records.items()} for k in range(len(texts))]
    work = [*zip(texts, targets, rankings, strict=True)]

    def without() -> list[float]:
        """All forwards of every ranking."""
        out = []
        for text, target, maps in work:
            for scores in maps.values():
                for order in ORDERS:
                    evaluate = removal_evaluator(clf, text, target=target)
                    curve = perturbation_curve(evaluate, scores, order=order, removable=~text.special)
                    out.append(curve.mean_logit)
        return out

    def ours() -> list[float]:
        out = []
        for text, target, maps in work:
            shared = shared_curves(clf, text, target, maps)
            out += [shared[name][order].mean_logit for name in maps for order in ORDERS]
        return out

    same = _equal("shared and separate curves", [ours()], [without()])
    seconds = bench.time({"ours": ours, "without": without}, repeats=min(3, bench.size.repeats))
    note = f"{len(texts)} sentences, {len(rankings[0])} rankings"
    more = {"note": note, **same}
    what, goal = "curves of methods and paths", 2.0
    yield _row(what, "without sharing", goal, seconds["without"], seconds["ours"], **more)


def lattice_memory(bench: Bench) -> Iterator[Row]:
    """Peak memory and time of all masks at BERT-base width, in a process of its own."""
    tokens, layers = 64, bench.size.wide_layers
    arguments = map(str, (layers, tokens, 2 << 30, torch.get_num_threads()))
    command = [sys.executable, "-m", "benchmarks.lattice_memory", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    grown, seconds = int(printed[0]) / 2**30, float(printed[1])
    yield {
        "what": f"all {2**layers:,} masks at BERT-base width, {tokens} tokens: memory",
        "against": "a budget of 2 GiB",
        "goal": 1.0,
        "sense": "at most",
        "ratio": {"median": grown / 2, "low": grown / 2, "high": grown / 2},
        "seconds": {"ours": [seconds]},
        "gib": grown,
        "note": f"grew by {grown:.2f} GiB, {seconds:.0f} s",
    }


def training(bench: Bench) -> Iterator[Row]:
    """A training step of the fullest net for digits: as `train_on` computes logits, and from the right."""
    net = LinearAttention(association="right", bias=True, position_embedding=True, dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(64, net.tokens, generator=draw, dtype=torch.float64)
    labels = torch.randint(net.classes, (64,), generator=draw)

    def step(logits: Callable[[torch.Tensor], torch.Tensor]) -> list[np.ndarray]:
        loss = torch.nn.functional.cross_entropy(logits(images), labels)
        return [gradient.numpy() for gradient in torch.autograd.grad(loss, list(net.parameters()))]

    same = _equal("training by both orders", step(net.factored), step(net), 1e-9)
    seconds = bench.time({"ours": lambda: step(net.factored), "other": lambda: step(net)})
    note = f"gradients of a batch of {len(images)} images, float64, with biases, positions and embedding"
    what, forward = "training step of a net for digits", "its forward from the right"
    yield _row(what, forward, 3.0, seconds["other"], seconds["ours"], note=note, **same)


CASES = {
    "loo": leave_one_out,
    "gradients": gradients,
    "relevance": relevance,
    "mask-gradient": mask_gradients,
    "masks": masks,
    "curves": curves,
    "training": training,
    "memory": lattice_memory,
}


# -- how cost grows --------------------------------------------------------------------------------------

Calls = dict[int, Callable[[], Any]]


def growth(bench: Bench) -> Iterator[dict[str, Any]]:
    """Seconds along length, layers and batch, with each fitted exponent and that of its arithmetic."""
    clf, shape, size = bench.clf, bench.shape, bench.size
    lengths = [n for n in size.lengths if n <= clf.max_tokens]
    texts = {n: bench.text_of(n) for n in {*lengths, *size.loo_lengths, 16, size.lattice_tokens}}
    nets = {n: bench.of_depth(n) for n in {*size.layers, *size.lattice_layers}}
    of_depth = {n: replace(shape, layers=n) for n in nets}

    calls: Calls = {n: _relevance_call(clf, [texts[n]]) for n in lengths}
    yield _curve(
        bench, "AttnLRP of one text", "tokens", calls, lambda n: shape.forward(n) + shape.backward(n)
    )
    calls = {n: lambda n=n: _loo(clf, [texts[n]], [0]) for n in size.loo_lengths if n <= clf.max_tokens}
    yield _curve(bench, "LOO of one text", "tokens", calls, shape.loo)

    calls = {n: _relevance_call(nets[n], [texts[16]]) for n in size.layers}
    arithmetic = {n: of_depth[n].forward(16) + of_depth[n].backward(16) for n in size.layers}
    yield _curve(bench, "AttnLRP of one text of 16 tokens", "layers", calls, arithmetic.__getitem__)
    calls = {n: lambda n=n: _loo(nets[n], [texts[16]], [0]) for n in size.layers}
    yield _curve(bench, "LOO of one text of 16 tokens", "layers", calls, lambda n: of_depth[n].loo(16))

    calls = {n: _relevance_call(clf, [texts[16]] * n) for n in size.batches}
    yield _curve(bench, "AttnLRP of texts of 16 tokens", "texts in a batch", calls, float)

    tokens = size.lattice_tokens
    calls = {n: _all_masks_call(nets[n], texts[tokens]) for n in size.lattice_layers}
    what = f"all masks of one text of {tokens} tokens"
    curve = _curve(bench, what, "masks", calls, lambda n: of_depth[n].all_masks(tokens))
    numbers = [2.0**n for n in curve["x"]]
    yield {
        **curve,
        "x": [int(n) for n in numbers],
        "exponent": slope(numbers, curve["seconds"]),
        "expected": slope(numbers, [of_depth[n].all_masks(tokens) for n in curve["x"]]),
    }


def _curve(
    bench: Bench, what: str, along: str, calls: Calls, arithmetic: Callable[[int], float]
) -> dict[str, Any]:
    """Seconds of each call, the longest timed once; its exponent, and that of the arithmetic."""
    minimum = bench.size.minimum
    seconds = [
        min(interleaved({"it": call}, repeats=1 if n == max(calls) else 2, minimum=minimum)["it"])
        for n, call in calls.items()
    ]
    x = [float(n) for n in calls]
    return {
        "what": what,
        "along": along,
        "x": [*calls],
        "seconds": seconds,
        "exponent": slope(x, seconds),
        "expected": slope(x, [arithmetic(n) for n in calls]),
    }


def _relevance_call(clf: Classifier, texts: list[EncodedText]) -> Callable[[], Any]:
    """AttnLRP of these texts in one batch."""
    return lambda: explain("attnlrp", clf, texts, [0] * len(texts), progress=False, batch_tokens=1 << 20)


def _all_masks_call(clf: Classifier, text: EncodedText) -> Callable[[], Any]:
    ids, start = torch.tensor([text.input_ids]), torch.eye(len(clf.labels))[:1]

    @torch.no_grad()
    def run() -> None:
        all_masks(clf.encoder.forward(ids, torch.ones_like(ids)), start)

    return run


def wide_encoder(layers: int) -> Encoder:
    """Random weights at BERT-base width, few words."""
    from transformers import BertConfig, BertForSequenceClassification

    network = BertForSequenceClassification(BertConfig(vocab_size=40, num_hidden_layers=layers))
    return Encoder(network.eval().requires_grad_(False))
