"""The remedy shown: nearness to LOO against cost, the options that were chosen, one token's way through the
mask, and its limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from lrp_companion.analysis.tuned_options import Choice
from lrp_companion.masks import mask_label
from lrp_companion.metrics import Interval
from lrp_companion.schema import TOKEN_CHOICES, InputError
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, QUIET, Style, styles
from lrp_companion.views.tables import Table, table

Row = Mapping[str, Any]
TOKENS = {"no-special": "words", "all": "all tokens"}
FAMILIES = {"mask-gradient": "groups", "hybrid": "exact", "sampled-loo": "budget", "ig": "n_steps"}
"""Methods that are drawn as a line, from the cheapest to the dearest, and the option that names a point of
it.
"""


def method_label(name: str) -> str:
    """A method of a run, or an option that was tried, in words.

    >>> method_label("mask-gradient:groups=8:nodes=0.2+1"), method_label("lrp:bypass=2+3+4+8"), method_label("hybrid:exact=4")
    ('mask gradient, K = 8, nodes 0.2 and 1', 'LRP, layers 2, 3, 4, 8 bypassed', 'hybrid, 4 exact')
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
        words.append(
            f"{nodes} nodes of Radau"
            if nodes.isdigit()
            else "nodes " + " and ".join(nodes.rsplit("+", 1)).replace("+", ", ")
        )
    return ", ".join(words) + _rest(options)


def _parts(name: str) -> tuple[str, dict[str, str]]:
    kind, *options = name.split(":")
    return kind, dict(own.split("=", 1) for own in options)


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
    """Draw agreement with LOO against cost for every method, above at the words, beneath over all tokens.

    A method with an option that buys more passes is a line, its points named by that option. Bars are 95 %
    intervals. The thin staircase is the largest mean r at this cost or less. Methods of one cost stand side
    by side.

    Parameters
    ----------
    rows : of `frontier`.
    """
    own = [row for row in rows if row["method"] != "loo"]
    if not own:
        raise InputError(
            "frontier_figure",
            got="no method besides LOO",
            expected="rows of frontier",
            hint="run more methods",
        )
    lines = _families([row["method"] for row in own])
    by_name = {row["method"]: row for row in own}
    at = _dodged([row["cost"] for row in own], [row["method"] for row in own])
    exact = next((row["cost"] for row in rows if row["method"] == "loo"), None)
    alt = f"{title}. Mean r with LOO against forward and backward passes. " + " ".join(
        f"{TOKENS[tokens]}: "
        + ", ".join(
            f"{method_label(row['method'])} ({row['cost']:.0f} passes) {row['r'][statistic][tokens].mean:.2f}"
            for row in own
        )
        + "."
        for tokens in TOKEN_CHOICES
    )
    figure, panels = drawing(alt, rows=2, height=7.4, sharex=True)
    for axes, tokens in zip(panels, TOKEN_CHOICES, strict=True):
        for names, look in lines:
            points = [by_name[name] for name in names]
            _points(axes, [(at[row["method"]], row["r"][statistic][tokens]) for row in points], look)
            if len(names) > 1:
                above = _parts(names[0])[0] == "hybrid"
                for row in points:
                    place = at[row["method"]], row["r"][statistic][tokens].mean
                    shift = (-7, 6) if above else (4, -11)
                    axes.annotate(
                        _mark(row),
                        place,
                        xytext=shift,
                        textcoords="offset points",
                        fontsize=8,
                        color=look.colour,
                    )
        _staircase(axes, [(row["cost"], row["r"][statistic][tokens].mean) for row in own])
        if exact is not None:
            axes.axvline(
                exact, color=INK, linewidth=0.9, linestyle=":", label=f"LOO itself: {exact:.0f} passes, r = 1"
            )
        axes.set_title(f"r with LOO, {TOKENS[tokens]}")
        axes.set_xscale("log")
    largest = max([row["cost"] for row in own] + ([exact] if exact else []))
    ticks = [own for own in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000) if own <= 1.3 * largest]
    panels[-1].xaxis.set_major_locator(FixedLocator(ticks))
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xticklabels([str(own) for own in ticks])
    panels[-1].set_xlabel("forward + backward passes, mean over texts")
    figure.suptitle(title, fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2,
        handlelength=1.8,
        columnspacing=1.0,
        fontsize=8.5,
    )
    return figure


def _dodged(costs: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """Places on the logarithmic axis: methods whose costs differ by less than 2 % are moved apart."""
    alike: dict[int, list[str]] = {}
    for cost, name in zip(costs, names, strict=True):
        alike.setdefault(round(float(np.log(cost)) * 50), []).append(name)
    cost_of = dict(zip(names, costs, strict=True))
    return {
        name: cost_of[name] * 1.07 ** (k - (len(own) - 1) / 2)
        for own in alike.values()
        for k, name in enumerate(own)
    }


def _families(names: Sequence[str]) -> list[tuple[list[str], Style]]:
    """Methods that differ in one option that buys passes, in order, and how each line is drawn."""
    lines: dict[tuple, list[str]] = {}
    for name in names:
        kind, options = _parts(name)
        rest = tuple(sorted((key, value) for key, value in options.items() if key != FAMILIES.get(kind)))
        lines.setdefault((kind, *rest) if kind in FAMILIES else (name,), []).append(name)
    out = []
    for members in lines.values():
        kind, _ = _parts(members[0])
        base = styles([kind])[kind]
        label = (
            method_label(members[0])
            if len(members) == 1
            else {"ig": "IG, by steps"}.get(kind, method_label(kind) + ", more passes")
        )
        out.append((members, Style(label, base.colour, base.marker, base.dash)))
    return out


def _mark(row: Row) -> str:
    """What names a point of a line: its option, or, of a method with its own default, its backward passes:
    steps of IG, one group.
    """
    kind, options = _parts(row["method"])
    return options.get(FAMILIES[kind], f"{row['backwards']:.0f}").replace("all", "T")


def _points(axes: Axes, points: Sequence[tuple[float, Interval]], look: Style) -> None:
    x, y = [cost for cost, _ in points], [own.mean for _, own in points]
    axes.vlines(
        x, [own.low for _, own in points], [own.high for _, own in points], color=look.colour, linewidth=1.2
    )
    line = look.dash if len(points) > 1 else "none"
    axes.plot(
        x,
        y,
        color=look.colour,
        marker=look.marker,
        markersize=6.0,
        linestyle=line,
        linewidth=1.1,
        label=look.label,
    )


def _staircase(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    known = sorted((cost, r) for cost, r in points if np.isfinite(r))
    best = np.maximum.accumulate([r for _, r in known])
    axes.step(
        [cost for cost, _ in known], best, where="post", color=QUIET, linewidth=0.7, alpha=0.8, zorder=0
    )


def frontier_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: forward + backward passes, seconds, LOO's seconds over these, r with LOO, and
    whether some method beats it.
    """
    shown = [
        {
            "method": method_label(row["method"]),
            "passes": f"{row['forwards']:.0f} + {row['backwards']:.0f}",
            "seconds": row["seconds"].mean,
            **{f"r, {TOKENS[tokens]}": row["r"]["pearson"][tokens] for tokens in TOKEN_CHOICES},
            "times faster than LOO": row["speedup"],
            "dominated": ", ".join(TOKENS[tokens] for tokens in TOKEN_CHOICES if row["beaten by"][tokens]) or "no",
        }
        for row in rows
    ]  # fmt: skip
    columns = [name for name in shown[0] if any(row[name] is not None for row in shown)]
    return table(shown, columns=columns, caption=title, digits=digits)


def nearness_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: error of the value, overlap of the three largest, and Spearman's r, by both token
    choices.
    """
    columns = {"error": lambda row, tokens: row["error"][tokens], "top 3": lambda row,
        tokens: row["overlap"][tokens][3],
               "Spearman": lambda row, tokens: row["r"]["spearman"][tokens]}  # fmt: skip
    shown = [
        {"method": method_label(row["method"])}
        | {
            f"{name}, {TOKENS[tokens]}": own(row, tokens)
            for tokens in TOKEN_CHOICES
            for name, own in columns.items()
        }
        for row in rows
    ]
    keys = [f"{name}, {TOKENS[tokens]}" for tokens in TOKEN_CHOICES for name in columns]
    groups = {
        TOKENS[tokens]: [key for key in keys if key.endswith(TOKENS[tokens])] for tokens in TOKEN_CHOICES
    }
    headings = {"method": "method"} | {key: key.split(", ")[0] for key in keys}
    return table(shown, columns=headings, groups=groups, caption=title, digits=digits)


def difference_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: paired differences of r to AttnLRP and CP-LRP, by both token choices."""
    shown = [
        {"method": method_label(row["method"])}
        | {
            f"{name}, {tokens}": row["minus"][name]["r"]["pearson"][tokens]
            for name in ("attnlrp", "cp-lrp")
            for tokens in TOKEN_CHOICES
            if name in row["minus"]
        }
        for row in rows
        if row["method"] != "loo"
    ]
    names = {"attnlrp": "minus AttnLRP", "cp-lrp": "minus CP-LRP"}
    keys = [
        f"{name}, {tokens}"
        for name in names
        for tokens in TOKEN_CHOICES
        if any(f"{name}, {tokens}" in row for row in shown)
    ]
    columns = {"method": "method"} | {key: TOKENS[key.split(", ")[1]] for key in keys}
    groups = {label: [key for key in keys if key.startswith(name)] for name, label in names.items()}
    return table(
        shown, columns=columns, groups={k: v for k, v in groups.items() if v}, caption=title, digits=digits
    )


def perturbation_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: mean logit along MoRF and LeRF, their difference, and that minus AttnLRP's and
    minus LOO's.
    """
    shown = []
    for row in sorted(rows, key=lambda row: -row["delta"].mean):
        shown.append(
            {
                "method": method_label(row["method"]),
                "MoRF": row["morf"],
                "LeRF": row["lerf"],
                "LeRF − MoRF": row["delta"],
            }
            | {
                label: row["minus"][name]["delta"]
                for name, label in REFERENCES.items()
                if name in row["minus"]
            }
        )
    columns = [
        "method",
        "MoRF",
        "LeRF",
        "LeRF − MoRF",
        *(own for own in REFERENCES.values() if any(own in row for row in shown)),
    ]
    return table(shown, columns=columns, caption=title, digits=digits)


REFERENCES = {"attnlrp": "difference minus AttnLRP's", "loo": "difference minus LOO's"}


def budget_table(found: Mapping[str, Sequence[Row]], *, title: str, digits: int = 2) -> Table:
    """Rows of `best_within` by run: what came nearest to LOO within so many passes, and how far ahead of the
    next.
    """
    shown = [
        {
            "run": run, "at most": row["budget"], "method": method_label(row["method"]), "r": row["r"],
            **({"next": method_label(row["next"]), "ahead of it by": row["ahead"]} if "next" in row else {}),
            "passes": f"{row['cost']:.0f}", "error of the value": row["error"],
            "times faster than LOO": row["speedup"],
        }
        for run, rows in found.items()
        for row in rows
    ]  # fmt: skip
    columns = list(dict.fromkeys(name for row in shown for name in row))
    return table(shown, columns=columns, caption=title, digits=digits)


def option_table(choices: Sequence[Choice], *, title: str, digits: int = 3) -> Table:
    """Each option against the one that was there first: paired differences of r by model and tokens, and what
    follows.
    """
    models = list(dict.fromkeys(model for own in choices for model, _ in own.differences))
    keys = {f"{model}, {tokens}": (model, tokens) for model in models for tokens in TOKEN_CHOICES}
    shown = [
        {"option": method_label(own.option), "verdict": own.verdict, "against": method_label(own.against)}
        | {key: own.differences[at] for key, at in keys.items() if at in own.differences}
        for own in choices
    ]
    columns = {name: name for name in ("option", "verdict", "against")} | {
        key: TOKENS[tokens] for key, (_, tokens) in keys.items()
    }
    groups = {model: [key for key, (own, _) in keys.items() if own == model] for model in models}
    return table(shown, columns=columns, groups=groups, caption=title, digits=digits)


def first_look_table(
    noted: Mapping[str, Any], found: Mapping[int, Sequence[Row]], *, title: str, digits: int = 2
) -> Table:
    """Numbers that were noted before there were records beside rows of `frontier`, by layers."""
    shown = []
    for own in noted["rows"]:
        row: dict[str, Any] = {
            "method": method_label(own["method"]),
            "tokens": TOKENS[own["tokens"]],
            "n then": own["n"],
        }
        for layers, rows in found.items():
            now = next(
                (one["r"]["pearson"][own["tokens"]] for one in rows if one["method"] == own["method"]), None
            )
            row |= {f"{layers} layers, then": own["r"].get(str(layers)), f"{layers} layers, now": now}
        shown.append(row)
    return table(shown, caption=title, digits=digits)


def digit_frontier_table(rows: Sequence[Row], *, title: str, digits: int = 3) -> Table:
    """Rows of `digit_frontier`: passes, agreement of both graphs with LOO, and how far the two graphs' maps
    lie apart.
    """
    shown = [
        {
            "method": "LOO" if row["method"] == "loo" else method_label(row["method"]),
            "forwards": row["forwards"],
            "backwards": row["backwards"], "left, with LOO": row["r"]["left"],
            "right, with LOO": row["r"]["right"],
            "left with right": row["left-right"], "distance": f"{row['gap'].mean:.1g}",
        }
        for row in rows
    ]  # fmt: skip
    return table(shown, caption=title, digits=digits)


def errs_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `where_it_errs`: rank correlation of r, and of the error, with what is known of a text; * where
    p, Holm is below 0.05.
    """
    keys = list(dict.fromkeys((row["method"], row["of"]) for row in rows))
    features = list(dict.fromkeys(row["feature"] for row in rows))
    found = {(row["method"], row["of"], row["feature"]): row for row in rows}
    names = {"concentration": "concentration of attention", "special": "attention on special tokens"}
    shown = []
    for method, of in keys:
        own = {feature: found.get((method, of, feature)) for feature in features}
        cells = {
            k: row["effect"].text(digits) + (" *" if row["p, Holm"] < 0.05 else "") if row else "undefined"
            for k, row in own.items()
        }
        shown.append(
            {"method": method_label(method), "of": of}
            | {names.get(feature, feature): text for feature, text in cells.items()}
        )
    return table(shown, caption=title, digits=digits)


def backing_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `backed_pairs`: two words, LOO of each, of both, and how much of it the single removals do not
    see.
    """
    shown = [
        {
            "words": " … ".join(row["words"]), "class": row["label"],
            "LOO of the first": row["single"][0], "of the second": row["single"][1],
            "of both": row["pair"], "not seen": row["backing"], "largest |LOO| of a word": row["largest"],
        }
        for row in rows
    ]  # fmt: skip
    return table(shown, caption=title, digits=digits)


@mpl.rc_context(LOOK)
def mask_path_figure(found: Mapping[str, Any], *, title: str) -> Drawing:
    """Draw the logit as single tokens are masked out, with the slope at the whole input: rows of
    `limits.mask_paths`.
    """
    alt = f"{title}. Logit as the mask of one token goes from 1 to 0: " + ", ".join(
        f"{token} falls by {loo:.2f}, its slope says {gradient:.2f}"
        for token, loo, gradient in zip(found["tokens"], found["loo"], found["gradient"], strict=True)
    )
    figure, (axes,) = drawing(alt + ".", height=3.6)
    for k, token in enumerate(found["tokens"]):
        look = PATH_LOOKS[k % len(PATH_LOOKS)]
        name = f"{token}: LOO {found['loo'][k]:+.2f}, slope {found['gradient'][k]:+.2f}"
        axes.plot(found["w"], found["value"][k], color=look[0], linestyle=look[1], label=name)
        axes.plot(
            [0, 1],
            found["value"][k, -1] + found["gradient"][k] * np.array([-1, 0]),
            color=look[0],
            linewidth=0.8,
            linestyle=":",
        )
    axes.set_xlabel("mask of the token (1: whole text, 0: left out)")
    axes.set_ylabel(f"logit of {found['label']}")
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=1)
    return figure


PATH_LOOKS: tuple[tuple[str, Any], ...] = (
    ("#0067a5", "-"),
    ("#c44c00", (0, (3, 1.5))),
    ("#00755e", (0, (6, 2, 1, 2))),
    ("#a8216b", (0, (1, 1))),
)
