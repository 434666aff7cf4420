"""A network that is changed after it was loaded is explained as it computes now, or refused in one line."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import TEXTS, build, pre_norm, randomise, vision
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import lrp_companion as lrp
from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import METHODS, kept_logits, removal_evaluator

MODELS = ("bert", "llama", "gpt2", "language model", "vit", "tagger")
OPTIONS: dict[str, dict[str, Any]] = {
    "hybrid": {"exact": 2},
    "ig": {"n_steps": 3, "baseline": "zero"},
    "lrp": {"bypass": [1]},
    "sampled-loo": {"budget": 2},
    "shapley": {"permutations": 4, "exact": 0},
    "rollout": {"row": "mean"},
}


def model(kind: str) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A random network, its tokenizer, an input, and where its classes are read."""
    network: Any
    if kind == "vit":
        network = vision("vit", size=(4, 6))
        return network, None, torch.randn(1, 2, 4, 6, generator=torch.Generator().manual_seed(3)), {}
    if kind == "tagger":
        classifier, tokenizer = build("bert", layers=2, labels=3)
        network = transformers.BertForTokenClassification(classifier.config)
        randomise(network, 1)
        return network.eval(), tokenizer, TEXTS[0], {"position": 2}
    if kind == "language model":
        return *pre_norm("llama", task="ForCausalLM"), TEXTS[0], {}
    return *build(kind, layers=2), TEXTS[0], {}


def layers(network: Any) -> nn.ModuleList:
    return next(module for module in network.modules() if isinstance(module, nn.ModuleList))


def part(network: Any, kind: str, number: int = 0) -> tuple[nn.Module, str]:
    """The owner and the name of a layer's last module of a type."""
    names = [n for n, m in layers(network)[number].named_modules() if kind in type(m).__name__]
    owner, _, name = names[-1].rpartition(".")
    return layers(network)[number].get_submodule(owner), name


def weight_of(network: Any) -> tuple[Any, Any]:
    owner, name = part(network, "Conv1D" if "GPT2" in type(network).__name__ else "Linear")
    return getattr(owner, name), getattr(owner, name).weight


def swap(network: Any) -> None:
    both = layers(network)
    both[0], both[1] = both[1], both[0]


def edited(network: Any) -> None:
    with torch.no_grad():
        weight_of(network)[1].mul_(-1.5)


def ablated(network: Any) -> None:
    module, weight = weight_of(network)
    new = copy.deepcopy(module)
    new.weight = nn.Parameter(torch.zeros_like(weight))
    owner, name = part(network, type(module).__name__)
    setattr(owner, name, new)


def activated(network: Any) -> None:
    owner, name = part(network, "Activation" if "ViT" not in type(network).__name__ else "GELU")
    setattr(owner, name, nn.ReLU())


def scaled(network: Any) -> None:
    for module in network.modules():
        if hasattr(module, "scaling"):
            module.scaling *= 2


EXPLAINED: dict[str, Callable[[Any], Any]] = {
    "float64": lambda n: n.double(),
    "bfloat16": lambda n: n.bfloat16(),
    "layers swapped": swap,
    "weights edited": edited,
    "a map ablated": ablated,
    "another activation": activated,
    "scores scaled": scaled,
    "training": lambda n: n.train(),
    "a layer less": lambda n: layers(n).__delitem__(1),
}


def hook(register: str, where: str = "Linear") -> Callable[[Any], None]:
    def change(network: Any) -> None:
        module = network
        if where:
            owner, name = part(network, "Conv1D" if "GPT2" in type(network).__name__ else where)
            module = getattr(owner, name)
        getattr(module, register)(lambda *_: None)

    return change


def became(network: Any) -> None:
    module, _ = weight_of(network)
    kind: Any = type(module)
    module.__class__ = type("Scaled", (kind,), {"forward": lambda self, x: 1.5 * kind.forward(self, x)})


def forward_set(network: Any) -> None:
    layer = layers(network)[0]
    layer.forward = lambda x, *_, **__: x


def softmaxed(network: Any) -> None:
    owner, name = part(network, "Activation" if "ViT" not in type(network).__name__ else "GELU")
    setattr(owner, name, nn.Softmax(-1))


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a hook": (hook("register_forward_hook"), r"module .+ has the forward hook hook\.<locals>"),
    "a hook before": (hook("register_forward_pre_hook"), "forward pre hook"),
    "a hook on gradients": (hook("register_full_backward_hook"), "backward hook"),
    "a hook at the top": (hook("register_forward_hook", ""), "module at the top"),
    "a forward": (forward_set, "has the forward forward_set"),
    "a hook on what is put in": (lambda n: (ablated(n), hook("register_forward_hook")(n)), "forward hook"),
    "another class": (became, "undo what was changed in .+ since it was loaded"),
    "a softmax": (softmaxed, "Softmax is no activation function of single numbers"),
    "a layer that is none": (lambda n: layers(n).__setitem__(0, nn.Identity()), "with other modules"),
}


def own_logits(clf: lrp.Classifier, given: Any, where: dict[str, Any]) -> Tensor:
    """The logits of the network as its user calls it, now."""
    network: Any = copy.deepcopy(clf.network).eval()
    with torch.no_grad():
        if clf.reads_images:
            return network(pixel_values=given.to(next(network.parameters()))).logits[0]
        logits = network(**clf.tokenizer(given, return_tensors="pt")).logits[0]
    return logits[where.get("position", -1)] if logits.ndim == 2 else logits


def everything(clf: lrp.Classifier, given: Any, where: dict[str, Any]) -> dict[str, np.ndarray]:
    """Logit and scores by all methods, the lattice and the levels."""
    out = {}
    for method in METHODS:
        (record,) = lrp.attribute(clf, given, method=method, target=1, **OPTIONS.get(method, {}), **where)
        out[method] = np.append(record.logit, record.scores)
    lattice = lrp.layer_lattice(clf, given, target=1, **where)
    flow = lrp.layer_relevance(clf, given, target=1, **where)
    (text,) = clf.encode(given, **where)
    keep = np.arange(len(text)) != 1
    kept = kept_logits(clf, [(text, keep)], progress=False)[0].float().numpy()
    report = lrp.check(clf, given, **where)
    assert not report.broken, str(report)
    more = {"lattice": lattice.scores, "levels": flow.scores, "kept": kept}
    return {**out, **more, "logits": np.array([lattice.logit, flow.logit])}


@pytest.mark.parametrize("change", EXPLAINED)
@pytest.mark.parametrize("kind", MODELS)
def test_a_changed_network_is_explained_as_it_computes_now(kind: str, change: str) -> None:
    network, tokenizer, given, where = model(kind)
    clf = load_classifier(network, tokenizer)
    lrp.attribute(clf, given, method="attnlrp", **where)
    evaluate = removal_evaluator(clf, given, target=1, **where)
    whole = np.ones((1, len(clf.encode(given, **where)[0])), dtype=bool)
    evaluate(whole)
    EXPLAINED[change](clf.network)
    expected = float(own_logits(clf, given, where)[1])
    fresh = load_classifier(copy.deepcopy(clf.network), tokenizer, dtype=str(clf.follow().dtype)[6:])
    now, again = everything(clf, given, where), everything(fresh, given, where)
    close = 0.1 if change == "bfloat16" else 2e-4
    for name, values in now.items():
        np.testing.assert_allclose(values, again[name], rtol=close, atol=close, err_msg=name)
        if name in METHODS or name == "logits":
            assert values.flat[0] == pytest.approx(expected, abs=close * (1 + abs(expected))), name
    assert evaluate(whole)[0] == pytest.approx(expected, abs=close * (1 + abs(expected)))
    assert clf.card.dtype == str(clf.dtype)[6:] and clf.card.layers == len(clf.encoder.wiring.layers)


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("kind", MODELS)
def test_a_change_that_the_way_back_does_not_know_is_refused(kind: str, change: str) -> None:
    network, tokenizer, given, where = model(kind)
    clf = load_classifier(network, tokenizer)
    (text,) = clf.encode(given, **where)
    make, words = REFUSED[change]
    make(clf.network)
    keep = np.ones(len(text), dtype=bool)
    calls: dict[str, Callable[[], Any]] = {
        name: lambda name=name: lrp.attribute(clf, given, method=name, **OPTIONS.get(name, {}), **where)
        for name in METHODS
    }
    calls |= {
        "lattice": lambda: lrp.layer_lattice(clf, given, **where),
        "levels": lambda: lrp.layer_relevance(clf, given, **where),
        "kept": lambda: kept_logits(clf, [(text, keep)]),
        "evaluator": lambda: removal_evaluator(clf, text, target=1)(keep[None]),
        "batch": lambda: clf.batch([text]),
    }
    for name, call in calls.items():
        with pytest.raises(ModelError) as caught:
            call()
        assert re.search(words, str(caught.value)) and "\n" not in str(caught.value), (
            name,
            str(caught.value),
        )
    if change not in ("another class",):
        with pytest.raises(ModelError, match=words if change != "a forward" else "."):
            lrp.check(clf, given, **where)
    if change != "a layer that is none":
        with pytest.raises(ModelError):
            load_classifier(clf.network, tokenizer)


def test_completions_follow_the_network() -> None:
    network, tokenizer, given, _ = model("language model")
    clf = load_classifier(network, tokenizer)
    lrp.attribute(clf, given, method="attnlrp", completion=2)
    swap(clf.network)
    fresh = load_classifier(copy.deepcopy(clf.network), tokenizer)
    for options in (
        {"completion": 2},
        {"completion": [9, 8], "contrast": [7, 6]},
        {"target": 5, "contrast": 6},
    ):
        both = [lrp.attribute(one, given, method="attnlrp", **options) for one in (clf, fresh)]
        for one, other in zip(*both, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
    layers(clf.network)[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ModelError, match=r"module model\.layers\.0 "):
        lrp.attribute(clf, given, method="attnlrp", completion=2)


def test_a_removed_hook_and_one_of_all_modules() -> None:
    network, tokenizer, given, _ = model("bert")
    clf = load_classifier(network, tokenizer)
    (before,) = lrp.attribute(clf, given, method="attnlrp")
    handle = clf.network.register_forward_hook(lambda *_: None)
    with pytest.raises(ModelError, match="forward hook"):
        lrp.attribute(clf, given, method="attnlrp")
    handle.remove()
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, _, y: 2 * y if isinstance(m, nn.Linear) else None
    )
    try:
        with pytest.raises(ModelError, match="by the network"):
            lrp.attribute(clf, given, method="attnlrp")
    finally:
        handle.remove()
    (after,) = lrp.attribute(clf, given, method="attnlrp")
    np.testing.assert_array_equal(before.scores, after.scores)


@pytest.mark.parametrize("kind", ["bert", "llama", "language model", "vit"])
def test_hidden_states_can_be_asked_for_before_and_after(kind: str) -> None:
    network, tokenizer, given, _ = model(kind)
    clf = load_classifier(network, tokenizer)
    (before,) = lrp.attribute(clf, given, method="attnlrp")
    for one in (network, clf.network):
        x = {"pixel_values": given} if kind == "vit" else tokenizer(given, return_tensors="pt")
        assert len(one(**x, output_hidden_states=True, output_attentions=True).hidden_states) > 1
    for one in (clf, load_classifier(network, tokenizer)):
        assert lrp.attribute(one, given, method="attnlrp") == [before]


def test_the_fingerprint_is_that_of_the_weights_now() -> None:
    network, tokenizer, given, _ = model("bert")
    clf = load_classifier(network, tokenizer)
    lrp.attribute(clf, given, method="loo")
    before = clf.card.fingerprint
    edited(clf.network)
    lrp.attribute(clf, given, method="loo")
    assert before != clf.card.fingerprint == load_classifier(clf.network, tokenizer).card.fingerprint


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_operations_can_be_counted(kind: str, method: str) -> None:
    """An autograd that begins at a leaf raises inside of the counter."""
    network, tokenizer, given, _ = model(kind)
    clf = load_classifier(network, tokenizer)
    expected = lrp.attribute(clf, given, method=method, **OPTIONS.get(method, {}))[0].scores
    with FlopCounterMode(display=False) as counter:
        (record,) = lrp.attribute(clf, given, method=method, **OPTIONS.get(method, {}))
    assert counter.get_total_flops() > 0
    np.testing.assert_allclose(record.scores, expected, rtol=1e-4, atol=1e-5)
