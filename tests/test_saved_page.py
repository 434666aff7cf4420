"""A widget as one file: alive in a browser that reaches nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browsing import state_of

from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, layer_lattice
from lrp_companion.widgets import LayerToggles, TokenHeatmap


@pytest.fixture(scope="module")
def toggles(clf: Classifier) -> LayerToggles:
    text = "a film of rare grace </script><script>window.bad = 1</script>"
    lattice = layer_lattice(clf, text)
    widget = LayerToggles(lattice, attribute(clf, text, method="loo", target=lattice.target))
    widget.bypassed = [2]
    return widget


MARKS = "\u202e\u2066\u200f\u061c\xad\u2028"


def test_rows_run_as_their_text_is_read_and_hide_no_mark(tmp_path: Path, visit) -> None:
    texts = (("הסרט", f"היה{MARKS}", "טוב"), ("فيلم", "رائع", "جدا"), ("I", "love", "הסרט"))
    records = [
        Attribution(
            ("[CLS]", *words, "[SEP]"), np.linspace(-1, 1, 5), 1, 2.5, np.eye(5)[0] + np.eye(5)[4] > 0, "loo"
        )
        for words in texts
    ]
    widget = TokenHeatmap(records, titles=[f"class {MARKS}", "Arabic", "mixed"])
    widget.save(tmp_path / "rows.html")
    assert not set((tmp_path / "rows.html").read_text(encoding="utf-8")) & set(MARKS)
    page = visit((tmp_path / "rows.html").as_uri())
    page.wait_for_selector("[data-ready]")
    widget.rows[0]["tokens"][3] = "raw\u202e"
    page.evaluate(
        "rows => document.querySelector('.lrp-widget').companion.model.set('rows', rows)", widget.rows
    )
    rights = page.evaluate(
        """() => [...document.querySelectorAll("ol.lrp-tokens")].map((row) => {
          const [first, second] = [...row.children].map((item) => item.getBoundingClientRect().x);
          return first > second;
        })"""
    )
    assert rights == [True, True, False]
    assert not set(page.inner_text("body")) & set(MARKS) and "raw\\u202e" in page.inner_text("body")
    first, second = (page.locator("ol.lrp-tokens li").nth(k) for k in (0, 1))
    first.focus()
    page.keyboard.press("ArrowLeft")
    assert second.evaluate("item => item === document.activeElement")


def test_one_file_is_alive_offline(toggles: LayerToggles, tmp_path: Path, visit) -> None:
    toggles.save(tmp_path / "layers.html")
    assert [path.name for path in tmp_path.iterdir()] == ["layers.html"]
    page = visit((tmp_path / "layers.html").as_uri(), axe="main", offline=True)
    assert state_of(page, "bypassed") == [2]  # as it was when it was saved
    page.get_by_role("button", name="CP-LRP").click()
    assert state_of(page, "bypassed") == [1, 2, 3]
    assert page.evaluate("window.bad") is None
