"""Methods named with their options, what a run of them keeps: against slow recomputation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import TEXTS, reviews

from lrp_companion.attribution import Attribution
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.record import interval
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, method_call
from lrp_companion.metrics import pearson, spearman
from lrp_companion.schema import Protocol

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
    def test_passes_are_what_a_text_costs(self, whole, records):
        tokens = whole.example_column("tokens")
        for name in CALLS:
            wanted = [PASSES.get(name, lambda _: (1, 1))(int(length)) for length in tokens]
            rows = whole.tables["methods"].to_pandas()
            found = rows[rows.method == name].sort_values("job").passes
            assert [tuple(passes) for passes in found] == wanted, name

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


def test_a_constant_map_has_no_r(clf, tmp_path):
    few = run(clf, tmp_path, methods=["sampled-loo:budget=1"], limit=3)
    assert interval(few.r("sampled-loo:budget=1", Protocol(tokens="all"))).n == 0
