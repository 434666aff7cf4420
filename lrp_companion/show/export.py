"""Heat maps as files: a page, a figure (SVG, PNG, PDF), or the records as JSON.

Every form shows the sign by a line, solid below for the class and dotted above against it, so that a print in
grey still reads.
"""

from __future__ import annotations

import html
import io
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, as_path
from lrp_companion.show.palette import INK, QUIET
from lrp_companion.show.tokens import HEATMAP_CSS, KEY, Cell, TokenRows, cells
from lrp_companion.terminal import visible

WIDTH, MARGIN, SIZE, SMALL = 468.0, 8.0, 10.0, 7.0  # points: the text width of a page, and type sizes
PAD, GAP, LINE, BELOW = 3.0, 3.0, 15.0, 10.0  # inside and between boxes; heights of a box and of its score
_PAGE_CSS = "body{margin:1em auto;max-width:60em;padding:0 1em;background:#fff;font:16px/1.4 sans-serif}"


def ending(operation: str, path: str | os.PathLike, endings: tuple[str, ...] = ()) -> str:
    """Return the ending of a path, if it is one of `endings` (by default those of `FORMS`)."""
    allowed, place = endings or tuple(FORMS), as_path(operation, "path", path)
    if place.suffix.lower() not in allowed or not place.absolute().parent.is_dir():
        expected = f"a path that ends in {', '.join(allowed)}, in a folder that is there"
        raise InputError(operation, got=f"path {str(path)!r}", expected=expected, hint="name another file")
    return place.suffix.lower()


def write(operation: str, path: str | os.PathLike, content: bytes) -> None:
    """Write a file."""
    as_path(operation, "path", path).write_bytes(content)


def page(title: str, body: str, *, style: str, script: str = "") -> str:
    """One page without any other file; `body` is markup, everything else is escaped or ours.

    >>> page("a < b", "<p>c</p>", style="").count("a &lt; b")
    1
    """
    scripts = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(visible(title))}</title><style>{style}</style></head>"
        f"<body><main>{body}</main>{scripts}</body></html>\n"
    )


def _as_page(rows: TokenRows) -> bytes:
    body = f'<div class="lrp-heatmap">{rows.html()}</div>'
    return page(rows.titles[0], body, style=_PAGE_CSS + HEATMAP_CSS).encode()


def _as_json(rows: TokenRows) -> bytes:
    pairs = zip(rows.titles, rows.rows, strict=True)
    records = [{"title": title, **record.to_dict()} for title, record in pairs]
    return (json.dumps(records, ensure_ascii=False, indent=1) + "\n").encode(errors="backslashreplace")


def as_figure(rows: TokenRows, kind: str) -> bytes:
    """A heat map as a figure; `kind` is "svg", "png" or "pdf". Scores stand below the tokens."""
    import matplotlib as mpl

    from lrp_companion.show.canvas import LOOK, Drawing

    look = {**LOOK, "svg.fonttype": "none", "svg.hashsalt": "lrp", "pdf.fonttype": 42}
    with mpl.rc_context(look):
        placed, height = _layout(rows)
        figure = Drawing(figsize=(WIDTH / 72, height / 72), dpi=200)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        axes.axis("off")
        for draw in placed:
            draw(axes)
        figure.alt = repr(rows)
        if kind == "png":
            return figure._repr_png_()
        out = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        figure.savefig(out, format=kind, metadata={"Title": visible(rows.titles[0]), **dated})
    return out.getvalue()


def _layout(rows: TokenRows) -> tuple[list[Callable], float]:
    """What is to be drawn, in points from the upper left corner, and the height."""
    placed: list[Callable] = []
    y = MARGIN
    for title, record in zip(rows.titles, rows.rows, strict=True):
        for line in _lines(visible(title), SIZE):
            placed.append(_text(MARGIN, y + SIZE, line, color=INK, size=SIZE))
            y += SIZE * 1.4
        x, y = MARGIN, y + GAP
        for cell in cells(record):
            wide = max(_wide(cell.text, SIZE), _wide(cell.score, SMALL)) + 2 * PAD
            if x > MARGIN and x + wide > WIDTH - MARGIN:
                x, y = MARGIN, y + LINE + BELOW + GAP
            placed.append(_box(x, y, wide, cell))
            x += wide + GAP
        y += LINE + BELOW + 3 * GAP
    for line in _lines(KEY, SMALL):
        placed.append(_text(MARGIN, y + SMALL, line, color=QUIET, size=SMALL))
        y += SMALL * 1.4
    return placed, y + MARGIN


def _wide(text: str, size: float) -> float:
    """The width of a text in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def _lines(text: str, size: float) -> Iterator[str]:
    """A text in lines that fit."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}".strip()
        if line and _wide(longer, size) > WIDTH - 2 * MARGIN:
            yield line
            longer = word
        line = longer
    yield line


def _text(x: float, y: float, text: str, **look: object) -> Callable:
    return lambda axes: axes.text(x, y, text, va="baseline", **look)


def _box(x: float, y: float, wide: float, cell: Cell) -> Callable:
    """A token's box, the line of its sign, and its score below."""
    edge = {"edgecolor": "#767676", "linestyle": (0, (3, 2)), "linewidth": 0.7}
    style = "italic" if cell.special else "normal"
    low, high = y + LINE, y

    def draw(axes: Any) -> None:
        from matplotlib.patches import Rectangle

        look = edge if cell.special else {"edgecolor": "none"}
        axes.add_patch(Rectangle((x, y), wide, LINE, facecolor=cell.colour, **look))
        if cell.sign:
            height, dash = (low, "-") if cell.sign == "for" else (high, (0, (1, 1.2)))
            ends = np.array([x, x + wide])
            axes.plot(ends, [height] * 2, color=INK, linewidth=1.8, linestyle=dash)
        middle = x + wide / 2
        _text(middle, y + 11, cell.text, size=SIZE, color=INK, ha="center", style=style)(axes)
        _text(middle, low + 8, cell.score, size=SMALL, color=QUIET, ha="center")(axes)

    return draw


FORMS: dict[str, Callable[[TokenRows], bytes]] = {
    ".html": _as_page,
    ".svg": lambda rows: as_figure(rows, "svg"),
    ".png": lambda rows: as_figure(rows, "png"),
    ".pdf": lambda rows: as_figure(rows, "pdf"),
    ".json": _as_json,
}
"""How a heat map becomes each kind of file."""
