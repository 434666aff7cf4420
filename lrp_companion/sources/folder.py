"""Whole data sets as parquet files in a folder: <data set>/<split>.parquet, with the columns of the hub."""

from __future__ import annotations

import os
from pathlib import Path

from lrp_companion.checks import SourceError
from lrp_companion.paths import as_path
from lrp_companion.sources.dataset import SPLITS, Dataset, from_table, reason

VARIABLE = "LRP_COMPANION_DATA"


def root(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the data folder that `data_dir` names, or else LRP_COMPANION_DATA; None if neither does."""
    named = str(data_dir or "") or os.environ.get(VARIABLE, "")
    return as_path("load_dataset", "data_dir", named) if named else None


def load(name: str, split: str, data_dir: str | os.PathLike[str] | None, *, side: int = 14) -> Dataset:
    """Return this split of the data set from the folder.

    Raises
    ------
    SourceError
        When no folder is named, the folder or the file does not exist, or the file cannot be read as parquet
        with the right columns.
    """
    folder = root(data_dir)
    way = f"set {VARIABLE} or data_dir to the folder that holds {', '.join(SPLITS)}, or use source='embedded'"
    if folder is None:
        got, expected = "source 'folder' and no folder", f"data_dir or {VARIABLE}"
        raise SourceError("load_dataset", got=got, expected=expected, hint=way)
    if not folder.is_dir():
        got, expected = f"folder {folder}, which does not exist", "an existing folder"
        raise SourceError("load_dataset", got=got, expected=expected, hint=way)
    path = folder / name / f"{split}.parquet"
    if not path.is_file():
        got, expected = f"no file {path}", f"{name}/{split}.parquet in {folder}"
        raise SourceError("load_dataset", got=got, expected=expected, hint=way)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        got, hint = f"{path}, which cannot be read ({reason(error)})", "fetch the file again"
        raise SourceError("load_dataset", got=got, expected="a parquet file", hint=hint) from error
    return from_table(table, name=name, split=split, source="folder", place=str(path), side=side)


def contents(folder: Path) -> dict[str, list[str]]:
    """Return which splits of which data set have a file in the folder."""
    return {
        name: [split for split in splits if (folder / name / f"{split}.parquet").is_file()]
        for name, splits in SPLITS.items()
    }
