"""The folder of a run, without torch: a manifest, a shard per job, and at the end one file per table.

Every write goes to a temporary file that is renamed when complete, so a reader sees all of a job's rows or
none. Shards are only ever added; `gather` puts them into one file per table and removes them once that file
exists. A job that is in both (the machine crashed between the two) counts once.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from lrp_companion.checks import InputError, SourceError, as_path
from lrp_companion.terminal import Fault

FORMAT = 1
MANIFEST = "manifest.json"
JOB = "job"  # the column that says which job a row belongs to
CHECKSUM = "sha256"  # in the header of a net's weights
SHARDS, NETS = "shards", "nets"
COLUMNS = {
    "examples": ("tokens", "after"),
    "methods": ("method", "r"),
    "masks": ("mask", "r"),
    "lattice": ("r",),
}
COLUMNS |= {"answers": ("method", "r"), "nets": ("accuracy",), "images": ("image", "explainer")}
COLUMNS |= {"ig": ("image", "baseline", "n_steps")}
"""Columns without which a table cannot be read."""
KEYS = ("method", "mask", "explainer", "image", "baseline", "n_steps")
"""Columns that tell the rows of a job apart."""


def key_of(config: Mapping[str, Any]) -> str:
    """12 hexadecimal digits for a configuration, which is all that its rows depend on.

    >>> key_of({"task": "sst2", "dtype": "float32"}) == key_of({"dtype": "float32", "task": "sst2"})
    True
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a run's folder.

    Raises
    ------
    SourceError : there is none, or it cannot be read.
    """
    file = place / MANIFEST
    if not file.is_file():
        state = "an empty folder" if not any(place.iterdir()) else "a folder without a manifest"
        got, hint = f"{place}, {state}", "make one with lrp-companion run"
        raise SourceError("load_run", got=got, expected="the folder of a run", hint=hint)
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or key_of(manifest["config"]) != manifest["key"]:
            raise ValueError("its key does not fit its configuration, or it has another format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        got = f"{file}, which cannot be read ({error})"
        expected, hint = f"a manifest of format {FORMAT}", "restore the file: the rows are untouched"
        raise SourceError("load_run", got=got, expected=expected, hint=hint) from None
    return manifest


class RunError(Fault, RuntimeError):
    """A run that failed for a reason outside its input: a full disk, a process that died."""


@dataclass
class RunFolder:
    """The folder of a run. Made by `open_folder`; safe for several processes with different jobs."""

    path: Path
    config: Mapping[str, Any]
    done: dict[str, set[int]] = field(default_factory=dict)
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
        """Keep a net's weights and their checksum with the shards, whole or not at all."""
        from safetensors.torch import save

        kept = {key: value.contiguous() for key, value in weights.items()}
        try:
            (self.path / NETS).mkdir(exist_ok=True)
        except OSError as error:
            raise _cannot_write(self.path / NETS, error) from None
        _write_bytes(self.path / NETS / name, save(kept, metadata={CHECKSUM: _digest(kept)}))

    def weights(self, name: str) -> dict[str, Any] | None:
        """Weights that were kept, or None.

        Raises
        ------
        SourceError : the weights are not those that were written.
        """
        from safetensors import SafetensorError, safe_open

        place = self.path / NETS / name
        if not place.is_file():
            return None
        try:
            with safe_open(place, framework="pt") as file:
                checksum = (file.metadata() or {}).get(CHECKSUM)
                names = file.keys()
                weights = {key: file.get_tensor(key) for key in names}
        except (SafetensorError, OSError, ValueError) as error:
            raise _spoilt(place, str(error).rstrip(".")) from None
        if checksum != _digest(weights):
            raise _spoilt(place, "its checksum does not fit")
        return weights

    def summarise(self, name: str, rows: pa.Table) -> None:
        """Write a table that was made from the rows of all jobs; its name has an underscore."""
        _write_table(self.path / f"{name}.parquet", rows, self.key)

    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands."""
        return read_manifest(self.path)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        _write_bytes(self.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())

    def gather(self) -> None:
        """Put all shards into one file per table, sorted by job, then remove them."""
        folder = self.path / SHARDS
        for table in sorted({_parts(shard)[0] for shard in folder.glob("*.parquet")}):
            shards = sorted(folder.glob(f"{table}-*.parquet"))
            _write_table(
                self.path / f"{table}.parquet", _whole_table(self.path, table, self.config), self.key
            )
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

    `first` is False in all processes but one. The first one makes the folder, removes the half-written files
    of a killed run, and keeps others out; the rest must open it later.

    Raises
    ------
    InputError : the folder cannot be made, holds other files or another run, or is in use by another run.
    SourceError : a shard or the manifest cannot be read.
    """
    place = Path(path)
    if not first:
        yield RunFolder(place, config, _jobs_done(place, config))
        return
    _make(place)
    with _lock(place / ".lock"):
        _check(place, config)
        for half in [*place.glob("*.part"), *(place / SHARDS).glob("*.part")]:
            half.unlink()
        (place / SHARDS).mkdir(exist_ok=True)
        opened = RunFolder(place, config, _jobs_done(place, config))
        opened.gather()
        (place / SHARDS).mkdir(exist_ok=True)
        yield opened


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


def _make(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        probe = _part_of(place / ".probe")
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        got = f"--out {place}, which cannot be written ({error.strerror or error})"
        expected = "a folder that can be made and written"
        raise InputError("run", got=got, expected=expected, hint="name another --out") from None


def _check(place: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another run, or files that no run has made."""
    names = {name for name in os.listdir(place) if not name.startswith(".") and not name.endswith(".part")}
    if (place / SHARDS).is_dir() and not any((place / SHARDS).glob("*.parquet")):
        names -= {SHARDS}  # a run killed before its manifest stood has left this folder empty
    if MANIFEST in names:
        known = read_manifest(place)["config"]
        fields = [*known, *(name for name in config if name not in known)]  # the task first
        differing = [name for name in fields if known.get(name) != config.get(name)]
        if differing:
            pairs = "; ".join(
                f"{name}: {_said(known, name)} there, {_said(config, name)} now" for name in differing[:4]
            )
            got = f"{place}, which holds another run ({pairs})"
            expected = "an empty folder, or a run of the same configuration"
            raise InputError("run", got=got, expected=expected, hint="name another --out")
    elif names:
        got = f"{place}, which holds {', '.join(sorted(names)[:3])} and no {MANIFEST}"
        expected = "an empty folder, or one that a run has made"
        raise InputError("run", got=got, expected=expected, hint="name another --out")


def _said(config: Mapping[str, Any], name: str) -> str:
    return repr(config[name]) if name in config else "not recorded"


def _parts(shard: Path) -> tuple[str, int]:
    """Table and job of a shard, from its name."""
    table, _, job = shard.stem.rpartition("-")
    if not table or not job.isdecimal():
        got, hint = f"{shard}, which no run has made", f"take {shard.name} out of this folder"
        expected = "shards of a run, such as methods-000000007.parquet"
        raise SourceError("load_run", got=got, expected=expected, hint=hint)
    return table, int(job)


def _tables(place: Path) -> list[str]:
    """Names of the tables with rows of jobs; with an underscore it is a summary."""
    names = {file.stem for file in place.glob("*.parquet") if "_" not in file.stem}
    return sorted(names | {_parts(shard)[0] for shard in (place / SHARDS).glob("*.parquet")})


def _jobs_done(place: Path, config: Mapping[str, Any]) -> dict[str, set[int]]:
    return {name: set(_whole_table(place, name, config)[JOB].to_pylist()) for name in _tables(place)}


def _whole_table(place: Path, table: str, config: Mapping[str, Any]) -> pa.Table:
    """All rows of a table, each job once, sorted by job.

    Raises
    ------
    SourceError : rows that are not those of the jobs, once each, named by their file.
    """
    tables: list[pa.Table] = []
    seen: set[int] = set()
    rows_of_a_job = 0
    for file in [place / f"{table}.parquet", *sorted((place / SHARDS).glob(f"{table}-*.parquet"))]:
        if file.exists() and (file.parent == place or _parts(file)[1] not in seen):
            rows = _read_table(file, key_of(config))
            counts = _rows_of_jobs(file, table, rows, config)
            rows_of_a_job = rows_of_a_job or min(counts.values(), default=0)
            if {*counts.values()} - {rows_of_a_job}:
                raise _wrong_rows(file, f"where a job has not {rows_of_a_job} rows, as the others have")
            if tables and rows.schema.remove_metadata() != tables[0].schema.remove_metadata():
                raise _wrong_rows(file, "with other columns than the rest of its table")
            tables.append(rows)
            seen |= {*counts}
    whole = pa.concat_tables(tables)
    return whole.take(pc.sort_indices(whole, sort_keys=[(JOB, "ascending")])).combine_chunks()


def _rows_of_jobs(file: Path, table: str, rows: pa.Table, config: Mapping[str, Any]) -> dict[int, int]:
    """How many rows each job has; refuse rows that are there twice, or of other methods than the run's."""
    missing = [name for name in (JOB, *COLUMNS.get(table, ())) if name not in rows.column_names]
    if missing:
        raise _wrong_rows(file, f"without the column {missing[0]}")
    keys = [JOB, *(name for name in KEYS if name in rows.column_names)]
    each = Counter(zip(*(rows[name].to_pylist() for name in keys), strict=True))
    twice = [key for key, count in each.items() if count > 1]
    if twice:
        raise _wrong_rows(file, f"where a row is there twice ({', '.join(map(str, twice[0]))})")
    for column, asked in (("method", config.get("methods")), ("explainer", config.get("explainers"))):
        if column in keys and asked and {*rows[column].to_pylist()} != {*asked}:
            raise _wrong_rows(file, f"whose rows are not of the {column}s {', '.join(asked)}")
    if file.parent.name == SHARDS and {key[0] for key in each} != {_parts(file)[1]}:
        raise _wrong_rows(file, "with rows of another job than its name says")
    return dict(Counter(key[0] for key in each))


def _wrong_rows(file: Path, got: str) -> SourceError:
    hint = f"remove {file.name} and repeat the same run command: it makes these rows again"
    return SourceError("load_run", got=f"{file}, {got}", expected="each row of each job once", hint=hint)


# -- reading ---------------------------------------------------------------------------------------------


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Manifest and tables of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    place = as_path("load_run", "folder", path)
    if not place.is_dir():
        got, hint = f"{place}, which is not a folder", "name the --out of a run"
        raise SourceError("load_run", got=got, expected="the folder of a run", hint=hint)
    manifest = read_manifest(place)
    names, key = _tables(place), manifest["key"]
    if not names:
        got, hint = f"{place}, a run without rows", "let the run go on"
        raise SourceError("load_run", got=got, expected="at least one finished job", hint=hint)
    rows = {name: _whole_table(place, name, manifest["config"]) for name in names}
    return manifest, rows | {file.stem: _read_table(file, key) for file in sorted(place.glob("*_*.parquet"))}


def _read_table(file: Path, key: str) -> pa.Table:
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            owner = (source.schema_arrow.metadata or {}).get(b"run", b"").decode(errors="replace")
            table = source.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        got, expected = f"{file}, which cannot be read ({reason})", "a whole parquet file"
        hint = f"remove {file.name} and repeat the same run command: it makes these rows again"
        raise SourceError("load_run", got=got, expected=expected, hint=hint) from None
    if owner != key:
        got, hint = f"{file} with rows of run {owner or 'unknown'}", f"take {file.name} out of this folder"
        raise SourceError("load_run", got=got, expected=f"rows of run {key}", hint=hint)
    return table


# -- writing ---------------------------------------------------------------------------------------------


def _write_table(file: Path, rows: pa.Table, key: str) -> None:
    """Write a table whole or not at all."""
    _write_bytes(file, table_bytes(rows, key))


def table_bytes(rows: pa.Table, key: str) -> bytes:
    """A table as it stands in its file."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows.replace_schema_metadata({"run": key}),
        sink,
        compression="zstd",
        # A fifth smaller; shards, which have few rows, need no such care.
        compression_level=19 if len(rows) >= 100 else 1,
        use_dictionary=[column.name for column in rows.schema if pa.types.is_string(column.type)],
        use_byte_stream_split=[_leaf(column) for column in rows.schema if _is_real(column.type)],
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()


def _is_real(kind: pa.DataType) -> bool:
    """Whether a column holds real numbers, or lists of them."""
    return pa.types.is_floating(kind.value_type if pa.types.is_nested(kind) else kind)


def _leaf(column: pa.Field) -> str:
    """The name that parquet gives to a column's numbers."""
    return f"{column.name}.list.element" if pa.types.is_nested(column.type) else column.name


def _write_bytes(file: Path, content: Any) -> None:
    """Write a file whole or not at all, even if the machine crashes."""
    part = _part_of(file)
    try:
        with open(part, "xb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        _sync_folder(file.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise _cannot_write(file, error) from None


def _part_of(file: Path) -> Path:
    """A name for a file until it is whole, which nobody can foresee and put a link in its place."""
    return file.with_name(f"{file.name}.{secrets.token_hex(8)}.part")


def _cannot_write(file: Path, error: OSError) -> RunError:
    got = f"{file.name}, which cannot be written ({error.strerror or error})"
    expected = f"room and permission in {file.parent}"
    hint = "make room, then repeat the command: finished jobs are kept"
    return RunError("run", got=got, expected=expected, hint=hint)


def _digest(weights: Mapping[str, Any]) -> str:
    """A hash of the names, kinds, shapes and values of tensors."""
    digest = hashlib.sha256()
    for key, value in sorted(weights.items()):
        array = value.cpu().numpy()
        digest.update(f"{key} {array.dtype} {array.shape}\0".encode() + array.tobytes())
    return digest.hexdigest()


def _spoilt(net: Path, reason: str) -> SourceError:
    """The error for a net's weights that are not those that were trained."""
    got, expected = f"{net}, which cannot be used ({reason})", "the weights as the run wrote them"
    hint = f"remove {net.name} and repeat the same run command: the net is trained again"
    return SourceError("run", got=got, expected=expected, hint=hint)


def _sync_folder(folder: Path) -> None:
    """Wait until a rename is on the disk; Windows cannot open a folder, so nothing is done there."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
