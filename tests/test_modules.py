"""What a network may be made of: modules that compute what their weights say; others are refused, never
explained as something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import TEXTS, build, pre_norm
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

import lrp_companion as lrp
from lrp_companion import families
from lrp_companion.checks import ModelError
from lrp_companion.families.tasks import head_steps, is_elementwise
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import kept_logits

TEXT = TEXTS[1]


def agrees(clf: Classifier, network: Any, given: str = TEXT) -> None:
    """The tape's logits and the packed ones against the network's own."""
    (text,) = clf.encode(given)
    ids = torch.tensor([text.input_ids])
    with torch.no_grad():
        expected = network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    torch.testing.assert_close(clf.tape(text).logits[0], expected, rtol=0, atol=1e-10)
    kept = kept_logits(clf, [(text, np.ones(len(text), dtype=bool))], progress=False)[0]
    np.testing.assert_allclose(np.asarray(kept), expected.numpy(), rtol=0, atol=1e-10)


class Own(nn.Module):
    """An own head under the names that RoBERTa's has; it computes the same if `between` is tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm, self.out_proj = nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(self.between(self.dense(x[:, 0])))

    def between(self, z: Tensor) -> Tensor:
        return torch.relu(self.norm(z))


class AsKnown(Own):
    def between(self, z: Tensor) -> Tensor:
        return torch.tanh(z)


class Scaled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 1.3 * super().forward(x)


HEADS: dict[str, Callable[[], nn.Module]] = {
    "own": Own,
    "an MLP": lambda: nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)),
    "probabilities": lambda: nn.Sequential(nn.Linear(16, 3), nn.Softmax(-1)),
    "scaled": lambda: Scaled(16, 3),
    "a norm": lambda: nn.LayerNorm(16),
    "nothing": nn.Identity,
}


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "llama", "modernbert"])
@pytest.mark.parametrize("kind", HEADS)
def test_an_unknown_head_never_loads(kind: str, family: str) -> None:
    network: Any
    network, tokenizer = build(family, layers=2, labels=3)
    head = HEADS[kind]()
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in head.parameters():
            value.add_(torch.randn(value.shape, generator=draw) * 0.5)
    setattr(network, "score" if hasattr(network, "score") else "classifier", head)
    with pytest.raises(Exception, match=r"."):
        load_classifier(network.double().eval(), tokenizer, dtype="float64")


def test_with_a_module_of_ones_own_every_text_is_compared() -> None:
    """It may decide by numbers that no trial text has."""
    later: list[int] = []

    class Later(AsKnown):
        def between(self, z: Tensor) -> Tensor:
            return -torch.tanh(z) if later else torch.tanh(z)

    network: Any
    network, tokenizer = build("roberta", layers=2, labels=3)
    network.classifier = Later()
    clf = load_classifier(network.eval(), tokenizer)
    agrees(load_classifier(network.double(), tokenizer, dtype="float64"), network)
    lrp.attribute(clf, TEXTS[3], method="attnlrp")
    later.append(1)
    with pytest.raises(ModelError, match="by the network"):
        lrp.attribute(clf, TEXTS[0], method="attnlrp")


def test_a_family_of_ones_own_has_a_head_of_ones_own() -> None:
    """As CONTRIBUTING shows."""

    @families.family("bert-with-own-head")
    def own(model: Any) -> families.Wiring:
        first, _, norm, last = model.classifier
        base = model.bert
        head = head_steps(base.pooler.dense, base.pooler.activation, first, torch.relu, norm, last)
        return families.bert_like(base, head)

    network: Any
    network, tokenizer = build("bert", layers=2, labels=3)
    network.config.model_type = "bert-with-own-head"
    network.classifier = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
    network.double()
    try:
        clf = load_classifier(network, tokenizer, dtype="float64")
        agrees(clf, network)
        assert not lrp.check(clf, list(TEXTS[:2])).broken
        network.classifier[1] = nn.Tanh()  # the wiring says otherwise
        with pytest.raises(ModelError, match="by the network"):
            load_classifier(network, tokenizer)
    finally:
        families.forget_family("bert-with-own-head")


class OddNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1


class OwnRms(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.weight, self.eps, self.factor = nn.Parameter(torch.linspace(0.5, 1.5, 16)), 1e-3, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **more: Any) -> Any:
        return self.inner(*args, **more)


Change = Callable[[Any], Any]


def became(kind: type, path: str = "output.dense") -> Change:
    def change(network: Any) -> None:
        first(network).get_submodule(path).__class__ = kind

    return change


def first(network: Any) -> Any:
    return network.bert.encoder.layer[0]


def put(path: str, module: Any) -> Change:
    """A change that puts a module, or what a class makes of the old one, in the place of another."""

    def change(network: Any) -> None:
        where, _, name = path.rpartition(".")
        owner = first(network).get_submodule(where)
        setattr(owner, name, module(getattr(owner, name)) if isinstance(module, type) else module)

    return change


ACTIVATION, NORM = "intermediate.intermediate_act_fn", "output.LayerNorm"
EXPLAINED: dict[str, Change] = {
    "parametrisations": lambda n: parametrizations.weight_norm(first(n).output.dense),
    "another activation": put(ACTIVATION, nn.ELU()),
    "an RMSNorm": put(NORM, nn.RMSNorm(16, eps=1e-3)),
    "an own RMSNorm": put("attention.output.LayerNorm", OwnRms()),
    "a layer less": lambda n: setattr(n.bert.encoder, "layer", n.bert.encoder.layer[:1]),
    "outputs as tuples": lambda n: setattr(n.config, "return_dict", False),
}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_what_computes_what_its_weights_say_is_explained(kind: str) -> None:
    network, tokenizer = build("bert", layers=2, labels=3)
    EXPLAINED[kind](network)
    network.double().eval()
    clf = load_classifier(network, tokenizer, dtype="float64")
    network.config.return_dict = True
    agrees(clf, network)
    report = lrp.check(clf, list(TEXTS[:2]))
    assert not report.broken, str(report)


def hook(path: str, register: str, change: Callable[..., Any]) -> Change:
    return lambda network: getattr(first(network).get_submodule(path), register)(change)


NUMBERS, OTHERS = "no activation function of single numbers", "by the network|with other modules"
REFUSED: dict[str, tuple[Change, str]] = {
    "a scaled map": (became(Scaled), OTHERS),
    "a scaled pooler": (lambda n: setattr(n.bert.pooler.dense, "__class__", Scaled), OTHERS),
    "a hook": (hook("output.dense", "register_forward_hook", lambda *_: None), "the forward hook"),
    "pruning": (lambda n: prune.l1_unstructured(first(n).output.dense, "weight", 0.4), "deepcopy"),
    "a wrapped map": (put("attention.self.query", Wrapped), "."),
    "an odd norm": (became(OddNorm, NORM), OTHERS),
    "an odd RMSNorm": (put(NORM, OwnRms(1.1)), OTHERS),
    "a norm of batches": (put(NORM, nn.BatchNorm1d(16)), OTHERS),
    "a softmax": (put(ACTIVATION, nn.Softmax(-1)), NUMBERS),
    "an activation in place": (put(ACTIVATION, nn.LeakyReLU(0.3, inplace=True)), NUMBERS),
    "an own attention": (put("attention.self", nn.MultiheadAttention(16, 2)), OTHERS),
    "no layer": (lambda n: setattr(n.bert.encoder, "layer", nn.ModuleList()), "."),
    "a pooler of all tokens": (lambda n: setattr(n.bert, "pooler", nn.Identity()), OTHERS),
    "no embeddings of types": (lambda n: setattr(n.bert.embeddings, "token_type_embeddings", None), "."),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_computes_something_else_is_refused_in_one_line(kind: str) -> None:
    change, words = REFUSED[kind]
    network, tokenizer = build("bert", layers=2, labels=3)
    change(network)
    with pytest.raises(Exception, match=words):
        load_classifier(network.eval(), tokenizer)


def wavy(y: Tensor) -> Tensor:
    return y + 0.5 * y.cos()  # a factor or a shift would end at the next norm


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "gpt2", "modernbert"])
def test_every_module_that_does_more_is_found(family: str) -> None:
    """Each map and norm computes more than its weights say, one at a time."""
    network: Any
    network, tokenizer = build(family) if family == "bert" else pre_norm(family)
    kinds = ("Linear", "Conv1D", "RMSNorm", "LayerNorm")
    for module in network.modules():
        if type(module).__name__.endswith(kinds):
            kind = type(module)
            more = type("More", (kind,), {"forward": lambda self, x, kind=kind: wavy(kind.forward(self, x))})
            module.__class__ = more
            with pytest.raises(ModelError, match="by the network"):
                load_classifier(network, tokenizer, dtype="float64")
            module.__class__ = kind
    load_classifier(network, tokenizer)


def test_activations_of_single_numbers() -> None:
    for good in (nn.GELU(), torch.tanh, functional.silu, nn.PReLU(), nn.Identity(), nn.ReLU6(), nn.Mish()):
        assert is_elementwise(good)
    for bad in (
        nn.Softmax(-1),
        nn.GLU(),
        nn.Flatten(),
        nn.ReLU(inplace=True),
        lambda z: z - z.mean(),
        lambda z: z / z.norm(dim=-1, keepdim=True),
        nn.PReLU(7),
    ):
        assert not is_elementwise(bad)
