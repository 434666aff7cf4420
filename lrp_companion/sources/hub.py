"""Whole data sets from the Hugging Face hub, through `datasets`; used only when asked for by name.

`HF_ENDPOINT` (another hub address), `HF_HUB_OFFLINE=1` (the local cache only) and `HF_HOME` (where the cache
is) are respected. They must be set before `datasets` is first imported.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from lrp_companion.checks import SourceError
from lrp_companion.sources.dataset import COLUMNS, Dataset, from_table, reason

if TYPE_CHECKING:
    import pyarrow as pa

REPOSITORIES = {"sst2": "stanfordnlp/sst2", "imdb": "stanfordnlp/imdb", "mnist": "ylecun/mnist"}
HINT = (
    "use source='embedded', which needs no network, or a folder (LRP_COMPANION_DATA); "
    "HF_HUB_OFFLINE=1 reads what an earlier download left in the cache"
)


def endpoint() -> str:
    """Return the hub's address: `HF_ENDPOINT`, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def offline() -> bool:
    """Return whether the hub libraries are set to use only their cache."""
    return any(
        os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    )


def why_unreachable(*, path: str = "", timeout: float = 4.0) -> str | None:
    """Ask the hub once, by HEAD, and return why it cannot be used, or None if it answers.

    `datasets` repeats a failed request for minutes. Asking first detects a missing network in seconds.
    """
    if not endpoint().startswith(("http://", "https://")):
        return "HF_ENDPOINT is not an http address"
    request = urllib.request.Request(f"{endpoint()}{path}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=timeout):
            return None
    except urllib.error.HTTPError as error:
        a_hub_is_there = error.code == 404  # `datasets` says the rest
        return None if a_hub_is_there else f"it answers {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def load(name: str, split: str, *, side: int = 14) -> Dataset:
    """Return this split of the data set from the hub, or from the hub's local cache when `HF_HUB_OFFLINE=1`.

    Raises
    ------
    SourceError
        When the hub cannot be reached, or what it has cannot be read.
    """
    repository = REPOSITORIES[name]
    why = None if offline() else why_unreachable(path=f"/datasets/{repository}/resolve/main/README.md")
    if why:
        got = f"no usable answer from the hub at {endpoint()} ({why})"
        raise SourceError("load_dataset", got=got, expected=f"the data set {repository}", hint=HINT)
    table = read(repository, split)
    place = f"the hub's {repository}"
    return from_table(table, name=name, split=split, source="hub", place=place, side=side)


def read(repository: str, split: str) -> pa.Table:
    """Return one split of a hub repository, or of a local folder in its layout, as an Arrow table."""
    import datasets

    try:
        data = datasets.load_dataset(repository, split=split)
        if isinstance(data.features.get(COLUMNS["mnist"][0]), datasets.Image):
            data = data.cast_column(COLUMNS["mnist"][0], datasets.Image(decode=False))
        return data.with_format("arrow")[:]
    except Exception as error:  # of httpx, fsspec, pyarrow or huggingface_hub, with no common base
        got = f"{repository}, split {split!r}, which cannot be read ({reason(error)})"
        expected = "a data set on the hub with that split"
        raise SourceError("load_dataset", got=got, expected=expected, hint=HINT) from error
