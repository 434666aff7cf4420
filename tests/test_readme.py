"""The README's first example is what it says: the code runs, and what it prints is printed beneath it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from lrp_companion.loading.classifier import embedded_models

README = Path(__file__).resolve().parent.parent / "README.md"
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.mark.skipif("companion" not in embedded_models(), reason="the embedded model is not in this checkout")
def test_the_first_example_prints_what_stands_below_it():
    page = README.read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, flags=re.S)
    assert example, "the first example has no output"
    code, shown = example.groups()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    printed = said.getvalue()
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (printed, shown)]
    # the last digit may round the other way on another machine
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0101)
    assert len(numbers[0]) > 5 and all(word in code for word in ('"loo"', '"attnlrp"', '"mask-gradient"'))
