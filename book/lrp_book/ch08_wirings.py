"""Chapter 8: small classifiers with five wirings. What holds only for BERT, what for every wiring? No torch.

The models (`training/train_wirings.py`) share data, teacher and recipe, and differ in wiring and seed. The
predictions about them, made before any was explained, are in `results/predictions/`; `POINTS` are judged by
the rule written there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator

from lrp_book.ch06_causes import first_loo
from lrp_book.ch06_protocol import STATED, nearer_of
from lrp_book.ch07_remedy import dominated, frontier
from lrp_book.paired import compare_paired
from lrp_book.predictions import BOTH_RULES, Point, one_sign
from lrp_book.say import MissingRecord
from lrp_book.worth import worth_over_trainings
from lrp_companion.checks import InputError, SourceError
from lrp_companion.lab.labelled import mean, r_with_loo
from lrp_companion.lab.load import TextRun, load_runs, nearby
from lrp_companion.lab.paper.claims import Claim, Effect
from lrp_companion.lab.paper.protocol_grid import counts, grid
from lrp_companion.masks import path_masks
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, settle
from lrp_companion.show.palette import INK, MARKERS, SPARE
from lrp_companion.show.tables import Table, table

Row = dict[str, Any]
Groups = Mapping[str, Sequence[TextRun]]
"""The trainings of each wiring, by its name."""
NAMES = ("wiring", "norm and branch", "positions", "MLP", "reads", "special tokens")
WIRINGS: Mapping[str, Mapping[str, str]] = {
    name: dict(zip(NAMES, words, strict=True))
    for name, *words in (
        ("post-ln-first", "BERT", "after", "learned", "plain", "[CLS]", "two"),
        ("post-ln-mean", "BERT, mean", "after", "learned", "plain", "mean", "two"),
        ("modernbert", "ModernBERT", "before", "rotations", "gated", "mean", "two"),
        ("gpt2", "GPT-2", "before", "learned", "plain", "last token", "none"),
        ("llama", "Llama", "before (RMS)", "rotations", "gated", "last token", "one"),
    )
}
"""The wirings of the experiment, in words."""
READINGS: Mapping[str, Mapping[str, str]] = {
    "words": {"site": "word", "tokens": "no-special"},
    "words + positions": {"site": "word+position", "tokens": "no-special"},
    "all tokens": {"site": "word", "tokens": "all"},
    "all tokens + positions": {"site": "word+position", "tokens": "all"},
}
"""Ways to read a map: which tokens count, and whether relevance at position embeddings is added."""
STATISTIC = {"pearson": "Pearson", "spearman": "rank (Spearman)"}
METHODS = ("attnlrp", "cp-lrp", "mask-gradient", "gradient-x-input")
GATES = {
    "1/4, from the right": "attnlrp:gate=right",
    "1/3, flat": "attnlrp:gate=flat",
    "1/2, uniform": "attnlrp",
}
"""AttnLRP by the share that the factor without the gate receives, and the grouping of the product."""
ON_FRONTIER = (
    "attnlrp",
    "cp-lrp",
    "mask-gradient",
    "mask-gradient:groups=4",
    "mask-gradient:groups=8",
    "hybrid:exact=4",
    "hybrid:exact=8",
    "loo",
)
"""What is compared by cost: two rule sets, and one to many passes through the true model."""
LEAST_GAP, LEAST_GAIN = 0.1, 0.01


class Recorded(dict[Any, Any]):
    """What records hold; a key that they lack raises `MissingRecord`, so that its sentence is left out."""

    def __missing__(self, key: Any) -> Any:
        expected = f"one of {'; '.join(map(str, self)) or 'such records'}"
        raise MissingRecord(
            "chapter 8", got=f"no {key}", expected=expected, hint="name the folder of the runs"
        )


def load_wirings(folder: str | os.PathLike[str] = "results/wirings") -> dict[str, tuple[TextRun, ...]]:
    """Finished runs of the small classifiers, by wiring in the order of `WIRINGS`, each by seed.

    The folder of a run is named after its model, as in `llama-seed-0`.

    Raises
    ------
    SourceError : there is no such folder, no run in it, or one that cannot be read.
    """
    runs = [
        run for run in load_runs([nearby(folder)]) if isinstance(run, TextRun) and run.manifest["finished"]
    ]
    runs.sort(key=lambda run: run.name)
    groups = {name: tuple(run for run in runs if run.name.startswith(f"{name}-seed-")) for name in WIRINGS}
    return Recorded({name: group for name, group in groups.items() if group})


def training_records(folder: str | os.PathLike[str] = "results/training/wirings") -> dict[str, list[Row]]:
    """Steps, numbers and accuracy on SST-2 validation of each training, by wiring, seeds in order.

    Each training has a record `<wiring>-seed-<seed>.json`, as `training/train_wirings.py` writes it.
    """
    out: dict[str, list[Row]] = {name: [] for name in WIRINGS}
    for path in sorted(nearby(folder).glob("*-seed-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        numbers = "bfloat16" if record["recipe"].get("bfloat16") else "float32"
        row = {"steps": record["recipe"]["steps"], "numbers": numbers}
        out[record["wiring"]].append({**row, "accuracy": float(record["sst2_validation"]["accuracy"])})
    return {name: rows for name, rows in out.items() if rows}


def title_of(wiring: str) -> str:
    """A wiring as a reader names it, such as "Llama"."""
    return WIRINGS[wiring]["wiring"] if wiring in WIRINGS else wiring


# CP-LRP against AttnLRP.


def r_at(
    runs: Any, reading: str = "words", *, explainers: Any = BOTH_RULES, statistic: str = "pearson"
) -> xr.DataArray:
    """r with LOO by the attention mask, for the logit: axes (training,) explainer and example."""
    plain = {"map": "raw", "removal": "attention-mask", "target": "logit", "statistic": statistic}
    return r_with_loo(runs, explainers, **plain, **READINGS[reading])


def gap(r: xr.DataArray, a: str = "cp-lrp", b: str = "attnlrp") -> xr.DataArray:
    """d, example by example: r of `a` minus r of `b`."""
    return r.sel(explainer=a) - r.sel(explainer=b)


def readings_of(run: TextRun) -> list[str]:
    """The distinct readings for this model: without positions, or without special tokens, some coincide."""
    specials = any(len(places) for places in run.specials())
    positions = bool(np.nan_to_num(run.parts("attnlrp")[:, 1]).any())
    return [
        name
        for name, at in READINGS.items()
        if (specials or at["tokens"] != "all") and (positions or at["site"] == "word")
    ]


def effects(groups: Groups, *, statistic: str = "pearson") -> Recorded:
    """CP-LRP minus AttnLRP by wiring and reading, with r by "pearson", "spearman" or "kendall".

    Rows have `trainings`: d of each; `d`: their mean, its interval over trainings and examples; `median`,
    `wins` over the examples of all trainings; mean r by method.
    """
    out = Recorded()
    for name, runs in groups.items():
        methods = [method for method in METHODS if all(method in run.methods for run in runs)]
        for reading in readings_of(runs[0]):
            r = r_at(runs, reading, explainers=methods, statistic=statistic)
            both = compare_paired(*(r.sel(explainer=rules).values.ravel() for rules in ("cp-lrp", "attnlrp")))
            d = gap(r)
            row = dict(zip(methods, mean(r).values.tolist(), strict=True))
            row |= {"d": mean(d), "trainings": d.mean("example").values.tolist(), "n": runs[0].n}
            out[name, reading] = Recorded({**row, "median": both.median, "wins": both.wins})
    return out


def decided(values: Mapping[str, Interval], sign: int) -> str:
    """The wirings in words whose whole interval lies on one side of 0."""
    kept = [name for name, value in values.items() if min(sign * value.low, sign * value.high) > 0]
    names = [title_of(name).replace(", mean", " with the mean") for name in kept]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def effects_table(rows: Recorded, *, caption: str) -> Table:
    """Mean r of the methods, and CP-LRP minus AttnLRP, by wiring and reading."""
    methods = [name for name in METHODS if name in next(iter(rows.values()))]
    columns = {"wiring": "wiring", "reading": "reading", **{name: label_of(name) for name in methods}}
    columns |= {"d": "CP-LRP − AttnLRP", "median": "median", "wins": "examples won", "each": "by training"}
    shown: list[Row] = [{"wiring": title_of(name), "reading": at, **row} for (name, at), row in rows.items()]
    for row in shown:
        row["each"] = ", ".join(f"{d:+.2f}" for d in row["trainings"])
    return table(shown, columns={**columns, "n": "n"}, caption=caption)


def wiring_claim(number: int, groups: Groups) -> Claim:
    """The paper's second finding, for Transformers that are not wired as BERT, which the paper leaves open:
    an effect per wiring and protocol, by Pearson and by rank.

    Each is CP-LRP's r minus AttnLRP's, over all trainings of a wiring. BERT that reads the mean is left out.
    """
    tested = []
    for name, runs in groups.items():
        if not name.startswith("post-ln"):
            for label, protocol in PROTOCOLS.items():
                value, rank = (
                    mean(gap(r_with_loo(runs, BOTH_RULES, **asdict(protocol) | {"statistic": statistic})))
                    for statistic in STATISTIC
                )
                at = f"wirings/{name}", label, f"{title_of(name)}: CP-LRP - AttnLRP"
                tested.append(Effect(*at, value, rank, note=f"{len(runs)} trainings"))
    says = (
        "beyond the paper: CP-LRP agrees better with LOO than AttnLRP in Transformers wired otherwise than "
        "BERT, trained from scratch"
    )
    why = "" if tested else "no classifier of another wiring was run here"
    return Claim(number, "left open (Limitations)", says, "above 0", tuple(tested), why)


@mpl.rc_context(LOOK)
def wirings_figure(effects_by: Mapping[str, Recorded], *, title: str) -> Drawing:
    """Draw `effects`, a panel for each statistic; a line is the interval of d, a small mark a training."""
    told = "; ".join(
        f"{title_of(wiring)}, {reading}, {statistic}: {row['d'].text(2)}"
        for statistic, rows in effects_by.items()
        for (wiring, reading), row in rows.items()
    )
    places, y, last = {}, 0.0, None
    for wiring, reading in reversed(list(next(iter(effects_by.values())))):
        y += 0.6 if last not in (None, wiring) else 0
        places[wiring, reading], last, y = y, wiring, y + 1
    shape: dict[str, Any] = {"columns": len(effects_by), "sharex": True, "sharey": True}
    figure, panels = drawing(f"{title}. {told}.", height=1.3 + 0.19 * len(places), **shape)
    for axes, (statistic, rows) in zip(panels, effects_by.items(), strict=True):
        for (wiring, reading), row in rows.items():
            at = places[wiring, reading]
            look = list(READINGS).index(reading)
            colour, marker = SPARE[look], MARKERS[look]
            axes.plot([row["d"].low, row["d"].high], [at, at], color=colour, linewidth=2.0)
            axes.plot(row["d"].mean, at, marker=marker, color=colour, linestyle="none", markersize=5)
            small: dict[str, Any] = {"marker": "|", "color": INK, "linestyle": "none", "markersize": 5}
            axes.plot(row["trainings"], [at + 0.3] * len(row["trainings"]), **small)
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_yticks(list(places.values()), [f"{title_of(name)}: {reading}" for name, reading in places])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(-0.8, y + 0.1)
        axes.set_title(STATISTIC[statistic])
        axes.xaxis.set_major_locator(MaxNLocator(3))
    figure.supxlabel("r of CP-LRP − r of AttnLRP")
    headline(figure, title)
    return figure


# Layer by layer, against cost, and the gate.


def path_means(run: TextRun, reading: str = "words") -> list[float]:
    """Mean r while layers are bypassed from the last to the first: AttnLRP to CP-LRP."""
    masks = (frozenset[int](), *path_masks(run.layers)["back-to-front"])
    r = r_at(run, reading, explainers={str(len(mask)): mask for mask in masks})
    return r.mean("example").values.tolist()


def later_and_first(run: TextRun, reading: str = "words") -> tuple[float, float]:
    """How far mean r moves when the later half of the layers is bypassed, and then when the first half is."""
    means = path_means(run, reading)
    half = run.layers // 2
    return means[half] - means[0], means[-1] - means[half]


def halves_table(groups: Groups, *, caption: str) -> Table:
    """`later_and_first` of every training, by wiring and reading."""
    rows = []
    for name, runs in groups.items():
        for reading in readings_of(runs[0]):
            moved = zip(*(later_and_first(run, reading) for run in runs), strict=True)
            each = [", ".join(f"{one:+.3f}" for one in half) for half in moved]
            halves = dict(zip(("layers 4 and 3", "then 2 and 1"), each, strict=True))
            rows.append({"wiring": title_of(name), "reading": reading, **halves})
    return table(rows, caption=caption)


@mpl.rc_context(LOOK)
def paths_figure(groups: Groups, *, title: str) -> Drawing:
    """Draw `path_means`, a panel per wiring and a line per training."""
    means = {title_of(name): [path_means(run) for run in runs] for name, runs in groups.items()}
    told = "; ".join(f"{name} {lines[0][0]:.2f} to {lines[0][-1]:.2f}" for name, lines in means.items())
    alt = f"{title}. Seed 0, from AttnLRP to CP-LRP: {told}."
    count = -(-len(means) // 3)
    figure, panels = drawing(alt, rows=count, columns=3, height=2.3 * count + 0.5)
    spread = max(np.ptp(np.concatenate(lines)) for lines in means.values())
    for axes, (name, lines) in zip(panels, means.items(), strict=False):
        for seed, (line, style) in enumerate(zip(lines, ("-", (0, (4, 1.5)), (0, (1, 1))), strict=False)):
            axes.plot(range(len(line)), line, marker="o", markersize=3.5, color=INK, linestyle=style)
            if axes is panels[0]:
                label_points(axes, [Name(f"training {seed + 1}", 0, line[0], INK)])
        axes.set_title(name, fontweight="bold")
        axes.set_xticks(range(len(lines[0])))
        middle = (np.max(lines) + np.min(lines)) / 2  # one scale: a small change looks small
        axes.set_ylim(middle - 0.6 * spread, middle + 0.6 * spread)
    for axes in panels[len(means) :]:
        axes.set_visible(False)
    figure.supxlabel("layers bypassed, the last first: 0 is AttnLRP, all is CP-LRP")
    figure.supylabel("mean r with LOO, words")
    headline(figure, title)
    settle(figure)
    return figure


def frontiers(groups: Groups) -> list[Row]:
    """Passes (`cost`) and `r` with LOO at the words of `ON_FRONTIER`, on the first training of every wiring.

    The cheapest comes first. `dominated by`: the methods that cost no more and whose r is higher, the whole
    interval of the difference on one side of 0; it and `r` are by wiring, `cost` is the mean over them.

    Raises
    ------
    InputError : a first training without one of the methods.
    """
    rows: dict[str, Row] = {method: {"method": method, "r": {}, "dominated by": {}} for method in ON_FRONTIER}
    cost: dict[str, list[float]] = {method: [] for method in ON_FRONTIER}
    for name, (first, *_) in groups.items():
        if missing := [method for method in ON_FRONTIER if method not in first.methods]:
            got, expected = (
                f"{first.name} without {', '.join(missing)}",
                f"a run with {', '.join(ON_FRONTIER)}",
            )
            raise InputError("frontiers", got=got, expected=expected, hint="run it with --methods")
        data = frontier(first, methods=ON_FRONTIER)
        r = mean(data.r.sel(tokens="no-special", statistic="pearson"))
        beaten = dominated(data).sel(tokens="no-special")
        for method in ON_FRONTIER:
            cost[method].append(float(data.cost.sel(explainer=method)))
            rows[method]["r"][name] = r.sel(explainer=method).item()
            rows[method]["dominated by"][name] = tuple(data.explainer.values[beaten.sel(explainer=method)])
    out = [{**row, "cost": float(np.mean(cost[method]))} for method, row in rows.items()]
    return sorted(out, key=lambda row: row["cost"])


def gates(run: TextRun) -> Row:
    """Mean r of AttnLRP at the words by share, and what 1/2 gains over 1/4: a row of a table."""
    gain = compare_paired(run.r("attnlrp"), run.r("attnlrp:gate=right"))
    means = {share: bootstrap_mean(run.r(method)) for share, method in GATES.items()}
    return {"model": run.name, **means, "1/2 − 1/4": gain.mean, "examples won": gain.wins}


# What was predicted.


def start_gap(run: TextRun) -> float:
    """d over the sentences with LOO above 0 at the first token minus d over those below, all tokens."""
    d, sign = gap(r_at(run, "all tokens")), np.sign(first_loo(run))
    return float(d[sign > 0].mean() - d[sign < 0].mean())


def _gaps(**readings: str) -> Callable[[TextRun], dict[str, float]]:
    return lambda run: {name: float(gap(r_at(run, at)).mean()) for name, at in readings.items()}


def _means(named: Mapping[str, str]) -> Callable[[TextRun], dict[str, float]]:
    def means(run: TextRun) -> dict[str, float]:
        return dict(zip(named, r_at(run, explainers=named).mean("example").values.tolist(), strict=True))

    return means


def _rises(values: Mapping[str, float]) -> bool:
    means = list(values.values())
    return all(a < b for a, b in pairwise(means)) and means[-1] - means[0] >= LEAST_GAIN


EVERY, LEADS = tuple(WIRINGS), {name: name for name in ("mask-gradient", *BOTH_RULES)}
BOTH = _gaps(words="words", all="all tokens + positions")
POINTS = (
    Point(1, "reading [CLS], d turns its sign between words and all tokens with positions",
          ("post-ln-first",), BOTH, lambda d: not one_sign(d)),
    Point(1, "reading the mean, d keeps it", ("post-ln-mean",), BOTH, one_sign),
    Point(2, "where no [CLS] is read, words and all tokens agree in the sign of d",
          ("post-ln-mean", "modernbert", "llama"), _gaps(words="words", all="all tokens"), one_sign),
    Point(2, "words, and words with positions agree in the sign of d",
          ("gpt2",), _gaps(words="words", positions="words + positions"), one_sign),
    Point(3, "at the words d is below 0", EVERY, _gaps(words="words"), lambda d: d["words"] < 0),
    Point(4, "at the words the mask gradient is ahead of AttnLRP and CP-LRP", EVERY, _means(LEADS),
          lambda r: r["mask-gradient"] > max(r["attnlrp"], r["cp-lrp"]), methods=tuple(LEADS)),
    Point(5, "d is larger by 0.1 where LOO of the start token is above 0", ("llama",),
          lambda run: {"above - below": start_gap(run)}, lambda d: d["above - below"] >= LEAST_GAP),
    Point(6, "at the words layers 3 and 4 move mean r further than layers 1 and 2", EVERY,
          lambda run: dict(zip(("layers 3, 4", "layers 1, 2"), later_and_first(run), strict=True)),
          lambda r: abs(r["layers 3, 4"]) > abs(r["layers 1, 2"]), masks=True),
    Point(7, "mean r rises with the share of the factor without the gate, by 0.01", ("modernbert", "llama"),
          _means({share[:3]: method for share, method in GATES.items()}), _rises,
          methods=("cp-lrp", *GATES.values())),
)  # fmt: skip
"""The points of the prediction of 2026-11-24; each is judged in every training of its wirings."""


def outcomes_table(rows: Sequence[Row], *, caption: str) -> Table:
    """Rows of `predictions.judged`: each point, where it was met, and the figures by training."""
    shown = [
        {
            "point": row["point"],
            "predicted": row["says"],
            "wiring": title_of(row["group"]),
            "outcome": f"{row['outcome']} ({row['held']} of {row['of']})",
            "by training": "; ".join(
                f"{name} " + ", ".join(f"{one[name]:.2f}" for one in row["figures"])
                for name in row["figures"][0]
            ),
        }
        for row in rows
    ]
    return table(shown, caption=caption)


# Trained for longer, the audit, and what r is worth.


def steps_rows(
    after: Recorded, trained: Mapping[str, Sequence[Row]], *files: str | os.PathLike[str]
) -> list[Row]:
    """CP-LRP minus AttnLRP after fewer steps, from `files`, then after more, in the wirings of the files.

    Of runs after fewer steps only means were kept. Rows have `wiring`, `reading`, `made`: (steps, numbers);
    `trainings`, `d` and mean r as in `effects`.

    Raises
    ------
    SourceError : there is no such file here or in a folder above.
    """
    records = []
    for file in map(Path, files):
        path = nearby(file.parent) / file.name
        if not path.is_file():
            hint = "see results/README.md"
            raise SourceError("steps_rows", got=f"no {file}", expected="a record of effects", hint=hint)
        records.append(json.loads(path.read_text(encoding="utf-8")))
    rows = []
    for (name, reading), row in after.items():
        at = {"wiring": name, "reading": reading}
        before = [
            ([run for run in record["runs"] if run["wiring"] == name], effect)
            for record in records
            for effect in record["effects"]
            if at.items() <= effect.items()
        ]
        for made, effect in (*before, (trained[name], row)) if before else ():
            (recipe,) = {(run["steps"], run["numbers"]) for run in made}  # one recipe
            means = {what: effect[what] for what in ("d", *METHODS[:3])}
            if effect is not row:
                means = {what: Interval(**value) for what, value in means.items()}
            rows.append({**at, "made": recipe, "trainings": effect["trainings"], **means})
    return rows


def audit(run: TextRun) -> Row:
    """In how many protocols each method is closer to LOO, and which is if the rest is as the paper states."""
    cells, stated = grid(run), dict.fromkeys(READINGS, "–")
    for reading in readings_of(run):
        difference = cells.cell(Protocol(**READINGS[reading], **STATED))["difference"]
        stated[reading] = nearer_of(difference, "CP-LRP", "AttnLRP")
    return {**counts(cells), **{f"as stated, {reading}": nearer for reading, nearer in stated.items()}}


def worth(
    groups: Groups, methods: Sequence[str] = METHODS[:3], *, statistic: str = "pearson"
) -> Mapping[str, xr.DataArray]:
    """`worth_over_trainings` at the words by wiring, of those with several trainings that keep their maps."""
    return {
        name: worth_over_trainings(runs, methods, statistic=statistic)
        for name, runs in groups.items()
        if len(runs) > 1 and all("map" in run.tables["methods"].column_names for run in runs)
    }
