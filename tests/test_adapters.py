"""PEFT adapters of every task: their logits are those of the adapted network; what is broken never loads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import build, edit, pre_norm, vision

from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute

peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")

TEXT = "a film of rare grace"
CONFIG = "adapter_config.json"
MASKED = "a [MASK] of rare grace"


def saved(folder: Path, network: Any, tokenizer: Any = None) -> Path:
    """A base model as it lies on disk."""
    network.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def shake(network: Any) -> None:
    """Draw what was trained anew, so that every part of the adapter counts."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if value.requires_grad and value.is_floating_point():
                noise = torch.randn(value.shape, generator=draw, dtype=torch.float64)
                near_one = "magnitude" in name or "ia3" in name or "norm" in name.lower()
                value.copy_(value + 0.1 * noise if near_one else noise / 2)


def adapt(base: Path, kind: str, config: Any, **more: Any) -> Any:
    """A network of this class of `transformers`, from a folder, with a shaken adapter."""
    network = getattr(transformers, kind).from_pretrained(base, **more)
    out = peft.get_peft_model(network, config)
    shake(out)
    return out.eval()


def lora(*modules: str, task: str | None = None, r: int = 2, **more: Any) -> Any:
    return peft.LoraConfig(task_type=task, r=r, target_modules=list(modules), **more)


@torch.no_grad()
def own_logits(network: Any, tokenizer: Any, place: int | None = None, text: str = TEXT) -> torch.Tensor:
    """What the adapted network itself computes, (C,)."""
    logits = network(**tokenizer([text], return_tensors="pt")).logits[0]
    return logits if place is None else logits[place]


def ours(clf: Any, text: str = TEXT, **more: Any) -> torch.Tensor:
    (read,) = clf.encode(text, **more)
    return clf.tape(read).logits[0].detach()


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


DECODERS = {
    "gpt2": ("c_attn", "c_proj"),
    "llama": ("q_proj", "v_proj"),
    "mistral": ("gate_proj",),
    "gemma2": ("k_proj", "down_proj"),
}


def language_model(family: str) -> tuple[Any, Any]:
    return pre_norm(family, task="LMHeadModel" if family == "gpt2" else "ForCausalLM")


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("family", DECODERS)
def test_classifiers_on_a_language_model(tmp_path: Path, family: str, labels: int) -> None:
    """The base on disk is the language model; the head, and so the number of labels, is in the adapter."""
    network, tokenizer = language_model(family)
    base = saved(tmp_path / "base", network, tokenizer)
    kind = type(network).__name__.replace("ForCausalLM", "").replace("LMHeadModel", "")
    net = adapt(
        base, f"{kind}ForSequenceClassification", lora(*DECODERS[family], task="SEQ_CLS"), num_labels=labels
    )
    net.save_pretrained(tmp_path / "adapter")
    for given in ((tmp_path / "adapter",), (net, tokenizer)):
        clf = load_classifier(*given)
        same(ours(clf), own_logits(net, tokenizer))
        assert len(clf.labels) == labels and clf.regression == (labels == 1)
    (record,) = attribute(load_classifier(tmp_path / "adapter"), TEXT, method="attnlrp")
    assert np.isfinite(record.scores).all()


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_language_models(tmp_path: Path, family: str) -> None:
    network, tokenizer = language_model(family)
    base = saved(tmp_path / "base", network, tokenizer)
    net = adapt(base, type(network).__name__, lora(*DECODERS[family], task="CAUSAL_LM"))
    net.save_pretrained(tmp_path / "adapter")
    clf = load_classifier(tmp_path / "adapter")
    same(ours(clf), own_logits(net, tokenizer, place=-1))
    assert "film" in clf.labels[clf.tokenizer(" film")["input_ids"][-1]]


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "DistilBertForMaskedLM", "ElectraForMaskedLM"])
def test_masked_language_models(tmp_path: Path, kind: str) -> None:
    """PEFT has no word for this task: the class is in `auto_mapping`, or else that of the base."""
    model_type = kind.removesuffix("ForMaskedLM").lower()
    network, tokenizer = build(model_type)
    base = saved(tmp_path / "base", getattr(transformers, kind)(network.config), tokenizer)
    net = adapt(base, kind, lora("q_lin" if model_type == "distilbert" else "query"))
    net.save_pretrained(tmp_path / "adapter")
    for mapping in (True, False):
        folder = tmp_path / "adapter" if mapping else edit(tmp_path / "adapter" / CONFIG, auto_mapping=None)
        same(ours(load_classifier(folder), MASKED), own_logits(net, tokenizer, place=2, text=MASKED))


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta"])
def test_taggers(tmp_path: Path, family: str) -> None:
    network, tokenizer = build(family)
    base = saved(tmp_path / "base", network.base_model, tokenizer)
    kind = type(network).__name__.replace("SequenceClassification", "TokenClassification")
    targets = ("q_lin",) if family == "distilbert" else ("query", "value")
    net = adapt(base, kind, lora(*targets, task="TOKEN_CLS"), num_labels=5)
    net.save_pretrained(tmp_path / "adapter")
    clf = load_classifier(tmp_path / "adapter")
    same(ours(clf, position=2), own_logits(net, tokenizer, place=2))
    assert clf.labels == tuple(f"LABEL_{k}" for k in range(5))


@pytest.mark.parametrize("family", ["vit", "deit"])
@pytest.mark.parametrize("task", [None, "SEQ_CLS"])
def test_classifiers_of_images(tmp_path: Path, family: str, task: str | None) -> None:
    """The head and the preprocessor are with the adapter, the encoder in the base."""
    base = saved(tmp_path / "base", vision(family).base_model)
    kind = f"{'ViT' if family == 'vit' else 'DeiT'}ForImageClassification"
    net = adapt(base, kind, lora("q_proj", "v_proj", modules_to_save=["classifier"]), num_labels=4)
    net.save_pretrained(tmp_path / "adapter")
    processor = {"do_rescale": True, "rescale_factor": 0.5, "do_normalize": False}
    processor["image_processor_type"] = "ViTImageProcessor"
    (tmp_path / "adapter" / "preprocessor_config.json").write_text(json.dumps(processor))
    if task:
        edit(tmp_path / "adapter" / CONFIG, task_type=task)
    clf = load_classifier(tmp_path / "adapter")
    pixels = np.random.default_rng(0).integers(0, 4, (2, 6, 9))
    with torch.no_grad():
        wanted = net(pixel_values=torch.tensor(pixels[None] * 0.5).float()).logits[0]
    same(ours(clf, pixels), wanted)
    assert len(clf.labels) == 4


@pytest.mark.parametrize("named", [True, False])
def test_names_of_labels(tmp_path: Path, named: bool) -> None:
    """From the adapter's folder, else by number where the base has fewer."""
    names = {0: "sad", 1: "so so", 2: "glad"} if named else {k: f"LABEL_{k}" for k in range(3)}
    network, tokenizer = build("bert")
    base, config = saved(tmp_path / "base", network, tokenizer), lora("query", task="SEQ_CLS")
    more = {"num_labels": 3, "ignore_mismatched_sizes": True}
    net = adapt(base, "BertForSequenceClassification", config, **more)
    net.save_pretrained(tmp_path / "adapter")
    if named:
        net.config.id2label = names
        net.config.save_pretrained(tmp_path / "adapter")
    clf = load_classifier(tmp_path / "adapter")
    assert clf.labels == tuple(names.values())
    same(ours(clf), own_logits(net, tokenizer))


def classifier(folder: Path, config: Any = None, family: str = "bert", **more: Any) -> tuple[Path, Any, Any]:
    """An adapter of a BERT with two labels, its network and its tokenizer."""
    network, tokenizer = build(family, **more)
    base = saved(folder / "base", network, tokenizer)
    config = config or lora("query", "value", task="SEQ_CLS")
    net = adapt(base, type(network).__name__, config)
    net.save_pretrained(folder / "adapter")
    return folder / "adapter", net, tokenizer


WAYS: dict[str, dict[str, Any]] = {
    "ranks": {"rank_pattern": {"layer.0.attention.self.query": 3, "value": 1}},
    "dora": {"use_dora": True},
    "all biases": {"bias": "all"},
    "biases of the maps": {"lora_bias": True},
    "more modules": {"modules_to_save": ["pooler"]},
    "new words": {"trainable_token_indices": [3, 7, 8]},
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_configure_lora(tmp_path: Path, way: str) -> None:
    folder, net, tokenizer = classifier(tmp_path, lora("query", "value", task="SEQ_CLS", **WAYS[way]))
    for given in ((folder,), (net, tokenizer)):
        same(ours(load_classifier(*given)), own_logits(net, tokenizer))


def test_words_added_to_the_vocabulary(tmp_path: Path) -> None:
    """PEFT saves the embeddings and the output map where their size has changed."""
    network, tokenizer = pre_norm("llama", task="ForCausalLM")
    base = saved(tmp_path / "base", network, tokenizer)
    larger = transformers.LlamaForCausalLM.from_pretrained(base)
    tokenizer.add_tokens(["[E1]", "[E2]"])
    larger.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    net = peft.get_peft_model(larger, lora("q_proj", task="CAUSAL_LM")).eval()
    shake(net)
    net.save_pretrained(tmp_path / "adapter", save_embedding_layers=True)
    tokenizer.save_pretrained(tmp_path / "adapter")
    clf = load_classifier(tmp_path / "adapter")
    same(ours(clf, "[E1] a film"), own_logits(net, tokenizer, place=-1, text="[E1] a film"))
    assert len(clf.labels) == len(tokenizer)


@pytest.mark.parametrize("module", ["embed_tokens", "lm_head"])
def test_embeddings_that_share_their_weights(tmp_path: Path, module: str) -> None:
    """The output map keeps its own where the embeddings or the map are adapted."""
    network, tokenizer = pre_norm("llama", task="ForCausalLM", tie_word_embeddings=True)
    base = saved(tmp_path / "base", network, tokenizer)
    net = adapt(base, "LlamaForCausalLM", lora(module, "q_proj", task="CAUSAL_LM"))
    net.save_pretrained(tmp_path / "adapter")
    for given in ((tmp_path / "adapter",), (net, tokenizer)):
        same(ours(load_classifier(*given)), own_logits(net, tokenizer, place=-1))


KINDS: dict[str, Callable[[], Any]] = {
    "ia3": lambda: peft.IA3Config(
        task_type="SEQ_CLS",
        target_modules=["query", "intermediate.dense"],
        feedforward_modules=["intermediate.dense"],
    ),
    "lokr": lambda: peft.LoKrConfig(task_type="SEQ_CLS", r=2, target_modules=["query"]),
    "oft": lambda: peft.OFTConfig(task_type="SEQ_CLS", oft_block_size=4, target_modules=["query"]),
    "norms": lambda: peft.LNTuningConfig(task_type="SEQ_CLS", target_modules=["LayerNorm"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_adapters(tmp_path: Path, kind: str) -> None:
    folder, net, tokenizer = classifier(tmp_path, KINDS[kind]())
    for given in ((folder,), (net, tokenizer)):
        same(ours(load_classifier(*given)), own_logits(net, tokenizer))


FIRST = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight"
Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def rewrite(folder: Path, change: Change) -> Path:
    file = folder / "adapter_model.safetensors"
    weights = change(safetensors.load_file(file))
    safetensors.save_file({key: value.contiguous() for key, value in weights.items()}, file)
    return folder


def less(weights: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in weights.items() if part not in key}


def renamed(weights: dict[str, torch.Tensor], old: str, new: str) -> dict[str, torch.Tensor]:
    return {key.replace(old, new): value.clone() for key, value in weights.items()}


FALSE_WEIGHTS: dict[str, Change] = {
    "one is missing": lambda w: less(w, FIRST),
    "misnamed": lambda w: renamed(w, "query", "quary"),
    "without the prefix": lambda w: renamed(w, "base_model.", ""),
    "more modules": lambda w: {**w, **renamed(w, "query", "key")},
    "no classifier": lambda w: less(w, "classifier"),
    "half a classifier": lambda w: less(w, "classifier.bias"),
    "not finite": lambda w: {**w, FIRST: torch.full((2, 16), torch.nan)},
}


@pytest.mark.parametrize("case", FALSE_WEIGHTS)
def test_what_does_not_belong_together_never_loads(tmp_path: Path, case: str) -> None:
    """In the words of `peft`, or in ours where it would only warn."""
    folder, _, _ = classifier(tmp_path)
    rewrite(folder, FALSE_WEIGHTS[case])
    with pytest.raises(Exception, match=r"."):
        load_classifier(folder)


def test_an_adapter_imports_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`peft` would import the module that an entry names, also one beside the adapter."""
    folder, net, tokenizer = classifier(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    edit(folder / CONFIG, megatron_core="evil", megatron_config={"a": 1})
    same(ours(load_classifier(folder)), own_logits(net, tokenizer))
    assert not (tmp_path / "trace").exists()


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    folder, _, _ = classifier(tmp_path)
    weights = safetensors.load_file(folder / "adapter_model.safetensors")
    (folder / "adapter_model.safetensors").unlink()
    torch.save(weights, folder / "adapter_model.bin")
    with pytest.raises(FileNotFoundError):
        load_classifier(folder)


def test_a_network_in_memory_stays_as_it_is(tmp_path: Path) -> None:
    _, net, tokenizer = classifier(tmp_path)
    net.train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    load_classifier(net, tokenizer)
    after = net.state_dict()
    assert net.training and list(before) == list(after)
    assert not any(getattr(part, "merged", False) for part in net.modules())
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_the_active_one_of_several_adapters(tmp_path: Path) -> None:
    _, net, tokenizer = classifier(tmp_path)
    net.add_adapter("second", lora("key", task="SEQ_CLS", r=3))
    net.set_adapter("second")
    shake(net)
    second = own_logits(net.eval(), tokenizer)
    clf = load_classifier(net, tokenizer)
    same(ours(clf), second)
    assert clf.card.name == "base with second"
    net.set_adapter("default")
    first = load_classifier(net, tokenizer)
    same(ours(first), own_logits(net, tokenizer))
    assert first.card.name == "base with default"
    assert not torch.allclose(ours(first), second)


def test_adapters_that_are_switched_off_or_inside_never_load(tmp_path: Path) -> None:
    _, net, tokenizer = classifier(tmp_path)
    with pytest.raises(ModelError):
        load_classifier(net.get_base_model(), tokenizer)
    net.base_model.disable_adapter_layers()
    with pytest.raises(ModelError, match="when it is merged"):
        load_classifier(net, tokenizer)
