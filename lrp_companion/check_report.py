"""The results of `check`, as text, JSON and HTML."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from lrp_companion.schema import ModelCard


@dataclass(frozen=True)
class Figure:
    """One number and its meaning; `right` is None if it cannot be right or wrong."""

    name: str
    value: float
    says: str
    right: bool | None
    most: float | None = None

    @property
    def verdict(self) -> str:
        return {None: "measured", True: "right", False: "BROKEN"}[self.right]


@dataclass(frozen=True)
class ModelCheck:
    """The figures of a model on some texts, and the relevance of every level by method (mean over texts).

    `layers` has for each method a row per level: the sum of relevance there and what was lost before it, by
    cause, as fractions of the mean |logit|; "rest" is what no cause explains. `inputs` names what the model
    reads.
    """

    card: ModelCard
    texts: int
    figures: tuple[Figure, ...]
    layers: Mapping[str, Sequence[Mapping[str, float | str]]]
    inputs: str = "texts"

    @property
    def broken(self) -> bool:
        """Whether any figure is wrong."""
        return any(figure.right is False for figure in self.figures)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        judged = [figure for figure in self.figures if figure.right is not None]
        wrong = [figure.name for figure in judged if not figure.right]
        name = f"{self.card.name} ({self.card.family}, {self.card.layers} layers, {self.card.dtype})"
        if wrong:
            return f"{name}: BROKEN: {', '.join(wrong)}; do not trust its explanations"
        return f"{name}: {len(judged)} of {len(judged)} checks right on {self.texts} {self.inputs}"

    def __str__(self) -> str:
        width = max(len(figure.name) for figure in self.figures)
        lines = [self.verdict, ""]
        for figure in self.figures:
            lines.append(
                f"{figure.name:<{width}}  {_short(figure.value):>9}  {figure.verdict:<8}  {figure.says}"
            )
        for name, rows in self.layers.items():
            lines += [
                "",
                f"{name}: relevance at every level and what was lost before it, of the mean |logit|",
            ]
            heads = [key for key in rows[0] if key != "level"]
            first = max(len(str(row["level"])) for row in rows)
            lines.append(" " * first + "".join(f"{head:>10}" for head in heads))
            for row in rows:
                lines.append(f"{row['level']:<{first}}" + "".join(f"{row[head]:>+10.3f}" for head in heads))
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything as JSON; NaN becomes null."""
        figures = [
            {
                **asdict(figure),
                "value": None if math.isnan(figure.value) else figure.value,
                "verdict": figure.verdict,
            }
            for figure in self.figures
        ]
        model = {key: value for key, value in asdict(self.card).items() if key != "labels"}
        layers = {name: [dict(row) for row in rows] for name, rows in self.layers.items()}
        record = {"verdict": self.verdict, "broken": self.broken, "texts": self.texts}
        return json.dumps(
            {**record, "model": model, "figures": figures, "layers": layers}, ensure_ascii=False, indent=1
        )

    def _repr_html_(self) -> str:
        rows = [(f.name, _short(f.value), f.verdict, f.says) for f in self.figures]
        parts = [f"<p><strong>{html.escape(self.verdict)}</strong></p>"]
        parts.append(_table(("figure", "value", "verdict", "what it is"), rows))
        for name, levels in self.layers.items():
            parts.append(f"<p>{html.escape(name)}: relevance at every level and what was lost before it</p>")
            heads = list(levels[0])
            body = [[row[h] if h == "level" else f"{row[h]:+.3f}" for h in heads] for row in levels]
            parts.append(_table(heads, body))
        return "".join(parts)

    def to_html(self) -> str:
        """The results as a page."""
        title = html.escape(f"Check of {self.card.name}")
        style = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        style += (
            "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2em .6em;text-align:left}"
        )
        head = f'<meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        body = f"<h1>{title}</h1>{self._repr_html_()}"
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _short(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.2g}" if abs(value) < 0.01 else f"{value:.3f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(heads, "th") + "".join(line(row, "td") for row in rows) + "</table>"
