"""`python -m benchmarks`: time the package against its peers, write the record and its tables."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks import pages
from benchmarks.cases import CASES, FULL, QUICK, Bench, Size, growth
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.sources import Dataset, load_dataset

PACKAGES = ("torch", "transformers", "captum", "numpy")


def measure(
    *,
    model: str,
    quick: bool,
    threads: int,
    only: list[str] | None,
    reviews: str | None = None,
    into: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the comparisons and return the record: configuration, hardware, versions, rows, growth.

    With `into`, an earlier record of the same setting, the rows of the cases in `only` replace those in it.
    """
    torch.set_num_threads(threads)
    size = QUICK if quick else FULL
    clf = load_classifier(model)
    data = load_dataset("sst2", split="validation")
    long = load_dataset("imdb", split="test", source="folder" if reviews else "embedded", data_dir=reviews)
    setting = _setting(clf, data, size)
    if into:
        _check_same(into, setting)
    chosen = data.order(max(size.sentences, 32 if not quick else 4), seed=0)
    bench = Bench(clf, clf.encode([data.texts[k] for k in chosen], truncate=True), size, long)
    begin, rows, curves = time.time(), [], []
    for name, case in CASES.items():
        if only is None or name in only:
            for row in case(bench):
                rows.append({"case": name, **pages.plain(row)})
                print(pages.line(rows[-1]), flush=True)
    if only is None or "growth" in only:
        for curve in growth(bench):
            curves.append(pages.plain(curve))
            print(pages.growth_line(curves[-1]), flush=True)
    measured: dict[str, Any] = {"seconds": time.time() - begin, "rows": rows, "growth": curves}
    if into and only:
        return {**setting, **_merged(into, measured, only)}
    setting["config"]["only"] = only
    return {**setting, **measured, "seconds": round(measured["seconds"], 1)}


def _setting(clf: Classifier, data: Dataset, size: Size) -> dict[str, Any]:
    """What the times depend on."""
    card, machine = clf.card, setting_of(clf)
    machine["hardware"]["time"] = "of the processor"
    return {
        "config": {
            "quick": size is QUICK,
            "model": card.name,
            "weights": card.fingerprint,
            "dtype": card.dtype,
            "data": data.describe(),
            "sentences": size.sentences,
            "repeats": size.repeats,
            "seed": 0,
        },
        **machine,
    }


def setting_of(clf: Classifier) -> dict[str, Any]:
    """The machine and the versions that a record of times names."""
    return {
        "hardware": {
            "processor": _processor(),
            "threads": torch.get_num_threads(),
            "device": clf.device.type,
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def _merged(record: dict[str, Any], measured: dict[str, Any], only: list[str]) -> dict[str, Any]:
    """An earlier record with the cases of `only` measured again."""
    again = sorted({*record["config"].get("again", []), *only}, key=[*CASES, "growth"].index)
    sources = {name: measured["rows"] if name in only else record["rows"] for name in CASES}
    return {
        "config": {**record["config"], "again": again},
        "seconds": round(measured["seconds"] + record["seconds"], 1),
        "rows": [row for name, rows in sources.items() for row in rows if row["case"] == name],
        "growth": measured["growth"] if "growth" in only else record["growth"],
    }


def _check_same(record: dict[str, Any], setting: dict[str, Any]) -> None:
    config = {key: value for key, value in record["config"].items() if key not in ("only", "again")}
    earlier = {**record, "config": config}
    differing = [f"{name} {value!r}" for name, value in setting.items() if value != earlier[name]]
    if differing:
        expected = "the setting of the record that is there"
        hint = "leave out --only, or name another file with --out"
        raise InputError("benchmarks", got="; ".join(differing), expected=expected, hint=hint)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for text in info.read_text().splitlines():
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    text = "few sentences, two repeats: to see that everything runs and agrees"
    add("--quick", action="store_true", help=text)
    add("--model", default="companion", help="an embedded model, a folder or a hub id")
    add("--threads", type=int, default=1, help="threads of PyTorch (1, as times are the processor's)")
    text = "some of the comparisons, in place of their rows in the record"
    add("--only", nargs="+", choices=[*CASES, "growth"], help=text)
    text = "folder with IMDB, for the row on long reviews; embedded ones by default"
    add("--reviews", metavar="DIR", help=text)
    add("--out", type=Path, default=pages.RECORD, help="the record (results/benchmarks.json)")
    text = "measure nothing: fill the tables of the pages from the record"
    add("--pages", action="store_true", help=text)
    given = parser.parse_args(arguments)
    if not given.pages:
        transformers.utils.logging.set_verbosity_error()
        into = pages.load(given.out) if given.only and given.out.is_file() else None
        options = {name: getattr(given, name) for name in ("model", "quick", "threads", "only", "reviews")}
        pages.write(measure(**options, into=into), given.out)
    if given.pages or given.out == pages.RECORD:
        pages.fill(pages.load(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
