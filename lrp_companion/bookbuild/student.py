"""The student edition: solutions, and what is for instructors, are taken out of notebooks and pages, and
nothing else is changed.

In a code cell a solution stands between the lines `# BEGIN SOLUTION` and `# END SOLUTION`; in its place comes
a gap that says so when it is run. In a page a solution is a `{solution}` block. What is for instructors is an
admonition with the title *For instructors*, or a page in a folder called `instructor`.
"""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path

import nbformat

from lrp_companion.schema import InputError

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
HIDDEN = (
    "{solution}",
    "{answers}",
    "{admonition} For instructors",
)  # blocks of a page; answers are a speaker's notes
GAP = 'raise NotImplementedError("Your code here.")'
INSTRUCTOR = "instructor"  # a folder whose pages students do not get
_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|:{3,})\s*(?P<rest>.*)$")


def without_code_solutions(source: str, *, name: str = "cell") -> str:
    r"""Return a cell with a gap in place of every solution.

    Raises
    ------
    InputError
        If a marker stands alone, inside another pair, or beside code.

    >>> print(without_code_solutions("def double(x):\n    # BEGIN SOLUTION\n    return 2 * x\n    # END SOLUTION\nprint(1)"))
    def double(x):
        raise NotImplementedError("Your code here.")
    print(1)
    """
    kept: list[str] = []
    begun = 0
    for number, line in enumerate(source.splitlines(), start=1):
        marker = line.strip()
        alone = marker in (BEGIN, END)
        if not alone and (BEGIN in line or END in line):
            raise _bad_marker(name, number, line, "a line of its own")
        if (marker == BEGIN and begun) or (marker == END and not begun):
            raise _bad_marker(name, number, line, f"{BEGIN}, code, {END}")
        if marker == BEGIN:
            begun = number
            kept.append(line[: len(line) - len(line.lstrip())] + GAP)
        elif marker == END:
            begun = 0
        elif not begun:
            kept.append(line)
    if begun:
        raise _bad_marker(name, begun, BEGIN, f"an {END} after it")
    return "\n".join(kept) + ("\n" if source.endswith("\n") else "")


def _bad_marker(name: str, number: int, line: str, expected: str) -> InputError:
    return InputError(
        f"student edition of {name}",
        got=f"{line.strip()!r} in line {number}",
        expected=expected,
        hint="mend the markers",
    )


def without_solution_blocks(text: str, *, name: str = "page") -> str:
    r"""Return Markdown without its `{solution}` blocks and what is for instructors, whatever stands inside
    them.

    Raises
    ------
    InputError
        If a block has no end.

    >>> without_solution_blocks("Before\n\n````{solution} ex-one\n```python\nx = 1\n```\n````\n\nAfter\n")
    'Before\n\nAfter\n'
    >>> without_solution_blocks("Before\n\n:::{admonition} For instructors\nThe answer is 1.\n:::\n\nAfter\n")
    'Before\n\nAfter\n'
    """
    kept: list[str] = []
    inside = ""  # the fence of what is left out, or of any other block that may only show how one is written
    dropping = False
    begun = 0
    for number, line in enumerate(text.splitlines(), start=1):
        found = _FENCE.match(line)
        if not inside and found:
            dropping = found["rest"].startswith(HIDDEN)
            # a solution inside an admonition of colons is still one, so only code-like fences hide their
            # content
            if dropping or (found["fence"][0] == "`" and found["rest"]):
                inside, begun = found["fence"], number
            elif found["fence"][0] == "`":
                inside = found["fence"]
            if not dropping:
                kept.append(line)
            continue
        closes = inside and found and found["fence"].startswith(inside) and not found["rest"]
        if closes:
            inside = ""
            if not dropping:
                kept.append(line)
            dropping = False
        elif not dropping:
            kept.append(line)
    if inside and dropping:
        raise InputError(
            f"student edition of {name}",
            got=f"a solution in line {begun}",
            expected="its end",
            hint="close the block",
        )
    return (
        re.sub(r"\n{3,}", "\n\n", "\n".join(kept) + ("\n" if text.endswith("\n") else ""))
        if len(kept) < len(text.splitlines())
        else text
    )


def student_notebook(
    notebook: nbformat.NotebookNode, *, name: str = "notebook", keep_outputs: bool = False
) -> nbformat.NotebookNode:
    """Return a copy without solutions; outputs go as well (they were made with them), unless `keep_outputs`
    is set.

    A cell with a solution always loses its output.
    """
    out = copy.deepcopy(notebook)
    for number, cell in enumerate(out.cells, start=1):
        before, where = cell.source, f"{name}, cell {number}"
        if cell.cell_type == "code":
            cell.source = without_code_solutions(before, name=where)
            if not keep_outputs or cell.source != before:
                cell.outputs, cell.execution_count = [], None
        elif cell.cell_type == "markdown":
            cell.source = without_solution_blocks(before, name=where)
    return out


def without_instructor_pages(toc: str) -> str:
    r"""Return a table of contents without the pages in a folder called `instructor`.

    >>> without_instructor_pages("sections:\n- file: course/session1\n- file: course/instructor/session1\n")
    'sections:\n- file: course/session1\n'
    """
    return re.sub(rf"^ *- file: (?:\S*/)?{INSTRUCTOR}/\S+\n", "", toc, flags=re.MULTILINE)


def strip_folder(folder: Path) -> list[Path]:
    """Take solutions and what is for instructors out of the sources of a book, in place; return what was
    changed.

    Outputs of a book's executed notebooks stay: they are part of its pages.

    Raises
    ------
    InputError
        If a page that stays names one that goes: the link would lead nowhere.
    """
    changed = []
    for contents in folder.glob("_toc.yml"):
        contents.write_text(without_instructor_pages(contents.read_text(encoding="utf-8")), encoding="utf-8")
    for place in sorted(folder.rglob(INSTRUCTOR)):
        changed += sorted(path for path in place.rglob("*") if path.is_file())
        shutil.rmtree(place)
    for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.ipynb")]):
        before = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = without_solution_blocks(before, name=path.name)
        else:
            notebook = nbformat.reads(before, as_version=4)
            stripped = student_notebook(notebook, name=path.name, keep_outputs=True)
            after = nbformat.writes(stripped) + "\n" if stripped != notebook else before
        if found := re.search(rf"\b{INSTRUCTOR}/[\w.-]+", after):
            expected = "such a link only in an admonition with the title For instructors"
            raise InputError(
                f"student edition of {path.name}",
                got=f"a link to {found[0]}",
                expected=expected,
                hint="move the link",
            )
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def write_notebooks(source: Path, target: Path) -> list[Path]:
    """Write the student form of every notebook in a folder into another, without outputs; return the new
    files.
    """
    written = []
    for path in sorted(source.glob("*.ipynb")):
        target.mkdir(parents=True, exist_ok=True)
        nbformat.write(
            student_notebook(nbformat.read(path, as_version=4), name=path.name), target / path.name
        )
        written.append(target / path.name)
    return written
