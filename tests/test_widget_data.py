"""Large data of widgets in a file that pages share."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lrp_book.sphinx.slides import WIDGET, in_state
from lrp_book.sphinx.widget_data import LARGE, shared

from lrp_companion.widgets.base import embed


def markup(size: int, **state: object) -> str:
    blob = {"state": {"data": {"text": "<" * size}, **state}, "address": {"name": "w", "keys": ["k"]}}
    return (
        '<div class="lrp-widget" data-companion-widget="softmax_lab" data-address="w">'
        f'<script type="application/json">{embed(blob)}</script></div>'
    )


def test_large_data_are_written_once_and_shared_by_pages_in_other_states() -> None:
    chapter, scripts = shared(markup(LARGE, k=1), "../_static")
    slide, same = shared(in_state(markup(LARGE, k=1), "k=2") * 2, "../../_static")
    assert scripts == same and len(scripts) == 1
    ((name, text),) = scripts.items()
    assert json.loads(text.split("] = ", 1)[1].removesuffix(";\n")) == {"text": "<" * LARGE}
    assert "<" not in text.split("] = ", 1)[1]
    assert slide.count(f'<script src="../../_static/{name}.js">') == 1
    blobs = [json.loads(widget["data"]) for widget in WIDGET.finditer(slide)]
    assert [blob["shared"] for blob in blobs] == [name, name]
    assert all(blob["state"] == {"k": 2} for blob in blobs)


def test_decks_weigh_less_than_a_megabyte_and_load_the_chapters_data(html: Path) -> None:
    loads = re.compile(r"_static/companion/data/(\w+)\.js")
    chapter = set(loads.findall((html / "notebooks/03_bert_layers.html").read_text(encoding="utf-8")))
    for deck in sorted((html / "book/slides").glob("session*.html")):
        text = deck.read_text(encoding="utf-8")
        assert len(text.encode()) < 1_000_000, deck.name
        if deck.stem == "session2":
            assert set(loads.findall(text)) & chapter, deck.name
