"""Scores on tokens: a heat map for pages (HTML), a table for terminals, and files: a page, a figure, JSON.

Tokens are only ever shown as text, never as markup. Every form of a file shows the sign by a line, solid
below for the class and dotted above against it, so that a print in grey still reads.
"""

from __future__ import annotations

import html
import io
import json
import math
import os
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.attribution import Attribution, Completion, differences
from lrp_companion.checks import InputError, as_path
from lrp_companion.metrics import agreement
from lrp_companion.schema import Protocol
from lrp_companion.show.palette import INK, QUIET, hexes
from lrp_companion.terminal import quoted, visible

HEATMAP_CSS = """
.lrp-heatmap{background:#fff;color:#1b1b1b;padding:.5em .75em;border-radius:4px;line-height:1.35;
overflow-wrap:anywhere}
.lrp-heatmap p{margin:.5em 0 .2em;font-size:.9em;color:#1b1b1b}
.lrp-heatmap ol.lrp-tokens{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.35em .25em}
.lrp-heatmap ol.lrp-tokens>li{position:relative;margin:0;padding:.05em .3em;color:#1b1b1b;
border:3px none transparent;border-block-style:solid;max-width:100%;print-color-adjust:exact;
-webkit-print-color-adjust:exact}
.lrp-heatmap ol.lrp-tokens>li.lrp-for{border-bottom-color:#1b1b1b}
.lrp-heatmap ol.lrp-tokens>li.lrp-against{border-top:3px dotted #1b1b1b}
.lrp-heatmap li.lrp-special{font-style:italic;outline:1px dashed #767676}
.lrp-heatmap .lrp-value{direction:ltr;unicode-bidi:isolate;position:absolute;left:0;
bottom:calc(100% + 5px);padding:0 .3em;background:#1b1b1b;color:#fff;font-size:.85em;font-style:normal;
white-space:nowrap;opacity:0;pointer-events:none;z-index:2}
.lrp-heatmap li:hover>.lrp-value{opacity:1}
@media print{.lrp-heatmap .lrp-value{position:static;display:block;background:none;color:#1b1b1b;
font-size:.7em;opacity:1}}
""".replace("\n", "")
KEY = (
    "Orange with a line below: for the class. Blue with a dotted line above: against it. A stronger colour "
    "is larger, on each row's own scale, set by its words; special tokens are in dashed boxes."
)
STRONG = 1 / 3  # from this fraction of a column's scale on a number of a table has a colour
FAINT = 0.05  # below this fraction of the scale a token gets a colour but no line for its sign
TOKEN_WIDTH, BAR_WIDTH = 24, 20


@dataclass(frozen=True)
class TokenRows:
    """Rows of coloured tokens, without a script; as plain text, every token with its score."""

    rows: tuple[Attribution, ...]
    titles: tuple[str, ...]

    def _repr_html_(self) -> str:
        return f'<div class="lrp-heatmap"><style>{HEATMAP_CSS}</style>{self.html()}</div>'

    def html(self) -> str:
        """The rows and their key as markup; a widget brings its own style."""
        blocks = []
        for record, title in zip(self.rows, self.titles, strict=True):
            blocks.append(f"<p>{html.escape(visible(title))}</p>")
            blocks.append(f'<ol class="lrp-tokens" dir="auto">{"".join(_items(record))}</ol>')
        return "".join([*blocks, f'<p class="lrp-quiet">{KEY}</p>'])

    def save(self, path: str | os.PathLike) -> None:
        """Save the rows as `.html`, `.svg`, `.png` or `.pdf`, or the records as `.json`.

        The page needs no other file. In SVG, PNG and PDF each score stands below its token.

        Raises
        ------
        InputError : another ending, or a folder that is not there.
        """
        write("TokenRows.save", path, FORMS[ending("TokenRows.save", path)](self))

    def __repr__(self) -> str:
        lines: list[str] = []
        for record, title in zip(self.rows, self.titles, strict=True):
            lines.append(visible(title))
            line, digits = "", decimals(record.scores)
            for token, score in zip(record.pieces, record.scores, strict=True):
                piece = f"  {visible(token)} {score:+.{digits}f}"
                if line and _width(line) + _width(piece) > 100:
                    lines.append(line)
                    line = ""
                line += piece
            lines.append(line)
        return "\n".join(lines)


def token_heatmap(
    attributions: Attribution | Sequence[Attribution],
    *,
    titles: Sequence[str] | None = None,
    loo: Attribution | None = None,
) -> TokenRows:
    """Show one or more explanations as rows of coloured tokens.

    The colour runs from blue (against the class) through white to orange (for it) and is scaled by the row's
    largest |score| among its words; special tokens beyond that get the end's colour. Every token's score
    shows on hover and in print, and screen readers read it; a line above or below the token shows the sign.

    Parameters
    ----------
    attributions : the rows, of one text or of several; of a `Completion` the sum and each token.
    titles : one per row; by default the method, target and logit.
    loo : LOO of the same tokens: shown first; every further title ends with Pearson's r with it (no special
        tokens).

    >>> record = Attribution(("[CLS]", "fine"), [0.1, -0.25], 1, 2.5, [True, False], "loo")
    >>> token_heatmap(record)
    loo, target 1, logit 2.500
      [CLS] +0.100  fine -0.250
    """
    rows = [attributions] if isinstance(attributions, Attribution) else list(attributions)
    if isinstance(attributions, Completion) and loo is None:
        rows = [attributions.sum(), *rows]
    if titles is None and isinstance(attributions, Completion):
        names = [f"{row.method}, {quoted(row.details['label'])}, {said(row)}" for row in rows]
    elif titles is None:
        names = [f"{row.method}, target {row.target}, logit {row.logit:.3f}" for row in rows]
    else:
        names = list(map(str, titles))
    if loo is not None:
        if any(row.tokens != loo.tokens for row in rows):
            got, hint = "rows with other tokens than loo", "show each text with its own LOO"
            raise InputError("token_heatmap", got=got, expected="one text", hint=hint)
        names = [f"{name}; r with LOO {_r(row, loo)}" for row, name in zip(rows, names, strict=True)]
        rows, names = [loo, *rows], [f"LOO, target {loo.target}, logit {loo.logit:.3f}", *names]
    return TokenRows(tuple(rows), tuple(names))


def terminal_table(attribution: Attribution, *, colour: bool = True, width: int | None = None) -> str:
    """Return one line per token: the token, its score, and a bar: left is against the class, right for it.

    The longest bar is the largest |score| among the words; a special token's bar beyond it ends in an arrow.
    The width is the terminal's by default, 80 where there is none.

    >>> record = Attribution(("[CLS]", "fine"), [-0.1, 0.2], 1, 2.5, [True, False], "loo")
    >>> print(terminal_table(record, colour=False, width=40))
    [CLS]   -0.100        ▐█████│
    fine    +0.200              │███████████
    sum     +0.100   logit 2.500
    """
    digits = decimals(attribution.scores)
    tokens = [_cut(visible(token), TOKEN_WIDTH) for token in attribution.pieces]
    scores = [f"{score:+.{digits}f}" for score in attribution.scores]
    total = f"{attribution.scores.sum():+.{digits}f}"
    first = max(_width(token) for token in [*tokens, "sum"])
    second = max(len(score) for score in [*scores, total])
    columns = width or shutil.get_terminal_size((80, 24)).columns
    bar = max(4, min(BAR_WIDTH, (columns - first - second - 7) // 2))
    scale, lines = row_scale(attribution), []
    rows = zip(tokens, scores, attribution.scores / scale, attribution.special, strict=True)
    for token, score, fraction, special in rows:
        left, right = _bar(fraction, bar)
        name = token + " " * (first - _width(token))
        if colour:
            name = f"\x1b[2m{name}\x1b[0m" if special else name
            left, right = _coloured(left, 39), _coloured(right, 208)
        lines.append(f"{name}   {score:>{second}}   {left}│{right}".rstrip())
    against = attribution.choices.get("contrast")  # then the scores explain a difference of two logits
    number, output = said(attribution), attribution.choices.get("output", "logit")
    if against is not None:
        number = f"explained: {number} minus that of {visible(quoted(against))}"
    elif output != "logit":
        number = f"explained: the {output}, not the {number}"
    lines.append(f"{'sum':<{first}}   {total:>{second}}   {number}")
    return "\n".join(lines)


def said(record: Attribution) -> str:
    """A record's logit in words; of the sum over a completion those of its tokens.

    >>> said(Attribution(("fine",), [0.2], 1, 2.5, [False], "loo", choices={"summed over": "completion"}))
    'logits that add up to 2.500'
    """
    summed = record.choices.get("summed over") == "completion"
    return f"{'logits that add up to' if summed else 'logit'} {record.logit:.3f}"


def completion_table(completion: Completion, *, colour: bool = True, width: int | None = None) -> str:
    """Return one line per token and a column for each token of a completion, the last their sum; several
    tables below each other where they are wider than the terminal.

    >>> first = Attribution(("a", "fine"), [0.5, 1.0], 7, 2.0, [False] * 2, "loo", details={"label": " film"})
    >>> print("\\n" + completion_table(Completion([first]), colour=False, width=40))
    <BLANKLINE>
            film    sum
    a      +0.50  +0.50
    fine   +1.00  +1.00
    sum    +1.50  +1.50
    logit  +2.00  +2.00
    """
    total = completion.sum()
    records = [*completion, total]
    digits = decimals(total.scores) - 1
    names = [_cut(visible(token), TOKEN_WIDTH) for token in total.pieces] + ["sum", "logit"]
    first = max(map(_width, names))
    columns = []
    for record, title in zip(records, [*completion.tokens, "sum"], strict=True):
        ends = (record.scores.sum(), record.logit)
        cells = [f"{score:+.{digits}f}" for score in (*record.scores, *ends)]
        gap = [""] * (len(names) - len(cells))
        cells = [*cells[:-2], *gap, *cells[-2:]]
        heading = _cut(visible(title.strip() or quoted(title)), 12)
        wide = max(_width(cell) for cell in (heading, *cells))
        padded = [" " * (wide - _width(cell)) + cell for cell in (heading, *cells)]
        if colour:
            sizes = record.scores / row_scale(record)
            for row, size in enumerate(sizes, start=1):
                if abs(size) >= STRONG:
                    padded[row] = _coloured(padded[row], 208 if size > 0 else 39)
        columns.append((wide, padded))
    lines, space = [], (width or shutil.get_terminal_size((80, 24)).columns) - first
    while columns:
        fitting, left = 0, space
        while fitting < len(columns) and (not fitting or columns[fitting][0] + 2 <= left):
            left -= columns[fitting][0] + 2
            fitting += 1
        block, columns = columns[:fitting], columns[fitting:]
        heads = ["", *(name + " " * (first - _width(name)) for name in names)]
        for k, head in enumerate(heads):
            lines.append((head or " " * first) + "".join("  " + cells[k] for _, cells in block))
        lines += [""] if columns else []
    return "\n".join(line.rstrip() for line in lines)


def _coloured(side: str, code: int) -> str:
    """A side of a bar in a colour of the terminal; an empty one stays as it is."""
    return f"\x1b[38;5;{code}m{side}\x1b[0m" if side.strip() else side


def decimals(scores: np.ndarray) -> int:
    """How many decimals show the largest score to three digits: from 3 to 9."""
    largest = float(np.abs(scores).max()) if np.size(scores) else 0.0
    if largest == 0 or not math.isfinite(largest):
        return 3
    return min(9, max(3, 2 - math.floor(math.log10(largest))))


@dataclass(frozen=True)
class Cell:
    """One token as it is drawn: its text, score, colour (`#rrggbb`), sign ("for", "against", ""), special."""

    text: str
    score: str
    colour: str
    sign: str
    special: bool


def cells(record: Attribution) -> list[Cell]:
    """A record's tokens as they are drawn, on the row's own scale."""
    parts, digits = record.scores / row_scale(record), decimals(record.scores)
    signs = np.where(np.abs(parts) < FAINT, "", np.where(parts > 0, "for", "against")).tolist()
    columns = record.pieces, record.scores, hexes(parts), signs, record.special.tolist()
    return [
        Cell(visible(piece), f"{score:+.{digits}f}", colour, sign, special)
        for piece, score, colour, sign, special in zip(*columns, strict=True)
    ]


def _items(record: Attribution) -> list[str]:
    out = []
    for cell in cells(record):
        kinds = [cell.sign and f"lrp-{cell.sign}", "lrp-special" if cell.special else ""]
        text = html.escape(cell.text)
        text = f"<bdi>{text}</bdi>" if cell.special else text  # which has no say in the direction of the row
        out.append(
            f'<li class="{" ".join(filter(None, kinds))}" style="background:{cell.colour}">{text}'
            f'<span class="lrp-value"> {cell.score}</span></li>'
        )
    return out


def row_scale(record: Attribution) -> float:
    """The largest |score| among the words; special tokens often carry more and would leave the words pale."""
    sizes = np.abs(record.scores)
    return float(sizes[~record.special].max(initial=0.0)) or float(sizes.max(initial=0.0)) or 1.0


def _bar(fraction: float, width: int) -> tuple[str, str]:
    """The two sides of a bar of so many columns each, in half columns; an arrow where it is cut off."""
    halves = min(round(2 * width * abs(fraction)), 2 * width)
    whole, half = "█" * (halves // 2), halves % 2
    if fraction < 0:
        side = ("▐" if half else "") + whole
        return ("◀" + side[1:] if fraction < -1 else side).rjust(width), ""
    side = whole + ("▌" if half else "")
    return " " * width, side[:-1] + "▶" if fraction > 1 else side


def _r(row: Attribution, loo: Attribution) -> str:
    r, apart = agreement(row.scores, loo.scores, loo.special, Protocol()), differences(row, loo)
    said = "undefined" if math.isnan(r) else f"{r:.2f}"
    return f"{said} (of another {', '.join(apart)})" if apart else said


def _width(text: str) -> int:
    """Columns the text takes in a terminal: wide characters take two, combining marks none."""
    marks = ("Mn", "Me", "Cf")
    visible_characters = [c for c in text if unicodedata.category(c) not in marks]
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in visible_characters)


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + "…"


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
    """One page without any other file; `body` is markup, everything else is escaped or ours."""
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

    from lrp_companion.show.figures import LOOK, Drawing

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
