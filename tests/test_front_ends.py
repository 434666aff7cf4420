"""The front ends without a page: deno's own tests, and the widgets' numbers against the package's.

Without deno all of this skips, with the reason, and fails in continuous integration.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from browsing import ROOT
from front.check import QUIET
from test_product import all_groupings

from lrp_companion.metrics import pearson
from lrp_companion.show.palette import hexes
from lrp_companion.show.tokens import decimals
from lrp_companion.toys import write
from lrp_companion.widgets.base import SHARED, STATIC, front_ends, minified

READS = "--allow-read=lrp_companion/widgets/static"


def run(deno: str, *arguments: str, given: str = "") -> str:
    """Run deno with nothing to reach but the front ends, and return its output."""
    done = subprocess.run(
        [deno, *arguments], input=given, cwd=ROOT, env={**os.environ, **QUIET}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answers(deno: str, front: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what the calls of a front end's functions return, each given as a name and its arguments."""
    given = json.dumps({"front": front, "calls": calls}, allow_nan=False)
    command = ("run", "--no-remote", "--no-check", READS, "tests/front/answer.js")
    return json.loads(run(deno, *command, given=given))


def each(deno: str, front: str, name: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what one function returns for each list of arguments."""
    return answers(deno, front, [(name, *given) for given in arguments])


def test_deno_tests_pass(deno: str) -> None:
    said = run(deno, "test", "--no-remote", f"--allow-read={STATIC}", "--", f"{STATIC.as_uri()}/")
    assert int(re.search(r"(\d+) passed", said)[1]) > 70


def test_deno_tests_pass_on_what_pages_load(deno: str, tmp_path: Path) -> None:
    for name in ("base", *SHARED, *front_ends()):
        script = (STATIC / f"{name}.js").read_text(encoding="utf-8")
        (tmp_path / f"{name}.js").write_text(minified(script), encoding="utf-8")
    said = run(
        deno, "test", "--no-remote", "--no-check", f"--allow-read={tmp_path}", "--", f"{tmp_path.as_uri()}/"
    )
    assert int(re.search(r"(\d+) passed", said)[1]) > 70


def test_colours_are_the_palettes(deno: str) -> None:
    values = np.linspace(-1.25, 1.25, 501).tolist()
    assert each(deno, "base", "shade", [[value] for value in values]) == hexes(values)


def test_scores_are_written_as_in_the_heat_map(deno: str) -> None:
    generator = np.random.default_rng(0)
    rows = [(generator.normal(size=6) * 10.0**power).tolist() for power in range(-9, 4)] + [[0.0, 0.0]]
    digits = each(deno, "base", "decimalsFor", [[row] for row in rows])
    assert digits == [decimals(np.array(row)) for row in rows]
    pairs = [(score, count) for row, count in zip(rows, digits, strict=True) for score in row]
    assert each(deno, "base", "sayScore", pairs) == [f"{score:+.{count}f}" for score, count in pairs]


def test_r_is_the_metrics(deno: str) -> None:
    generator = np.random.default_rng(1)
    pairs = generator.normal(size=(40, 2, 9)).round(3)
    special = generator.random((40, 9)) < 0.2
    given = [[*pair.tolist(), (~out).tolist()] for pair, out in zip(pairs, special, strict=True)]
    expected = [pearson(*pair[:, ~out]) for pair, out in zip(pairs, special, strict=True)]
    np.testing.assert_allclose(each(deno, "base", "pearson", given), expected, atol=1e-12)
    assert each(deno, "base", "pearson", [[[1, 1, 1], [1, 2, 3]]]) == [None]


GROUPINGS = [grouping for count in (2, 3, 4, 5) for grouping in all_groupings(count)]


def as_json(grouping: Any) -> Any:
    return grouping if isinstance(grouping, int) else [as_json(part) for part in grouping]


def test_groupings_are_read_and_written_alike(deno: str) -> None:
    texts = [write(grouping) for grouping in GROUPINGS]
    assert each(deno, "product_tree", "write", [[as_json(grouping)] for grouping in GROUPINGS]) == texts
    assert each(deno, "product_tree", "parse", [[text] for text in texts]) == [
        as_json(grouping) for grouping in GROUPINGS
    ]
