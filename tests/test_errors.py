"""Bad input is refused before any work: what came to which operation, what was expected, the next step."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, TEXTS, build

from lrp_companion.checks import CompanionError, InputError, ModelError, SourceError, as_path, shown
from lrp_companion.cli import main, parser
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute, layer_lattice, removal_evaluator
from lrp_companion.schema import Protocol, check_layers
from lrp_companion.sources import load_dataset

SHAPE = re.compile(r"^[\w.]+: got .+; expected .+\. Next step: .+\.$", re.DOTALL)


def message(kind: type[CompanionError], call, *args: object, **options: object) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert SHAPE.match(text), text
    assert caught.value.operation and caught.value.hint
    return text


@pytest.mark.parametrize("method", ["cp-lrp", "loo", "ig", "rollout"])
def test_texts_that_cannot_be_explained(clf: Classifier, method: str) -> None:
    assert "no texts" in message(InputError, attribute, clf, [], method=method)
    for text in ("", "   ", "\t\n"):
        assert "text 1, which is empty or only whitespace" in message(
            InputError, attribute, clf, ["fine", text], method=method
        )
    for value, name in ((3, "int"), (None, "NoneType"), (b"film", "bytes"), (["a"], "list")):
        assert f"text 1 of type {name}" in message(InputError, attribute, clf, ["fine", value], method=method)
    assert "text 0 with no token but special ones" in message(
        InputError, attribute, clf, "\u200b\u0000", method=method
    )
    for value in ("film \ud800", None, 7):  # of tokenizers and of Python
        with pytest.raises(TypeError):
            attribute(clf, value, method=method)


def test_a_long_text_says_how_many_tokens(clf: Classifier) -> None:
    text = message(InputError, attribute, clf, ["film", "film " * 60], method="loo")
    assert "text 1 of 62 tokens; expected at most 32 tokens" in text and "truncate=True" in text
    assert "62 tokens" in message(InputError, layer_lattice, clf, "film " * 60)


def test_nothing_runs_before_the_refusal(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(clf.encoder, "forward", work)
    monkeypatch.setattr(Classifier, "run_network", work)
    good = list(TEXTS)
    message(InputError, attribute, clf, [*good, ""], method="loo")
    for method, name, value in (
        ("cp-lrp", "epsilon", -1),
        ("loo", "removal", "x"),
        ("lrp", "bypass", [4]),
        ("attnlrp", "site", "x"),
        ("ig", "n_steps", 0),
        ("rollout", "row", "x"),
        ("attnlrp", "target", 3),
        ("gradient-x-input", "output", "x"),
        ("cp-lrp", "batch_tokens", 0),
        ("loo", "batch_tokens", 0),
        ("ig", "batch_tokens", 0),
        ("rollout", "batch_tokens", -1),
        ("gradient-x-input", "batch_tokens", 1.5),
    ):
        message(InputError, attribute, clf, good, method=method, **{name: value})


def test_unknown_names(clf: Classifier) -> None:
    text = message(InputError, attribute, clf, "film", method="atnlrp")
    assert "method 'atnlrp'" in text and all(
        name in text
        for name in ("loo", "ig", "gradient-x-input", "rollout", "attnlrp", "cp-lrp", "pa-lrp", "lrp")
    )
    assert "method None" in message(InputError, attribute, clf, "film", method=None)
    text = message(InputError, attribute, clf, "film", method="cp-lrp", temperature=1)
    assert "option 'temperature' for method 'cp-lrp'" in text and "epsilon" in text and "bypass" not in text
    assert "option 'bypass' for method 'attnlrp'" in message(
        InputError, attribute, clf, "film", method="attnlrp", bypass=[1]
    )
    assert "option 'epsilon' for method 'loo'" in message(
        InputError, attribute, clf, "film", method="loo", epsilon=0.1
    )
    assert "option 'site' for method 'pa-lrp'" in message(
        InputError, attribute, clf, "film", method="pa-lrp", site="word"
    )
    for option, method, choices in (
        ("site", "attnlrp", ("word", "word+position", "embedding")),
        ("removal", "loo", ("attention-mask", "mask-token", "pad-token", "delete")),
        ("output", "cp-lrp", ("logit", "margin", "probability")),
        ("baseline", "ig", ("pad-token", "mask-token", "zero")),
        ("head_fusion", "rollout", ("mean", "max", "min")),
        ("row", "rollout", ("cls", "mean")),
    ):
        for value in ("nonsense", None, 3):
            text = message(InputError, attribute, clf, "film", method=method, **{option: value})
            assert f"{option} {value!r}" in text and all(choice in text for choice in choices)
    assert "site 'x'" in message(InputError, layer_lattice, clf, "film", site="x")
    assert "removal 'x'" in message(
        InputError, removal_evaluator(clf, "film", target=0, removal="x"), [[True, True, True]]
    )


EPSILONS = [-1e-9, float("nan"), float("inf"), "0.1", None, True]
TARGETS = [3, -1, 1.0, "Positive"]
REFUSED: list[tuple[dict[str, Any], str]] = [  # options of attribute, and what is said of them
    *(
        ({"method": "lrp", "bypass": [1, layer]}, f"layer {layer!r}; expected integers from 1 to 3")
        for layer in (0, 4, -1)
    ),
    *(
        ({"method": "lrp", "bypass": endless}, "layer 4")
        for endless in (range(1, 10**12), itertools.count(1))
    ),
    *(
        ({"method": "cp-lrp", "target": target}, f"target {target!r}; expected a class from 0 to 2")
        for target in TARGETS
    ),
    *(
        ({"method": "attnlrp", "epsilon": value}, f"epsilon {value!r}; expected a finite number, at least 0")
        for value in EPSILONS
    ),
    *(
        ({"method": "ig", "n_steps": steps}, f"n_steps {shown(steps)}")
        for steps in (0, -5, 2.5, "10", True, 10_001, 10**7, 10**30, 10**5000)
    ),
    *(
        ({"method": "mask-gradient", "groups": 2, "nodes": nodes}, "1e-06 apart")  # weights nearly infinite
        for nodes in ([1e-300, 2e-300, 1], [0.5, 0.5 + 1e-9, 1], [1 - 1e-15, 1])
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_options_out_of_their_range(clf: Classifier, case: int) -> None:
    options, words = REFUSED[case]
    text = message(InputError, attribute, clf, "a film", **options)
    assert words in text and len(text) < 250


def test_other_functions_check_the_same(clf: Classifier) -> None:
    for target in TARGETS:
        words = f"target {target!r}"
        assert words in message(
            InputError, attribute, clf, ["film", "plot"], method="loo", target=[0, target]
        )
        for call in (layer_lattice, removal_evaluator):
            assert words in message(InputError, call, clf, "film", target=target)
    for epsilon in EPSILONS:
        assert f"epsilon {epsilon!r}" in message(InputError, layer_lattice, clf, "film", epsilon=epsilon)
    assert "1 targets for 2 inputs" in message(
        InputError, attribute, clf, ["film", "plot"], method="cp-lrp", target=[0]
    )
    assert "a text of type list" in message(InputError, layer_lattice, clf, ["film"])


def test_a_target_in_an_array_without_axes(clf: Classifier) -> None:
    (record,) = attribute(clf, "film", method="cp-lrp", target=np.array(1))
    assert record.target == 1


def test_a_model_that_is_none_of_ours(clf: Classifier) -> None:
    for thing, name in (
        (clf.network, "BertForSequenceClassification"),
        ("companion", "str"),
        (None, "NoneType"),
    ):
        text = message(ModelError, attribute, thing, "film", method="cp-lrp")
        assert f"a model of type {name}" in text and "load_classifier" in text
    assert "a model of type str" in message(ModelError, layer_lattice, "x", "film")
    assert "a model of type str" in message(ModelError, removal_evaluator, "x", "film", target=0)


@pytest.mark.parametrize("removal", ["attention-mask", "delete", "mask-token"])
def test_masks_that_keep_nothing_or_have_another_length(clf: Classifier, removal: str) -> None:
    evaluate, (text,) = removal_evaluator(clf, "film", target=0, removal=removal), clf.encode("film")
    message(InputError, evaluate, [[True, False]])
    if removal != "mask-token":
        assert "every token removed" in message(InputError, evaluate, [[False] * len(text)])


# ------------------------------------------------------------------------------------------------ loading


def test_options_of_load_classifier(model_folder) -> None:
    folder = model_folder("bert")
    assert "dtype 'float8'; expected one of float32, float64, bfloat16, float16" in message(
        InputError, load_classifier, folder, dtype="float8"
    )
    for device in ("abacus", "cuda:999", "meta", 3.5):
        with pytest.raises(Exception, match=r"."):
            load_classifier(folder, device=device)


@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/such/folder", "a/b/c", "", "  ", Path("nowhere"), "nowhere"]
)
def test_a_folder_that_is_not_there(name: object) -> None:
    assert "not a folder" in message(SourceError, load_classifier, name)


@pytest.mark.parametrize("kind", ["empty", "broken", "weightless", "cut", "wordless"])
def test_folders_that_are_no_classifier_never_load(tmp_path: Path, model_folder, kind: str) -> None:
    """In the words of whoever reads them; a command says it in one line."""
    folder = tmp_path / kind
    shutil.copytree(model_folder("bert"), folder)
    if kind == "empty":
        shutil.rmtree(folder)
        folder.mkdir()
    elif kind == "broken":
        (folder / "config.json").write_text("{not json")
    elif kind == "cut":
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    for file in folder.iterdir():
        wordless = kind == "wordless" and "token" in file.name
        if wordless or (kind == "weightless" and file.suffix == ".safetensors"):
            file.unlink()
    with pytest.raises(Exception, match=r"."):
        load_classifier(folder)


def test_a_command_says_in_one_line_what_a_library_refuses(tmp_path: Path, capsys) -> None:
    assert main(["explain", "a film", "--model", str(tmp_path)]) in (2, 3)
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and tmp_path.name in said


def test_models_of_another_kind(tmp_path: Path) -> None:
    from transformers import (
        BertForMultipleChoice,
        BloomConfig,
        BloomForSequenceClassification,
    )

    BloomForSequenceClassification(
        BloomConfig(n_layer=1, n_head=1, hidden_size=4, vocab_size=9, pad_token_id=0)
    ).save_pretrained(tmp_path / "bloom")
    text = message(ModelError, load_classifier, tmp_path / "bloom")
    assert f"family 'bloom'; expected one of {', '.join(FAMILIES)}" in text

    model, tokenizer = build("bert")
    BertForMultipleChoice(model.config).save_pretrained(tmp_path / "choice")
    tokenizer.save_pretrained(tmp_path / "choice")
    assert "saved as BertForMultipleChoice; expected a sequence classifier" in message(
        ModelError, load_classifier, tmp_path / "choice"
    )


def test_a_classifier_whose_head_was_never_saved(tmp_path: Path) -> None:
    """Random weights would be explained as if they meant something."""
    from transformers import BertModel

    model, tokenizer = build("bert")
    base: BertModel = model.bert
    base.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "architectures": ["BertForSequenceClassification"]})
    )
    assert "weights lacking: classifier" in message(ModelError, load_classifier, tmp_path)


def test_errors_survive_a_process_boundary() -> None:
    for kind in (InputError, SourceError, ModelError):
        error = kind("op", got="this", expected="that", hint="do it.")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error) == "op: got this; expected that. Next step: do it."
    assert issubclass(InputError, ValueError) and issubclass(SourceError, OSError)
    assert issubclass(ModelError, TypeError)


LONG: list[object] = [
    list(range(1000)),
    "x" * 5000,
    10**5000,
    ("y" * 3000, "z" * 3000),
    np.arange(5000),
    {0: [1] * 999},
    "one\ntwo\r\nthree\u2028four" * 200,
    torch.zeros(40, 40),
    range(10**5),
    [["a"] * 900],
    b"q" * 4000,
]


LONG_OPTIONS = {
    "loo": ("target", "removal", "output", "truncate", "batch_tokens", "contrast", "progress", "position"),
    "attnlrp": ("epsilon", "site"),
    "lrp": ("bypass",),
    "ig": ("n_steps", "baseline"),
    "rollout": ("row", "residual"),
    "mask-gradient": ("groups",),
    "hybrid": ("exact",),
    "sampled-loo": ("budget", "seed"),
}


@pytest.mark.parametrize("value", LONG, ids=lambda value: type(value).__name__)
def test_every_message_is_one_short_line(clf: Classifier, value: object) -> None:
    reviews = load_dataset("sst2", source="embedded", limit=2)
    record = attribute(clf, "a film", method="loo")[0]
    calls: list[Callable[[], object]] = [
        *(
            lambda name=name, method=method: attribute(clf, "a film", method=method, **{name: value})
            for method, names in LONG_OPTIONS.items()
            for name in names
        ),
        lambda: attribute(clf, "a film", method=value),
        lambda: attribute(clf, "a film", method="loo", target=value, contrast=value),
        lambda: attribute(value, "a film", method="loo"),
        lambda: load_dataset(value),
        lambda: load_dataset("sst2", split=value),
        lambda: load_dataset("sst2", limit=value),
        lambda: load_dataset("sst2", side=value),
        lambda: load_dataset({"t": ["a"]}, text=shown(value, 4000)),
        lambda: reviews.take(value),
        lambda: as_path("run", "--out", [value]),
        lambda: record.save(value),
        lambda: load_classifier("companion", dtype=value),
        lambda: Protocol(site=value),
        lambda: check_layers("lrp", value, 2),
        lambda: main_error(["explain", "a film", "--method", shown(value, 4000)]),
    ]
    long = []
    for number, call in enumerate(calls):
        try:
            call()
        except CompanionError as error:
            said = str(error)
            if len(said) >= 500 or len(said.splitlines()) != 1:
                long.append((number, len(said), said[:200]))
        except (
            TypeError,
            ValueError,
            RuntimeError,
            AttributeError,
            OSError,
        ):  # in words of Python or a library
            continue
    assert not long


def main_error(arguments: list[str]) -> None:
    parser().parse_args(arguments)


def test_a_message_keeps_its_ends() -> None:
    error = InputError("run", got="a" * 900 + " at last", expected="b " * 500, hint="c" * 700 + " now")
    assert len(str(error)) < 500 and " at last; expected b b" in str(error) and str(error).endswith("c now.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    short = InputError("run", got="x" * 300, expected="y", hint="z")
    assert short.got == "x" * 300
