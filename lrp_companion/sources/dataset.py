"""The record that every source gives, and the user's own data as one: CSV, TSV, JSON, parquet, a folder of
these, or tables in memory. No torch. No reader guesses what a cell is: in CSV and TSV each is its text.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, SourceError, on_cpu, shown, whole
from lrp_companion.schema import Texts


@dataclass(frozen=True)
class Dataset:
    """Labelled texts or images, with where they came from.

    Attributes
    ----------
    name, split, source : such as "sst2", "validation", "embedded".
    ids : one short name per item, stable under `take` (for parquet files the row number).
    labels : int64, shape (n,), -1 where there is none; for reviews 1 = positive, 0 = negative; for MNIST the
        digit.
    texts : the reviews, a tuple whose slices are several texts, too, and never a pair; empty for images.
    images : float64, shape (n, 14, 14), or (n, 28, 28) where asked for, in [0, 1], read-only; None for texts.
    tags : what each item tests, such as ("negation",); an empty tuple where nothing is known.
    note : what the reader should know about this source, in a few words.
    pairs : the second text of each item, if a classifier reads two; else empty.
    label_names : names of the labels, if they have names; `labels` are indices into it.
    numbers : labels without names in the whole data, which a sample keeps; by default those of `labels`.
    fingerprint : 12 hexadecimal digits of the SHA-256 over texts or pixels and labels, in order.

    >>> columns = {"ids": ("a", "b"), "labels": np.array([1, 0]), "texts": ("Good.", "Bad.")}
    >>> reviews = Dataset("sst2", "validation", "embedded", **columns)
    >>> print(reviews.describe())
    sst2/validation from embedded: 2 texts, fingerprint 29559850059c
    """

    name: str
    split: str
    source: str
    ids: tuple[str, ...]
    labels: np.ndarray
    texts: tuple[str, ...] = ()
    images: np.ndarray | None = None
    tags: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    pairs: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = field(default=(), repr=False)
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "ids", tuple(self.ids))
        put(self, "texts", Texts(self.texts))
        put(self, "pairs", Texts(self.pairs))
        put(self, "tags", tuple(tuple(t) for t in self.tags) or ((),) * len(self.ids))
        put(self, "labels", _read_only(self.labels, np.int64))
        if not self.label_names:
            present = np.unique(self.labels[self.labels >= 0]).tolist()
            put(self, "numbers", tuple(sorted({*self.numbers, *present})))
        if self.images is not None:
            put(self, "images", _read_only(self.images, np.float64))
        items = self.texts if self.images is None else self.images
        lengths = {len(one) for one in (self.ids, items, self.labels, self.tags, self.pairs or items)}
        if len(lengths) != 1:
            raise ValueError(f"ids, items, labels, tags and pairs of different lengths: {sorted(lengths)}")
        put(self, "fingerprint", self._fingerprint())

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        if self.images is None:
            for raw in map(str.encode, (*self.texts, *self.pairs)):
                # The length keeps ("a", "bc") apart from ("ab", "c").
                digest.update(len(raw).to_bytes(8, "little") + raw)
        else:
            digest.update(self.images.astype("<f8").tobytes())
        digest.update(self.labels.astype("<i8").tobytes())
        if self.pairs or self.label_names:
            digest.update(repr((len(self.pairs), self.label_names)).encode())
        return digest.hexdigest()[:12]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Dataset({self.describe()!r})"

    def describe(self) -> str:
        """Return one line with the name, the source, the number of items and the fingerprint."""
        kind = "image" if self.images is not None else "pair" if self.pairs else "text"
        note = f" ({self.note})" if self.note else ""
        count = f"{len(self):,} {kind}{'' if len(self) == 1 else 's'}"
        title = f"{self.name}/{self.split}" if self.split else self.name
        return f"{title} from {self.source}: {count}{note}, fingerprint {self.fingerprint}"

    @property
    def inputs(self) -> list[str | tuple[str, str]]:
        """The classifier's inputs: texts, or pairs of texts."""
        return list(zip(self.texts, self.pairs, strict=True)) if self.pairs else list(self.texts)

    def for_classes(self, classes: Sequence[str]) -> Dataset:
        """The same items with labels as numbers of a classifier's classes.

        Names are matched exactly, or else without case. Numbers are names of classes where all of them are
        (ratings 1 to 5 of classes called so), else class numbers. A sample's numbers are what they are in the
        whole data.

        Raises
        ------
        InputError : a label that is not one of the classes, or that may be several of them; two labels that
            are one class.

        >>> columns = {"ids": ("a", "b"), "labels": np.array([1, 0]), "texts": ("Good.", "Bad.")}
        >>> data = Dataset("mine", "", "file", **columns, label_names=("neg", "pos"))
        >>> data.for_classes(("POS", "NEG")).labels.tolist()
        [0, 1]
        """
        present = [k for k in np.unique(self.labels).tolist() if k >= 0]
        named = dict(enumerate(self.label_names)) or {k: str(k) for k in self.numbers}
        by_number = all(whole_number(name) is not None for name in named.values())
        given = named if by_number else {k: named[k] for k in present}
        numbered = _classes_of(self.name, given, classes, by_number=by_number)
        labels = [-1 if k < 0 else numbered[k] for k in self.labels.tolist()]
        return replace(self, labels=np.array(labels, dtype=np.int64), label_names=tuple(classes), numbers=())

    def take(self, limit: int | None, *, seed: int = 0) -> Dataset:
        """Return a seeded random sample of `limit` items, in their original order; None takes all.

        It is drawn without replacement. With the same seed a smaller sample is part of a larger one.

        Raises
        ------
        InputError : a `limit` that is not a whole number from 1 to `len(self)`.
        """
        if limit is None:
            return self
        rows = sorted(self.order(limit, seed=seed))
        images = None if self.images is None else self.images[rows]

        def pick(items: tuple) -> tuple:
            return tuple(items[k] for k in rows) if items else ()

        ids, texts, tags, pairs = map(pick, (self.ids, self.texts, self.tags, self.pairs))
        labels = self.labels[rows]
        return replace(self, ids=ids, labels=labels, texts=texts, images=images, tags=tags, pairs=pairs)

    def order(self, limit: int | None, *, seed: int = 0) -> list[int]:
        """Return the indices of the items that `take` takes, in the order in which it draws them.

        >>> columns = {"ids": ("a", "b", "c"), "labels": np.arange(3), "images": np.zeros((3, 14, 14))}
        >>> digits = Dataset("mnist", "test", "embedded", **columns)
        >>> digits.order(2, seed=1) == digits.order(None, seed=1)[:2]
        True
        """
        if limit is not None:
            hint = f"{self.name}/{self.split} from {self.source} has {len(self)} items; leave it out for all"
            limit = whole("load_dataset", "limit", limit, most=len(self), hint=hint)
        return np.random.default_rng(operator.index(seed)).permutation(len(self))[:limit].tolist()


_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,39})(\.0*)?")


def whole_number(text: str) -> int | None:
    """The whole number that a text spells, None if it spells none; 01 is no number but a name.

    >>> whole_number(" -1"), whole_number("2.0"), whole_number("2.5"), whole_number("01")
    (-1, 2, None, None)
    """
    text = text.strip()
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def _keys(name: str) -> list[tuple[str, Any]]:
    """Under what a class is found, the best first."""
    number = whole_number(name)
    return [("exact", name), ("folded", name.casefold()), *([] if number is None else [("number", number)])]


def _classes_of(
    data: str, given: Mapping[int, str], classes: Sequence[str], *, by_number: bool
) -> dict[int, int]:
    """The class of each label, see `Dataset.for_classes`; `by_number` says that all labels of the data are
    numbers, and then `given` are all of them.
    """
    places: dict[Any, list[int]] = {}
    for k, name in enumerate(classes):
        for key in _keys(name):
            places.setdefault(key, []).append(k)
    found = {k: next((places[key] for key in _keys(name) if key in places), []) for k, name in given.items()}
    if by_number and not all(found.values()):
        numbers = {k: [int(whole_number(name) or 0)] for k, name in given.items()}
        if all(found[k] in ([], n) and 0 <= n[0] < len(classes) for k, n in numbers.items()):
            found = numbers
    taken: dict[int, list[str]] = {}
    for k, several in found.items():
        taken.setdefault(several[0] if len(several) == 1 else -1, []).append(given[k])
    wrong = taken.pop(-1, []) or [name for names in taken.values() if len(names) > 1 for name in names]
    if wrong:
        got = f"labels {shown(wrong)} in {data}, which are no class, or several, or one class together"
        expected = f"a class of the model: {shown(list(classes), 160)}; or a number below {len(classes)}"
        hint = 'rename the labels in one of the two, or leave them out: label ""'
        raise InputError("Dataset.for_classes", got=got, expected=expected, hint=hint)
    return {k: place for k, (place,) in found.items()}


def _read_only(values: Any, dtype: Any) -> np.ndarray:
    array: np.ndarray = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


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
