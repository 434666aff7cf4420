"""What a model folder can do: its code never runs, and rows of two models never stand in one run."""

from __future__ import annotations

import io
import json
import pickle
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import build, edit, save

from lrp_companion.checks import InputError, ModelError
from lrp_companion.cli import main
from lrp_companion.lab.folder import read_folder
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.sources import load_dataset

TRACE = "import pathlib\npathlib.Path({place!r}).write_text('it ran')\n"
CLASSES = (
    "from transformers import BertConfig as C, BertForSequenceClassification as M, "
    "BertTokenizerFast as T\n"
    "C.model_type = 'evil'\n"
)


@pytest.fixture
def copy(model_folder, tmp_path: Path) -> Path:
    """A folder with a good classifier, to be changed."""
    folder = tmp_path / "model"
    shutil.copytree(model_folder("bert", layers=3, labels=3), folder)
    return folder


def plant(folder: Path, kind: str) -> Path:
    """Code in the folder, named by its config or its tokenizer, that leaves a trace where it runs."""
    trace = folder.parent / "trace"
    (folder / "evil.py").write_text(TRACE.format(place=str(trace)) + CLASSES)
    if kind == "tokenizer":
        edit(
            folder / "tokenizer_config.json",
            auto_map={"AutoTokenizer": ["evil.T", "evil.T"]},
            tokenizer_class="T",
        )
    else:
        auto = {"AutoConfig": "evil.C", "AutoModelForSequenceClassification": "evil.M"}
        edit(folder / "config.json", auto_map=auto, **({"model_type": "evil"} if kind == "family" else {}))
    return trace


@pytest.mark.parametrize("kind", ["family", "classes", "tokenizer"])
def test_code_in_a_folder_never_runs(copy: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = plant(copy, kind)
    answers = io.StringIO("y\n" * 100)
    monkeypatch.setattr(sys, "stdin", answers)
    if kind == "family":  # known to its own code only
        with pytest.raises(ValueError, match="contains custom code"):
            load_classifier(copy)
    else:  # transformers has classes for it
        load_classifier(copy)
    assert not trace.exists() and answers.tell() == 0


def test_pickled_weights_are_read_as_weights_only(copy: Path, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "trace",)

    (copy / "model.safetensors").unlink()
    torch.save({"classifier.weight": Payload()}, copy / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load_classifier(copy)
    assert not (tmp_path / "trace").exists()


def with_weights(folder: Path, **more: object) -> None:
    """Put weights beside those of the folder, named with __ for each dot; None takes one away."""
    weights = load_file(folder / "model.safetensors")
    for name, value in more.items():
        key = name.replace("__", ".")
        if value is None:
            del weights[key]
        else:
            weights[key] = torch.ones(3, 16) if value is True else value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("family", "config", "weights", "named"),
    [
        ("bert", {"num_hidden_layers": 1}, {}, r"bert.encoder.layer.1.attention.output.dense.bias"),
        ("distilbert", {"n_layers": 1}, {}, "transformer.layer.1."),
        ("gpt2", {"n_layer": 1}, {}, "transformer.h.1."),
        ("llama", {"num_hidden_layers": 1}, {}, "model.layers.1."),
        ("modernbert", {"num_hidden_layers": 1, "layer_types": ["full_attention"]}, {}, "layers.1."),
        ("llama", {}, {"model__layers__0__self_attn__q_proj__bias": True}, "q_proj.bias"),
        ("llama", {}, {"score__bias": True}, "score.bias"),
        ("bert", {}, {"bert__encoder__layer__0__attention__self__query__lora_A__weight": True}, "lora_A"),
        ("bert", {}, {"classifier__weight": None}, "weights lacking: classifier.weight"),
        ("bert", {}, {"classifier__weight": None, "classifier__weight_v": True}, r"original1"),
        ("bert", {"id2label": {"0": "a", "1": "b", "2": "c"}}, {}, "of another shape: classifier"),
    ],
    ids=str,
)
def test_weights_that_the_network_lacks_or_does_not_take_are_named(tmp_path, family, config, weights, named):
    folder = save(tmp_path / "model", family)
    with_weights(folder, **weights)
    edit(folder / "config.json", **config)
    with pytest.raises(ModelError, match=named) as caught:
        load_classifier(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("bert", ["cls.predictions.bias", "cls.seq_relationship.weight", "bert.embeddings.position_ids"]),
        ("roberta", ["roberta.pooler.dense.weight", "lm_head.dense.weight"]),
        ("llama", ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]),
        ("gpt2", ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias", "lm_head.weight"]),
    ],
)
def test_heads_of_other_tasks_beside_are_left_out(tmp_path: Path, family: str, names: list[str]) -> None:
    folder = save(tmp_path / "model", family)
    before = load_classifier(folder).card.fingerprint
    with_weights(folder, **dict.fromkeys((name.replace(".", "__") for name in names), True))
    assert load_classifier(folder).card.fingerprint == before


def other_activation(folder: Path) -> None:
    edit(folder / "config.json", hidden_act="relu")


def other_labels(folder: Path) -> None:
    names = {"0": "positive", "1": "negative", "2": "mixed"}
    edit(folder / "config.json", id2label=names, label2id={name: int(k) for k, name in names.items()})


def swapped_tokens(folder: Path) -> None:
    state = json.loads((folder / "tokenizer.json").read_text())
    vocab = state["model"]["vocab"]
    one, other = "the", "."
    vocab[one], vocab[other] = vocab[other], vocab[one]
    (folder / "tokenizer.json").write_text(json.dumps(state))


CHANGES = [(other_activation, "model config"), (other_labels, "labels"), (swapped_tokens, "tokenizer")]


def run(folder: Path, out: Path, limit: int, *more: str) -> int:
    call = f"run sst2 --model {folder} --out {out} --limit {limit} --source embedded --methods loo,attnlrp"
    return main([*shlex.split(call), "--masks", "none", "--removals", "attention-mask", "--quiet", *more])


def taken_from(folder: Path, out: Path) -> TextJobs:
    clf, data = load_classifier(folder), load_dataset("sst2", source="embedded")
    given = {"methods": ("loo", "attnlrp"), "removals": ("attention-mask",)}
    return TextJobs(clf, data, limit=2, loo_from=out, **given)


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_a_run_does_not_go_on_with_another_model(copy, tmp_path, capsys, change, name):
    assert run(copy, tmp_path / "run", 2) == 0
    before = repr(read_folder(tmp_path / "run"))
    change(copy)
    capsys.readouterr()
    assert run(copy, tmp_path / "run", 4) == 2
    said = capsys.readouterr().err
    assert "which holds another run" in said and f"{name}: " in said and len(said.splitlines()) == 1
    assert repr(read_folder(tmp_path / "run")) == before


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_loo_of_another_model_is_refused(copy, tmp_path, change, name):
    assert run(copy, tmp_path / "run", 2) == 0
    assert len(taken_from(copy, tmp_path / "run").known) == 2
    change(copy)
    with pytest.raises(InputError, match=name):
        taken_from(copy, tmp_path / "run")


def test_fingerprints_name_what_scores_depend_on(model_folder, tmp_path: Path) -> None:
    """Saving again, another number format and a call before do not change them."""
    card = load_classifier(model_folder("bert", layers=3, labels=3)).card
    model, tokenizer = build("bert", layers=3, labels=3)
    tokenizer(["a warm film", "film"], padding=True, truncation=True, max_length=4)
    model.half().save_pretrained(tmp_path / "half")
    tokenizer.save_pretrained(tmp_path / "half")
    edit(tmp_path / "half" / "config.json", transformers_version="0.0.0")
    half = load_classifier(tmp_path / "half").card
    assert (half.tokenizer, half.config) == (card.tokenizer, card.config)
    assert half.fingerprint != card.fingerprint
