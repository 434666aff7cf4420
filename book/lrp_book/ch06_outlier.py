"""Chapter 6: one token decides. r with and without `[CLS]`, by Pearson and by rank. No torch."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import xarray as xr

from lrp_book.worth import kept_tokens
from lrp_companion.metrics import leverage
from lrp_companion.metrics.faithfulness import directions
from lrp_companion.paper.protocol_grid import title
from lrp_companion.runs.labelled import mean
from lrp_companion.runs.load import TextRun
from lrp_companion.show.canvas import LOOK, Drawing, drawing, headline, settle
from lrp_companion.show.palette import INK, styles
from lrp_companion.show.tables import Table, table

COUNTED = {"words": "words", "no [CLS]": "all but [CLS]", "all": "all tokens"}
READ = {"word": "words", "word+position": "words + positions"}
STATISTIC = {"pearson": "Pearson", "spearman": "rank (Spearman)"}
RULES = ("attnlrp", "cp-lrp")


def with_and_without(run: TextRun, methods: tuple[str, ...] = RULES) -> xr.DataArray:
    """r with LOO of a run that keeps its maps, by what counts: the words, all tokens but `[CLS]`, or all.

    Returns
    -------
    DataArray with the axes explainer, site, counted, statistic, example.
    """
    axes = {"explainer": methods, "site": READ, "counted": COUNTED, "statistic": STATISTIC}
    coords = {**{name: list(options) for name, options in axes.items()}, "example": run.examples}
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
                r[:, :, c, s, k] = (unit[:-1] @ unit[-1]).reshape(len(methods), len(READ))
    return xr.DataArray(r, coords, list(coords))


def lead(r: xr.DataArray, one: str = "cp-lrp", other: str = "attnlrp") -> xr.DataArray:
    """r of one explainer minus r of another."""
    return r.sel(explainer=one) - r.sel(explainer=other)


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


def standing(run: TextRun, method: str) -> xr.DataArray:
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
    rest = {method: float(standing(run, method).sel(of="rest").mean()) for method in RULES}
    far = {method: float((abs(standing(run, method).sel(of="u")) > 1).mean()) for method in RULES}
    alt = (
        f"Where [CLS] stands: in AttnLRP's maps it is further out than all others together in "
        f"{far['attnlrp']:.0%} of the sentences, in CP-LRP's in {far['cp-lrp']:.0%}."
    )
    figure, panels = drawing(alt, columns=2, height=3.6, width=7.2, sharex=True, sharey=True)
    (left, right), (low, high) = (-3.3, 1.2), (-1.6, 2.6)
    u, v = np.meshgrid(np.linspace(left, right, 160), np.linspace(low, high, 120))
    for axes, method in zip(panels, RULES, strict=True):
        r = (rest[method] + u * v) / np.sqrt((1 + u**2) * (1 + v**2))
        lines = axes.contour(u, v, r, levels=[-0.5, 0, 0.5], colors=INK, linewidths=0.8, alpha=0.6)
        axes.clabel(lines, fmt="r = %g", fontsize=8, manual=[(-1.9, 2.1), (-1.9, 0.55), (-1.2, -0.25)])
        look, at = styles([method])[method], standing(run, method)
        axes.plot(at.sel(of="u"), at.sel(of="v"), ".", markersize=3, alpha=0.5, color=look.colour)
        beyond = int((at.sel(of="v") > high).sum())
        axes.set_title(f"{look.label} ({beyond} sentences lie above)")
        axes.set(xlim=(left, right), ylim=(low, high), xlabel="[CLS] in the map: u")
    panels[0].set_ylabel("[CLS] in LOO: v")
    headline(figure, f"One token decides: where [CLS] stands, {run.n:,} sentences")
    settle(figure)
    return figure
