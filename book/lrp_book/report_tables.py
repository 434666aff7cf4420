"""Chapters 5 to 7: the claims with their verdicts, what each rests on, what was run and what was not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lrp_companion.lab.load import AnyRun
from lrp_companion.lab.paper.claims import EFFECT_SIDES, Claim
from lrp_companion.lab.paper.printed import VERDICTS
from lrp_companion.lab.paper.tables import RATE, not_run, ran
from lrp_companion.show.tables import Table, table

WHERE = "on the paper's side · open · on the other side, by Pearson and by rank"


def claims_table(checked: Sequence[Claim]) -> Table:
    """The claims with their verdicts, over all runs and for each run alone."""
    rows = [
        {
            "no.": f"{claim.number}",
            "the paper's claim, in our words": claim.says,
            "where": claim.where,
            "the paper's side": claim.rule,
            "verdict": claim.verdict,
            "by run": ", ".join(_of_run(claim, run, verdict) for run, verdict in claim.by_run().items())
            or claim.why,
        }
        for claim in checked
    ]
    return table(rows, caption=f"Claims and verdicts. {VERDICTS}")


def verdicts_table(checked: Sequence[Claim], *, beside: Mapping[int, str] | None = None) -> Table:
    """Each claim in one line: the verdict over all runs, and how many effects are on which side.

    Parameters
    ----------
    beside : verdicts on larger models by the number of the claim.
    """
    rows = []
    for claim in checked:
        sides = [effect.side for effect in claim.effects]
        ranks = [effect.rank_side for effect in claim.effects if effect.rank_side]
        counts, by_rank = (" · ".join(f"{of.count(name)}" for name in EFFECT_SIDES) for of in (sides, ranks))
        row = {
            "no.": f"{claim.number}",
            "the paper's claim, in our words": claim.says,
            "verdict": claim.verdict,
            "Pearson": counts if sides else None,
            "rank": by_rank if ranks else None,
        }
        rows.append(row | ({"larger model": beside.get(claim.number)} if beside else {}))
    return table(rows, caption=f"Verdicts, and how many effects lie {WHERE}. {VERDICTS}")


def _of_run(claim: Claim, run: str, verdict: str) -> str:
    """The verdict of a run; where it is inconclusive, what n could have shown, and the paper's effect."""
    if verdict != "inconclusive":
        return f"{run}: {verdict}"
    effects = [effect for effect in claim.effects if effect.run == run and effect.paper is not None]
    shown = "; ".join(f"{effect.detectable:.2f} against {abs(effect.paper or 0):.2f}" for effect in effects)
    return f"{run}: {verdict}" + (f" (n could show {shown} in the paper)" if shown else "")


def effects_table(claim: Claim) -> Table:
    """What a verdict rests on: a row per run, protocol and effect."""
    rows = [
        {
            "effect": effect.what,
            "run": effect.run,
            "protocol": effect.protocol,
            "paper": effect.paper,
            "here": replace(effect.value, undefined=0),
            "interval on side": effect.side,
            "by rank": effect.rank and replace(effect.rank, undefined=0),
            "rank on side": effect.rank_side or None,
            "n": effect.value.n,
            "n can show": effect.detectable,
            "note": effect.note or None,
        }
        for effect in claim.effects
    ]
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    caption = f"Claim {claim.number}, {claim.verdict}: {claim.says}"
    return table(rows, columns=columns, caption=caption, digits=3)


def runs_table(runs: Sequence[AnyRun]) -> Table:
    """What was run, from the manifests."""
    rows = [
        {**row, "examples": f"{row['n']:,} of {row['of']:,}" + ("" if row["finished"] else ", not finished")}
        for row in ran(runs)
    ]
    same = ("key", "minutes", "hardware", "commit")
    columns = {"run": "run", "model": "model", "layers": "layers", "examples": "n", "cut": "texts cut"}
    columns |= {name: name for name in same}
    return table(rows, columns=columns, caption="What was run", digits=1)


def not_run_table(runs: Sequence[AnyRun]) -> Table | None:
    """The paper's classifiers that were not run, with the command and an estimate of the time, or None."""
    rows, caption = not_run(runs), "Not run: the paper's own two classifiers"
    if not rows:
        return None
    columns = {"model": "not run", "command": "command", "texts": "texts"}
    if any(row["operations"] for row in rows):
        rate = f"10{str(round(math.log10(RATE))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
        columns |= {
            "from run": "as long as those of",
            "peta": "10¹⁵ operations, all texts",
            "hours": f"hours at {rate} a second",
        }
        rows = [
            {**row, "peta": row["operations"] and row["operations"] * row["texts"] / 1e15} for row in rows
        ]
        caption += (
            f". The time is an estimate from arithmetic for one GPU that does {rate} operations a second, "
            "which is assumed and was not measured; short texts do not fill a GPU and take longer. "
            "A sample (--limit) takes its fraction of it"
        )
    return table(rows, columns=columns, caption=caption, digits=1)
