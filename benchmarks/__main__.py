"""`python -m benchmarks`: time the package against its peers, write the record and the tables made from
it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks import pages
from benchmarks.cases import CASES, FULL, QUICK, Bench, growth
from lrp_companion.models.pretrained import load_classifier
from lrp_companion.schema import InputError
from lrp_companion.sources import load_dataset

PACKAGES = ("torch", "transformers", "captum", "numpy")


def measure(
    *,
    model: str,
    quick: bool,
    threads: int | None,
    only: list[str] | None,
    reviews: str | None = None,
    into: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the comparisons and return the record: configuration, hardware, versions, rows, growth.

    With `into`, an earlier record of the same setting, the rows of the cases in `only` take the place of its
    own.
    """
    if threads:
        torch.set_num_threads(threads)
    size = QUICK if quick else FULL
    clf = load_classifier(model)
    data = load_dataset("sst2", split="validation")
    long = load_dataset("imdb", split="test", source="folder" if reviews else "embedded", data_dir=reviews)
    setting: dict[str, Any] = {
        "config": {
            "quick": quick, "model": clf.card.name, "weights": clf.card.fingerprint, "dtype": clf.card.dtype,
            "data": data.describe(),
            "sentences": size.sentences, "repeats": size.repeats, "seed": 0,
        },
        "hardware": {"processor": _processor(), "threads": torch.get_num_threads(),
            "device": clf.device.type},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }  # fmt: skip
    if into:
        _check_same(into, setting)
    chosen = data.order(max(size.sentences, 32 if not quick else 4), seed=0)
    bench = Bench(clf, clf.encode([data.texts[k] for k in chosen], truncate=True), size, long)
    begin, rows, curves = time.time(), [], []
    for name, case in CASES.items():
        if only is None or name in only:
            for row in case(bench):
                rows.append({"case": name, **_plain(row)})
                print(pages.line(rows[-1]), flush=True)
    if only is None or "growth" in only:
        for curve in growth(bench):
            curves.append(_plain(curve))
            print(pages.growth_line(curves[-1]), flush=True)
    config, seconds = setting["config"], time.time() - begin
    if into and only:
        again = sorted({*into["config"].get("again", []), *only}, key=[*CASES, "growth"].index)
        config = {**into["config"], "again": again}
        rows = [
            row for name in CASES for row in (rows if name in only else into["rows"]) if row["case"] == name
        ]
        curves, seconds = curves if "growth" in only else into["growth"], seconds + into["seconds"]
    else:
        config["only"] = only
    return {**setting, "config": config, "seconds": round(seconds, 1), "rows": rows, "growth": curves}


def _check_same(record: dict[str, Any], setting: dict[str, Any]) -> None:
    config = {key: value for key, value in record["config"].items() if key not in ("only", "again")}
    other = [
        f"{name} {setting[name]!r}"
        for name in setting
        if setting[name] != (config if name == "config" else record[name])
    ]
    if other:
        expected = "the setting of the record that is there"
        raise InputError(
            "benchmarks",
            got="; ".join(other),
            expected=expected,
            hint="leave out --only, or name another file with --out",
        )


def write(record: dict[str, Any], out: Path) -> None:
    """Write the record so that it is there whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(part, out)


def _plain(value: Any) -> Any:
    """Numbers to five digits, NaN as null."""
    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.5g}")
    return value


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
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few sentences, two repeats: to see that everything runs and agrees",
    )
    parser.add_argument("--model", default="companion", help="an embedded model, a folder or a hub id")
    parser.add_argument("--threads", type=int, help="threads of PyTorch; its own choice by default")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*CASES, "growth"],
        help="some of the comparisons, in place of their rows in the record",
    )
    parser.add_argument(
        "--reviews",
        metavar="DIR",
        help="folder with IMDB, for the row on long reviews; embedded ones by default",
    )
    parser.add_argument("--out", type=Path, default=pages.RECORD, help="the record (results/benchmarks.json)")
    parser.add_argument(
        "--pages", action="store_true", help="measure nothing: fill the tables of the pages from the record"
    )
    given = parser.parse_args(arguments)
    if not given.pages:
        transformers.utils.logging.set_verbosity_error()
        into = pages.load(given.out) if given.only and given.out.is_file() else None
        options = {
            "model": given.model,
            "quick": given.quick,
            "threads": given.threads,
            "only": given.only,
            "reviews": given.reviews,
        }
        write(measure(**options, into=into), given.out)
    if given.pages or given.out == pages.RECORD:
        pages.fill(pages.load(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
