"""Sentences filled with findings: numbers, what is missing, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from lrp_book.analysis.findings import finding
from lrp_book.views import answers

from lrp_companion import InputError

RESULTS = Path(__file__).resolve().parents[1] / "results"


def test_names_become_their_numbers() -> None:
    said = answers(["SST-2: {sst2-12, n} sentences.", "No number."], results=RESULTS)
    assert said.sentences == ("SST-2: 872 sentences.", "No number.") and not said.left_out
    assert said._repr_markdown_() == "- SST-2: 872 sentences.\n- No number."


def test_a_sentence_without_its_records_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "sst2-companion").symlink_to(RESULTS / "sst2-companion")
    said = answers(["{sst2-12, n} here", "{imdb-12, n} not", "{shift, attnlrp, lowest}"], results=tmp_path)
    assert said.sentences == ("872 here",) and said.left_out == 2
    assert "Left out: 2 more" in repr(said) and "Left out: 2 more" in said._repr_markdown_()


def test_a_name_that_is_none_is_refused_with_near_ones() -> None:
    with pytest.raises(InputError, match="perhaps: sst2-12, CP-LRP minus AttnLRP, words"):
        answers(["{sst2-12, CP-LRP minus AttnLRP, word}"], results=RESULTS)


def test_every_number_of_a_sentence_is_the_finding() -> None:
    name = "sst2-12, CP-LRP minus AttnLRP, positions, median"
    assert answers([f"x {{{name}}} y"], results=RESULTS).sentences == (f"x {finding(name, RESULTS)} y",)
