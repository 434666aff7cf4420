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

from lrp_companion.checks import InputError, SourceError, on_cpu
from lrp_companion.sources.dataset import Dataset, whole_number

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
TEXT_COLUMNS, LABEL_COLUMN = ("text", "sentence"), "label"
"""Columns that are read where none is named."""
MOST_CLASSES = 1 << 31
"""A label from here on can be no class number."""
Columns = Mapping[str, Any]
"""Lists, arrays, tensors or columns of Arrow by their names."""


def read_file(path: Path) -> Columns:
    """The columns of one file, by its suffix; what cannot be read, its reader refuses."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.ParquetFile(path).read()
        return _named(table.column_names, table.columns)
    with open(path, encoding="utf-8-sig", newline="") as file:
        if suffix in (".csv", ".tsv"):  # the reader of `datasets` would make one label of 01 and 1
            delimiter = "\t" if suffix == ".tsv" else ","
            names, *rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
            return _named(names, list(zip(*rows, strict=True)) if rows else [()] * len(names))
        content = file.read()
    each = [content] if suffix == ".json" and content.startswith("[") else content.split("\n")
    read = [json.loads(part) for part in each if part.strip()]
    objects: list[dict[str, Any]] = read[0] if read and isinstance(read[0], list) else read
    return {n: [row.get(n) for row in objects] for n in dict.fromkeys(n for row in objects for n in row)}


def _named(names: Sequence[str], columns: Sequence[Any]) -> Columns:
    named = dict(zip(names, columns, strict=True))
    if len(named) < len(names):
        raise ValueError(f"column {max(names, key=list(names).count)!r} more than once")
    return named


def read_path(path: Path, split: str | None) -> tuple[Columns, str, str]:
    """The columns of a file or of the files of one split in a folder, with the data's name and the split."""
    if not path.is_dir():
        return read_file(path), path.stem, ""
    by_split: dict[str, list[Path]] = {}
    for file in sorted(path.iterdir()):  # as the hub names them: train.csv, or train-00000-of-00002.parquet
        if file.suffix.lower() in SUFFIXES:
            by_split.setdefault(re.sub(r"-\d+-of-\d+$", "", file.stem), []).append(file)
    chosen = next(iter(by_split)) if split is None and len(by_split) == 1 else str(split)
    if chosen not in by_split:
        expected, hint = f"one of {', '.join(by_split) or 'none: no files'}", "split= or --split"
        raise InputError("load_dataset", got=f"split {split!r} of {path}", expected=expected, hint=hint)
    parts = [read_file(file) for file in by_split[chosen]]
    return {n: [v for part in parts for v in _values(part[n])] for n in parts[0]}, path.resolve().name, chosen


def read_object(data: Any) -> tuple[Columns, str, str]:
    """The columns of a `datasets.Dataset`, a pandas frame, or a dict, with the data's name and split."""
    if hasattr(data, "with_format"):  # datasets.Dataset
        table = data.with_format("arrow")[:]
        columns = {name: table[name] for name in table.column_names}
        for name, feature in data.features.items():
            if hasattr(feature, "int2str"):  # numbers of classes with names; -1 is unlabelled
                numbers = columns[name].to_pylist()
                columns[name] = [None if k is None or k < 0 else feature.int2str(k) for k in numbers]
        return columns, str(data.info.dataset_name or ""), str(data.split or "")
    names, given = zip(*data.items(), strict=True) if len(data) else ((), ())
    return _named([str(name) for name in names], given), "", ""


def _values(column: Any) -> list[Any]:
    """One value per row, of a list, an array, a tensor, a column of pandas or Arrow; None where missing."""
    plain = on_cpu(column)
    to_list = getattr(plain, "to_pylist", None) or getattr(plain, "tolist", None)
    found: list[Any] = [None if _missing(v) else v for v in (to_list() if to_list else plain)]
    return [v.item() if getattr(v, "ndim", 1) == 0 else v for v in found]


def _missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or what pandas and NumPy have in its place."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


def own_dataset(
    data: Any, *, split: str | None, text: str | None, pair: str | None, label: str | None, title: str | None
) -> Dataset:
    """The user's own data as a `Dataset`, under its name."""
    is_path = isinstance(data, (str, os.PathLike))
    where = os.fspath(data) if is_path else f"data of type {type(data).__name__}"
    columns, stem, part = read_path(Path(data).expanduser(), split) if is_path else read_object(data)
    if text is None:
        text = next((column for column in TEXT_COLUMNS if column in columns), None)
    if label is None:
        label = LABEL_COLUMN if LABEL_COLUMN in columns else ""
    wrong = [name for name in (text, pair or text, label or text) if name not in columns]
    if wrong or split not in (None, part):
        got = f"{where} and no {f'column {wrong[0]!r}' if wrong else f'split {split!r}'}"
        expected = f"one of the columns {', '.join(columns) or 'none'}, and a split if there are any"
        hint = "name it: text=, pair=, label= in Python, --text, --pair, --label in the command"
        raise InputError("load_dataset", got=got, expected=expected, hint=hint)
    texts = _texts(where, columns, str(text))
    pairs = _texts(where, columns, pair) if pair else ()
    labels, names = _labels(_values(columns[label])) if label else ([-1] * len(texts), ())
    source, ids = "file" if is_path else "memory", tuple(map(str, range(len(texts))))
    return Dataset(
        title or stem or "texts",
        part,
        source,
        ids,
        np.array(labels),
        texts=texts,
        pairs=pairs,
        label_names=names,
    )


def _texts(where: str, columns: Columns, column: str) -> tuple[str, ...]:
    """A column of texts; every row must have one."""
    values = _values(columns[column])
    empty = [k for k, value in enumerate(values) if not isinstance(value, str) or not value.strip()]
    if empty or not values:
        got = f"row {empty[0]} (from 0) of {where}, without a text" if empty else f"{where} without rows"
        hint = "correct the file, or leave that row out"
        raise SourceError("load_dataset", got=got, expected=f"a text in every row of {column!r}", hint=hint)
    return tuple(values)


def _labels(values: Sequence[Any]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as numbers, and their names if they have names; -1 where a row has no label.

    Whole numbers are names, too, where one of them can be no class number, such as -1, and where one of them
    is written in two ways, such as 1 and 1.0.

    >>> _labels(["pos", "", "neg"]), _labels(["2", None, "0"]), _labels([-1, 1]), _labels(["01", "1"])
    (([1, -1, 0], ('neg', 'pos')), ([2, -1, 0], ()), ([0, 1], ('-1', '1')), ([0, 1], ('01', '1')))
    """
    spelled = [None if value is None or not str(value).strip() else str(value) for value in values]
    numbers = {text: whole_number(text) for text in spelled if text is not None}
    known = {number for number in numbers.values() if number is not None}
    all_numbers = len(known) == len(numbers)
    if all_numbers and all(0 <= number < MOST_CLASSES for number in known):
        return [-1 if text is None else int(numbers[text] or 0) for text in spelled], ()
    names = sorted(numbers, key=lambda text: (numbers[text] or 0) if all_numbers else text)
    places = {text: place for place, text in enumerate(names)}
    shown = tuple(str(numbers[text]) if all_numbers else text for text in names)
    return [-1 if text is None else places[text] for text in spelled], shown
