"""The table of families and checks in the book holds what pytest collects."""

from __future__ import annotations

import json

import pytest
from family_checks import CHECKS, FAMILIES, ROOT, collected, rows
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
