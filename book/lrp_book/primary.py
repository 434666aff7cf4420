"""The primary analysis on the committed records, and the directive `primary-analysis` that prints it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_book.ch09_real import ALL, ON_SENTENCES, OTHERS, REVIEWS, SEEDS, WORDS, at, part, r_of
from lrp_book.records.shapley import read
from lrp_book.say import number as rounded
from lrp_book.yardsticks import interaction_size
from lrp_companion.lab.load import TextRun, load_run, nearby
from lrp_companion.lab.paper.primary import (
    INDEX,
    PAIR,
    READINGS,
    Leads,
    ahead,
    by_training,
    leads,
    summary,
)
from lrp_companion.metrics import pearson, spearman
from lrp_companion.show.tables import Table, table

RESULTS = Path(__file__).resolve().parents[2] / "results"
ENCODERS: Mapping[str, Sequence[str]] = {
    "MiniLM": (
        "sst2-companion",
        "sst2-companion-6",
        "trainings/sst2-companion-6-*seed-?",
        "mean-pooling/sst2-companion-6-mean-seed-?",
    ),
    "MPNet": tuple(f"base/{seed}-maps" for seed in SEEDS),
    "SmolLM2": ("smollm2/sst2-maps",),
    "BERT": ("wirings/post-ln-first-seed-?",),
    "BERT, mean read": ("wirings/post-ln-mean-seed-?",),
    "BERT, labels alone": ("labels-only/labels-post-ln-first-seed-0",),
    "ModernBERT": ("wirings/modernbert-seed-?",),
    "GPT-2": ("wirings/gpt2-seed-?",),
    "Llama": ("wirings/llama-seed-?",),
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
DIGITS = 3  # of differences far below 0.1
number = partial(rounded, digits=DIGITS)
COLUMNS = dict(zip(READINGS, product((WORDS, ALL), ("pearson", "spearman")), strict=True))


@lru_cache(maxsize=2)
def of_records(results: str = str(RESULTS)) -> Leads:
    """d of every sentence of SST-2's validation part, by encoder and training."""
    return found_in(results, ENCODERS)


def found_in(results: str, names_of: Mapping[str, Sequence[str]]) -> Leads:
    """The records with these names, by encoder and training."""
    found: dict[tuple[str, str], pd.DataFrame] = {}
    for encoder, names in names_of.items():
        for name in names:
            if name.endswith("-maps"):
                found[encoder, name] = from_maps(results, name)
            else:
                paths = sorted(nearby(results).glob(name))
                runs = [run for run in map(load_run, paths) if isinstance(run, TextRun)]
                found |= {(encoder, "/".join([*name.split("/")[:-1], run.name])): leads(run) for run in runs}
    return found


def from_maps(results: str, name: str) -> pd.DataFrame:
    """The same of a record that keeps maps; where positions are rotations, relevance is read at the words."""
    folder, _, record = name.partition("/")
    r = r_of(f"{results}/{folder}", record).sel(explainer=list(PAIR))
    of = {reading: at(r, *how).diff("explainer").values[0] for reading, how in COLUMNS.items()}
    kept = part(f"{results}/{folder}", record)
    tokens = pd.Series(kept["tokens"], kept["example"])[r.example.values]
    return -pd.DataFrame(of, index=pd.MultiIndex.from_arrays([tokens.index, tokens], names=INDEX))


def otherwise(of: Leads, results: str) -> dict[str, pd.DataFrame]:
    """`summary` of the same records with encoders told apart in other ways, and with one training more."""
    apart = {(f"{e}, mean read" if t.startswith("mean-pooling/") else e, t): d for (e, t), d in of.items()}
    together = {(e.removesuffix(", labels alone"), t): d for (e, t), d in of.items()}
    more = {**of, ("MPNet", f"base/{ON_SENTENCES}"): from_maps(results, f"base/{ON_SENTENCES}")}
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
    base = pd.concat([from_maps(results, f"base/{name}") for name in (REVIEWS, OTHERS)])
    return {**found_in(results, names), ("MPNet", f"base/{REVIEWS}, -rest"): base}


@lru_cache(maxsize=1)
def by_shapley(results: str = str(RESULTS)) -> Leads:
    """The same difference with Shapley values in LOO's place, over the sentences of SST-2 that have them."""
    found: dict[tuple[str, str], pd.DataFrame] = {}
    for path in sorted(nearby(results).glob("shapley/*.npz")):
        if path.stem in SHAPLEY:
            words = [(text, ~text["special"]) for text in read(path) if (~text["special"]).sum() > 1]
            d: dict[str, np.ndarray] = {}
            for name, f in zip(READINGS, (pearson, spearman), strict=False):
                first, second = (
                    np.array([f(text[rule][keep], text["shapley"][keep]) for text, keep in words])
                    for rule in PAIR
                )
                d[name] = first - second
            found[SHAPLEY[path.stem], path.stem] = pd.DataFrame(d)
    for encoder in ("MPNet", "SmolLM2"):
        for folder, _, record in (name.partition("/") for name in ENCODERS[encoder]):
            r = r_of(f"{results}/{folder}", record, "shapley").sel(explainer=list(PAIR))
            d = {name: -at(r, *COLUMNS[name]).diff("explainer").values[0] for name in [*READINGS][:2]}
            found[encoder, record] = pd.DataFrame(d)
    return found


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
        texts = [text for text in read(path) if "interactions" in text]
        if path.stem.startswith("imdb") or not texts:
            continue
        words = [~text["special"] for text in texts]
        r = [
            [pearson(text[name][keep], text["loo"][keep]) for text, keep in zip(texts, words, strict=True)]
            for name in PAIR
        ]
        d, size = np.array(r[0]) - np.array(r[1]), np.array([interaction_size(text) for text in texts])
        found[path.stem] = spearman(d, size), len(texts)
    return found


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


def every(of: Leads) -> dict[str, str]:
    """Which rule is ahead in every training, reading by reading; "open" where trainings differ."""
    verdicts = {name: {ahead(value) for value in values} for name, values in by_training(of).items()}
    return {name: "open" if len(found) > 1 else found.pop() for name, found in verdicts.items()}


def answers_table(of: Leads) -> Table:
    """Which rule is closer, a word a cell: over encoders, or where these are too few, if trainings agree."""
    ten, eight = "ten networks, short reviews", "eight networks, short reviews"
    found: dict[tuple[str, str], Mapping[str, str]] = {
        ("LOO", ten): summary(of).ahead,
        ("LOO", "a language model, short reviews"): every({k: d for k, d in of.items() if k[0] == "SmolLM2"}),
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
    """The same for each encoder alone, where its trainings agree."""
    leads_of = {"LOO, short reviews": of, "LOO, long reviews": on_reviews(), "Shapley values": by_shapley()}
    rows = [
        {"judge": judge, "network": encoder}
        | {
            name.replace("all tokens", "every token"): verdict
            for name, verdict in every({k: d for k, d in all_of.items() if k[0] == encoder}).items()
        }
        for judge, all_of in leads_of.items()
        for encoder in dict.fromkeys(encoder for encoder, _ in all_of)
    ]
    return table(rows, caption="Which rule is closer in each network, if its trainings agree")


TABLES: Mapping[str, Callable[[Leads], Table]] = {
    "summary": lambda of: summary_table(summary(of)),
    "encoders": encoders_table,
    "trainings": trainings_table,
    "otherwise": lambda of: otherwise_table(otherwise(of, str(RESULTS))),
    "reviews": lambda _: trainings_table(on_reviews()),
    "length": length_table,
    "answers": answers_table,
    "networks": networks_table,
}


class PrimaryAnalysis(SphinxDirective):
    """A table of the primary analysis, by its name in `TABLES`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table as raw HTML."""
        made = TABLES[self.arguments[0]](of_records())
        return [nodes.raw("", made._repr_html_(), format="html", classes=["output", "text_html"])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive("primary-analysis", PrimaryAnalysis)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
