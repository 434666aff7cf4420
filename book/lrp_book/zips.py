"""What travels: a zip for each chapter with the records that it reads, and one for each record of a release.

`python -m lrp_book.zips FOLDER` writes the second kind and `checksums.txt`, from which `lrp.open_record`
fetches a record whose checksum it knows, wherever the folder is served.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lrp_companion
from lrp_companion.lab.folder import read_manifest, table_bytes
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.record import CHECKSUMS, archive
from lrp_companion.schema import Protocol

HOW = f"""How to run this chapter. WHEELS is the folder of the wheels: files of a release, or made in a
checkout by `python3 packaging/build.py WHEELS`.

    python -m pip install --find-links WHEELS "lrp-companion[book]=={lrp_companion.__version__}" jupyterlab
    python -m pip install --find-links WHEELS --no-deps lrp-companion-model
    jupyter lab

The records are here as far as the notebook reads them; whole they are in a checkout and with a release.
"""


def files_of(record: Path) -> list[Path]:
    """The files of a record, given one of them: all of a run's folder, or the two of a name."""
    if (record.parent / "manifest.json").is_file():
        return sorted(path for path in record.parent.iterdir() if path.is_file())
    return [path for ending in (".npz", ".json") if (path := record.with_suffix(ending)).is_file()]


def write_chapter(notebook: Path, watched: Iterable[str], records: Path, target: Path) -> Path:
    """Write a chapter's zip: the notebook without outputs, what it reads of the records, how to run it.

    `watched` are lines of `watch`: the files that it opened, and what it read of runs on texts and of arrays.
    """
    chapter = nbformat.read(notebook, as_version=4)
    for cell in chapter.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    opened: set[Path] = set()
    read: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for line in watched:
        if line.startswith("["):
            key, *what = json.loads(line)
            read[key].append(tuple(what))
        else:
            opened |= set(files_of(records / line))
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(notebook.name, nbformat.writes(chapter) + "\n")
        for path in sorted(opened):
            name = path.relative_to(records).as_posix()
            if (kept := cut(path, name_of(path, records), read)) is not None:
                bundle.writestr(f"results/{name}", kept)
        bundle.writestr("README.txt", HOW)
    return target


def cut(file: Path, name: str, read: Mapping[str, list[tuple[Any, ...]]]) -> bytes | None:
    """A file of a record without the values that were not read, or None if it is not needed.

    In a table null stands for them, which `TextRun` refuses; arrays are left out. Digits, answers: whole.
    """
    out = io.BytesIO()
    if file.suffix == ".npz" and name in read:
        with np.load(file) as arrays:
            used = {column: arrays[column] for column in arrays.files if column in {e[2] for e in read[name]}}
        if readings := _readings(read[name]):
            used["r"] = used["r"][:, readings]
        np.savez(out, **used)
        return out.getvalue()
    if file.suffix == ".json" and (readings := _readings(read.get(name, []))):
        config = json.loads(file.read_text(encoding="utf-8"))
        config["config"]["readings"] = [config["config"]["readings"][k] for k in readings]
        return json.dumps(config).encode()
    if file.name == "manifest.json":
        manifest = read_manifest(file.parent)
        if asked := [of for e in read.get(manifest["key"], ()) if e[2] == "loo signs" for of in e[3]]:
            run = load_run(file.parent)
            assert isinstance(run, TextRun)
            manifest["loo signs"] = {of: _signs(run, *of.split(" ")) for of in asked}
        return json.dumps(manifest).encode()
    table = pq.read_table(file) if file.suffix == ".parquet" else None
    key = table.schema.metadata[b"run"].decode() if table is not None else ""
    if key not in read:
        return file.read_bytes()
    events = [event[1:] for event in read[key] if event[0] == file.stem]
    if not events and file.stem.startswith("lattice"):
        return None
    if (None, None, None) not in events:  # else the table was read whole, as a frame
        table = _cut(table, events, read_manifest(file.parent))
    return table_bytes(table, key)


def _signs(run: TextRun, removal: str, target: str, tokens: str) -> str:
    """The signs of LOO's sums, which stand for all logits of the hidden tokens."""
    signs = run.loo_signs(Protocol(removal=removal, target=target, tokens=tokens))
    return "".join("-0+"[int(one) + 1] for one in signs)


def _readings(events: list[Any]) -> list[int]:
    """The readings of an array of r by layers that were used, if each was chosen."""
    return sorted({k for _, _, column, places in events if column == "r" and places for k in places})


def _cut(table: pa.Table, events: list[Any], manifest: Mapping[str, Any]) -> pa.Table:
    """The table with null for all values but those of the events: method or mask, column, places in lists."""
    out, of = (
        table,
        next((table[name].to_pylist() for name in ("method", "mask") if name in table.column_names), None),
    )
    for k, field in enumerate(table.schema):
        if field.name in ("job", "method", "mask"):
            continue
        column = table[field.name].combine_chunks()
        chosen = [(which, places) for which, name, places in events if name == field.name]
        if field.name == "after" and all(places for _, places in chosen):
            out = out.set_column(k, field, _after(table, [places for _, places in chosen], manifest))
            continue
        size = field.type.list_size if pa.types.is_fixed_size_list(field.type) else 1
        kept = np.zeros((len(table), size), dtype=bool)
        for which, places in chosen:
            rows = np.array([which in (None, one) for one in of or [None] * len(table)])
            kept[np.ix_(rows, np.arange(size) if places is None else np.array(places))] = True
        if size > 1:
            flat = pc.if_else(pa.array(kept.ravel()), column.flatten(), None)
            column = pa.FixedSizeListArray.from_arrays(flat, size)
        else:
            column = pa.array(column.to_pylist(), field.type, mask=~kept[:, 0])
        out = out.set_column(k, field, column)
    return out


def _after(table: pa.Table, chosen: list[list[int]], manifest: Mapping[str, Any]) -> pa.Array:
    """Logits without each token, by the removals that were chosen: of the target alone, or of all classes."""
    columns = (table[name].to_pylist() for name in ("after", "tokens", "target"))
    out = []
    for after, tokens, target in zip(*columns, strict=True):
        values = np.array(after).reshape(len(manifest["axes"]["removal"]), tokens + 1, -1)
        kept = np.zeros(values.shape, dtype=bool)
        for removal, alone in chosen:
            kept[removal, :, target if alone else slice(None)] = True
        out.append(pa.array(values.ravel(), pa.float32(), mask=~kept.ravel()).to_pylist())
    return pa.array(out, table["after"].type)


def name_of(file: Path, records: Path) -> str:
    """The name by which `open_record` opens the record that has this file.

    >>> name_of(Path("results/vit/mnist-seed-0.npz"), Path("results"))
    'vit/mnist-seed-0'
    """
    run = (file.parent / "manifest.json").is_file()
    return (file.parent if run else file.with_suffix("")).relative_to(records).as_posix()


def all_records(records: Path) -> Iterator[tuple[str, list[Path]]]:
    """Every record by its name, with its files."""
    files = {name_of(file, records): file for file in sorted(records.rglob("*.json"))}
    yield from ((name, files_of(file)) for name, file in files.items())


def write_release(records: Path, target: Path) -> Path:
    """Write a zip for each record and the checksums of all; the same records give the same bytes."""
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, files in all_records(records):
        made = target / archive(name)
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path in files:
                entry = zipfile.ZipInfo(path.relative_to(records).as_posix())
                bundle.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        lines.append(f"{made.name} sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n")
    (target / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
    return target / CHECKSUMS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lrp_book.zips", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    print(write_release(Path(__file__).resolve().parents[2] / "results", parser.parse_args().folder))
