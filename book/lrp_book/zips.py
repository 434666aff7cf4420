"""What travels: a zip for each chapter with the records that it reads, and one for each record of a release.

`python -m lrp_book.zips FOLDER` writes the second kind and `checksums.txt`, from which `lrp.open_record`
fetches a record whose checksum it knows, wherever the folder is served.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

import lrp_companion
from lrp_companion.lab.record import CHECKSUMS, RECORDS, archive

LIMIT = 5_000_000
"""Bytes of a chapter's zip, where its readers can fetch what does not fit."""
OF_LAYERS = {"masks.parquet", "lattice.parquet", "lattice_means.parquet"}
"""Tables of a run that only `Record.layers` reads."""
HOW = f"""How to run this chapter. WHEELS is the folder of the wheels: files of a release, or made in a
checkout by `python3 packaging/build.py WHEELS`.

    python -m pip install --find-links WHEELS "lrp-companion[book]=={lrp_companion.__version__}" jupyterlab
    python -m pip install --find-links WHEELS --no-deps lrp-companion-model
    jupyter lab
"""
MISSING = f"""
Not in this zip, which has at most {LIMIT / 1e6:.0f} MB, but fetched by `open_record` where the variable
{RECORDS} is {{address}}:
{{names}}.
"""


def files_of(record: Path) -> list[Path]:
    """The files of a record, given one of them: all of a run's folder, or the two of a name."""
    if (record.parent / "manifest.json").is_file():
        return sorted(path for path in record.parent.iterdir() if path.is_file())
    return [path for ending in (".npz", ".json") if (path := record.with_suffix(ending)).is_file()]


def write_chapter(
    notebook: Path, opened: Iterable[str], records: Path, target: Path, *, address: str = ""
) -> Path:
    """Write a chapter's zip: the notebook without outputs, the records that it opens, how to run it.

    With the address of a release the zip keeps to `LIMIT`: the smaller records come first, and what does not
    fit is named in its README. Without one there is all in it.
    """
    chapter = nbformat.read(notebook, as_version=4)
    for cell in chapter.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    layers = any(".layers" in cell.source for cell in chapter.cells if cell.cell_type == "code")
    wanted = {tuple(files_of(records / name)) for name in opened}
    kept = [[path for path in files if layers or path.name not in OF_LAYERS] for files in wanted]
    left_out, room = [], LIMIT - 100_000 if address else sys.maxsize
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(notebook.name, nbformat.writes(chapter) + "\n")
        for files in sorted(kept, key=lambda files: sum(path.stat().st_size for path in files)):
            room -= sum(path.stat().st_size for path in files)
            if files and room < 0:
                left_out.append(name_of(files[0], records))
            for path in files if room >= 0 else ():
                bundle.write(path, f"results/{path.relative_to(records).as_posix()}")
        missing = MISSING.format(address=address, names=", ".join(sorted(left_out))) if left_out else ""
        bundle.writestr("README.txt", HOW + missing)
    return target


def name_of(file: Path, records: Path) -> str:
    """The name by which `open_record` opens the record that has this file.

    >>> name_of(Path("results/base/touch.npz"), Path("results"))
    'base/touch'
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
