"""Sphinx extension: the answers to a mask hunt, computed from the widget's numbers.

`{mask-hunt} PAGE NAME` reads the layer toggles of an executed notebook and writes a table: how well both
ends agree with LOO, and the best mask of at most one, two, ... bypassed layers. So a speaker's notes hold no
number that was typed in.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_book.sphinx.slides import WIDGET, find_cell
from lrp_companion.checks import InputError

_UNDEFINED, _STEPS = -32768, 32767  # as in layer_toggles.js


def agreements(packed: str) -> np.ndarray:
    """Return the r with LOO of every mask, nan where it is undefined, as the widget keeps them.

    >>> agreements("AAD/fwCA").tolist()
    [0.0, 1.0, nan]
    """
    steps = np.frombuffer(base64.b64decode(packed), "<i2")
    return np.where(steps == _UNDEFINED, np.nan, steps / _STEPS)


def hunt(r: np.ndarray, *, most: int = 4) -> dict[str, Any]:
    """Return both ends' r, the best mask of at most 1 to `most` layers, and how many of these beat both ends.

    A mask is a number whose bit l - 1 is layer l; ends are the first (AttnLRP) and the last mask (CP-LRP).

    >>> hunt(np.array([0.1, 0.2, 0.6, 0.3]), most=1)
    {'ends': (0.1, 0.3), 'best': [(1, (2,), 0.6)], 'better': 1, 'masks': 3}
    """
    layers = len(r).bit_length() - 1
    sizes = np.array([mask.bit_count() for mask in range(len(r))])
    best = []
    for size in range(1, most + 1):
        mask = int(np.nanargmax(np.where(sizes <= size, r, np.nan)))
        named = tuple(layer for layer in range(1, layers + 1) if mask >> (layer - 1) & 1)
        best.append((size, named, float(r[mask])))
    few = sizes <= most
    better = int((r[few] > np.nanmax([r[0], r[-1]])).sum())
    return {"ends": (float(r[0]), float(r[-1])), "best": best, "better": better, "masks": int(few.sum())}


def in_words(result: dict[str, Any]) -> str:
    """Return the outcome of a hunt as a sentence and a table in Markdown."""
    attnlrp, cp = result["ends"]
    head = (
        f"AttnLRP has r = {attnlrp:.2f}, CP-LRP {cp:.2f}; {result['better']:,} of {result['masks']:,} masks"
    )
    lines = [f"{head} of so few layers are better than both.", ""]
    lines += ["| at most | best layers | r |", "| ---: | --- | ---: |"]
    for size, layers, r in result["best"]:
        lines.append(f"| {size} | {', '.join(map(str, layers)) or 'none'} | {r:.2f} |")
    return "\n".join(lines)


def table_of(
    notebook: nbformat.NotebookNode, name: str, *, sentence: int, site: str, tokens: str
) -> np.ndarray:
    """Return the r of every mask of one sentence that a notebook's layer toggles hold."""
    for output in find_cell(notebook, name).get("outputs", []):
        markup = output.get("data", {}).get("text/html", "")
        if widget := WIDGET.search(markup if isinstance(markup, str) else "".join(markup)):
            sentences = json.loads(widget["data"])["state"]["data"].get("sentences", [])
            try:
                return agreements(sentences[sentence]["sites"][site]["r"][tokens])
            except (IndexError, KeyError):
                break
    got = f"{name}, sentence {sentence}, {site}, {tokens}"
    raise InputError(
        "mask-hunt", got=got, expected="layer toggles that hold it", hint="look into the notebook"
    )


class MaskHuntDirective(SphinxDirective):
    """`{mask-hunt} PAGE NAME` with the options `sentence`, `site`, `tokens` and `most`."""

    required_arguments = 2
    option_spec = {
        "sentence": directives.nonnegative_int,
        "site": directives.unchanged_required,
        "tokens": directives.unchanged_required,
        "most": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        """Return the sentence and the table."""
        page, name = self.arguments
        path = Path(self.env.srcdir, f"{page}.ipynb")
        if not path.is_file():
            raise self.error(f"mask-hunt: there is not a notebook {page}")
        self.env.note_dependency(str(path))
        place = {key: self.options.get(key, usual) for key, usual in (("sentence", 0), ("site", "word"))}
        try:
            r = table_of(
                nbformat.read(path, as_version=4), name, tokens=self.options.get("tokens", "all"), **place
            )
        except InputError as error:
            raise self.error(f"{page}: {error}") from None
        shown = self.parse_text_to_nodes(in_words(hunt(r, most=self.options.get("most", 4))))
        return [nodes.container("", *shown, classes=["mask-hunt"])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_directive("mask-hunt", MaskHuntDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
