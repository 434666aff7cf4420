"""The page that has the paper's tables beside our numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from lrp_book import look_up
from lrp_book.committed import Records, records

from lrp_companion.lab.paper.published import paper_table

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
        for reading in look_up.READINGS.values():
            rows = dict(look_up.agreement_rows(kept, data, reading))
            named = {"IG": "IG", "AttentionRollout": "rollout"}
            for row in table:
                cells = rows[named.get(row["method"], row["method"])]
                assert cells[0].value == row["loo_r"] and len(cells) == 5
        steps = [row for row in paper_table("tableA3") if row["dataset"] == data]
        for path in look_up.PATHS:
            ours = sorted(cells[0].value for _, cells in look_up.path_rows(kept, data, path))
            assert ours == sorted(r["loo_r"] for r in steps if r["path"].replace("_", "-") == path)
    assert page.count('<figure class="lrp-table">') == 2 + 2 * 6 + 2 * 3 + 1


def test_numbers_are_those_of_the_maps(kept: Records) -> None:
    """A second way: r with numpy alone from the maps that a run kept."""
    run = kept.with_maps("sst2-12")
    found: dict[str, dict[str, list[float]]] = {"raw": {}, "sum-to-one": {}}
    for method in ("attnlrp", "cp-lrp"):
        for form, values in found.items():
            values[method] = []
            for one, loo in zip(run.maps(method, site="word+position"), run.loo(), strict=True):
                a, b = (np.asarray(row, float)[1:] for row in (one, loo))
                pair = (a / a.sum(), b / b.sum()) if form == "sum-to-one" else (a, b)
                values[method].append(np.corrcoef(*pair)[0, 1])
    for name, form in (("Tokens but [CLS], positions", "raw"), ("Divided, without [CLS]", "sum-to-one")):
        table = dict(look_up.agreement_rows(kept, "SST", look_up.READINGS[name]))
        for label, method in (("AttnLRP", "attnlrp"), ("CP-LRP", "cp-lrp")):
            assert table[label][1].value.mean == pytest.approx(np.mean(found[form][method]), abs=1e-6)
        gap = np.subtract(found[form]["cp-lrp"], found[form]["attnlrp"]).mean()
        assert table["CP-LRP \N{MINUS SIGN} AttnLRP"][1].value.mean == pytest.approx(gap, abs=1e-6)
    table = dict(look_up.agreement_rows(kept, "SST", look_up.READINGS["Words only"]))
    assert table["IG"][1].value.mean == pytest.approx(0.617, abs=5e-4)


def test_every_number_of_ours_leads_to_its_run(page: str) -> None:
    addresses = set(re.findall(r'href="#([^"]+)"', page))
    assert len(addresses) == 10 and len(re.findall("href", page)) > 400
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
