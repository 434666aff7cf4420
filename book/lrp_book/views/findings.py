"""The book's headline as one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl

from lrp_companion.schema import PROTOCOLS
from lrp_companion.show.canvas import LOOK, Drawing, drawing
from lrp_companion.show.palette import INK, QUIET

LOOKS = dict(zip(PROTOCOLS, (("#0067a5", "o"), ("#c44c00", "s"), ("#00755e", "^")), strict=True))
"""Colour and marker of each protocol."""
STEP = 0.24


@mpl.rc_context(LOOK)
def protocol_figure(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw CP-LRP minus AttnLRP in mean r with LOO: a line per run, a mark per protocol, and the paper's.

    Parameters
    ----------
    rows : of `analysis.findings.protocol_differences`.
    """
    groups = list(dict.fromkeys((row["data"], row["layers"]) for row in rows))
    said = [
        f"{row['data']}, {row['layers']} layers, {row['protocol']} {row['difference'].text(2)}"
        for row in rows
    ]
    alt = f"CP-LRP minus AttnLRP in mean r with LOO, by protocol. {'; '.join(said)}."
    figure, (axes,) = drawing(alt, height=0.9 + 0.78 * len(groups), width=6.4)
    for place, group in enumerate(reversed(groups)):
        shown = [row for row in rows if (row["data"], row["layers"]) == group]
        for k, row in enumerate(shown):
            colour, marker = LOOKS[row["protocol"]]
            y, effect = place + STEP * (1 - k), row["difference"]
            axes.plot([effect.low, effect.high], [y, y], color=colour, linewidth=1.8)
            label = row["protocol"] if place == len(groups) - 1 else None
            axes.plot(effect.mean, y, marker=marker, color=colour, linestyle="none", label=label)
        papers = shown[0]["paper"]
        label = "the paper's (another model)" if place == 0 else None
        axes.plot([papers] * 2, [place - 0.38, place + 0.38], color=QUIET, linestyle=":", label=label)
    axes.axvline(0, color=INK, linewidth=0.9)
    names = [f"{data}, {layers} layers" for data, layers in reversed(groups)]
    axes.set_yticks(range(len(groups)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.set_xlabel("mean r of CP-LRP − mean r of AttnLRP, both with LOO")
    for x, text, side in ((0.0, "← AttnLRP agrees better", "left"), (1.0, "CP-LRP agrees better →", "right")):
        axes.text(x, 1.01, text, transform=axes.transAxes, ha=side, va="bottom", color=QUIET)
    figure.suptitle("Which method agrees better with LOO depends on the protocol", fontweight="bold")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
