"""Chapter 9: the paper's question at the paper's size, and in a language model that nobody here trained.

`python -m lrp_book.ch09_real results` prints what was predicted of both, point by point, and what came. The
predictions are in `results/predictions/`, the records in `results/base` and `results/smollm2`.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr

from lrp_book.ch06_outlier import COUNTED, STATISTIC, flips, lead, with_and_without
from lrp_book.committed import Records
from lrp_book.predictions import outcome
from lrp_book.records import real
from lrp_book.say import MissingRecord, number
from lrp_book.worth import REMOVALS
from lrp_companion.attribution import Attribution
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import nearby
from lrp_companion.lab.paper.claim_specs import SPECS, Measures, Spec, Value
from lrp_companion.lab.paper.claims import Claim, Effect, claims, independent_difference
from lrp_companion.lab.paper.primary import MARGIN, REPRODUCED, judge
from lrp_companion.masks import NONE, PATHS, bypassed, mask_label, masks_on_paths, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, leverage, pearson, spearman
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS
from lrp_companion.show.canvas import FIGURE_WIDTH, LOOK, SLIDE, Drawing, drawing, headline, settle
from lrp_companion.show.palette import INK, styles
from lrp_companion.show.tables import Table, table

Row = dict[str, Any]
SEEDS = ("sst2-seed-0", "sst2-seed-1", "sst2-seed-2")
REVIEWS = "sst2-imdb-seed-0-imdb"
"""The 25 longest of 200 reviews with everything, `-rest` the others with LOO and five methods; `-maps`,
`-paths` and `-singles` have the reviews that were drawn first, whatever their length.
"""
OTHERS, EVERY_REVIEW, ON_SENTENCES = f"{REVIEWS}-rest", "the reviews of both", "sst2-imdb-seed-0-sst2"
SETS = {"sst2": "SST-2", "facts": "facts", "sentences": "sentences"}
COUNTS = dict(zip(("words", "no-first", "all"), COUNTED, strict=True))
"""What counts: its name in a record, and in chapter 6."""
WORDS, REST, ALL = ("word", "words"), ("word+position", "no [CLS]"), ("word+position", "all")
READ = {WORDS: "words", ALL: "all tokens + positions", REST: "without the first token"}
"""Where relevance is read and what counts, in words."""
SHOWN = ("attnlrp", "cp-lrp", "mask-gradient")
PAIR = ("cp-lrp", "attnlrp")
PROTOCOL_READ = dict(zip(PROTOCOLS, (WORDS, ALL), strict=False))
"""Two of the three protocols; the third divides maps, and a record of masks has none."""


# Reading the records.


@lru_cache
def part(folder: str, name: str) -> Mapping[str, np.ndarray]:
    """The arrays of one part of a record, texts in the order of their data set."""
    path = nearby(folder) / f"{name}.npz"
    if not path.is_file():
        raise MissingRecord("chapter 9", got=f"no {path}", expected="a record", hint="see results/README.md")
    return dict(np.load(path))


def manifest(folder: str, name: str) -> Row:
    """What stands beside a part: its configuration, accuracy and seconds."""
    part(folder, name)
    return json.loads((nearby(folder) / f"{name}.json").read_text(encoding="utf-8"))


@lru_cache
def r_of(folder: str, name: str, judge: str = "loo attention-mask", *, divided: bool = False) -> xr.DataArray:
    """r of every map of a record with LOO or, over the texts that have them, with Shapley values.
    `divided`: maps divided by their sums over the tokens that count.

    Returns
    -------
    DataArray with the axes explainer, site, counted, statistic, example, as in chapter 6.
    """
    kept = part(folder, name)
    maps = {key: real.by_text(kept, key) for key in kept if kept[key].shape == kept["word"].shape}
    rows = dict(zip(kept["example"].tolist(), range(len(kept["example"])), strict=True))
    if judge == "shapley":
        values = part(folder, name.replace("maps", "shapley"))
        chosen = {example: k for k, example in enumerate(values["example"].tolist())}
        judged = real.by_text(values, "shapley")
    else:
        chosen, judged = rows, maps[judge]
    words = maps["word"]
    methods = [key for key in maps if key not in ("word", judge) and "+" not in key]
    sites = ("word", "word+position") if "attnlrp+position" in maps else ("word",)
    columns = [[maps.get(m if s == "word" else f"{m}+position", maps[m]) for s in sites] for m in methods]
    examples = sorted(chosen)
    shape = (len(methods), len(sites), len(COUNTED), len(STATISTIC), len(examples))
    r = np.full(shape, np.nan)
    for e, example in enumerate(examples):
        k, values_of = rows[example], judged[chosen[example]]
        stacked = np.stack([column[k] for of_method in columns for column in of_method])
        for c, tokens in enumerate(COUNTS):
            keep = real.kept(words[k], tokens)
            seen, judge_of = stacked[:, keep].astype(float), values_of[keep]
            sign = flips(seen, judge_of) if divided else 1
            for s, statistic in enumerate(STATISTIC):
                found = sign * real.correlations(seen, judge_of, statistic)
                r[:, :, c, s, e] = found.reshape(shape[:2])
    names = {
        "explainer": methods,
        "site": list(sites),
        "counted": list(COUNTED),
        "statistic": list(STATISTIC),
    }
    return xr.DataArray(r, {**names, "example": examples}, [*names, "example"])


def trainings(folder: str, judge: str = "loo attention-mask", *, divided: bool = False) -> xr.DataArray:
    """`r_of` of the base-size model on SST-2, an axis more for its three trainings."""
    each = [r_of(f"{folder}/base", f"{seed}-maps", judge, divided=divided) for seed in SEEDS]
    return xr.concat(each, "training", join="exact").assign_coords(training=list(SEEDS))


def reviews(folder: str, *, divided: bool = False) -> xr.DataArray:
    """`r_of` of all 200 reviews, of the maps that every one has."""
    each = [r_of(f"{folder}/base", name, divided=divided) for name in (REVIEWS, OTHERS)]
    return xr.concat(each, "example", join="inner")


def at(r: xr.DataArray, reading: tuple[str, str] = WORDS, statistic: str = "pearson") -> xr.DataArray:
    """r under one reading; a model without position embeddings is read at the words."""
    site = reading[0] if reading[0] in r.site else "word"
    return r.sel(site=site, counted=reading[1], statistic=statistic)


def gap(
    r: xr.DataArray, reading: tuple[str, str], statistic: str = "pearson", pair: tuple[str, str] = PAIR
) -> Interval:
    """The mean difference of two explainers' r."""
    return mean(lead(at(r, reading, statistic), *pair))


def path_means(folder: str, name: str, path: str, tokens: str, *, statistic: str = "pearson") -> np.ndarray:
    """Mean r along a path, from no layer bypassed: words at the words, all tokens with positions."""
    kept, layers = part(folder, f"{name}-paths"), manifest(folder, f"{name}-paths")["config"]["layers"]
    masks = masks_on_paths(layers)
    steps = [masks.index(mask) for mask in (NONE, *path_masks(layers)[path])]
    return np.nanmean(kept["r"][:, _reading(folder, name, tokens, statistic)][:, steps], axis=0)


def _reading(folder: str, name: str, tokens: str, statistic: str) -> int:
    """The place of a reading in a record of masks."""
    readings = [tuple(one) for one in manifest(folder, f"{name}-paths")["config"]["readings"]]
    site = (
        "word+position" if tokens != "words" and ("word+position", tokens, statistic) in readings else "word"
    )
    return readings.index((site, tokens, statistic))


def best_masks(folder: str) -> list[Row]:
    """Of each training and reading: r of AttnLRP, of CP-LRP and of the best of all 4,096 masks, and by how
    much the mask that is best on one half of the sentences is ahead of AttnLRP on the other half.
    """
    rows = []
    for seed in SEEDS:
        kept = part(f"{folder}/base", f"{seed}-lattice")
        for reading, name in ((WORDS, "word words pearson"), (ALL, "word+position all pearson")):
            r = kept[f"r {name}"].astype(np.float64)[np.argsort(kept["example"])]
            means = np.nanmean(r, axis=0)
            halves = [np.nanmean(r[start::2], axis=0) for start in (0, 1)]
            other = np.mean([b[np.argmax(a)] - b[0] for a, b in (halves, halves[::-1])])
            rows.append(
                {"training": seed[-1], "read": READ[reading], "AttnLRP": means[0], "CP-LRP": means[-1]}
            )
            rows[-1] |= {"best": means.max(), "layers bypassed": mask_label(bypassed(int(means.argmax())))}
            rows[-1] |= {"lead on other sentences": float(other), "mask": int(means.argmax())}
    return rows


def fitted_masks(folder: str) -> list[Row]:
    """The mask with the highest mean r over two trainings, judged on the third: its r there and AttnLRP's.

    The same 200 sentences; `lead` is the difference of the two means.
    """
    means = {}
    for seed in SEEDS:
        kept = part(f"{folder}/base", f"{seed}-lattice")
        means[seed] = kept["sum"].sum(0, dtype=np.float64) / kept["count"].sum(0)
    config = manifest(f"{folder}/base", f"{SEEDS[0]}-lattice")["config"]
    readings = [tuple(one) for one in config["readings"]]
    rows = []
    for reading, statistic in itertools.product((WORDS, ALL), STATISTIC):
        place = readings.index((*reading, statistic))
        for third in SEEDS:
            fitted = np.mean([means[seed][place] for seed in SEEDS if seed != third], axis=0)
            mask, here = int(np.argmax(fitted)), means[third][place]
            row: Row = {"read": READ[reading], "r": STATISTIC[statistic], "judged on training": third[-1]}
            row |= {"layers bypassed": mask_label(bypassed(mask)), "fitted": float(here[mask])}
            row |= {"AttnLRP": float(here[0]), "lead": float(here[mask] - here[0])}
            rows.append(row | {"CP-LRP": float(here[-1]), "best": float(here.max())})
    return rows


def curves(folder: str, name: str, which: str) -> dict[str, np.ndarray]:
    """LeRF ("lerf"), MoRF ("morf") or the first minus the second ("delta") of every map, text by text."""
    kept = part(folder, name)
    order = np.argsort(kept["example"])
    maps = [key.removeprefix("morf ") for key in kept if key.startswith("morf ")]
    of = {"lerf": (1, 0), "morf": (0, 1), "delta": (1, -1)}[which]
    return {
        one: (of[0] * kept[f"lerf {one}"] + of[1] * kept[f"morf {one}"])[order].astype(float) for one in maps
    }


def deltas(folder: str, name: str) -> dict[str, np.ndarray]:
    """LeRF minus MoRF of every map, text by text."""
    return curves(folder, name, "delta")


# What was predicted, and what came.


@dataclass(frozen=True)
class Item:
    """One number that a point names, whether it holds, and whether its interval leaves the sign open."""

    what: str
    value: Any
    holds: bool

    @property
    def open(self) -> bool:
        """Whether the interval contains 0."""
        return isinstance(self.value, Interval) and side_of_zero(self.value) == "across"


def above(what: str, value: Any, least: float = 0.0) -> Item:
    """A number that is to be above a limit."""
    return Item(what, value, bool(getattr(value, "mean", value) > least))


def below(what: str, value: Any, most: float = 0.0) -> Item:
    """A number that is to be below a limit."""
    return Item(what, value, bool(getattr(value, "mean", value) < most))


Points = Sequence[tuple[int, str, Callable[[str], Sequence[Item]]]]


def _base(folder: str) -> Points:
    """The points on one training of the base-size model, by its name."""
    base = f"{folder}/base"

    def r(seed: str, judge: str = "loo attention-mask") -> xr.DataArray:
        return r_of(base, f"{seed}-maps", judge)

    def side_at(reading: Any, statistic: str, test: Any, seed: str) -> list[Item]:
        return [test("d", gap(r(seed), reading, statistic))]

    def first_token(seed: str) -> list[Item]:
        d = lead(r(seed).sel(site="word+position", statistic="pearson"))
        moved = mean(d.sel(counted="all") - d.sel(counted="no [CLS]"))
        return [Item("d over all − d without the first", moved, moved.mean >= 0.05)]

    def ahead(pairs: Sequence[tuple[str, str]], seed: str) -> list[Item]:
        return [above(f"{a} − {b}", gap(r(seed), WORDS, pair=(a, b))) for a, b in pairs]

    def last(seed: str) -> list[Item]:
        others = [m for m in r(seed).explainer.values if m != "rollout" and not m.startswith("loo")]
        return ahead([(other, "rollout") for other in others], seed)

    def late(seed: str) -> list[Item]:
        steps = np.abs(np.diff(path_means(base, seed, "back-to-front", "words")))
        return [above("layer of the largest step", len(steps) - int(steps.argmax()), 8)]

    def best(seed: str) -> list[Item]:
        row = next(row for row in best_masks(folder) if (row["training"], row["read"]) == (seed[-1], "words"))
        ends = row["mask"] in (0, 4095)
        return [Item("best mask − AttnLRP", float(row["best"] - row["AttnLRP"]), not ends)] + [
            above("its lead", float(row["best"] - row["AttnLRP"]), 0.02)
        ]

    def curves(seed: str) -> list[Item]:
        of = deltas(base, f"{seed}-maps")
        return [above("Delta, AttnLRP − CP-LRP", bootstrap_mean(of["attnlrp"] - of["cp-lrp"]))]

    def nearer(seed: str) -> list[Item]:
        return [above("r with Shapley − r with LOO", to_shapley(r(seed, "shapley"), r(seed), WORDS))]

    groups = [("mask-gradient-4", "mask-gradient"), ("mask-gradient-8", "mask-gradient-4")]
    beats = [("mask-gradient", "attnlrp"), ("mask-gradient", "cp-lrp")]
    return (
        (1, "all with positions: d > 0 by Pearson", partial(side_at, ALL, "pearson", above)),
        (2, "all with positions: d > 0 by rank", partial(side_at, ALL, "spearman", above)),
        (3, "words: d < 0 by Pearson", partial(side_at, WORDS, "pearson", below)),
        (4, "words: d < 0 by rank", partial(side_at, WORDS, "spearman", below)),
        (5, "without <s> d falls by 0.05 or more", first_token),
        (6, "mask gradient ahead of both rule sets", partial(ahead, beats)),
        (7, "r rises from 1 to 4 to 8 groups", partial(ahead, groups)),
        (8, "IG behind AttnLRP", partial(ahead, [("attnlrp", "ig")])),
        (9, "rollout last", last),
        (10, "largest step of the path at layers 9 to 12", late),
        (11, "best mask neither end, ahead by 0.02 or more", best),
        (12, "Delta: AttnLRP above CP-LRP", curves),
        (13, "AttnLRP nearer to Shapley values than to LOO", nearer),
    )


def to_shapley(r: xr.DataArray, with_loo: xr.DataArray, reading: tuple[str, str]) -> Interval:
    """AttnLRP's r with Shapley values minus its r with LOO, over the texts that have both."""
    here, there = (at(one, reading).sel(explainer="attnlrp") for one in (r, with_loo))
    return mean(here - there.sel(example=here.example))


def base_outcomes(folder: str) -> list[Row]:
    """The prediction for the base-size model, judged by its own rule.

    Returns
    -------
    Rows `point`, `says`, `outcome`, `items` (of every training).
    """
    rows = []
    for point, says, items_of in _base(folder):
        by_seed = [items_of(seed) for seed in SEEDS]
        held = sum(all(item.holds for item in of_seed) for of_seed in by_seed)
        items = [item for of_seed in by_seed for item in of_seed]
        rows.append(_row(point, says, outcome(held, len(SEEDS)), items))
    of = reviews(folder)
    both = [below("d", gap(of, WORDS, statistic)) for statistic in STATISTIC]
    of_reviews = (
        (14, "reviews, words: d < 0 by Pearson and rank", both),
        (15, "reviews, all with positions: d > 0 by Pearson", [above("d", gap(of, ALL))]),
    )
    for point, says, given in of_reviews:
        rows.append(_row(point, says, outcome(all(item.holds for item in given), 1), given))
    return rows


def reviews_outcomes(folder: str) -> list[Row]:
    """The prediction for the shorter reviews (`2026-11-28-reviews.md`), judged as in `base_outcomes`."""
    base = f"{folder}/base"
    long, short = (r_of(base, name) for name in (REVIEWS, OTHERS))

    def rises(statistic: str) -> list[Item]:
        d = [gap(r, ALL, statistic) for r in (short, long)]
        return [above("d, short − long", independent_difference(*d))]

    def decided(statistic: str) -> list[Item]:
        d = gap(short, WORDS, statistic)
        return [Item("d", d, d.high < 0)]

    falls = rank_correlation(lead(at(reviews(folder), WORDS), *PAIR).values, tokens_of(folder))
    beats = [
        above(f"mask gradient − {rival}, {statistic}", gap(short, WORDS, statistic, ("mask-gradient", rival)))
        for statistic in STATISTIC
        for rival in ("attnlrp", "cp-lrp")
    ]
    others = [name for name in short.explainer.values if name != "rollout"]
    last = [above(f"{name} − rollout", gap(short, WORDS, pair=(name, "rollout"))) for name in others]
    return _points(
        ("words: d < 0 by Pearson", decided("pearson")),
        ("words: d < 0 by rank", decided("spearman")),
        ("all with positions: d by Pearson above that of the longest", rises("pearson")),
        ("all with positions: d by rank above that of the longest", rises("spearman")),
        ("words: d falls with the length", [below("rank correlation", falls)]),
        ("mask gradient ahead of both rule sets", beats),
        ("rollout last of five", last),
    )


def rank_correlation(a: np.ndarray, b: np.ndarray) -> Interval:
    """Spearman's correlation with its 95 % interval by Fisher's z (standard error 1 / sqrt(n - 3))."""
    r, reach = spearman(a, b), 1.96 / math.sqrt(len(a) - 3)
    low, high = (math.tanh(math.atanh(r) + way * reach) for way in (-1, 1))
    return Interval(r, low, high, len(a))


def tokens_of(folder: str) -> np.ndarray:
    """The tokens of each review, in the order of `reviews`."""
    parts = [part(f"{folder}/base", name) for name in (REVIEWS, OTHERS)]
    return np.concatenate([kept["tokens"][np.argsort(kept["example"])] for kept in parts])


def drawn_outcomes(folder: str) -> list[Row]:
    """The prediction for the reviews as they are drawn and for single layers (`2026-11-28-drawn.md`)."""
    r, delta = r_of(f"{folder}/base", f"{REVIEWS}-maps"), deltas(f"{folder}/base", f"{REVIEWS}-maps")

    def ahead(a: str, b: str, statistics: Sequence[str] = tuple(STATISTIC)) -> list[Item]:
        return [above(f"{a} − {b}, {s}", gap(r, WORDS, s, (a, b))) for s in statistics]

    def further(a: str, b: str) -> list[Item]:
        return [above(f"Delta, {a} − {b}", bootstrap_mean(delta[a] - delta[b]))]

    halves, groups = _effects(folder, SPECS[22]), ("mask-gradient-4", "mask-gradient")
    on_sst, on_imdb = (replace(spec, effects=_single_halves) for spec in SPECS[20:22])
    words, everything = ([e for e in halves if e.protocol == name][::-1] for name in [*PROTOCOLS][:2])
    raised = [(above if e.what.startswith("first") else below)(e.what, e.value) for e in everything]
    by_training = [_effects_of(folder, on_sst, [seed])[0] for seed in SEEDS]
    single = [above(f"Delta, {e.what}", e.value) for e in by_training]
    gained = [[above("gain on SST-2 − gain on IMDB", e.value)] for e in _gains(folder)]
    rows = _points(
        ("reviews, words: IG behind AttnLRP", ahead("attnlrp", "ig")),
        ("reviews, words: rollout behind IG", ahead("ig", "rollout")),
        ("reviews, words: r rises from 1 to 4 groups", ahead(*groups, ["pearson"])),
        ("reviews, Delta: AttnLRP above CP-LRP", further("attnlrp", "cp-lrp")),
        ("reviews, Delta: AttnLRP above IG", further("attnlrp", "ig")),
        ("reviews, words: either half lowers r", [below(e.what, e.value) for e in words]),
        ("reviews, all with positions: the first half raises r, the later lowers it", raised),
        ("SST-2, Delta: single later layers above single first ones", single),
        ("reviews, the same", [above(e.what, e.value) for e in _effects(folder, on_imdb)]),
        ("words: d larger on SST-2 than on IMDB", gained[0]),
        ("all with positions: the same", gained[1]),
    )
    rows[7]["outcome"] = outcome(sum(item.holds for item in single), len(single))
    return rows


def _single_halves(v: Value, layers: int) -> Measures:
    """What was predicted: layers bypassed alone, the mean over the later half minus that over the first."""
    by_layer = [v(frozenset([layer])) for layer in range(1, layers + 1)]
    first, later = (sum(half) / len(half) for half in (by_layer[: layers // 2], by_layer[layers // 2 :]))
    return {"single later - single first layers": later - first}


def _points(*given: tuple[str, Sequence[Item]]) -> list[Row]:
    """Points that are met if all their numbers are as predicted."""
    return [
        _row(k, says, outcome(all(item.holds for item in items), 1), items)
        for k, (says, items) in enumerate(given, start=1)
    ]


def _row(point: int, says: str, came: str, items: Sequence[Item]) -> Row:
    return {"point": point, "says": says, "outcome": came, "items": items}


def _smollm2(folder: str) -> Iterator[tuple[int, str, list[Item]]]:
    """The points on SmolLM2 and the numbers that each names."""
    lm, every = f"{folder}/smollm2", ("word", "all")
    r = {name: r_of(lm, f"{name}-maps") for name in SETS}
    sst, own = r["sst2"], ("facts", "sentences")
    means = {
        (m, reading, s): mean(at(sst, reading, s).sel(explainer=m))
        for m in sst.explainer.values
        for reading in (WORDS, every)
        for s in STATISTIC
    }
    d = {s: gap(sst, every, s) for s in STATISTIC}
    yield 1, "all tokens: d at least 0.05 by Pearson", [above("d", d["pearson"], 0.05)]
    half = d["spearman"].mean - d["pearson"].mean / 2
    yield 2, "all tokens: by rank less than half of it", [below("d by rank − half of d", half)]
    small = {s: gap(sst, WORDS, s) for s in STATISTIC}
    yield 3, "words: d between −0.05 and 0.05", [Item(s, v, abs(v.mean) < 0.05) for s, v in small.items()]
    moved = lead(at(sst, every)) - lead(at(sst, ("word", "no [CLS]")))
    yield 4, "without the first token d is smaller", [above("d over all − d without", mean(moved))]
    beats = [("mask-gradient", other) for other in ("attnlrp", "cp-lrp")]
    ahead = [above(f"{a} − {b}, {s}", gap(sst, WORDS, s, (a, b)), 0.1) for a, b in beats for s in STATISTIC]
    yield 5, "mask gradient ahead by 0.1 or more", ahead
    groups = [("mask-gradient-4", "mask-gradient"), ("mask-gradient-8", "mask-gradient-4")]
    yield (
        6,
        "r rises from 1 to 4 to 8 groups",
        [above(f"{a} − {b}", gap(sst, WORDS, pair=(a, b))) for a, b in groups],
    )
    nothing = [below(s, means["gradient-x-input", WORDS, s], 0.1) for s in STATISTIC]
    yield 7, "gradient x input below 0.1", nothing
    yield 8, "PA-LRP below CP-LRP", [below("pa-lrp − cp-lrp", gap(sst, every, pair=("pa-lrp", "cp-lrp")))]
    yield 9, "LOO by deletion above 0.6", [above("r", means["loo delete", WORDS, "pearson"], 0.6)]
    right = {name: manifest(lm, f"{name}-maps")["accuracy"] for name in SETS}
    yield (
        10,
        "accuracy on SST-2 from 0.55 to 0.85",
        [Item("accuracy", right["sst2"], 0.55 <= right["sst2"] <= 0.85)],
    )
    yield 11, "facts: 0.85 or more", [Item("answers ahead", right["facts"], right["facts"] >= 0.85)]
    yield (
        12,
        "sentences: 0.75 or more",
        [Item("answers ahead", right["sentences"], right["sentences"] >= 0.75)],
    )
    yield 13, "d > 0 in both sets of our own", [above(name, gap(r[name], every)) for name in own]
    first = [above(f"{name}: {a} − {b}", gap(r[name], every, pair=(a, b))) for name in own for a, b in beats]
    yield 14, "mask gradient ahead in both sets of our own", first
    shares = {name: late_share(lm, name) for name in SETS}
    yield (
        15,
        "half of the path's change or more in the last ten layers",
        [Item(k, v, v >= 0.5) for k, v in shares.items()],
    )
    near = {k: to_shapley(r_of(lm, f"{k}-maps", "shapley"), r[k], every) for k in SETS}
    yield 16, "AttnLRP nearer to Shapley values than to LOO", [above(k, v) for k, v in near.items()]


def late_share(folder: str, name: str) -> float:
    """The share of the change from AttnLRP to CP-LRP that the last ten layers bring, from the last on."""
    means = path_means(folder, name, "back-to-front", "all")
    return float((means[10] - means[0]) / (means[-1] - means[0]))


def smollm2_outcomes(folder: str) -> list[Row]:
    """The prediction for SmolLM2, judged by its own rule; rows as in `base_outcomes`."""
    return [
        _row(point, says, outcome(sum(item.holds for item in items), len(items)), items)
        for point, says, items in _smollm2(folder)
    ]


def outcomes_table(rows: Sequence[Row], *, caption: str) -> Table:
    """Point by point: what was predicted, the outcome, the numbers, and how many signs are open."""
    shown = []
    for row in rows:
        values = [number(getattr(item.value, "mean", item.value)) for item in row["items"]]
        left = sum(item.open for item in row["items"])
        cells = {"point": row["point"], "predicted": row["says"], "outcome": row["outcome"]}
        shown.append({**cells, "numbers": ", ".join(values), "intervals that contain 0": left})
    return table(shown, caption=caption)


# The paper's claims at its own size.


def claims_at_size(folder: str) -> dict[int, tuple[str, str]]:
    """Each claim of the paper on Transformers that the base-size model can test, by its number in chapter 5.

    The effects are those of `lab.paper.claims`; each is a mean over sentences and three trainings,
    with an interval over both. Two of the three protocols are read, words only, and words + positions with
    all tokens: a record of masks has no maps to divide by their sum. IMDB is one training: all 200 reviews
    where LOO and five methods are enough for a claim, those drawn first otherwise. The last claim, on two
    data sets, takes the one training that was run on both.

    Returns
    -------
    dict
        Number to (value, verdict): the means as text, by protocol, or how many of several effects lie on the
        paper's side; and the verdict at the words, by Pearson's r, as `lab.paper.claims` has it.
    """
    out = {}
    for k, spec in enumerate(SPECS, start=1):
        effects = _effects(folder, spec) if spec.task != "mnist" else []
        if effects:
            out[k] = _told(effects), _verdict(effects)
    gains = _gains(folder)
    return out | {len(SPECS) + 1: (_told(gains), _verdict(gains))}


def _verdict(effects: Sequence[Effect]) -> str:
    return Claim(0, "", "", "", tuple(effects)).verdict


def beside_claims(folder: str, *, last: int) -> dict[int, str]:
    """Verdicts on larger models by the number of a claim: the base-size model's, and SmolLM2's of the last
    claim, which is about other wirings.

    SmolLM2 is read at the words of SST-2.
    """
    at_size = {number: word for number, (_, word) in claims_at_size(folder).items()}
    return at_size | {last: f"SmolLM2: {judge(gap(r_of(f'{folder}/smollm2', 'sst2-maps'), WORDS))}"}


def _effects(folder: str, spec: Spec) -> list[Effect]:
    """The effects of a claim in the base-size model; none if the record lacks what it needs."""
    if spec.task == "sst2":
        return _effects_of(folder, spec, list(SEEDS))
    return _effects_of(folder, spec, [EVERY_REVIEW]) or _effects_of(folder, spec, [REVIEWS])


def _effects_of(folder: str, spec: Spec, names: Sequence[str]) -> list[Effect]:
    effects = []
    readings = {"curves": WORDS} if spec.column == "delta" else PROTOCOL_READ
    for protocol, reading in readings.items():
        by: dict[str, dict[str, Interval]] = {}
        for statistic in ("pearson", "spearman")[: 1 if spec.column == "delta" else 2]:
            column = partial(_column, folder, column=spec.column, reading=reading, statistic=statistic)
            try:
                made = [spec.effects(partial(column, name), 12) for name in names]
            except KeyError:
                return []
            for what in made[0]:
                columns = xr.DataArray([one[what] for one in made], dims=["training", "example"])
                by.setdefault(what, {})[statistic] = mean(columns if len(made) > 1 else columns[0])
        margin = MARGIN
        if spec.column == "delta":
            of = partial(_column, folder, column="delta", reading=reading, statistic="pearson")
            margin *= float(np.mean([of(name, "attnlrp").mean() for name in names]))
        for what, values in by.items():
            value, rank = values["pearson"], values.get("spearman")
            effects.append(Effect("base", protocol, what, value, rank, spec.low, spec.high, margin))
    return effects


def _gains(folder: str) -> list[Effect]:
    """CP-LRP's gain over AttnLRP on SST-2 minus that on IMDB, for the training that was run on both."""
    both, out = (r_of(f"{folder}/base", ON_SENTENCES), reviews(folder)), []
    for protocol, reading in PROTOCOL_READ.items():
        value, rank = (
            independent_difference(*(gap(r, reading, statistic) for r in both)) for statistic in STATISTIC
        )
        out.append(Effect("base", protocol, "gain on SST - gain on IMDB", value, rank))
    return out


def _column(
    folder: str, name: str, explanation: Any, *, column: str, reading: tuple[str, str], statistic: str
) -> np.ndarray:
    """A number per text of a method or a set of bypassed layers; `KeyError` if there is none."""
    base, named = f"{folder}/base", isinstance(explanation, str)
    if name == EVERY_REVIEW:
        if not named or column == "delta":
            raise KeyError(name)
        return at(reviews(folder), reading, statistic).sel(explainer=explanation).values
    if column == "delta":
        if named:
            return deltas(base, f"{name}-maps")[explanation]
        return deltas(base, f"{name}-singles")[f"layer-{min(explanation)}"]
    if named:
        return at(r_of(base, f"{name}-maps"), reading, statistic).sel(explainer=explanation).values
    kept = part(base, f"{name}-paths")
    r = kept["r"][np.argsort(kept["example"]), _reading(base, name, reading[1], statistic)]
    return r[:, masks_on_paths(12).index(frozenset(explanation))].astype(float)


def _told(effects: Sequence[Effect]) -> str:
    """One effect under each protocol as numbers; of more, how many lie on the paper's side."""
    if len({effect.what for effect in effects}) == 1:
        return "; ".join(number(effect.value.mean) for effect in effects)
    return f"{sum(effect.verdict == REPRODUCED for effect in effects)} of {len(effects)}"


def claims_table(kept: Records) -> Table:
    """The paper's claims on Transformers: the paper's effect, this project's 12 layers, the base size."""
    here, rows = claims_at_size(kept.folder), []
    for claim in claims([kept.text("sst2-12"), kept.text("imdb-12")]):
        if claim.number not in here:
            continue
        ours = [e for e in claim.effects if e.protocol in (*list(PROTOCOLS)[:2], "curves")]
        printed = {e.what: number(e.paper) for e in ours if e.paper is not None}
        value, word = here[claim.number]
        paper = "; ".join(printed.values()) if len(printed) == 1 else ""
        rows.append({"no.": str(claim.number), "claim": claim.says, "paper": paper, "12 layers": _told(ours)})
        rows[-1] |= {"verdict": claim.verdict, "base size": value, "its verdict": word}
    of = "means by protocol (words; all tokens + positions), of r by Pearson"
    return table(rows, caption=f"{of}, or how many effects are reproduced; verdicts at the words")


# Figures and tables.


def models(kept: Records) -> dict[str, xr.DataArray]:
    """r of the compared methods on SST-2: this project's 12 layers, the base-size model, SmolLM2."""
    return {
        "companion, 12 layers": with_and_without(kept.with_maps("sst2-12"), SHOWN),
        "base size": trainings(kept.folder),
        "SmolLM2": r_of(f"{kept.folder}/smollm2", "sst2-maps"),
    }


@mpl.rc_context(LOOK)
def models_figure(by_model: Mapping[str, xr.DataArray], *, title: str, wide: bool = False) -> Drawing:
    """Draw mean r by model, method, statistic and what counts; small marks are single trainings."""
    told, grid = [], [(reading, statistic) for reading in READ for statistic in STATISTIC]
    if wide:  # for a slide
        grid.sort(key=lambda panel: [*STATISTIC].index(panel[1]))
    columns, (width, height) = (3, SLIDE) if wide else (2, (FIGURE_WIDTH, 5.6))
    figure, panels = drawing(
        "", rows=6 // columns, columns=columns, height=height, width=width, sharex=True, sharey=True
    )
    for axes, (reading, statistic) in zip(panels, grid, strict=True):
        for place, (name, r) in enumerate(by_model.items()):
            means = {m: mean(at(r, reading, statistic).sel(explainer=m)) for m in SHOWN}
            told.append(
                f"{name}, {READ[reading]}, {STATISTIC[statistic]}: "
                + ", ".join(f"{label_of(m)} {number(value.mean)}" for m, value in means.items())
            )
            for k, (method, value) in enumerate(means.items()):
                look, y = styles([method])[method], -place + 0.24 * (1 - k)
                axes.plot([value.low, value.high], [y, y], color=look.colour, linewidth=1.4)
                axes.plot(
                    value.mean, y, look.marker, color=look.colour, label=look.label if not place else None
                )
                if "training" in r.dims:
                    each = at(r, reading, statistic).sel(explainer=method).mean("example").values
                    axes.plot(each, [y + 0.11] * len(each), "|", color=INK, markersize=4, markeredgewidth=0.9)
        by = STATISTIC[statistic].split()[0]
        column = grid.index((reading, statistic)) % columns
        both = wide or reading == WORDS  # further down, what is said at the left holds for the row
        axes.set_title(f"{READ[reading]}: {by}" if both else "" if column else READ[reading], fontsize=9)
        axes.set_yticks([-k for k in range(len(by_model))], list(by_model))
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set(xlim=(0, 1), ylim=(-len(by_model) + 0.45, 0.55))
    below: dict[str, Any] = {
        "title": "mean r with LOO by the attention mask",
        "loc": "outside lower center",
        "ncols": 3,
    }
    figure.legend(*panels[0].get_legend_handles_labels(), **below)
    figure.alt = f"{title}. {'; '.join(told)}."
    headline(figure, title)
    settle(figure)
    return figure


@mpl.rc_context(LOOK)
def paths_figure(panels: Mapping[str, Mapping[str, Sequence[np.ndarray]]], *, title: str) -> Drawing:
    """Draw mean r while layers are bypassed: a panel for each reading, a line for each path and training."""
    columns = 3 if len(panels) % 3 == 0 else 2
    rows = -(-len(panels) // columns)
    figure, every = drawing("", rows=rows, columns=columns, height=2.3 * rows + 0.6, sharex=True)
    spread, told = max(np.ptp([*map(np.ravel, of.values())]) for of in panels.values()), []
    for axes, (name, paths) in zip(every, panels.items(), strict=True):
        for path, lines in paths.items():
            look = styles([path])[path]
            mark: dict[str, Any] = {"marker": look.marker, "markersize": 3, "markevery": len(lines[0]) // 6}
            for k, line in enumerate(lines):
                steps = np.arange(len(line))[path == "single" :]  # none is no single layer
                label = None if k else look.label
                axes.plot(steps, line[steps], color=look.colour, label=label, linewidth=1.1, **mark)
        middle = np.mean([np.min([*paths.values()]), np.max([*paths.values()])])
        axes.set_ylim(middle - 0.55 * spread, middle + 0.55 * spread)  # one scale: a small change looks small
        line = np.mean(paths["back-to-front"], axis=0)
        told.append(f"{name}: {number(line[0])} (AttnLRP) to {number(line[-1])} (CP-LRP)")
        axes.set_title(name, fontsize=9)
    figure.supylabel("mean r with LOO", fontsize=9)
    below: dict[str, Any] = {
        "title": "layers bypassed, or which single one",
        "loc": "outside lower center",
        "ncols": 3,
    }
    figure.legend(*every[0].get_legend_handles_labels(), **below)
    figure.alt = f"{title}. {'; '.join(told)}."
    headline(figure, title)
    settle(figure)
    return figure


def base_paths(folder: str) -> dict[str, dict[str, list[np.ndarray]]]:
    """The three paths of the base-size model by reading, a line for each training."""
    return {
        f"{READ[reading]}: {STATISTIC[statistic].split()[0]}": {
            path: [
                path_means(f"{folder}/base", seed, path, reading[1], statistic=statistic) for seed in SEEDS
            ]
            for path in PATHS
        }
        for reading in (WORDS, ALL)
        for statistic in STATISTIC
    }


def smollm2_paths(folder: str) -> dict[str, dict[str, list[np.ndarray]]]:
    """The three paths of SmolLM2's thirty layers by statistic and set, all tokens."""
    return {
        f"{SETS[name]}: {STATISTIC[statistic].split()[0]}": {
            path: [path_means(f"{folder}/smollm2", name, path, "all", statistic=statistic)] for path in PATHS
        }
        for statistic in STATISTIC
        for name in SETS
    }


def methods_table(r: xr.DataArray, readings: Mapping[tuple[str, str], str], *, caption: str) -> Table:
    """Mean r of every method by statistic and what counts."""
    rows = []
    for method in r.explainer.values:
        row = {"method": method_name(method)}
        for (reading, words), statistic in itertools.product(readings.items(), STATISTIC):
            row[f"{words}: {statistic}"] = number(mean(at(r, reading, statistic).sel(explainer=method)))
        rows.append(row)
    return table(rows, caption=caption)


def method_name(name: str) -> str:
    """A map of a record in words.

    >>> method_name("mask-gradient-4"), method_name("loo delete")
    ('mask gradient, K = 4', 'LOO by deletion')
    """
    if name.startswith("loo "):
        return f"LOO by {REMOVALS[name.removeprefix('loo ')]}"
    groups = name.removeprefix("mask-gradient-")
    return f"{label_of('mask-gradient')}, K = {groups}" if groups != name else label_of(name)


def judges_table(folder: str) -> Table:
    """Mean r with Shapley values and with LOO at the words, over the sentences that have both."""
    shapley, loo = trainings(folder, "shapley"), trainings(folder)
    rows = []
    for method in shapley.explainer.values:
        if method.startswith("loo ") and method != "loo attention-mask":
            continue
        row = {"map": "LOO" if method.startswith("loo") else method_name(method)}
        for statistic in STATISTIC:
            row[f"Shapley: {statistic}"] = number(mean(at(shapley, WORDS, statistic).sel(explainer=method)))
            here = at(loo, WORDS, statistic).sel(example=shapley.example)
            known = method in here.explainer.values
            row[f"LOO: {statistic}"] = number(mean(here.sel(explainer=method))) if known else ""
        rows.append(row)
    caption = f"words; {shapley.sizes['example']} sentences, {len(SEEDS)} trainings, base size"
    return table(rows, caption=caption)


def standing(folder: str, name: str, method: str) -> np.ndarray:
    """Where the first token stands in a map and in LOO, with positions if there are: u and v, (texts, 2)."""
    kept = part(folder, name)
    maps = real.by_text(kept, f"{method}+position" if f"{method}+position" in kept else method)
    found = [
        leverage(one.astype(float), loo.astype(float), 0)
        for one, loo in zip(maps, real.by_text(kept, "loo attention-mask"), strict=True)
    ]
    return np.array([(one.u, one.v) for one in found])


def first_table(folder: str) -> Table:
    """Where the first token stands: the median of u by method and of v, and in which share it is far out."""
    named = {f"base size, training {seed[-1]}": ("base", f"{seed}-maps") for seed in SEEDS}
    named |= {f"SmolLM2, {words}": ("smollm2", f"{name}-maps") for name, words in SETS.items()}
    rows = []
    for title, (kind, name) in named.items():
        of = {method: standing(f"{folder}/{kind}", name, method) for method in PAIR}
        far = {key: (np.abs(values) > 1).mean(0) for key, values in of.items()}
        row: Row = {"model, texts": title, "n": f"{len(of['attnlrp']):,}"}
        for method in PAIR[::-1]:
            row[f"u, {label_of(method)}"] = number(np.median(of[method][:, 0]))
        row["v, LOO"] = number(np.median(of["attnlrp"][:, 1]))
        for method in PAIR[::-1]:
            row[f"|u| > 1, {label_of(method)}"] = f"{far[method][0]:.0%}"
        rows.append({**row, "|v| > 1": f"{far['attnlrp'][1]:.0%}"})
    return table(
        rows, caption="the first token, all tokens counted: medians, and in which share it is far out"
    )


def prompts(folder: str) -> list[tuple[str, list[Attribution], list[str]]]:
    """Maps of SmolLM2 on three prompts of our own: a title, the maps, LOO first, and their names
    with r with LOO over all tokens and without the first; made by `make.py --touch`.
    """
    path = nearby(f"{folder}/smollm2") / "touch.json"
    out = []
    for made in json.loads(path.read_text(encoding="utf-8"))["prompts"]:
        words = {key: made[key].strip() for key in ("answer", "foil", "next")}
        title = "{answer} against {foil}; next token: {next}".format(**words)
        rows = [Attribution.from_dict(row) for row in made["rows"]]
        loo, *maps = (row.scores for row in rows)
        r = [[number(pearson(one[k:], loo[k:])) for k in (0, 1)] for one in maps]
        names = [method_name(row.method) for row in rows[1:]]
        told = [
            f"{name}; r with LOO {a}, without the first token {b}"
            for name, (a, b) in zip(names, r, strict=True)
        ]
        out.append((title, rows, ["LOO", *told]))
    return out


def curves_table(folder: str) -> Table:
    """Delta of every map over the trainings, on SST-2, and on the reviews of IMDB that were drawn first."""
    each = [deltas(f"{folder}/base", f"{seed}-maps") for seed in SEEDS]
    drawn = deltas(f"{folder}/base", f"{REVIEWS}-maps")
    rows = [
        {
            "ordered by": method_name(name) if name != "loo attention-mask" else "LOO",
            "SST-2": number(mean(xr.DataArray([one[name] for one in each], dims=["training", "example"]))),
            "IMDB": number(bootstrap_mean(drawn[name])) if name in drawn else "",
        }
        for name in each[0]
        if "+" not in name
    ]
    n = [len(next(iter(of.values()))) for of in (each[0], drawn)]
    reviews = f"IMDB: the first {n[1]} drawn, 1 training, 16 tokens a step"
    return table(rows, caption=f"Δ of the logit, base size; SST-2: n = {n[0]}, 3 trainings; {reviews}")


def by_length(folder: str) -> list[Row]:
    """CP-LRP minus AttnLRP on the reviews of IMDB, all, short and long; the mask gradient minus AttnLRP."""
    every, tokens, rows = reviews(folder), tokens_of(folder), []
    order = np.argsort(tokens, kind="stable")
    short, long = np.array_split(order, 2)
    for words, chosen in (("all", order), ("shortest", short), ("longest", long)):
        r, of = every.isel(example=chosen), tokens[chosen]
        row: Row = {"reviews": f"{words} {len(of)}", "tokens": f"{of.min()} to {of.max()}"}
        for statistic in STATISTIC:
            row |= {f"{READ[at]}, {statistic}": gap(r, at, statistic) for at in (WORDS, ALL)}
            beats = ("mask-gradient", "attnlrp")
            row[f"mask gradient, {statistic}"] = gap(r, WORDS, statistic, beats)
        rows.append(row)
    return rows


def length_table(folder: str) -> Table:
    """`by_length`, as a table."""
    groups = {
        "CP-LRP − AttnLRP, words": READ[WORDS],
        "CP-LRP − AttnLRP, all tokens + positions": READ[ALL],
        "mask gradient − AttnLRP, words": "mask gradient",
    }
    spans = {title: [f"{start}, {statistic}" for statistic in STATISTIC] for title, start in groups.items()}
    columns = {"reviews": "reviews", "tokens": "tokens"}
    columns |= {name: STATISTIC[name.split(", ")[1]] for of in spans.values() for name in of}
    return table(
        by_length(folder),
        columns=columns,
        groups=spans,
        caption="IMDB, base size, one training: mean differences of r with LOO; 95 % intervals over reviews",
    )


def masks_table(folder: str) -> Table:
    """`best_masks`, as a table."""
    rows = [{name: value for name, value in row.items() if name != "mask"} for row in best_masks(folder)]
    return table(rows, caption="all 4,096 masks, 200 sentences, Pearson; base size")


def fitted_table(folder: str) -> Table:
    """`fitted_masks`, as a table."""
    caption = "the mask that is best on two trainings, on the third: 200 sentences, base size"
    return table(fitted_masks(folder), caption=caption)


def sets_table(folder: str) -> Table:
    """How many texts SmolLM2 answers, by set: the answer ahead of its foil, and the answer as next token."""
    rows = []
    for name, words in SETS.items():
        made = manifest(f"{folder}/smollm2", f"{name}-maps")
        named, right = made["config"]["named first"], made["accuracy"]
        rows.append({"set": words, "texts": f"{made['texts']}", "right": right, "named first": named})
    return table(rows, caption="SmolLM2-135M-Instruct; right: the label or the answer is ahead")


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "results"
    print(outcomes_table(base_outcomes(where), caption="The base-size model"))
    print(outcomes_table(smollm2_outcomes(where), caption="SmolLM2"))
    print(outcomes_table(reviews_outcomes(where), caption="The shorter reviews"))
    print(outcomes_table(drawn_outcomes(where), caption="Reviews as drawn, single layers"))
