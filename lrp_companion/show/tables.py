"""Rows of plain values as a table: HTML for pages, aligned text elsewhere."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.metrics import Interval

TABLE_CSS = """
.lrp-table{background:#fff;color:#1b1b1b;margin:0;padding:.5em .75em;border-radius:4px}
.lrp-table figcaption{margin:0 0 .4em;color:#1b1b1b;font-size:.95em;text-align:left}
.lrp-table>div{overflow-x:auto}
.lrp-table table{border-collapse:collapse;margin:0;font-size:.92em;color:#1b1b1b;background:#fff;
font-variant-numeric:tabular-nums}
.lrp-table th,.lrp-table td{padding:.25em .55em;border:0;border-bottom:1px solid #c9c9c9;color:#1b1b1b}
.lrp-table th,.lrp-table td{background:#fff;text-align:left;vertical-align:top}
.lrp-table .lrp-number{text-align:right}
.lrp-table tbody .lrp-number,.lrp-table tbody .lrp-short{white-space:nowrap}
.lrp-table thead td{border:0}
.lrp-table thead th{vertical-align:bottom}
.lrp-table thead tr:last-child th{border-bottom:2px solid #1b1b1b}
.lrp-table small{display:block;white-space:nowrap;font-size:.84em}
.lrp-table .lrp-sign{white-space:nowrap;padding:0 .4em;border-radius:3px}
.lrp-table .lrp-good{background:#d9efe4}.lrp-table .lrp-part{background:#f6ecc8}
.lrp-table .lrp-bad{background:#f8dccd}.lrp-table .lrp-open{background:#e6e6e6}
.lrp-wide th:first-child{position:sticky;left:0;z-index:1}
""".replace("\n", "")

SHORT = 18  # a column whose cells have at most so many letters does not wrap
WIDE = 84  # from so many letters on a table takes less room: its intervals stand under their means
_INTERVAL = re.compile(r"(?P<mean>\S+) (?P<rest>\[[^\]]+\](?: \(.+\))?)")
SIGNS = {
    "reproduced": ("✓", "good"),
    "contradicted": ("✗", "bad"),
    "mixed": ("±", "part"),
    "no relevant difference": ("≈", "part"),
    "undecided": ("?", "open"),
}
"""Words that say how something came out, with a sign and a colour: neither stands alone."""


@dataclass(frozen=True)
class Table:
    """A table that shows itself: `header`, `cells` (text) and which columns hold numbers."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    caption: str | None = None

    def _repr_html_(self) -> str:
        kinds = list(map(_cell_class, self.numeric, zip(*self.cells, strict=True)))
        name = html.escape(self.caption or "Table", quote=True)
        wide = _width(self.header, self.cells) > WIDE
        kind = "lrp-table lrp-wide" if wide else "lrp-table"
        parts = [f'<figure class="{kind}"><style>{TABLE_CSS}</style>']
        if self.caption:  # outside the box that scrolls, so that a phone shows all of it
            parts.append(f"<figcaption>{html.escape(self.caption)}</figcaption>")
        parts.append(f'<div role="region" tabindex="0" aria-label="{name}"><table><thead>')
        headings = zip(self.header, kinds, strict=True)
        heads = "".join(f'<th scope="col"{kind}>{html.escape(text)}</th>' for text, kind in headings)
        parts.append(f"<tr>{heads}</tr></thead><tbody>")
        for row in self.cells:
            rest = [_markup(text, stacked=wide) for text in row[1:]]
            body = "".join(f"<td{kind}>{text}</td>" for text, kind in zip(rest, kinds[1:], strict=True))
            parts.append(f'<tr><th scope="row"{kinds[0]}>{html.escape(row[0])}</th>{body}</tr>')
        parts.append("</tbody></table></div></figure>")
        return "".join(parts)

    def to_latex(self) -> str:
        """The table as LaTeX, by pandas; without its caption."""
        import pandas as pd

        return pd.DataFrame(self.cells, columns=self.header).to_latex(index=False, escape=True)

    def __repr__(self) -> str:
        rows = [self.header, *self.cells]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.rjust(width) if numeric else text.ljust(width)
                for text, width, numeric in zip(row, widths, self.numeric, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*([self.caption] if self.caption else []), *lines])


def _width(header: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """How many letters the longest cells of all columns have together, and the gaps between them."""
    return sum(2 + max(map(len, column)) for column in zip(*cells, strict=True)) if cells else len(header)


def _markup(text: str, *, stacked: bool) -> str:
    """A cell as HTML: a verdict with its sign, and in a wide table the interval under its mean.

    >>> _markup("0.62 [0.59, 0.66]", stacked=True), _markup("undecided", stacked=False)
    ('0.62 <small>[0.59, 0.66]</small>', '<span class="lrp-sign lrp-open">? undecided</span>')
    """
    if text in SIGNS:
        sign, kind = SIGNS[text]
        wraps = ' style="white-space:normal"' if len(text) > SHORT else ""
        return f'<span class="lrp-sign lrp-{kind}"{wraps}>{sign} {text}</span>'
    value = _INTERVAL.fullmatch(text) if stacked else None
    if value is None:
        return html.escape(text)
    return f"{html.escape(value['mean'])} <small>{html.escape(value['rest'])}</small>"


def _cell_class(numeric: bool, column: Sequence[str]) -> str:
    """How the cells of a column are set: numbers, text that does not wrap, or nothing special."""
    if numeric:
        return ' class="lrp-number"'
    return ' class="lrp-short"' if max(map(len, column)) <= SHORT else ""


def table(
    rows: Any,
    *,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    caption: str | None = None,
    digits: int = 2,
) -> Table:
    """Show rows as a table. The first column names the row.

    Parameters
    ----------
    rows : a pandas table, whose index names the rows, with columns NAME, "NAME low" and "NAME high" for an
        interval; what `lrp_companion.interval` gives with one axis or
        two, the last one across; or mappings from column to value: text, numbers, an `Interval` (shown as
        mean and limits, with the number of undefined examples where there are any), True or False, None for
        an empty cell; NaN is shown as "undefined".
    columns : which columns, in order, or a mapping to their headings; all of the first row's by default.
    caption : what is shown: the model, the data, n and the choices.
    digits : decimals of floats and intervals.

    >>> rows = [{"method": "LOO", "r": 1.0}, {"method": "IG", "r": Interval(0.41, 0.3, 0.5, 96)}]
    >>> table(rows, caption="r with LOO")
    r with LOO
    method                  r
    LOO                  1.00
    IG      0.41 [0.30, 0.50]
    """
    records = _records(rows)
    if isinstance(columns, Mapping):
        headings = dict(columns)
    else:
        headings = {name: name for name in (records[0] if columns is None else columns)}
    known = {name for record in records for name in record}
    if unknown := headings.keys() - known:
        raise KeyError(f"no column {', '.join(map(str, unknown))} in the rows")
    values = [[record.get(name) for name in headings] for record in records]
    numeric = tuple(
        all(value is None or _is_number(value) for value in column)
        and any(value is not None for value in column)
        for column in zip(*values, strict=True)
    )
    cells = tuple(tuple(cell(value, digits) for value in row) for row in values)
    return Table(tuple(map(str, headings.values())), cells, numeric, caption)


def _records(rows: Any) -> list[Mapping[str, Any]]:
    """Rows of a pandas table or of an `xarray.Dataset` of intervals as mappings; other rows as they are."""
    if hasattr(rows, "data_vars"):
        flat = rows.to_dataframe().apply(
            lambda row: Interval(row["mean"], row.low, row.high, int(row.n)), axis=1
        )
        rows = flat.unstack(sort=False) if flat.index.nlevels > 1 else flat.to_frame(" ")
    if hasattr(rows, "reset_index"):
        rows = with_intervals(rows)
        named = rows.rename_axis(index=[name or "" for name in rows.index.names]).reset_index()
        return [{str(key): value for key, value in row.items()} for row in named.to_dict("records")]
    return list(rows)


def with_intervals(frame: Any) -> Any:
    """A pandas table in which columns NAME, "NAME low" and "NAME high" are one, of `Interval`s."""
    for name in [name for name in frame if {f"{name} low", f"{name} high"} <= {*frame}]:
        ends = [f"{name} low", f"{name} high"]
        parts = frame[[name, *ends]].to_numpy().tolist()
        cells = [Interval(mean, low, high, int(mean == mean)) for mean, low, high in parts]
        frame = frame.drop(columns=ends).assign(**{name: cells})
    return frame


def cell(value: Any, digits: int) -> str:
    """One value as text.

    >>> cell(Interval(0.624, 0.59, 0.657, 96, 2), 2), cell(float("nan"), 2), cell([1, 2], 2)
    ('0.62 [0.59, 0.66] (2 undefined)', 'undefined', '1, 2')
    """
    if value is None:
        return ""
    if isinstance(value, Interval):
        return value.text(digits) + (f" ({value.undefined} undefined)" if value.undefined and value.n else "")
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return "undefined" if math.isnan(value) else f"{value:.{digits}f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(item, digits) for item in value)
    return " ".join(str(value).split())


def _is_number(value: Any) -> bool:
    return isinstance(value, (Interval, int, float, np.integer, np.floating)) and not isinstance(value, bool)
