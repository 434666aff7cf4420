"""Numbers of the tables, computed again from the rows by a second, plain implementation.

Nothing of `lrp_companion` is used on the plain side: parquet files are read as they are, columns are cut by
hand, and every statistic is written out. Which numbers are taken is drawn with a seed.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from lrp_book import primary
from lrp_book.primary import against_length, of_records
from plain_rows import counted, plain_loo, plain_r

from lrp_companion.lab.load import load_run
from lrp_companion.lab.paper.primary import ahead, by_training, summary
from lrp_companion.metrics.statistics import side_of_band
from lrp_companion.schema import Protocol

RESULTS = Path(__file__).parents[1] / "results"
TOKENS = ("no-special", "all")


MAPS = sorted(path.name for path in (RESULTS / "maps").glob("*") if path.is_dir())


@pytest.mark.parametrize("name", MAPS)
def test_methods_against_every_removal(name):
    here, folder = load_run(RESULTS / "maps" / name), RESULTS / "maps" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    removals = len(manifest["config"]["removals"])
    examples = {row["job"]: row for row in pq.read_table(folder / "examples.parquet").to_pylist()}
    maps = {
        (row["method"], row["job"]): row["map"]
        for row in pq.read_table(folder / "methods.parquet").to_pylist()
    }
    for tokens in range(2):
        numbered = enumerate(manifest["config"]["removals"])
        for (place, removal), method in itertools.product(numbered, here.methods):
            if method == "loo":
                continue
            values = []
            for job in sorted(examples):
                example = examples[job]
                kept = counted(example, TOKENS[tokens])
                loo = plain_loo(example, removals, place)
                scores = maps[method, job][: example["tokens"]]
                if len(kept) > 1 and len({scores[k] for k in kept}) > 1 and len({loo[k] for k in kept}) > 1:
                    values.append(plain_r([scores[k] for k in kept], [loo[k] for k in kept]))
            made = np.nanmean(here.r(method, Protocol(tokens=TOKENS[tokens], removal=removal)))
            assert made == pytest.approx(sum(values) / len(values), abs=5e-6)


FILES = {
    "MiniLM": ("sst2-companion", "sst2-companion-6", "trainings/sst2-*", "mean-pooling/*"),
    "MPNet": ("base/sst2-seed-[0-2]-maps.npz",),
    "SmolLM2": ("smollm2/sst2-maps.npz",),
    **{
        f"wiring {k}": (f"wirings/{name}-seed-*",)
        for k, name in enumerate(("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama"))
    },
    "labels, BERT": ("labels-only/*post-ln*",),
    "labels, Llama": ("labels-only/*llama*",),
}


def d_of_run(folder: Path) -> list[float]:
    """Mean d at the words by Pearson and by rank, then over all tokens with positions."""
    axes = json.loads((folder / "manifest.json").read_text())["axes"]
    table = pd.read_parquet(folder / "methods.parquet").set_index("method")
    r = {name: np.stack(table.loc[name].sort_values("job").r.to_list()) for name in ("cp-lrp", "attnlrp")}
    d = (r["cp-lrp"] - r["attnlrp"]).reshape(-1, *map(len, axes.values()))
    removal, logit = axes["removal"].index("attention-mask"), axes["target"].index("logit")
    return [
        float(np.nanmean(d[:, site, tokens, removal, logit, statistic].astype(float)))
        for site, tokens in ((0, 0), (1, 1))
        for statistic in (0, 1)
    ]


def d_of_maps(file: Path) -> list[float]:
    kept = np.load(file)
    ends = np.cumsum(kept["tokens"])[:-1]
    of = {
        name: np.split(kept[name].astype(float), ends)
        for name in kept
        if len(kept[name]) == kept["tokens"].sum()
    }
    found = []
    for words, suffix in ((True, ""), (False, "+position" if "cp-lrp+position" in of else "")):
        for rank in (False, True):
            d = []
            for k, loo in enumerate(of["loo attention-mask"]):
                keep = of["word"][k].astype(bool) if words else np.ones(len(loo), bool)
                rows = [of[name][k][keep] for name in (f"cp-lrp{suffix}", f"attnlrp{suffix}")] + [loo[keep]]
                r = np.corrcoef([pd.Series(row).rank() for row in rows] if rank else rows)
                d.append(r[0, 2] - r[1, 2])
            found.append(float(np.nanmean(d)))
    return found


def test_the_primary_analysis_from_the_files_alone():
    """pandas and numpy read the records; nothing of the package computes here."""
    rows = {}
    for encoder, patterns in FILES.items():
        for path in sorted(path for pattern in patterns for path in RESULTS.glob(pattern)):
            rows[encoder, str(path.relative_to(RESULTS))] = (
                d_of_maps(path) if path.suffix == ".npz" else d_of_run(path)
            )
    plain = pd.DataFrame.from_dict(rows, orient="index")
    plain.index = pd.MultiIndex.from_tuples(plain.index)
    assert len(plain) == 33
    by_encoder = plain.groupby(level=0).mean()
    half = 2.2621571628 * by_encoder.std() / math.sqrt(10)  # Student's 0.975 quantile, 9 degrees of freedom
    made = summary(of_records())
    for k, (_, row) in enumerate(made.iterrows()):
        mean = by_encoder[k].mean()
        assert (row.d.mean, row.d.low, row.d.high) == pytest.approx(
            (mean, mean - half[k], mean + half[k]), abs=1e-5
        )
        assert (row.encoders, row.trainings, row.below) == (10, 33, (by_encoder[k] < 0).sum())
        assert (row.smallest, row.largest) == pytest.approx((plain[k].min(), plain[k].max()), abs=1e-5)
    table = pd.read_parquet(RESULTS / "sst2-companion/methods.parquet").set_index("method")
    r = [np.stack(table.loc[name].sort_values("job").r.to_list())[:, 0] for name in ("cp-lrp", "attnlrp")]
    tokens = pd.read_parquet(RESULTS / "sst2-companion/examples.parquet").sort_values("job").tokens
    plain_rank = pd.Series(r[0] - r[1]).rank().corr(tokens.reset_index(drop=True).rank())
    made_rank = against_length(of_records())["MiniLM", "sst2-companion"]["words, Pearson"].item()
    assert made_rank == pytest.approx(plain_rank, abs=1e-6)
    told = [(row.d.text(3), row.below, row.ahead) for _, row in made.iterrows()]
    assert told[0] == ("-0.015 [-0.032, 0.002]", 8, "level")
    assert [(below, verdict) for _, below, verdict in told[1:]] == [(7, "level"), (4, "open"), (5, "level")]
    assert plain[0].abs().max() < 0.30 / 2, "the paper's difference is in no training's reach"


def test_the_pages_of_the_primary_analysis_say_what_its_tables_say():
    pages = [RESULTS.parent / "book" / f"{name}.md" for name in ("primary", "which_method")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert re.findall(r"\{primary-analysis\} (\S+)", text) == [*primary.TABLES]
    told = {name: repr(primary.TABLES[name](of_records())) for name in ("summary", "otherwise")}
    assert "−0.015 [−0.032, 0.002]" in told["summary"] and told["summary"].count("level") == 3
    assert [told["otherwise"].count(word) for word in ("level", "open")] == [12, 4], "no verdict changes"
    reviews = by_training(primary.on_reviews())
    assert {ahead(value) for value in reviews["words, rank"]} == {"AttnLRP"}
    assert ahead(reviews["words, Pearson"].iloc[-1]) == "AttnLRP"
    assert {ahead(value) for value in reviews["words, Pearson"].iloc[:-1]} == {"level", "open"}
    length = summary(against_length(of_records())).d
    assert [side_of_band(value, 0, 0) for value in length] == ["across", "across", "across", "below"]
