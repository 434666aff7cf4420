"""What a network may be made of: heads of any make, and modules that compute something else than they say."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import TEXTS, build, pre_norm, vision
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

import lrp_companion as lrp
from lrp_companion import families
from lrp_companion.checks import ModelError
from lrp_companion.families.modules import check_modules, is_elementwise
from lrp_companion.families.tasks import head_steps
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import kept_logits
from lrp_companion.tape.encoder import Encoder

TEXT = TEXTS[1]
MLP = ("linear", "relu", "linear")


# -- heads ---------------------------------------------------------------------------------------------------


class Own(nn.Module):
    """An own head, as people write it; `norm` and `function` can be left out."""

    def __init__(self, width: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.dense, self.norm, self.out = nn.Linear(width, 8), nn.LayerNorm(8), nn.Linear(8, classes)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.dense(self.dropout(x))))
        return self.out(self.dropout(x))


class OfMethods(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(functional.dropout(self.dense(x).relu().tanh(), 0.3, self.training)) / 2.5


class OfFunctions(Own):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        z = functional.linear(x, self.dense.weight, self.dense.bias)
        z = functional.layer_norm(z, (8,), self.norm.weight, self.norm.bias, 1e-5)
        return self.out(functional.leaky_relu(z, negative_slope=0.2, inplace=True))


class OfFirst(Own):
    """Takes the first token by itself, as RoBERTa's and ELECTRA's heads do."""

    def forward(self, features: Tensor, **_: Any) -> Tensor:
        return self.out(torch.tanh(self.dense(self.dropout(features)[:, 0, :])))


class Mish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tanh(functional.softplus(x))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def nested() -> nn.Module:
    inner = nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Identity())
    return nn.Sequential(nn.Dropout(0.1), inner, nn.Sequential(nn.Linear(8, 8), Mish()), nn.Linear(8, 3))


Part = nn.Module | Callable[[Tensor], Tensor]
HEADS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], list[Part]]]] = {
    "an MLP": (mlp, list),
    "nested": (nested, lambda m: [m[1][0], m[1][1], m[1][2], m[2][0], m[2][1], m[3]]),
    "in place": (
        lambda: nn.Sequential(nn.Linear(16, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 3)),
        lambda m: [m[0], nn.LeakyReLU(0.2), m[2]],
    ),
    "with a weight": (lambda: nn.Sequential(nn.Linear(16, 8), nn.PReLU(), nn.Linear(8, 3)), list),
    "an activation first": (
        lambda: nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Linear(16, 3)),
        lambda m: [m[1], m[2]],
    ),
    "a norm first": (lambda: nn.Sequential(nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 3)), list),
    "an activation last": (lambda: nn.Sequential(nn.Linear(16, 3), nn.Tanh()), list),
    "own": (Own, lambda m: [m.dense, m.norm, torch.relu, m.out]),
    "own, of methods": (OfMethods, lambda m: [m.dense, torch.relu, torch.tanh, m.out, lambda z: z / 2.5]),
    "own, of functions": (OfFunctions, lambda m: [m.dense, m.norm, nn.LeakyReLU(0.2), m.out]),
}
"""Heads by what is special about them, and their steps in order, told by hand."""


def with_head(head: nn.Module, family: str = "bert") -> tuple[Any, Any]:
    """A random network whose last module is this head, float64, and its tokenizer."""
    network: Any
    network, tokenizer = (
        build(family, layers=2, labels=3)
        if family in ("bert", "roberta", "distilbert")
        else pre_norm(family, layers=2, labels=3)
    )
    setattr(network, "score" if hasattr(network, "score") else "classifier", head)
    drawn(head)
    return network.double().eval(), tokenizer


def drawn(head: nn.Module) -> None:
    """Every parameter drawn anew, so that no bias or weight of a norm is 0 or 1."""
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in head.parameters():
            value.add_(torch.randn(value.shape, generator=draw) * 0.3)


def own_logits(network: Any, clf: Classifier, **options: Any) -> Tensor:
    (text,) = clf.encode(TEXT, **options)
    ids = torch.tensor([text.input_ids])
    with torch.no_grad():
        logits = network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    return logits if logits.ndim == 1 else logits[-1 if text.read is None else text.read]


def agrees(clf: Classifier, network: Any, near: float = 1e-10, **options: Any) -> None:
    """The tape's logits and the packed ones against the network's own."""
    (text,) = clf.encode(TEXT, **options)
    expected = own_logits(network, clf, **options)
    torch.testing.assert_close(clf.tape(text).logits[0], expected, rtol=0, atol=near)
    kept = kept_logits(clf, [(text, np.ones(len(text), dtype=bool))], progress=False)[0]
    np.testing.assert_allclose(np.asarray(kept), expected.numpy(), rtol=0, atol=near)


def backward(parts: list[Part], x: Tensor, target: int) -> Tensor:
    """The head's part of LRP as a gradient: activations and norms are scaled by what is held constant."""
    x = x.detach().requires_grad_()
    z = x
    for part in parts:
        if isinstance(part, nn.Linear):
            z = part(z)
        elif isinstance(part, nn.LayerNorm):
            centred = z - z.mean(-1, keepdim=True)
            scale = (centred.square().mean(-1, keepdim=True) + part.eps).sqrt().detach()
            z = centred / scale * part.weight + part.bias
        else:
            z = z * (part(z) / z).detach().nan_to_num(0.0)  # 0 / 0 behind a ReLU
    return torch.autograd.grad(z[:, target].sum(), x)[0]


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "modernbert"])
@pytest.mark.parametrize("kind", HEADS)
def test_a_head_of_ones_own_is_explained(kind: str, family: str) -> None:
    make, parts_of = HEADS[kind]
    head = make()
    network, tokenizer = with_head(head, family)
    clf = load_classifier(network, tokenizer, dtype="float64")
    agrees(clf, network, 1e-10 if family != "modernbert" else 1e-6)
    (text,) = clf.encode(TEXT)
    block = clf.tape(text).head
    g = torch.eye(3, dtype=torch.float64)[1:2]
    before: dict[str, list[Part]] = {"gpt2": []}
    if family == "bert":
        before["bert"] = [network.bert.pooler.dense, torch.tanh]
    elif family == "distilbert":
        before["distilbert"] = [network.pre_classifier, torch.relu]
    elif family == "modernbert":
        end = network.head
        norm = nn.LayerNorm(16, eps=end.norm.eps).double()
        with torch.no_grad():
            norm.weight.copy_(end.norm.weight)
        before["modernbert"] = [end.dense, end.act, norm]
    for step in reversed(block.steps):
        g = step.backward(g, eps=0.0)
    parts = [*before[family], *parts_of(head)]
    torch.testing.assert_close(g, backward(parts, block.pooled, 1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["an MLP", "nested", "own", "an activation first"])
def test_every_method_explains_it(kind: str) -> None:
    network, tokenizer = with_head(HEADS[kind][0]())
    clf = load_classifier(network, tokenizer, dtype="float64")
    logit = own_logits(network, clf)[1].item()
    for method in ("attnlrp", "cp-lrp", "loo", "ig", "mask-gradient", "gradient-x-input", "hybrid"):
        record = lrp.attribute(clf, TEXT, method=method, target=1)[0]
        assert record.logit == pytest.approx(logit, abs=1e-8) and np.isfinite(record.scores).all()
        assert np.abs(record.scores).max() > 0
    assert lrp.layer_lattice(clf, TEXT, target=1) is not None
    report = lrp.check(clf, list(TEXTS[:2]))
    assert not report.broken, str(report)
    one, other = (lrp.attribute(clf, TEXT, method="attnlrp", target=k)[0].scores for k in (0, 2))
    both = lrp.attribute(clf, TEXT, method="attnlrp", target=0, contrast=2)[0].scores
    np.testing.assert_allclose(both, one - other, rtol=0, atol=1e-10)


def test_heads_that_take_the_first_token_themselves() -> None:
    """RoBERTa gives its head all tokens; ELECTRA does, too, and a pooler of one's own may."""
    for family in ("roberta", "electra"):
        network, tokenizer = build(family, layers=2, labels=3)
        network.classifier = OfFirst()
        agrees(load_classifier(network.double().eval(), tokenizer, dtype="float64"), network)
        network.classifier = mlp().double()
        with pytest.raises(
            ModelError, match=r"does not take the first token.*begin its forward with x = x\[:, 0\]"
        ):
            load_classifier(network, tokenizer)
    network, tokenizer = build("roberta", layers=2, labels=3)
    network.classifier.out_proj = mlp()
    agrees(load_classifier(network.double().eval(), tokenizer, dtype="float64"), network)
    network, tokenizer = build("bert", layers=2, labels=3)
    network.bert.pooler = OfFirst(16, 16)
    agrees(load_classifier(network.double().eval(), tokenizer, dtype="float64"), network)


def test_heads_of_taggers_and_of_images() -> None:
    config = build("bert", layers=2, labels=3)[0].config
    tagger, tokenizer = transformers.BertForTokenClassification(config), build("bert")[1]
    tagger.classifier = Own()
    agrees(load_classifier(tagger.double().eval(), tokenizer, dtype="float64"), tagger, position=3)
    network = vision("vit")
    network.classifier = nn.Sequential(nn.Tanh(), nn.Linear(16, 3))
    clf = load_classifier(network.double(), dtype="float64")
    pixels = torch.randn(1, 2, 6, 9, dtype=torch.float64)
    record = lrp.attribute(clf, pixels, method="attnlrp", target=2)[0]
    with torch.no_grad():
        assert record.logit == pytest.approx(network(pixel_values=pixels).logits[0, 2].item(), abs=1e-8)


class Residual(Own):
    def forward(self, x: Tensor) -> Tensor:
        z = self.dense(x)
        return self.out(z + torch.tanh(z))


class ByItsNumbers(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dense(x)) if x.sum() > 0 else self.out(-self.dense(x))


class AlwaysDropping(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(functional.dropout(self.dense(x), 0.3))


class Gated(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dense(x) * torch.sigmoid(self.dense(x)))


class Shifted(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dense(x) + 1)


def hooked() -> nn.Module:
    head = Own()
    head.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return head


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Residual, r"a head \(Residual\) with the step 'add', which reads more than the step before it"),
        (ByItsNumbers, "cannot be followed"),
        (AlwaysDropping, "a dropout that is always on"),
        (Gated, "reads more than the step before it"),
        (Shifted, "the step 'add'"),
        (OfFirst, "takes a token, where one is taken already"),
        (hooked, "computes something else than its modules"),
        (lambda: nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), "a BatchNorm1d"),
        (lambda: nn.Sequential(nn.Linear(16, 3), nn.Softmax(-1)), "a Softmax"),
        (lambda: nn.Sequential(nn.Linear(16, 3), nn.LayerNorm(3)), "does not end with a linear map"),
        (lambda: nn.Linear(16, 5), "5 outputs and whose configuration 3 labels"),
        (lambda: nn.Bilinear(16, 16, 3), "a Bilinear"),
    ],
)
def test_a_head_that_is_no_chain_is_refused(make: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_classifier(*with_head(make()))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_plain_heads_are_what_they_were() -> None:
    linear, norm = nn.Linear(4, 2), nn.LayerNorm(4)
    assert head_steps(linear) == ((linear, None),)
    assert head_steps(norm, torch.nn.Identity(), linear) == ((norm, None), (linear, None))
    assert head_steps(linear, torch.relu, linear) == ((linear, torch.relu), (linear, None))


# -- modules -------------------------------------------------------------------------------------------------


class Scaled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 1.3 * super().forward(x)


class Said(nn.Linear):
    """A subclass that computes what its weights say."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.mT + self.bias


class OddNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1


class WholeNumbers(nn.Module):
    """A map whose weight is kept in 8 bits."""

    def __init__(self, like: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Buffer((like.weight * 20).to(torch.int8))
        self.bias = like.bias

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.to(x.dtype) / 20, self.bias)


class OwnRms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.linspace(0.5, 1.5, 16)), 1e-3

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **more: Any) -> Any:
        return self.inner(*args, **more)


def became(module: nn.Module, kind: type) -> None:
    module.__class__ = kind


def everywhere(network: Any, register: Callable[[nn.Module], Any]) -> None:
    for module in network.modules():
        register(module)


def pruned(network: Any) -> None:
    for layer in network.bert.encoder.layer:
        prune.l1_unstructured(layer.intermediate.dense, "weight", 0.4)
        prune.random_structured(layer.output.dense, "weight", 0.3, dim=0)
        prune.l1_unstructured(layer.output.dense, "bias", 0.3)
    prune.l1_unstructured(network.classifier, "weight", 0.2)


Change = Callable[[Any], Any]


def first(network: Any) -> Any:
    return network.bert.encoder.layer[0]


def put(where: str, name: str, module: Any) -> Change:
    """A change that puts a module, or what a function makes of the old one, in the place of another."""

    def change(network: Any) -> None:
        owner = first(network).get_submodule(where) if where else first(network)
        new = module(getattr(owner, name)) if isinstance(module, type) else module
        setattr(owner, name, new)

    return change


EXPLAINED: dict[str, Change] = {
    "a subclass that computes the same": lambda n: became(first(n).output.dense, Said),
    "hooks that return nothing": lambda n: everywhere(n, lambda m: m.register_forward_hook(lambda *_: None)),
    "hooks before that return nothing": lambda n: everywhere(
        n, lambda m: m.register_forward_pre_hook(lambda *_: None)
    ),
    "a hook that wants three axes": lambda n: first(n).output.dense.register_forward_hook(
        lambda _module, _inputs, y: None if y[:, 0, :].numel() else None
    ),
    "backward hooks that return nothing": lambda n: first(n).output.dense.register_full_backward_hook(
        lambda *_: None
    ),
    "a forward that is the same": lambda n: setattr(
        first(n).output.dense, "forward", functools.partial(nn.Linear.forward, first(n).output.dense)
    ),
    "pruning": pruned,
    "weight norm": lambda n: weight_norm(first(n).output.dense),
    "spectral norm": lambda n: spectral_norm(first(n).output.dense),
    "parametrisations": lambda n: parametrizations.weight_norm(first(n).output.dense),
    "another activation": put("intermediate", "intermediate_act_fn", nn.ELU()),
    "an activation in place": put("intermediate", "intermediate_act_fn", nn.LeakyReLU(0.3, inplace=True)),
    "an activation with a weight": put("intermediate", "intermediate_act_fn", nn.PReLU()),
    "no activation": put("intermediate", "intermediate_act_fn", nn.Identity()),
    "an RMSNorm": put("output", "LayerNorm", nn.RMSNorm(16, eps=1e-3)),
    "an own RMSNorm": put("attention.output", "LayerNorm", OwnRms()),
    "no norm": put("output", "LayerNorm", nn.Identity()),
    "a norm without bias": put("output", "LayerNorm", nn.LayerNorm(16, bias=False)),
    "a map without bias": put("output", "dense", nn.Linear(24, 16, bias=False)),
    "a layer less": lambda n: setattr(n.bert.encoder, "layer", n.bert.encoder.layer[:1]),
    "a module that is not used": lambda n: setattr(first(n), "more", nn.Linear(3, 3)),
}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_what_computes_the_same_or_is_known_is_explained(kind: str) -> None:
    network, tokenizer = build("bert", layers=2, labels=3)
    EXPLAINED[kind](network)
    network.double().eval()
    clf = load_classifier(network, tokenizer, dtype="float64")
    agrees(clf, network)
    report = lrp.check(clf, list(TEXTS[:2]))
    assert not report.broken, str(report)


ELSE = "computes something else than the wiring reads from it"
REFUSED: dict[str, tuple[Change, str]] = {
    "a scaled map": (
        lambda n: became(first(n).output.dense, Scaled),
        rf"layer\.0\.output\.dense \(Scaled\) {ELSE}",
    ),
    "a scaled head": (lambda n: became(n.classifier, Scaled), rf"module classifier \(Scaled\) {ELSE}"),
    "a scaled pooler": (lambda n: became(n.bert.pooler.dense, Scaled), r"bert\.pooler\.dense"),
    "a hook": (
        lambda n: first(n).attention.self.value.register_forward_hook(lambda _m, _i, y: 1.1 * y),
        rf"attention\.self\.value \(Linear\) {ELSE}.*remove its hooks",
    ),
    "a hook before": (
        lambda n: first(n).output.dense.register_forward_pre_hook(lambda _m, x: (1.1 * x[0],)),
        r"output\.dense",
    ),
    "a hook on gradients": (
        lambda n: first(n).output.dense.register_full_backward_hook(lambda _m, g, _g: (2 * g[0],)),
        r"output\.dense",
    ),
    "a hook on a norm": (
        lambda n: first(n).output.LayerNorm.register_forward_hook(lambda _m, _i, y: 1.1 * y),
        r"output\.LayerNorm",
    ),
    "a hook on an activation": (
        lambda n: first(n).intermediate.intermediate_act_fn.register_forward_hook(lambda _m, _i, y: 2 * y),
        "intermediate_act_fn",
    ),
    "a forward of its own": (
        lambda n: setattr(first(n).output.dense, "forward", lambda x: x[..., :16]),
        r"output\.dense",
    ),
    "weights in 8 bits": (put("attention.self", "query", WholeNumbers), "expected plain weights"),
    "a wrapped map": (put("attention.self", "query", Wrapped), r"self\.query \(Wrapped\) is no linear map"),
    "an odd norm": (lambda n: became(first(n).output.LayerNorm, OddNorm), r"LayerNorm \(OddNorm\)"),
    "a norm without weights": (
        put("output", "LayerNorm", nn.LayerNorm(16, elementwise_affine=False)),
        "a LayerNorm or an RMSNorm",
    ),
    "a norm of batches": (put("output", "LayerNorm", nn.BatchNorm1d(16)), r"LayerNorm \(BatchNorm1d\)"),
    "a softmax": (put("intermediate", "intermediate_act_fn", nn.Softmax(-1)), r"\(Softmax\) is none"),
    "a GLU": (put("intermediate", "intermediate_act_fn", nn.GLU()), r"\(GLU\) is none"),
    "an activation that is missing": (put("intermediate", "intermediate_act_fn", None), "."),
    "a norm that is missing": (put("output", "LayerNorm", None), "."),
    "an own attention": (put("attention", "self", nn.MultiheadAttention(16, 2)), "with other modules"),
    "an own layer": (lambda n: n.bert.encoder.layer.__setitem__(0, nn.Identity()), "with other modules"),
    "no layer": (lambda n: setattr(n.bert.encoder, "layer", nn.ModuleList()), "without a layer"),
    "no pooler": (lambda n: setattr(n.bert, "pooler", None), "a module is missing"),
    "a pooler of all tokens": (lambda n: setattr(n.bert, "pooler", nn.Identity()), "the first token"),
    "own embeddings": (
        lambda n: setattr(n.bert.embeddings, "word_embeddings", nn.Sequential(nn.Embedding(40, 16))),
        "a table of word embeddings",
    ),
    "no embeddings of types": (lambda n: setattr(n.bert.embeddings, "token_type_embeddings", None), "."),
    "maps that do not fit": (put("intermediate", "dense", nn.Linear(16, 40)), "cannot be run"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_computes_something_else_is_refused_in_one_line(kind: str) -> None:
    change, words = REFUSED[kind]
    network, tokenizer = build("bert", layers=2, labels=3)
    change(network)
    with pytest.raises(ModelError, match=words) as caught:
        load_classifier(network.eval(), tokenizer)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2", "modernbert", "vit", "deit"])
def test_every_kind_of_map_is_tried(family: str) -> None:
    """Maps that are parts of a module, that are kept transposed, norms with an offset, patches."""
    network: Any
    network, tokenizer = (vision(family), None) if family in ("vit", "deit") else pre_norm(family)
    check_modules("mine", network, Encoder(network).wiring)
    kinds = ("Linear", "Conv1D", "Conv2d", "RMSNorm", "LayerNorm")
    tried = [name for name, module in network.named_modules() if type(module).__name__.endswith(kinds)]
    for name in tried:
        handle = network.get_submodule(name).register_forward_hook(lambda _m, _i, y: 1.1 * y)
        with pytest.raises(ModelError, match=rf"whose module {name} "):
            check_modules("mine", network, Encoder(network).wiring)
        handle.remove()
    assert len(tried) > 8


def test_a_family_of_ones_own_is_checked() -> None:
    network, tokenizer = build("bert", layers=2)
    network.config.model_type = "mine"
    families.family("mine")(families.bert)
    try:
        assert load_classifier(network, tokenizer).card.family == "mine"
        became(first(network).output.dense, Scaled)
        with pytest.raises(ModelError, match="Scaled"):
            load_classifier(network, tokenizer)
    finally:
        families.forget_family("mine")


def test_the_network_of_the_caller_stays_as_it_is() -> None:
    network, tokenizer = build("bert", layers=2)
    pruned(network)
    network.config.return_dict = False
    handle = first(network).output.dense.register_forward_hook(lambda *_: None)
    load_classifier(network, tokenizer)
    assert prune.is_pruned(network) and network.config.return_dict is False
    assert first(network).output.dense._forward_hooks and handle is not None


def test_activations_of_single_numbers() -> None:
    for good in (nn.GELU(), torch.tanh, functional.silu, nn.PReLU(), lambda z: z, Mish()):
        assert is_elementwise(good)
    for bad in (
        nn.Softmax(-1),
        nn.GLU(),
        nn.Flatten(),
        nn.ReLU(inplace=True),
        lambda z: z - z.mean(),
        nn.PReLU(7),
    ):
        assert not is_elementwise(bad)


def test_a_network_that_holds_what_cannot_be_copied() -> None:
    network, tokenizer = build("bert")
    network.lock = threading.Lock()
    with pytest.raises(ModelError, match="that cannot be copied"):
        load_classifier(network, tokenizer)
