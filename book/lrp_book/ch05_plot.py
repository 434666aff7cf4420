"""Chapter 5's figures to be read by pointing: plotly's JSON, made without plotly."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.show.canvas import spread
from lrp_companion.show.curves import (
    PAPER_LABEL,
    PAPER_NAME,
    PATH_TITLES,
    PROJECT_LABEL,
    PROJECT_NAME,
    layer_alt,
)
from lrp_companion.show.palette import INK, QUIET, RULE, styles

MIME = "application/vnd.plotly.v1+json"
DASHES = {"AttnLRP": "dot", "CP-LRP": "dashdot"}
SYMBOLS = {"front-to-back": "circle", "back-to-front": "square", "single": "triangle-up"}
SHORT = {PROJECT_LABEL: PROJECT_NAME, PAPER_LABEL: PAPER_NAME}
NAMES_WIDTH, NAME_HEIGHT = 96, 15  # pixels beside a panel, and of one name


@dataclass(frozen=True)
class Plot:
    """A plotly figure as plain values, with a text alternative that is its plain-text form."""

    data: tuple[dict[str, Any], ...]
    layout: dict[str, Any]
    alt: str

    def __repr__(self) -> str:
        return f"Plot: {self.alt}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {MIME: {"data": list(self.data), "layout": self.layout}, "text/plain": repr(self)}


def layer_plot(
    paths: Mapping[str, Sequence[Interval]],
    *,
    levels: Mapping[str, Interval] | None = None,
    paper: Mapping[str, Sequence[float]] | None = None,
    quantity: str = "mean r with LOO",
    title: str | None = None,
) -> Plot:
    """Draw what `layer_curves` draws, to be read by pointing: one panel per path, layer k on the common axis.

    Parameters
    ----------
    paths, levels, paper, quantity, title : as in `layer_curves`.

    >>> layer_plot({"single": [Interval(0.5, 0.4, 0.6, 9), Interval(0.7, 0.6, 0.8, 9)]})
    Plot: mean r with LOO by bypassed layers: single layer from 0.50 to 0.70.
    """
    if not paths or len({len(steps) for steps in paths.values()}) != 1 or not all(paths.values()):
        raise InputError(
            "layer_plot",
            got=f"paths { ({name: len(steps) for name, steps in paths.items()}) }",
            expected="one step per layer each",
            hint="pass one interval per layer and path",
        )
    last = len(next(iter(paths.values())))
    layout, data = _layout(len(paths), last, quantity, title), []
    for panel, (name, steps) in enumerate(paths.items()):
        layers = list(range(last, 0, -1)) if name == "back-to-front" else list(range(1, last + 1))
        axes = {"xaxis": "x", "yaxis": f"y{_suffix(panel)}", "hoverinfo": "text"}
        data.append(_path_line(name, layers, steps) | axes)
        if paper and name in paper:
            data.append(_paper_line(layers, paper[name]) | axes)
        data += [_level_line(label, level, last) | axes for label, level in (levels or {}).items()]
        _add_panel(layout, panel, len(paths), PATH_TITLES.get(name, name).format(last=last))
    _name_lines(layout, data, last)
    return Plot(tuple(data), layout, layer_alt(paths, quantity, title))


def _layout(panels: int, last: int, quantity: str, title: str | None) -> dict[str, Any]:
    """The page of the figure: size, title, legend, and the axis of layers that all panels share."""
    layout: dict[str, Any] = {
        "height": 90 + 210 * panels,
        "margin": {"l": 52, "r": NAMES_WIDTH, "t": 30 + 30 * bool(title), "b": 50},
        "template": None,
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "font": {"color": INK, "size": 13},
        "hovermode": "closest",
        "showlegend": False,
        "annotations": [],
        "xaxis": {
            "title": {"text": f"layer k ({quantity} upward)"},
            "dtick": 1,
            "anchor": f"y{_suffix(panels - 1)}",
            "gridcolor": RULE,
            "linecolor": INK,
            "zeroline": False,
            "fixedrange": True,
            "range": [0.6, last + 0.4],
        },
    }
    if lines := textwrap.wrap(title or "", 40):  # as much as a phone shows
        layout["margin"]["t"] += 18 * (len(lines) - 1)
        layout["title"] = {"text": "<br>".join(lines), "x": 0, "xref": "paper", "font": {"size": 14}}
    return layout


def _suffix(panel: int) -> str:
    """What follows "y" in the name of a panel's axis: plotly counts y, y2, y3."""
    return str(panel + 1) if panel else ""


def _add_panel(layout: dict[str, Any], panel: int, panels: int, title: str) -> None:
    """Put a panel's vertical axis and title in its place from the top."""
    top, height = 1 - panel / panels, 1 / panels
    axis = {
        "domain": [round(top - height + 0.07, 4), round(top - 0.03, 4)],
        "gridcolor": RULE,
        "zeroline": False,
        "linecolor": INK,
        "ticks": "outside",
        "fixedrange": True,
    }
    layout[f"yaxis{_suffix(panel)}"] = {**axis, "matches": "y"} if panel else axis
    layout["annotations"].append(_note(title, 0, top - 0.025, yref="paper", yanchor="bottom"))


def _note(text: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    """A text that begins at a fraction of the figure's width."""
    place = {"x": x, "xref": "paper", "xanchor": "left", "y": round(y, 4)}
    return {"text": text, **place, "showarrow": False, **more}


def _name_lines(layout: dict[str, Any], data: Sequence[dict[str, Any]], last: int) -> None:
    """Give all panels one range, and name each line at the right of its panel, names moved apart."""
    values = [value for line in data for value in _heights(line)] or [0.0]
    margin = 0.06 * (max(values) - min(values)) or 0.5
    low, high = min(values) - margin, max(values) + margin
    top, bottom = layout["yaxis"]["domain"][1], layout["yaxis"]["domain"][0]
    pixels = (top - bottom) * (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"])
    gap = NAME_HEIGHT * (high - low) / pixels
    for panel in dict.fromkeys(line["yaxis"] for line in data):
        layout[f"yaxis{panel[1:]}"]["range"] = [round(low, 4), round(high, 4)]
        lines = [line for line in data if line["yaxis"] == panel and line["y"][_at(line, last)] is not None]
        ends = [line["y"][_at(line, last)] for line in lines]
        for line, place in zip(lines, spread(ends, gap=gap, low=low, high=high), strict=True):
            look = {"yanchor": "middle", "font": {"color": line["line"]["color"], "size": 12}}
            name = SHORT.get(line["name"], line["name"])
            layout["annotations"].append(_note(name, 1.01, float(place), yref=panel, **look))


def _heights(line: Mapping[str, Any]) -> list[float]:
    """Every height that a line and its bars reach."""
    bars, none = line.get("error_y", {}), [0.0] * len(line["y"])
    sides = ((1, none), (1, bars.get("array", none)), (-1, bars.get("arrayminus", none)))
    reach = [(y, sign * (by or 0.0)) for sign, side in sides for y, by in zip(line["y"], side, strict=True)]
    return [y + by for y, by in reach if y is not None]


def _at(line: Mapping[str, Any], layer: int) -> int:
    """Where a line has this layer."""
    return line["x"].index(layer)


def _path_line(name: str, layers: Sequence[int], steps: Sequence[Interval]) -> dict[str, Any]:
    look = styles([name])[name]
    bars = {
        "type": "data",
        "symmetric": False,
        "thickness": 1.2,
        "width": 3,
        "array": [_number(step.high - step.mean) for step in steps],
        "arrayminus": [_number(step.mean - step.low) for step in steps],
    }
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(layers),
        "y": [_number(step.mean) for step in steps],
        "error_y": bars,
        "name": PROJECT_LABEL,
        "line": {"color": look.colour},
        "marker": {"symbol": SYMBOLS.get(name, "circle"), "size": 7},
        "hovertext": [
            f"{look.label}, layer {layer}: {step.text(3)}, n = {step.n}"
            for layer, step in zip(layers, steps, strict=True)
        ],
    }


def _paper_line(layers: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(layers),
        "y": list(values),
        "name": PAPER_LABEL,
        "line": {"color": QUIET, "dash": "dash", "width": 1.4},
        "marker": {"symbol": "circle-open", "size": 6},
        "hovertext": [
            f"the paper, layer {layer}: {value}" for layer, value in zip(layers, values, strict=True)
        ],
    }


def _level_line(label: str, level: Interval, last: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [1, last],
        "y": [_number(level.mean)] * 2,
        "name": label,
        "line": {"color": INK, "width": 1.1, "dash": DASHES.get(label, "longdash")},
        "hovertext": f"{label}: {level.text(3)}",
    }


def _number(value: float) -> float | None:
    """Four decimals, and null where JSON has no number."""
    return None if np.isnan(value) else round(float(value), 4)
