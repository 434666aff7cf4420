"""Figures that answer to the pointer, for pages: plotly's own JSON, made without plotly."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.metrics import Interval
from lrp_companion.schema import InputError
from lrp_companion.views.palette import INK, QUIET, RULE, styles

MIME = "application/vnd.plotly.v1+json"
DASHES = {"AttnLRP": "dot", "CP-LRP": "dashdot"}
SYMBOLS = {"front-to-back": "circle", "back-to-front": "square", "single": "triangle-up"}


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
    paths: Mapping[str, Sequence[Interval]], *, levels: Mapping[str, Interval] | None = None,
    paper: Mapping[str, Sequence[float]] | None = None, quantity: str = "mean r with LOO", title: str | None = None,
) -> Plot:  # fmt: skip
    """Draw what `layer_curves` draws, to be read by pointing: one panel per path, layer k on the common axis.

    Parameters
    ----------
    paths, levels, paper, quantity, title : as in `layer_curves`.

    >>> layer_plot({"single": [Interval(0.5, 0.4, 0.6, 9), Interval(0.7, 0.6, 0.8, 9)]})
    Plot: mean r with LOO by bypassed layers: single layer from 0.50 to 0.70.
    """
    if not paths or len({len(steps) for steps in paths.values()}) != 1 or not all(paths.values()):
        got = f"paths { ({name: len(steps) for name, steps in paths.items()}) }"
        raise InputError(
            "layer_plot",
            got=got,
            expected="one step per layer each",
            hint="pass one interval per layer and path",
        )
    looks, last, data = styles(paths), len(next(iter(paths.values()))), []
    layout: dict[str, Any] = {
        "height": 130 + 210 * len(paths), "margin": {"l": 52, "r": 12, "t": 30 + 30 * bool(title), "b": 90},
        "template": None,
        "paper_bgcolor": "white", "plot_bgcolor": "white", "font": {"color": INK, "size": 13},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.12 / len(paths) - 0.03, "yanchor": "top"},
        "annotations": [],
    }  # fmt: skip
    if lines := textwrap.wrap(title or "", 40):  # as much as a phone holds
        layout["margin"]["t"] += 18 * (len(lines) - 1)
        layout["title"] = {"text": "<br>".join(lines), "x": 0, "xref": "paper", "font": {"size": 14}}
    height = 1 / len(paths)
    for k, (name, steps) in enumerate(paths.items()):
        x, axis = (
            list(range(last, 0, -1)) if name == "back-to-front" else list(range(1, last + 1)),
            "" if k == 0 else str(k + 1),
        )
        where = {"xaxis": "x", "yaxis": f"y{axis}"}
        own, colour = "this project, with interval", looks[name].colour
        bars = {
            "type": "data", "symmetric": False, "thickness": 1.2, "width": 3,
            "array": [_number(s.high - s.mean) for s in steps],
            "arrayminus": [_number(s.mean - s.low) for s in steps],
        }  # fmt: skip
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "x": x, "y": [_number(s.mean) for s in steps],
                "error_y": bars, "name": own,
                "line": {"color": colour}, "marker": {"symbol": SYMBOLS.get(name, "circle"), "size": 7},
                "legendgroup": own,
                "showlegend": k == 0, "hoverinfo": "text", **where,
                "hovertext": [f"{looks[name].label}, layer {n}: {s.text(3)}, n = {s.n}" for n,
                    s in zip(x, steps, strict=True)],
            }
        )  # fmt: skip
        if paper and name in paper:
            shown = "the paper's (another model)"
            data.append(
                {
                    "type": "scatter", "mode": "lines+markers", "x": x, "y": list(paper[name]), "name": shown,
                    "legendgroup": shown,
                    "showlegend": k == 0, "line": {"color": QUIET, "dash": "dash", "width": 1.4},
                    "marker": {"symbol": "circle-open", "size": 6},
                    "hovertext": [f"the paper, layer {n}: {value}" for n,
                        value in zip(x, paper[name], strict=True)],
                    "hoverinfo": "text", **where,
                }
            )  # fmt: skip
        for label, level in (levels or {}).items():
            data.append(
                {
                    "type": "scatter", "mode": "lines", "x": [1, last], "y": [_number(level.mean)] * 2,
                    "name": label, "legendgroup": label,
                    "showlegend": k == 0,
                    "line": {"color": INK, "width": 1.1, "dash": DASHES.get(label, "longdash")},
                    "hovertext": f"{label}: {level.text(3)}", "hoverinfo": "text", **where,
                }
            )  # fmt: skip
        top = 1 - k * height
        scale = {
            "gridcolor": RULE,
            "zeroline": False,
            "linecolor": INK,
            "ticks": "outside",
            "fixedrange": True,
        }
        layout[f"yaxis{axis}"] = {"domain": [round(top - height + 0.07, 4), round(top - 0.03, 4)], **scale}
        if k:
            layout[f"yaxis{axis}"]["matches"] = "y"
        layout["annotations"].append(
            {"text": TITLES.get(name, name).format(last=last), "x": 0, "xref": "paper", "xanchor": "left",
                "y": round(top - 0.025, 4),
             "yref": "paper", "yanchor": "bottom", "showarrow": False}
        )  # fmt: skip
    layout["xaxis"] = {
        "title": {"text": f"layer k ({quantity} upward)"}, "dtick": 1,
        "anchor": f"y{len(paths) if len(paths) > 1 else ''}",
        "gridcolor": RULE, "linecolor": INK, "zeroline": False, "fixedrange": True,
        "range": [0.6, last + 0.4],
    }  # fmt: skip
    walks = "; ".join(
        f"{looks[name].label} from {steps[0].mean:.2f} to {steps[-1].mean:.2f}"
        for name, steps in paths.items()
    )
    return Plot(
        tuple(data), layout, f"{title + '. ' if title else ''}{quantity} by bypassed layers: {walks}."
    )


TITLES = {
    "front-to-back": "Front to back: layers 1 to k",
    "back-to-front": "Back to front: layers k to {last}",
    "single": "Single: layer k alone",
}


def _number(value: float) -> float | None:
    """Four decimals, and null where JSON has no number."""
    return None if np.isnan(value) else round(float(value), 4)
