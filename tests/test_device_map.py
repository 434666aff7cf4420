"""Networks whose layers lie on several devices, and maps of devices that are refused."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from places import Machine, place_of
from tiny_models import FAMILIES, IMAGE_FAMILIES, TEXTS, build, save
from torch import nn

import lrp_companion as lrp
from lrp_companion.checks import InputError, ModelError, SourceError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.loading.compute import check_device_map, check_placed
from lrp_companion.methods import layer_lattice, layer_relevance
from lrp_companion.model_check import check
from lrp_companion.registry import METHODS

DEVICES = ("cuda:0", "cuda:1")


def spread(clf: Classifier, machine: Machine) -> Classifier:
    """The classifier with neighbouring layers on different devices, ends apart from first and last layer."""
    network = copy.deepcopy(clf.network)
    machine.place(network, "cuda:1")
    blocks = next(m for m in network.modules() if isinstance(m, nn.ModuleList) and len(m) == clf.card.layers)
    for number, block in enumerate(blocks):
        machine.place(block, DEVICES[number % 2])
    with machine:
        return Classifier(network, clf.tokenizer, card=clf.card, recompute=clf.encoder.recompute)


def exact(family: str, **options: bool) -> Classifier:
    return load_classifier(*build(family, layers=3), dtype="float64", **options)


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("albert", *IMAGE_FAMILIES)]
)  # ALBERT's layers are one
def test_layers_on_two_devices_give_the_same_scores(family: str) -> None:
    clf = exact(family)
    for method in ("attnlrp", "pa-lrp", "mask-gradient", "loo", "rollout", "gradient-x-input", "ig"):
        options = {"method": method, "target": 1} | ({"baseline": "zero"} if method == "ig" else {})
        expected = lrp.attribute(clf, TEXTS[1:3], **options)
        machine = Machine()
        there = spread(clf, machine)
        with machine:
            moved = lrp.attribute(there, TEXTS[1:3], **options)
        assert machine.moves >= 2  # there are two steps from one device to the other
        for one, other in zip(expected, moved, strict=True):
            np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("family", ["electra", "llama"])
def test_every_method_and_the_check(family: str, recompute: bool) -> None:
    clf, machine = exact(family, recompute=recompute), Machine()
    there = spread(clf, machine)
    # a layer that autograd runs again is out of the machine's sight
    for method in ("attnlrp", "cp-lrp", "pa-lrp", "loo", "rollout") if recompute else METHODS:
        (expected,) = lrp.attribute(clf, TEXTS[1], method=method)
        with machine:
            (moved,) = lrp.attribute(there, TEXTS[1], method=method)
        np.testing.assert_allclose(moved.scores, expected.scores, rtol=0, atol=1e-12)
    for work in (layer_lattice, layer_relevance):
        with machine:
            moved = work(there, TEXTS[1])
        np.testing.assert_allclose(moved.scores, work(clf, TEXTS[1]).scores, rtol=0, atol=1e-12)
    if not recompute:
        with machine:
            assert not check(there, list(TEXTS), progress=False).broken


def test_the_machine_minds_its_devices() -> None:
    """What is tested with it would fail on two devices, if it did not move."""
    machine, x = Machine(), torch.ones(3)
    with machine:
        near, far = x.to("cuda:0"), x.to("cuda:1")
        assert place_of(near + 1).index == 0 and (near + far.to(near.device)).device.index == 0
        assert torch.zeros(2, device="cuda:1").new_ones(1).device.index == 1 and machine.moves == 3
        with pytest.raises(RuntimeError, match="on .*cuda:0.*cuda:1"):
            near + far
        with pytest.raises(TypeError, match="numpy"):
            near.numpy()


@pytest.mark.parametrize(
    "device_map", ["auto", "balanced", "cpu", {"": "cpu"}, torch.device("cpu"), "modules"]
)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_maps_of_one_processor(tmp_path: Path, family: str, device_map: object) -> None:
    folder = save(tmp_path, family)
    parts = {
        "bert": {"bert.embeddings": "cpu", "bert.encoder": "cpu", "bert.pooler": "cpu", "classifier": "cpu"},
        "llama": {"model": "cpu", "score": "cpu"},
    }
    given = parts[family] if device_map == "modules" else device_map
    plain, mapped = load_classifier(folder), load_classifier(folder, device_map=given)
    assert mapped.card == plain.card and mapped.device.type == "cpu"
    for method in ("attnlrp", "mask-gradient", "loo"):
        one, other = (lrp.attribute(clf, TEXTS[1], method=method)[0] for clf in (plain, mapped))
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("family", ["bert", "llama", "modernbert"])
def test_with_the_hooks_of_accelerate(tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one processor they move nothing, but they stand in every call."""
    import accelerate
    from transformers import PreTrainedModel

    folder = save(tmp_path, family)
    read = PreTrainedModel.from_pretrained.__func__
    hooked: list[nn.Module] = []

    def dispatched(cls: type, *given: object, device_map: object, **options: object) -> object:
        network, report = read(cls, *given, **options)
        names = {name: "cpu" for name, _ in network.named_children()}
        hooked.append(accelerate.dispatch_model(network, names, main_device="cpu", force_hooks=True))
        return hooked[-1], report

    expected = {
        method: lrp.attribute(load_classifier(folder), TEXTS[1], method=method)[0].scores
        for method in ("attnlrp", "mask-gradient", "loo", "ig")
    }
    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(dispatched))
    mapped = load_classifier(folder, device_map="auto")
    assert mapped.network is hooked[0] and hasattr(mapped.network, "hf_device_map")
    in_memory = load_classifier(hooked[0], mapped.tokenizer, dtype="float64")
    assert {p.dtype for p in hooked[0].parameters()} == {torch.float32}  # a copy was converted
    assert not any(hasattr(part, "_hf_hook") for part in in_memory.network.modules())
    for method, scores in expected.items():
        for clf in (mapped, in_memory):
            (moved,) = lrp.attribute(clf, TEXTS[1], method=method)
            np.testing.assert_allclose(moved.scores, scores, rtol=0, atol=1e-5 * np.abs(scores).max())


@pytest.mark.parametrize(
    ("device_map", "words"),
    [
        (
            {"bert": "cpu", "classifier": "disk"},
            "device_map with 'classifier' on 'disk'; expected devices that",
        ),
        ({"": "meta"}, "on 'meta'; expected devices that hold their modules"),
        ({}, "device_map {}; expected one of auto"),
        ({1: "cpu"}, "expected one of auto"),
        ("everywhere", "device 'everywhere'; expected a device such as"),
        (True, "device True"),
        (["cpu"], r"device \['cpu'\]"),
    ],
)
def test_maps_that_cannot_be_are_refused_before_any_work(device_map: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_classifier("no/such/model", device_map=device_map)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are such devices here")
@pytest.mark.parametrize("device_map", [0, "cuda:1", {"bert": 0, "classifier": "cuda:1"}])
def test_devices_that_are_not_here(device_map: object) -> None:
    with pytest.raises(InputError, match='expected a device this machine has; *.*device="cpu"|such device'):
        load_classifier("companion", device_map=device_map)


def test_the_processor_beside_a_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrp_companion.loading.compute._count", lambda kind: 2)
    assert check_device_map({"bert": 0, "classifier": "cuda:1"}, "cpu") == {
        "bert": "cuda:0",
        "classifier": "cuda:1",
    }
    with pytest.raises(InputError, match="'classifier' on the processor beside other devices"):
        check_device_map({"bert": 0, "classifier": "cpu"}, "cpu")
    with pytest.raises(InputError, match="device 'cuda' with a device_map"):
        check_device_map("auto", "cuda")


def test_weights_that_are_elsewhere_and_divided_layers() -> None:
    clf, machine = exact("bert"), Machine()
    network = copy.deepcopy(clf.network)
    network.classifier.to("meta")
    with pytest.raises(InputError, match=r"whose weight classifier\.bias accelerate keeps on the processor"):
        check_placed("mine", network, clf.encoder.wiring)
    with pytest.raises(ModelError, match="weights that are not in memory"):
        load_classifier(network, clf.tokenizer)
    machine.place(clf.network.bert.encoder, "cuda:0")
    with machine, pytest.raises(InputError, match=r"whose weight bert\.embeddings.* on the processor"):
        check_placed("mine", clf.network, clf.encoder.wiring)
    machine.place(clf.network, "cuda:0")
    machine.place(clf.network.bert.encoder.layer[1].output, "cuda:1")
    with machine, pytest.raises(InputError, match=r"divides layer 2 of 'mine' \(cuda:0, cuda:1\)"):
        check_placed("mine", clf.network, clf.encoder.wiring)


def test_a_map_needs_files_and_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="a network in memory with a device_map"):
        load_classifier(*build("bert"), device_map="auto")
    find = importlib.util.find_spec
    monkeypatch.setitem(__import__("sys").modules, "accelerate", None)
    assert find("numpy")
    with pytest.raises(SourceError, match=r"no package accelerate; expected the extra \[lab\]"):
        load_classifier("companion", device_map="auto")
