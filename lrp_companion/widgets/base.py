"""The base of every widget: one front end for Jupyter (anywidget) and for pages without a kernel (JSON).

A widget is a class in this package, `static/NAME.js` and `static/NAME.css`. Its front end is `base.js`, what
it shares with a few others (`SHARED`), and the widget's module, so nothing is bundled and nothing is loaded
from elsewhere. In a page,
`text/html` carries the state as JSON and something to read until the script runs, or where none may run.
"""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import numpy as np
import traitlets

from lrp_companion.checks import extra, plain_array
from lrp_companion.show.palette import hexes
from lrp_companion.terminal import visible

STATIC = Path(__file__).parent / "static"
MARK = "data-companion-widget"
LEAST = 3  # tokens that r needs, as in `base.js`: two points always lie on a line
SHARED = {
    "layers": ("layer_toggles",),
    "live_model": ("layer_toggles", "sentence_box"),
    "stepper": ("frontier_player", "head_stepper", "layer_flow", "perturbation_player"),
}
"""Modules between the base and a widget's own, with the widgets that share each."""


def stems(name: str) -> tuple[str, ...]:
    """Return the files of a front end, in order: the base, shared modules, and the widget's own."""
    return "base", *(shared for shared, names in SHARED.items() if name in names), name


def front_end(name: str, kind: str) -> str:
    """Return the JavaScript or CSS (`kind` "js" or "css") of a widget, from its files in order.

    A widget's style is optional.
    """
    paths = [STATIC / f"{stem}.{kind}" for stem in stems(name)]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if kind == "js" or path.is_file())


def front_ends() -> list[str]:
    """Return the names of all front ends, each with a module."""
    return sorted(path.stem for path in STATIC.glob("*.js") if path.stem not in ("base", *SHARED))


def minified(script: str) -> str:
    """Return JavaScript without comments and spare white space, as pages load it.

    The types in the comments are for readers and for the type checker. Notebooks load what the files say, so
    only pages need the minifier. It does not know templates within templates; `deno lint` refuses them here.
    """
    import rjsmin

    return str(rjsmin.jsmin(script)) + "\n"


def page_script(name: str) -> str:
    """Return a front end as a classic script, which unlike a module also runs in a page opened from disk."""
    module, mark = front_end(name, "js"), "\nexport default "
    if module.count(mark) != 1:
        raise ValueError(f"{name}.js: expected one line that begins with 'export default'")
    body = module.replace(mark, "\nconst widget = ")
    return minified(f"(() => {{\n{body}\nmount({json.dumps(name)}, widget);\n}})();\n")


def embed(value: Any) -> str:
    """Return JSON for a script element: without `<`, so that no text can end the element or open another,
    and with control and direction marks in their escaped form.

    >>> embed({"token": "</script>"})
    '{"token":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for mark in (c for c in set(text) if visible(c) != c):
        text = text.replace(mark, json.dumps(mark)[1:-1])
    return text.replace("<", "\\u003c")


def packed(values: Any, kind: str) -> str:
    """Return an array as base64, little-endian: `kind` is a NumPy type such as "float32" or "int8"."""
    numbers = np.ascontiguousarray(
        plain_array("packed", "values", values), dtype=np.dtype(kind).newbyteorder("<")
    )
    return base64.b64encode(numbers.tobytes()).decode()


_INHERITED = frozenset({*anywidget.AnyWidget.class_trait_names(), "_esm", "_css", "_anywidget_id"})


class Widget(anywidget.AnyWidget):
    """One front end with its state; subclasses name the front end: `class Mine(Widget, front="mine")`.

    Attributes
    ----------
    address : the widget's name in the page's address (`#address.key=value`), one per page.
    links : the traits that the address keeps; their values when the page is built are the start.
    data : what the front end needs and what never changes.
    """

    address = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    links: ClassVar[tuple[str, ...]] = ()
    front: ClassVar[str] = ""

    def __init_subclass__(cls, *, front: str = "", **options: Any) -> None:
        if front:
            cls.front = front
            cls._esm, cls._css = front_end(front, "js"), front_end(front, "css")
        super().__init_subclass__(**options)

    def state(self) -> dict[str, Any]:
        """Return the front end's input as plain JSON."""
        return {name: getattr(self, name) for name in sorted(set(self.trait_names(sync=True)) - _INHERITED)}

    def fallback(self) -> str:
        """Return HTML that is read where no script runs; every text in it escaped."""
        raise NotImplementedError

    def linked(self) -> tuple[str, ...]:
        """Return the traits that this widget's address keeps."""
        return self.links

    def page_html(self) -> str:
        """Return the widget for a page without a kernel."""
        blob = embed({"state": self.state(), "address": {"name": self.address, "keys": list(self.linked())}})
        return (
            f'<div class="lrp-widget" {MARK}="{self.front}" data-address="{html.escape(self.address)}">'
            f'<script type="application/json">{blob}</script>{self.fallback()}</div>'
        )

    def save(self, path: str | os.PathLike) -> None:
        """Save the widget, as it stands, as a page (`.html`) that works without kernel, server or network.

        Raises
        ------
        InputError : a path that does not end in .html, or a folder that does not exist.
        """
        from lrp_companion.show.tokens import ending, page, write

        name = type(self).__name__
        ending(f"{name}.save", path, (".html",))
        with extra(f"{name}.save"):
            script = page_script(self.front)
        # No text can end the style or the script: both are the package's files.
        style = "body{margin:1em auto;max-width:70em;padding:0 1em;font:16px/1.4 sans-serif}"
        style += front_end(self.front, "css")
        text = page(repr(self), f"<h1>{name}</h1>{self.page_html()}", style=style, script=script)
        write(f"{name}.save", path, text.encode())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**bundle, "text/plain": repr(self), "text/html": self.page_html()}, metadata

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    def summary(self) -> str:
        """Return the widget's content in a few words."""
        return ""


# A first state as a picture, where no script runs; each number is a title.
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
