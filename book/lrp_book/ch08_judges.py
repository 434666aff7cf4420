"""Chapter 8, the first picture: which method is closest to LOO, which to Shapley values, in five wirings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl

from lrp_book.ch08_wirings import STATISTIC, Groups, r_at, title_of
from lrp_book.records.shapley import r_with
from lrp_book.yardsticks import Texts
from lrp_companion.lab.labelled import mean
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.registry import label_of
from lrp_companion.show.canvas import LOOK, Drawing, drawing, headline
from lrp_companion.show.palette import styles

JUDGED = ("attnlrp", "cp-lrp", "mask-gradient")


def by_judge(
    groups: Groups, records: Mapping[str, Texts], statistic: str
) -> dict[str, dict[str, dict[str, Interval]]]:
    """Mean r at the words by judge (LOO, Shapley values), wiring and method of `JUDGED`."""
    loo, shapley = {}, {}
    for name, runs in groups.items():
        r = r_at(runs, explainers=JUDGED, statistic=statistic)
        loo[name] = dict(zip(JUDGED, mean(r).values.tolist(), strict=True))
    for name, texts in records.items():
        judged = r_with(texts, statistic=statistic, maps=JUDGED)
        shapley[name] = {method: bootstrap_mean(judged[method]) for method in JUDGED}
    return {"LOO": loo, "Shapley values": shapley}


@mpl.rc_context(LOOK)
def judges_figure(groups: Groups, records: Mapping[str, Texts], *, title: str) -> Drawing:
    """Draw `by_judge`: a row of panels for each statistic, a panel for each judge, a dot for each method."""
    seen = {(by, judge): of for by in STATISTIC for judge, of in by_judge(groups, records, by).items()}
    told = "; ".join(
        f"{title_of(wiring)}, {judge}, {STATISTIC[by]}: "
        + ", ".join(f"{label_of(method)} {r.mean:.2f}" for method, r in methods.items())
        for (by, judge), of in seen.items()
        for wiring, methods in of.items()
    )
    shape: dict[str, Any] = {"rows": 2, "columns": 2, "sharex": True, "sharey": True}
    figure, panels = drawing(f"{title}. {told}.", height=4.2, **shape)
    marks = styles(JUDGED)
    for axes, ((by, judge), of) in zip(panels, seen.items(), strict=True):
        for at, methods in enumerate(of.values()):
            for place, (method, r) in enumerate(methods.items()):
                mark, y = marks[method], at + 0.24 * (place - 1)
                axes.plot([r.low, r.high], [y, y], color=mark.colour, linewidth=1.6)
                look: dict[str, Any] = {"marker": mark.marker, "color": mark.colour, "linestyle": "none"}
                axes.plot(r.mean, y, markersize=5, label=mark.label if at == 0 else None, **look)
        axes.set_title(f"{judge}, {'Pearson' if by == 'pearson' else 'rank'}")
        axes.set_yticks(range(len(groups)), [title_of(name) for name in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    panels[2].set_xlabel("mean r with the judge, words")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=3, frameon=False)
    headline(figure, title)
    return figure
