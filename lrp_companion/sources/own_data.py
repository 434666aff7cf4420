"""The user's own data: CSV, TSV, JSON lines, parquet, a folder of these, or tables in memory. No torch."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.arrays import MOST, masked_entries, on_cpu
from lrp_companion.checks import InputError, SourceError, as_path, is_whole
from lrp_companion.sources.dataset import Dataset, reason, whole_number
from lrp_companion.sources.tsv import Unclear, parsed
from lrp_companion.terminal import MARKS, decoded_text

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
KINDS = "a .csv, .tsv, .jsonl or .parquet file, or a folder of these"
BLOCK = 1 << 26
"""Bytes parsed at once, and so the longest possible row."""
MOST_CLASSES = 1 << 31
"""A label from here on can be no class number."""


def read_file(path: Path) -> pa.Table:
    """The rows of one file, by its suffix; in CSV and TSV every value is a string.

    Raises
    ------
    SourceError : another suffix, or a file that cannot be read in the format of its suffix.
    """
    from pyarrow import csv, parquet

    suffix = path.suffix.lower()
    try:
        if suffix == ".tsv":
            return _tab_separated(path)
        if suffix == ".csv":
            parse, block = csv.ParseOptions(newlines_in_values=True), csv.ReadOptions(block_size=BLOCK)
            with csv.open_csv(_in_utf8(path), read_options=block, parse_options=parse) as reader:
                names = reader.schema.names
            kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            return csv.read_csv(
                _in_utf8(path), read_options=block, parse_options=parse, convert_options=kinds
            )
        if suffix in (".jsonl", ".ndjson"):
            return _json_lines(decoded_text(path.read_bytes()))
        if suffix == ".parquet":
            with parquet.ParquetFile(path) as file:
                return file.read()
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        got, hint = f"{path}, which cannot be read ({reason(error)})", "repair the file, or save it again"
        raise SourceError("load_dataset", got=got, expected=f"a {suffix} file", hint=hint) from None
    raise SourceError("load_dataset", got=str(path), expected=KINDS, hint="convert the file to one of these")


def _in_utf8(path: Path) -> Any:
    """A file for Arrow, which reads UTF-8 without a mark at its start; UTF-16 must have such a mark."""
    with open(path, "rb") as file:
        start = file.read(4)
    if not start.startswith(MARKS):
        return path
    return pa.BufferReader(decoded_text(path.read_bytes()).encode())


def _tab_separated(path: Path) -> pa.Table:
    rows = parsed(decoded_text(path.read_bytes()))
    if not rows:
        raise Unclear("it is empty")
    names, *cells = rows
    columns = zip(*cells, strict=True) if cells else [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


def _json_lines(content: str) -> pa.Table:
    """The rows of JSON lines with their values as they are; Arrow's reader makes dates of some strings, and
    floats of some whole numbers.
    """
    rows = list(_objects(content))
    if not rows:
        raise ValueError("it is empty")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table([_column([row.get(name) for row in rows]) for name in names], names=names)


def _objects(content: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_exact_float)
    space = re.compile(r"[ \t\r\n]*")
    place = space.match(content).end()  # type: ignore[union-attr]
    while place < len(content):
        row, place = decoder.raw_decode(content, place)
        if not isinstance(row, dict):
            raise ValueError(f"a {type(row).__name__} where a row begins, not an object")
        yield row
        place = space.match(content, place).end()  # type: ignore[union-attr]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)!r} twice in a row")
    return made


def _exact_float(text: str) -> float | str:
    """A number; as text where it is whole and a float would lose its last digits."""
    number = float(text)
    exact = abs(number) < MOST or math.isinf(number) or Decimal(text) == Decimal(number)
    return number if exact else text


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
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
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
        if not hasattr(data, "__len__"):
            got, expected = (
                f"streamed data ({type(data).__name__})",
                "a datasets.Dataset, whose rows are known",
            )
            hint = "pass datasets.Dataset.from_list(list(data.take(1000)))"
            raise InputError("load_dataset", got=got, expected=expected, hint=hint)
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
            names, columns = [str(key) for key in data], [_values(*item) for item in data.items()]
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


def _values(name: Any, values: Any) -> list[Any]:
    """One value per row, in the types of Python, of a list, an array or a tensor."""
    masked = masked_entries(values)
    if masked or getattr(values, "ndim", 1) != 1:
        kind = f"with masked entries ({masked})" if masked else f"of shape {tuple(values.shape)}"
        got, hint = (
            f"column {str(name)!r} {kind}",
            "give missing labels as None" if masked else "pass one column",
        )
        raise InputError("load_dataset", got=got, expected="one value per row", hint=hint)
    plain = on_cpu(values)
    given = plain.tolist() if hasattr(plain, "tolist") else list(plain)
    return [value.item() if getattr(value, "ndim", 1) == 0 else value for value in given]


def _column(values: Sequence[Any]) -> pa.Array:
    """A column in which values of mixed kinds become strings, because Arrow has none, and NaN is missing."""
    given = [None if _missing(value) else value for value in values]
    try:
        return pa.array(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in given])


def _with_names(table: pa.Table, column: str, names: Sequence[str]) -> pa.Table:
    """The table with a column of class numbers as names; -1 is unlabelled, as `datasets` has it."""
    numbers = table[column].to_pylist()
    named = [None if k is None or k < 0 else names[k] if k < len(names) else str(k) for k in numbers]
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
    if is_path:
        table, stem, part = read_path(as_path("load_dataset", "path", data), split)
    else:
        table, stem, part = read_object(data, split)
    _check_columns(where, table.column_names, {"text": text, "pair": pair, "label": label})
    if not len(table):
        got, hint = f"{where} without rows", "check the file"
        raise SourceError("load_dataset", got=got, expected="at least one row", hint=hint)
    texts = _texts(where, table, str(text))
    pairs = _texts(where, table, pair) if pair else ()
    labels, names = _labels(table[label].to_pylist()) if label else ([-1] * len(texts), ())
    return Dataset(
        name or stem or "texts",
        part,
        "file" if is_path else "memory",
        tuple(map(str, range(len(texts)))),
        np.array(labels),
        texts=texts,
        pairs=pairs,
        label_names=names,
    )


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


def _labels(values: Sequence[Any]) -> tuple[list[int], tuple[str, ...]]:
    """Labels as numbers, and their names if they have names; -1 where a row has no label.

    Whole numbers are names, too, where one of them can be no class number, such as -1.

    >>> _labels(["pos", "", "neg"]), _labels(["2", None, "0"]), _labels([1.0, float("nan")]), _labels([-1, 1])
    (([1, -1, 0], ('neg', 'pos')), ([2, -1, 0], ()), ([1, -1], ()), ([0, 1], ('-1', '1')))
    """
    given = [
        None if _missing(value) or (isinstance(value, str) and not value.strip()) else value
        for value in values
    ]
    numbers = [None if value is None else _as_number(value) for value in given]
    kinds: set[Any] = {number for number in numbers if number is not None}
    if numbers.count(None) > given.count(None):
        given = [None if value is None else str(value) for value in given]
        kinds = {value for value in given if value is not None}
    elif all(0 <= number < MOST_CLASSES for number in kinds):
        return [-1 if number is None else number for number in numbers], ()
    else:
        given = numbers
    ordered = sorted(kinds)
    places = {kind: place for place, kind in enumerate(ordered)}
    return [-1 if value is None else places[value] for value in given], tuple(map(str, ordered))


def _as_number(value: Any) -> int | None:
    """A label as a whole number; None if it is a name."""
    if isinstance(value, str):
        return whole_number(value)
    if is_whole(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or what pandas has in its place."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
