"""Numbers as people give them: text that looks like numbers is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from lrp_book import paired
from lrp_book.ch06_protocol import variance_shares
from lrp_book.significance import holm, rank_correlations

import lrp_companion as lrp
from lrp_companion.arrays import bool_array, real_array
from lrp_companion.checks import InputError
from lrp_companion.methods.perturbation import kept_logits
from lrp_companion.metrics import normalise, removal_order
from lrp_companion.metrics.grid import cross_correlation
from lrp_companion.metrics.statistics import resampled


@pytest.mark.parametrize("values", [["1", "2"], "12", b"12", [1j], [[1], [1, 2]], {"a": 1}])
def test_what_holds_no_numbers_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match="real numbers"):
        real_array("agreement", "scores", values)


@pytest.mark.parametrize(
    "values", [[1, 2], (1.0, 2.0), np.array([True, False]), np.array([1, 2], dtype=object)]
)
def test_numbers_are_float64(values: Any) -> None:
    assert real_array("agreement", "scores", values).dtype == np.float64


MASKED = np.ma.array([0.1, 0.2, 0.3], mask=[False, True, False])
FINE = [0.1, 0.2, 0.4]
DOORS: dict[str, Callable[[Any], Any]] = {
    "pearson": lambda values: lrp.pearson(values, FINE),
    "spearman": lambda values: lrp.spearman(FINE, values),
    "kendall": lambda values: lrp.kendall(values, FINE),
    "agreement": lambda values: lrp.agreement(values, FINE, [True, False, False]),
    "normalise": lambda values: normalise(values, "raw"),
    "removal_order": removal_order,
    "perturbation_curve": lambda values: lrp.perturbation_curve(lambda keep: keep.sum(1), values),
    "evaluate of perturbation_curve": lambda values: lrp.perturbation_curve(lambda keep: values, [1.0, 2.0]),
    "bootstrap_mean": lrp.bootstrap_mean,
    "paired_difference": lambda values: lrp.paired_difference(values, FINE),
    "conservation_gap": lambda values: lrp.conservation_gap(values, 1.0),
    "invariance_gap": lambda values: lrp.invariance_gap(FINE, values),
    "fisher_z": paired.fisher_z,
    "bootstrap_median": paired.bootstrap_median,
    "win_rate": lambda values: paired.win_rate(values, FINE),
    "compare_paired": lambda values: paired.compare_paired(FINE, values),
    "over_trainings": lambda values: paired.over_trainings({1: values, 2: FINE}),
    "variance_shares": lambda values: variance_shares([values, FINE], ["x", "y"]),
    "cross_correlation": lambda values: cross_correlation([values], [FINE], "pearson"),
    "resampled": lambda values: resampled([values, values]),
    "holm": holm,
    "rank_correlations": lambda values: rank_correlations(values, np.ones((3, 1))),
    "Attribution": lambda values: lrp.Attribution(("a", "b", "c"), values, 0, 1.0, [False] * 3, "loo"),
    "Lattice": lambda values: lrp.Lattice(("a", "b", "c"), [values], 0, 1.0, [False] * 3),
    "LinearAttention": lambda values: lrp.LinearAttention(tokens=3, dim=2)([values]),
    "attribute on images": lambda values: lrp.attribute(
        lrp.LinearAttention(tokens=3, dim=2), [values], method="loo"
    ),
    "baseline": lambda values: lrp.attribute(
        lrp.LinearAttention(tokens=3, dim=2), [FINE], method="ig", baseline=values
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "odd",
    [
        MASKED,
        [1j, 2, 3],
        ["1", "2", "3"],
        np.array(["2020"] * 3, "M8[Y]"),
        [None] * 3,
    ],
    ids=["masked", "complex", "text", "dates", "None"],
)
def test_every_function_that_takes_numbers_refuses_what_is_none(door: str, odd: Any) -> None:
    DOORS[door](FINE)
    with pytest.raises(InputError) as told:
        DOORS[door](odd)
    assert len(str(told.value)) < 500 and "\n" not in str(told.value)
    if odd is MASKED:
        assert "masked" in str(told.value)


def test_an_array_without_a_masked_entry_is_an_array() -> None:
    plain = np.ma.array(FINE, mask=[False] * 3)
    assert real_array("agreement", "scores", plain).tolist() == FINE
    assert lrp.pearson(plain, FINE) == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_tensors_are_numbers(dtype: torch.dtype) -> None:
    scores = torch.tensor([3, 1, 2], dtype=dtype, requires_grad=dtype.is_floating_point)
    curve = lrp.perturbation_curve(lambda keep: torch.as_tensor(keep).sum(1), scores)
    assert curve.logits.tolist() == [3, 2, 1, 0]
    assert lrp.pearson(scores, [3, 1, 2]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "keep", [[True, False], [1, 0], (1.0, 0.0), np.array([1, 0], dtype=object), torch.tensor([True, False])]
)
def test_booleans_are_true_false_1_and_0(keep: Any) -> None:
    assert bool_array("removal", "keep", keep).tolist() == [True, False]


@pytest.mark.parametrize(
    "keep",
    [
        [0.5, 1],
        [float("nan"), 1],
        ["False", "True"],
        [2, 0],
        None,
        [None],
        [1j],
        [[1], [1, 0]],
        np.ma.array([True, False], mask=[True, False]),
        "True",
        {True},
        [-1, 0],
    ],
)
def test_anything_else_is_no_boolean(model_folder, keep: Any) -> None:
    with pytest.raises(InputError):
        bool_array("removal", "keep", keep)
    clf = lrp.load_classifier(model_folder("bert"))
    evaluate = lrp.removal_evaluator(clf, "a film", target=0)
    given = [keep] * 4 if keep is None or isinstance(keep, str) else [*keep, 1, 1]
    with pytest.raises(InputError):
        evaluate([given])
    with pytest.raises(InputError):
        kept_logits(clf, [(clf.encode("a film")[0], given)])


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_kept_tokens_in_any_form_give_one_value(model_folder, kind: Any) -> None:
    clf = lrp.load_classifier(model_folder("bert"))
    keep = np.array([[True, False, True, True]])
    expected = lrp.removal_evaluator(clf, "a film", target=0)(keep)
    for given in (keep.tolist(), keep.astype(int).tolist(), keep.astype(float).tolist()):
        assert lrp.removal_evaluator(clf, "a film", target=0)(kind(given)).tolist() == expected.tolist()
