"""The user's own data: CSV, TSV, JSON lines, parquet, a folder of these, or tables in memory. No torch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.paths import as_path
from lrp_companion.schema import InputError, SourceError, is_whole
from lrp_companion.sources.dataset import Dataset, reason

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
KINDS = "a .csv, .tsv, .jsonl or .parquet file, or a folder of these"
BLOCK = 1 << 26
"""Bytes parsed at once, and so the longest possible row."""
_WHOLE = re.compile(r"[+-]?\d{1,18}")


def read_file(path: Path) -> pa.Table:
    """The rows of one file, by its suffix; in CSV and TSV every value is a string.

    Raises
    ------
    SourceError : another suffix, or a file that cannot be read in the format of its suffix.
    """
    from pyarrow import csv, json, parquet

    try:
        if path.suffix in (".csv", ".tsv"):
            parse = csv.ParseOptions(
                delimiter="\t" if path.suffix == ".tsv" else ",", newlines_in_values=True
            )
            block = csv.ReadOptions(block_size=BLOCK)
            with csv.open_csv(path, read_options=block, parse_options=parse) as reader:
                names = reader.schema.names
            kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            return csv.read_csv(path, read_options=block, parse_options=parse, convert_options=kinds)
        if path.suffix == ".jsonl":
            return json.read_json(path, read_options=json.ReadOptions(block_size=BLOCK))
        if path.suffix == ".parquet":
            with parquet.ParquetFile(path) as file:
                return file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        got, hint = f"{path}, which cannot be read ({reason(error)})", "repair the file, or save it again"
        raise SourceError("load_dataset", got=got, expected=f"a {path.suffix} file", hint=hint) from None
    raise SourceError("load_dataset", got=str(path), expected=KINDS, hint="convert the file to one of these")


def read_path(path: Path, split: str | None) -> tuple[pa.Table, str, str]:
    """The rows of a file or a folder, with the name of the data and its split ("" if it has none).

    Raises
    ------
    SourceError : no such path, no readable file, or files with different columns.
    InputError : a split that does not exist, or none if a folder has several.
    """
    if path.is_file():
        if split is not None:
            _no_split(str(path), split)
        return read_file(path), path.stem, ""
    if not path.is_dir():
        got, hint = f"{path}, which does not exist", "check the path"
        raise SourceError("load_dataset", got=got, expected=KINDS, hint=hint)
    name = path.resolve().name
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return _saved(path, name, split)
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        got = f"folder {path}, without such files"
        raise SourceError("load_dataset", got=got, expected=KINDS, hint="check the path")
    by_split: dict[str, list[Path]] = {}
    for file in files:  # as the hub names them: train.csv, or train-00000-of-00002.parquet
        by_split.setdefault(re.sub(r"-\d+-of-\d+$", "", file.stem), []).append(file)
    chosen = _choose_split(str(path), split, tuple(by_split))
    try:
        return pa.concat_tables([read_file(file) for file in by_split[chosen]]), name, chosen
    except pa.ArrowInvalid as error:
        got = f"files of {path} that do not fit together ({reason(error)})"
        expected, hint = "the same columns in each", "read them one by one"
        raise SourceError("load_dataset", got=got, expected=expected, hint=hint) from None


def _saved(path: Path, name: str, split: str | None) -> tuple[pa.Table, str, str]:
    """What `datasets` has saved with `save_to_disk`."""
    import datasets

    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # of datasets, fsspec or pyarrow, with no common base
        got = f"folder {path}, which datasets cannot read ({reason(error)})"
        hint = "save it again with save_to_disk"
        raise SourceError("load_dataset", got=got, expected="a saved data set", hint=hint) from None
    table, _, chosen = read_object(saved, split)
    return table, name, chosen


def read_object(data: Any, split: str | None) -> tuple[pa.Table, str, str]:
    """The rows of a `datasets.Dataset` (or a dict of them by split), a pandas frame, or a dict of columns.

    Raises
    ------
    InputError : another object, columns of unequal lengths, or a split that does not exist.
    """
    if isinstance(data, Mapping) and data and all(hasattr(part, "with_format") for part in data.values()):
        chosen = _choose_split("data with splits", split, tuple(map(str, data)))
        return read_object(data[chosen], None)[0], "", chosen
    if split is not None:
        _no_split(f"data of type {type(data).__name__}", split)
    if hasattr(data, "with_format") and hasattr(data, "features"):  # datasets.Dataset
        table = data.with_format("arrow")[:]
        for column, feature in data.features.items():
            if hasattr(feature, "int2str"):
                table = _with_names(table, column, feature.names)
        name = str(getattr(getattr(data, "info", None), "dataset_name", None) or "")
        return table, name, str(getattr(data, "split", None) or "")
    try:
        if hasattr(data, "columns") and hasattr(data, "to_dict"):  # pandas, which need not be installed
            names = [str(column) for column in data.columns]
            columns: Any = [data.iloc[:, k].tolist() for k in range(len(names))]
        elif isinstance(data, Mapping):
            names, columns = [str(key) for key in data], [list(values) for values in data.values()]
        else:
            got, hint = f"data of type {type(data).__name__}", "pass a path, or one of these"
            expected = "a path, a datasets.Dataset, a pandas frame, or a dict of columns"
            raise InputError("load_dataset", got=got, expected=expected, hint=hint)
        return pa.table([_column(values) for values in columns], names=names), "", ""
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        got, hint = f"columns that are not a table ({reason(error)})", "give each as many values"
        raise InputError("load_dataset", got=got, expected="columns of one length", hint=hint) from None


def _column(values: Sequence[Any]) -> pa.Array:
    """A column in which values of mixed kinds become strings, because Arrow has none, and NaN is missing."""
    given = [None if _missing(value) else value for value in values]
    try:
        return pa.array(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in given])


def _with_names(table: pa.Table, column: str, names: Sequence[str]) -> pa.Table:
    """The table with a column of class numbers as names; -1 is unlabelled."""
    numbers = table[column].to_pylist()
    named = [None if k is None or k < 0 else names[k] for k in numbers]
    return table.set_column(table.column_names.index(column), column, pa.array(named, pa.string()))


def _choose_split(where: str, split: str | None, offered: tuple[str, ...]) -> str:
    if split is None and len(offered) == 1:
        return offered[0]
    if split in offered:
        return str(split)
    got = f"{where} with splits and none named" if split is None else f"split {split!r} of {where}"
    hint = "name one: split= in Python, --split on the command line"
    raise InputError("load_dataset", got=got, expected=f"one of {', '.join(offered)}", hint=hint)


def _no_split(where: str, split: str) -> None:
    got, expected = f"split {split!r} of {where}", "no split: it has none"
    raise InputError("load_dataset", got=got, expected=expected, hint="leave it out")


def own_dataset(
    data: Any,
    *,
    text: str | None,
    pair: str | None = None,
    label: str | None = None,
    split: str | None = None,
    name: str | None = None,
) -> Dataset:
    """The user's own data as a `Dataset`, under its name.

    Raises
    ------
    InputError : no `text`, or a column that does not exist.
    SourceError : nothing to read, or a row without text.

    >>> columns = {"review": ["Fine.", "Dull.", "Fair."], "stars": [2, 0, 1]}
    >>> print(own_dataset(columns, text="review", label="stars", name="mine").describe())
    mine from memory: 3 texts, fingerprint be62f5dd4fe7
    """
    is_path = isinstance(data, (str, os.PathLike))
    where = os.fspath(data) if is_path else f"data of type {type(data).__name__}"
    table, stem, part = (
        read_path(as_path("load_dataset", "name", data), split) if is_path else read_object(data, split)
    )
    _check_columns(where, table.column_names, {"text": text, "pair": pair, "label": label})
    if not len(table):
        got, hint = f"{where} without rows", "check the file"
        raise SourceError("load_dataset", got=got, expected="at least one row", hint=hint)
    texts = _texts(where, table, str(text))
    pairs = _texts(where, table, pair) if pair else ()
    labels, names = _labels(where, table[label].to_pylist()) if label else ([-1] * len(texts), ())
    return Dataset(
        name or stem or "texts", part, "file" if is_path else "memory", tuple(map(str, range(len(texts)))),
        np.array(labels), texts=texts, pairs=pairs, label_names=names,
    )  # fmt: skip


def _check_columns(where: str, columns: list[str], asked: Mapping[str, str | None]) -> None:
    """Refuse columns that are missing or that occur more than once."""
    listed = f"a column of {', '.join(columns) or 'none'}"
    if asked["text"] is None:
        got, hint = f"{where} and no column for the texts", "name it: text= in Python, --text in the command"
        raise InputError("load_dataset", got=got, expected=listed, hint=hint)
    for role, column in asked.items():
        if column is not None and columns.count(column) != 1:
            got = f"column {column!r} as {role} of {where}"
            got += ", which is there more than once" if column in columns else ""
            raise InputError("load_dataset", got=got, expected=listed, hint="check the name")


def _texts(where: str, table: pa.Table, column: str) -> tuple[str, ...]:
    """A column of texts; every row must have one."""
    try:
        values = table[column].to_pylist()
    except UnicodeDecodeError:
        got, hint = f"column {column!r} of {where} that is not UTF-8", "convert it"
        raise SourceError("load_dataset", got=got, expected="text in UTF-8", hint=hint) from None
    for k, value in enumerate(values):
        if not isinstance(value, str) or not value.strip():
            kind = "empty" if isinstance(value, str) or value is None else f"a {type(value).__name__}"
            got, hint = f"row {k} (from 0) of {where}, where {column!r} is {kind}", "leave that row out"
            raise SourceError("load_dataset", got=got, expected="a text in every row", hint=hint)
    return tuple(values)


def _labels(where: str, values: Sequence[Any]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as numbers, and their names if they have names; -1 where a row has no label.

    >>> _labels("x", ["pos", "", "neg"]), _labels("x", ["2", None, "0"]), _labels("x", [1.0, float("nan")])
    (([1, -1, 0], ('neg', 'pos')), ([2, -1, 0], ()), ([1, -1], ()))
    """
    given = [None if _missing(value) or value == "" else value for value in values]
    numbers = [_as_number(value) for value in given]
    if all(number is not None for number in numbers):
        wrong = [number for number in numbers if number is not None and number < -1]
        if wrong:
            got, hint = f"label {wrong[0]} in {where}", "-1 or nothing is unlabelled"
            expected = "class numbers from 0, or names"
            raise SourceError("load_dataset", got=got, expected=expected, hint=hint)
        return [int(number or 0) for number in numbers], ()
    names = tuple(sorted({str(value) for value in given if value is not None}))
    return [-1 if value is None else names.index(str(value)) for value in given], names


def _as_number(value: Any) -> int | None:
    """A label as a whole number, -1 where there is none; None if it is a name."""
    if value is None:
        return -1
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value.strip()) else None
    if is_whole(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or what pandas has in its place."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
