"""Methods named with their options, what a run of them keeps: against slow recomputation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import TEXTS, reviews

from lrp_companion.attribution import SITES, Attribution, scores_at
from lrp_companion.checks import InputError
from lrp_companion.lab.base_run import DEFAULT_METHODS, TOP
from lrp_companion.lab.execute import execute
from lrp_companion.lab.labelled import mean, r_with_loo
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, method_call
from lrp_companion.metrics import pearson, spearman
from lrp_companion.schema import TOKEN_CHOICES, Protocol

WORDS = (*TEXTS, "the warm film", "no , never", "a dull plot and a slow actor")
DATA = reviews(WORDS)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "loo": ("loo", {}),
    "attnlrp": ("attnlrp", {}),
    "cp-lrp": ("cp-lrp", {}),
    "gradient-x-input": ("gradient-x-input", {}),
    "rollout": ("rollout", {}),
    "rollout:residual=true:head_fusion=max": ("rollout", {"residual": True, "head_fusion": "max"}),
    "ig": ("ig", {"n_steps": 2}),
    "ig:n_steps=3:baseline=zero": ("ig", {"n_steps": 3, "baseline": "zero"}),
    "lrp:bypass=1+2": ("lrp", {"bypass": (1, 2)}),
    "lrp:bypass=3:epsilon=0.1": ("lrp", {"bypass": (3,), "epsilon": 0.1}),
    "mask-gradient": ("mask-gradient", {}),
    "mask-gradient:groups=2:nodes=0.2+1": ("mask-gradient", {"groups": 2, "nodes": (0.2, 1)}),
    "mask-gradient:groups=all:nodes=3": ("mask-gradient", {"groups": "all", "nodes": 3}),
    "mask-gradient:groups=3:seed=4": ("mask-gradient", {"groups": 3, "seed": 4}),
    "hybrid:exact=2:correct=line": ("hybrid", {"exact": 2, "correct": "line"}),
    "hybrid:exact=3:groups=2": ("hybrid", {"exact": 3, "groups": 2}),
    "sampled-loo:budget=2": ("sampled-loo", {"budget": 2}),
}
PASSES = {  # of a text of T tokens
    "loo": lambda t: (t + 1, 0),
    "rollout": lambda _: (1, 0),
    "rollout:residual=true:head_fusion=max": lambda _: (1, 0),
    "ig": lambda _: (4, 2),
    "ig:n_steps=3:baseline=zero": lambda _: (5, 3),
    "mask-gradient:groups=2:nodes=0.2+1": lambda t: (3, 3),
    "mask-gradient:groups=all:nodes=3": lambda t: (1 + 2 * t, 1 + 2 * t),
    "mask-gradient:groups=3:seed=4": lambda t: (4, 4),
    "hybrid:exact=2:correct=line": lambda _: (3, 1),
    "hybrid:exact=3:groups=2": lambda _: (6, 3),
    "sampled-loo:budget=2": lambda _: (3, 0),
}


def run(clf: Classifier, out: Path, **options: Any) -> TextRun:
    execute(TextJobs(clf, DATA, n_steps=2, masks="none", **options), out, progress=False)
    loaded = load_run(out)
    assert isinstance(loaded, TextRun)
    return loaded


@pytest.fixture(scope="module")
def whole(clf: Classifier, tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    return run(clf, tmp_path_factory.mktemp("whole"), methods=list(CALLS))


@pytest.fixture(scope="module")
def records(clf: Classifier) -> dict[str, list[Attribution]]:
    return {
        name: attribute(clf, list(WORDS), method=method, **options)
        for name, (method, options) in CALLS.items()
    }


class TestNames:
    @pytest.mark.parametrize("name", CALLS)
    def test_a_name_is_a_method_and_its_options(self, name):
        method, options = method_call(name)
        assert method == CALLS[name][0]
        assert {**({"n_steps": 2} if name == "ig" else {}), **options} == CALLS[name][1]

    def test_values_keep_their_kinds(self):
        _, options = method_call("mask-gradient:groups=all:nodes=0+0.5+1:seed=3")
        assert options == {"groups": "all", "nodes": (0, 0.5, 1), "seed": 3} and type(options["seed"]) is int
        assert method_call("lrp:bypass=2")[1] == {"bypass": (2,)}
        assert method_call("lrp:epsilon=1e-6:site=embedding")[1] == {"epsilon": 1e-6, "site": "embedding"}
        assert method_call("rollout:residual=false")[1] == {"residual": False}


class TestColumns:
    def test_overlap_and_error_are_those_of_the_maps(self, whole, records):
        for name, site, tokens in itertools.product(CALLS, SITES, TOKEN_CHOICES):
            error, overlap = [], {k: [] for k in TOP}
            for record, loo in zip(records[name], records["loo"], strict=True):
                scores = scores_at(dict(record.parts), site) if record.parts else record.scores
                words = [i for i in range(len(scores)) if tokens == "all" or not record.special[i]]
                error.append(
                    sum(abs(scores[i] - loo.scores[i]) for i in words)
                    / sum(abs(loo.scores[i]) for i in words)
                )
                for k in TOP:
                    first = [
                        set(sorted(words, key=lambda i, m=m: -abs(m[i]))[:k]) for m in (scores, loo.scores)
                    ]
                    defined = len(words) >= k and not np.isnan(scores).any()
                    overlap[k].append(len(first[0] & first[1]) / k if defined else np.nan)
            np.testing.assert_allclose(
                whole.error(name, site=site, tokens=tokens),
                error,
                rtol=2.0**-13 + 1e-5,
                atol=1e-6,
                err_msg=f"{name} {site}",
            )
            for k in TOP:
                values = whole.overlap(name, k=k, site=site, tokens=tokens)
                np.testing.assert_allclose(
                    values, overlap[k], rtol=1e-6, err_msg=f"{name} {site} {tokens} {k}"
                )
        assert np.isnan(whole.overlap("attnlrp", k=5)).any() and whole.error("loo").max() == 0
        assert (whole.overlap("loo", k=1) == 1).all()
        assert np.nanmin(whole.error("attnlrp")) > 0 and np.nanmin(whole.overlap("rollout", k=1)) == 0

    def test_passes_are_what_a_text_costs(self, whole, records):
        tokens = whole.example_column("tokens")
        for name in CALLS:
            wanted = [PASSES.get(name, lambda _: (1, 1))(int(length)) for length in tokens]
            assert whole.passes(name).tolist() == [list(map(float, cost)) for cost in wanted], name

    def test_r_of_named_options_is_that_of_the_call(self, whole, records):
        for name, statistic in itertools.product(CALLS, (pearson, spearman)):
            measured = whole.r(name, Protocol(tokens="all", statistic=statistic.__name__))
            wanted = [
                statistic(record.scores, loo.scores)
                for record, loo in zip(records[name], records["loo"], strict=True)
            ]
            np.testing.assert_allclose(measured, wanted, atol=1e-5)
        assert not np.allclose(whole.r("lrp:bypass=1+2"), whole.r("attnlrp"), equal_nan=True)
        for name in (
            "mask-gradient",
            "hybrid:exact=3:groups=2",
            "sampled-loo:budget=2",
            "ig:n_steps=3:baseline=zero",
        ):
            assert np.isnan(whole.r(name, Protocol(target="margin"))).all()  # not measured

    def test_the_default_methods_have_no_extra_columns(self, clf, tmp_path):
        plain = run(clf, tmp_path, methods=DEFAULT_METHODS, limit=2)
        assert not {"overlap", "error", "passes"} & set(plain.tables["methods"].column_names)
        for call in (plain.overlap, plain.error, plain.passes):
            with pytest.raises(
                InputError, match="of 'attnlrp' in .*; expected a method of a run that names methods beyond"
            ):
                call("attnlrp")


class TestMeans:
    def test_every_interval_is_that_of_its_column(self, whole):
        r = r_with_loo(whole, None, site="word", map="raw", removal="attention-mask", target="logit")
        means = mean(r)
        for name, statistic, tokens in itertools.product(CALLS, ("pearson", "spearman"), TOKEN_CHOICES):
            at = {"tokens": tokens, "statistic": statistic}
            found = means.sel(at | {"explainer": name}).item()
            assert found == same(whole.agreement(name, Protocol(**at)))
        assert found.undefined == 0
        at = {"explainer": "attnlrp", "tokens": "no-special", "statistic": "pearson"}
        assert means.sel(at).item().undefined == 1  # the text of one word

    def test_a_constant_map_has_no_r(self, clf, tmp_path):
        few = run(clf, tmp_path, methods=["sampled-loo:budget=1"], limit=3)
        assert mean(r_with_loo(few, None, **vars(Protocol(tokens="all")))).item().n == 0


def same(interval: Any) -> Any:
    """An interval that is equal up to rounding, undefined limits included."""

    class Same:
        def __eq__(self, other: object) -> bool:
            fields = ("mean", "low", "high", "n", "undefined")
            return [getattr(other, f) for f in fields] == pytest.approx(
                [getattr(interval, f) for f in fields], abs=1e-9, nan_ok=True
            )

        def __repr__(self) -> str:
            return repr(interval)

    return Same()
