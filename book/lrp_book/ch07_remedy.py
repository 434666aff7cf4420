"""Chapter 7: how close each method comes to LOO and for how many passes, and how options were chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from lrp_book.labels import TOKENS, finished, kind_and_options, method_label
from lrp_companion.checks import InputError
from lrp_companion.lab.labelled import mean, r_with_loo, side
from lrp_companion.lab.load import MnistRun, TextRun
from lrp_companion.masks import bypassed
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import intervals, side_of_zero
from lrp_companion.registry import Style, label_of, method_named
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, label_points
from lrp_companion.show.palette import INK, QUIET, styles
from lrp_companion.show.tables import Table, table

Row = dict[str, Any]
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)  # of the axis of passes
WORDS = {"site": "word", "map": "raw", "removal": "attention-mask", "target": "logit"}
STATISTIC = {"pearson": "Pearson", "spearman": "rank (Spearman)"}
"""How maps are read on this page: at the words, for the logit, against LOO by the attention mask."""


# -- the frontier ----------------------------------------------------------------------------------------


def frontier(run: TextRun, *, methods: Sequence[str] | None = None) -> xr.Dataset:
    """What each example says of every method of a run, or of some, the cheapest first.

    Returns
    -------
    xarray.Dataset
        Over `explainer` and `example`: `r` with LOO (by tokens and statistic), `error` of the value and
        `top3`, the overlap of the three largest (by tokens), `logit` along the curves (`curve`: "morf",
        "lerf", "delta") and `seconds`; over `explainer`: `forwards`, `backwards` and their sum `cost`, means.
    """
    passes = {method: run.passes(method).mean(0) for method in (methods or run.methods)}
    order = sorted(passes, key=lambda method: float(passes[method].sum()))
    forwards, backwards = np.array([passes[method] for method in order]).T
    near = {
        "error": [[run.error(name, tokens=tokens) for tokens in TOKEN_CHOICES] for name in order],
        "top3": [[run.overlap(name, k=3, tokens=tokens) for tokens in TOKEN_CHOICES] for name in order],
    }
    curves = ("morf", "lerf", "delta")
    logit = [[run.column(name, curve) for curve in curves] for name in order]
    seconds = [run.column(name, "seconds") for name in order]
    return xr.Dataset(
        {
            "r": r_with_loo(run, order, **WORDS, statistic=["pearson", "spearman"]),
            **{name: (("explainer", "tokens", "example"), values) for name, values in near.items()},
            "logit": (("explainer", "curve", "example"), logit),
            "seconds": (("explainer", "example"), seconds),
            "forwards": ("explainer", forwards),
            "backwards": ("explainer", backwards),
            "cost": ("explainer", forwards + backwards),
        },
        {"curve": list(curves)},
    )


def of_each(values: xr.DataArray) -> dict[str, Any]:
    """An array over methods as a dict by their names."""
    return dict(zip(values.explainer.values.tolist(), values.values.tolist(), strict=True))


def speedup(data: xr.Dataset) -> dict[str, float | None]:
    """LOO's mean seconds over each method's, over the texts whose LOO was timed in this run; else None."""
    loo = data.seconds.sel(explainer=data.explainer == "loo").sum("explainer", min_count=1)
    timed = loo.notnull() & data.seconds.notnull()
    ratio = loo.where(timed).mean("example") / data.seconds.where(timed).mean("example")
    return {name: None if np.isnan(value) else value for name, value in of_each(ratio).items()}


def dominated(data: xr.Dataset) -> xr.DataArray:
    """Whether some method costs no more and agrees better, the whole interval of the paired difference on its
    side: bool (explainer, tokens, rival), the rival being the better one.
    """
    r, cost = data.r.sel(statistic="pearson", drop=True), data.cost
    ahead = side(mean(r - r.rename(explainer="rival"))) == "below"
    return ahead & (cost.rename(explainer="rival") <= cost)


def _minus(values: xr.DataArray, reference: str) -> xr.DataArray:
    """Paired differences of each other method, an array of intervals."""
    return mean(values.drop_sel(explainer=reference) - values.sel(explainer=reference, drop=True))


def _by_method(
    methods: Iterable[str], columns: Mapping[str, Mapping[str, Mapping[str, Any]]], *, title: str
) -> Table:
    """A line per method: group ("" for none), then heading, to what each method has."""
    cells = {f"{group}|{head}": of for group, some in columns.items() for head, of in some.items()}
    rows = [
        {"method": method_label(name), **{key: of.get(name) for key, of in cells.items()}} for name in methods
    ]
    heads = {key: key.split("|")[1] for key in cells if any(row[key] is not None for row in rows)}
    groups = {group: [key for key in heads if key.startswith(f"{group}|")] for group in columns if group}
    named = {"method": "method", **heads}
    return table(rows, columns=named, groups=groups, caption=title)


def frontier_table(data: xr.Dataset, *, title: str) -> Table:
    """Passes, seconds, r with LOO, speed-up over LOO, and under which tokens a method is dominated."""
    r, beaten = mean(data.r.sel(statistic="pearson")), dominated(data).any("rival")
    forwards, backwards = of_each(data.forwards), of_each(data.backwards)
    under = {label: of_each(beaten.sel(tokens=tokens)) for tokens, label in TOKENS.items()}
    columns = {
        "passes": {name: f"{forwards[name]:.0f} + {backwards[name]:.0f}" for name in forwards},
        "seconds": of_each(data.seconds.mean("example")),
        **{f"r, {label}": of_each(r.sel(tokens=tokens)) for tokens, label in TOKENS.items()},
        "times faster than LOO": speedup(data),
        "dominated": {
            name: ", ".join(label for label, of in under.items() if of[name]) or "no" for name in forwards
        },
    }
    return _by_method(forwards, {"": columns}, title=title)


def nearness_table(data: xr.Dataset, *, title: str) -> Table:
    """Error of the value, overlap of the three largest, and Spearman's r, by tokens."""
    means = {"error": mean(data.error), "top 3": mean(data.top3)}
    means["Spearman"] = mean(data.r.sel(statistic="spearman"))
    columns = {
        label: {name: of_each(values.sel(tokens=tokens)) for name, values in means.items()}
        for tokens, label in TOKENS.items()
    }
    return _by_method(of_each(data.cost), columns, title=title)


def difference_table(data: xr.Dataset, *, title: str) -> Table:
    """Paired differences of r to AttnLRP and CP-LRP, by tokens."""
    r = data.r.sel(statistic="pearson")
    methods = list(of_each(data.cost))
    columns = {
        f"minus {label_of(name)}": {
            label: of_each(_minus(r, name).sel(tokens=tokens)) for tokens, label in TOKENS.items()
        }
        for name in ("attnlrp", "cp-lrp")
        if name in methods
    }
    return _by_method([name for name in methods if name != "loo"], columns, title=title)


def perturbation_table(data: xr.Dataset, *, title: str) -> Table:
    """Mean logit along MoRF and LeRF, their difference, and that minus AttnLRP's and LOO's; best first."""
    means, delta = mean(data.logit), data.logit.sel(curve="delta")
    heads = zip(("MoRF", "LeRF", "LeRF − MoRF"), data.curve.values, strict=True)
    columns = {head: of_each(means.sel(curve=curve)) for head, curve in heads}
    order = sorted(columns["MoRF"], key=lambda name: -columns["LeRF − MoRF"][name].mean)
    columns |= {
        f"difference minus {label_of(name)}'s": of_each(_minus(delta, name))
        for name in ("attnlrp", "loo")
        if name in order
    }
    return _by_method(order, {"": columns}, title=title)


def best_within(
    data: xr.Dataset, budgets: Sequence[float] = (2, 6, 12, 20, 40), *, tokens: str = "no-special"
) -> list[Row]:
    """The method of highest mean r among those whose mean cost is within each budget of passes, LOO left out.

    Returns
    -------
    list
        Rows `at most`, `method`, `r`, `passes`, `error of the value`, `times faster than LOO`; with two
        methods or more within the budget also `next`, the one of the second highest mean r, and
        `ahead of it by`, the paired difference of r to it. The best of several means is slightly too high for
        new texts: it was chosen on the texts that the row reports.
    """
    r, faster, cost = data.r.sel(statistic="pearson", tokens=tokens), speedup(data), of_each(data.cost)
    means = {name: value for name, value in of_each(mean(r)).items() if name != "loo"}
    rows = []
    for budget in budgets:
        within = [name for name in means if cost[name] <= budget and np.isfinite(means[name].mean)]
        if not within:
            continue
        best, *others = sorted(within, key=lambda name: -means[name].mean)
        row = {"at most": budget, "method": method_label(best), "r": means[best]}
        if others:
            row["next"] = method_label(others[0])
            row["ahead of it by"] = mean(r.sel(explainer=best) - r.sel(explainer=others[0]))
        error = mean(data.error.sel(explainer=best, tokens=tokens))
        row |= {"passes": f"{cost[best]:.0f}", "error of the value": error}
        rows.append(row | {"times faster than LOO": faster[best]})
    return rows


def digit_frontier(run: MnistRun) -> list[Row]:
    """Cost and closeness to LOO of every explainer of nets on digits, where every pixel is a token.

    Maps of both graphs are raw; each image counts with its mean over the nets.

    Returns
    -------
    list
        A row per method, the cheapest first: `method`, `forwards`, `backwards`, as intervals r with LOO of
        both graphs and between their two maps, and the `distance` of these, relative.
    """
    columns = {"left, with LOO": "r left-LOO", "right, with LOO": "r right-LOO"}
    columns["left with right"] = "r left-right"
    r = intervals({(e, key): run.values(e, name) for e in run.explainers for key, name in columns.items()})
    rows = []
    for name in run.explainers:
        forwards, backwards = _digit_passes(run.manifest["config"]["explainers"][name])
        row: Row = {"method": "LOO" if name == "LOO" else method_label(name)}
        row |= {"forwards": forwards, "backwards": backwards, **{key: r[name, key] for key in columns}}
        rows.append(row | {"distance": f"{bootstrap_mean(run.values(name, 'gap')).mean:.1g}"})
    return sorted(rows, key=lambda row: row["forwards"] + row["backwards"])


def _digit_passes(call: Mapping[str, Any]) -> tuple[int, int]:
    """Forward and backward passes of one image; IG needs two more forwards for its convergence delta."""
    if call["method"] == "loo":
        return 197, 0  # the image, and without each pixel
    if call["method"] == "ig":
        return call.get("n_steps", 50) + 2, call.get("n_steps", 50)
    if call["method"] != "mask-gradient":
        return 1, 1
    groups, nodes = call.get("groups", 1), call.get("nodes")
    count = 196 if groups == "all" else groups
    points = (1 if groups == 1 else 2) if nodes is None else nodes if isinstance(nodes, int) else len(nodes)
    passes = 1 + count * (points - 1)
    return passes, passes


# -- the figure ------------------------------------------------------------------------------------------


@mpl.rc_context(LOOK)
def frontier_figure(data: xr.Dataset, *, title: str) -> Drawing:
    """Draw agreement with LOO at the words against cost, for every method: Pearson above, rank below.

    A method with an option that buys more passes is a line whose points are named by that option. Bars are
    95 % intervals. The thin staircase is the largest mean r at this cost or less. Methods of equal cost are
    drawn side by side. LOO itself is the ring at r = 1.
    """
    cost = of_each(data.cost)
    loo_cost = cost.pop("loo", None)
    if not cost:
        expected, hint = "results of frontier", "run more methods"
        raise InputError("frontier_figure", got="no method besides LOO", expected=expected, hint=hint)
    means, backwards = mean(data.r.sel(tokens="no-special")), of_each(data.backwards)
    r = {statistic: of_each(means.sel(statistic=statistic)) for statistic in STATISTIC}
    alt = [f"{title}. Mean r with LOO at the words against forward and backward passes."]
    for statistic, label in STATISTIC.items():
        points = (f"{method_label(m)} ({cost[m]:.0f} passes) {r[statistic][m].mean:.2f}" for m in cost)
        alt.append(f"{label}: {', '.join(points)}.")
    marks = {name: _mark(name, backwards[name]) for name in cost}
    ring: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK}
    figure, panels = drawing(" ".join(alt), rows=2, height=7.8, sharex=True)
    for axes, (statistic, label) in zip(panels, STATISTIC.items(), strict=True):
        if loo_cost is not None:
            axes.axvline(loo_cost, color=INK, linewidth=0.9, linestyle=":", zorder=1)
            axes.plot(loo_cost, 1.0, linestyle="none", markersize=6.5, label="LOO itself", **ring)
            label_points(axes, [Name("LOO itself", loo_cost, 1.0, INK)])
        _frontier_panel(axes, cost, r[statistic], marks)
        axes.margins(y=0.1)  # room for names
        axes.set_title(f"r with LOO, {label}")
        axes.set_xscale("log")
    ticks = [tick for tick in TICKS if tick <= 1.3 * max(*cost.values(), loo_cost or 0)]
    panels[-1].xaxis.set_major_locator(FixedLocator(ticks))
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xticklabels([str(tick) for tick in ticks])
    panels[-1].set_xlabel("forward + backward passes, mean over texts")
    return finished(figure, title)


def _frontier_panel(
    axes: Axes, cost: Mapping[str, float], r: Mapping[str, Interval], marks: Mapping[str, str]
) -> None:
    """Every method at its cost and its r, the names of the points of a line, and the staircase."""
    place = _dodged(cost)
    for members, look in _families(cost):
        x, values = [place[name] for name in members], [r[name] for name in members]
        ends = [value.low for value in values], [value.high for value in values]
        axes.vlines(x, *ends, color=look.colour, linewidth=1.2)
        line: dict[str, Any] = {"marker": look.marker, "markersize": 6.0, "linewidth": 1.1}
        line |= {"linestyle": look.dash if len(members) > 1 else "none", "label": look.label}
        axes.plot(x, [value.mean for value in values], color=look.colour, **line)
        middle = sorted(members, key=lambda name: place[name])[len(members) // 2]
        label_points(axes, [Name(look.label, place[middle], r[middle].mean, look.colour)])
        shift = (-7, 6) if members[0].startswith("hybrid") else (4, -11)
        look_of: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": look.colour}
        for name in members if len(members) > 1 else ():
            axes.annotate(marks[name], (place[name], r[name].mean), xytext=shift, **look_of)
    known = sorted((cost[name], r[name].mean) for name in cost if np.isfinite(r[name].mean))
    best = np.maximum.accumulate([value for _, value in known])
    axes.step([x for x, _ in known], best, where="post", color=QUIET, linewidth=0.7, alpha=0.8, zorder=0)


def _dodged(cost: Mapping[str, float]) -> dict[str, float]:
    """Places on the logarithmic axis: methods whose costs differ by less than 2 % are moved apart."""
    alike: dict[int, list[str]] = {}
    for name, value in cost.items():
        alike.setdefault(round(float(np.log(value)) * 50), []).append(name)
    return {
        name: cost[name] * 1.07 ** (k - (len(group) - 1) / 2)
        for group in alike.values()
        for k, name in enumerate(group)
    }


def _families(methods: Iterable[str]) -> list[tuple[list[str], Style]]:
    """Methods that differ in one option that buys passes, in order, and how each line is drawn."""
    lines: dict[tuple, list[str]] = {}
    for name in methods:
        kind, options = kind_and_options(name)
        dial = method_named(kind).dial
        rest = tuple(sorted((key, value) for key, value in options.items() if key != dial))
        lines.setdefault((kind, *rest) if dial else (name,), []).append(name)
    drawn = []
    for members in lines.values():
        kind, _ = kind_and_options(members[0])
        base, label = styles([kind])[kind], method_label(members[0])
        if len(members) > 1:
            label = "IG, by steps" if kind == "ig" else f"{method_label(kind)}, more passes"
        drawn.append((members, Style(label, base.colour, base.marker, base.dash)))
    return drawn


def _mark(name: str, backwards: float) -> str:
    """What names a point of a line: its option, or its backward passes where the option is left out."""
    kind, options = kind_and_options(name)
    return options.get(method_named(kind).dial or "", f"{backwards:.0f}").replace("all", "T")


# -- which options, which layers -------------------------------------------------------------------------

_TRIED = {k: f"mask-gradient:groups={k}:nodes=" for k in (2, 4, 8, "all")}
_NODES = ("0.5+1", "0.2+1", "0.1+1", "0.05+1", "0+1", "0+0.5+1", "3")
_BY = [f":correct={line}" for line in ("scale", "shift", "line")]
QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{f"nodes, K = {k}": (f"{name}2", tuple(f"{name}{n}" for n in _NODES)) for k, name in _TRIED.items()},
    **{f"a lower node, K = {k}": (f"{name}0.2+1", (f"{name}0.1+1",)) for k, name in _TRIED.items()},
    **{
        f"groups, K = {k}, nodes {n}": (f"{name}{n}", (f"{name}{n}:by=random", f"{name}{n}:by=gradient"))
        for k, name in _TRIED.items()
        for n in ("2", "0.2+1")
        if k != "all"
    },
    **{
        f"correction, {k} exact tokens": (f"hybrid:exact={k}", tuple(f"hybrid:exact={k}{by}" for by in _BY))
        for k in (2, 4, 8)
    },
}
"""Each question with the option used before, and those that must be better on all models and tokens."""


def option_choices(records: Sequence[Mapping[str, Any]], *questions: str) -> list[Row]:
    """Options against the one used before, paired on the texts of each record.

    Parameters
    ----------
    questions : how the names of the questions in `QUESTIONS` begin; all by default.

    Returns
    -------
    list
        Rows `question`, `option`, `against`, `differences` of r (intervals, by model and tokens) and
        `verdict`: "better" or "worse" if all of these lie on one side of 0, else "open".
    """
    r = {
        (record["config"]["model"], row["name"], tokens): np.array(row["r"][tokens], dtype=np.float64)
        for record in records
        for row in record["rows"]
        for tokens in TOKEN_CHOICES
    }
    rows: list[Row] = [
        {"question": question, "option": option, "against": before}
        for question, (before, options) in QUESTIONS.items()
        if question.startswith(questions or "")
        for option in options
    ]
    for row in rows:
        row["differences"] = intervals(
            {
                (model, tokens): values - r[model, row["against"], tokens]
                for (model, name, tokens), values in r.items()
                if name == row["option"]
            }
        )
        sides = {side_of_zero(difference) for difference in row["differences"].values()}
        row["verdict"] = "better" if sides == {"above"} else "worse" if sides == {"below"} else "open"
    return rows


def option_table(choices: Sequence[Row], *, title: str, digits: int = 3) -> Table:
    """Rows of `option_choices`: paired differences of r by model and tokens, and the verdict."""
    places = {f"{model}, {tokens}": (model, tokens) for model, tokens in choices[0]["differences"]}
    rows = [
        {"option": method_label(row["option"]), "verdict": row["verdict"]}
        | {"against": method_label(row["against"])}
        | {name: row["differences"][place] for name, place in places.items()}
        for row in choices
    ]
    heads = {name: name for name in ("option", "verdict", "against")}
    heads |= {name: TOKENS[tokens] for name, (_, tokens) in places.items()}
    groups = {model: [f"{model}, {tokens}" for tokens in TOKEN_CHOICES] for model, _ in places.values()}
    return table(rows, columns=heads, groups=groups, caption=title, digits=digits)


def best_masks(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The mask with the largest mean r at the words of each record of `compare_masks`, and both ends."""
    rows = []
    for config, r in ((record["config"], record["r"]) for record in records):
        mask = int(np.argmax(r["no-special"]))
        row: Row = {"model": config["model"], "n": config["texts"], "layers bypassed": sorted(bypassed(mask))}
        for tokens, label in (("no-special", "words"), ("all", "all")):
            for name, place in (("best", mask), ("attnlrp", 0), ("cp-lrp", -1)):
                row[f"{name}, {label}"] = r[tokens][place]
        rows.append(row)
    return rows
