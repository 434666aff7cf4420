"""Figures of agreement with LOO against cost, names of methods with their options, and a mask's path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from lrp_companion.checks import InputError
from lrp_companion.masks import mask_label
from lrp_companion.metrics import Interval
from lrp_companion.registry import Style, method_named
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, settle
from lrp_companion.show.palette import INK, QUIET, styles

Row = Mapping[str, Any]
TOKENS = {"no-special": "words", "all": "all tokens"}
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)  # of the axis of passes
PATH_LOOKS: tuple[tuple[str, Any], ...] = (
    ("#0067a5", "-"),
    ("#c44c00", (0, (3, 1.5))),
    ("#00755e", (0, (6, 2, 1, 2))),
    ("#a8216b", (0, (1, 1))),
)


def method_label(name: str) -> str:
    """A method of a run, or an option that was tried, in words.

    >>> method_label("mask-gradient:groups=8:nodes=0.2+1"), method_label("hybrid:exact=4")
    ('mask gradient, K = 8, nodes 0.2 and 1', 'hybrid, 4 exact')
    >>> method_label("lrp:bypass=2+3+4+8")
    'LRP, layers 2, 3, 4, 8 bypassed'
    """
    kind, options = _parts(name)
    if kind == "lrp" and "bypass" in options:
        layers = frozenset(map(int, options.pop("bypass").split("+")))
        return f"LRP, layer{'s' * (len(layers) > 1)} {mask_label(layers)} bypassed" + _rest(options)
    words = [styles([kind])[kind].label if kind != "sampled-loo" else "random removals"]
    for key, form in (("n_steps", "{} steps"), ("exact", "{} exact"), ("budget", "{}"), ("groups", "K = {}")):
        if key in options:
            words.append(form.format(options.pop(key).replace("all", "T")))
    if "nodes" in options:
        nodes = options.pop("nodes")
        listed = " and ".join(nodes.rsplit("+", 1)).replace("+", ", ")
        words.append(f"{nodes} nodes of Radau" if nodes.isdigit() else f"nodes {listed}")
    return ", ".join(words) + _rest(options)


def _parts(name: str) -> tuple[str, dict[str, str]]:
    kind, *options = name.split(":")
    return kind, dict(option.split("=", 1) for option in options)


def _rest(options: Mapping[str, str]) -> str:
    known = {
        "weights=equal": "equal weights",
        "by=random": "random groups",
        "by=gradient": "groups by |gradient|",
        "correct=line": "line",
    }
    return "".join(", " + known.get(f"{key}={value}", f"{key} {value}") for key, value in options.items())


@mpl.rc_context(LOOK)
def frontier_figure(rows: Sequence[Row], *, title: str, statistic: str = "pearson") -> Drawing:
    """Draw agreement with LOO against cost for every method: words above, all tokens below.

    A method with an option that buys more passes is a line whose points are named by that option. Bars are
    95 % intervals. The thin staircase is the largest mean r at this cost or less. Methods of equal cost are
    drawn side by side. LOO itself is the ring at r = 1.

    Parameters
    ----------
    rows : of `frontier`.
    """
    compared = [row for row in rows if row["method"] != "loo"]
    if not compared:
        raise InputError(
            "frontier_figure",
            got="no method besides LOO",
            expected="rows of frontier",
            hint="run more methods",
        )
    loo_cost = next((row["cost"] for row in rows if row["method"] == "loo"), None)
    lines = _families([row["method"] for row in compared])
    figure, panels = drawing(_frontier_alt(compared, title, statistic), rows=2, height=7.8, sharex=True)
    for axes, tokens in zip(panels, TOKEN_CHOICES, strict=True):
        if loo_cost is not None:
            _loo_itself(axes, loo_cost)
        _frontier_panel(
            axes, compared, lines, {row["method"]: row["r"][statistic][tokens] for row in compared}
        )
        axes.margins(y=0.1)  # room for names
        axes.set_title(f"r with LOO, {TOKENS[tokens]}")
        axes.set_xscale("log")
    _passes_axis(panels[-1], max([row["cost"] for row in compared] + ([loo_cost] if loo_cost else [])))
    headline(figure, title)
    settle(figure)
    return figure


def _loo_itself(axes: Axes, cost: float) -> None:
    """LOO at its cost, where r is 1 by definition, with a line down to the axis of passes."""
    axes.axvline(cost, color=INK, linewidth=0.9, linestyle=":", zorder=1)
    look: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK}
    axes.plot(cost, 1.0, linestyle="none", markersize=6.5, label="LOO itself", **look)
    label_points(axes, [Name("LOO itself", cost, 1.0, INK)])


def _frontier_alt(rows: Sequence[Row], title: str, statistic: str) -> str:
    sentences = [f"{title}. Mean r with LOO against forward and backward passes."]
    for tokens in TOKEN_CHOICES:
        points = (
            f"{method_label(row['method'])} ({row['cost']:.0f} passes) {row['r'][statistic][tokens].mean:.2f}"
            for row in rows
        )
        sentences.append(f"{TOKENS[tokens]}: {', '.join(points)}.")
    return " ".join(sentences)


def _frontier_panel(
    axes: Axes,
    rows: Sequence[Row],
    lines: Sequence[tuple[list[str], Style]],
    r: Mapping[str, Interval],
) -> None:
    """Every method at its cost and its r, the names of the points of a line, and the staircase."""
    by_name = {row["method"]: row for row in rows}
    place = _dodged([row["cost"] for row in rows], list(by_name))
    for names, look in lines:
        _points(axes, [(place[name], r[name]) for name in names], look)
        middle = sorted(names, key=lambda name: place[name])[len(names) // 2]
        label_points(axes, [Name(look.label, place[middle], r[middle].mean, look.colour)])
        if len(names) == 1:
            continue
        shift = (-7, 6) if _parts(names[0])[0] == "hybrid" else (4, -11)
        for name in names:
            axes.annotate(
                _mark(by_name[name]),
                (place[name], r[name].mean),
                xytext=shift,
                textcoords="offset points",
                fontsize=8,
                color=look.colour,
            )
    _staircase(axes, [(row["cost"], r[row["method"]].mean) for row in rows])


def _passes_axis(axes: Axes, largest: float) -> None:
    ticks = [tick for tick in TICKS if tick <= 1.3 * largest]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])
    axes.set_xlabel("forward + backward passes, mean over texts")


def _dodged(costs: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """Places on the logarithmic axis: methods whose costs differ by less than 2 % are moved apart."""
    alike: dict[int, list[str]] = {}
    for cost, name in zip(costs, names, strict=True):
        alike.setdefault(round(float(np.log(cost)) * 50), []).append(name)
    cost_of = dict(zip(names, costs, strict=True))
    return {
        name: cost_of[name] * 1.07 ** (k - (len(group) - 1) / 2)
        for group in alike.values()
        for k, name in enumerate(group)
    }


def _families(names: Sequence[str]) -> list[tuple[list[str], Style]]:
    """Methods that differ in one option that buys passes, in order, and how each line is drawn."""
    lines: dict[tuple, list[str]] = {}
    for name in names:
        kind, options = _parts(name)
        rest = tuple(sorted((key, value) for key, value in options.items() if key != method_named(kind).dial))
        lines.setdefault((kind, *rest) if method_named(kind).dial else (name,), []).append(name)
    drawn = []
    for members in lines.values():
        kind, _ = _parts(members[0])
        base = styles([kind])[kind]
        if len(members) == 1:
            label = method_label(members[0])
        else:
            label = "IG, by steps" if kind == "ig" else f"{method_label(kind)}, more passes"
        drawn.append((members, Style(label, base.colour, base.marker, base.dash)))
    return drawn


def _mark(row: Row) -> str:
    """What names a point of a line: its option, or its backward passes where the option is left out."""
    kind, options = _parts(row["method"])
    return options.get(method_named(kind).dial or "", f"{row['backwards']:.0f}").replace("all", "T")


def _points(axes: Axes, points: Sequence[tuple[float, Interval]], look: Style) -> None:
    costs, intervals = [cost for cost, _ in points], [interval for _, interval in points]
    limits = [interval.low for interval in intervals], [interval.high for interval in intervals]
    axes.vlines(costs, *limits, color=look.colour, linewidth=1.2)
    axes.plot(
        costs,
        [interval.mean for interval in intervals],
        color=look.colour,
        marker=look.marker,
        markersize=6.0,
        linestyle=look.dash if len(points) > 1 else "none",
        linewidth=1.1,
        label=look.label,
    )


def _staircase(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    known = sorted((cost, r) for cost, r in points if np.isfinite(r))
    costs, best = [cost for cost, _ in known], np.maximum.accumulate([r for _, r in known])
    axes.step(costs, best, where="post", color=QUIET, linewidth=0.7, alpha=0.8, zorder=0)


@mpl.rc_context(LOOK)
def mask_path_figure(paths: Mapping[str, Any], *, title: str) -> Drawing:
    """Draw the logit as single tokens are masked out, with the slope at the whole input.

    Parameters
    ----------
    paths : of `failure_cases.mask_paths`.
    """
    changes = zip(paths["tokens"], paths["loo"], paths["gradient"], strict=True)
    alt = f"{title}. Logit as the mask of one token goes from 1 to 0: " + ", ".join(
        f"{token} falls by {loo:.2f}, its slope says {gradient:.2f}" for token, loo, gradient in changes
    )
    figure, (axes,) = drawing(alt + ".", height=3.6)
    for k, token in enumerate(paths["tokens"]):
        colour, dash = PATH_LOOKS[k % len(PATH_LOOKS)]
        logits, slope = paths["value"][k], paths["gradient"][k]
        axes.plot(paths["w"], logits, color=colour, linestyle=dash, label=token)
        tangent = logits[-1] + slope * np.array([-1, 0])
        axes.plot([0, 1], tangent, color=colour, linewidth=0.8, linestyle=":")
        where = len(logits) // 12  # a little to the right of the steepest place
        label_points(
            axes,
            [
                Name(f"{token}: LOO {paths['loo'][k]:+.2f}", paths["w"][where], logits[where], colour),
                Name(f"its slope at 1: {slope:+.2f}", 0.35, logits[-1] - 0.65 * slope, colour),
            ],
        )
    axes.set_xlabel("mask of the token (1: whole text, 0: left out)")
    axes.set_ylabel(f"logit of {paths['label']}")
    headline(figure, title)
    settle(figure)
    return figure
