"""How large the house is, in the figures it is kept to: `python tests/house_figures.py [checkout ...]`."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ("rules", "propagation", "tape/attention", "tape/layer", "tape/steps", "tape/encoder")
OLD = {"tape/": "models/"}
"""Where the core lay before the library had its folders."""


def lines(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def python(folder: Path) -> list[Path]:
    """The Python files of a folder, none if it is not there."""
    return sorted(folder.rglob("*.py"))


def long_signatures(folder: Path) -> float:
    """The share of functions with more than six parameters, `self` not counted."""
    counts = []
    for path in python(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                counts.append(sum(argument.arg not in ("self", "cls") for argument in given))
    return sum(count > 6 for count in counts) / len(counts)


def comments(path: Path) -> int:
    """Comments of a file, markers for tools left out."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    said = (token.string for token in tokens if token.type == tokenize.COMMENT)
    return sum(not text.startswith(("# noqa", "# fmt:", "# type:")) for text in said)


def core(root: Path) -> list[Path]:
    """The six core files, where this checkout has them."""
    named = [root / "lrp_companion" / f"{name}.py" for name in CORE]
    return [
        path if path.is_file() else Path(str(path).replace("/tape/", f"/{OLD['tape/']}")) for path in named
    ]


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each figure by its name."""
    library, book, tests = (python(root / name) for name in ("lrp_companion", "book/lrp_book", "tests"))
    yield "Python lines that pip install brings", f"{sum(map(lines, library)):,}"
    yield "files of it", str(len(library))
    yield "Python lines of package and book code", f"{sum(map(lines, library + book)):,}"
    yield "Python lines of tests", f"{sum(map(lines, tests)):,}"
    yield (
        "functions of methods/ with more than six parameters",
        f"{long_signatures(root / 'lrp_companion/methods'):.1%}",
    )
    said = 100 * sum(map(comments, core(root))) / sum(map(lines, core(root)))
    yield "comments in the six core files, per 100 lines", f"{said:.1f}"
    everything = [*library, *book, *tests, *python(root / "benchmarks"), *python(root / "training")]
    marks = sum(path.read_text(encoding="utf-8").count("# fmt: " + "skip") for path in everything)
    yield "'fmt: skip'", str(marks)
    page = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    yield "rows of CONTRIBUTING's map; longest", f"{len(rows)}; {max(map(len, rows))} characters"


def main(roots: list[str]) -> None:
    """Print the figures of each checkout next to one another."""
    columns = [dict(figures(Path(root))) for root in roots or [str(ROOT)]]
    for name in columns[0]:
        print(f"{name:<55}", *(f"{column[name]:>26}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
