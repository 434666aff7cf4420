"""Small classifiers with several wirings: what holds only for BERT, and what for every wiring. No torch.

The models (`training/train_wirings.py`) share data, teacher and recipe, and differ in wiring and seed. The
predictions about them, made before any was explained, are in `results/predictions/`; `outcomes` judges each
point by the rule written there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lrp_book.analysis.predictions import BOTH_RULES, Point, judged, one_sign
from lrp_book.analysis.r_scale import worth_columns
from lrp_book.ch06_causes import first_loo
from lrp_companion.masks import path_masks
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.metrics.paired import compare_paired, mean_over
from lrp_companion.paper.claims import Claim, Effect, side
from lrp_companion.paper.protocol_grid import counts, grid, stated_cells
from lrp_companion.runs.base_run import Explanation
from lrp_companion.runs.load import TextRun, load_runs, nearby
from lrp_companion.schema import PROTOCOLS, Protocol

Row = dict[str, Any]


@dataclass(frozen=True)
class Wiring:
    """A wiring in words, as tables name it."""

    title: str
    norm: str
    positions: str
    mlp: str
    reads: str
    specials: str


WIRINGS: Mapping[str, Wiring] = {
    "post-ln-first": Wiring("BERT", "after", "learned", "plain", "[CLS]", "two"),
    "post-ln-mean": Wiring("BERT, mean", "after", "learned", "plain", "mean", "two"),
    "modernbert": Wiring("ModernBERT", "before", "rotations", "gated", "mean", "two"),
    "gpt2": Wiring("GPT-2", "before", "learned", "plain", "last token", "none"),
    "llama": Wiring("Llama", "before (RMS)", "rotations", "gated", "last token", "one"),
}
"""The wirings of the experiment: LayerNorm before or after the branches, positions, MLP, readout."""
READINGS: Mapping[str, Protocol] = {
    "words": Protocol(),
    "words + positions": Protocol(site="word+position"),
    "all tokens": Protocol(tokens="all"),
    "all tokens + positions": Protocol(site="word+position", tokens="all"),
}
"""Ways to read a map: which tokens count, and whether relevance at position embeddings is added."""
GATES = {"attnlrp:gate=right": "1/4", "attnlrp:gate=flat": "1/3", "attnlrp": "1/2"}
"""AttnLRP by the grouping of the gated product, and the share that the factor without the gate receives."""
LEAST_GAP, LEAST_GAIN = 0.1, 0.01
Group = Sequence[TextRun]


def load_wirings(folder: str | os.PathLike[str] = "results/wirings") -> dict[str, tuple[TextRun, ...]]:
    """Finished runs of the small classifiers, by wiring in the order of `WIRINGS`, each by seed.

    The folder of a run is named after its model, as in `llama-seed-0`.

    Raises
    ------
    SourceError : there is no such folder, no run in it, or one that cannot be read.
    """
    runs = [run for run in load_runs([nearby(folder)]) if isinstance(run, TextRun)]
    named = {run.name: run for run in runs if run.manifest["finished"]}
    return {
        name: tuple(named[key] for key in sorted(named) if key.startswith(f"{name}-seed-"))
        for name in WIRINGS
        if any(key.startswith(f"{name}-seed-") for key in named)
    }


def readings_of(run: TextRun) -> dict[str, Protocol]:
    """The distinct readings for this model: without positions, or without special tokens, some coincide."""
    specials = any(len(places) for places in run.specials())
    positions = bool(np.nan_to_num(run.parts("attnlrp")[:, 1]).any())
    return {
        name: protocol
        for name, protocol in READINGS.items()
        if (specials or protocol.tokens != "all") and (positions or protocol.site == "word")
    }


def mean_r(run: TextRun, explanation: Explanation, protocol: Protocol = READINGS["words"]) -> float:
    """Mean r with LOO over the examples where it is defined."""
    return float(np.nanmean(run.r(explanation, protocol)))


def gap(run: TextRun, protocol: Protocol = READINGS["words"]) -> float:
    """d: the mean of r of CP-LRP minus r of AttnLRP."""
    return float(np.nanmean(run.r("cp-lrp", protocol) - run.r("attnlrp", protocol)))


def start_gap(run: TextRun) -> float:
    """d over the sentences with LOO above 0 at the first token minus d over those below, all tokens."""
    protocol = READINGS["all tokens"]
    difference = run.r("cp-lrp", protocol) - run.r("attnlrp", protocol)
    sign = np.sign(first_loo(run, protocol))
    return float(np.nanmean(difference[sign > 0]) - np.nanmean(difference[sign < 0]))


def path_means(
    run: TextRun, *, path: str = "back-to-front", protocol: Protocol = READINGS["words"]
) -> list[float]:
    """Mean r along a path, from AttnLRP (no layer bypassed) to CP-LRP (all)."""
    return [mean_r(run, mask, protocol) for mask in (frozenset(), *path_masks(run.layers)[path])]


def later_and_first(run: TextRun, protocol: Protocol = READINGS["words"]) -> tuple[float, float]:
    """How far mean r moves when the later half of the layers is bypassed, and then when the first half is."""
    means = path_means(run, protocol=protocol)
    half = run.layers // 2
    return means[half] - means[0], means[-1] - means[half]


def effect_rows(groups: Mapping[str, Group], *, statistic: str = "pearson") -> list[Row]:
    """CP-LRP minus AttnLRP in every wiring and reading, over trainings.

    Parameters
    ----------
    statistic : the correlation with LOO: "pearson", "spearman" or "kendall".

    Returns
    -------
    list
        Rows `wiring`, `reading`; `trainings`: d of each; `d`: their mean with its interval over trainings and
        examples (over examples, with one training); `median`, `wins` over the examples of all trainings;
        `attnlrp`, `cp-lrp`, `mask-gradient`: mean r.
    """
    rows = []
    for name, runs in groups.items():
        for reading, default in readings_of(runs[0]).items():
            protocol = replace(default, statistic=statistic)
            a, b = ([run.r(method, protocol) for run in runs] for method in ("cp-lrp", "attnlrp"))
            both = compare_paired(np.concatenate(a), np.concatenate(b))
            row: Row = {"wiring": name, "reading": reading, "n": runs[0].n}
            row["trainings"] = tuple(gap(run, protocol) for run in runs)
            row["d"] = over_runs(runs, [x - y for x, y in zip(a, b, strict=True)])
            row |= {"median": both.median, "wins": both.wins}
            for method in ("attnlrp", "cp-lrp", "mask-gradient", "gradient-x-input"):
                if all(method in run.methods for run in runs):
                    row[method] = over_runs(runs, [run.r(method, protocol) for run in runs])
            rows.append(row)
    return rows


def over_runs(runs: Group, columns: Sequence[np.ndarray]) -> Any:
    """Mean of a column per training, its interval over trainings and examples (with one, over examples)."""
    return mean_over({run.name: column for run, column in zip(runs, columns, strict=True)})


def wiring_claim(number: int, groups: Mapping[str, Group]) -> Claim:
    """The paper's second finding, for Transformers that are not BERT: an effect per wiring and protocol.

    Each is CP-LRP's r minus AttnLRP's, over all trainings of a wiring.
    """
    effects = []
    for name, runs in groups.items():
        if name != "post-ln-first":
            for label, protocol in PROTOCOLS.items():
                gaps = [run.r("cp-lrp", protocol) - run.r("attnlrp", protocol) for run in runs]
                value, note = over_runs(runs, gaps), f"{len(runs)} trainings"
                lies = side(value, 0, math.inf)
                told = f"{WIRINGS[name].title}: CP-LRP - AttnLRP"
                effects.append(Effect(f"wirings/{name}", label, told, value, lies, None, note))
    says = "CP-LRP agrees better with LOO than AttnLRP in Transformers, here in other wirings than BERT's"
    why = "" if effects else "no classifier of another wiring was run here"
    return Claim(number, "title, abstract", says, "above 0", tuple(effects), why)


def gate_rows(groups: Mapping[str, Group]) -> list[Row]:
    """Mean r of AttnLRP at the words by the grouping of the gated product, in every training.

    Returns
    -------
    list
        Rows `wiring`, `seed` (as in the run's name), a mean per name of `GATES`, and `gain`: `Comparison` of
        the uniform rule and the grouping from the right.
    """
    rows = []
    for name, runs in groups.items():
        for run in runs:
            if set(GATES) <= set(run.methods):
                means = {method: bootstrap_mean(run.r(method)) for method in GATES}
                gain = compare_paired(run.r("attnlrp"), run.r("attnlrp:gate=right"))
                rows.append({"wiring": name, "run": run.name, **means, "gain": gain})
    return rows


def worth_rows(groups: Mapping[str, Group], *, tokens: str = "no-special") -> list[Row]:
    """What r is worth in every wiring: r with the model's own LOO next to r with LOO of another training.

    Returns
    -------
    list
        Rows `wiring`, `method`, `own`, `other` (intervals), `beyond` (own minus other), `ceiling`: r of the
        model's LOO with that of the other trainings. Of the first training, which keeps its maps.
    """
    rows = []
    for name, (first, *others) in groups.items():
        if "map" not in first.tables["methods"].column_names or not others:
            continue
        for method in ("attnlrp", "cp-lrp", "mask-gradient"):
            r = worth_columns(first, others, method, tokens=tokens)
            row: Row = {"wiring": name, "method": method, "own": bootstrap_mean(r["own"])}
            row |= {"other": bootstrap_mean(r["other"]), "beyond": bootstrap_mean(r["own"] - r["other"])}
            rows.append({**row, "ceiling": bootstrap_mean(r["ceiling"])})
    return rows


def audit_rows(groups: Mapping[str, Group]) -> list[Row]:
    """The audit of every wiring, on its first training: in how many protocols each method is closer to LOO.

    Returns
    -------
    list
        Rows `wiring`, `cells`, `above`, `below`, `across`, `undefined` (of `counts`: the whole interval of
        CP-LRP minus AttnLRP above 0, below, across), `smallest` and `largest` effect; `stated`: reading to
        the method that is closer ("AttnLRP", "CP-LRP" or "open") if everything else is as the paper states.
    """
    rows = []
    for name, (first, *_) in groups.items():
        cells = grid(first)
        nearer = {(row["site"], row["tokens"]): row["nearer"] for row in stated_cells(cells)}
        stated = {
            reading: nearer[protocol.site, protocol.tokens]
            for reading, protocol in readings_of(first).items()
        }
        rows.append({"wiring": name, **counts(cells), "stated": stated, "n": first.n})
    return rows


def training_records(folder: str | os.PathLike[str] = "results/training/wirings") -> dict[str, list[Row]]:
    """Steps, numbers and accuracy on SST-2 validation of each training, by wiring, seeds in order.

    Each training has a record `<wiring>-seed-<seed>.json`, as `training/train_wirings.py` writes it.
    """
    out: dict[str, list[Row]] = {}
    for path in sorted(nearby(folder).glob("*-seed-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        accuracy = float(record["sst2_validation"]["accuracy"])
        recipe = record["recipe"]
        numbers = "bfloat16" if recipe.get("bfloat16") else "float32"
        row = {"steps": recipe["steps"], "numbers": numbers, "accuracy": accuracy}
        out.setdefault(record["wiring"], []).append(row)
    return {name: out[name] for name in WIRINGS if name in out}


# What was predicted.


def _gaps(**readings: str) -> Callable[[TextRun], dict[str, float]]:
    return lambda run: {name: gap(run, READINGS[reading]) for name, reading in readings.items()}


def _leads(run: TextRun) -> dict[str, float]:
    return {method: mean_r(run, method) for method in ("mask-gradient", "attnlrp", "cp-lrp")}


def _gates(run: TextRun) -> dict[str, float]:
    return {share: mean_r(run, method) for method, share in GATES.items()}


def _halves(run: TextRun) -> dict[str, float]:
    return dict(zip(("layers 3, 4", "layers 1, 2"), later_and_first(run), strict=True))


def _rises(values: Mapping[str, float]) -> bool:
    means = list(values.values())
    return all(a < b for a, b in pairwise(means)) and means[-1] - means[0] >= LEAST_GAIN


BOTH = {"words": "words", "all": "all tokens + positions"}
POINTS = (
    Point(1, "reading [CLS], d turns its sign between words and all tokens with positions",
          ("post-ln-first",), _gaps(**BOTH), lambda d: not one_sign(d)),
    Point(1, "reading the mean, d keeps it", ("post-ln-mean",), _gaps(**BOTH), one_sign),
    Point(2, "where no [CLS] is read, words and all tokens agree in the sign of d",
          ("post-ln-mean", "modernbert", "llama"), _gaps(words="words", all="all tokens"), one_sign),
    Point(2, "words, and words with positions agree in the sign of d",
          ("gpt2",), _gaps(words="words", positions="words + positions"), one_sign),
    Point(3, "at the words d is below 0", tuple(WIRINGS), _gaps(words="words"), lambda d: d["words"] < 0),
    Point(4, "at the words the mask gradient is ahead of AttnLRP and CP-LRP", tuple(WIRINGS), _leads,
          lambda r: r["mask-gradient"] > max(r["attnlrp"], r["cp-lrp"]),
          methods=(*BOTH_RULES, "mask-gradient")),
    Point(5, "d is larger by 0.1 where LOO of the start token is above 0", ("llama",),
          lambda run: {"above - below": start_gap(run)}, lambda d: d["above - below"] >= LEAST_GAP),
    Point(6, "layers 3 and 4 move mean r further than layers 1 and 2", tuple(WIRINGS), _halves,
          lambda r: abs(r["layers 3, 4"]) > abs(r["layers 1, 2"]), masks=True),
    Point(7, "mean r rises with the share of the factor without the gate, by 0.01",
          ("modernbert", "llama"), _gates, _rises, methods=("cp-lrp", *GATES)),
)  # fmt: skip
"""The points of the prediction of 2026-11-24; each is judged in every training of its wirings."""


def outcomes(groups: Mapping[str, Group]) -> list[Row]:
    """The outcome of each point in each wiring: rows of `predictions.judged`, with `wiring` for the group.

    Raises
    ------
    InputError : a run lacks what a point needs.
    """
    return [{**row, "wiring": row["group"]} for row in judged(POINTS, groups)]
