"""500 of the cases of `fuzz_runs.py`: a finite result of the documented shape, or an error that says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fuzz_runs import Subject, obeys, subjects, try_all
from hypothesis import strategies as st
from plain_values import Plain, compare
from tiny_models import build

import lrp_companion as lrp
from lrp_companion.sources import VARIABLE

RECORDS = {
    "Attribution",
    "Completion",
    "Lattice",
    "ModelCard",
    "Classifier",
    "method",
    "LinearAttention",
    "LiveSentence",
    "family",
    "load_classifier",
    "rule_set",
}
"""Made by the functions that are tried, or from code."""


def test_500_cases(model_folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    try_all(model_folder("bert"), tmp_path, 500)


def test_every_public_function_is_tried(model_folder) -> None:
    functions = {
        name
        for name in lrp.__all__
        if callable(getattr(lrp, name))
        and not (isinstance(getattr(lrp, name), type) and issubclass(getattr(lrp, name), Exception))
        and not hasattr(getattr(lrp, name), "_esm")  # widgets take records
    }
    assert functions - RECORDS <= set(subjects(model_folder("bert")))


@pytest.mark.parametrize("result", [lambda: 1 / 0, lambda: float("nan")])
def test_what_breaks_the_rule_is_told(result) -> None:
    subject = Subject(result, lambda value: bool(np.isfinite(value)), {"x": st.none()})
    with pytest.raises((AssertionError, ZeroDivisionError)):
        obeys(subject, {})


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
@pytest.mark.parametrize("method", ["loo", "gradient-x-input"])
def test_a_value_that_is_not_that_of_a_plain_call_is_told(family: str, method: str) -> None:
    network, tokenizer = build(family)
    clf = lrp.load_classifier(network, tokenizer, dtype="float64")
    (record,) = lrp.attribute(clf, "a film", method=method)
    plain = Plain(network, tokenizer)
    compare(clf, plain, "a film", [record])
    for other in (replace(record, scores=record.scores + 1e-3), replace(record, logit=record.logit + 1e-3)):
        with pytest.raises(AssertionError, match="apart"):
            compare(clf, plain, "a film", [other])
