"""`python -m lrp_book build | student | refresh [NOTEBOOK]`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from lrp_companion.checks import CompanionError, InputError, SourceError

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("_toc.yml", "notebooks", "book")
TOOLS = {"papermill": "papermill", "nbformat": "nbformat", "jupyter_book": "jupyter-book"}


def check_place(root: Path = ROOT) -> None:
    """Refuse to build without the book's pages, as from an installed wheel, or without its tools."""
    if not all((root / part).exists() for part in PARTS):
        got, expected = f"a package in {root}, without the book's pages", "a checkout of the project"
        hint = "clone the repository and run make book there"
        raise SourceError("bookbuild", got=got, expected=expected, hint=hint)
    missing = [name for module, name in TOOLS.items() if importlib.util.find_spec(module) is None]
    if missing:
        got, hint = f"no {' and no '.join(missing)}", "run make book, which sets up what it needs"
        raise InputError("bookbuild", got=got, expected="the tools of the book", hint=hint)


def main() -> int:
    """Check the place, then build; return the exit code."""
    try:
        check_place()
    except CompanionError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    from lrp_book.build import main as build

    return build()


if __name__ == "__main__":
    raise SystemExit(main())
