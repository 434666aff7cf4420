"""Means in bins of a quantity, or one number along a sweep: a line per rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_companion.metrics import Interval
from lrp_companion.schema import InputError
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, styles

Lines = Mapping[str, Mapping[float, Any]]


@mpl.rc_context(LOOK)
def binned_lines(
    panels: Mapping[str, Lines],
    *,
    along: str | Mapping[str, str],
    quantity: str,
    mark: float | None = None,
    level: float | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw one line per rule, panel by panel; markers stand at the bins, bands are the intervals.

    Parameters
    ----------
    panels : panel title to rule to {place on the horizontal axis: `Interval` or number}. Undefined means
        leave a gap.
    along : what the horizontal axis shows, one text for all panels or one per panel.
    quantity : what the vertical axis shows, the same in all panels.
    mark : a place that is marked by a vertical line, such as where the model is on a sweep.
    level : a height that is marked by a horizontal line.
    """
    if not panels or not all(lines and all(lines.values()) for lines in panels.values()):
        raise InputError(
            "binned_lines",
            got="no panel, or one without points",
            expected="panel to rule to points",
            hint="bin at least one rule",
        )
    rules = list(dict.fromkeys(rule for lines in panels.values() for rule in lines))
    looks = styles(rules)
    names = {panel: along if isinstance(along, str) else along[panel] for panel in panels}
    shared = len(set(names.values())) == 1
    figure, axes_of = drawing(
        _alt(panels, names, quantity, title),
        rows=len(panels),
        height=1.0 + 2.15 * len(panels),
        sharey=True,
        sharex=shared,
    )
    for axes, (panel, lines) in zip(axes_of, panels.items(), strict=True):
        for rule, points in lines.items():
            x, look = np.array(list(points)), looks[rule]
            mean, low, high = (
                np.array([_part(point, part) for point in points.values()])
                for part in ("mean", "low", "high")
            )
            axes.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0)
            every = max(1, len(x) // 8)
            axes.plot(
                x,
                mean,
                color=look.colour,
                linestyle=look.dash,
                marker=look.marker,
                markevery=every,
                label=_label(rule),
            )
        if mark is not None:
            axes.axvline(mark, color=INK, linewidth=0.9, linestyle=(0, (1, 1.5)))
        if level is not None:
            axes.axhline(level, color=INK, linewidth=0.9)
        if panel:
            axes.set_title(panel)
        axes.set_ylabel(quantity)
        if axes is axes_of[-1] or not shared:
            axes.set_xlabel(names[panel])
    if title:
        figure.suptitle(title, fontweight="bold")
    handles, labels = [], []
    for axes in axes_of:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if max(map(len, labels)) > 12 else 3)
    return figure


def _label(rule: str) -> str:
    """The method's label; "attnlrp, logits" is a variant of "attnlrp" and is named like it."""
    method, *variant = rule.split(", ")
    return ", ".join([styles([method])[method].label, *variant])


def _part(point: Any, part: str) -> float:
    return float(getattr(point, part)) if isinstance(point, Interval) else float(point)


def _alt(panels: Mapping[str, Lines], names: Mapping[str, str], quantity: str, title: str | None) -> str:
    out = [f"{title}."] if title else []
    for panel, lines in panels.items():
        walks = "; ".join(_walk(_label(rule), points) for rule, points in lines.items())
        out.append(f"{panel + ': ' if panel else ''}{quantity} along {names[panel]}: {walks}.")
    return " ".join(out)


def _walk(label: str, points: Mapping[float, Any]) -> str:
    (first, start), *_, (last, end) = [*points.items(), *points.items()]
    return f"{label} from {_part(start, 'mean'):.2f} at {first:.2f} to {_part(end, 'mean'):.2f} at {last:.2f}"
