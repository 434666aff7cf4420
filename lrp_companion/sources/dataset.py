"""The record that every source gives, and how rows become a record. No torch."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.checks import InputError, choose, whole
from lrp_companion.schema import Texts

if TYPE_CHECKING:
    import pyarrow as pa

SPLITS = {
    "sst2": ("train", "validation"),
    "imdb": ("train", "test", "unsupervised"),
    "mnist": ("train", "test"),
}
OWN_SOURCES = ("file", "memory")
"""Sources of the user's own data."""
OWN_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
DEFAULT_SPLITS = {"sst2": "validation", "imdb": "test", "mnist": "test"}
SIDES = (14, 28)
"""Pixels along a side of MNIST images: as the paper's networks read them, and as they are."""
COLUMNS = {"sst2": ("sentence", "label"), "imdb": ("text", "label"), "mnist": ("image", "label")}


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
        seconds = self.pairs or items
        lengths = len(self.ids), len(items), len(self.labels), len(self.tags), len(seconds)
        if len(set(lengths)) != 1:
            got = f"ids, items, labels, tags, pairs of lengths {lengths}"
            raise InputError("Dataset", got=got, expected="equal lengths", hint="pass one of each per item")
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
        InputError
            When `limit` is not a whole number from 1 to `len(self)`, or `seed` is not one, at least 0.
        """
        self._check_seed(seed)
        return self if limit is None else self._rows(np.sort(self.order(limit, seed=seed)))

    def order(self, limit: int | None, *, seed: int = 0) -> list[int]:
        """Return the indices of the items that `take` takes, in the order in which it draws them.

        >>> columns = {"ids": ("a", "b", "c"), "labels": np.arange(3), "images": np.zeros((3, 14, 14))}
        >>> digits = Dataset("mnist", "test", "embedded", **columns)
        >>> digits.order(2, seed=1) == digits.order(None, seed=1)[:2]
        True
        """
        self._check_seed(seed)
        if limit is not None:
            items = f"{self.name}/{self.split} from {self.source} has {len(self)} items"
            hint = f"{items}; leave limit out to take all"
            limit = whole("load_dataset", "limit", limit, most=len(self), hint=hint)
        return np.random.default_rng(seed).permutation(len(self))[:limit].tolist()

    def _check_seed(self, seed: Any) -> None:
        whole("load_dataset", "seed", seed, least=0, hint="change seed or leave it out")

    def _rows(self, rows: np.ndarray) -> Dataset:
        def pick(items: tuple) -> tuple:
            return tuple(items[k] for k in rows) if items else ()

        images = None if self.images is None else self.images[rows]
        ids, texts, tags, pairs = pick(self.ids), pick(self.texts), pick(self.tags), pick(self.pairs)
        labels = self.labels[rows]
        return replace(self, ids=ids, labels=labels, texts=texts, images=images, tags=tags, pairs=pairs)


_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,39})(\.0*)?")
_LISTED = 10
"""Labels or classes that a message lists."""


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
    named = {k: next((places[key] for key in _keys(name) if key in places), []) for k, name in given.items()}
    if by_number and not all(named.values()):
        numbers = {k: int(whole_number(name) or 0) for k, name in given.items()}
        if all(named[k] in ([], [n]) and 0 <= n < len(classes) for k, n in numbers.items()):
            named = {k: [n] for k, n in numbers.items()}
    got, taken = "", dict[int, int]()
    for k, several in named.items():
        if len(several) != 1:
            got = f"label {given[k]!r} in {data}, which is {len(several) or 'none'} of the classes"
        elif taken.setdefault(several[0], k) != k:
            both = f"labels {given[taken[several[0]]]!r} and {given[k]!r}"
            got = f"{both} in {data}, which are both class {classes[several[0]]!r}"
    if got:
        expected = f"a class of the model: {_listing(classes)}; or a class number below {len(classes)}"
        hint = 'rename the labels in one of the two, or leave them out: label ""'
        raise InputError("Dataset.for_classes", got=got, expected=expected, hint=hint)
    return {k: place for k, (place,) in named.items()}


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _read_only(values: Any, dtype: Any) -> np.ndarray:
    array: np.ndarray = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def choose_split(name: str, split: str | None) -> tuple[str, str]:
    """Return the data set's name and its split; None gives the default split.

    Raises
    ------
    InputError : a data set that is not known, or a split that it does not have.
    """
    name = choose("load_dataset", "name", name, tuple(SPLITS))
    split = DEFAULT_SPLITS[name] if split is None else split
    return name, choose("load_dataset", f"{name} split", split, SPLITS[name])


def clean(text: str) -> str:
    """Return a review with IMDB's HTML line breaks replaced by a space.

    >>> clean("Slow.<br />Fine.")
    'Slow. Fine.'
    """
    return text.replace("<br />", " ")


def halve(images: np.ndarray) -> np.ndarray:
    """Return 28x28 images in 0..255 as 14x14 in [0, 1]: each pixel is the mean of a 2x2 block over 255.

    The four integers are summed first and divided once, so that the result is the same on every machine.

    >>> white = halve(np.full((1, 28, 28), 255))
    >>> white.shape, float(white.max())
    ((1, 14, 14), 1.0)
    """
    return images.reshape(len(images), 14, 2, 14, 2).sum(axis=(2, 4), dtype=np.int64) / (4 * 255)


def sized(images: np.ndarray, side: int) -> np.ndarray:
    """Return 28x28 images in 0..255 in [0, 1], at `side` 28 as they are or at 14 halved.

    >>> sized(np.full((1, 28, 28), 255), 28).shape
    (1, 28, 28)
    """
    return images / 255 if side == SIDES[1] else halve(images)


def from_table(table: pa.Table, *, name: str, split: str, source: str, side: int = 14) -> Dataset:
    """Return the rows of a parquet file or hub split as a `Dataset`."""
    items, labels = (table[column].to_pylist() for column in COLUMNS[name])
    ids = tuple(map(str, range(len(labels))))
    if name == "mnist":
        images = sized(np.stack([_pixels(item["bytes"]) for item in items]), side)
        return Dataset(name, split, source, ids, np.array(labels), images=images)
    texts = tuple(map(clean, items)) if name == "imdb" else tuple(items)
    return Dataset(name, split, source, ids, np.array(labels), texts=texts)


def _pixels(content: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content)).convert("L"))
