"""A method is added in one place: what registers is known to `attribute`, to runs, to tables and figures."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import load_run
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.methods import options_of
from lrp_companion.methods.common import attribution
from lrp_companion.registry import METHODS, PACKAGE, forget, label_of, method
from lrp_companion.sources import load_dataset


@pytest.fixture
def length() -> Iterator[str]:
    """A method of a user: a token's score is its length times a number."""

    @lrp.method("length", label="token length", outputs="none")
    def length(clf, texts, targets, *, times: float = 1.0, progress=None) -> list[lrp.Attribution]:
        scores = [np.array([times * len(token) for token in text.tokens]) for text in texts]
        more = {"method": "length", "logit": 0.0, "choices": {"times": times}}
        more |= {"details": {"passes": (0, 0)}}
        given = zip(texts, scores, targets, strict=True)
        return [attribution(clf, text, of, target=target or 0, **more) for text, of, target in given]

    yield "length"
    forget("length")


def test_each_row_is_drawn_in_its_own_way() -> None:
    for look in ("label", "colour", "marker"):
        looks = [getattr(row.style, look) for row in PACKAGE]
        assert len(set(looks)) == len(looks), look


def test_attribute_knows_it(clf, length: str) -> None:
    (record,) = lrp.attribute(clf, TEXTS[0], method=length, times=2.0)
    assert record.scores.tolist() == [2.0 * len(token) for token in record.tokens]
    assert options_of(length) == ["progress", "times"]
    with pytest.raises(
        InputError, match="option 'epsilon' for method 'length'; expected one of compare, progress, target"
    ):
        lrp.attribute(clf, TEXTS[0], method=length, epsilon=0.1)


def test_a_run_knows_it(clf, length: str, tmp_path) -> None:
    data = load_dataset("sst2", source="embedded")
    jobs = TextJobs(
        clf, data, methods=("loo", "length:times=3"), masks="none", removals=("attention-mask",), limit=2
    )
    execute(jobs, tmp_path / "run", progress=False)
    run = load_run(tmp_path / "run")
    assert run.methods == ("loo", "length:times=3") and np.isfinite(run.r("length:times=3")).all()


def test_a_name_of_the_package_cannot_be_taken() -> None:
    row = METHODS["ig"]
    with pytest.raises(InputError, match="'ig' twice"):
        method("ig", label="mine")
    for name in ("mine:x", "a,b", "", "a b", None):  # the command could not read them
        with pytest.raises(InputError, match="a name without spaces, colons and commas"):
            lrp.rule_set(name)
    assert METHODS["ig"] is row and list(METHODS)[:2] == ["loo", "ig"]


def test_what_contributing_says_of_methods_and_families_runs() -> None:
    page = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
    before = list(METHODS)
    assert doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS).failed == 0
    assert list(METHODS) == before


@pytest.fixture
def upper() -> Iterator[str]:
    """A rule set of a user: attention is a constant in the upper half of the layers."""
    lrp.rule_set("upper-half", bypass=lambda layers: range(layers // 2 + 1, layers + 1), label="upper half")
    yield "upper-half"
    forget("upper-half")


def test_a_rule_set_is_lrp_with_its_layers(clf, upper: str) -> None:
    layers = clf.card.layers
    mask = range(layers // 2 + 1, layers + 1)
    (record,) = lrp.attribute(clf, TEXTS[0], method=upper, epsilon=0.1, site="embedding")
    (same,) = lrp.attribute(clf, TEXTS[0], method="lrp", bypass=mask, epsilon=0.1, site="embedding")
    (other,) = lrp.attribute(clf, TEXTS[0], method="attnlrp", epsilon=0.1, site="embedding")
    assert np.array_equal(record.scores, same.scores) and not np.allclose(record.scores, other.scores)
    assert record.method == upper and record.choices == same.choices
    assert label_of(upper) == "upper half"
