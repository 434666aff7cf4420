"""A staged model with the widget that uses it to explain texts, and a page for any classifier."""

from __future__ import annotations

import html
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lrp_companion
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, layer_lattice
from lrp_companion.page.browser_engine import MAX_TOKENS, Staged, stage
from lrp_companion.page.browser_tokenizer import drops_hidden
from lrp_companion.schema import Lattice
from lrp_companion.show.tokens import page
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import front_end, page_script
from lrp_companion.widgets.layers import LayerToggles

METHODS = ("loo", "attnlrp", "cp-lrp", "mask-gradient")
BESIDE_WEIGHTS = 130_000_000
"""Approximate bytes of a tab besides the weights: from 100 MB over the network to 190 MB from disk in
Chromium.
"""
STYLE = (
    "body{margin:1em auto;max-width:70em;padding:0 1em;font:16px/1.4 sans-serif}"
    'html[data-theme="dark"]{background:#121212;color:#f0f0f0}'
)
THEME = """const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
"""
"""An exported page is light or dark as the reader's system asks."""
NEUTRAL = ("Type your own text here.", "Type a second text to compare it with.")
"""The text in the boxes of a page for a model without examples."""


@dataclass(frozen=True)
class Live:
    """A staged model with a page's description of it."""

    model: dict[str, Any]
    maps: list[list[Attribution]]
    """Of each example, in the order of `METHODS`."""
    lattices: list[Lattice]
    """Of each example, or none."""

    def widget(self, folder: str) -> LayerToggles:
        """Return the widget for a page from which the model is seen in `folder`."""
        loo, others = [of_text[0] for of_text in self.maps], [of_text[1:] for of_text in self.maps]
        live = {**self.model, "folder": folder}
        return LayerToggles(self.lattices, loo, others=others, live=live, address="sentence")


def prepare(
    clf: Classifier,
    folder: Path,
    examples: Sequence[str],
    *,
    max_tokens: int = MAX_TOKENS,
    every_mask: bool = False,
) -> Live:
    """Stage a model into a folder and compute what the page shows before a script runs.

    With `every_mask` the switches work on the examples before the model is loaded: `2**layers` maps of each.

    Raises
    ------
    ModelError : the browser's engine cannot run the model.
    InputError : an example cannot be read.
    """
    staged = stage(clf, folder, max_tokens=max_tokens)
    if drops_hidden(clf):  # as the page does with what is typed
        examples = [seen(text) or text for text in examples]
    clf.encode(list(examples))
    by_method = [attribute(clf, list(examples), method=method) for method in METHODS]
    maps = [list(of_text) for of_text in zip(*by_method, strict=True)]
    lattices = [layer_lattice(clf, text) for text in examples] if every_mask else []
    return Live(_said(clf, staged, max_tokens), maps, lattices)


def seen(text: str) -> str:
    """A text without characters that are not seen, white space as spaces, as in `layer_toggles.js`."""
    kept = (c for c in text if c in "\t\n\r" or unicodedata.category(c) not in ("Cc", "Cf"))
    return " ".join("".join(kept).split())


def _said(clf: Classifier, staged: Staged, max_tokens: int) -> dict[str, Any]:
    labels = [visible(str(label)) for label in clf.labels]
    return {
        "name": visible(clf.card.name),
        "drops": drops_hidden(clf),
        "multi": clf.multi_label,
        "labels": labels,
        "layers": clf.card.layers,
        "fetched": staged.bytes_on_disk,
        "sent": staged.bytes_sent,
        "memory": staged.bytes_in_memory + BESIDE_WEIGHTS,
        "longest": min(max_tokens, clf.max_tokens),
    }


def export_page(
    clf: Classifier,
    folder: str | os.PathLike,
    *,
    examples: Sequence[str] = (),
    title: str | None = None,
    max_tokens: int = MAX_TOKENS,
) -> Path:
    """Write a page that explains texts with your classifier, in any browser and without a server.

    The folder then holds `index.html` and the staged model. It works when opened from disk and on any static
    host; nothing in it asks another one.

    Parameters
    ----------
    clf : a BERT, DistilBERT or ELECTRA classifier with a WordPiece tokenizer, of up to 120 million weights in
        its layers (4 bytes each in the browser).
    folder : where it goes; it must not exist or be empty.
    examples : sample texts to offer in the page.
    title : the page's heading.
    max_tokens : the page refuses texts with more tokens.

    Raises
    ------
    ModelError : the engine cannot run the model.
    InputError : the folder is not empty, or an example cannot be read.

    >>> lrp_companion.page.live_page.export_page(clf, "my-page")  # doctest: +SKIP
    PosixPath('my-page/index.html')
    """
    texts = [text for text in examples if text.strip()] or list(NEUTRAL)
    out = _free_folder(folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        live = prepare(clf, making / "model", texts, max_tokens=max_tokens)
        widget, heading = live.widget("model/"), title or f"Explain a text: {clf.card.name}"
        body = f"<h1>{html.escape(visible(heading))}</h1>{_limits(live, clf)}{widget.page_html()}"
        style, script = STYLE + front_end(widget.front, "css"), THEME + page_script(widget.front)
        text = page(heading, body, style=style, script=script)
        (making / "index.html").write_text(text, encoding="utf-8")
        making.chmod(0o755)
        if out.is_dir():
            out.rmdir()
        making.rename(out)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return out / "index.html"


def _free_folder(folder: str | os.PathLike) -> Path:
    """The folder as a path, if nothing would be lost in it."""
    out = Path(folder).expanduser()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        hint = "name a new one, or empty it first"
        raise InputError("export-page", got=f"{out}, which holds files", expected="a new folder", hint=hint)
    return out


def _limits(live: Live, clf: Classifier) -> str:
    """The page's abilities and limits, in a paragraph."""
    model, name = live.model, html.escape(visible(clf.card.name))
    sizes = f"about {model['memory'] / 1e6:.0f} MB of memory"
    return (
        f"<p>Leave-One-Out next to AttnLRP, CP-LRP and the mask gradient, for texts of up to "
        f"{model['longest']} tokens. The model ({name}, {model['layers']} layers) runs "
        f"in this page, with its matrices rounded to 8 bits: {sizes}. What you type stays in the page. Made "
        f"with LRP Companion {lrp_companion.__version__}.</p>"
    )
