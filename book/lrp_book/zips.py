"""What travels: a zip for each chapter with the records that it reads, and one for each record and model of a
release.

`python -m lrp_book.zips FOLDER` writes the second kind and `checksums.txt`, from which `lrp.open_record` and
`lrp.load_classifier` fetch what it names, wherever the folder is served.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pyarrow as pa

import lrp_companion
from lrp_companion.lab.folder import JOB, MANIFEST, WHOLE, Axes, table_bytes
from lrp_companion.lab.load import SIGN, SIGN_AXES, TextRun
from lrp_companion.lab.record import open_record
from lrp_companion.metrics.faithfulness import AXES
from lrp_companion.schema import mask_label
from lrp_companion.sources.release import CHECKSUMS, WEIGHTS, archive

PAIR = {"explainer": ["attnlrp", "cp-lrp"]}
PLAIN = {
    "site": ["word", "word+position"],
    "removal": ["attention-mask"],
    "target": ["logit"],
    "statistic": ["pearson", "spearman"],
}
JUDGED = {"explainer": ["loo", "attnlrp", "cp-lrp", "mask-gradient"]}
EDGES = ["key-cut", "secant-mask-gradient", "secant-mask-gradient:special=secant"]
THIRDS = ["none", "1 to 4", "1 to 8", "1 to 12", "5 to 12", "9 to 12"]
PARTS = "example special units loo shapley"
LAYERS = {"sst2-companion": ("methods.morf masks.r lattice_means.*", PAIR | PLAIN)}
CLAIMS = ("methods.r methods.morf methods.lerf masks.r masks.morf masks.lerf", PLAIN)
BOARD = ("methods.r", PAIR)
DRAWN: dict[str, dict[str, tuple[str, dict[str, list[str]]]]] = {
    "03": LAYERS,
    "04": LAYERS,
    "05": {
        "*b-companion*": CLAIMS,
        "sst2-companion*": CLAIMS,
        "trainings/sst2-companion-6-short-*": ("methods.r examples.*", PAIR | PLAIN),
        "wirings/post-ln-first-*": ("methods.r examples.*", PAIR | PLAIN),
        "base/*": ("r", PAIR | PLAIN),
        "smollm2/*": ("r", PAIR | PLAIN),
        "*/*": ("methods.r", PAIR | PLAIN),
    },
    "06": {
        "maps/*": ("methods.map examples.*", PAIR | PLAIN),
        "trainings/*": ("methods.r", PAIR | PLAIN),
        "sst2-companion": ("methods.r masks.r", PAIR | {"bypassed": THIRDS}),
        "*-companion*": BOARD,
    },
    "07": {
        "frontier/*": ("methods.r methods.passes", PLAIN),
        "maps/*": ("methods.r", {"explainer": ["attnlrp", "mask-gradient"], "site": ["word"]}),
        "edge-formula/*": (
            "methods.r methods.map examples.*",
            PLAIN | {"explainer": ["attnlrp", "cp-lrp", "mask-gradient", *EDGES]},
        ),
        "shapley/*": (PARTS, {}),
    },
    "08": {
        "frontier/*": ("methods.morf methods.lerf", {}),
        "wirings/*": ("methods.r", JUDGED | PLAIN),
        "labels-only/*": ("methods.r", PAIR | PLAIN),
        "random-masks/*": ("methods.r", PAIR | PLAIN),
        "shapley/companion": (
            f"{PARTS} attnlrp cp-lrp ig interactions mask-gradient mask-gradient-8",
            {},
        ),
        "shapley/*": (f"{PARTS} attnlrp cp-lrp mask-gradient", {}),
        "planted/*": ("*signed", {}),
    },
    "09": {
        "*-maps": ("r morf* lerf*", PLAIN | {"explainer": ["attnlrp", "cp-lrp", "mask-gradient", "ig"]}),
        "*-imdb": ("r", PAIR | PLAIN),
        "*-rest": ("r", PAIR | PLAIN),
    },
    "session3": {
        "base/*": ("r", PAIR | PLAIN),
        "smollm2/*": ("r", PAIR | PLAIN),
        "*": ("methods.r", PAIR | PLAIN),
    },
}
"""Of the records that a chapter opens what it draws: columns of tables or names of arrays, and options of the
axes, all where none are named. A record without an entry is whole.
"""
HOW = f"""How to run this chapter. WHEELS is the folder of the wheels: files of a release, or made in a
checkout by `python3 packaging/build.py WHEELS`.

    python -m pip install --find-links WHEELS "lrp-companion[book]=={lrp_companion.__version__}" jupyterlab
    python -m pip install --find-links WHEELS --no-deps lrp-companion-model
    jupyter lab

Open the notebook next to this file, beside its results; it comes without outputs and runs in a minute or
two. A record may hold fewer methods and columns here than its manifest names: what the chapter draws. More
of it is in a checkout and in a release. Links to other chapters and pages work in the book.
"""


def files_of(record: Path) -> list[Path]:
    """The files of a record, given one of them: all of a run's folder, or the two of a name."""
    if (record.parent / "manifest.json").is_file():
        return sorted(path for path in record.parent.iterdir() if path.is_file())
    return [path for ending in (".npz", ".json") if (path := record.with_suffix(ending)).is_file()]


def write_chapter(notebook: Path, opened: Iterable[str], records: Path, target: Path) -> Path:
    """Write a chapter's zip: the notebook without outputs, what it draws of records, how to run it."""
    chapter = nbformat.read(notebook, as_version=4)
    for cell in chapter.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:  # what only the book reads: labels, and links that take a chapter's title
            text = re.sub(r"^\([\w-]+\)=\n", "", cell.source, flags=re.MULTILINE)
            cell.source = re.sub(r"\[\]\(0(\d)_", r"[chapter \1](0\1_", text)
    drawn = DRAWN.get(notebook.stem.partition("_")[0], {})
    files = {name_of(records / file, records): files_of(records / file) for file in opened}
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(notebook.name, nbformat.writes(chapter) + "\n")
        for name, whole in sorted(files.items()):
            kept = {path: path.read_bytes() for path in whole}
            if entry := next((of for pattern, of in drawn.items() if fnmatch.fnmatch(name, pattern)), None):
                kept |= cut(records, name, *entry)
            for path, content in kept.items():
                if content:
                    bundle.writestr(f"results/{path.relative_to(records).as_posix()}", content)
        bundle.writestr("README.txt", HOW)
    return target


def cut(records: Path, name: str, columns: str, axes: Mapping[str, list[str]]) -> dict[Path, bytes]:
    """The files of a record that change where it has these columns and options alone; b"": one that goes."""
    record, wanted = open_record(name, results=records), columns.split()
    (part,) = record.parts.values()
    if isinstance(part, TextRun):
        return _cut_run(part, records / name, wanted, axes)
    arrays: dict[str, Any] = {column: of for column, of in record.arrays.items() if _in(column, wanted)}
    if "r" in wanted:
        options = {str(axis): record.r[axis].values.tolist() for axis in record.r.dims if axis != "text"}
        options = _chosen(options, axes)
        arrays |= {"example": record.arrays["example"], "r": record.r.sel(options).values}
        arrays |= {axis: np.array(of) for axis, of in options.items()}
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return {records / f"{name}.npz": out.getvalue()}


def _in(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _chosen(options: Mapping[str, Iterable[str]], axes: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {axis: [one for one in of if one in axes.get(axis, of)] for axis, of in options.items()}


def _cut_run(
    run: TextRun, place: Path, wanted: list[str], axes: Mapping[str, list[str]]
) -> dict[Path, bytes]:
    masks = {mask_label(mask): mask for mask in run.masks}
    known = {**run.options, "explainer": run.methods, "bypassed": masks}
    small = _chosen({axis: of for axis, of in known.items() if axis != "map"}, axes)
    out = {}
    for name, table in run.tables.items():
        columns = [column for column in table.column_names if _in(f"{name}.{column}", wanted)]
        content = b""
        if columns:
            keys = [key for key in (JOB, "method", "mask") if key in {*table.column_names} - {*columns}]
            rows = table.select([*columns, *keys])
            if name in ("methods", "masks"):
                of = small["explainer"] if name == "methods" else map(masks.get, small["bypassed"])
                rows = pa.concat_tables([_cut_rows(run, each, rows, small) for each in of])
            elif "after" in columns:
                removals = run.options["removal"]
                places = [removals.index(removal) for removal in small["removal"]]
                after = (
                    np.reshape(of, (len(removals), -1))[places].ravel() for of in rows["after"].to_pylist()
                )
                after = pa.array(list(after), rows["after"].type)
                rows = rows.set_column(rows.column_names.index("after"), "after", after)
            content = table_bytes(rows, run.manifest["key"]).to_pybytes()
        out[place / f"{name}.parquet"] = content
    axes = {**run.manifest["axes"], **small}
    manifest = {WHOLE: "a checkout or a release", **run.manifest, "axes": axes}
    return out | {place / MANIFEST: json.dumps(manifest).encode()}


def _cut_rows(run: TextRun, of: Any, table: pa.Table, small: Mapping[str, list[str]]) -> pa.Table:
    """The rows of an explanation; r under some choices, and its signs in place of the maps' sums."""
    rows = table.take(run.rows(of))
    if "r" not in rows.column_names:
        return rows
    r = run.agreement({"of": of}).sel(explainer="of", map="raw")
    for column, values, names in (("r", r, AXES), (SIGN, run.signs(of), SIGN_AXES)):
        options = {name: [one for one in small[name] if one in values[name]] for name in names}
        new = Axes(options).column(values.sel(options).transpose("example", *names).values)
        rows = rows.drop_columns([column]) if column == "r" else rows
        rows = rows.append_column(column, new)
    return rows


def name_of(file: Path, records: Path) -> str:
    """The name by which `open_record` opens the record that has this file.

    >>> name_of(Path("results/base/touch.npz"), Path("results"))
    'base/touch'
    """
    run = (file.parent / "manifest.json").is_file()
    return (file.parent if run else file.with_suffix("")).relative_to(records).as_posix()


def all_files(root: Path) -> Iterator[tuple[str, list[Path]]]:
    """Every record of a checkout by its name, with its files, and every model whose weights are here."""
    records = root / "results"
    for name, file in {name_of(file, records): file for file in sorted(records.rglob("*.json"))}.items():
        yield name, files_of(file)
    for folder, name in WEIGHTS.items():
        if any((root / folder).glob("*.safetensors")):
            yield name, sorted((root / folder).iterdir())


def write_release(root: Path, target: Path) -> Path:
    """Write a zip for each record and model of a checkout, and the checksums of all; the same files give the
    same bytes.
    """
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, files in all_files(root):
        made = target / archive(name)
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path in files:
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix())
                bundle.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        lines.append(f"{made.name} sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n")
    (target / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
    return target / CHECKSUMS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lrp_book.zips", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    root, folder = Path(__file__).resolve().parents[2], parser.parse_args().folder
    if missing := [of for of in WEIGHTS if not any((root / of).glob("*.safetensors"))]:
        parser.error(f"run make weights first; here are none of {', '.join(missing)}")
    print(write_release(root, folder))
