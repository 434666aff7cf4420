"""Sphinx extension: the directive `your-sentence` puts the text box that explains a reader's own sentence.

`make book` stages the engine and the embedded model once, in `_static/live/`; only the page with the
directive, and the text boxes of chapter 3, load them, when they are asked to. `make book
LIVE=0` leaves them out, and the page says so.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_book.front import EXAMPLES, MODEL
from lrp_book.sphinx import Made, shows
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.page.live_page import Live, prepare
from lrp_companion.widgets.layers import SentenceBox, with_live

VARIABLE = "LRP_COMPANION_LIVE"
FOLDER = "live/companion/"
RECORD = Path(__file__).resolve().parents[3] / "results" / "browser-engine" / "companion.json"
_NO_KERNEL = re.compile(
    r'<p class="lrp-no-kernel" data-feeds="(\w+)">.*?</p>', re.DOTALL
)  # see `widgets/layers.py`
LEFT_OUT = (
    "This build of the book leaves the model out, so nothing can be typed here; make book without LIVE=0 "
    "brings it."
)


def wanted() -> bool:
    """Return whether the book takes the live model along: unless LIVE=0."""
    value = os.environ.get(VARIABLE, "1") or "1"
    if value not in ("0", "1"):
        hint = "leave it out to take the live model along"
        raise InputError("make book", got=f"LIVE={value}", expected="0 or 1", hint=hint)
    return value == "1"


def stage_live(app: Sphinx) -> None:
    """Stage the embedded model for the book, once per build, and hand the folder to Sphinx."""
    app.companion_live = None  # type: ignore[attr-defined]
    if app.builder.format != "html" or not wanted():
        return
    clf, folder = load_classifier(MODEL), Path(app.doctreedir, "companion_live")
    shutil.rmtree(folder, ignore_errors=True)
    live = prepare(clf, folder / FOLDER, list(EXAMPLES), every_mask=True)
    app.companion_live = live  # type: ignore[attr-defined]
    app.config.html_static_path.append(str(folder))


def cost_of_rounding(record: dict[str, Any]) -> str:
    """Return the cost of 8 bits per weight, in a sentence, from a record of `tests/engine_agreement.py`.

    >>> methods = {"loo": {"r": {"mean": 0.9998, "least": 0.9951}}}
    >>> record = {"texts": 40, "predicted class equal": 0.975, "methods": methods}
    >>> cost_of_rounding(record)  # doctest: +ELLIPSIS
    'Over 40 texts, ... mean r of at least 0.9998 (lowest: 0.995), and the predicted class is the same in 39.'
    """
    methods = record["methods"].values()
    mean, least = (min(rows["r"][key] for rows in methods) for key in ("mean", "least"))
    same = round(record["texts"] * record["predicted class equal"])
    floor = [math.floor(value * 10**digits) / 10**digits for value, digits in ((mean, 4), (least, 3))]
    return (
        f"Over {record['texts']} texts, the maps of each method agree with those of the unrounded model at a "
        f"mean r of at least {floor[0]:.4f} (lowest: {floor[1]:.3f}), and the predicted class is the same in "
        f"{same}."
    )


def text_box(directive: SphinxDirective) -> Made:
    """The text box, or a line if the model was left out."""
    live: Live | None = directive.env.app.companion_live  # type: ignore[attr-defined]
    if live is None:
        return [nodes.paragraph("", LEFT_OUT)]
    return live.widget(f"{'../' * directive.env.docname.count('/')}_static/{FOLDER}").page_html()


def wake_text_boxes(app: Sphinx, doctree: nodes.document) -> None:
    """Replace text boxes that need a kernel by ones that ask the staged model.

    Slides do not change, because they have no room for it.
    """
    live: Live | None = app.companion_live  # type: ignore[attr-defined]
    if live is None or app.env.docname.startswith("book/slides/"):
        return
    folder = f"{'../' * app.env.docname.count('/')}_static/{FOLDER}"
    for node in list(doctree.findall(nodes.raw)):
        text = node.astext()
        if place := _NO_KERNEL.search(text):
            staged = {**live.model, "folder": folder}
            before, after = text[: place.start()], text[place.end() :]
            if place[1] == "layer_flow":
                shown = before + SentenceBox(staged).page_html() + after
            else:  # it has a text box of its own
                shown = with_live(before, staged) + after
            node.replace_self(nodes.raw("", shown, format="html", classes=node["classes"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.connect("builder-inited", stage_live)
    made = json.loads(RECORD.read_text(encoding="utf-8"))["the model's own weights"]
    app.add_directive("cost-of-rounding", shows(lambda _: [nodes.paragraph("", cost_of_rounding(made))]))
    app.connect("doctree-read", wake_text_boxes)
    app.add_directive("your-sentence", shows(text_box))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
