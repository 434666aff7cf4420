"""The page that has the paper's tables beside our numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from lrp_book import look_up
from lrp_book.committed import Records, records

from lrp_companion.metrics import Interval
from lrp_companion.paper.published import paper_table

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def kept() -> Records:
    return records(ROOT / "results")


@pytest.fixture(scope="module")
def page(kept: Records) -> str:
    return "\n".join(look_up.page(kept))


def test_every_number_of_the_paper_is_there(page: str, kept: Records) -> None:
    """Table 2's r and curves and every step of Table A3, as printed."""
    for data in look_up.DATA:
        table = [row for row in paper_table("table2") if row["dataset"] == data and row["method"] != "LOO"]
        for reading in look_up.READINGS:
            rows = dict(look_up.agreement_rows(kept, data, reading))
            named = {"IG": "IG", "AttentionRollout": "rollout"}
            for row in table:
                cells = rows[named.get(row["method"], row["method"])]
                assert cells[0].value == row["loo_r"] and len(cells) == 5
        steps = [row for row in paper_table("tableA3") if row["dataset"] == data]
        for path in look_up.PATHS:
            ours = sorted(cells[0].value for _, cells in look_up.path_rows(kept, data, path))
            assert ours == sorted(r["loo_r"] for r in steps if r["path"].replace("_", "-") == path)
    assert page.count('<figure class="lrp-table">') == 2 + 2 * 4 + 2 * 3 + 1


def test_numbers_are_those_of_the_maps(kept: Records) -> None:
    """A second way: r with numpy alone from the maps that a run kept."""
    run = kept.with_maps("sst2-12")
    maps = zip(run.maps("attnlrp", site="word+position"), run.loo(), strict=True)
    found = [np.corrcoef(np.asarray(mine)[1:], np.asarray(loo)[1:])[0, 1] for mine, loo in maps]
    cell = look_up.ours(kept, "sst2-12", "attnlrp", "The same without [CLS]", "pearson")
    assert isinstance(cell.value, Interval) and cell.value.mean == pytest.approx(np.mean(found), abs=1e-6)
    table = dict(look_up.agreement_rows(kept, "SST", "Words only"))
    assert table["IG"][1].value.mean == pytest.approx(0.617, abs=5e-4)


def test_every_number_of_ours_leads_to_its_run(page: str) -> None:
    addresses = set(re.findall(r'href="#([^"]+)"', page))
    assert len(addresses) == 8 and len(re.findall("href", page)) > 400
    for address in addresses:
        assert page.count(f'id="{address}"') == 1


def test_the_built_page(page: str) -> None:
    built = ROOT / "_build" / "html" / "book" / "look_up.html"
    if not built.is_file():
        pytest.skip("the book is not built: make book")
    text = built.read_text(encoding="utf-8")
    assert len(text) < 3e6 and text.count('class="lrp-table"') == page.count('class="lrp-table"')
    for name in ("look-up-1", "look-up-2-sst", "look-up-2-imdb", "look-up-a3-sst", "look-up-a3-imdb"):
        assert f'id="{name}"' in text
    index = (ROOT / "_build" / "html" / "book" / "index.html").read_text(encoding="utf-8")
    assert 'href="look_up.html"' in index
