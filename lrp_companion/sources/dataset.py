"""The record that every source gives, and how rows become a record. No torch."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.checks import InputError, SourceError, choose, is_whole, shown, whole
from lrp_companion.schema import Texts
from lrp_companion.sources.image_file import ManyPixels, Unreadable, decoded

if TYPE_CHECKING:
    import pyarrow as pa

SPLITS = {
    "sst2": ("train", "validation"),
    "imdb": ("train", "test", "unsupervised"),
    "mnist": ("train", "test"),
}
OWN_SOURCES = ("file", "memory")
"""Sources of the user's own data."""
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
    ids : one short name per item, stable under `take` and `where` (for parquet files the row number).
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
    >>> print(reviews.where(label=1).describe())
    sst2/validation from embedded: 1 text, fingerprint 04e974b5e755
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
        (ratings 1 to 5 of classes called so), else class numbers. Where the data have -1 and 1, these and
        0 are the classes called negative (or neg), positive (or pos) and neutral, and no class numbers. A
        sample's numbers are what they are in the whole data.

        Raises
        ------
        InputError : a label that is not one of the classes, or that may be several of them.

        >>> columns = {"ids": ("a", "b"), "labels": np.array([1, 0]), "texts": ("Good.", "Bad.")}
        >>> data = Dataset("mine", "", "file", **columns, label_names=("neg", "pos"))
        >>> data.for_classes(("POS", "NEG")).labels.tolist()
        [0, 1]
        """
        present = [k for k in np.unique(self.labels).tolist() if k >= 0]
        named = dict(enumerate(self.label_names)) or {k: str(k) for k in self.numbers}
        by_number = all(whole_number(name) is not None for name in named.values())
        given = named if by_number else {k: named[k] for k in present}
        places = _places(self.name, list(given.values()), classes, by_number=by_number)
        numbered = dict(zip(given, places, strict=True))
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

    def longest(self, count: int) -> Dataset:
        """Return the items with the longest texts, at most `count`, in their original order.

        >>> columns = {"ids": ("a", "b"), "labels": np.array([1, 0]), "texts": ("Good film.", "Bad.")}
        >>> Dataset("mine", "", "file", **columns).longest(1).texts
        ('Good film.',)
        """
        count = whole("Dataset.longest", "count", count, hint="try 8")
        lengths = [len("".join(item)) for item in self.inputs]
        order = sorted(range(len(lengths)), key=lambda k: (-lengths[k], k))
        return self._rows(np.array(sorted(order[:count])))

    def _check_seed(self, seed: Any) -> None:
        whole("load_dataset", "seed", seed, least=0, hint="change seed or leave it out")

    def where(self, *, tag: str | None = None, label: int | None = None) -> Dataset:
        """Return the items with this tag and this label; either may be left open.

        Raises
        ------
        InputError
            When no item has them.
        """
        possible = (tag is None or isinstance(tag, str)) and (label is None or is_whole(label))
        rows = [
            k
            for k in range(len(self) if possible else 0)
            if (tag is None or tag in self.tags[k]) and (label is None or label == self.labels[k])
        ]
        if not rows:
            known = ", ".join(sorted({t for tags in self.tags for t in tags})) or "none"
            expected = f"tags: {known}; labels: {', '.join(map(str, np.unique(self.labels)))}"
            got = f"tag {shown(tag)}, label {shown(label)}, which no item has"
            raise InputError("Dataset.where", got=got, expected=expected, hint="choose from these")
        return self._rows(np.asarray(rows))

    def _rows(self, rows: np.ndarray) -> Dataset:
        def pick(items: tuple) -> tuple:
            return tuple(items[k] for k in rows) if items else ()

        images = None if self.images is None else self.images[rows]
        ids, texts, tags, pairs = pick(self.ids), pick(self.texts), pick(self.tags), pick(self.pairs)
        labels = self.labels[rows]
        return replace(self, ids=ids, labels=labels, texts=texts, images=images, tags=tags, pairs=pairs)


_WHOLE = re.compile(r"[+-]?\d{1,40}(\.0*)?")
_POLES = {-1: ("negative", "neg"), 0: ("neutral",), 1: ("positive", "pos")}
_LISTED = 10
"""Labels or classes that a message lists."""


def whole_number(text: str) -> int | None:
    """The whole number that a text spells, None if it spells none.

    >>> whole_number(" -1"), whole_number("2.0"), whole_number("2.5")
    (-1, 2, None)
    """
    text = text.strip()
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def _places(data: str, given: Sequence[str], classes: Sequence[str], *, by_number: bool) -> list[int]:
    """The class of each label, see `Dataset.for_classes`; `by_number` says that all labels of the data are
    numbers, and then `given` are all of them.
    """
    spelled = {whole_number(name) for name in given} - {None}
    signed = any(number is not None and number < 0 for number in spelled)
    exact, folded = _by_name(classes), _by_name(map(str.casefold, classes))
    numbered: dict[int | None, list[int]] = {}
    for k, name in enumerate(classes):
        numbered.setdefault(whole_number(name), []).append(k)
    numbers = [whole_number(name) for name in given]
    classes_named = [
        exact.get(name)
        or folded.get(name.casefold())
        or (numbered.get(number, []) if number is not None else [])
        for name, number in zip(given, numbers, strict=True)
    ]
    several = [k for k, places in enumerate(classes_named) if len(places) > 1]
    if several:
        candidates = ", ".join(f"{k} ({classes[k]!r})" for k in classes_named[several[0]][:_LISTED])
        got = f"label {given[several[0]]!r} in {data}, which may be class {candidates}"
        raise _no_class(got, classes)
    if all(classes_named):
        return [places[0] for places in classes_named]
    whole = [number for number in numbers if number is not None]
    in_range = [0 <= k < len(classes) for k in whole]
    if by_number and not signed and all(in_range):
        if all(places in ([], [k]) for k, places in zip(whole, classes_named, strict=True)):
            return whole
    elif by_number and {-1, 1} <= spelled and not any(classes_named):
        poles = [[k for name in _POLES.get(number, ()) for k in folded.get(name, [])] for number in whole]
        if all(len(places) == 1 for places in poles):
            return [places[0] for places in poles]
    unknown = [k for k, places in enumerate(classes_named) if not places]
    strange = given[next((k for k in unknown if by_number and not in_range[k]), unknown[0])]
    listed = f" (all labels: {_listing(given)})" if len(given) > 1 else ""
    empty = "; a row without a label has an empty cell" if signed else ""
    raise _no_class(f"label {strange!r} in {data}{listed}", classes, empty)


def _by_name(classes: Iterable[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for k, name in enumerate(classes):
        places.setdefault(name, []).append(k)
    return places


def _no_class(got: str, classes: Sequence[str], note: str = "") -> InputError:
    expected = f"a class of the model: {_listing(classes)}; or a class number from 0 to {len(classes) - 1}"
    hint = f"rename the labels in one of the two, or leave out the label column{note}"
    return InputError("Dataset.for_classes", got=got, expected=expected, hint=hint)


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _read_only(values: Any, dtype: Any) -> np.ndarray:
    array: np.ndarray = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def reason(error: Exception) -> str:
    """Return the first line of another library's error, to quote in ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def choose_split(name: str, split: str | None) -> tuple[str, str]:
    """Return the data set's name and its split; None gives the default split.

    Raises
    ------
    InputError
        For a data set that is not known, or a split that it does not have.
    """
    if not isinstance(name, str) or name not in SPLITS:
        expected = f"one of {', '.join(SPLITS)}, or the path of a file or folder with own data"
        hint = "choose a name from this list, or check the path"
        raise InputError("load_dataset", got=f"name {name!r}", expected=expected, hint=hint)
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


def from_table(table: pa.Table, *, name: str, split: str, source: str, place: str, side: int = 14) -> Dataset:
    """Return the rows of a parquet file or hub split as a `Dataset`; errors call it `place`.

    Raises
    ------
    SourceError
        When a column is missing or of the wrong kind, a value is missing, a label is not one of the data
        set's, or there are no rows.
    """

    def refuse(got: str, expected: str) -> SourceError:
        return SourceError(
            "load_dataset",
            got=f"{got} in {place}",
            expected=expected,
            hint=f"fetch {name} again, or use source='embedded'",
        )

    item_column, label_column = wanted = COLUMNS[name]
    if not set(wanted) <= set(table.column_names):
        raise refuse(f"columns {', '.join(table.column_names) or 'none'}", f"columns {', '.join(wanted)}")
    twice = [column for column in wanted if table.column_names.count(column) > 1]
    if twice:
        raise refuse(f"column {twice[0]} more than once", "each column once")
    if not len(table):
        raise refuse("no rows", "at least one row")
    try:
        items, labels = table[item_column].to_pylist(), table[label_column].to_pylist()
    except UnicodeDecodeError:
        raise refuse("text that is not UTF-8", "text in UTF-8") from None
    allowed = set(range(10)) if name == "mnist" else {-1, 0, 1} if split == "unsupervised" else {0, 1}
    odd = [label for label in labels if not is_whole(label) or label not in allowed]
    if odd:
        raise refuse(f"label {odd[0]!r}", f"labels from {min(allowed)} to {max(allowed)}")
    ids = tuple(map(str, range(len(labels))))
    if name == "mnist":
        images = sized(np.stack([_pixels(item, refuse) for item in items]), side)
        return Dataset(name, split, source, ids, np.array(labels), images=images)
    if not all(isinstance(text, str) for text in items):
        raise refuse(f"column {item_column} with values that are not text", "one string per row")
    texts = tuple(map(clean, items)) if name == "imdb" else tuple(items)
    return Dataset(name, split, source, ids, np.array(labels), texts=texts)


def _pixels(item: Any, refuse: Callable[[str, str], SourceError]) -> np.ndarray:
    def check(width: int, height: int) -> None:
        if (width, height) != (28, 28):
            raise refuse(f"an image of shape {(height, width)}", "28 x 28 pixels")

    try:
        return decoded(io.BytesIO(item["bytes"]), mode="L", check=check)
    except ManyPixels:
        raise refuse("an image of very many pixels", "28 x 28 pixels") from None
    except (Unreadable, TypeError, KeyError):
        raise refuse("an image that is not a PNG", "PNG bytes under image.bytes") from None
