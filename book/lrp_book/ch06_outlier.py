"""Chapter 6: one token decides. r with and without `[CLS]`, by Pearson and by rank. No torch."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.patheffects import withStroke

from lrp_book.labels import finished
from lrp_book.worth import kept_tokens, r_without
from lrp_companion.lab.labelled import mean, r_with_loo, side
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.paper.protocol_grid import title
from lrp_companion.metrics import leverage
from lrp_companion.metrics.faithfulness import directions
from lrp_companion.schema import STATISTICS
from lrp_companion.show.canvas import LOOK, Drawing, drawing
from lrp_companion.show.palette import INK, styles
from lrp_companion.show.tables import Table, table

COUNTED = {"words": "without [CLS], [SEP]", "no [CLS]": "without [CLS]", "all": "all tokens"}
READ = {"word": "words", "word+position": "words + positions"}
STATISTIC = {"pearson": "Pearson", "spearman": "rank (Spearman)"}
RULES = ("attnlrp", "cp-lrp")


def flips(maps: np.ndarray, judge: np.ndarray) -> np.ndarray:
    """What dividing maps by their sums does to r, maps (..., T), judge (T,): −1 where exactly one of the two
    sums is negative, NaN where one is 0.

    >>> flips(np.array([[2.0, -3.0], [2.0, 3.0]]), np.array([1.0, 1.0])).tolist()
    [-1.0, 1.0]
    """
    signs = np.sign(maps.sum(-1)) * np.sign(judge.sum())
    return np.where(signs == 0, np.nan, signs)


def with_and_without(
    run: TextRun,
    methods: tuple[str, ...] = RULES,
    *,
    divided: bool = False,
    whole_sums: bool = False,
) -> xr.DataArray:
    """r with LOO of a run that keeps its maps, by what counts: the words, all tokens but `[CLS]`, or all.
    `divided`: maps divided by their sums over the tokens that count or, with `whole_sums`, over all.

    Returns
    -------
    DataArray with the axes explainer, site, counted, statistic, example.
    """
    axes = {"explainer": methods, "site": READ, "counted": COUNTED, "statistic": STATISTIC}
    coords: dict[str, list] = {
        **{name: list(options) for name, options in axes.items()},
        "example": list(run.examples),
    }
    r = np.full([len(options) for options in coords.values()], np.nan)
    maps = [run.maps(method, site=site) for method in methods for site in READ]
    for k, (loo, words, *rows) in enumerate(
        zip(run.loo(), kept_tokens(run, "no-special"), *maps, strict=True)
    ):
        all_maps, rest = np.stack([*rows, loo]), np.arange(len(loo)) > 0
        for (c, keep), (s, name) in itertools.product(
            enumerate((words, rest, rest | True)), enumerate(STATISTIC)
        ):
            seen = all_maps[:, keep]
            if keep.sum() > 1 and np.ptp(seen, axis=1).all():
                unit = directions(seen, name)
                summed = all_maps if whole_sums else seen
                found = unit[:-1] @ unit[-1] * (flips(summed[:-1], summed[-1]) if divided else 1)
                r[:, :, c, s, k] = found.reshape(len(methods), len(READ))
    return xr.DataArray(r, coords, list(coords))


def lead(r: xr.DataArray, one: str = "cp-lrp", other: str = "attnlrp") -> xr.DataArray:
    """r of one explainer minus r of another."""
    return r.sel(explainer=one) - r.sel(explainer=other)


def under_whole_sums(run: TextRun) -> xr.DataArray:
    """CP-LRP minus AttnLRP without special tokens, under what the paper states, if each sum runs over all
    tokens: intervals by site.

    The paper says that maps sum to one, not over which tokens. Dividing by a sum only changes the sign of r,
    so r without special tokens takes the signs of the sums over all tokens.
    """
    stated = {"removal": "attention-mask", "target": "logit", "statistic": "pearson"}
    r = r_with_loo(run, RULES, map=["raw", "sum-to-one"], **stated)
    whole = r.sel(tokens="all")
    with np.errstate(invalid="ignore", divide="ignore"):
        signs = np.sign(whole.sel(map="sum-to-one") / whole.sel(map="raw"))
    return mean(lead(r.sel(map="raw", tokens="no-special") * signs))


def counted_cells(runs: Sequence[TextRun]) -> xr.DataArray:
    """How many cells of all runs lie on which side, by statistic: raw maps; site x tokens x removal x output.

    Returns
    -------
    DataArray with the axes statistic and side ("above": CP-LRP is closer to LOO; "below"; "across").
    """
    sides = ("above", "below", "across")
    out = xr.DataArray(0, {"statistic": list(STATISTICS), "side": list(sides)}, ["statistic", "side"])
    for run in runs:
        where = side(mean(lead(r_with_loo(run, RULES, map="raw"))))
        for name in sides:
            out.loc[{"side": name}] += (where == name).sum([dim for dim in where.dims if dim != "statistic"])
    return out


def outlier_table(run: TextRun) -> Table:
    """CP-LRP minus AttnLRP by statistic, site and what counts."""
    means = mean(lead(with_and_without(run)))
    rows = [
        {"relevance read at": READ[site], "r": STATISTIC[statistic]}
        | {
            label: means.sel(site=site, counted=name, statistic=statistic).item()
            for name, label in COUNTED.items()
        }
        for site, statistic in itertools.product(READ, STATISTIC)
    ]
    return table(rows, caption=f"CP-LRP − AttnLRP, mean difference of r; {title(run)}, n = {run.n:,}")


def places(run: TextRun, method: str) -> xr.DataArray:
    """Where `[CLS]` stands at words + positions: u (relevance), v (LOO) and r of the others, per example."""
    found = [
        leverage(one, other, 0)
        for one, other in zip(run.maps(method, site="word+position"), run.loo(), strict=True)
    ]
    return xr.DataArray(
        np.array(found), {"of": ["u", "v", "rest"], "example": run.examples}, ["example", "of"]
    )


@mpl.rc_context(LOOK)
def outlier_figure(run: TextRun) -> Drawing:
    """Draw `[CLS]` of every sentence, relevance across and LOO up, over the r that it would give."""
    rest = {method: float(places(run, method).sel(of="rest").mean()) for method in RULES}
    far = {method: float((abs(places(run, method).sel(of="u")) > 1).mean()) for method in RULES}
    alt = (
        f"Where [CLS] stands: in AttnLRP's maps it is further out than all others together in "
        f"{far['attnlrp']:.0%} of the sentences, in CP-LRP's in {far['cp-lrp']:.0%}."
    )
    figure, panels = drawing(alt, columns=2, height=3.4, sharex=True, sharey=True)
    (left, right), (low, high) = (-3.3, 1.2), (-1.6, 2.6)
    u, v = np.meshgrid(np.linspace(left, right, 160), np.linspace(low, high, 120))
    for axes, method in zip(panels, RULES, strict=True):
        r = (rest[method] + u * v) / np.sqrt((1 + u**2) * (1 + v**2))
        lines = axes.contour(u, v, r, levels=[-0.5, 0, 0.5], colors=INK, linewidths=0.8, alpha=0.6)
        look, at = styles([method])[method], places(run, method)
        axes.plot(at.sel(of="u"), at.sel(of="v"), ".", markersize=3, alpha=0.5, color=look.colour)
        names = [(-1.9, 2.1), (-1.9, 0.55), (-1.2, -0.25)]
        for name in axes.clabel(lines, fmt="r = %g", fontsize=9, manual=names, zorder=4):
            name.set(alpha=1, path_effects=[withStroke(linewidth=3, foreground="white")])
        beyond = int((at.sel(of="v") > high).sum())
        axes.set_title(f"{look.label}; {beyond} lie above")
        axes.set(xlim=(left, right), ylim=(low, high), xlabel="[CLS] in the map: u")
    panels[0].set_ylabel("[CLS] in LOO: v")
    return finished(figure, f"Where [CLS] stands, {run.n:,} sentences")


TAKEN_OUT: dict[str, dict[str, list[int]]] = {
    "as it is": {},
    "position of [CLS] 0": {"position": [0]},
    "word of [CLS] 0": {"word": [0]},
}
"""What is set to 0 in the map."""


def taken_out(run: TextRun) -> xr.DataArray:
    """`r_without` the parts of `[CLS]` (`TAKEN_OUT`), and r with `[CLS]` not counted.

    Returns
    -------
    DataArray with the axes out, explainer and example.
    """
    r = {name: [r_without(run, method, zeroed) for method in RULES] for name, zeroed in TAKEN_OUT.items()}
    uncounted = {"site": "word+position", "counted": "no [CLS]", "statistic": "pearson"}
    r["[CLS] not counted"] = list(with_and_without(run).sel(uncounted).values)
    coords = {"out": list(r), "explainer": list(RULES), "example": list(run.examples)}
    return xr.DataArray(list(r.values()), coords, list(coords))


def mechanism_table(runs: Sequence[TextRun], *, caption: str) -> Table:
    """CP-LRP minus AttnLRP by what is taken out, and by the sign of LOO at `[CLS]`: a row for each run."""
    rows = []
    for run in runs:
        gap = lead(taken_out(run))
        below = xr.DataArray([loo[0] < 0 for loo in run.loo()], dims="example")
        row = {"run": run.name} | {name: mean(gap.sel(out=name)) for name in gap.out.values}
        for sign, keep in (("LOO at [CLS] below 0", below), ("LOO at [CLS] above 0", ~below)):
            row[sign] = mean(gap.sel(out="as it is")[keep])
        rows.append(row)
    return table(rows, caption=caption)


if __name__ == "__main__":  # the same of any run with --keep-maps, the paper's own models among them
    asked = load_run(sys.argv[1])
    assert isinstance(asked, TextRun), "a run on texts"
    print(outlier_table(asked))
