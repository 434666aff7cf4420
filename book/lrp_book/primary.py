"""The primary analysis on the committed records, and the directive `primary-analysis` that prints it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sphinx.application import Sphinx

from lrp_book.sphinx import shows
from lrp_companion.lab.load import TextRun, nearby
from lrp_companion.lab.paper.primary import (
    INDEX,
    MARGIN,
    PAIR,
    READINGS,
    Leads,
    ahead,
    by_training,
    leads,
    summary,
)
from lrp_companion.lab.record import interval, open_record
from lrp_companion.metrics import Interval, pearson, spearman
from lrp_companion.show.tables import Table, table

RESULTS = Path(__file__).resolve().parents[2] / "results"
ENCODERS: Mapping[str, Sequence[str]] = {
    "MiniLM": (
        "sst2-companion",
        "sst2-companion-6",
        "trainings/sst2-companion-6-*",
        "mean-pooling/*",
    ),
    "MPNet": ("base/sst2-seed-*-maps",),
    "SmolLM2": ("smollm2/sst2-maps",),
    "BERT": ("wirings/post-ln-first-seed-*",),
    "BERT, mean read": ("wirings/post-ln-mean-seed-*",),
    "BERT, labels alone": ("labels-only/labels-post-ln-first-seed-0",),
    "ModernBERT": ("wirings/modernbert-seed-*",),
    "GPT-2": ("wirings/gpt2-seed-*",),
    "Llama": ("wirings/llama-seed-*",),
    "Llama, labels alone": ("labels-only/labels-llama-seed-0",),
}
"""The ten encoders and the records of their trainings in `results/`. The first three were pre-trained by
others; the others are small and were trained here from first weights, by a teacher unless labels are named.
"""
SHAPLEY = {
    "companion": "MiniLM",
    "post-ln-first": "BERT",
    "post-ln-mean": "BERT, mean read",
    "modernbert": "ModernBERT",
    "gpt2": "GPT-2",
    "llama": "Llama",
}
"""The encoders of `results/shapley/` by the names of its records; MPNet and SmolLM2 have theirs elsewhere."""
REVIEWS = "base/sst2-imdb-seed-0-imdb"
"""IMDB in MPNet: the 25 longest of 200 reviews, and with `-rest` the others."""


def number(value: Interval | float) -> str:
    """A number with three digits and a minus sign; with four where three would round it up to the margin.

    >>> number(-0.0149), number(-0.0496)
    ('−0.015', '−0.0496')
    """
    at = value.mean if isinstance(value, Interval) else value
    digits = 4 if abs(at) < MARGIN <= round(abs(at), 3) else 3
    return (value.text(digits) if isinstance(value, Interval) else f"{value:.{digits}f}").replace("-", "−")


@lru_cache(maxsize=2)
def of_records(results: str = str(RESULTS)) -> Leads:
    """d of every sentence of SST-2's validation part, by encoder and training."""
    return found_in(results, ENCODERS)


def found_in(results: str, names_of: Mapping[str, Sequence[str]]) -> Leads:
    """The records with these names, by encoder and training."""
    found: dict[tuple[str, str], pd.DataFrame] = {}
    for encoder, names in names_of.items():
        for name in names:
            for training, part in open_record(name, results=results).parts.items():
                d = leads(part) if isinstance(part, TextRun) else from_maps(training, results)
                found[encoder, training] = d
    return found


def from_maps(name: str, results: str) -> pd.DataFrame:
    """The same of a record of maps; where positions are rotations, relevance is read at the words."""
    record = open_record(name, results=results)
    r = record.r.sel(map="raw", removal="attention-mask")
    d = r.sel(explainer=PAIR[0]) - r.sel(explainer=PAIR[1])
    tokens = pd.Series(record.arrays["tokens"], record.arrays["example"])[d.text.values]
    columns = {
        name: d.sel(
            site=at.site if at.site in d.site else "word", tokens=at.tokens, statistic=at.statistic
        ).values
        for name, at in READINGS.items()
    }
    return pd.DataFrame(columns, index=pd.MultiIndex.from_arrays([tokens.index, tokens], names=INDEX))


def otherwise(of: Leads, results: str) -> dict[str, pd.DataFrame]:
    """`summary` of the same records with encoders told apart in other ways, and with one training more."""
    apart = {(f"{e}, mean read" if t.startswith("mean-pooling/") else e, t): d for (e, t), d in of.items()}
    together = {(e.removesuffix(", labels alone"), t): d for (e, t), d in of.items()}
    more = {**of, ("MPNet", "base/sst2-imdb-seed-0-sst2"): from_maps("base/sst2-imdb-seed-0-sst2", results)}
    return {
        "ten encoders, as declared": summary(of),
        "MiniLM that reads the mean counts as an encoder of its own": summary(apart),
        "trained from labels or by a teacher: one encoder": summary(together),
        "with an MPNet that was trained on IMDB, too": summary(more),
    }


@lru_cache(maxsize=1)
def on_reviews(results: str = str(RESULTS)) -> Leads:
    """d of every review of IMDB in the records, as `of_records`."""
    names = {"MiniLM": ("imdb-companion", "imdb-companion-6-seed-1", "trainings/imdb-*")}
    base = pd.concat([from_maps(f"{REVIEWS}{end}", results) for end in ("", "-rest")])
    return {**found_in(results, names), ("MPNet", f"{REVIEWS}, -rest"): base}


@lru_cache(maxsize=1)
def by_shapley(results: str = str(RESULTS)) -> Leads:
    """The same difference with Shapley values in LOO's place, at the words of sentences with them."""
    found: dict[tuple[str, str], pd.DataFrame] = {}
    for name, encoder in SHAPLEY.items():
        kept = open_record(f"shapley/{name}", results=results).arrays
        ends = np.cumsum(kept["units"])[:-1]
        of = [np.split(kept[part], ends) for part in ("special", "shapley", *PAIR)]
        found[encoder, name] = _by_judge(zip(*of, strict=True))
    for encoder in ("MPNet", "SmolLM2"):
        (pattern,) = ENCODERS[encoder]
        for name in open_record(pattern, results=results).parts:
            kept = open_record(name.replace("maps", "shapley"), results=results).arrays
            judged = pd.DataFrame({"text": np.repeat(kept["example"], kept["tokens"])})
            judged = judged.assign(place=judged.groupby("text").cumcount(), shapley=kept["shapley"])
            tokens = open_record(name, results=results).tokens().merge(judged, on=["text", "place"])
            of_text = [text for _, text in tokens.groupby("text")]
            columns = ("special", "shapley", *PAIR)
            found[encoder, name] = _by_judge([[text[c].to_numpy() for c in columns] for text in of_text])
    return found


def _by_judge(texts: Iterable[Sequence[np.ndarray]]) -> pd.DataFrame:
    """r of the first rule with a judge minus r of the second, of texts as (special, judge, rule, rule)."""
    words = [[values[~special] for values in rest] for special, *rest in texts if (~special).sum() > 1]
    return pd.DataFrame(
        {
            name: [f(one, judge) - f(other, judge) for judge, one, other in words]
            for name, f in zip([*READINGS][:2], (pearson, spearman), strict=True)
        }
    )


def against_length(of: Leads) -> dict[tuple[str, str], pd.DataFrame]:
    """The rank correlation of d with the number of tokens, in each training: a row, as `summary` takes it."""
    found = {}
    for key, d in of.items():
        tokens = pd.Series(d.index.get_level_values("tokens").to_numpy(), d.index)
        found[key] = d.corrwith(tokens, method="spearman").to_frame().T
    return found


def against_interaction(results: str = str(RESULTS)) -> dict[str, tuple[float, int]]:
    """The rank correlation of d at the words (Pearson) with the size of the interactions between tokens, and
    n: in six trainings, over the sentences that are short enough for exact Shapley values.
    """
    found = {}
    for path in sorted(nearby(results).glob("shapley/*.npz")):
        kept, exact = np.load(path), json.loads(path.with_suffix(".json").read_text())["config"]["exact"]
        ends = np.cumsum(kept["units"])[:-1]
        of = {name: np.split(kept[name], ends) for name in (*PAIR, "loo", "shapley", "special")}
        words = [~special for special in of["special"]]
        short = [k for k, keep in enumerate(words) if keep.sum() <= exact]
        if not short:
            continue
        pairs = np.cumsum([n * (n - 1) // 2 for n in kept["units"][short]])[:-1]
        sizes = [np.abs(of_text).sum() for of_text in np.split(kept["interactions"], pairs)]
        size = np.array(sizes) / [np.abs(of["shapley"][k]).sum() for k in short]
        r = [[pearson(of[m][k][words[k]], of["loo"][k][words[k]]) for k in short] for m in PAIR]
        found[path.stem] = spearman(np.array(r[0]) - np.array(r[1]), size), len(short)
    return found


def against_entropy(results: str = str(RESULTS)) -> Iterator[dict[str, str]]:
    """The rank correlation of a layer's gain with the entropy of its attention, in each sentence of MiniLM's:
    the mean over sentences, for both of the paper's paths. A gain is how much r rises with one layer more.
    """
    kept = open_record("attention-entropy/companion", results=results).arrays
    r = open_record("sst2-12", results=results).layers.sel(removal="attention-mask", target="logit")
    entropy = pd.DataFrame(kept["entropy"], kept["example"]).loc[r.text.values]
    paths = {
        "front to back": ["none", "1", *(f"1 to {k}" for k in range(2, 13))],
        "back to front": ["1 to 12", *(f"{k} to 12" for k in range(2, 12)), "12", "none"],
    }
    for counted, at in list(READINGS.items())[::2]:
        for path, steps in paths.items():
            along = r.sel(site=at.site, tokens=at.tokens, bypassed=steps).transpose("text", "bypassed")
            gain = np.diff(along.values) * (1 if steps[0] == "none" else -1)
            ranks = pd.DataFrame(gain, entropy.index).rank(axis=1)
            found = ranks.corrwith(entropy.rank(axis=1), axis=1)
            yield {"r": counted, "path": path, "rank correlation": number(interval(found.to_numpy()))}


def summary_table(of: pd.DataFrame) -> Table:
    """The primary analysis and the secondary readings."""
    rows = [
        {
            "reading": name,
            "mean d": number(row.d),
            "closer to LOO": row.ahead,
            "encoders below 0": f"{row.below} of {row.encoders}",
            "trainings": f"{number(row.smallest)} to {number(row.largest)}",
        }
        for name, row in of.iterrows()
    ]
    return table(rows, caption="d = r of CP-LRP − r of AttnLRP; 95 % intervals over encoders")


def encoders_table(of: Leads) -> Table:
    """The mean of each encoder, over its trainings."""
    means = by_training(of).map(lambda value: value.mean)
    rows = [
        {"encoder": name, "trainings": len(group), **{c: number(group[c].mean()) for c in group}}
        for name, group in means.groupby("encoder", sort=False)
    ]
    return table(rows, caption="Mean d of each encoder")


def trainings_table(of: Leads) -> Table:
    """The mean of each training, with its interval over sentences."""
    rows = [
        {"encoder": encoder, "record": name, **{c: number(row[c]) for c in row.index}}
        for (encoder, name), row in by_training(of).iterrows()
    ]
    return table(rows, caption="Mean d of each training; 95 % intervals over its sentences")


def otherwise_table(of: Mapping[str, pd.DataFrame]) -> Table:
    """`otherwise`, reading by reading."""
    rows = [
        {"what counts as an encoder": words, "n": str(int(one.encoders.iloc[0]))}
        | {name: f"{number(row.d)} {row.ahead}" for name, row in one.iterrows()}
        for words, one in of.items()
    ]
    return table(rows, caption="Mean d and 95 % interval over encoders, if encoders are counted otherwise")


def length_table(of: Leads) -> Table:
    """What d goes with, sentence by sentence: length, and the interactions between tokens."""
    rows = [
        {"d": name, "with": "number of tokens, SST-2, ten encoders", "rank correlation": number(row.d)}
        for name, row in summary(against_length(of)).iterrows()
    ]
    rows += [
        {"d": "words, Pearson", "with": f"interactions, {name}, n = {n}", "rank correlation": number(r)}
        for name, (r, n) in against_interaction().items()
    ]
    return table(rows, caption="What d goes with; 95 % intervals over encoders")


def entropy_table(_: Leads) -> Table:
    """`against_entropy`."""
    caption = "A layer's gain and the entropy of its attention; 95 % intervals over 872 sentences"
    return table(list(against_entropy()), caption=caption)


def every(of: Leads) -> dict[str, str]:
    """Which rule is ahead in every training, reading by reading; "open" where trainings differ."""
    verdicts = {name: {ahead(value) for value in values} for name, values in by_training(of).items()}
    return {name: "open" if len(found) > 1 else found.pop() for name, found in verdicts.items()}


def answers_table(of: Leads) -> Table:
    """Which rule is closer, a word a cell: over encoders, or where these are too few, if trainings agree."""
    ten, eight = "ten networks, short reviews", "eight networks, short reviews"
    found: dict[tuple[str, str], Mapping[str, str]] = {
        ("LOO", ten): summary(of).ahead,
        ("LOO", "SmolLM2, one of the ten, short reviews"): every(
            {k: d for k, d in of.items() if k[0] == "SmolLM2"}
        ),
        ("LOO", "two networks, long reviews"): every(on_reviews()),
        ("Shapley values", eight): summary(by_shapley()).ahead,
    }
    rows = [
        {"judge": judge, "what counts": what, "where": where}
        | {"by Pearson's r": verdicts[first], "by rank": verdicts[second]}
        for (judge, where), verdicts in found.items()
        for what, (first, second) in zip(
            ("words only", "every token"), [*pairwise(verdicts.keys())][::2], strict=False
        )
    ]
    return table(rows, caption="Which rule is closer to the judge")


def networks_table(of: Leads) -> Table:
    """The same for each encoder alone, by the interval over its trainings where these have the same texts."""
    leads_of = {"LOO, short reviews": of, "LOO, long reviews": on_reviews(), "Shapley values": by_shapley()}
    rows = []
    for judge, all_of in leads_of.items():
        for encoder in dict.fromkeys(encoder for encoder, _ in all_of):
            its = {key: d for key, d in all_of.items() if key[0] == encoder}
            found = every(its) if judge == "LOO, long reviews" else summary(its).ahead.to_dict()
            verdicts = {name.replace("all tokens", "every token"): one for name, one in found.items()}
            rows.append({"network": encoder, "judge": judge} | verdicts)
    caption = (
        "Which rule is closer in each network (BERT and Llama: small ones trained for this book), over its "
        "trainings (of some: one); long reviews: if all agree"
    )
    return table(rows, caption=caption)


TABLES: Mapping[str, Callable[[Leads], Table]] = {
    "summary": lambda of: summary_table(summary(of)),
    "encoders": encoders_table,
    "trainings": trainings_table,
    "otherwise": lambda of: otherwise_table(otherwise(of, str(RESULTS))),
    "reviews": lambda _: trainings_table(on_reviews()),
    "length": length_table,
    "entropy": entropy_table,
    "answers": answers_table,
    "networks": networks_table,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive: a table by its name in `TABLES` (called by Sphinx)."""
    made = shows(lambda asked: TABLES[asked.arguments[0]](of_records())._repr_html_(), required_arguments=1)
    app.add_directive("primary-analysis", made)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
