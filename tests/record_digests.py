"""Print one digest for each kind of number that the package computes from the records in `results/`.

Run `python tests/record_digests.py [results]` before and after a change that should move no number, on the
same machine, and compare the two outputs. A digest depends on every number to the last bit of a float64, and
on their order; names do not count.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lrp_book import ch06_causes, ch06_protocol, ch06_trainings, ch07_errors, ch07_remedy, layers
from lrp_book.committed import load_sheets

from lrp_companion.attribution import SITES
from lrp_companion.paper import (
    claims as paper_claims,
)
from lrp_companion.paper import (
    digit_variants,
    protocol_grid,
    report,
)
from lrp_companion.paper import (
    tables as paper_tables,
)
from lrp_companion.runs.load import AnyRun, MnistGridRun, MnistRun, TextRun, load_run
from lrp_companion.schema import MAP_CHOICES, PROTOCOLS, STATISTICS, TOKEN_CHOICES, Protocol
from lrp_companion.widgets import boards


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
        for field in fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, (frozenset, set)):
        yield from numbers(sorted(value))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers(item)
    else:
        raise TypeError(type(value))


def say(name: str, value: Any) -> None:
    digest, count = hashlib.sha256(), 0
    for raw in numbers(value):
        digest.update(raw)
        count += len(raw) // 8
    print(f"{name:60} {count:>12,} {digest.hexdigest()[:16]}", flush=True)


def columns(name: str, run: TextRun) -> None:
    """What the loader gives for each method and mask under every protocol."""
    axes = run.manifest["axes"]
    options = {"site": SITES, "tokens": TOKEN_CHOICES, "map": MAP_CHOICES}
    options |= {"removal": axes["removal"], "target": axes["target"], "statistic": STATISTICS}
    combinations = itertools.product(*options.values())
    protocols = [Protocol(**dict(zip(options, combination, strict=True))) for combination in combinations]
    say(f"{name}: r of the methods", [run.r(m, p) for m in run.methods for p in protocols])
    pearson = [p for p in protocols if p.statistic == "pearson"]
    say(f"{name}: r of the masks", [run.r(m, p) for m in run.masks for p in pearson])
    maps = [*run.methods, *run.masks]
    say(f"{name}: curves", [run.column(m, c) for m in maps for c in ("morf", "lerf", "delta")])
    say(f"{name}: seconds", [run.column(m, "seconds") for m in run.methods])
    of_tokens = itertools.product(maps, ("first", "last", "special"), SITES)
    say(f"{name}: shares", [run.share(m, token=t, site=s) for m, t, s in of_tokens])
    of_tokens = itertools.product(maps, ("first", "last"), SITES)
    say(f"{name}: parts", [run.parts(m, token=t, site=s) for m, t, s in of_tokens])
    sums = itertools.product(maps, SITES, TOKEN_CHOICES)
    say(f"{name}: signs of sums", [run.negative_sum(m, site=s, tokens=t) for m, s, t in sums])
    say(f"{name}: LOO", [run.loo(Protocol(removal=removal)) for removal in axes["removal"]])
    say(f"{name}: logits", run.logits())


def gains_of(gains: Any) -> list[Any]:
    """Every cell of `layers.layer_gains`."""
    options = {str(name): gains[name].values.tolist() for name in gains.dims}
    return [layers.gain_under(gains, cell) for cell in protocol_grid.protocols_of(options)]


def frontier_run(name: str, run: TextRun) -> None:
    """Agreement against cost."""
    data = ch07_remedy.frontier(run)
    say(f"{name}: frontier", [data[column].values for column in data])
    say(f"{name}: dominated", ch07_remedy.dominated(data).values)
    say(f"{name}: budgets", ch07_remedy.best_within(data))
    made_from = {"weights": run.manifest["config"]["weights"], "fingerprint": run.manifest["config"]["data"]}
    for sheet in load_sheets("results/concentration"):
        if made_from.items() <= sheet["config"].items():
            errs = ch07_errors.where_it_errs(run, sheet, ["attnlrp", "mask-gradient"])
            say(f"{name}: where it errs", errs)


def paper_run(name: str, run: TextRun) -> None:
    """The paper's tables, the protocol grid, and what explains the effect."""
    protocols = list(PROTOCOLS.values())
    say(f"{name}: table 2", [paper_tables.table2(run, protocol=p) for p in protocols])
    if run.masks:
        along = [
            (paper_tables.tableA3(run, protocol=p), paper_tables.figure2(run, protocol=p)) for p in protocols
        ]
        say(f"{name}: table A3, figure 2", along)
        say(f"{name}: special shares", ch06_causes.special_shares(run))
        paths = ("back-to-front", "front-to-back", "single")
        say(f"{name}: gains of layers", [gains_of(layers.layer_gains(run, path=p)) for p in paths])
    grid = protocol_grid.grid(run)
    say(f"{name}: grid", [grid.values, grid.defined, grid.draws[::100]])
    counted = [grid.curve(), protocol_grid.counts(grid), ch06_protocol.choice_effects(grid)]
    say(f"{name}: curve, counts, variances", counted)
    if not np.isnan(grid.effects).any():
        say(f"{name}: analysis of variance", ch06_protocol.anova(grid))
    say(f"{name}: signs", [ch06_causes.signs(run, m, protocol=Protocol()) for m in ("attnlrp", "cp-lrp")])
    say(f"{name}: findings", list(ch06_causes.statements(run)))
    say(f"{name}: subgroups", ch06_causes.subgroups([run]))
    if "lattice_means" in run.tables:
        for site, tokens in itertools.product(SITES, TOKEN_CHOICES):
            game = layers.layer_game(run, site=site, tokens=tokens)
            values = [game.shapley(), game.interactions(), game.paths(), game.choices()]
            say(f"{name}: layer game {site} {tokens}", values)


def text_run(name: str, run: TextRun) -> None:
    columns(name, run)
    (frontier_run if "frontier" in name else paper_run)(name, run)


def digit_run(name: str, run: MnistRun) -> None:
    say(f"{name}: accuracy", run.accuracy())
    if "frontier" in name:
        say(f"{name}: frontier", ch07_remedy.digit_frontier(run))
    else:
        say(f"{name}: table 1", [paper_tables.table1(run, map=m) for m in ("raw", "sum-to-one")])


def digit_grid(name: str, run: MnistGridRun) -> None:
    say(f"{name}: grid", digit_variants.digit_grid(run))
    measures = (*digit_variants.MEASURES, "difference")
    say(f"{name}: choices", [ch06_trainings.digit_choices(run, measure) for measure in measures])
    functions = ("digit_signs", "digit_ranges", "digit_nearest", "digit_ig")
    of = (ch06_trainings, ch06_trainings, digit_variants, digit_variants)
    values = [getattr(module, function)(run) for module, function in zip(of, functions, strict=True)]
    say(f"{name}: signs, ranges, nearest, IG", values)


def say_run(name: str, run: AnyRun) -> None:
    if isinstance(run, TextRun):
        text_run(name, run)
    elif isinstance(run, MnistRun):
        digit_run(name, run)
    else:
        digit_grid(name, run)


def compared_trainings(runs: list[TextRun]) -> None:
    compared = ch06_trainings.trainings(runs)
    functions = ("counts", "turns", "shares", "likeness")
    rows = [getattr(ch06_trainings, f"training_{function}")(compared) for function in functions]
    say("trainings", [compared.values, *rows])


def main(results: str = "results") -> None:
    root = Path(results)
    runs = report.find_runs(root)
    for folder in sorted(file.parent for file in root.glob("**/manifest.json")):
        say_run(folder.relative_to(root).as_posix(), load_run(folder))
    say("claims", paper_claims.claims(runs))
    say("not run", paper_tables.not_run(runs))
    for group in report.find_trainings(root):
        compared_trainings(group)
    say("choices of options", ch07_remedy.option_choices(load_sheets("results/remedy-options")))
    say("best masks", ch07_remedy.best_masks(load_sheets("results/best-mask")))
    switchboard = boards.switchboard(runs)["boards"]
    packed = repr([[(run["cells"], run["undefined"]) for run in board["runs"]] for board in switchboard])
    print(f"{'boards':60} {hashlib.sha256(packed.encode()).hexdigest()[:16]}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
