"""Autocast, inference mode, dropout and default devices stay out of scores; a map of devices is passed on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import build, vision

from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import METHODS, attribute, layer_lattice, layer_relevance, removal_evaluator
from lrp_companion.model_check import check
from lrp_companion.tape.encoder import as_recorded
from lrp_companion.toys.linear_attention import LinearAttention

TEXT = "a film of rare grace"


def options(method: str) -> dict[str, int]:
    return {"hybrid": {"exact": 2}, "sampled-loo": {"budget": 3}}.get(method, {})


@pytest.mark.parametrize("method", [name for name in METHODS if name != "token-length"])
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
        pairs = [attribute(net, images, method=method) for method in ("loo", "ig", "attnlrp")]
        evaluate = removal_evaluator(clf, TEXT, target=0)
        lattice, flow = layer_lattice(clf, TEXT).scores, layer_relevance(clf, TEXT)
        figures = np.array([figure.value for figure in check(clf, [TEXT], progress=False).figures])
        further = [lattice, flow.scores, *flow.lost.values(), figures, evaluate(keep)]
        return [*further, *(record.scores for pair in pairs for record in pair)]

    wanted = everything()
    clf.network.train()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for values, before in zip(everything(), wanted, strict=True):
            assert np.array_equal(values, before)


@pytest.mark.parametrize("default", ["meta", torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_defaults_of_the_caller_change_no_score(model_folder, family: str, default: object) -> None:
    """A default device without numbers, or default types of other precision, at load and later."""
    network, tokenizer = build(family)
    keep = np.ones((1, len(tokenizer(TEXT)["input_ids"])), dtype=bool)

    def everything() -> list[np.ndarray]:
        out = []
        for given, dtype in (((model_folder(family),), "float32"), ((network, tokenizer), "float64")):
            clf = load_classifier(*given, dtype=dtype)
            for method in ("loo", "attnlrp", "mask-gradient", "ig"):
                more = {"baseline": "zero", "n_steps": 2} if method == "ig" else {}
                out.append(attribute(clf, [TEXT, "dull"], method=method, target=1, **more)[0].scores)
            out += [layer_lattice(clf, TEXT).scores, layer_relevance(clf, TEXT).scores]
            out.append(removal_evaluator(clf, TEXT, target=1)(keep))
            out.append(np.array([figure.value for figure in check(clf, [TEXT], progress=False).figures]))
        return out

    wanted = everything()
    device, dtype = torch.get_default_device(), torch.get_default_dtype()
    try:
        if isinstance(default, torch.dtype):
            torch.set_default_dtype(default)
        else:
            torch.set_default_device(default)
        values = everything()
        assert torch.get_default_device().type == (default if default == "meta" else "cpu")
    finally:
        torch.set_default_device(device)
        torch.set_default_dtype(dtype)
    for ours, before in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(ours, before)


@pytest.mark.parametrize("method", ["loo", "attnlrp", "ig"])
def test_images_under_a_default_device(method: str) -> None:
    """A ViT and a linear attention keep their scores."""
    vit, net = load_classifier(vision("vit")), LinearAttention(tokens=9, dim=4, classes=3)
    pixels = np.random.default_rng(0).random((2, 6, 9))
    more = {"n_steps": 2} if method == "ig" else {}

    def both() -> list[np.ndarray]:
        one = attribute(vit, pixels, method=method, **more)
        return [one[0].scores, attribute(net, pixels[0, 0][None], method=method, **more)[0].scores]

    wanted = both()
    with torch.device("meta"):
        for ours, before in zip(both(), wanted, strict=True):
            np.testing.assert_array_equal(ours, before)


def test_a_map_of_devices_is_passed_to_transformers(model_folder) -> None:
    pytest.importorskip("accelerate")
    whole, mapped = (load_classifier(model_folder("bert"), device_map=given) for given in (None, {"": "cpu"}))
    for method in ("attnlrp", "loo"):
        one, other = (attribute(clf, TEXT, method=method)[0].scores for clf in (whole, mapped))
        assert np.array_equal(one, other)


def test_an_error_leaves_the_network_as_it_was(clf: Classifier) -> None:
    clf.network.train()
    try:
        with pytest.raises(ZeroDivisionError), as_recorded(clf.device, clf.network):
            assert not clf.network.training
            raise ZeroDivisionError
        assert all(module.training for module in clf.network.modules())
    finally:
        clf.network.eval()
