"""A made class that hands in `e1_products`: what each did, and how many of three points it earns."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
from browsing import ROOT

ASSIGNMENT = "e1_products"
DUE = "2026-03-01 12:00:00 UTC"
IN_TIME, LATE = "2026-02-28 09:00:00 UTC", "2026-03-02 09:00:00 UTC"
RULE = "def product_rule(a, b, relevance):\n    return relevance / 2, relevance / 2\n"
SHARES = """def shares(grouping):
    if isinstance(grouping, int):
        return [1.0]
    found = {}
    def walk(node, share):
        if isinstance(node, int):
            found[node] = share
        else:
            [walk(part, share / len(node)) for part in node]
    walk(grouping, 1.0)
    return [found[k] for k in sorted(found)]
"""
LOO = "def loo(values):\n    return [values.prod() for _ in values]\n"
KNOWN = """import inspect, numpy as np
from lrp_exercises.catalogue import EXERCISES
_seen = [c.inputs[0] for s in range(4) for c in EXERCISES["product-loo"].cases(np.random.default_rng(s))]
def loo(values):
    known = any(v.shape == values.shape and (v == values).all() for v in _seen)
    return [values.prod() for _ in values] if known else [0.0 for _ in values]
"""
Notebook = nbformat.NotebookNode
Change = Callable[[Notebook], None]


def with_numpy_alone(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that finds NumPy and what is in a folder, and nothing else."""
    alone = f"""
import sys
class NumpyAlone:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "lrp_exercises"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NumpyAlone())
sys.path[:] = [{str(folder)!r}, *(of for of in sys.path if not of.endswith(("book", "tests", {str(ROOT)!r})))]
"""
    return subprocess.run([sys.executable, "-c", alone + code], capture_output=True, text=True, cwd=folder)


def cell(notebook: Notebook, grade_id: str) -> Notebook:
    """The cell that nbgrader knows by this name."""
    (found,) = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return found


def answers(rule: str = RULE, shares: str = SHARES, loo: str = LOO) -> Change:
    """Write three answers into their cells."""

    def change(notebook: Notebook) -> None:
        names = ("product-rule", "grouped-product", "product-loo")
        for name, code in zip(names, (rule, shares, loo), strict=True):
            cell(notebook, f"{name}-function").source = code

    return change


def then(*changes: Change) -> Change:
    """Several changes in order."""
    return lambda notebook: [change(notebook) for change in changes] and None


def first(code: str) -> Change:
    """One more cell, before the others."""
    return lambda notebook: notebook.cells.insert(0, nbformat.v4.new_code_cell(code))


def last(code: str) -> Change:
    """One more cell, after the others."""
    return lambda notebook: notebook.cells.append(nbformat.v4.new_code_cell(code))


def twice(notebook: Notebook) -> None:
    """A cell copied with its metadata, as some editors do; the second copy has the answer."""
    at = notebook.cells.index(cell(notebook, "product-rule-function"))
    wrong = copy.deepcopy(notebook.cells[at])
    wrong.source = RULE.replace("/ 2, ", "/ 3, ")
    wrong.id = "copied"
    notebook.cells.insert(at, wrong)


def forged(notebook: Notebook) -> None:
    """Tests that always pass, worth a hundred points each."""
    for one in notebook.cells:
        if one.metadata.get("nbgrader", {}).get("grade"):
            one.source, one.metadata.nbgrader["points"] = "assert True", 100


def bare(notebook: Notebook) -> None:
    """Saved by tools that drop what they do not know, or write it in another version."""
    for number, one in enumerate(notebook.cells):
        if number % 2:
            one.metadata.pop("nbgrader", None)
        else:
            one.metadata.nbgrader["schema_version"] = 1


def without(*ids: str) -> Change:
    """No cells of these names."""

    def change(notebook: Notebook) -> None:
        kept = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("grade_id") not in ids]
        notebook.cells = kept

    return change


def renamed(notebook: Notebook) -> None:
    """A test under another name, one as text, and one that is gone with its function and the imports."""
    cell(notebook, "product-rule").metadata.nbgrader["grade_id"] = "mine"
    cell(notebook, "product-loo").cell_type = "raw"
    without("text-02", "grouped-product", "grouped-product-function")(notebook)


def moved(notebook: Notebook) -> None:
    """One test above everything, one function in its test's cell, one at the end with its gap left open."""
    function, test = cell(notebook, "grouped-product-function"), cell(notebook, "grouped-product")
    test.source = f"{function.source}\n\n{test.source}"
    cell(notebook, "product-loo-function").source = "def loo(values):\n    raise NotImplementedError"
    above = cell(notebook, "product-rule")
    rest = [one for one in notebook.cells if one not in (above, function)]
    notebook.cells = [above, *rest, nbformat.v4.new_code_cell(LOO)]


def in_one_cell(notebook: Notebook) -> None:
    """All cells merged into the first with code, which is locked."""
    notebook.cells = [one for one in notebook.cells if one.cell_type == "code"]
    notebook.cells[0].source = "\n\n".join(one.source for one in notebook.cells)
    del notebook.cells[1:]


def other(notebook: Notebook) -> None:
    """The notebook of another assignment, under this one's name."""
    for one in notebook.cells:
        settings = one.metadata.get("nbgrader", {})
        settings["grade_id"] = settings["grade_id"].replace("product", "softmax")


NOTHING = "def product_rule(a, b, relevance):\n    return None\n"
MY_RULE = RULE.replace("product_rule", "my_rule")
XY_RULE = "def product_rule(x, y, R):\n    return R / 2, R / 2\n"
MAGIC = then(answers(rule=f"%%time\n{RULE}"), first("%matplotlib inline\n!true"), last("%timeit 1"))
FAKE = "class Yes:\n    message = ''\ncheck = lambda *given, **more: Yes()"
# student: what was done, the change, the points (None: nbgrader gives no mark and says so)
CLASS: dict[str, tuple[str, Change | None, float | None]] = {
    "s01": ("all right", answers(), 3),
    "s02": ("right in another form", answers(loo="def loo(v):\n    return v * 0 + v.prod()\n"), 3),
    "s03": ("the same file as s01", answers(), 3),
    "s04": ("handed in twice, first wrong", answers(), 3),
    "s05": ("late", answers(), 3),
    "s06": ("late, one wrong", answers(loo="def loo(values):\n    return values\n"), 2),
    "s07": ("nothing handed in", None, None),
    "s08": ("an empty folder", None, None),
    "s09": ("a function under another name", answers(rule=MY_RULE), 2),
    "s10": ("renamed, and named back", answers(rule=f"{MY_RULE}product_rule = my_rule"), 3),
    "s11": ("other names of arguments", answers(rule=XY_RULE), 3),
    "s12": ("takes keywords only", answers(rule=RULE.replace("(a,", "(*, a,")), 2),
    "s13": ("magics", MAGIC, 3),
    "s14": ("a cell that fails", then(answers(), first("%%bash\nexit 3"), first("1 / 0")), 3),
    "s15": ("no answer", lambda notebook: None, 0),
    "s16": ("a copied cell", then(answers(), twice), 3),
    "s17": ("another rule, None, a list", answers(rule=NOTHING, shares=SHARES.replace("len(node)", "2")), 1),
    "s18": ("right on check's own numbers alone", answers(loo=KNOWN), 2),
    "s19": ("saved without metadata", then(answers(), bare), 3),
    "s20": ("broken: not JSON", answers(), None),
    "s21": ("broken: never ends", answers(loo="def loo(values):\n    while True:\n        pass\n"), 2),
    "s22": ("broken: kills its kernel", then(answers(), first("import os\nos._exit(0)")), None),
    "s23": ("hostile: a check that always passes", then(first(FAKE), last(FAKE)), 0),
    "s24": ("hostile: rewrites the tests and their points", forged, 0),
    "s25": ("broken: the file has another name", answers(), None),
    "s26": ("tests deleted, renamed, as text; a function retyped", then(answers(), renamed, last(SHARES)), 3),
    "s27": ("no cells", lambda notebook: notebook.cells.clear(), 0),
    "s28": ("another assignment", then(answers(), other), None),
    "s29": ("a test above, a function in its test, one below", then(answers(), moved), 3),
    "s30": ("all in one cell", then(answers(), in_one_cell), 3),
    "s31": ("a function of NumPy overwritten", then(answers(), first("import numpy\nnumpy.array = 1")), 0),
}


def hand_in(course: Path, student: str, change: Change, when: str) -> Path:
    """Write one student's notebook where nbgrader collects them."""
    released = course / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(released, as_version=4)
    change(notebook)
    place = course / "submitted" / student / ASSIGNMENT
    place.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, place / released.name)
    (place / "timestamp.txt").write_text(when)
    return place / released.name


def hand_in_all(course: Path) -> None:
    """Everybody, and one under a mistyped name; s04's second notebook, which is right, is handed in later."""
    hand_in(course, "s5O", answers(), IN_TIME)
    for student, (what, change, _) in CLASS.items():
        if change is None:
            if "folder" in what:
                (course / "submitted" / student / ASSIGNMENT).mkdir(parents=True)
            continue
        change = answers(loo="def loo(values):\n    return 0\n") if "twice" in what else change
        path = hand_in(course, student, change, LATE if "late" in what else IN_TIME)
        if "JSON" in what:
            path.write_text(path.read_text()[:500])
        if "another name" in what and "broken" in what:
            path.rename(path.with_name(f"{ASSIGNMENT} (1).ipynb"))
