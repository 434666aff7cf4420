"""Scores in half precision against float32, and what a loaded classifier says of its precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, IMAGE_FAMILIES, TEXTS, build

import lrp_companion as lrp
from lrp_companion.checks import ModelError
from lrp_companion.families.wiring import RootMeanSquare
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import layer_lattice

HALF = ("bfloat16", "float16")
CLOSE = {
    "attnlrp": {"bfloat16": 0.1, "float16": 0.015},
    "cp-lrp": {"bfloat16": 0.1, "float16": 0.015},
    "mask-gradient": {"bfloat16": 0.2, "float16": 0.05},
}
"""As a part of the largest score. Measured on these networks: at most 0.066 and 0.009 with LRP, and 0.15 and
0.033 with the mask gradient, which is made of differences.
"""


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in IMAGE_FAMILIES])
def test_half_precision_is_near_float32(family: str, dtype: str) -> None:
    given = build(family, layers=3)
    single, half = (load_classifier(*given, dtype=name) for name in ("float32", dtype))
    assert half.dtype == getattr(torch, dtype) and half.card.dtype == dtype
    for method, bounds in CLOSE.items():
        one, other = (lrp.attribute(clf, TEXTS[1], method=method, target=1)[0] for clf in (single, half))
        close = bounds[dtype] * np.abs(one.scores).max()
        np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=close)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("family", ["bert", "modernbert", "llama", "gemma2"])
def test_every_method_runs_in_half_precision(family: str, dtype: str) -> None:
    clf = load_classifier(*build(family), dtype=getattr(torch, dtype))
    for method in ("pa-lrp", "lrp", "loo", "rollout", "gradient-x-input", "hybrid", "sampled-loo"):
        (record,) = lrp.attribute(clf, TEXTS[1], method=method)
        assert record.scores.dtype == np.float64 and record.details["dtype"] == dtype
    single = layer_lattice(load_classifier(*build(family)), TEXTS[1], target=1).scores
    half = layer_lattice(clf, TEXTS[1], target=1).scores
    np.testing.assert_allclose(half, single, rtol=0, atol=CLOSE["attnlrp"][dtype] * np.abs(single).max())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text"])
def test_root_mean_squares_are_those_of_the_family_in_half_precision(family: str, dtype: str) -> None:
    """Gemma adds 1 to its weights in float32: rounded before, they would be another norm."""
    clf = load_classifier(*build(family), dtype=dtype)
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)).to(clf.dtype)
    norm = clf.encoder.wiring.layers[0].mlp_input_norm
    assert isinstance(norm, RootMeanSquare)
    torch.testing.assert_close(norm(x), norm.module(x), rtol=0, atol=0)


def test_what_overflows_in_float16_says_so() -> None:
    network, tokenizer = build("bert")
    with torch.no_grad():
        network.bert.encoder.layer[0].intermediate.dense.weight.mul_(1e5)
    assert np.isfinite(
        lrp.attribute(load_classifier(network, tokenizer), TEXTS[1], method="attnlrp")[0].scores
    ).all()
    with pytest.raises(ModelError, match="that are not finite"):
        clf = load_classifier(network, tokenizer, dtype="float16")
        lrp.attribute(clf, TEXTS[1], method="attnlrp")
