"""`python -m benchmarks.lengths`: from which length on a mask gradient is cheaper than exact LOO.

One text at a time, as an explanation is asked for: reviews of the embedded data cut to each length, all sides
in turn in one process. The record holds seconds and their ratio for each length; `crossing` reads off between
which lengths the ratio passes 1.
"""

from __future__ import annotations

import argparse
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks import pages
from benchmarks.__main__ import setting_of
from benchmarks.clock import interleaved, ratio
from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import Classifier, EncodedText, load_classifier
from lrp_companion.methods import explain
from lrp_companion.metrics import agreement
from lrp_companion.sources import load_dataset

RECORD = pages.ROOT / "results" / "lengths.json"
LENGTHS = (6, 8, 12, 16, 20, 24, 32, 48, 64, 96)
GROUPS = (1, 4, 8, 16)


def cut(text: EncodedText, tokens: int) -> EncodedText:
    """The first tokens of a text and its last one, [SEP]."""
    ids, names, special, types = (
        (*row[: tokens - 1], row[-1]) for row in (text.input_ids, text.tokens, text.special, text.types)
    )
    return EncodedText("", ids, names, np.array(special), types)


def sides_of(clf: Classifier, text: EncodedText, out: dict[str, Attribution]) -> dict[str, Any]:
    """What is timed on one text; each leaves its record in `out`."""

    def side(name: str, method: str, **options: Any) -> Any:
        def call() -> None:
            out[name] = explain(method, clf, [text], [None], progress=False, **options)[0]

        return call

    return {
        "loo": side("loo", "loo"),
        "attnlrp": side("attnlrp", "attnlrp"),
        **{f"K = {k}": side(f"K = {k}", "mask-gradient", groups=k) for k in GROUPS},
    }


def measure(
    clf: Classifier, *, lengths: tuple[int, ...], texts: int, repeats: int, minimum: float
) -> list[dict[str, Any]]:
    """One row per length: seconds of each side, ratio of LOO over it, and r with LOO at the words."""
    data = load_dataset("imdb", split="test", source="embedded")
    encoded = clf.encode(list(data.texts), truncate=True)
    chosen = [text for k in data.order(len(encoded), seed=0) if len(text := encoded[k]) >= max(lengths)]
    rows = []
    for length in lengths:
        seconds: dict[str, list[float]] = {}
        r: dict[str, list[float]] = {}
        for text in chosen[:texts]:
            records: dict[str, Attribution] = {}
            sides = sides_of(clf, cut(text, length), records)
            for name, values in interleaved(sides, repeats=repeats, minimum=minimum).items():
                seconds.setdefault(name, []).extend(values)
                r.setdefault(name, []).append(agreement(records[name], records["loo"]))
        others = [name for name in seconds if name != "loo"]
        rows.append(
            {
                "tokens": length,
                "texts": len(chosen[:texts]),
                "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
                "ratio": {name: ratio(seconds["loo"], seconds[name]) for name in others},
                "r": {name: float(np.nanmean(r[name])) for name in others},
            }
        )
        print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """One row as a line for the terminal."""
    ratios = ", ".join(f"{name} {r['median']:.2f}" for name, r in row["ratio"].items())
    return f"{row['tokens']} tokens: LOO takes so many times as long as {ratios}"


def crossing(rows: list[dict[str, Any]], name: str) -> tuple[int | None, int | None]:
    """Between which two measured lengths a method becomes cheaper than LOO, by the range of all repeats.

    The first is the largest at which LOO was cheaper in every repeat, the second the smallest from which on
    the method was; None where there is none.

    >>> spread = {8: (0.4, 0.6), 16: (0.9, 1.2), 32: (1.8, 2.2)}
    >>> rows = [{"tokens": n, "ratio": {"K": {"low": a, "high": b}}} for n, (a, b) in spread.items()]
    >>> crossing(rows, "K")
    (8, 32)
    """
    ratios = [(row["tokens"], row["ratio"][name]) for row in rows]
    below = [tokens for tokens, ratio in ratios if ratio["high"] < 1]
    above = [tokens for tokens, _ in takewhile(lambda one: one[1]["low"] > 1, reversed(ratios))]
    return (below[-1] if below else None), (above[-1] if above else None)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lengths", description=__doc__)
    add = parser.add_argument
    add("--model", default="companion", help="an embedded model, a folder or a hub id")
    add("--threads", type=int, help="threads of PyTorch; its own choice by default")
    add("--lengths", type=int, nargs="+", default=LENGTHS, metavar="TOKENS")
    add("--texts", type=int, default=2, help="reviews for each length (default: 2)")
    add("--repeats", type=int, default=3, help="of each side on each review (default: 3)")
    add("--minimum", type=float, default=0.1, help="seconds that a measurement lasts at least")
    add("--out", type=Path, default=RECORD, help="the record (default: results/lengths.json)")
    given = parser.parse_args(arguments)
    transformers.utils.logging.set_verbosity_error()
    if given.threads:
        torch.set_num_threads(given.threads)
    clf = load_classifier(given.model)
    options = {name: getattr(given, name) for name in ("texts", "repeats", "minimum")}
    rows = measure(clf, lengths=tuple(given.lengths), **options)
    data = load_dataset("imdb", split="test", source="embedded").describe()
    config = {"model": clf.card.name, "weights": clf.card.fingerprint, "dtype": clf.card.dtype, "data": data}
    record = {"config": {**config, **options, "seed": 0}, **setting_of(clf), "rows": rows}
    pages.write(pages.plain(record), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
