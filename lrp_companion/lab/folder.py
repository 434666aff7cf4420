"""The folder of a run, without torch: a manifest, a shard per job, and at the end one file per table.

Every write goes to a temporary file that is renamed when complete, so a reader sees all of a job's rows or
none. Shards are only ever added; `gather` puts them into one file per table and removes them once that file
exists. A job that is in both (the machine crashed between the two) counts once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xarray as xr
from filelock import FileLock, Timeout

from lrp_companion.checks import SITES, InputError, SourceError, as_path
from lrp_companion.metrics.faithfulness import AXES as AGREEMENT
from lrp_companion.schema import STATISTICS, TARGET_CHOICES, TOKEN_CHOICES

FORMAT = 1
MANIFEST = "manifest.json"
WHOLE = "whole in"
"""In the manifest of a record that was cut to what is read: where all of it stands."""
JOB = "job"  # the column that says which job a row belongs to
SHARDS = "shards"


def key_of(config: Mapping[str, Any]) -> str:
    """12 hexadecimal digits for a configuration, which is all that its rows depend on."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


@dataclass
class RunFolder:
    """The folder of a run. Made by `open_folder`; safe for several processes with different jobs."""

    path: Path
    config: Mapping[str, Any]
    _gathered: dict[str, pa.Table] = field(default_factory=dict, init=False, repr=False)
    done: dict[str, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        tables = _tables(self.path)
        self.done = {name: set(_table(self.path, name, self.key)[JOB].to_pylist()) for name in tables}

    @property
    def key(self) -> str:
        return key_of(self.config)

    def add(self, table: str, job: int, rows: pa.Table) -> None:
        """Write a job's rows, whole or not at all."""
        rows = rows.append_column(JOB, pa.array([job] * len(rows), pa.int64()))
        _write_bytes(self._shard(table, job), table_bytes(rows, self.key))
        self.done.setdefault(table, set()).add(job)

    def rows(self, table: str, job: int) -> pa.Table:
        """The rows of one finished job."""
        shard = self._shard(table, job)
        if shard.exists():
            return _read_table(shard, self.key)
        if table not in self._gathered:
            self._gathered[table] = _read_table(self.path / f"{table}.parquet", self.key)
        return self._gathered[table].filter(pc.field(JOB) == job)

    def _shard(self, table: str, job: int) -> Path:
        return self.path / SHARDS / f"{table}-{job:09d}.parquet"

    def summarise(self, name: str, rows: pa.Table) -> None:
        """Write a table that was made from the rows of all jobs; its name has an underscore."""
        _write_bytes(self.path / f"{name}.parquet", table_bytes(rows, self.key))

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        _write_bytes(self.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())

    def gather(self) -> None:
        """Put all shards into one file per table, sorted by job, then remove them."""
        for table in _tables(self.path):
            if shards := _shards(self.path, table):
                whole = table_bytes(_table(self.path, table, self.key), self.key)
                _write_bytes(self.path / f"{table}.parquet", whole)
            self._gathered.pop(table, None)
            for shard in shards:
                shard.unlink()
        with suppress(OSError):  # another file is in it
            (self.path / SHARDS).rmdir()


@contextmanager
def open_folder(
    path: str | os.PathLike[str], config: Mapping[str, Any], *, first: bool = True
) -> Iterator[RunFolder]:
    """Open or make the folder of a run; refuse one that holds another run or is being written. The first
    process makes it, removes the half-written files of a killed run, and keeps others out.
    """
    place = Path(path)
    if not first:
        yield RunFolder(place, config)
        return
    place.mkdir(parents=True, exist_ok=True)
    with _lock(place / ".lock"):
        _check(place, config)
        for half in [*place.glob("*.part"), *(place / SHARDS).glob("*.part")]:
            half.unlink()
        (place / SHARDS).mkdir(exist_ok=True)
        yield RunFolder(place, config)


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold a file's lock, or refuse if another process holds it; the file is removed afterwards.

    The system releases the lock of a process that dies, so a leftover file locks nobody out.
    """
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        got, hint = f"{file.parent}, where a run is at work", "wait for it, or name another --out"
        raise InputError("run", got=got, expected="a folder of its own for each run", hint=hint) from None
    try:
        yield
    finally:
        # Removed while the lock is held, so that nobody else's file is removed. On Windows an open file
        # stays; there the release removes it.
        with suppress(OSError):
            file.unlink()
        lock.release()


def _check(place: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another run, or files that no run has made."""
    held = ""
    if (place / MANIFEST).is_file():
        known = read_manifest(place)
        pairs = _changed((), known["config"], config)
        cut = f"a record without all of its columns, whole in {known[WHOLE]}" if WHOLE in known else ""
        held = f"another run ({'; '.join(pairs)})" if pairs else cut
    else:
        names = sorted(file.name for file in place.iterdir() if file.suffix != ".part")
        others = [name for name in names if name != SHARDS and not name.startswith(".")]
        if others or any((place / SHARDS).glob("*.parquet")):
            held = f"{', '.join(others[:3] or [SHARDS])} and no {MANIFEST}"
    if held:
        got, expected = f"{place}, which holds {held}", "an empty folder, or a run of the same configuration"
        raise InputError("run", got=got, expected=expected, hint="name another --out")


def _changed(names: tuple[str, ...], known: Any, now: Any) -> list[str]:
    """The entries of two configurations that differ, each with its names and both values."""
    if isinstance(known, Mapping) and isinstance(now, Mapping):
        pairs = ((name, known.get(name), now.get(name)) for name in {**known, **now})
        return [one for name, *both in pairs for one in _changed((*names, name), *both)]
    inner = " of ".join(name for name in names[:0:-1] if name != "rules")
    name = f"{names[0]}, {inner}" if inner else names[0]
    return [] if known == now else [f"{name}: {known!r} there, {now!r} now"]


# -- reading ---------------------------------------------------------------------------------------------


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a run's folder."""
    file = place / MANIFEST
    if not file.is_file():
        got, hint = f"{place}, which has no {MANIFEST}", "make one with lrp-companion run"
        raise SourceError("load_run", got=got, expected="the folder of a run", hint=hint)
    manifest = json.loads(file.read_text(encoding="utf-8"))
    if manifest["format"] != FORMAT or key_of(manifest["config"]) != manifest["key"]:
        got, hint = f"{file}, whose key or format does not fit", "restore the file: the rows are untouched"
        raise SourceError("load_run", got=got, expected=f"a manifest of format {FORMAT}", hint=hint)
    return manifest


class Tables(Mapping[str, pa.Table]):
    """The tables of a run, each read when it is first used; of a finished run no more than a column of it."""

    def __init__(self, place: Path, manifest: Mapping[str, Any]) -> None:
        self._place, self._key, self._known = place, manifest["key"], dict[tuple[str, ...], Any]()
        self._names = [*_tables(place), *(file.stem for file in sorted(place.glob("*_*.parquet")))]
        self._growing = not manifest.get("finished") or bool(_shards(place, "*"))

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self:
            raise KeyError(name)
        if (name,) not in self._known:
            self._known[name,] = _table(self._place, name, self._key)
        return self._known[name,]

    def column(self, name: str, column: str) -> pa.ChunkedArray:
        """A column, its rows sorted by job."""
        if self._growing:
            return self[name][column]
        if (name, column) not in self._known:
            read = _read_table(self._place / f"{name}.parquet", self._key, [column])
            self._known[name, column] = read[column].combine_chunks()
        return self._known[name, column]

    def columns(self, name: str) -> list[str]:
        """The names of a table's columns."""
        file = self._place / f"{name}.parquet"
        return self[name].column_names if self._growing else pq.read_schema(file).names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Manifest and tables of a run, finished or not."""
    place = as_path("load_run", "folder", path)
    manifest = read_manifest(place)
    return manifest, dict(Tables(place, manifest))


def _shards(place: Path, table: str) -> list[Path]:
    return sorted((place / SHARDS).glob(f"{table}-*.parquet"))


def _tables(place: Path) -> list[str]:
    """Names of the tables with rows of jobs; with an underscore it is a summary."""
    names = {file.stem for file in place.glob("*.parquet") if "_" not in file.stem}
    return sorted(names | {shard.stem.rpartition("-")[0] for shard in _shards(place, "*")})


def _table(place: Path, table: str, key: str) -> pa.Table:
    """All rows of a table, each job once, sorted by job; a summary as it is."""
    whole = place / f"{table}.parquet"
    gathered = [_read_table(whole, key)] if whole.is_file() else []
    if "_" in table:
        return gathered[0]
    seen = {job for rows in gathered for job in np.unique(rows[JOB].to_numpy()).tolist()}
    shards = [file for file in _shards(place, table) if int(file.stem.rpartition("-")[2]) not in seen]
    rows = pa.concat_tables([*gathered, *(_read_table(shard, key) for shard in shards)])
    return rows.take(pc.sort_indices(rows, sort_keys=[(JOB, "ascending")])).combine_chunks()


def _read_table(file: Path, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            owner = (source.schema_arrow.metadata or {}).get(b"run", b"").decode(errors="replace")
            table = source.read(columns)
    except (pa.ArrowException, OSError) as error:
        got = f"{file}, which cannot be read ({str(error).splitlines()[0].rstrip('.')})"
        hint = f"remove {file.name} and repeat the same run command: it makes these rows again"
        raise SourceError("load_run", got=got, expected="a whole parquet file", hint=hint) from None
    if owner != key:
        got, hint = f"{file} with rows of run {owner or 'unknown'}", f"take {file.name} out of this folder"
        raise SourceError("load_run", got=got, expected=f"rows of run {key}", hint=hint)
    return table.replace_schema_metadata()


# -- writing ---------------------------------------------------------------------------------------------


def table_bytes(rows: pa.Table, key: str) -> pa.Buffer:
    """A table of a run as a file; shards, which have few rows, are compressed in no time."""
    sink, level = pa.BufferOutputStream(), 19 if len(rows) >= 100 else 1
    rows = rows.replace_schema_metadata({"run": key})
    nested = {of.name: f"{of.name}.list.element" for of in rows.schema if pa.types.is_nested(of.type)}
    inner = {of.name: of.type.value_type if of.name in nested else of.type for of in rows.schema}
    texts = [nested.get(name, name) for name, of in inner.items() if pa.types.is_string(of)]
    floats = [nested.get(name, name) for name, of in inner.items() if pa.types.is_floating(of)]
    encoded: dict[str, Any] = {"use_dictionary": texts, "use_byte_stream_split": floats}
    kind = {"compression": "zstd", "compression_level": level}
    pq.write_table(rows, sink, write_page_checksum=True, **kind, **encoded)
    return sink.getvalue()


def _write_bytes(file: Path, content: Any) -> None:
    """Write a file whole or not at all, even if the machine crashes."""
    part = file.with_name(f"{file.name}.part")
    with open(part, "xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, file)
    if os.name != "nt":  # wait until the rename is on the disk; Windows cannot open a folder
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


OWN_TASK, ANSWERS_TASK = "texts", "answers"
"""The tasks of runs on the user's own data, so that no file name makes one of them the paper's."""
DEFAULT_METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
"""Default methods of a run, with default options. A run that names others also keeps its passes."""
EMBEDDING_PARTS = ("word", "position", "type")
EXAMPLES_OF = {"all": slice(None), "first half": slice(0, None, 2), "second half": slice(1, None, 2)}
"""The examples of each part of a run."""


@dataclass(frozen=True)
class Axes:
    """The axes of a column, by name, each with its options, in the order in which they are stored."""

    options: Mapping[str, Sequence[Hashable]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.options.values()))

    def column(self, values: np.ndarray) -> pa.FixedSizeListArray:
        """Values (n, *shape) as a column of n lists, in float32."""
        assert values.shape[1:] == self.shape, (values.shape, self.options)
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), pa.float32())
        return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(self.shape)))

    def read(self, column: Any) -> xr.DataArray:
        """A column as float64, with the axis example first."""
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), *self.shape)
        coords = {name: list(options) for name, options in self.options.items()}
        return xr.DataArray(values.astype(np.float64), coords, ["example", *coords])


def points(choices: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the options, the last choice varying fastest."""
    return [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]


def agreement_axes(removals: Sequence[str], statistics: Sequence[str] = STATISTICS) -> Axes:
    """Axes of the column `r` of methods, and of masks, which are stored for Pearson only."""
    return Axes({**AGREEMENT, "removal": tuple(removals), "statistic": tuple(statistics)})


def lattice_axes(layers: int) -> Axes:
    """Axes of the column `r` of all masks of the layers."""
    return Axes({"site": SITES, "tokens": TOKEN_CHOICES, "mask": range(2**layers)})


SUMS = Axes({"site": SITES, "tokens": TOKEN_CHOICES, "target": TARGET_CHOICES})
"""Axes of `sum` and `size`, sum R and sum |R|."""
PASSES = Axes({"direction": ("forward", "backward")})
"""Axes of `passes`."""


def round_r(r: np.ndarray) -> np.ndarray:
    """r to the next multiple of 2**-16 = 0.000015, which compresses to half the size."""
    return np.round(r * 65536) / 65536


def round_bits(values: np.ndarray) -> np.ndarray:
    """Values to 13 significant bits, a relative error of at most 2**-13, and a third smaller in a file."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float32))
    return np.ldexp(np.round(mantissa * 8192) / 8192, exponent)
