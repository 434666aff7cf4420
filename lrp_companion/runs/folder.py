"""The folder of a run: a manifest, one shard per job while it runs, one file per table when it is done. No
torch.

Every write goes to a temporary file that is renamed when it is whole, so a reader sees a job's rows or none.
Shards are only ever added; `gather` puts them into one file per table and removes them after that file
stands. A job that is in both (the machine went down between the two) counts once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lrp_companion.schema import InputError, SourceError

FORMAT = 1
JOB = "job"  # the column that says which job a row belongs to
MANIFEST, SHARDS, NETS = "manifest.json", "shards", "nets"


def key_of(config: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that name a configuration: what its rows depend on, and nothing else.

    >>> key_of({"task": "sst2", "dtype": "float32"}) == key_of({"dtype": "float32", "task": "sst2"})
    True
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


@dataclass
class RunFolder:
    """Where a run writes. Made by `open_folder`; safe for several processes that own different jobs."""

    path: Path
    config: Mapping[str, Any]
    done: dict[str, set[int]] = field(default_factory=dict)
    last_write: float | None = None  # of rows, in seconds since 1970, before this session
    _gathered: dict[str, pa.Table] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        return key_of(self.config)

    def add(self, table: str, job: int, rows: pa.Table) -> None:
        """Write a job's rows, whole or not at all."""
        rows = rows.append_column(JOB, pa.array([job] * len(rows), pa.int64()))
        _write_table(self.path / SHARDS / f"{table}-{job:09d}.parquet", rows, self.key)
        self.done.setdefault(table, set()).add(job)

    def rows(self, table: str, job: int) -> pa.Table:
        """The rows of one finished job."""
        shard = self.path / SHARDS / f"{table}-{job:09d}.parquet"
        if shard.exists():
            return _read_table(shard, self.key)
        if table not in self._gathered:
            self._gathered[table] = _read_table(self.path / f"{table}.parquet", self.key)
        return self._gathered[table].filter(pc.field(JOB) == job)

    def add_weights(self, name: str, weights: Mapping[str, Any]) -> None:
        """Keep a net's weights beside the shards, whole or not at all."""
        from safetensors.torch import save

        (self.path / NETS).mkdir(exist_ok=True)
        _write_bytes(
            self.path / NETS / name, save({key: value.contiguous() for key, value in weights.items()})
        )

    def weights(self, name: str) -> dict[str, Any] | None:
        """Weights that were kept, or None."""
        from safetensors.torch import load

        place = self.path / NETS / name
        return load(place.read_bytes()) if place.is_file() else None

    def summarise(self, name: str, rows: pa.Table) -> None:
        """Write a table that was made from the rows of all jobs; its name has an underscore."""
        _write_table(self.path / f"{name}.parquet", rows, self.key)

    def manifest(self) -> dict[str, Any]:
        return _read_manifest(self.path)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        _write_bytes(self.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())

    def gather(self) -> None:
        """Put all shards into one file per table, sorted by job, then remove them."""
        folder = self.path / SHARDS
        for table in sorted({_parts(shard)[0] for shard in folder.glob("*.parquet")}):
            shards = sorted(folder.glob(f"{table}-*.parquet"))
            _write_table(self.path / f"{table}.parquet", _whole_table(self.path, table, self.key), self.key)
            self._gathered.pop(table, None)
            for shard in shards:
                shard.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def open_folder(
    path: str | os.PathLike[str], config: Mapping[str, Any], *, first: bool = True
) -> Iterator[RunFolder]:
    """Open or make the folder of a run; refuse one that holds another run or is being written.

    `first` is False in all processes but one: the first one makes the folder, removes what a killed run left
    half written, and keeps others out; the rest must open it later.

    Raises
    ------
    InputError : the folder cannot be made, holds other files or another run, or another run is at work in it.
    SourceError : a shard or the manifest cannot be read.
    """
    place = Path(path)
    if not first:
        yield RunFolder(place, config, _jobs_done(place, key_of(config)))
        return
    _make(place)
    with _lock(place / ".lock"):
        _check(place, config)
        for half in [*place.glob("*.part"), *(place / SHARDS).glob("*.part")]:
            half.unlink()
        (place / SHARDS).mkdir(exist_ok=True)
        last = max((file.stat().st_mtime for file in place.rglob("*.parquet")), default=None)
        opened = RunFolder(place, config, _jobs_done(place, key_of(config)), last)
        opened.gather()
        (place / SHARDS).mkdir(exist_ok=True)
        yield opened


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold a file's lock; refuse where another process does. The file is gone afterwards."""
    while True:
        lock = os.open(file, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            got, hint = f"{file.parent}, where a run is at work", "wait for it, or name another --out"
            raise InputError("run", got=got, expected="a folder of its own for each run", hint=hint) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(file)):
                break
        os.close(
            lock
        )  # its last holder removed the file between the two calls, so this lock keeps nobody out
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(lock)


def _make(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        probe = place / ".probe.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        got = f"--out {place}, which cannot be written ({error.strerror or error})"
        raise InputError(
            "run", got=got, expected="a folder that can be made and written", hint="name another --out"
        ) from None


def _check(place: Path, config: Mapping[str, Any]) -> None:
    left = (
        [SHARDS] if (place / SHARDS).is_dir() and not any((place / SHARDS).glob("*.parquet")) else []
    )  # killed before its manifest stood
    others = [
        name
        for name in os.listdir(place)
        if not name.startswith(".") and not name.endswith(".part") and name not in left
    ]
    if MANIFEST in others:
        known = _read_manifest(place)["config"]
        differing = [
            name for name in {**known, **config} if known.get(name) != config.get(name)
        ]  # the task first
        if differing:
            pairs = "; ".join(
                f"{name}: {_said(known, name)} there, {_said(config, name)} now" for name in differing[:4]
            )
            got = f"{place}, which holds another run ({pairs})"
            raise InputError(
                "run",
                got=got,
                expected="an empty folder, or a run of the same configuration",
                hint="name another --out",
            )
    elif others:
        got = f"{place}, which holds {', '.join(sorted(others)[:3])} and no {MANIFEST}"
        raise InputError(
            "run", got=got, expected="an empty folder, or one that a run has made", hint="name another --out"
        )


def _said(config: Mapping[str, Any], name: str) -> str:
    return repr(config[name]) if name in config else "not recorded"


def _parts(shard: Path) -> tuple[str, int]:
    table, _, job = shard.stem.rpartition("-")
    if not table or not job.isdecimal():
        expected, hint = (
            "shards of a run, such as methods-000000007.parquet",
            f"take {shard.name} out of this folder",
        )
        raise SourceError("load_run", got=f"{shard}, which no run has made", expected=expected, hint=hint)
    return table, int(job)


def _jobs_done(place: Path, key: str) -> dict[str, set[int]]:
    done: dict[str, set[int]] = {}
    for file in place.glob("*.parquet"):
        if "_" not in file.stem:  # tables with an underscore are summaries
            done[file.stem] = set(_read_table(file, key, columns=[JOB])[JOB].to_pylist())
    for shard in (place / SHARDS).glob("*.parquet"):
        table, job = _parts(shard)
        _read_table(shard, key, columns=[JOB])
        done.setdefault(table, set()).add(job)
    return done


def _whole_table(place: Path, table: str, key: str) -> pa.Table:
    """All rows of a table, each job once, sorted by job."""
    found, seen = [], set()
    for file in [place / f"{table}.parquet", *sorted((place / SHARDS).glob(f"{table}-*.parquet"))]:
        if file.exists() and (file.parent == place or _parts(file)[1] not in seen):
            found.append(_read_table(file, key))
            seen |= set(found[-1][JOB].to_pylist())
    if not found:
        raise SourceError(
            "load_run", got=f"no rows of {table} in {place}", expected="rows of a run", hint="run it first"
        )
    whole = pa.concat_tables(found)
    return whole.take(pc.sort_indices(whole, sort_keys=[(JOB, "ascending")])).combine_chunks()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Manifest and tables of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    place = Path(path)
    if not place.is_dir():
        raise SourceError(
            "load_run",
            got=f"{place}, which is no folder",
            expected="the folder of a run",
            hint="name the --out of a run",
        )
    manifest = _read_manifest(place)
    names = {file.stem for file in place.glob("*.parquet")} | {
        _parts(file)[0] for file in (place / SHARDS).glob("*.parquet")
    }
    if not names:
        raise SourceError(
            "load_run",
            got=f"{place}, a run without rows",
            expected="at least one finished job",
            hint="let the run go on",
        )
    return manifest, {
        name: _whole_table(place, name, manifest["key"]) for name in sorted(names) if "_" not in name
    } | {
        name: _read_table(place / f"{name}.parquet", manifest["key"]) for name in sorted(names) if "_" in name
    }


def _read_manifest(place: Path) -> dict[str, Any]:
    file = place / MANIFEST
    if not file.is_file():
        state = "an empty folder" if not any(place.iterdir()) else "a folder without a manifest"
        raise SourceError(
            "load_run",
            got=f"{place}, {state}",
            expected="the folder of a run",
            hint="make one with lrp-companion run",
        )
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["format"] != FORMAT or key_of(found["config"]) != found["key"]:
            raise ValueError("its key does not fit its configuration, or it has another format")
    except (ValueError, KeyError, TypeError) as error:
        got = f"{file}, which cannot be read ({error})"
        raise SourceError(
            "load_run",
            got=got,
            expected=f"a manifest of format {FORMAT}",
            hint="restore the file; the rows are untouched",
        ) from None
    return found


def _read_table(file: Path, key: str, columns: list[str] | None = None) -> pa.Table:
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            owner = (source.schema_arrow.metadata or {}).get(b"run", b"").decode(errors="replace")
            table = source.read(columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        hint = f"remove {file.name} and give the same run command again: it makes these rows anew"
        raise SourceError(
            "load_run",
            got=f"{file}, which cannot be read ({reason})",
            expected="a whole parquet file",
            hint=hint,
        ) from None
    if owner != key:
        got = f"{file} with rows of run {owner or 'unknown'}"
        raise SourceError(
            "load_run", got=got, expected=f"rows of run {key}", hint=f"take {file.name} out of this folder"
        )
    return table


def _real(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind.value_type if pa.types.is_nested(kind) else kind)


# -- writing -----------------------------------------------------------------------------------------------------------


def _write_table(file: Path, rows: pa.Table, key: str) -> None:
    sink = pa.BufferOutputStream()
    names = [
        c.name + (".list.element" if pa.types.is_nested(c.type) else "") for c in rows.schema if _real(c.type)
    ]
    texts = [column.name for column in rows.schema if pa.types.is_string(column.type)]
    options = {
        "compression": "zstd",
        "use_dictionary": texts,
        "use_byte_stream_split": names,
        "write_page_checksum": True,
    }
    options["compression_level"] = (
        19 if len(rows) >= 100 else 1
    )  # a fifth smaller; shards, which have few rows, need no such care
    pq.write_table(rows.replace_schema_metadata({"run": key}), sink, **options)
    _write_bytes(file, sink.getvalue())


def _write_bytes(file: Path, content: Any) -> None:
    """Write a file so that it is there whole or not at all, also when the machine goes down."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        part.unlink(missing_ok=True)
        got = f"{file.name}, which cannot be written ({error.strerror or error})"
        hint = "make room, then give the same command again: finished jobs are kept"
        raise SourceError(
            "run", got=got, expected=f"room and permission in {file.parent}", hint=hint
        ) from None
