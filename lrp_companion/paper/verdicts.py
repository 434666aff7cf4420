"""The paper's claims with their verdicts: in one line each, in full, and what each rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lrp_companion.paper.claims import EFFECT_SIDES, Claim
from lrp_companion.show.tables import Table, table

INTERVALS = "mean and 95 % interval"
VERDICTS = (
    "reproduced: the 95 % interval of every effect lies wholly on the paper's side, under every protocol; "
    "partly: some do; contradicted: none does, and one or more lie wholly on the other side; inconclusive: "
    "no interval lies wholly on one side; not testable here: no run for it"
)


def claims_table(checked: Sequence[Claim]) -> Table:
    """The claims with their verdicts, over all runs and for each run alone."""
    rows = [
        {
            "claim": f"{claim.number}",
            "says": claim.says,
            "where": claim.where,
            "rule": claim.rule,
            "verdict": claim.verdict,
            "runs": ", ".join(_of_run(claim, run, verdict) for run, verdict in claim.by_run().items())
            or claim.why,
        }
        for claim in checked
    ]
    columns = {
        "claim": "no.", "says": "the paper's claim, in our words", "where": "where",
        "rule": "the paper's side", "verdict": "verdict", "runs": "by run",
    }  # fmt: skip
    return table(rows, columns=columns, caption=f"Claims and verdicts. {VERDICTS}")


def verdicts_table(checked: Sequence[Claim]) -> Table:
    """Each claim in one line: the verdict over all runs, and how many effects are on which side."""
    rows = [
        {
            "claim": f"{claim.number}",
            "says": claim.says,
            "verdict": claim.verdict,
            **{side: [effect.side for effect in claim.effects].count(side) for side in EFFECT_SIDES},
        }
        for claim in checked
    ]
    papers, undecided, other = EFFECT_SIDES
    columns = {
        "claim": "no.", "says": "the paper's claim, in our words", "verdict": "verdict",
        papers: "on the paper's side", undecided: "open", other: "on the other side",
    }  # fmt: skip
    return table(rows, columns=columns, caption=f"Verdicts, and how many effects lie where. {VERDICTS}")


def _of_run(claim: Claim, run: str, verdict: str) -> str:
    """The verdict of a run; where it is inconclusive, what n could have shown, and the paper's effect."""
    if verdict != "inconclusive":
        return f"{run}: {verdict}"
    effects = [effect for effect in claim.effects if effect.run == run and effect.paper is not None]
    shown = "; ".join(f"{effect.detectable:.2f} against {abs(effect.paper or 0):.2f}" for effect in effects)
    return f"{run}: {verdict}" + (f" (n could show {shown} in the paper)" if shown else "")


def effects_table(checked: Sequence[Claim], *, digits: int = 3) -> Table:
    """What the verdicts rest on: a row per claim, run, protocol and effect."""
    rows = [
        {
            "claim": f"{claim.number}", "run": effect.run, "protocol": effect.protocol, "effect": effect.what,
            "value": replace(effect.value, undefined=0), "n": effect.value.n, "paper": effect.paper,
            "detectable": effect.detectable, "side": effect.side, "note": effect.note or None,
        }
        for claim in checked
        for effect in claim.effects
    ]  # fmt: skip
    columns = {
        "claim": "no.", "run": "run", "protocol": "protocol", "effect": "effect",
        "value": "here", "n": "n", "detectable": "n can show", "paper": "paper", "side": "interval on side",
    }  # fmt: skip
    if any(row["note"] for row in rows):
        columns["note"] = "note"
    caption = f"Effects behind the verdicts: {INTERVALS}; paper: from its tables"
    return table(rows, columns=columns, caption=caption, digits=digits)
