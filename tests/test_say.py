"""Sentences with numbers, what is missing from them, and what a notebook keeps for other pages."""

from __future__ import annotations

import json
from pathlib import Path

from lrp_book.committed import records
from lrp_book.say import MIME, keep, kept_in, number, say

from lrp_companion.metrics import Interval

RESULTS = Path(__file__).resolve().parents[1] / "results"
VALUE = Interval(-0.021, -0.03, -0.014, 1872)


def test_numbers_in_words() -> None:
    assert [number(x) for x in (VALUE, 3, 0.525, -0.5, "open")] == [
        "\u22120.02 [\u22120.03, \u22120.01]",
        "3",
        "0.53",
        "\u22120.50",
        "open",
    ]


def test_a_sentence_without_its_records_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "sst2-companion").symlink_to(RESULTS / "sst2-companion")
    kept = records(str(tmp_path))
    said = say(
        lambda: f"{kept.text('sst2-12').n} here",
        lambda: f"{kept.text('imdb-12').n} not",
        lambda: f"{kept.sheets('embedding-shift')}",
        lambda: f"{kept.trained_again('companion-6-short')}",
        lambda: f"{kept.with_maps('sst2-12')}",
        lambda: f"{kept.digits()}",
    )
    assert said.sentences == ("872 here",) and said.left_out == 5
    assert said._repr_markdown_().startswith("- 872 here\n- *Left out: 5 more")
    assert "Left out: 5 more" in repr(said) and "Left out" not in repr(say(lambda: "all"))
    assert keep({"n": lambda: kept.text("sst2-12").n, "gone": lambda: kept.digits()}).by_name == {"n": "872"}


def test_a_notebook_keeps_numbers_in_its_outputs(tmp_path: Path) -> None:
    bundle = keep({"a": lambda: VALUE, "b": lambda: 2})._repr_mimebundle_()
    assert bundle[MIME] == {"a": number(VALUE), "a, n": "1,872", "b": "2"}
    assert bundle["text/plain"].splitlines()[1] == "a, n: 1,872"
    cells = [{"source": "text"}, {"outputs": [{"data": {"text/plain": "a: 1"}}, {"data": bundle}, {}]}]
    file = tmp_path / "notebook.ipynb"
    file.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert kept_in(file) == bundle[MIME]
