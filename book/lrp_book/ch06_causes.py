"""Chapter 6: why the effect moves: signs of sums, [CLS], shifts, layers, and on which examples. No torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_book.ch06_protocol import BOTH, EFFECT, needs
from lrp_book.labels import finished
from lrp_book.layers import gain_under, layer_gains
from lrp_book.paired import win_rate
from lrp_book.significance import features, group_differences, holm, rank_correlations
from lrp_book.worth import r_without
from lrp_companion.checks import InputError
from lrp_companion.lab.load import Explanation, TextRun
from lrp_companion.lab.paper.protocol_grid import DISTINCT, Row, counts, grid, needs_text, title
from lrp_companion.lab.paper.tables import needs_masks
from lrp_companion.masks import NONE, mask_label, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import bootstrap_columns, intervals, side_of_zero
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, label_ends, limits
from lrp_companion.show.palette import INK, MARKERS, SPARE, styles
from lrp_companion.show.tables import Table, table

EVERYTHING = Protocol(site="word+position", tokens="all")
"""Words + positions, all tokens, raw maps: the protocol in which [CLS] counts most."""

# -- a negative sum reverses the sign of r ------------------------------------------------------------


def signs(run: TextRun, explanation: Explanation) -> Row:
    """How often the sums of the map and of LOO are negative, and the effect on r of dividing by them, at
    `EVERYTHING`.

    Returns
    -------
    dict
        Shares of examples as intervals: `negative map`, `negative LOO`, `turned` (exactly one of the two, so
        that sum-to-one reverses the sign of r). `r` and `r, sum to one` over all examples; `r, both positive`
        over those with both sums above 0 (where the two are the same), `r, otherwise` and
        `r, otherwise, sum to one` over the others; None without examples.
    """
    raw, divided = (run.r(explanation, replace(EVERYTHING, map=map)) for map in DISTINCT)
    negative_map = run.negative_sum(explanation, site=EVERYTHING.site)
    no_sign = np.isnan(divided) | (raw == 0)  # r = 0 has no sign to reverse
    turned = np.where(no_sign, np.nan, divided == -raw)
    undefined = np.isnan(turned) | np.isnan(negative_map)
    negative_loo = np.where(undefined, np.nan, turned != negative_map)
    positive, known = (negative_map == 0) & (negative_loo == 0), ~np.isnan(negative_loo)
    names = ("negative map", "negative LOO", "turned", "r", "r, sum to one")
    columns = bootstrap_columns([negative_map, negative_loo, turned, raw, divided])
    parts = {"r, both positive": raw[positive], "r, otherwise": raw[known & ~positive]}
    parts["r, otherwise, sum to one"] = divided[known & ~positive]
    whole = dict(zip(names, columns, strict=True))
    return whole | {name: bootstrap_mean(r) if len(r) else None for name, r in parts.items()}


def signs_table(runs: Sequence[TextRun]) -> Table:
    """How often a sum is negative, and r where both sums are positive and elsewhere, by run and method."""
    rows = [
        {"run": title(run), "method": name, **signs(run, method)}
        for run in runs
        for method, name in BOTH.items()
    ]
    for row in rows:
        groups = {"n both": row["r, both positive"], "n otherwise": row["r, otherwise"]}
        row |= {name: r.n if r else 0 for name, r in groups.items()}
    columns = {
        "run": "run",
        "method": "method",
        "negative map": "negative sum: map",
        "negative LOO": "LOO",
        "turned": "sign of r reversed",
        "r": "r raw",
        "r, sum to one": "r sum to one",
        "r, both positive": "r, both sums positive",
        "n both": "n",
        "r, otherwise": "r raw, otherwise",
        "r, otherwise, sum to one": "r sum to one, otherwise",
        "n otherwise": "n",
    }
    caption = f"Sums and signs; {EVERYTHING}".replace("raw maps", "raw and sum-to-one maps")
    return table(rows, columns=columns, caption=caption)


# -- [CLS] --------------------------------------------------------------------------------------------


def first_loo(run: TextRun) -> np.ndarray:
    """LOO of the first token of each example, (n,)."""
    needs_text("first_loo", run)
    return np.array([scores[0] for scores in run.loo(EVERYTHING)])


def by_first_sign(run: TextRun) -> Row:
    """CP-LRP minus AttnLRP where LOO at [CLS] is below 0, and where it is above, at `EVERYTHING`.

    If the two methods give [CLS] relevance of other sizes and signs, which of them is closer to LOO depends
    on the sign of LOO there.

    Returns
    -------
    dict
        `run`, `data`; `share`, of examples with LOO[CLS] above 0; `below` and `above`: the mean difference of
        r on either side. All are intervals, None with no example.
    """
    sign = np.sign(first_loo(run))
    gap = run.r("cp-lrp", EVERYTHING) - run.r("attnlrp", EVERYTHING)
    row: Row = {"run": run.name, "data": title(run), "share": bootstrap_mean((sign > 0).astype(float))}
    for name, keep in (("below", sign < 0), ("above", sign > 0)):
        row[name] = bootstrap_mean(gap[keep]) if keep.any() else None
    return row


def first_token_table(runs: Sequence[TextRun]) -> Table:
    """Rows of `by_first_sign`."""
    rows = [by_first_sign(run) for run in runs]
    for row in rows:
        row |= {f"n {side}": row[side].n if row[side] else 0 for side in ("below", "above")}
    columns = {
        "data": "data",
        "run": "run",
        "share": "share with LOO at [CLS] > 0",
        "below": "where LOO at [CLS] < 0",
        "n below": "n there",
        "above": "where LOO at [CLS] > 0",
        "n above": "n there",
    }
    by = "by the sign of LOO at [CLS]: mean difference of r, words + positions, all tokens, raw maps"
    return table(rows, columns=columns, caption=f"{EFFECT} {by}")


def site_change(run: TextRun, method: str) -> Interval:
    """The effect of positions on a method's mean r, all tokens: r at words + positions minus r at words."""
    return paired_difference(run.r(method, EVERYTHING), run.r(method, replace(EVERYTHING, site="word")))


LEFT_OUT: dict[str, Any] = {
    "words": slice(None),
    "words + positions": [],
    "without [CLS]'s position": [0],
    "without [SEP]'s position": [-1],
    "without both": [0, -1],
}
"""Where the relevance of positions is set to 0, by what is kept."""


def interventions(run: TextRun) -> dict[str, dict[str, np.ndarray]]:
    """`r_without` of both methods: what is kept (`LEFT_OUT`), to method, to r (n,)."""
    needs_text("interventions", run)
    return {
        name: {method: r_without(run, method, {"position": places}) for method in BOTH}
        for name, places in LEFT_OUT.items()
    }


def interventions_table(run: TextRun) -> Table:
    """Mean r of `interventions`, and CP-LRP minus AttnLRP."""
    rows = []
    for name, r in interventions(run).items():
        row: Row = {"relevance that is kept": name}
        row |= {BOTH[method]: bootstrap_mean(values) for method, values in r.items()}
        pair = r["cp-lrp"], r["attnlrp"]
        rows.append({**row, "difference": paired_difference(*pair), "examples won": win_rate(*pair)})
    return table(rows, caption=f"{title(run)}: mean r with LOO, all tokens, n = {run.n:,}")


def special_shares(run: TextRun) -> list[Row]:
    """Relevance of [CLS] and [SEP] at words + positions as layers are bypassed back to front, AttnLRP first.

    Returns
    -------
    list
        A row per step: `bypassed` (in words), and as intervals over examples: `[CLS]` and `[SEP]`, fractions
        of sum |R| over all tokens; `position of [CLS]`, the relevance of that position embedding, with its
        sign, in the same unit; `words` and `words + positions`, the share of maps with a negative sum.
    """
    needs_text("special_shares", run)
    needs_masks("special_shares", run)
    masks, placed = [NONE, *path_masks(run.layers)["back-to-front"]], EVERYTHING.site
    columns: dict[tuple[int, str], np.ndarray] = {}
    for k, mask in enumerate(masks):
        columns[k, "[CLS]"] = run.share(mask, token="first", site=placed)
        columns[k, "[SEP]"] = run.share(mask, token="last", site=placed)
        columns[k, "position of [CLS]"] = run.parts(mask, token="first", site=placed)[:, 1]
        columns[k, "words"] = run.negative_sum(mask)
        columns[k, "words + positions"] = run.negative_sum(mask, site=placed)
    out: list[Row] = [{"bypassed": mask_label(mask)} for mask in masks]
    for (k, name), interval in intervals(columns).items():
        out[k][name] = interval
    return out


@mpl.rc_context(LOOK)
def share_lines(run: TextRun) -> Drawing:
    """Draw the share of [CLS] and [SEP], and of maps with a negative sum, as layers are bypassed."""
    rows = special_shares(run)
    heading = f"Where does relevance go as layers are bypassed? {title(run)}, n = {run.n:,}"
    panels = {
        "Fraction of sum |R| on this token, with positions": ("[CLS]", "[SEP]"),
        "The same for [CLS], its position alone, with sign": ("position of [CLS]",),
        "Fraction of maps (all tokens) with a negative sum": ("words", "words + positions"),
    }
    ends = f"{rows[0]['position of [CLS]'].mean:.2f} to {rows[-1]['position of [CLS]'].mean:.2f}"
    alt = (
        f"{heading}. Share of the position of [CLS] in sum |R| from {ends} as layers are bypassed, "
        "and shares of negative sums."
    )
    figure, axes_of = drawing(alt, rows=len(panels), height=6.2, sharex=True)
    x = np.arange(len(rows))
    for axes, (name, lines) in zip(axes_of, panels.items(), strict=True):
        for k, label in enumerate(lines):
            value, low, high = limits(row[label] for row in rows)
            axes.fill_between(x, low, high, color=SPARE[k], alpha=0.22, linewidth=0)
            axes.plot(x, value, color=SPARE[k], marker=MARKERS[k], label=label)
            label_ends(axes, [Name(label, x[-1], value[-1], SPARE[k])])
        axes.axhline(0, color=INK, linewidth=0.9)
        axes.set_title(name)
    axes_of[-1].set_xticks(x, [str(row["bypassed"]).replace(" to ", "–") for row in rows], rotation=60)
    axes_of[-1].set_xlabel("layers bypassed (none: AttnLRP; all: CP-LRP)")
    return finished(figure, heading)


# -- shifts between embeddings ------------------------------------------------------------------------

SHIFTED = {"gradient-x-input": "gradient x input", **BOTH}


def shifted_r(record: Row) -> dict[tuple[str, float], dict[str, np.ndarray]]:
    """r of a record of `records.embedding_shift`: the shift and the size of c, to method, to r (n,)."""
    sites = {"word+position": "words + positions", "embedding": "the whole sum"}
    out: dict[tuple[str, float], dict[str, np.ndarray]] = {}
    for row in record["rows"]:
        shift = f"any; read at {sites[row['site']]}" if row["shift"] == "any" else row["shift"]
        out.setdefault((shift, row["size"]), {})[row["method"]] = np.array(row["r"], dtype=np.float64)
    return out


def shift_table(record: Row) -> Table:
    """Mean r with LOO at the words, special tokens left out, under shifts that leave the function as it is.

    The adversarial c was searched for each method alone, so a line holds three different c of one size.
    """
    rows = []
    for (shift, size), r in shifted_r(record).items():
        row: Row = {"shift": shift, "size": size, **{m: bootstrap_mean(values) for m, values in r.items()}}
        one_c = "r found" not in shift
        rows.append({**row, "difference": paired_difference(r["cp-lrp"], r["attnlrp"]) if one_c else None})
    columns = {"shift": "c moved from positions to words", "size": "size of c", **SHIFTED}
    of = f"{record['config']['model']} on {record['config']['data']}, n = {rows[0]['attnlrp'].n:,}"
    caption = f"Mean r with LOO, {of}; size in mean lengths of a word embedding"
    return table(rows, columns={**columns, "difference": EFFECT}, caption=caption)


@mpl.rc_context(LOOK)
def shift_band(record: Row) -> Drawing:
    """Draw the range of mean r at the words that one function can be given, by the size of c."""
    r = shifted_r(record)
    sizes = sorted({size for shift, size in r if "r found" in shift})
    lines = {
        (method, end): [
            float(np.nanmean(r[at][method]))
            for at in [("none", 0.0), *((f"{end} r found", size) for size in sizes)]
        ]
        for method in SHIFTED
        for end in ("lowest", "highest")
    }
    listed = "; ".join(
        f"{name} from {lines[method, 'lowest'][-1]:.2f} to {lines[method, 'highest'][-1]:.2f} "
        f"at size {sizes[-1]:g}"
        for method, name in SHIFTED.items()
    )
    alt = "Mean r with LOO at the words that one function can be given by shifts between embeddings"
    figure, (axes,) = drawing(f"{alt}: {listed}.", height=3.2)
    x = [0.0, *sizes]
    for method, name in SHIFTED.items():
        look, low, high = styles([method])[method], lines[method, "lowest"], lines[method, "highest"]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.12, linewidth=0)
        axes.plot(x, low, color=look.colour, marker=look.marker, linestyle="--")
        axes.plot(x, high, color=look.colour, marker=look.marker, label=name)
        for line, word in ((low, "lowest"), (high, "highest")):
            label_ends(axes, [Name(f"{name}, {word}", x[-1], line[-1], look.colour)])
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("size of c, in mean lengths of a word embedding")
    axes.set_ylabel("mean r with LOO, words")
    return finished(figure, "One function, many readings: r at the words")


# -- run by run, in sentences -------------------------------------------------------------------------


def statements(run: TextRun) -> Iterator[tuple[str, str, str, Interval]]:
    """Sentences that follow from a run's numbers: what is said, under which choices, what was measured, and
    the effect. A side is named only where the whole interval lies on it.
    """
    what, cells = "r of CP-LRP - r of AttnLRP", grid(run)
    nearer = {"above": "CP-LRP is nearer to LOO", "below": "AttnLRP is nearer to LOO"}
    for name, protocol in PROTOCOLS.items():
        effect = cells.cell(protocol)["difference"]
        yield nearer.get(side_of_zero(effect), "the order cannot be told"), name, what, effect
    curve, counted = cells.curve(), counts(cells)
    for side, end in (("below", 0), ("above", -1)) if curve else ():
        says = f"in {counted[side]} of {counted['cells']} combinations {nearer[side]}"
        yield says, "the one farthest to this side", what, curve[end]["difference"]
    for method, name in BOTH.items():
        says = f"so many maps of {name} have a negative sum"
        yield says, "word+position, all tokens", "part of the maps", signs(run, method)["negative map"]
    if run.masks:
        yield from _layer_statements(run)


def _layer_statements(run: TextRun) -> Iterator[tuple[str, str, str, Interval]]:
    """The sign of the relevance of [CLS]'s position, and which half of the layers gains more."""
    steps = special_shares(run)
    for name, step in (("AttnLRP", steps[0]), ("CP-LRP", steps[-1])):
        effect = step["position of [CLS]"]
        sign = "negative" if effect.mean < 0 else "positive"
        says = f"the position of [CLS] has {sign} relevance under {name}"
        if side_of_zero(effect) == "across":
            says = f"the sign of the position of [CLS] cannot be told under {name}"
        yield says, "word+position, all tokens", "part of sum |R|", effect
    half = "half of the layers gains more"
    halves = {"above": f"the later {half}", "below": f"the first {half}"}
    for path in ("back-to-front", "front-to-back", "single"):
        for name, protocol in PROTOCOLS.items():
            effect = gain_under(layer_gains(run, path=path), protocol)["later - first"]
            says = halves.get(side_of_zero(effect), "the halves cannot be told apart")
            yield says, f"{name}; {path}", "gain of later - first half", effect


def statements_table(run: TextRun) -> Table:
    """The `statements` of a run, each with its choices, effect, interval and n."""
    columns = ("under these choices, on this model", "choices (what is measured)", "effect", "n")
    rows = [
        dict(zip(columns, (says, f"{choices} ({what})", effect, effect.n), strict=True))
        for says, choices, what, effect in statements(run)
    ]
    return table(rows, caption=f"{title(run)}: effects with their 95 % intervals")


# -- on which examples --------------------------------------------------------------------------------


def subgroups(runs: Sequence[TextRun]) -> list[Row]:
    """Does CP-LRP minus AttnLRP depend on the example? All runs, protocols and features together.

    For length and confidence the effect is Spearman's rank correlation of the difference with the feature;
    for label and correct the mean difference where the feature is 1 minus that where it is 0. Intervals are
    bootstrap intervals (ranks are computed once). p is from 10,000 permutations of the feature; `p, Holm` is
    corrected for multiple tests over all rows (Holm 1979).

    Returns
    -------
    list
        Rows `run`, `protocol`, `feature`, `effect` (interval), `groups` (sizes: 0 and 1, or None), `p`,
        `p, Holm`. A feature that fewer than two examples have, or all but fewer than two, has no row.
    """
    rows: list[Row] = []
    for run in runs:
        needs_text("subgroups", run)
        alike: dict[bytes, dict[str, np.ndarray]] = {}  # protocols that are defined on the same examples
        for name, protocol in PROTOCOLS.items():
            gap = run.r("cp-lrp", protocol) - run.r("attnlrp", protocol)
            alike.setdefault(np.isnan(gap).tobytes(), {})[name] = gap
        for gaps, (feature, values) in itertools.product(alike.values(), features(run).items()):
            ordered = feature in ("length", "confidence")
            for row in _feature_rows(feature, values, gaps, ordered=ordered):
                rows.append({"run": run.name, **row})
    return _corrected(rows)


def _feature_rows(
    feature: str, values: np.ndarray, gaps: Mapping[str, np.ndarray], *, ordered: bool = False
) -> Iterator[Row]:
    """Rows of one feature and of columns that are defined on the same examples."""
    y = np.stack(list(gaps.values()), 1)
    keep = ~np.isnan(y[:, 0])
    x, y = values[keep], y[keep]
    groups = (int((x == 0).sum()), int((x == 1).sum())) if not ordered else None
    if len(x) < 2 or np.ptp(x) == 0 or (groups and min(groups) < 2):
        return
    tests = group_differences(x, y) if groups else rank_correlations(x, y)
    for protocol, column, (effect, p) in zip(gaps, y.T, tests, strict=True):
        if np.ptp(column) > 0:
            row: Row = {"protocol": protocol, "feature": feature, "groups": groups, "p": p}
            yield {**row, "effect": replace(effect, undefined=int((~keep).sum()))}


def _corrected(rows: list[Row]) -> list[Row]:
    """Rows that have `p`, with `p, Holm`."""
    corrected = holm([row["p"] for row in rows])
    return [{**row, "p, Holm": p} for row, p in zip(rows, corrected, strict=True)]


def tag_effects(differences: Mapping[str, np.ndarray], tags: Sequence[Sequence[str]]) -> list[Row]:
    """Does a paired difference depend on what a text tests? Texts with a tag against the others, for each
    tag.

    Parameters
    ----------
    differences : by protocol, one number per text, such as r of CP-LRP minus r of AttnLRP; NaN where
        undefined.
    tags : of each text, such as ("negation",); a text may have several.

    Returns
    -------
    list
        As `subgroups`, without `run`: `feature` is the tag, and `with tag` the mean of the texts with it.

    >>> differences = {"words only (default)": np.array([0.0, 0.1, 0.5, 0.7])}
    >>> rows = tag_effects(differences, [["plain"], [], ["irony"], ["irony"]])
    >>> round(rows[0]["effect"].mean, 6)
    0.55
    """
    rows: list[Row] = []
    for protocol, values in differences.items():
        if len(values) != len(tags):
            got = f"{len(values)} differences for {len(tags)} texts"
            hint = "pass the tags of the texts that were compared"
            raise InputError("tag_effects", got=got, expected="one for each", hint=hint)
        for tag in sorted({tag for text in tags for tag in text}):
            has = np.array([float(tag in text) for text in tags])
            for row in _feature_rows(tag, has, {protocol: values}):
                rows.append({**row, "with tag": bootstrap_mean(values[(has == 1) & ~np.isnan(values)])})
    return _corrected(rows)


def tag_table(rows: Sequence[Row], *, title: str) -> Table:
    """Rows of `tag_effects`: mean of the texts with a tag, difference to the others, n, whether p is small.

    Rounding decides whether permutations of numbers computed on the page tie, so p is shown without digits.
    """
    shown = [
        {
            "protocol": row["protocol"],
            "tag": row["feature"],
            "mean with the tag": row["with tag"],
            "minus the others": row["effect"],
            "n": _sizes(row),
            "p, Holm, below 0.05": bool(row["p, Holm"] < 0.05),
        }
        for row in rows
    ]
    return table(shown, caption=f"{title}; p, Holm: corrected for all {len(rows)} comparisons")


def subgroup_table(rows: Sequence[Row], *, run: str) -> Table:
    """Rows of `subgroups` of one run: effect, interval, n, p raw and corrected for all rows."""
    shown = [
        {
            "protocol": row["protocol"],
            "what": ("{0} 1 - {0} 0" if row["groups"] else "{0}: rank correlation").format(row["feature"]),
            "effect": row["effect"],
            "n": _sizes(row),
            "p": "≤ 0.0001" if row["p"] <= 0.0001 else f"{row['p']:.4f}",
            "p, Holm": f"{row['p, Holm']:.3f}",
        }
        for row in rows
        if row["run"] == run
    ]
    needs("subgroup_table", shown, "rows")
    question = f"{run}: does the difference depend on the example?"
    return table(shown, caption=f"{question} p, Holm: corrected for all {len(rows)} comparisons")


def _sizes(row: Row) -> str:
    """How many examples, or how many are in group 1 and in group 0."""
    return " + ".join(f"{size:,}" for size in (row["groups"] or (row["effect"].n,))[::-1])
