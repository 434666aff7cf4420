"""Format, lint and check the types of the front ends with deno: `python tests/front/check.py`.

A widget's module is `base.js` followed by the widget's text, so types are checked in what `widgets/base.py`
makes of the two, with its comments, in a folder that is gone afterwards; messages name the file and line that
they come from. Nothing is fetched: deno comes from its wheel, and no front end imports anything.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lrp_companion.widgets.base import STATIC, front_end, front_ends, stems

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = ROOT / "lrp_companion" / "page" / "static"
DECKS = ROOT / "book" / "lrp_book" / "sphinx" / "static" / "companion"
TESTS = ROOT / "tests" / "front"
ENGINE = STATIC / "engine"  # modules that are checked as they are
WIDEST = 110
QUIET = {"DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}


def find_deno() -> str | None:
    """Return deno's path: that of this environment, else that of the system, else None."""
    return shutil.which("deno", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def no_deno() -> str:
    """Return why there is no deno here, and what to do."""
    return f"there is no deno for {platform.system()} {platform.machine()} here; install the extra dev"


def in_ci() -> bool:
    """Return whether this is continuous integration, where nothing may be left out."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run deno in the project's folder and return what it said, stderr included."""
    command = [str(find_deno()), *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **QUIET}, check=False, **streams)


def long_lines() -> list[str]:
    """Return every line of a front end that is too long: deno breaks neither strings nor comments."""
    files = [
        path
        for folder in (STATIC, ENGINE, PAGES, DECKS, TESTS)
        for path in sorted(folder.glob("*.[cdjtw][sa]*"))
    ]
    return [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters; {WIDEST} are the most"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > WIDEST
    ]


def check_types() -> list[subprocess.CompletedProcess[str]]:
    """Check what stands alone (the engine, too), each widget with the base in front of it, and the tests."""
    config = ("--config", ROOT / "deno.json")
    modules = [STATIC / "base.js", *sorted(PAGES.glob("*.js")), *sorted(ENGINE.glob("*.js"))]
    alone = run("check", *config, *modules)
    tests = run("check", *config, *sorted(TESTS.glob("*.js")))  # apart: they bring the types of node along
    if alone.returncode:
        return [alone, tests]  # each widget would say the same again
    with tempfile.TemporaryDirectory() as folder:
        modules = [Path(folder, f"{name}.js") for name in front_ends()]
        for module in modules:
            module.write_text(front_end(module.stem, "js"), encoding="utf-8")
        widgets = run("check", *config, *modules)
    widgets.stdout = where_it_is(widgets.stdout, folder)
    return [widgets, tests]


def where_it_is(text: str, folder: str) -> str:
    """Return deno's messages with places in the widgets' own files instead of those in the folder."""

    def place(match: re.Match[str]) -> str:
        line, (*before, last) = int(match["line"]), (STATIC / f"{stem}.js" for stem in stems(match["name"]))
        for path in before:
            lines = path.read_text(encoding="utf-8").count("\n") + 1  # and the line break that joins
            if line <= lines:
                return f"{path.relative_to(ROOT)}:{line}"
            line -= lines
        return f"{last.relative_to(ROOT)}:{line}"

    return re.sub(rf"file://{re.escape(folder)}/(?P<name>\w+)\.js:(?P<line>\d+)", place, text)


def main() -> int:
    """Run every check and return 1 if one fails."""
    if not find_deno():
        print(f"front ends: not checked, because {no_deno()}")
        return int(in_ci())
    wide = long_lines()
    print(*wide, sep="\n", end="\n" if wide else "")
    steps = [run("fmt", "--check"), run("lint"), *check_types()]
    for step in steps:
        if step.returncode:
            print(step.stdout)
    failed = bool(wide) or any(step.returncode for step in steps)
    print(f"front ends: {'see above' if failed else 'formatted, linted, and types checked'}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
