"""The student edition: notebooks and pages without solutions and without instructors' parts.

In a code cell a solution is between the lines `# BEGIN SOLUTION` and `# END SOLUTION`; it is replaced by a
gap that says so when it is run. In a page a solution is a `{solution}` block. Parts for instructors are
admonitions with the title *For instructors*, containers of the class `instructors`, or pages in a folder
called `instructor`.
"""

from __future__ import annotations

import copy
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from lrp_book import sessions
from lrp_companion.checks import InputError

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
# Blocks of a page that are left out; of a deck all that is on no slide.
HIDDEN = (
    "{solution}",
    "{admonition} For instructors",
    "{container} instructors",
    *(f"{{{name}}}" for name in sessions.BLOCKS),
)
GAP = 'raise NotImplementedError("Your code here.")'
INSTRUCTOR = "instructor"  # a folder whose pages students do not get
_SOLUTION = re.compile(
    rf"^(?P<indent>[ \t]*){BEGIN}\n(?:(?!{BEGIN}).)*?^[ \t]*{END}$", re.MULTILINE | re.DOTALL
)
_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|:{3,})\s*(?P<rest>.*)$")


def without_code_solutions(source: str, *, name: str = "cell") -> str:
    r"""Return a cell with a gap in place of every solution.

    Raises
    ------
    InputError
        If a marker is alone, or on a line with code: else a solution would be handed out.

    >>> cell = "def double(x):\n    # BEGIN SOLUTION\n    return 2 * x\n    # END SOLUTION\nprint(1)"
    >>> print(without_code_solutions(cell))
    def double(x):
        raise NotImplementedError("Your code here.")
    print(1)
    """
    out = _SOLUTION.sub(lambda solution: solution["indent"] + GAP, source)
    if BEGIN in out or END in out:
        where, expected = f"student edition of {name}", f"{BEGIN}, code, {END}, markers on lines of their own"
        raise InputError(where, got="a marker without its other", expected=expected, hint="correct them")
    return out


def without_solution_blocks(text: str, *, name: str = "page") -> str:
    r"""Return Markdown without its `{solution}` blocks and what is for instructors, whatever they hold.

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
    lines = text.splitlines()
    fence = ""  # of what is left out, or of any other block that may only show how one is written
    dropping, begun = False, 0
    for number, line in enumerate(lines, start=1):
        mark = _FENCE.match(line)
        if not fence and mark:
            dropping = mark["rest"].startswith(HIDDEN)
            # A solution inside an admonition of colons is still one: only code-like fences hide it.
            if dropping or mark["fence"][0] == "`":
                fence, begun = mark["fence"], number
            closes = False
        else:
            closes = bool(fence and mark and mark["fence"].startswith(fence) and not mark["rest"])
        if not dropping:
            kept.append(line)
        if closes:
            fence, dropping = "", False
    if fence and dropping:
        got = f"a solution in line {begun}"
        raise InputError(f"student edition of {name}", got=got, expected="its end", hint="close the block")
    if len(kept) == len(lines):
        return text
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept) + ("\n" if text.endswith("\n") else ""))


def student_notebook(
    notebook: nbformat.NotebookNode, *, name: str = "notebook", keep_outputs: bool = False
) -> nbformat.NotebookNode:
    """Return a copy without solutions and outputs, which were made with them.

    With `keep_outputs` only the cells that had a solution lose their output.
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
    """Remove solutions and instructors' parts from a book's sources, in place; return what changed.

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
        gone = sorted(path for path in place.rglob("*") if path.is_file())
        gone += [quiz for page in gone for quiz in folder.rglob(f"quizzes/{page.stem}.toml")]
        for path in gone:
            path.unlink()
        changed += gone
        shutil.rmtree(place)
    for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.ipynb")]):
        before = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = without_solution_blocks(before, name=path.name)
        else:
            notebook = nbformat.reads(before, as_version=4)
            stripped = student_notebook(notebook, name=path.name, keep_outputs=True)
            after = nbformat.writes(stripped) + "\n" if stripped != notebook else before
        if link := re.search(rf"\b{INSTRUCTOR}/[\w.-]+", after):
            where, got = f"student edition of {path.name}", f"a link to {link[0]}"
            expected = "such a link only in an admonition For instructors or a container instructors"
            raise InputError(where, got=got, expected=expected, hint="move the link")
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def write_notebooks(source: Path, target: Path) -> list[Path]:
    """Write the student form of every notebook in a folder into another; return the new files."""
    written = []
    for path in sorted(source.glob("*.ipynb")):
        target.mkdir(parents=True, exist_ok=True)
        notebook = student_notebook(nbformat.read(path, as_version=4), name=path.name)
        nbformat.write(notebook, target / path.name)
        written.append(target / path.name)
    return written


BUNDLED = ("book/lrp_exercises/*.py", "LICENSE")
"""What `check` needs: NumPy and these files; torch for the one exercise that differentiates."""
HOW = """Exercises of the LRP Companion, without an installation of it.

    python -m pip install numpy jupyterlab
    jupyter lab .

Keep the folder beside the notebooks: it holds what `check` needs. One exercise (detached-attention) is
about torch and needs it; all others need NumPy alone.
"""


def write_bundle(root: Path, notebooks: Sequence[Path], target: Path) -> Path:
    """Write a zip file of notebooks and of the few files that `check` needs; return its path."""
    files = {path.name: path for path in notebooks}
    for pattern in BUNDLED:
        files |= {str(path.relative_to(root)).removeprefix("book/"): path for path in root.glob(pattern)}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("lrp-exercises/README.txt", HOW)
        for name, path in sorted(files.items()):
            bundle.write(path, f"lrp-exercises/{name}")
    return target
