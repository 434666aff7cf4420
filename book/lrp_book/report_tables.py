"""Chapters 5 to 7: the claims with their verdicts, what each rests on, what was run and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lrp_book.committed import POSITIONS
from lrp_book.say import number
from lrp_companion.lab.load import AnyRun
from lrp_companion.lab.paper.claims import Claim
from lrp_companion.lab.paper.primary import UNDECIDED
from lrp_companion.lab.paper.printed import VERDICTS
from lrp_companion.lab.paper.tables import not_run, ran
from lrp_companion.show.tables import Table, table


def claims_table(checked: Sequence[Claim]) -> Table:
    """The claims with their verdicts, over all runs and for each run alone."""
    rows = [
        {
            "no.": f"{claim.number}",
            "the paper's claim, in our words": claim.says,
            "where": claim.where,
            "the paper's side": claim.rule,
            "verdict": claim.verdict,
            "by run": ", ".join(f"{run}: {word}" for run, word in claim.by_run().items()) or claim.why,
        }
        for claim in checked
    ]
    return table(rows, caption=f"Claims and verdicts. {VERDICTS}")


def verdicts_table(checked: Sequence[Claim], *, beside: Mapping[int, str] | None = None) -> Table:
    """Each claim in one line: its verdict, and the verdicts of other readings.

    Parameters
    ----------
    beside : verdicts on larger models by the number of the claim.
    """
    rows = []
    for claim in checked:
        ranked = any(effect.rank for effect in claim.effects)
        everything = any(effect.protocol == POSITIONS for effect in claim.effects)
        row = {
            "no.": f"{claim.number}",
            "the paper's claim, in our words": claim.says,
            "verdict": claim.verdict,
            "n could show": number(claim.detectable) if claim.verdict == UNDECIDED else None,
            "by rank": claim.verdict_at(rank=True) if ranked else None,
            "all tokens": claim.verdict_at(POSITIONS) if everything else None,
        }
        rows.append(row | ({"larger model": beside.get(claim.number)} if beside else {}))
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return table(rows, columns=columns, caption=f"Verdicts. {VERDICTS}")


def effects_table(claim: Claim) -> Table:
    """What a verdict rests on: a row per run, protocol and effect."""
    rows = [
        {
            "effect": effect.what,
            "run": effect.run,
            "protocol": effect.protocol,
            "paper": effect.paper,
            "here": replace(effect.value, undefined=0),
            "verdict": effect.verdict,
            "by rank": effect.rank and replace(effect.rank, undefined=0),
            "verdict by rank": effect.rank_verdict if effect.rank else None,
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
    """The paper's classifiers that were not run, with the command, or None."""
    rows = not_run(runs)
    columns = {"model": "not run", "data": "data", "command": "command"}
    return table(rows, columns=columns, caption="Not run: the paper's own two classifiers") if rows else None
