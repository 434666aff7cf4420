"""The record that every source gives. No torch."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, shown, whole
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
