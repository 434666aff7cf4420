"""Every option of every registered method, with values that mean nothing there: refused, or finite scores."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import TEXTS

from lrp_companion.checks import CompanionError, InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import IMAGE_METHODS, METHODS, attribute, options_of
from lrp_companion.methods.mask_gradient import quadrature
from lrp_companion.toys.linear_attention import LinearAttention

NONSENSE: tuple[Any, ...] = (
    None, True, "foo", "", "no", b"word", -1, 0, 1, 2.5, np.nan, np.inf, -np.inf, 10**7, 10**400, -(10**400),
    [], [1], ["a"], [np.nan], [10**400], [[1, 2], [3]], {}, {"word": 1}, object(), np.array([1.0]),
    np.float32(3), np.array(2), torch.tensor([1.0]), len,
)  # fmt: skip
SECONDS = 5.0


def finite_or_refused(model: Any, given: Any, **options: Any) -> None:
    start = time.perf_counter()
    try:
        records = attribute(model, given, **options)
    except (CompanionError, TypeError, ValueError, ArithmeticError, LookupError, RuntimeError):
        pass
    else:
        assert all(np.isfinite(record.scores).all() for record in records)
    assert time.perf_counter() - start < SECONDS


@pytest.mark.parametrize("method", list(METHODS))
def test_no_option_on_text_takes_nonsense(clf: Classifier, method: str) -> None:
    for option in (*options_of(method), "target", "truncate", "unknown"):
        for value in NONSENSE:
            finite_or_refused(clf, TEXTS[0], method=method, **{option: value})


@pytest.mark.parametrize("method", list(IMAGE_METHODS))
def test_no_option_on_images_takes_nonsense(method: str) -> None:
    net = LinearAttention()
    image = np.random.default_rng(0).random((1, 14, 14))
    for option in (*options_of(method, images=True), "target", "unknown"):
        for value in NONSENSE:
            finite_or_refused(net, image, method=method, **{option: value})


@pytest.mark.parametrize("nodes", [np.linspace(0, 1, 200), [0.5, 0.5 + 1e-15, 1.0], [0.3, 0.3 + 1e-9, 1.0]])
def test_nodes_whose_weights_multiply_rounding_are_refused(nodes: Any) -> None:
    with pytest.raises(InputError, match="weights sum to|1e-06 apart"):
        quadrature(nodes)
    assert np.abs(quadrature(32)[1]).sum() == pytest.approx(1)
