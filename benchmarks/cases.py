"""The comparisons: each checks that both sides say the same, times them together, and returns one plain row.

A row holds `what`, `against`, `unit`, `goal` (a ratio) and `sense` ("at least" or "at most"), the `ratio`
(median, low, high over the repeats), all `seconds`, the largest difference of the two sides (`equal`, as a
part of the largest score, with its `tolerance`), and `note`.
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
from transformers import AutoModelForSequenceClassification

from benchmarks import peers
from benchmarks.clock import Shape, interleaved, multiplier, ratio, slope
from lrp_companion.live.compare_methods import shared_curves
from lrp_companion.masks import path_masks
from lrp_companion.methods import removal_evaluator
from lrp_companion.methods.gradient import integrated_gradients
from lrp_companion.methods.lrp import attnlrp, lrp_masks
from lrp_companion.methods.mask_gradient import mask_gradient
from lrp_companion.methods.perturbation import loo
from lrp_companion.metrics import pearson, perturbation_curve
from lrp_companion.models.batching import pad
from lrp_companion.models.encoder import Encoder
from lrp_companion.models.linear_attention import LinearAttention
from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.propagation import all_masks
from lrp_companion.sources import Dataset

Row = dict[str, Any]
STEPS = 50
EXACT = 2e-3  # float32 over 12 layers, as a part of the largest score


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
    minimum: float


FULL = Size(
    5, 64, 6, 12, 3, 6, 24, (16, 32, 64, 128, 256, 512), (16, 32, 64, 128, 256, 512), (2, 4, 6, 12, 18, 24),
    (2, 4, 6, 8, 10, 12),
    (1, 2, 4, 8, 16, 32, 64, 128, 256), 12, 0.2,
)  # fmt: skip
QUICK = Size(2, 3, 1, 1, 1, 2, 6, (8, 16), (8, 16), (2, 4), (2, 4), (1, 4), 2, 0.0)


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
        with torch.no_grad():
            return [
                int(self.clf.logits(*pad([t.input_ids], self.clf.pad_id, self.clf.device)).argmax())
                for t in self.texts
            ]

    @cached_property
    def reviews(self) -> list[EncodedText]:
        return self.clf.encode(
            [self.long.texts[k] for k in self.long.order(self.size.reviews, seed=0)], truncate=True
        )

    @cached_property
    def low(self) -> Classifier:
        """The same weights in bfloat16."""
        return Classifier(
            copy.deepcopy(self.clf.network).to(torch.bfloat16),
            self.clf.tokenizer,
            card=replace(self.clf.card, dtype="bfloat16"),
        )

    def of_depth(self, layers: int) -> Classifier:
        """Random weights in the model's shape, with another number of layers."""
        config = copy.deepcopy(self.clf.network.config)
        config.num_hidden_layers = layers
        torch.manual_seed(layers)
        network = AutoModelForSequenceClassification.from_config(config).float().eval().requires_grad_(False)
        return Classifier(
            network, self.clf.tokenizer, card=replace(self.clf.card, name=f"random-{layers}", layers=layers)
        )

    def text_of(self, tokens: int) -> EncodedText:
        """Random words, [CLS] and [SEP] at the ends."""
        words = np.random.default_rng(tokens).integers(5, len(self.clf.tokenizer), tokens - 2)
        ids = (self.clf.tokenizer.cls_token_id, *map(int, words), self.clf.tokenizer.sep_token_id)
        special = np.zeros(tokens, dtype=bool)
        special[[0, -1]] = True
        return EncodedText("", ids, tuple(map(str, ids)), special)

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
    return [own.scores for own in loo(clf, texts, targets, progress=False)]


def _distance(found: Any, wanted: Any) -> float:
    """The largest difference, as a part of the largest score, over all texts."""
    return max(
        float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max())
        for a, b in zip(found, wanted, strict=True)
    )


def _equal(what: str, found: Any, wanted: Any, tolerance: float = EXACT) -> dict[str, float]:
    distance = _distance(found, wanted)
    if not distance <= tolerance:
        raise Disagreement(
            f"{what}: the two sides differ by {distance:.2g} of the largest score, {tolerance} is allowed"
        )
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
    ours, other = (above, below) if at_most else (below, above)
    sense = "at most" if at_most else "at least"
    seconds = {"ours": ours, "other": other}
    return {
        "what": what,
        "against": against,
        "goal": goal,
        "sense": sense,
        "ratio": ratio(above, below),
        "seconds": seconds,
        **more,
    }


def leave_one_out(bench: Bench) -> Iterator[Row]:
    """LOO against the plain loop, captum, and the arithmetic of the unshared computation."""
    clf, (texts, targets) = bench.clf, bench.first(bench.size.sentences)
    words = f"{len(texts)} sentences, {sum(map(len, texts)):,} tokens"
    loop = [peers.loo_loop(clf, *own) for own in zip(texts, targets, strict=True)]
    ours, low = _loo(clf, texts, targets), _loo(bench.low, texts, targets)
    same = _equal("LOO and the loop", ours, loop)
    kept = [pearson(a[~t.special], b[~t.special]) for a, b, t in zip(low, ours, texts, strict=True)]

    few = [*zip(texts, targets, strict=True)][:: max(1, len(texts) // 8)]
    trial = bench.time(
        {
            str(n): lambda n=n: [peers.loo_captum(clf, *own, per_eval=n) for own in few]
            for n in (1, 4, 8, 16, 32, 64)
        },
        repeats=1,
    )
    best = int(min(trial, key=lambda n: trial[n][0]))
    captum = [peers.loo_captum(clf, *own, per_eval=best) for own in zip(texts, targets, strict=True)]
    as_captum = _equal("LOO and FeatureAblation", ours, captum)

    arithmetic = sum(bench.shape.loo(len(t)) for t in texts)
    multiply, operations = multiplier(bench.shape, work=arithmetic / 2)
    seconds = bench.time(
        {
            "ours": lambda: _loo(clf, texts, targets),
            "low": lambda: _loo(bench.low, texts, targets),
            "loop": lambda: [peers.loo_loop(clf, *own) for own in zip(texts, targets, strict=True)],
            "captum": lambda: [
                peers.loo_captum(clf, *own, per_eval=best) for own in zip(texts, targets, strict=True)
            ],
            "multiply": multiply,
        },
        repeats=min(3, bench.size.repeats),
    )
    limit = [s / operations * arithmetic for s in seconds["multiply"]]
    in_low = {"r": float(np.nanmean(kept)), "note": "in bfloat16; r with LOO in float32, mean over sentences"}
    yield _row("LOO", "plain loop", 3.3, seconds["loop"], seconds["ours"], note=words, **same)
    yield _row("LOO, bfloat16", "plain loop", 6.0, seconds["loop"], seconds["low"], **in_low)
    yield _row(
        "LOO",
        "captum FeatureAblation",
        1.15,
        seconds["captum"],
        seconds["ours"],
        note=f"{best} removals a forward, its best",
        **as_captum,
    )
    yield _row("LOO, bfloat16", "captum FeatureAblation", 2.0, seconds["captum"], seconds["low"], **in_low)
    rate = operations / float(np.median(seconds["multiply"])) / 1e9
    yield _row(
        "LOO",
        "arithmetic limit, nothing shared",
        0.9,
        limit,
        seconds["ours"],
        note=f"matrix products at {rate:.0f} GFLOP/s",
        rate=rate,
    )
    yield _row(
        "captum FeatureAblation",
        "arithmetic limit, nothing shared",
        float("nan"),
        limit,
        seconds["captum"],
        note="for comparison",
    )


def gradients(bench: Bench) -> Iterator[Row]:
    """Integrated gradients and LRP against captum's LayerIntegratedGradients."""
    clf, (texts, targets) = bench.clf, bench.first(bench.size.ig_sentences)
    pairs = [*zip(texts, targets, strict=True)]

    def ours() -> list[np.ndarray]:
        return [
            own.scores for own in integrated_gradients(clf, texts, targets, n_steps=STEPS, progress=False)
        ]

    def other() -> list[np.ndarray]:
        return [peers.ig_captum(clf, *own, n_steps=STEPS) for own in pairs]

    same = _equal("integrated gradients and captum's", ours(), other())
    seconds = bench.time(
        {"ours": ours, "other": other, "lrp": lambda: attnlrp(clf, texts, targets, progress=False)},
        repeats=min(3, bench.size.repeats),
    )
    note = f"{len(texts)} sentences"
    yield _row(
        f"IG, {STEPS} steps",
        "captum LayerIntegratedGradients",
        1.0,
        seconds["other"],
        seconds["ours"],
        note=note,
        **same,
    )
    yield _row(
        "AttnLRP",
        "captum LayerIntegratedGradients",
        20.0,
        seconds["other"],
        seconds["lrp"],
        note=f"{note}; other scores, so time only",
    )


def relevance(bench: Bench) -> Iterator[Row]:
    """A batch through LRP against its forward and against automatic differentiation."""
    clf, (texts, targets) = bench.clf, bench.first(32)
    ids, mask = pad([t.input_ids for t in texts], clf.pad_id, clf.device)
    chosen = torch.tensor(targets)

    def ours() -> list[np.ndarray]:
        return [own.scores for own in attnlrp(clf, texts, targets, progress=False)]

    def other() -> torch.Tensor:
        return peers.attnlrp_autograd(clf.encoder.wiring, ids, mask, chosen)

    same = _equal(
        "AttnLRP and the modified gradient",
        ours(),
        [row[: len(t)].numpy() for row, t in zip(other(), texts, strict=True)],
    )
    seconds = bench.time({"ours": ours, "autograd": other, "forward": lambda: clf.logits(ids, mask)})
    yield _row(
        f"AttnLRP, batch of {len(texts)}",
        "one forward of the batch",
        2.3,
        seconds["ours"],
        seconds["forward"],
        at_most=True,
        note=f"the transformers model's forward, padded to {ids.shape[1]} tokens; ours splits the texts into batches with less padding",
    )
    yield _row(
        f"AttnLRP, batch of {len(texts)}",
        "autograd, modified gradient",
        1.2,
        seconds["autograd"],
        seconds["ours"],
        **same,
    )


def mask_gradients(bench: Bench) -> Iterator[Row]:
    """The gradient of the mask against a forward pass, and eight groups of it against LOO on long reviews,
    one at a time.
    """
    clf, (texts, targets) = bench.clf, bench.first(32)
    ids, mask = pad([t.input_ids for t in texts], clf.pad_id, clf.device)

    def ours() -> Any:
        return mask_gradient(clf, texts, targets, progress=False)

    seconds = bench.time({"ours": ours, "forward": lambda: clf.logits(ids, mask)})
    yield _row(
        f"mask gradient, one pass, batch of {len(texts)}", "one forward of the batch", 3.0, seconds["ours"],
        seconds["forward"],
        at_most=True, note=f"the transformers model's forward, padded to {ids.shape[1]} tokens",
    )  # fmt: skip
    reviews, found = bench.reviews, {}

    def each(name: str, method: Callable[..., Any], **options: Any) -> None:
        found[name] = [method(clf, [text], [0], progress=False, **options)[0].scores for text in reviews]

    sides = {"eight": lambda: each("eight", mask_gradient, groups=8), "loo": lambda: each("loo", loo)}
    seconds = bench.time(sides, repeats=min(2, bench.size.repeats))
    rs = [
        pearson(a[~text.special], b[~text.special])
        for a, b, text in zip(found["eight"], found["loo"], reviews, strict=True)
    ]
    lengths, kind = (
        sorted(map(len, reviews)),
        "long embedded reviews" if bench.long.source == "embedded" else "reviews of IMDB",
    )
    note = f"{len(lengths)} {kind}, {lengths[0]} to {lengths[-1]} tokens, one at a time; mean r with LOO at the words: {np.mean(rs):.2f}"
    yield _row(
        "mask gradient, K = 8",
        "exact LOO",
        8.0,
        seconds["loo"],
        seconds["eight"],
        note=note,
        data=bench.long.describe(),
    )


@torch.no_grad()
def masks(bench: Bench) -> Iterator[Row]:
    """All masks of the layers against one run per mask, on batches of the same number of tokens."""
    tokens = bench.size.lattice_tokens
    text = bench.text_of(tokens)
    for clf, goal, name in (
        (bench.of_depth(6), 10.0, "6 layers"),
        (bench.clf, 20.0, f"{bench.shape.layers} layers"),
    ):
        layers, shape = clf.card.layers, shape_of(clf)
        copies = max(1, 1536 // tokens)
        ids = torch.tensor([text.input_ids]).expand(copies, -1)
        start = torch.eye(len(clf.labels))[:1].expand(copies, -1)
        numbers = np.random.default_rng(0).choice(
            2**layers, min(bench.size.mask_sample, 2**layers), replace=False
        )
        sample = [frozenset(layer + 1 for layer in range(layers) if k >> layer & 1) for k in numbers.tolist()]

        together = copies if layers <= 6 else 1  # the larger tree fills the processor with one text

        def ours(
            clf: Classifier = clf, ids: torch.Tensor = ids[:together], start: torch.Tensor = start[:together]
        ) -> torch.Tensor:
            return all_masks(clf.encoder.forward(ids, torch.ones_like(ids)), start)["word"][:, 0]

        def other(
            clf: Classifier = clf, ids: torch.Tensor = ids, start: torch.Tensor = start, sample: list = sample
        ) -> list[torch.Tensor]:
            return peers.one_run_per_mask(clf, ids, start, sample)

        same = _equal(
            "all masks and one run per mask", ours()[numbers].numpy(), [own[0].numpy() for own in other()]
        )
        multiply, operations = multiplier(shape, work=together * shape.all_masks(tokens) / 2)
        seconds = bench.time({"ours": ours, "other": other, "multiply": multiply})
        each = [s * 2**layers * together / (len(sample) * copies) for s in seconds["other"]]
        limit = [s / operations * together * shape.all_masks(tokens) for s in seconds["multiply"]]
        what = f"all {2**layers:,} masks, {name}"
        note = f"{together} text(s) of {tokens} tokens at once; the other side {len(sample)} of the masks, {copies} texts at once"
        yield _row(what, "one run per mask, batched the same", goal, each, seconds["ours"], note=note, **same)
        yield _row(
            what,
            "arithmetic limit of the shared tree",
            float("nan"),
            limit,
            seconds["ours"],
            note="for comparison",
        )


def curves(bench: Bench) -> Iterator[Row]:
    """Perturbation curves of methods and of all masks on the paper's paths, with and without sharing their
    forwards.
    """
    clf, (texts, targets) = bench.clf, bench.first(bench.size.curve_sentences)
    paths = [frozenset(), *(m for path in path_masks(clf.card.layers).values() for m in path)]
    by_mask = lrp_masks(clf, texts, targets, masks=paths, progress=False)
    methods = {
        "loo": loo(clf, texts, targets, progress=False),
        "ig": integrated_gradients(clf, texts, targets, n_steps=8, progress=False),
    }
    rankings = [
        {
            **{name: own[k].scores for name, own in methods.items()},
            **{mask: own[k].scores for mask, own in zip(paths, by_mask, strict=True)},
        }
        for k in range(len(texts))
    ]
    work = [*zip(texts, targets, rankings, strict=True)]
    asked: list[np.ndarray] = []

    def without() -> list[float]:
        """Every ranking's own forwards, all of them."""
        out = []
        for text, target, own in work:
            for scores in own.values():
                for order in ("morf", "lerf"):
                    evaluate = removal_evaluator(clf, text, target=target)
                    out.append(
                        perturbation_curve(evaluate, scores, order=order, removable=~text.special).mean_logit
                    )
        return out

    def ours() -> list[float]:
        out = []
        for text, target, own in work:
            found = shared_curves(clf, text, target, own)
            asked.append(np.array([found.asked, found.run]))
            out += [found.curves[name][order].mean_logit for name in own for order in ("morf", "lerf")]
        return out

    same = _equal("shared and separate curves", [ours()], [without()])
    total = np.sum(asked, axis=0)
    seconds = bench.time({"ours": ours, "without": without}, repeats=min(3, bench.size.repeats))
    note = f"{len(texts)} sentences, {len(rankings[0])} rankings; {total[0]:,} forwards asked for, {total[1]:,} run"
    yield _row(
        "curves of methods and paths",
        "without sharing",
        2.0,
        seconds["without"],
        seconds["ours"],
        note=note,
        **same,
    )


def lattice_memory(bench: Bench) -> Iterator[Row]:
    """Peak memory and time of all masks at BERT-base width, in a process of its own."""
    tokens, layers = 64, bench.size.wide_layers
    command = [
        sys.executable,
        "-m",
        "benchmarks.lattice_memory",
        str(layers),
        str(tokens),
        str(2 << 30),
        str(torch.get_num_threads()),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    grown, seconds = int(found[0]) / 2**30, float(found[1])
    yield {
        "what": f"all {2**layers:,} masks at BERT-base width, {tokens} tokens: memory",
        "against": "a budget of 2 GiB", "goal": 1.0,
        "sense": "at most", "ratio": {"median": grown / 2, "low": grown / 2, "high": grown / 2},
        "seconds": {"ours": [seconds]},
        "gib": grown, "note": f"grew by {grown:.2f} GiB, {seconds:.0f} s",
    }  # fmt: skip


def training(bench: Bench) -> Iterator[Row]:
    """One step of training the fullest net of the digits: as `train_on` computes the logits, and by the
    forward pass from the right.
    """
    net = LinearAttention(association="right", bias=True, position_embedding=True, dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    images, labels = (
        torch.rand(64, net.tokens, generator=draw, dtype=torch.float64),
        torch.randint(net.classes, (64,), generator=draw),
    )

    def step(logits: Callable[[torch.Tensor], torch.Tensor]) -> list[np.ndarray]:
        loss = torch.nn.functional.cross_entropy(logits(images), labels)
        return [own.numpy() for own in torch.autograd.grad(loss, list(net.parameters()))]

    same = _equal("training by both orders", step(net.factored), step(net), 1e-9)
    seconds = bench.time({"ours": lambda: step(net.factored), "other": lambda: step(net)})
    note = f"gradients of a batch of {len(images)} images, float64, with biases, positions and embedding"
    yield _row(
        "training step of a net for digits",
        "its forward from the right",
        3.0,
        seconds["other"],
        seconds["ours"],
        note=note,
        **same,
    )


CASES = {
    "loo": leave_one_out, "gradients": gradients, "relevance": relevance, "mask-gradient": mask_gradients,
    "masks": masks,
    "curves": curves, "training": training, "memory": lattice_memory,
}  # fmt: skip


# -- how cost grows ----------------------------------------------------------------------------------------------------


def growth(bench: Bench) -> Iterator[dict[str, Any]]:
    """Seconds along length, layers and batch; beside each fitted exponent the one of its arithmetic over the
    same points.
    """
    clf, shape, size = bench.clf, bench.shape, bench.size
    lengths = [n for n in size.lengths if n <= clf.max_tokens]

    def curve(
        what: str, along: str, points: dict[int, Callable[[], Any]], arithmetic: Callable[[int], float]
    ) -> dict[str, Any]:
        seconds = [
            min(interleaved({"it": call}, repeats=1 if n == max(points) else 2, minimum=size.minimum)["it"])
            for n, call in points.items()
        ]
        x = [float(n) for n in points]
        return {
            "what": what, "along": along, "x": [*points], "seconds": seconds, "exponent": slope(x, seconds),
            "expected": slope(x, [arithmetic(n) for n in points]),
        }  # fmt: skip

    def relevance_of(clf: Classifier, texts: list[EncodedText]) -> Callable[[], Any]:
        return lambda: attnlrp(clf, texts, [0] * len(texts), progress=False, batch_tokens=1 << 20)

    texts = {n: bench.text_of(n) for n in {*lengths, *size.loo_lengths, 16, size.lattice_tokens}}
    yield curve(
        "AttnLRP of one text",
        "tokens",
        {n: relevance_of(clf, [texts[n]]) for n in lengths},
        lambda n: shape.forward(n) + shape.backward(n),
    )
    removals = {n: lambda n=n: _loo(clf, [texts[n]], [0]) for n in size.loo_lengths if n <= clf.max_tokens}
    yield curve("LOO of one text", "tokens", removals, shape.loo)
    deep = {n: bench.of_depth(n) for n in {*size.layers, *size.lattice_layers}}
    yield curve(
        "AttnLRP of one text of 16 tokens", "layers",
        {n: relevance_of(deep[n], [texts[16]]) for n in size.layers},
        lambda n: replace(shape, layers=n).forward(16) + replace(shape, layers=n).backward(16),
    )  # fmt: skip
    yield curve(
        "LOO of one text of 16 tokens", "layers",
        {n: lambda n=n: _loo(deep[n], [texts[16]], [0]) for n in size.layers},
        lambda n: replace(shape, layers=n).loo(16),
    )  # fmt: skip
    yield curve(
        "AttnLRP of texts of 16 tokens",
        "texts in a batch",
        {n: relevance_of(clf, [texts[16]] * n) for n in size.batches},
        float,
    )

    def lattice(n: int) -> Callable[[], Any]:
        ids, start = torch.tensor([texts[size.lattice_tokens].input_ids]), torch.eye(len(clf.labels))[:1]

        @torch.no_grad()
        def run() -> None:
            all_masks(deep[n].encoder.forward(ids, torch.ones_like(ids)), start)

        return run

    found = curve(
        f"all masks of one text of {size.lattice_tokens} tokens", "masks",
        {n: lattice(n) for n in size.lattice_layers},
        lambda n: replace(shape, layers=n).all_masks(size.lattice_tokens),
    )  # fmt: skip
    numbers = [2.0**n for n in found["x"]]
    arithmetic = [replace(shape, layers=n).all_masks(size.lattice_tokens) for n in found["x"]]
    yield {
        **found,
        "x": [int(n) for n in numbers],
        "exponent": slope(numbers, found["seconds"]),
        "expected": slope(numbers, arithmetic),
    }


def wide_encoder(layers: int) -> Encoder:
    """Random weights at BERT-base width, few words."""
    from transformers import BertConfig, BertForSequenceClassification

    return Encoder(
        BertForSequenceClassification(BertConfig(vocab_size=40, num_hidden_layers=layers))
        .eval()
        .requires_grad_(False)
    )
