"""The table of families and checks in the book holds what pytest collects."""

from __future__ import annotations

import json

import pytest
from family_checks import CHECKS, FAMILIES, ROOT, collected, family_of, rows
from lrp_book.sphinx.tables import check_table
from tiny_models import IMAGE_FAMILIES

from lrp_companion.families import FAMILIES as WIRED

KEPT = json.loads((ROOT / "book" / "family_checks.json").read_text(encoding="utf-8"))


def test_the_table_holds_what_is_collected(request: pytest.FixtureRequest) -> None:
    """By this session or, where it is a part, by one of its own; made by `tests/family_checks.py`."""
    here = (item.nodeid for item in request.session.items)
    assert rows(here) == KEPT or rows(collected()) == KEPT


def test_every_family_is_in_every_check_that_can_have_it() -> None:
    assert set(FAMILIES) == set(WIRED)
    by_task: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row in KEPT:
        by_task.setdefault(row["task"], {})[row["method"], row["check"]] = row["families"]
    assert all(row == list(IMAGE_FAMILIES) for row in by_task["classes of an image"].values())
    by_check = by_task[CHECKS[0][0]]
    for what in (
        ("the forward pass", "logits of `transformers`, padded"),
        ("AttnLRP, CP-LRP, layers bypassed", "the gradient of the network with factors detached"),
        ("AttnLRP, CP-LRP, layers bypassed", "Eq. (1) to (5) on relevance, with epsilon"),
        ("LOO", "one call of the network per token"),
        ("mask gradient", "finite differences of the soft mask"),
        ("all masks of the layers", "runs one by one"),
    ):
        assert by_check[what] == [name for name in FAMILIES if name not in IMAGE_FAMILIES], what


def test_a_family_is_read_from_the_parameters() -> None:
    read = {
        "xlm-roberta-mask-token": "xlm-roberta",
        "left-gemma3_text": "gemma3_text",
        "bert, mean-1": "bert",
    }
    assert {case: family_of(case) for case in read} == read and family_of("0.05-uniform") is None


def test_the_page_names_the_families_in_words() -> None:
    lines = check_table(KEPT)
    assert len(lines) == len(CHECKS) + 2
    assert f"all {len(FAMILIES) - len(IMAGE_FAMILIES)}" in lines[2]
    assert sum(line.endswith("| all 2 |") for line in lines) == 16
