"""500 of the cases of `fuzz_runs.py`: a `CompanionError`, or a finite result of the documented shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fuzz_runs import Subject, obeys, subjects, try_all
from hypothesis import strategies as st

import lrp_companion as lrp
from lrp_companion.sources.folder import VARIABLE

RECORDS = {
    "Attribution",
    "Lattice",
    "ModelCard",
    "Classifier",
    "method",
    "LinearAttention",
    "LiveSentence",
    "family",
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
