"""The words of a whole run: mean scores with intervals over texts, each method beside LOO."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lrp_companion.checks import SITES, InputError, choose
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.record import Record
from lrp_companion.metrics import Interval, normalise
from lrp_companion.metrics.statistics import bootstrap_columns
from lrp_companion.schema import MAP_CHOICES
from lrp_companion.words import units_of

FEWEST = 5
"""Texts from which there is an interval: of two values a bootstrap gives these two."""


def word_table(
    run: Any,
    data: Any = None,
    model: Any = None,
    *,
    methods: Sequence[str] | None = None,
    target: int | str | None = None,
    site: str = "word",
    map: str = "absolute-sum",
    cased: bool = False,
    least: int = 2,
    by: str | None = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Mean score of every word over the texts of a run with `--keep-maps`, by LOO and by each method.

    A word's score in a text is the sum over its tokens (`Attribution.words`), for the class predicted there;
    special tokens are left out. Each map of words is divided by its sum of |score|, LOO's like a method's, so
    that no large logit outweighs others: "cp-lrp - loo" is how much more of its map CP-LRP gives a word than
    LOO does. Occurrences in one text are averaged first; means and 95 % bootstrap intervals are over texts.

    Parameters
    ----------
    run : what `open_record` or `load_run` returns, or the run's folder.
    data : the texts of the run, which keeps none: a `Dataset` or what `load_dataset` reads; None for "sst2"
        or "imdb" as the run had them.
    model : a `Classifier`, or what `load_classifier` reads; None for the run's, by its name.
    methods : some of the run's, which all stand beside LOO.
    target : only texts that are predicted as this class, by label or number; else all texts.
    site : where relevance is read, one of "word", "word+position", "embedding".
    map : "absolute-sum", or "sum-to-one" (divided by the sum with its sign), or "raw" (units of the logit).
        A text with a map that cannot be divided is left out.
    cased : keep words apart that differ in case alone.
    least : leave out words of fewer texts. Words of fewer than 5 have NaN in place of an interval.
    by : the column to sort by, largest first; by default the first method's difference from LOO.
    top : only the first so many words.

    Returns
    -------
    DataFrame
        DataFrame by word: `count` (occurrences), `texts`, and for LOO, each method and each difference the
        columns NAME, "NAME low" and "NAME high". `show.table` and `show.dots` take it.

    Raises
    ------
    InputError : a run without maps; other texts or another tokenizer than the run's; no such class, column.

    >>> from lrp_companion import show
    >>> words = word_table("runs/first", target="positive", top=20)     # doctest: +SKIP
    >>> show.dots(words[["attnlrp", "attnlrp low", "attnlrp high"]])  # doctest: +SKIP
    """
    choose("word_table", "map", map, MAP_CHOICES)
    choose("word_table", "site", site, SITES)
    rows, names = _words(_text_run(run), data, model, methods, target, site, map)
    rows["word"] = rows["word"] if cased else rows["word"].str.casefold()
    texts = rows.groupby(["word", "text"]).mean()
    texts = texts.assign(**{f"{name} - loo": texts[name] - texts["loo"] for name in names})
    counts = {"count": rows.groupby("word").size(), "texts": texts.groupby("word").size()}
    means = texts.groupby("word").mean()[counts["texts"] >= least]
    by = choose("word_table", "by", by or (f"{names[0]} - loo" if names else "loo"), tuple(means))
    words = means.sort_values(by, ascending=False, kind="stable").index[:top]
    each = {str(word): of for word, of in texts.groupby("word") if word in words}
    ends = [
        bootstrap_columns(of.T)
        if len(of := each[word].to_numpy()) >= FEWEST
        else [Interval(mean, np.nan, np.nan, len(of)) for mean in of.mean(0)]
        for word in words
    ]
    columns = {name: of[words].to_numpy() for name, of in counts.items()}
    for k, name in enumerate(means):
        for part, ending in (("mean", ""), ("low", " low"), ("high", " high")):
            columns[f"{name}{ending}"] = [getattr(of[k], part) for of in ends]
    table = pd.DataFrame(columns, index=words)
    table.attrs["quantity"] = f"mean score in a text, map {map}"
    return table


def _text_run(run: Any) -> TextRun:
    of = load_run(run) if isinstance(run, (str, os.PathLike)) else run
    several = [*of.parts] if isinstance(of, Record) else []
    if len(several) > 1:
        got, hint = f"a record of {len(several)} runs", f"name one: record.parts[{several[0]!r}]"
        raise InputError("word_table", got=got, expected="one run", hint=hint)
    one = of.parts[several[0]] if isinstance(of, Record) else of
    if not isinstance(one, TextRun):
        got, expected = f"a {type(one).__name__}", "a run of a classifier on texts"
        raise InputError("word_table", got=got, expected=expected, hint="make one: lrp-companion run sst2")
    return one


def _words(
    run: TextRun, data: Any, model: Any, methods: Any, target: Any, site: str, map: str
) -> tuple[pd.DataFrame, list[str]]:
    """A row for each word of each text, and the names of the methods."""
    names = [name for name in (run.methods if methods is None else methods) if name != "loo"]
    maps = {"loo": run.loo()} | {name: run.maps(name, site=site) for name in names}
    clf, inputs = _as_read(run, data, model)
    kept = [True] * run.n
    if target is not None:
        from lrp_companion.methods.common import targets_of

        kept = run.example_column("target") == targets_of(clf, target, 1)[0]
    rows: dict[str, list[Any]] = {name: [] for name in ("word", "text", *maps)}
    texts = clf.encode(inputs, truncate=True)
    for k, (text, special) in enumerate(zip(texts, run.specials(), strict=True)):
        if not np.array_equal(text.special, special):
            got = f"text {run.examples[k]} of {len(text)} tokens"
            expected = f"{len(special)}, as in {run.name}"
            hint = "name the run's own model, and its own texts in their order"
            raise InputError("word_table", got=got, expected=expected, hint=hint)
        known: dict[str, Any] = {"tokens": text.tokens, "text": text.joined, "offsets": text.offsets}
        units = units_of("word_table", "word", special=text.special, **known)
        words = ~units.special
        scores = {name: normalise(units.sums(of[k])[words], map) for name, of in maps.items()}
        if kept[k] and not any(np.isnan(one).any() for one in scores.values()):
            rows["word"] += [units.names[unit] for unit in np.flatnonzero(words)]
            rows["text"] += [int(run.examples[k])] * int(words.sum())
            for name, one in scores.items():
                rows[name] += one.tolist()
    return pd.DataFrame(rows), names


def _as_read(run: TextRun, data: Any, model: Any) -> tuple[Any, list[Any]]:
    """The classifier and its inputs; refused unless data and tokenizer are those of the run."""
    from lrp_companion.loading.classifier import Classifier, load_classifier
    from lrp_companion.sources import load_dataset
    from lrp_companion.sources.dataset import Dataset

    config = run.manifest["config"]
    if data is None and run.own:
        got, expected = f"no texts for {run.name}, a run on your own data", "these data again"
        raise InputError("word_table", got=got, expected=expected, hint="pass load_dataset(...) or a file")
    if data is None:
        data = load_dataset(config["task"], split=config["split"], source=config["source"])
    data = data if isinstance(data, Dataset) else load_dataset(data)
    clf = model if isinstance(model, Classifier) else load_classifier(run.model if model is None else model)
    data = data.for_classes(clf.labels) if run.own else data
    for name, now in (("data", data.fingerprint), ("tokenizer", clf.card.tokenizer)):
        known = config.get(name, now)  # the oldest runs do not name their tokenizer
        if known != now:
            got, expected = f"{name} with the fingerprint {now}", f"{known}, as {run.name} has"
            hint = "a run keeps no text: name the data and the model that it was made with"
            raise InputError("word_table", got=got, expected=expected, hint=hint)
    return clf, [data.inputs[row] for row in run.examples]
