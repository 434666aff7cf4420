"""One digest for each kind of number that the package makes from the records in `results/`: `python record_digests.py [results]`.

Numbers count, in their order, as float64 to the last bit; names do not. Run it before and after a change that should move no
number, on one machine, and compare what it prints.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def home(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(f"lrp_companion.{name}")
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(names)


records = home("runs.load", "experiments.records")
tables = home("analysis.paper_tables", "experiments.tables")
paper_claims = home("analysis.paper_claims", "experiments.claims")
report = home("analysis.report", "experiments.report")
cells = home("analysis.protocol_grid", "experiments.audit.cells")
reasons = home("analysis.effect_causes", "experiments.audit.reasons")
examples = home("analysis.subgroups", "experiments.audit.examples")
trainings = home("analysis.trainings", "experiments.audit.trainings")
digits = home("analysis.digit_variants", "experiments.audit.digits")
frontier = home("analysis.cost_frontier", "experiments.remedy.frontier")
choices = home("analysis.tuned_options", "experiments.remedy.choices")
game = home("analysis.layer_game", "experiments.lattice")
boards = home("widgets.boards", "experiments.audit.boards")
schema = home("schema")


def numbers(value: Any) -> Iterator[bytes]:
    """Every number in a value, in order, as bytes."""
    if value is None:
        yield b"none"
    elif isinstance(value, (str, bytes)):
        return
    elif isinstance(value, np.ndarray):
        yield np.asarray(value, dtype=np.float64).tobytes()
    elif isinstance(value, (bool, int, float, np.generic)):
        yield np.float64(value).tobytes()
    elif is_dataclass(value):
        for one in fields(value):
            yield from numbers(getattr(value, one.name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, (frozenset, set)):
        yield from numbers(sorted(value))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers(one)
    else:
        raise TypeError(type(value))


def say(name: str, value: Any) -> None:
    digest, count = hashlib.sha256(), 0
    for part in numbers(value):
        digest.update(part)
        count += len(part) // 8
    print(f"{name:60} {count:>12,} {digest.hexdigest()[:16]}", flush=True)


def text_run(name: str, run: Any) -> None:
    axes = run.manifest["axes"]
    made = {"site": schema.SITES, "tokens": schema.TOKEN_CHOICES, "map": schema.MAP_CHOICES}
    made |= {"removal": axes["removal"], "target": axes["target"], "statistic": schema.STATISTICS}
    protocols = [
        schema.Protocol(**dict(zip(made, one, strict=True))) for one in itertools.product(*made.values())
    ]
    say(f"{name}: r of the methods", [run.r(m, p) for m in run.methods for p in protocols])
    pearson = [p for p in protocols if p.statistic == "pearson"]
    say(f"{name}: r of the masks", [run.r(m, p) for m in run.masks for p in pearson])
    everything = [*run.methods, *run.masks]
    say(f"{name}: curves", [run.column(m, c) for m in everything for c in ("morf", "lerf", "delta")])
    say(f"{name}: seconds", [run.column(m, "seconds") for m in run.methods])
    say(
        f"{name}: shares",
        [
            run.share(m, token=t, site=s)
            for m in everything
            for t in ("first", "last", "special")
            for s in schema.SITES
        ],
    )
    say(
        f"{name}: parts",
        [run.parts(m, token=t, site=s) for m in everything for t in ("first", "last") for s in schema.SITES],
    )
    say(
        f"{name}: signs of sums",
        [
            run.negative_sum(m, site=s, tokens=t)
            for m in everything
            for s in schema.SITES
            for t in schema.TOKEN_CHOICES
        ],
    )
    say(f"{name}: LOO", [run.loo(schema.Protocol(removal=own)) for own in axes["removal"]])
    say(f"{name}: logits", run.logits())
    if "frontier" in name:
        rows = frontier.frontier(run)
        say(f"{name}: frontier", [{k: v for k, v in row.items() if k != "dominated"} for row in rows])
        say(f"{name}: budgets", frontier.best_within(rows))
        say(f"{name}: findings", frontier.findings(run, rows))
        for sheet in choices.load_sheets("results/concentration"):
            config = sheet["config"]
            if (
                config["weights"] == run.manifest["config"]["weights"]
                and config["fingerprint"] == run.manifest["config"]["data"]
            ):
                say(
                    f"{name}: where it errs",
                    frontier.where_it_errs(run, sheet, methods=["attnlrp", "mask-gradient"]),
                )
        return
    say(f"{name}: table 2", [tables.table2(run, protocol=p) for p in PROTOCOLS.values()])
    if run.masks:
        say(
            f"{name}: table A3, figure 2",
            [(tables.tableA3(run, protocol=p), tables.figure2(run, protocol=p)) for p in PROTOCOLS.values()],
        )
        say(
            f"{name}: special shares",
            [reasons.special_shares(run, path=p) for p in ("back-to-front", "single")],
        )
        say(
            f"{name}: gains of layers",
            [reasons.layer_gains(run, path=p) for p in ("back-to-front", "front-to-back", "single")],
        )
    found = cells.grid(run)
    say(f"{name}: grid", [found.values, found.defined, found.draws[::100]])
    say(
        f"{name}: curve, counts, variances", [found.curve(), cells.counts(found), cells.choice_effects(found)]
    )
    if not np.isnan(found.effects).any():
        say(f"{name}: analysis of variance", cells.anova(found))
    say(f"{name}: signs", [reasons.signs(run, m) for m in ("attnlrp", "cp-lrp")])
    say(f"{name}: findings", reasons.findings(run))
    say(f"{name}: subgroups", examples.subgroups([run]))
    if "lattice_means" in run.tables:
        for site, tokens in itertools.product(schema.SITES, schema.TOKEN_CHOICES):
            own = game.layer_game(run, site=site, tokens=tokens)
            say(
                f"{name}: layer game {site} {tokens}",
                [own.shapley(), own.interactions(), own.paths(), own.choices()],
            )


def digit_runs(name: str, run: Any) -> None:
    say(f"{name}: accuracy", run.accuracy())
    if "frontier" in name:
        say(f"{name}: frontier", frontier.digit_frontier(run))
    else:
        say(f"{name}: table 1", [tables.table1(run, map=m) for m in ("raw", "sum-to-one")])


def digit_grid(name: str, run: Any) -> None:
    say(f"{name}: grid", digits.digit_grid(run))
    say(f"{name}: choices", [digits.digit_choices(run, what) for what in (*digits.MEASURES, "difference")])
    say(
        f"{name}: signs, ranges, nearest, IG",
        [digits.digit_signs(run), digits.digit_ranges(run), digits.digit_nearest(run), digits.digit_ig(run)],
    )


PROTOCOLS = schema.PROTOCOLS


def main(results: str = "results") -> None:
    root = Path(results)
    runs = report.find_runs(root)
    for folder in sorted(file.parent for file in root.glob("**/manifest.json")):
        run, name = records.load_run(folder), folder.relative_to(root).as_posix()
        kind = {"TextRun": text_run, "MnistRun": digit_runs}.get(type(run).__name__, digit_grid)
        kind(name, run)
    say("claims", paper_claims.claims(runs))
    say("not run", tables.not_run(runs))
    for group in report.find_trainings(root):
        found = trainings.trainings(group)
        say(
            "trainings",
            [
                found.effects,
                found.low,
                found.high,
                trainings.training_effects(found),
                trainings.training_counts(found),
                trainings.training_turns(found),
                trainings.training_shares(found),
                trainings.training_likeness(found),
                trainings.training_gains(found),
            ],
        )
    sheets = choices.load_sheets("results/remedy-options")
    say("options", [choices.option_rows(sheet) for sheet in sheets])
    say("choices of options", choices.option_choices(sheets))
    say("best masks", choices.best_masks(choices.load_sheets("results/best-mask")))
    packed = repr(
        [
            [(own["cells"], own["undefined"]) for own in board["runs"]]
            for board in boards.switchboard(runs)["boards"]
        ]
    )
    print(f"{'boards':60} {hashlib.sha256(packed.encode()).hexdigest()[:16]}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
