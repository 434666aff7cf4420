"""Devices that are not here are refused; autocast, inference mode and dropout stay out of scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.loading.compute import as_recorded, check_device
from lrp_companion.methods import TEXT_METHODS, attribute, layer_lattice, removal_evaluator
from lrp_companion.toys.linear_attention import LinearAttention

TEXT = "a film of rare grace"
NOT_HERE = (
    "mps",
    "xpu",
    "vulkan",
    "mkldnn",
    "meta",
    "hpu",
    "abacus",
    "",
    None,
    0,
    "cuda:999",
    "cpu:3",
    b"cpu",
)


@pytest.mark.parametrize("device", NOT_HERE, ids=str)
def test_a_device_that_is_not_here_is_one_line(device, recwarn) -> None:
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(InputError, match="^op: got device ") as caught:
        check_device("op", device)
    assert "\n" not in str(caught.value) and not recwarn.list


def test_the_processor_is_always_here() -> None:
    assert check_device("op", "cpu") == torch.device("cpu") == check_device("op", torch.device("cpu"))


def options(method: str) -> dict[str, int]:
    return {"hybrid": {"exact": 2}, "sampled-loo": {"budget": 3}}.get(method, {})


@pytest.mark.parametrize("method", [name for name in TEXT_METHODS if name != "token-length"])
def test_what_the_caller_has_switched_on_changes_no_score(model_folder, method) -> None:
    clf = load_classifier(model_folder("bert"))

    def scores() -> np.ndarray:
        return attribute(clf, TEXT, method=method, **options(method))[0].scores

    wanted = scores()
    with torch.inference_mode():
        assert np.array_equal(scores(), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(scores(), wanted)
    clf.network.train()
    assert np.array_equal(scores(), wanted)
    assert all(module.training for module in clf.network.modules())  # as it was before


def test_lattices_removals_and_digits_too(model_folder) -> None:
    clf = load_classifier(model_folder("bert"))
    net = LinearAttention(dtype=torch.float64)
    images = np.random.default_rng(0).random((2, 14, 14))
    keep = np.ones((1, len(clf.encode(TEXT)[0])), dtype=bool)

    def everything() -> list[np.ndarray]:
        records = [attribute(net, images, method=method) for method in ("loo", "ig", "attnlrp")]
        evaluate = removal_evaluator(clf, TEXT, target=0)
        lattice = layer_lattice(clf, TEXT).scores
        return [lattice, evaluate(keep), *(record.scores for pair in records for record in pair)]

    wanted = everything()
    clf.network.train()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for values, before in zip(everything(), wanted, strict=True):
            assert np.array_equal(values, before)


def test_a_model_that_is_loaded_in_inference_mode_has_gradients(model_folder) -> None:
    with torch.inference_mode():
        clf = load_classifier(model_folder("bert"), dtype="float64")
    assert attribute(clf, TEXT, method="gradient-x-input")[0].scores.any()


def test_an_error_leaves_the_network_as_it_was(clf: Classifier) -> None:
    clf.network.train()
    try:
        with pytest.raises(ZeroDivisionError), as_recorded(clf.device, clf.network):
            assert not clf.network.training
            raise ZeroDivisionError
        assert all(module.training for module in clf.network.modules())
    finally:
        clf.network.eval()
