"""The user's own data: CSV, TSV, JSON, parquet, a folder of these, or tables in memory. No torch.

No reader guesses what a cell is: in CSV and TSV every value is the text as it is written.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.arrays import on_cpu
from lrp_companion.checks import InputError, SourceError, as_path
from lrp_companion.sources.dataset import OWN_SUFFIXES, Dataset, reading, whole_number

KINDS = "a .csv, .tsv, .json, .jsonl or .parquet file, or a folder of these"
TEXT_COLUMNS, LABEL_COLUMN = ("text", "sentence"), "label"
"""Columns that are read where none is named."""
MOST_CLASSES = 1 << 31
"""A label from here on can be no class number."""
Columns = Mapping[str, Any]
"""Lists, arrays, tensors or columns of Arrow by their names."""


def read_file(path: Path) -> Columns:
    """The columns of one file, by its suffix."""
    suffix = path.suffix.lower()
    if suffix not in OWN_SUFFIXES:
        raise InputError(
            "load_dataset", got=str(path), expected=KINDS, hint="convert the file to one of these"
        )
    with reading(path, hint="repair the file, or save it again"):
        if suffix == ".csv":
            return _cells(path, delimiter=",")
        if suffix == ".tsv":
            return _tab_separated(path)
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.ParquetFile(path).read()
            return _named(table.column_names, table.columns)
        with open(path, encoding="utf-8-sig") as file:
            whole = suffix == ".json" and file.read(1) == "["
            file.seek(0)
            rows = json.load(file) if whole else [json.loads(line) for line in file if line.strip()]
        return {
            name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)
        }


def _cells(path: Path, **style: Any) -> Columns:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, strict=True, **style) if row]
    odd = next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if odd is not None:
        raise ValueError(f"row {odd} has {len(rows[odd])} cells, the names are {len(rows[0])}")
    return _named(rows[0], [[row[k] for row in rows[1:]] for k in range(len(rows[0]))]) if rows else {}


def _tab_separated(path: Path) -> Columns:
    """Quotes in a TSV file are text, or stand around cells; where both can be, nobody knows."""
    readings, faults = [], []
    for quoting in (csv.QUOTE_NONE, csv.QUOTE_MINIMAL):
        try:
            readings.append(_cells(path, delimiter="\t", quoting=quoting))
        except (csv.Error, ValueError) as error:
            faults.append(error)
    if not readings:
        raise faults[0]
    if readings[0] != readings[-1]:
        raise ValueError("its quotes may be text, or around cells: save it as .csv or .jsonl")
    return readings[0]


def _named(names: Sequence[str], columns: Sequence[Any]) -> Columns:
    if len(set(names)) < len(names):
        raise ValueError(f"column {max(names, key=list(names).count)!r} more than once")
    return dict(zip(names, columns, strict=True))


def read_path(path: Path, split: str | None) -> tuple[Columns, str, str]:
    """The columns of a file or a folder, with the name of the data and its split ("" if it has none)."""
    if path.is_file():
        _no_split(str(path), split)
        return read_file(path), path.stem, ""
    if not path.is_dir():
        got, hint = f"{path}, which does not exist", "check the path"
        raise SourceError("load_dataset", got=got, expected=KINDS, hint=hint)
    name = path.resolve().name
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        import datasets

        with reading(path, hint="save it again with save_to_disk"):
            saved = datasets.load_from_disk(str(path))
        columns, _, chosen = read_object(saved, split)
        return columns, name, chosen
    by_split: dict[str, list[Path]] = {}
    for file in sorted(path.iterdir()):  # as the hub names them: train.csv, or train-00000-of-00002.parquet
        if file.suffix.lower() in OWN_SUFFIXES:
            by_split.setdefault(re.sub(r"-\d+-of-\d+$", "", file.stem), []).append(file)
    chosen = _choose_split(str(path), split, tuple(by_split))
    parts = [read_file(file) for file in by_split[chosen]]
    if any(part.keys() != parts[0].keys() for part in parts):
        got, expected = f"files of {path} with different columns", "the same columns in each"
        raise SourceError("load_dataset", got=got, expected=expected, hint="read them one by one")
    return {n: [v for part in parts for v in _values(part[n])] for n in parts[0]}, name, chosen


def read_object(data: Any, split: str | None) -> tuple[Columns, str, str]:
    """The columns of a `datasets.Dataset` (or a dict of them by split), a pandas frame, or a dict."""
    if isinstance(data, Mapping) and data and all(hasattr(part, "with_format") for part in data.values()):
        chosen = _choose_split("data with splits", split, tuple(map(str, data)))
        return read_object(data[chosen], None)[0], "", chosen
    _no_split(f"data of type {type(data).__name__}", split)
    if hasattr(data, "with_format"):  # datasets.Dataset
        table = data.with_format("arrow")[:]
        columns = {name: table[name] for name in table.column_names}
        for name, feature in data.features.items():
            if hasattr(feature, "int2str"):  # numbers of classes with names; -1 is unlabelled
                numbers = columns[name].to_pylist()
                columns[name] = [None if k is None or k < 0 else feature.int2str(k) for k in numbers]
        return columns, str(data.info.dataset_name or ""), str(data.split or "")
    if not hasattr(data, "items"):
        got, hint = f"data of type {type(data).__name__}", "pass a path, or one of these"
        expected = "a path, a datasets.Dataset, a pandas frame, or a dict of columns"
        raise InputError("load_dataset", got=got, expected=expected, hint=hint)
    names, given = zip(*data.items(), strict=True) if len(data) else ((), ())
    return _named([str(name) for name in names], given), "", ""


def _values(column: Any) -> list[Any]:
    """One value per row, of a list, an array, a tensor, or a column of pandas or Arrow."""
    plain = on_cpu(column)
    to_list = getattr(plain, "to_pylist", None) or getattr(plain, "tolist", None)
    given = to_list() if to_list else plain
    return [v.item() if getattr(v, "ndim", 1) == 0 and not _missing(v) else v for v in given]


def _choose_split(where: str, split: str | None, offered: tuple[str, ...]) -> str:
    if split is None and len(offered) == 1:
        return offered[0]
    if split in offered:
        return str(split)
    got = f"{where} with splits and none named" if split is None else f"split {split!r} of {where}"
    expected = f"one of {', '.join(offered)}" if offered else KINDS
    hint = "name one: split= in Python, --split on the command line"
    raise InputError(
        "load_dataset", got=got if offered else f"{where} without files", expected=expected, hint=hint
    )


def _no_split(where: str, split: str | None) -> None:
    if split is not None:
        got, expected = f"split {split!r} of {where}", "no split: it has none"
        raise InputError("load_dataset", got=got, expected=expected, hint="leave it out")


def own_dataset(
    data: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    split: str | None = None,
    name: str | None = None,
) -> Dataset:
    """The user's own data as a `Dataset`, under its name.

    Raises
    ------
    InputError : no column for the texts, or one that does not exist.
    SourceError : nothing to read, or a row without text.

    >>> columns = {"review": ["Fine.", "Dull.", "Fair."], "stars": [2, 0, 1]}
    >>> print(own_dataset(columns, text="review", label="stars", name="mine").describe())
    mine from memory: 3 texts, fingerprint be62f5dd4fe7
    """
    is_path = isinstance(data, (str, os.PathLike))
    where = os.fspath(data) if is_path else f"data of type {type(data).__name__}"
    read = read_path(as_path("load_dataset", "path", data), split) if is_path else read_object(data, split)
    columns, stem, part = read
    if text is None:
        text = next((column for column in TEXT_COLUMNS if column in columns), None)
    if label is None:
        label = LABEL_COLUMN if LABEL_COLUMN in columns else ""
    for role, column in {"text": text, "pair": pair or text, "label": label or text}.items():
        if column not in columns:
            got = f"{where} and no column {column!r}" if column else f"{where} and no column for the texts"
            expected = f"a column of {', '.join(columns) or 'none'}"
            hint = f"name it: {role}= in Python, --{role} in the command"
            raise InputError("load_dataset", got=got, expected=expected, hint=hint)
    texts = _texts(where, columns, str(text))
    pairs = _texts(where, columns, pair) if pair else ()
    labels, names = _labels(_values(columns[label])) if label else ([-1] * len(texts), ())
    source, ids = "file" if is_path else "memory", tuple(map(str, range(len(texts))))
    title = name or stem or "texts"
    return Dataset(title, part, source, ids, np.array(labels), texts=texts, pairs=pairs, label_names=names)


def _texts(where: str, columns: Columns, column: str) -> tuple[str, ...]:
    """A column of texts; every row must have one."""
    with reading(f"column {column!r} of {where}", hint="convert it to UTF-8"):
        values = _values(columns[column])
    for k, value in enumerate(values):
        if not isinstance(value, str) or not value.strip():
            kind = "empty" if isinstance(value, str) or value is None else f"a {type(value).__name__}"
            got, hint = f"row {k} (from 0) of {where}, where {column!r} is {kind}", "leave that row out"
            raise SourceError("load_dataset", got=got, expected="a text in every row", hint=hint)
    if not values:
        got, hint = f"{where} without rows", "check the file"
        raise SourceError("load_dataset", got=got, expected="at least one row", hint=hint)
    return tuple(values)


def _labels(values: Sequence[Any]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as numbers, and their names if they have names; -1 where a row has no label.

    Whole numbers are names, too, where one of them can be no class number, such as -1, and where one of them
    is written in two ways, such as 1 and 1.0.

    >>> _labels(["pos", "", "neg"]), _labels(["2", None, "0"]), _labels([1.0, float("nan")]), _labels([-1, 1])
    (([1, -1, 0], ('neg', 'pos')), ([2, -1, 0], ()), ([1, -1], ()), ([0, 1], ('-1', '1')))
    >>> _labels(["01", "1"])
    ([0, 1], ('01', '1'))
    """
    spelled = [None if _missing(value) or not str(value).strip() else str(value) for value in values]
    numbers = {text: whole_number(text) for text in spelled if text is not None}
    known = {text: number for text, number in numbers.items() if number is not None}
    if len(set(known.values())) < len(numbers):
        places = {text: place for place, text in enumerate(sorted(numbers))}
        return [-1 if text is None else places[text] for text in spelled], tuple(places)
    if all(0 <= number < MOST_CLASSES for number in known.values()):
        return [-1 if text is None else known[text] for text in spelled], ()
    places = {text: place for place, text in enumerate(sorted(known, key=lambda text: known[text]))}
    return [-1 if text is None else places[text] for text in spelled], tuple(str(known[t]) for t in places)


def _missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or what pandas and NumPy have in its place."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
