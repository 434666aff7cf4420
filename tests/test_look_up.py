"""The page that has the paper's tables beside our numbers, and its CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lrp_book import look_up

from lrp_companion.lab.paper.published import paper_table


def test_every_number_of_the_paper_is_there() -> None:
    """Table 1, Table 2's r and curves, every step of Table A3: as printed, and beside each of them ours."""
    numbers = look_up.numbers().dropna(subset=["paper", "mean"])
    known = numbers.groupby(["table", "data"]).paper.apply(lambda of: {*of.round(4)})
    expected: dict[tuple[str, str], set[float]] = {}
    for table, name in (("table1", "Table 1"), ("table2", "Table 2"), ("tableA3", "Table A3")):
        for row in paper_table(table):
            key = name, {"SST": "SST-2"}.get(data := row.get("dataset", "MNIST"), data)
            wanted = ("loo_r", "lerf", "morf", "delta") if table == "table2" else ("loo_r",)
            columns = [column for column in row if column in wanted or table == "table1"][-4:]
            values = {row[column] for column in columns if isinstance(row[column], float)}
            if row.get("method") != "LOO":
                expected.setdefault(key, set()).update(values)
    for key, values in expected.items():
        assert values <= known[key], key
    steps = look_up.numbers().query("table == 'Table A3' and by == 'Pearson' and counted == 'words'")
    assert (steps.groupby(["data", "model"]).of.nunique() == 36).all()


def test_the_box_shows_the_rows_that_hold_all_that_is_asked(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(look_up.page())
    rows = page.locator("#look-up tbody tr")
    every = rows.count()
    assert every == len(look_up.numbers())
    shown = page.locator("#look-up tbody tr:visible")
    assert 0 < shown.count() < 40
    page.get_by_label("Find").fill("table a3, imdb, back to front")
    assert 0 < shown.count() < every
    assert {text.split("\t")[-1].strip() for text in shown.all_inner_texts()} == {"Table A3"}
    assert page.locator("#look-up-shown").inner_text() == f"{shown.count()} of {every} numbers"
    page.get_by_label("Find").fill("")
    assert shown.count() == every


def test_the_built_page(html: Path) -> None:
    text = (html / "book" / "look_up.html").read_text(encoding="utf-8")
    assert len(text) < 3e6 and f'href="../_static/{look_up.FILE}"' in text
    lines = (html / "_static" / look_up.FILE).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(look_up.numbers()) == 1 + text.count("<tr><td>")
