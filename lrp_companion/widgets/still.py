"""A widget's first state as a picture where no script runs; each number is a title."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from lrp_companion.show.palette import hexes
from lrp_companion.terminal import visible

NAME, CELL, ROW = 150, 50, 44  # pixels: a row's name, a bar with the space around it, a row


def bars(
    rows: Mapping[str, Sequence[float | None] | np.ndarray],
    columns: Sequence[object],
    caption: str,
    *,
    scale: float = 0,
) -> str:
    """Rows of bars, each on its own scale or all on one: orange and up above zero, blue and down below.

    >>> picture = bars({"LOO": [1.0, -0.5]}, ["a", "film"], "One text")
    >>> picture.count("<rect"), "film: −0.5" in picture
    (2, True)
    """
    drawn = []
    for k, (name, values) in enumerate(rows.items()):
        numbers, middle = np.nan_to_num(np.array(values, dtype=float)), ROW * (k + 0.5)
        parts = numbers / (scale or np.abs(numbers).max(initial=0.0) or 1.0)
        drawn.append(_text(0, middle + 4, name))
        for i, (value, part, colour) in enumerate(zip(numbers, parts, hexes(np.sign(parts)), strict=True)):
            high = max(abs(part) * 0.42 * ROW, 0.5)
            box = f'x="{NAME + CELL * i + 5}" y="{middle - high * (part > 0):.1f}" height="{high:.1f}"'
            told = html.escape(f"{name}, {visible(str(columns[i]))}: {value:.3g}".replace("-", "−"))
            drawn.append(f'<rect {box} width="{CELL - 10}" fill="{colour}"><title>{told}</title></rect>')
    drawn += [
        _text(NAME + CELL * (i + 0.5), ROW * len(rows) + 12, c, middle=True) for i, c in enumerate(columns)
    ]
    return _svg(NAME + CELL * (len(columns) + 1), ROW * len(rows) + 18, drawn, caption)


def dots(
    panels: Mapping[str, Sequence[float]], across: Sequence[float], names: Sequence[str], caption: str
) -> str:
    """Panels of dots side by side, each with a title; a named dot shows its name.

    >>> dots({"CP-LRP": [0.1, 0.2]}, [1.0, 2.0], ["[CLS]", ""], "Dots").count("<circle")
    2
    """
    drawn = []
    for k, (title, up) in enumerate(panels.items()):
        left = k * 340
        x, y = (
            np.interp(of, (min(of), max(of)), ends) for of, ends in ((across, (14, 306)), (up, (170, 40)))
        )
        drawn += [
            _text(left, 16, title),
            f'<path d="M{left} 26V184H{left + 320}" stroke="gray" fill="none"/>',
        ]
        drawn.append(_text(left + 160, 198, "Leave-One-Out →", middle=True))
        for at, height, name in zip(left + x, y, names, strict=True):
            drawn.append(
                f'<circle cx="{at:.1f}" cy="{height:.1f}" r="{6 if name else 4}" fill="currentColor"/>'
            )
            drawn += [_text(at + 10, height + 4, name)] * bool(name)
    return _svg(340 * len(panels), 204, drawn, caption)


def _text(x: float, y: float, text: object, *, middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' * middle
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor"{anchor}>{html.escape(visible(str(text)))}</text>'
    )


def _svg(width: float, height: float, drawn: Sequence[str], caption: str) -> str:
    told = html.escape(visible(caption))
    return (
        f'<figure><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{told}" font-size="12">{"".join(drawn)}</svg>'
        f"<figcaption>{told}</figcaption></figure>"
    )
