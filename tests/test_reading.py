"""Reading classifiers that lie in no folder: objects in memory, and PEFT adapters."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_models import BERT_LIKE, build, save
from torch import nn

from lrp_companion.checks import InputError, ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.loading.model_card import fingerprint_of
from lrp_companion.methods import attribute

TEXT = "a film of rare grace"
needs_peft = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="peft is not installed")


@pytest.mark.parametrize("family", BERT_LIKE)
def test_objects_in_memory_are_what_they_are_on_disk(model_folder, family: str) -> None:
    network, tokenizer = build(family)
    network.train()
    here, there = load_classifier(network, tokenizer), load_classifier(model_folder(family))
    assert network.training and all(weight.requires_grad for weight in network.parameters())
    assert here.card.source == "memory" and here.card.fingerprint == there.card.fingerprint
    assert (here.card.config, here.card.tokenizer, here.labels) == (
        there.card.config,
        there.card.tokenizer,
        there.labels,
    )
    scores = [attribute(clf, TEXT, method="cp-lrp")[0].scores for clf in (here, there)]
    np.testing.assert_allclose(*scores, atol=1e-6)


def test_later_training_leaves_the_classifier_alone() -> None:
    network, tokenizer = build("bert")
    clf = load_classifier(network, tokenizer)
    (before,) = attribute(clf, TEXT, method="attnlrp")
    nn.init.zeros_(network.classifier.weight)
    np.testing.assert_array_equal(attribute(clf, TEXT, method="attnlrp")[0].scores, before.scores)


def test_a_network_comes_with_its_tokenizer_and_is_a_classifier() -> None:
    network, tokenizer = build("bert")
    for given, kind, words in (
        ((network,), InputError, "a network without its tokenizer"),
        ((network, "bert"), InputError, "a network with a tokenizer of type str"),
        (("companion", tokenizer), InputError, "a tokenizer with a model of type str"),
        ((nn.Linear(2, 2), tokenizer), ModelError, "a network of type Linear"),
        ((network.bert, tokenizer), ModelError, "saved as BertModel; expected a sequence classifier"),
    ):
        with pytest.raises(kind, match=words):
            load_classifier(*given)


def test_an_adapter_without_peft_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "companion"}))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelError, match="holds a PEFT adapter, and no peft; .* pip install peft"):
        load_classifier(tmp_path)


class OptimizedModule(nn.Module):  # as torch.compile makes it, without a compiler
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._orig_mod = network

    def __getattr__(self, name: str) -> object:
        return super().__getattr__(name) if name == "_orig_mod" else getattr(self._orig_mod, name)


class FullyShardedDataParallel(nn.Module):
    pass


class SentenceTransformer(nn.Sequential):
    pass


def in_a_trainer(network: nn.Module, tokenizer: object) -> object:
    return type("MyTrainer", (), {"model": network, "processing_class": tokenizer})()


WRAPPED = {
    "compiled": (lambda net, tok: torch.compile(net), r"load_classifier\(model\._orig_mod, tokenizer\)"),
    "like compiled": (lambda net, tok: OptimizedModule(net), r"model\._orig_mod"),
    "parallel": (lambda net, tok: nn.DataParallel(net), r"load_classifier\(model\.module, tokenizer\)"),
    "both": (lambda net, tok: nn.DataParallel(torch.compile(net)), r"model\.module\._orig_mod"),
    "both, turned": (lambda net, tok: torch.compile(nn.DataParallel(net)), r"model\._orig_mod\.module"),
    "in a module": (lambda net, tok: nn.ModuleDict({"model": net}), r"model\.model"),
    "pipeline": (
        lambda net, tok: transformers.pipeline("text-classification", model=net, tokenizer=tok),
        r"load_classifier\(pipe\.model, pipe\.tokenizer\)",
    ),
    "trainer": (in_a_trainer, r"trainer\.model, trainer\.processing_class"),
    "sharded": (lambda net, tok: FullyShardedDataParallel(), "save the model whole"),
    "sentences": (lambda net, tok: SentenceTransformer(net), "pass a classifier"),
}


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_what_holds_a_network_says_what_to_pass(kind: str, with_tokenizer: bool) -> None:
    network, tokenizer = build("bert")
    wrap, words = WRAPPED[kind]
    given = wrap(network, tokenizer)
    with pytest.raises(InputError, match=words) as caught:
        load_classifier(given, *([tokenizer] if with_tokenizer else []))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_network_compiled_in_place_is_read_and_compiled_parts_are_not() -> None:
    network, tokenizer = build("bert")
    plain = load_classifier(network, tokenizer)
    network.compile()
    assert load_classifier(network, tokenizer).card.fingerprint == plain.card.fingerprint
    network.bert.encoder.layer[1] = torch.compile(network.bert.encoder.layer[1])
    with pytest.raises(ModelError, match=r"'bert.encoder.layer.1' is compiled"):
        load_classifier(network, tokenizer)
    network, tokenizer = build("bert")
    network.forward = torch.compile(network.forward)
    with pytest.raises(ModelError, match="is compiled"):
        load_classifier(network, tokenizer)


class Packed(torch.Tensor):
    """As torchao keeps weights."""


def quantised(network: nn.Module, how: str) -> nn.Module:
    first = network.bert.encoder.layer[0].attention.self.query
    if how in ("is_quantized", "is_loaded_in_8bit", "is_loaded_in_4bit"):
        setattr(network, how, True)
    elif how == "configuration":
        network.config.quantization_config = {"quant_method": "gptq", "bits": 4}
    elif how == "torch":
        return torch.ao.quantization.quantize_dynamic(network, {nn.Linear}, dtype=torch.qint8)
    elif how == "subclass":
        first.weight = nn.Parameter(first.weight.detach().as_subclass(Packed))
    elif how == "sparse":
        first.weight = nn.Parameter(first.weight.detach().to_sparse())
    else:
        first.weight = nn.Parameter(first.weight.detach().to(getattr(torch, how)), requires_grad=False)
    return network


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "how",
    [
        "is_quantized",
        "is_loaded_in_8bit",
        "is_loaded_in_4bit",
        "configuration",
        "torch",
        "subclass",
        "sparse",
        "int8",
        "uint8",
        "float8_e4m3fn",
        "float8_e5m2",
    ],
)
def test_weights_in_few_bits_are_refused(how: str) -> None:
    network, tokenizer = build("bert")
    with pytest.raises(ModelError, match="expected (plain|dense) weights") as caught:
        load_classifier(quantised(network, how), tokenizer)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", ["bitsandbytes", "gptq", "fp8", {"odd": "kind"}, 4])
def test_folders_of_weights_in_few_bits_are_refused(tmp_path: Path, kind: object) -> None:
    with pytest.raises(ModelError, match="with a quantization_config"):
        load_classifier(
            edit(save(tmp_path), quantization_config={"quant_method": kind, "load_in_8bit": True})
        )
    with pytest.raises(ModelError, match="with a quantization_config"):
        load_classifier(edit(tmp_path, quantization_config=kind))
    load_classifier(edit(tmp_path, quantization_config=None))


ODD_TENSORS = {
    "bfloat16": lambda x: x.bfloat16(),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
    "sparse": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "empty": lambda x: x[:0],
    "transposed": lambda x: x.mT,
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "bits": lambda x: x > 0,
    "meta": lambda x: x.to("meta"),
    "complex": lambda x: x.to(torch.complex64),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD_TENSORS)
def test_a_fingerprint_of_odd_weights(kind: str) -> None:
    """It differs where values do, and not where they do not; of weights without values it knows the shape."""

    def fingerprint(values: torch.Tensor) -> str:
        network = nn.Module()
        network.register_buffer("weight", ODD_TENSORS[kind](values))
        return fingerprint_of(network)

    values = torch.arange(6.0).reshape(2, 3) + 1
    other = values.clone()
    other[1, 2] = 0
    assert fingerprint(values) == fingerprint(values.clone())
    assert (fingerprint(values) == fingerprint(other)) == (kind in ("meta", "empty"))
    assert kind == "empty" or fingerprint(values) != fingerprint(torch.ones(2, 4))


@pytest.mark.parametrize("words", [6, 7, 50_000])
def test_a_card_prints_in_a_few_lines(words: int) -> None:
    card = load_classifier(*build("bert")).card
    large = dataclasses.replace(card, labels=tuple(f"{k}-" + "x" * 200 for k in range(words)))
    assert len(large.labels) == words and len(repr(large)) < 1500 and len(str(large).splitlines()) == 5
    assert (f"{words:,} in all" in repr(large)) == (words > 6) == (f"{words:,} in all" in str(large))
    assert eval(repr(card), {"ModelCard": type(card)}) == card


@needs_peft
@pytest.mark.parametrize("family", BERT_LIKE)
def test_an_adapter_is_merged(tmp_path: Path, family: str) -> None:
    """Trained on an encoder without a classifier, three labels where the base knows two; and in memory."""
    import peft
    from transformers import AutoModelForSequenceClassification

    network, tokenizer = build(family)
    network.base_model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    targets = {"distilbert": ["q_lin", "v_lin"], "mpnet": ["q", "v"]}.get(family, ["query", "value"])
    adapted = peft.get_peft_model(
        fresh, peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=targets)
    ).eval()
    with torch.no_grad():
        for weight in adapted.parameters():
            if weight.requires_grad:
                weight.copy_(torch.randn(weight.shape) / 2)
    adapted.save_pretrained(tmp_path / "adapter")
    with torch.no_grad():
        logits = adapted(**tokenizer([TEXT], return_tensors="pt")).logits[0]
    for given in ((tmp_path / "adapter",), (adapted, tokenizer)):
        clf = load_classifier(*given)
        (text,) = clf.encode(TEXT)
        torch.testing.assert_close(clf.tape(text).logits[0].detach(), logits, rtol=1e-4, atol=1e-4)


@needs_peft
def test_an_adapter_that_brings_no_classifier_is_refused(tmp_path: Path) -> None:
    import peft

    network, tokenizer = build("bert")
    network.base_model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=2, target_modules=["query"])
    adapted = peft.get_peft_model(network, config)
    adapted.peft_config["default"].base_model_name_or_path = str(tmp_path / "base")
    adapted.save_pretrained(tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"without the weights classifier\.bias"):
        load_classifier(tmp_path / "adapter")


# -- what is compared and refused when a model is loaded -----------------------------------------------------


def edit(folder: Path, **changes: object) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return folder


def test_a_network_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    """Layers of its family in another order: their sums, say, 1.1 times as large."""
    network, tokenizer = build("bert")
    layer = network.bert.encoder.layer[0]
    kind = type(layer)
    layer.__class__ = type(
        "Larger", (kind,), {"forward": lambda self, *x, **more: 1.1 * kind.forward(self, *x, **more)}
    )
    with pytest.raises(ModelError, match="by the network 'BertForSequenceClassification' and .* by the tape"):
        load_classifier(network, tokenizer)


def test_an_encoder_that_is_used_as_a_decoder_is_refused(tmp_path: Path) -> None:
    """There, tokens see only what is before them. Families without decoders do not read the entry."""
    for family in ("bert", "roberta", "electra"):
        with pytest.raises(ModelError, match="with is_decoder, whose tokens see only what is before them"):
            load_classifier(edit(save(tmp_path / family, family), is_decoder=True))
    for family in ("albert", "distilbert"):
        assert load_classifier(edit(save(tmp_path / family, family), is_decoder=True)).card.family == family


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("how", ["epsilon", "overflow"])
def test_logits_that_are_not_finite_are_refused(tmp_path: Path, how: str, dtype: str) -> None:
    if how == "epsilon":
        folder = edit(save(tmp_path), layer_norm_eps=float("nan"))
    else:
        network, tokenizer = build("bert")
        with torch.no_grad():
            network.bert.encoder.layer[0].intermediate.dense.weight.fill_(3e38)
            network.bert.encoder.layer[0].output.dense.weight.fill_(3e38)
            network.classifier.weight.fill_(3e38)
        folder = tmp_path
        network.double().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if dtype == "float64":
            return  # it overflows in single precision only
    with pytest.raises(ModelError, match="not finite"):
        load_classifier(folder, dtype=dtype)


def test_scores_that_are_not_finite_are_refused() -> None:
    """Where weights overflow on some texts only."""
    clf = load_classifier(*build("bert"))
    clf.network.bert.embeddings.word_embeddings.weight[clf.tokenizer.vocab["rare"]] = torch.inf
    for method in ("loo", "attnlrp", "ig", "rollout", "mask-gradient"):
        assert np.isfinite(attribute(clf, "a film", method=method)[0].scores).all()
        with pytest.raises(ModelError, match="not finite"):
            attribute(clf, TEXT, method=method)


def test_regressions_with_several_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a regression with 2 outputs; expected .* one output"):
        load_classifier(edit(save(tmp_path), problem_type="regression"))
