"""Numbers as people give them: text that looks like numbers is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import lrp_companion as lrp
from lrp_companion.checks import InputError, bool_array, real_array

MASKED = np.ma.array([0.1, 0.2, 0.3], mask=[False, True, False])
FINE = [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    "odd",
    [MASKED, [1j], ["1", "2"], "12", np.array(["2020"] * 3, "M8[Y]")],
    ids=lambda odd: type(odd).__name__,
)
def test_what_holds_no_numbers_is_refused(odd: Any) -> None:
    for read in (real_array, bool_array):
        with pytest.raises(InputError, match="none of them masked"):
            read("agreement", "scores", odd)
    for keep in ([0.5, 1], [float("nan"), 1], [2, 0], [-1, 0]):
        with pytest.raises(InputError, match="True or False"):
            bool_array("removal", "keep", keep)


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


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_kept_tokens_in_any_form_give_one_value(model_folder, kind: Any) -> None:
    clf = lrp.load_classifier(model_folder("bert"))
    keep = np.array([[True, False, True, True]])
    expected = lrp.removal_evaluator(clf, "a film", target=0)(keep)
    for given in (keep.tolist(), keep.astype(int).tolist(), keep.astype(float).tolist()):
        assert lrp.removal_evaluator(clf, "a film", target=0)(kind(given)).tolist() == expected.tolist()
