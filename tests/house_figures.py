"""How large the house is, room by room: `python tests/house_figures.py [checkout ...]`.

Of each room: lines, statements (`ast`), files, and the share of its code that only refuses bad input. Of the
notebooks: what a reader sees of their code, and how long the chapters are.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "rules, tape": ("rules.py", "tape"),
    "families": ("families",),
    "methods, registry": ("methods", "registry.py", "__init__.py"),
    "records, words, schema, checks": (
        "attribution.py", "words.py", "schema.py", "checks.py",
    ),
    "loading": ("loading",),
    "sources": ("sources",),
    "metrics, show": ("metrics", "show"),
    "widgets (Python)": ("widgets",),
    "toys": ("toys",),
    "check, cli": ("model_check.py", "cli.py", "__main__.py", "terminal.py"),
    "lab": ("lab",),
    "page": ("page",),
}  # fmt: skip
"""What each room of `lrp_companion` holds."""
CHECKS = re.compile(
    r"_?(check|refuse|require|refused|accept|forbid|deny)(_|$)"
    r"|(choose|whole|number|switch|as_path|is_name|is_whole|real_array|bool_array|plain_array)$"
)
"""Functions that refuse what they are given."""
CALLED = {"choose", "whole", "number", "switch", "as_path", "check_options", "check_finite"}
LAB = "lrp_companion/lab"
PARTS = {"got", "expected", "hint", "said", "message", "reason"}
"""Variables that hold parts of a message."""


def lines(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def python(*places: Path) -> list[Path]:
    """The Python files that are these, or in these folders."""
    return sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))


def statements(path: Path) -> int:
    """Statements of a file; a docstring is none."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in nodes)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _span(*nodes: ast.AST) -> range:
    return range(nodes[0].lineno, nodes[-1].end_lineno + 1)  # type: ignore[attr-defined]


def _name(call: ast.AST | None) -> str:
    function = call.func if isinstance(call, ast.Call) else call
    return getattr(function, "id", getattr(function, "attr", ""))


def _refuses(body: Sequence[ast.stmt]) -> bool:
    """Whether a block ends by raising one of the errors that bad input gives."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return (
            _name(last.exc).endswith("Error") or "refus" in _name(last.exc) or _name(last.exc) == "NoNumbers"
        )
    return isinstance(last, ast.Expr) and "refuse" in _name(last.value)


def refusing(body: Sequence[ast.stmt]) -> Iterator[int]:
    """The numbers of the lines that only refuse bad input."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            whole = isinstance(node, ast.FunctionDef) and CHECKS.match(node.name)
            yield from _span(node) if whole else refusing(node.body)
        elif isinstance(node, ast.Raise) and _refuses([node]):
            yield from _span(node)
        elif isinstance(node, ast.If) and _refuses(node.body):
            yield from range(node.lineno, node.body[-1].end_lineno + 1)  # type: ignore[operator]
            yield from refusing(node.orelse)
        elif isinstance(node, (ast.Assign, ast.Expr, ast.Return)):
            targets = [name for target in getattr(node, "targets", ()) for name in ast.walk(target)]
            names = {name.id for name in targets if isinstance(name, ast.Name)}
            called = _name(node.value) if isinstance(node.value, ast.Call) else ""
            if (names and names <= PARTS) or called in CALLED or (not names and CHECKS.match(called)):
                yield from _span(node)
        else:
            blocks = [getattr(node, name, None) or [] for name in ("body", "orelse", "finalbody")]
            cases = [*getattr(node, "cases", ()), *getattr(node, "handlers", ())]
            for block in (*blocks, *(case.body for case in cases)):
                caught = block and any(block is case.body for case in cases) and _refuses(block)
                yield from _span(block[0], block[-1]) if caught else refusing(block)


def shares(path: Path) -> Counter[str]:
    """Lines of code of a file, "refuses" those that only refuse bad input; texts and imports are no code."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    no_code = {number for node in ast.walk(tree) if _is_text(node) for number in _span(node)}
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    no_code |= {number for node in imports for number in _span(node)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kinds = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code = {token.start[0] for token in tokens if token.type not in kinds} - no_code
    refused = set(refusing(tree.body)) & code
    return Counter({"code": len(code), "refuses": len(refused)})


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each room's lines, statements, files, share that refuses; then book and tests."""
    home = root / "lrp_companion"
    places = {name: python(*(home / part for part in parts)) for name, parts in ROOMS.items()}
    places["lrp_companion, all"] = python(home)
    places |= {"book/lrp_book": python(root / "book/lrp_book"), "tests": python(root / "tests")}
    for name, files in places.items():
        kinds = sum(map(shares, files), Counter[str]())
        told = f"{sum(map(lines, files)):>7,} {sum(map(statements, files)):>7,} {len(files):>4}"
        yield name, f"{told} {100 * kinds['refuses'] / max(kinds['code'], 1):5.1f} %"


def _cells(notebook: Path) -> list[tuple[str, str, set[str]]]:
    """Kind, text and tags of each cell."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [(of["cell_type"], "".join(of["source"]), set(of["metadata"].get("tags", []))) for of in cells]


def doors(root: Path) -> Iterator[tuple[str, str]]:
    """Whether a reader could have written the notebooks."""
    folder = root / "notebooks"
    chapters = {path: _cells(path) for path in sorted(folder.glob("*.ipynb"))}
    notebooks = chapters | {path: _cells(path) for path in sorted(folder.glob("exercises/*.ipynb"))}
    code = [(text, tags) for cells in notebooks.values() for kind, text, tags in cells if kind == "code"]
    opened = [text for text, tags in code if not any(tag.startswith(("hide-", "remove-")) for tag in tags)]
    unused = 0
    for cells in notebooks.values():
        declared = "\n".join(text for _, text, tags in cells if "parameters" in tags)
        rest = "\n".join(text for kind, text, tags in cells if kind == "code" and "parameters" not in tags)
        names = re.findall(r"^(\w+) =", declared, re.MULTILINE)
        unused += sum(not re.search(rf"\b{name}\b", rest) for name in names)
    ours = sum("lrp_book" in text for text in ("".join(t for _, t, _ in c) for c in notebooks.values()))
    book = sum(map(lines, python(root / "book")))
    yield "notebooks that import lrp_book", f"{ours} of {len(notebooks)}"
    yield "code cells that are open", f"{len(opened)} of {len(code)}, {100 * len(opened) / len(code):.0f} %"
    yield "lines of the longest code cell", f"{max(len(text.splitlines()) for text, _ in code)}"
    yield "parameters without effect", f"{unused}"
    yield "lines of book/, of book/ and lab", f"{book:,}, {book + sum(map(lines, python(root / LAB))):,}"
    words = {path.stem[:2]: " ".join(t for k, t, _ in c if k == "markdown") for path, c in chapters.items()}
    yield "words of the chapters", ", ".join(f"{name}: {len(text.split()):,}" for name, text in words.items())
    yield "checkout without history", f"{sum(sizes(root)) / 1e6:.1f} MB"


def sizes(root: Path) -> list[int]:
    """Bytes of each file of the last commit."""
    tree = subprocess.check_output(["git", "-C", root, "ls-tree", "-rl", "HEAD"], text=True)
    return [int(row.split()[3]) for row in tree.splitlines()]


def main(roots: list[str]) -> None:
    """Print the figures of each checkout next to one another."""
    columns = [dict(figures(Path(root))) for root in roots or [str(ROOT)]]
    heads = "lines".rjust(7) + "statements".rjust(11) + "files".rjust(6) + "refuse".rjust(7)
    print(" " * 32, *(f"{heads:>31}" for _ in columns))
    for name in columns[0]:
        print(f"{name:<32}", *(f"{column[name]:>31}" for column in columns))
    for root in roots or [str(ROOT)]:
        print()
        for name, said in doors(Path(root)):
            print(f"{name:<32} {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
