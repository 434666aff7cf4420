"""Means in bins of a quantity, or one number along a sweep: a line per rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.registry import Style
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_ends, limits, settle
from lrp_companion.show.palette import INK, styles

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
    """Draw one line per rule, panel by panel, with markers at the bins; bands are the intervals.

    Parameters
    ----------
    panels : panel title to rule to {place on the horizontal axis: `Interval` or number}. An undefined mean
        leaves a gap.
    along : what the horizontal axis shows, one text for all panels or one per panel.
    quantity : what the vertical axis shows, the same in all panels.
    mark : where a vertical line is drawn, such as the model's place in a sweep.
    level : where a horizontal line is drawn.
    """
    if not panels or not all(lines and all(lines.values()) for lines in panels.values()):
        raise InputError(
            "binned_lines",
            got="no panel, or one without points",
            expected="panel to rule to points",
            hint="bin at least one rule",
        )
    looks = styles(dict.fromkeys(rule for lines in panels.values() for rule in lines))
    names = {panel: along if isinstance(along, str) else along[panel] for panel in panels}
    shared = len(set(names.values())) == 1
    alt, height = _alt(panels, names, quantity, title), 1.0 + 2.15 * len(panels)
    figure, axes_of = drawing(alt, rows=len(panels), height=height, sharey=True, sharex=shared)
    for axes, (panel, lines) in zip(axes_of, panels.items(), strict=True):
        for rule, points in lines.items():
            _line(axes, points, looks[rule], rule_label(rule))
        label_ends(axes, [_end_name(rule, points, looks[rule]) for rule, points in lines.items()])
        if mark is not None:
            axes.axvline(mark, color=INK, linewidth=0.9, linestyle=(0, (1, 1.5)))
        if level is not None:
            axes.axhline(level, color=INK, linewidth=0.9)
        if panel:
            axes.set_title(panel)
        axes.set_ylabel(quantity)
        if axes is axes_of[-1] or not shared:
            axes.set_xlabel(names[panel])
    headline(figure, title)
    settle(figure)
    return figure


def _line(axes: Axes, points: Mapping[float, Any], look: Style, label: str) -> None:
    """One rule's means over the bins, with its band and about eight markers."""
    x = np.array(list(points))
    mean, low, high = limits(map(_interval, points.values()))
    axes.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0)
    line: dict[str, Any] = {"color": look.colour, "linestyle": look.dash, "marker": look.marker}
    axes.plot(x, mean, markevery=max(1, len(x) // 8), label=label, **line)


def _end_name(rule: str, points: Mapping[float, Any], look: Style) -> Name:
    """A rule at the last place where it has a mean."""
    means = {place: _interval(point).mean for place, point in points.items()}
    last = max((place for place, mean in means.items() if np.isfinite(mean)), default=0.0)
    return Name(rule_label(rule), last, means.get(last, 0.0), look.colour)


def rule_label(rule: str) -> str:
    """The method's label; "attnlrp, logits" is a variant of "attnlrp" and is named like it."""
    method, *variant = rule.split(", ")
    return ", ".join([styles([method])[method].label, *variant])


def _interval(point: Any) -> Interval:
    """A point as an interval; a number is one without width."""
    return point if isinstance(point, Interval) else Interval(float(point), float(point), float(point), 1)


def _alt(panels: Mapping[str, Lines], names: Mapping[str, str], quantity: str, title: str | None) -> str:
    sentences = [f"{title}."] if title else []
    for panel, lines in panels.items():
        walks = "; ".join(_walk(rule_label(rule), points) for rule, points in lines.items())
        sentences.append(f"{panel + ': ' if panel else ''}{quantity} along {names[panel]}: {walks}.")
    return " ".join(sentences)


def _walk(label: str, points: Mapping[float, Any]) -> str:
    (first, start), *_, (last, end) = [*points.items(), *points.items()]
    start, end = _interval(start).mean, _interval(end).mean
    return f"{label} from {start:.2f} at {first:.2f} to {end:.2f} at {last:.2f}"
