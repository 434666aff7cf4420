"""What a run keeps, and how it is read: the same numbers as the methods and metrics give one by one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from by_hand import ByHand, by_hand, masks_by_hand
from tiny_models import TEXTS, reviews

from lrp_companion.checks import SITE_PARTS, SITES, scores_at
from lrp_companion.lab.digit_invariance import NET_VARIANTS, MnistJobs, invariance_table, train_pair
from lrp_companion.lab.execute import execute
from lrp_companion.lab.folder import DEFAULT_METHODS, round_bits
from lrp_companion.lab.load import MnistRun, TextRun, load_run
from lrp_companion.lab.perturbation_paths import shared_curves
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute, layer_lattice, removal_evaluator
from lrp_companion.metrics import agreement, perturbation_curve
from lrp_companion.schema import (
    MAP_CHOICES,
    REMOVALS,
    STATISTICS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    Protocol,
    masks_on_paths,
)
from lrp_companion.sources import load_dataset
from lrp_companion.sources.dataset import Dataset

STEP = 2.0**-17 + 1e-7  # r is kept to multiples of 2**-16 in single precision
CLOSE = {"rel": 2e-6, "abs": 2e-7}  # other numbers are kept in single precision
STEPS = {"ig": {"n_steps": 4}}
WORDS = (*TEXTS, "the warm film", "no , never")
DATA = reviews(WORDS)


def test_rounding_keeps_signs():
    values = np.random.default_rng(0).standard_normal((50, 40)) * 10.0 ** np.arange(-20, 20)
    rounded = round_bits(values)
    assert (np.sign(rounded) == np.sign(values)).all()
    assert np.abs(rounded / values - 1).max() <= 2.0**-13 + 1e-7
    assert (round_bits(rounded) == rounded).all() and len(np.unique(np.frexp(rounded)[0])) <= 2 * (2**12 + 1)
    edge = np.array([0.0, -0.0, np.nan, np.inf, -np.inf])
    assert round_bits(edge).tobytes() == edge.astype(np.float32).tobytes()


def run(clf: Classifier, data: Dataset, out: Path, **options: object) -> TextRun:
    execute(TextJobs(clf, data, n_steps=4, **options), out, progress=False)  # type: ignore[arg-type]
    loaded = load_run(out)
    assert isinstance(loaded, TextRun)
    return loaded


@pytest.fixture(scope="module")
def short(clf: Classifier, tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """Short texts, one of a single word, with everything that a run measures."""
    return run(clf, DATA, tmp_path_factory.mktemp("short"), masks="all")


@pytest.fixture(scope="module")
def two_layers(model_folder) -> Classifier:
    return load_classifier(model_folder("bert"), dtype="float64")


@pytest.fixture(scope="module")
def long(two_layers: Classifier, tmp_path_factory: pytest.TempPathFactory) -> tuple[TextRun, Dataset]:
    """Long reviews, beyond the model's 32 tokens."""
    data = load_dataset("imdb", source="embedded")
    return run(two_layers, data, tmp_path_factory.mktemp("long"), limit=3, seed=5), data.take(3, seed=5)


def protocols(
    removals: Sequence[str], statistics: Sequence[str] = STATISTICS, **fixed: str
) -> list[Protocol]:
    return [
        Protocol(site, tokens, map, removal, fixed["target"], statistic)
        for site, tokens, map, removal, statistic in itertools.product(
            SITES, TOKEN_CHOICES, MAP_CHOICES, removals, statistics
        )
    ]


def compared(
    clf: Classifier,
    texts: Sequence[str],
    target: str,
    removals: Sequence[str],
    methods=DEFAULT_METHODS,
    chunk: int = 1,
) -> ByHand:
    asked = {str(protocol): protocol for protocol in protocols(removals, target=target)}
    return by_hand(clf, texts, methods, asked, options=STEPS, chunk=chunk)


def same_r(values: np.ndarray, wanted: np.ndarray, *, undefined: bool = False) -> None:
    """`undefined`: parts that cancel but for rounding, of which only the run says that they mean nothing."""
    if undefined:
        wanted = np.where(np.isnan(values), np.nan, wanted)
    assert np.array_equal(np.isnan(values), np.isnan(wanted)), (values, wanted)
    assert np.allclose(values, wanted, atol=STEP, rtol=0, equal_nan=True), (values, wanted)


def same_methods(loaded: TextRun, slow: ByHand, methods: Sequence[str], target: str) -> None:
    for method, (name, protocol) in itertools.product(methods, slow.protocols.items()):
        r = loaded.r(method, protocol)
        if method == "ig" and target != "logit":
            assert np.isnan(r).all()  # not measured
        else:
            whole = method == "gradient-x-input" and set(slow.maps[method][0].parts) <= set(
                SITE_PARTS[protocol.site]
            )
            same_r(r, slow.values(f"r {name}", method), undefined=whole)


class TestMethods:
    @pytest.mark.parametrize("target", TARGET_CHOICES)
    def test_r_under_every_choice_is_that_of_the_methods_compared(self, clf, short, target):
        same_methods(short, compared(clf, WORDS, target, REMOVALS), DEFAULT_METHODS, target)

    def test_long_reviews_in_chunks_of_16_under_two_removals(self, two_layers, long):
        loaded, data = long
        assert loaded.manifest["config"]["chunk"] == 16
        assert loaded.manifest["axes"]["removal"] == ["attention-mask", "mask-token"]
        slow = compared(two_layers, data.texts, "logit", ("attention-mask", "mask-token"), chunk=16)
        same_methods(loaded, slow, DEFAULT_METHODS, "logit")
        for method, name in itertools.product(DEFAULT_METHODS, ("morf", "lerf", "delta")):
            assert loaded.column(method, name) == pytest.approx(slow.values(name, method), **CLOSE)
        single = compared(two_layers, data.texts, "logit", ("attention-mask",), methods=("loo",))
        assert not np.allclose(loaded.column("loo", "morf"), single.values("morf", "loo"))

    def test_curves_seconds_and_sums(self, clf, short):
        slow = compared(clf, WORDS, "logit", REMOVALS)
        for method in DEFAULT_METHODS:
            for name in ("morf", "lerf", "delta"):
                assert short.column(method, name) == pytest.approx(slow.values(name, method), **CLOSE)
            assert (short.column(method, "seconds") > 0).all()
            sums = short.sums(method).sel(site="word", tokens="all", target="logit")
            assert sums.values == pytest.approx(slow.values("sum", method), rel=2e-4, abs=1e-9)
        deltas = [record.details["convergence_delta"] for record in slow.maps["ig"]]
        assert short.column("ig", "convergence_delta") == pytest.approx(deltas, **CLOSE)
        assert np.isnan(short.column("attnlrp", "convergence_delta")).all()

    def test_sums_at_every_site(self, clf, short):
        for method, site in itertools.product(("attnlrp", "cp-lrp", "loo"), SITES):
            for target in TARGET_CHOICES:
                for k, record in enumerate(attribute(clf, list(WORDS), method=method, output=target)):
                    scores = scores_at(dict(record.parts), site) if record.parts else record.scores
                    kept = {"all": scores, "no-special": scores[~record.special]}
                    sums = short.sums(method).sel(site=site, target=target, example=k)
                    for tokens, of in kept.items():
                        assert sums.sel(tokens=tokens) == pytest.approx(of.sum(), rel=2e-4, abs=1e-6)
        assert np.isnan(short.sums("ig").sel(target="margin")).all()

    def test_loo_is_kept_whole_for_every_removal_and_target(self, clf, short):
        for removal, target in itertools.product(REMOVALS, TARGET_CHOICES):
            records = attribute(clf, list(WORDS), method="loo", removal=removal, output=target)
            for scores, record in zip(
                short.loo(Protocol(removal=removal, target=target)), records, strict=True
            ):
                assert scores == pytest.approx(record.scores, abs=1e-12)
        assert short.example_column("target").tolist() == [record.target for record in records]


class TestMasks:
    @pytest.mark.parametrize("target", TARGET_CHOICES)
    def test_masks_of_the_paths_are_those_of_single_calls(self, clf, short, target):
        asked = {str(protocol): protocol for protocol in protocols(REMOVALS, ("pearson",), target=target)}
        slow = masks_by_hand(clf, WORDS, asked)
        assert set(short.masks) == set(masks_on_paths(3)) and len(short.masks) == 7
        for mask, (name, protocol) in itertools.product(short.masks, asked.items()):
            same_r(short.r(mask, protocol), slow[name][mask])
        assert np.array_equal(
            short.r((), Protocol(target=target)), short.r("attnlrp", Protocol(target=target)), equal_nan=True
        )
        assert np.array_equal(
            short.r([1, 2, 3], Protocol(target=target)),
            short.r("cp-lrp", Protocol(target=target)),
            equal_nan=True,
        )

    def test_curves_of_a_mask_are_made_by_hand(self, clf, short):
        for mask in ({2}, {1, 2}):
            records = attribute(clf, list(WORDS), method="lrp", bypass=mask)
            for k, (text, record) in enumerate(zip(clf.encode(list(WORDS)), records, strict=True)):
                evaluate = removal_evaluator(clf, text, target=record.target)
                for order in ("morf", "lerf"):
                    curve = perturbation_curve(evaluate, record.scores, order=order, removable=~text.special)
                    assert short.column(mask, order)[k] == pytest.approx(curve.mean_logit, **CLOSE)

    def test_all_masks_are_those_of_the_lattice(self, clf, short):
        lattices = [layer_lattice(clf, text) for text in WORDS]
        loo = attribute(clf, list(WORDS), method="loo")
        rows = short.tables["lattice"].to_pylist()
        kept = np.array([row["r"] for row in rows]).reshape(len(WORDS), len(SITES), len(TOKEN_CHOICES), 8)
        for (s, site), (t, tokens) in itertools.product(enumerate(SITES), enumerate(TOKEN_CHOICES)):
            wanted = np.array(
                [
                    [
                        agreement(scores, exact.scores, exact.special, Protocol(site, tokens))
                        for scores in lattice.at(site).scores
                    ]
                    for lattice, exact in zip(lattices, loo, strict=True)
                ]
            )
            same_r(kept[:, s, t], wanted)
            for part, chosen in (
                ("all", wanted),
                ("first half", wanted[0::2]),
                ("second half", wanted[1::2]),
            ):
                kept_means = short.mask_means(site=site, tokens=tokens, part=part)
                assert kept_means == pytest.approx(np.nanmean(chosen, 0), abs=2 * STEP)


class TestSharedCurves:
    @pytest.mark.parametrize("chunk", [1, 2, 16])
    def test_shared_curves_are_the_separate_ones_and_each_set_of_tokens_runs_once(
        self, clf, chunk, monkeypatch
    ):
        from lrp_companion.methods import perturbation

        (text,), ran = clf.encode(TEXTS[3]), []
        rankings = {
            name: attribute(clf, TEXTS[3], method=name)[0].scores for name in ("loo", "attnlrp", "cp-lrp")
        }
        rankings["again"] = 3 * rankings["loo"]
        real = perturbation.kept_logits
        with monkeypatch.context() as patch:
            patch.setattr(
                perturbation, "kept_logits", lambda c, jobs, **o: ran.extend(jobs) or real(c, jobs, **o)
            )
            shared = shared_curves(clf, text, 1, rankings, chunk=chunk)
        plain, asked = removal_evaluator(clf, text, target=1), []

        def evaluate(keep: np.ndarray) -> np.ndarray:
            asked.append(keep)
            return plain(keep)

        for name, order in itertools.product(rankings, ("morf", "lerf")):
            curve = perturbation_curve(
                evaluate, rankings[name], order=order, chunk=chunk, removable=~text.special
            )
            assert shared[name][order].logits == pytest.approx(curve.logits, abs=1e-12)
            assert shared[name][order].order == order and shared[name][order].chunk == chunk
        assert len(ran) == len(np.unique(np.concatenate(asked), axis=0)) < sum(map(len, asked))


class TestNoText:
    def test_no_word_of_a_text_is_in_any_file(self, clf, tmp_path):
        rare = "laughlaughlaugh grace rare actor"
        run(clf, reviews([rare, "quick slow"]), tmp_path, masks="all")
        raw = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert not any(word.encode() in raw for word in (*rare.split(), "quick", "slow"))
        (text,) = clf.encode(rare)
        flat = json.dumps(
            [load_run(tmp_path).tables[name].to_pylist() for name in ("examples", "methods", "masks")]
        )
        assert str(list(text.input_ids)).strip("[]") not in flat


class TestReading:
    def test_the_labelled_array_is_r_cell_by_cell(self, short):
        r = short.agreement()
        assert r.sizes["example"] == len(WORDS) and r.explainer.values.tolist() == list(DEFAULT_METHODS)
        for protocol in protocols(REMOVALS, target="probability"):
            at = vars(protocol) | ({"map": "raw"} if protocol.map == "absolute-sum" else {})
            for method in ("attnlrp", "loo"):
                values = r.sel(explainer=method, **at)
                assert np.array_equal(values, short.r(method, protocol), equal_nan=True)
        along = short.agreement({"0": (), "3": [1, 2, 3]}).sel(**vars(Protocol()))
        assert np.array_equal(along.sel(explainer="3"), short.r("cp-lrp"), equal_nan=True)
        assert along.dims == ("explainer", "example")


def pictures(count: int, seed: int, split: str) -> Dataset:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    images = np.clip(rng.random((count, 2, 2)) / 2 + np.eye(4)[labels].reshape(-1, 2, 2) / 2, 0, 1)
    return Dataset(
        "mnist", split, "embedded", ids=tuple(map(str, range(count))), labels=labels, images=images
    )


class TestMnist:
    @pytest.fixture(autouse=True)
    def tiny(self, monkeypatch):
        monkeypatch.setitem(
            NET_VARIANTS, "plain", {"tokens": 4, "dim": 3, "classes": 3, "epochs": 2, "lr": 0.01}
        )

    @staticmethod
    def jobs(**options: object) -> MnistJobs:
        train, test = pictures(40, 0, "train"), pictures(9, 1, "test")
        return MnistJobs(train, test, **{"nets": 2, **options})  # type: ignore[arg-type]

    def run(self, out: Path, **options: object) -> MnistRun:
        execute(self.jobs(**options), out, progress=False)
        loaded = load_run(out)
        assert isinstance(loaded, MnistRun)
        return loaded

    def test_rows_are_those_of_the_invariance_table(self, tmp_path):
        loaded, test = self.run(tmp_path, limit=5, seed=2), pictures(9, 1, "test")
        chosen = sorted(test.order(5, seed=2))
        assert loaded.seeds == [0, 1] and loaded.n == 5 and loaded.task == "mnist"
        assert loaded.manifest["nets"] == 2
        for seed in loaded.seeds:
            left, right = train_pair(pictures(40, 0, "train"), seed=seed, **NET_VARIANTS["plain"])
            assert (
                loaded.accuracy()[seed]
                == left.accuracy(test.images, test.labels)
                == right.accuracy(test.images, test.labels)
            )
            table = invariance_table(left, test.images[chosen], progress=False)
            for explainer, pair, label in itertools.product(
                loaded.explainers, ("left-right", "left-LOO", "right-LOO"), ("", " (sum-to-one)")
            ):
                values = loaded.values(explainer, f"r {pair}{label}", seed=seed)
                assert values == pytest.approx(
                    table.values(f"r {pair}{label}", explainer), abs=1e-6, nan_ok=True
                )
            for name in ("sum left", "sum right", "gap"):
                assert loaded.values("AttnLRP", name, seed=seed) == pytest.approx(
                    table.values(name, "AttnLRP"), rel=1e-5, abs=1e-6
                )
        both = np.mean([loaded.values("AttnLRP", "gap", seed=seed) for seed in (0, 1)], axis=0)
        assert loaded.values("AttnLRP", "gap") == pytest.approx(both)
        assert (loaded.tables["nets"]["logit_gap"].to_numpy() < 1e-12).all()
        assert loaded.tables["nets"]["tested"].to_pylist() == [9, 9]
        labels = loaded.tables["images"].filter(
            pa.array(np.asarray(loaded.tables["images"]["explainer"].to_pylist()) == "LOO")
        )
        assert all(test.labels[row["image"]] == row["label"] for row in labels.to_pylist())
