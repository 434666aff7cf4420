"""What users do and we refuse: what came to which operation, what was expected, the next step."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from tiny_models import build, pre_norm

import lrp_companion as lrp
from lrp_companion.checks import CompanionError, InputError, ModelError, SourceError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import (
    METHODS,
    attribute,
    layer_lattice,
    layer_relevance,
    method_call,
    removal_evaluator,
)

SHAPE = re.compile(r"^[\w.]+: got .+; expected .+\. Next step: .+\.$", re.DOTALL)
AWAY = "completion with a target or a position"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # kind of network, how `attribute` is called ("loo" of "a film" else), and what is said
    ("bert", {"inputs": []}, "no texts"),
    ("bert", {"inputs": ()}, "no texts"),
    ("bert", {"inputs": None}, "text 0 of type NoneType; expected a string"),
    ("bert", {"inputs": ["fine", " \n"]}, "text 1 which is empty or only whitespace"),
    ("bert", {"inputs": ["fine", b"film"]}, "text 1 of type bytes"),
    ("bert", {"inputs": "\u200b\u0000"}, "text 0 with no token but special ones"),
    ("bert", {"inputs": ["film", "film " * 60]}, "text 1 of 62 tokens; expected at most 32 tokens"),
    ("bert", {"method": "atnlrp"}, "method 'atnlrp'; expected one of loo, ig, gradient"),
    ("bert", {"method": "attnlrp", "bypass": [1]}, "option 'bypass' for method 'attnlrp'"),
    ("bert", {"removal": "x"}, "removal 'x'; expected one of attention-mask, mask-token, pad-token, delete"),
    ("bert", {"target": 3}, "target 3; expected a class from 0 to 2"),
    ("bert", {"target": 1.0}, "target 1.0; expected a class from 0 to 2"),
    ("bert", {"inputs": ["film", "plot"], "target": [0]}, "1 targets for 2 inputs"),
    ("bert", {"contrast": 0}, "contrast 0 without a target"),
    ("bert", {"target": 1, "contrast": 1}, "the class 1 against itself"),
    ("bert", {"target": [1, 0], "contrast": 1}, "target .1, 0."),
    ("bert", {"target": 1, "contrast": 0, "output": "probability"}, "contrast with output 'probability'"),
    ("bert", {"method": "rollout", "target": 1, "contrast": 0}, "option 'contrast' for method 'rollout'"),
    ("bert", {"method": "lrp", "bypass": [1, 4]}, "layer 4; expected integers from 1 to 3"),
    ("bert", {"method": "lrp", "bypass": itertools.count(1)}, "layer 4"),
    ("bert", {"method": "lrp", "cut": ("key", "words")}, "cut .'key', 'words'.; expected one of query, key"),
    ("bert", {"method": "attnlrp", "epsilon": -1e-9}, "epsilon -1e-09; expected a finite number, at least 0"),
    ("bert", {"method": "attnlrp", "epsilon": float("nan")}, "epsilon nan"),
    ("bert", {"method": "ig", "n_steps": 1001}, "n_steps 1001; expected a whole number from 1 to 1000"),
    ("bert", {"method": "rollout", "residual": "no"}, "residual 'no'; expected True or False"),
    ("bert", {"method": "mask-gradient", "nodes": [0.2, 1]}, "with groups 1"),
    ("bert", {"method": "mask-gradient", "groups": 2, "nodes": [1 - 1e-15, 1]}, "1e-06 apart"),
    ("bert", {"method": "shapley", "permutations": 5}, "an even number"),
    ("bert", {"unit": ["banana"]}, "'banana', 0 times"),
    ("bert", {"unit": ["a film", (2, 6)]}, "overlap"),
    ("bert", {"completion": " warm"}, "expected a model of the next token"),
    ("llama", {"completion": []}, "at least one token"),
    ("llama", {"completion": [10**6]}, "token id 1000000"),
    ("llama", {"completion": 100}, "prompt and completion of"),
    ("llama", {"completion": " warm", "target": 3}, AWAY),
    ("llama", {"completion": " warm", "position": 1}, AWAY),
    ("llama", {"completion": " warm dull", "contrast": " dull"}, "as many tokens as the completion, 2"),
    ("llama", {"completion": " warm", "contrast": " dull", "output": "margin"}, "output 'margin'"),
    ("llama", {"inputs": ["a film", "dull"], "completion": [" warm"] * 3}, "2 prompts, and 3 and 2"),
    ("llama", {"target": " the film" * 40}, "tokens, .' the', .*; expected the text of one token"),
]


def message(kind: type[CompanionError], call, *args: object, **options: object) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert SHAPE.match(text), text
    assert caught.value.operation and caught.value.hint
    return text


@pytest.fixture(scope="module")
def writer() -> Classifier:
    return load_classifier(*pre_norm("llama", task="ForCausalLM"))


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_attribute_refuses(clf: Classifier, writer: Classifier, case: int) -> None:
    family, options, words = REFUSED[case]
    asked = {"inputs": "a film", "method": "loo", **options}
    text = message(InputError, attribute, writer if family == "llama" else clf, **asked)
    assert re.search(words, text) and len(text) < 300, text


def test_what_other_functions_refuse(clf: Classifier) -> None:
    for words, call, options in (
        ("62 tokens", layer_lattice, {"text": "film " * 60}),
        ("1 texts of type list", layer_lattice, {"text": ["film"]}),
        ("layer 99", layer_relevance, {"bypass": [99]}),
        ("target 'x'", removal_evaluator, {"target": "x"}),
        ("a mask of shape", removal_evaluator(clf, "film", target=0), {"keep": [[True, False]]}),
        ("every token removed", removal_evaluator(clf, "film", target=0), {"keep": [[False] * 3]}),
    ):
        known = options if "keep" in options else {"clf": clf, "text": "film", **options}
        assert words in message(InputError, call, **known)
    for thing in (clf.network, "companion", None):
        for call in (attribute, layer_lattice):
            text = message(
                ModelError, call, thing, "film", **({"method": "loo"} if call is attribute else {})
            )
            assert f"a model of type {type(thing).__name__}" in text and "load_classifier" in text
    for options in ({"bypass": [0]}, {"site": "words"}, {"shares": ((0.5, 0.6), (0.5, 0.5))}):
        message(InputError, lrp.rule_set, "bad", **options)
    assert "twice" in message(InputError, lrp.rule_set, "rollout") and "bad" not in METHODS


def test_a_method_that_is_named_with_its_options() -> None:
    for name, words in (
        ("shap:groups=2", "method 'shap'"),
        ("mask-gradient:groups=", "each option once, as option=value"),
        ("mask-gradient:groups=2:groups=3", "each option once"),
        ("loo:groups=2", "option 'groups' for method 'loo'"),
    ):
        assert words in message(InputError, method_call, name)


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
