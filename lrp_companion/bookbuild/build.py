"""Builds the book: executes the notebooks with papermill, puts them beside the pages, runs Jupyter Book.

The committed notebooks are only read, except by `refresh`. What is built lies in `_build/`: `executed/`
(notebooks with fresh outputs), `source/` (what Jupyter Book reads) and `html/` (the book).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from lrp_companion.bookbuild import student as editions
from lrp_companion.schema import CompanionError, InputError

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = min(2, os.cpu_count() or 1)  # notebooks: much of each is one thread's work
# A notebook that is given one of these may read what no key covers: a folder, the hub.
_OUTSIDE = ("source", "data_dir", "model", "data")
_LOADED = re.compile(r'<(?:script[^>]*? src|link[^>]*? rel="stylesheet"[^>]*? href)="([^"?#]+)')
WIDGET_DATA = re.compile(
    r'<div class="lrp-widget" data-companion-widget=[^>]*><script type="application/json">.*?</script>',
    re.DOTALL,
)


def check_parameters(notebook: Path, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the given parameters as values of the notebook's own types.

    papermill itself only prints a message for a name that the notebook does not have.

    Raises
    ------
    InputError
        If the notebook's `parameters` cell has no such name, or a number is asked for and none is given.
    """
    cell = papermill.inspect_notebook(str(notebook))
    declared = {name: ast.literal_eval(parameter["default"]) for name, parameter in cell.items()}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in declared:
            none = "none: the notebook has no cell tagged parameters"
            expected = f"one of {', '.join(declared)}" if declared else none
            got = f"parameter {name!r}"
            raise InputError(f"run {notebook.name}", got=got, expected=expected, hint="check the name")
        kind = type(declared[name])
        try:
            values[name] = kind(text)
        except ValueError:
            expected, hint = f"a value like {declared[name]!r}", f"pass {name} as {kind.__name__}"
            raise InputError(
                f"run {notebook.name}", got=f"{name}={text!r}", expected=expected, hint=hint
            ) from None
    return values


def source_key(
    notebook: Path,
    parameters: Mapping[str, Any],
    *,
    package: Path = ROOT / "lrp_companion",
    records: Path = ROOT / "results",
) -> str:
    """Hash what a notebook's outputs depend on.

    That is its cells, the parameters, package and records, Python and every installed version.
    """
    cells = [
        (cell.cell_type, cell.source, cell.metadata.get("tags", []))
        for cell in nbformat.read(notebook, as_version=4).cells
    ]
    distributions = importlib.metadata.distributions()
    installed = sorted({f"{package.name}=={package.version}" for package in distributions})
    digest = hashlib.sha256(json.dumps([cells, sorted(parameters.items()), sys.version, installed]).encode())
    for folder in (package, records):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\0{path.relative_to(folder.parent).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _without_run_traces(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what papermill notes down (times, paths, statuses), and views of widgets whose kernel is gone."""
    for holder in (notebook, *notebook.cells):
        holder.metadata.pop("papermill", None)
        holder.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    for output in _outputs(notebook):
        output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    return notebook


def _outputs(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    return (output for cell in notebook.cells for output in cell.get("outputs", []))


def without_widget_data(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Keep of a widget only what can be read without a script.

    Its data (up to 1.5 MB) are for pages, not for a committed file.
    """
    for output in _outputs(notebook):
        if "text/html" in output.get("data", {}):
            output.data["text/html"] = WIDGET_DATA.sub('<div class="lrp-widget">', output.data["text/html"])
    return notebook


def execute(notebook: Path, output: Path, *, cwd: Path, parameters: Mapping[str, str] | None = None) -> bool:
    """Execute one notebook into `output`; return False if an earlier result could be used again.

    The key of an earlier result lies beside it. A run that reads outside the project (a data folder, the hub)
    is never used again.

    Raises
    ------
    InputError
        If a parameter is unknown or of the wrong kind.
    papermill.exceptions.PapermillExecutionError
        If a cell fails.
    """
    values = check_parameters(notebook, parameters or {})
    key, key_file = source_key(notebook, values, records=cwd / "results"), output.with_suffix(".key")
    outside = any(name in values for name in _OUTSIDE) or bool(os.environ.get("LRP_COMPANION_DATA"))
    if not outside and output.is_file() and key_file.is_file() and key_file.read_text() == key:
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    key_file.unlink(missing_ok=True)
    papermill.execute_notebook(
        str(notebook),
        str(output),
        values,
        kernel_name="python3",
        cwd=str(cwd),
        progress_bar=False,
        store_widget_state=False,
        # Else each kernel warns on the terminal that it listens on a local port.
        extra_arguments=["--log-level=CRITICAL"],
    )
    executed = _without_run_traces(nbformat.read(output, as_version=4))
    for cell in executed.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace("# Parameters", "# Set for this build", 1)
    nbformat.write(executed, output)
    if not outside:
        key_file.write_text(key)
    return True


def _execute_all(root: Path, parameters: Mapping[str, str]) -> list[Path]:
    """Execute all notebooks, some at once; return the executed ones in the book's order."""
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    for notebook in notebooks:  # every name is checked before the first cell runs
        check_parameters(notebook, parameters)
    # Each has its share of the processor; else kernels wait for each other's threads.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // AT_ONCE)))

    def run(notebook: Path) -> Path:
        output, start = root / "_build" / "executed" / notebook.name, time.perf_counter()
        ran = execute(notebook, output, parameters=parameters, cwd=root)
        what = f"executed in {time.perf_counter() - start:.0f} s" if ran else "unchanged, used again"
        print(f"{notebook.name}: {what}", flush=True)
        return output

    # papermill changes the directory of the whole process and back: from here on, back is here.
    with contextlib.chdir(root), ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run, notebook) for notebook in notebooks]
        try:
            return [notebook.result() for notebook in running]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # one that is running comes to its end
            raise


def build(root: Path, *, parameters: Mapping[str, str] | None = None, student: bool = False) -> Path:
    """Execute the notebooks and build the book from nothing, warnings as errors; return the index page.

    Jupyter Book starts afresh each time: on pages that it keeps from an earlier build it would not repeat a
    warning. The student edition, in `_build/student/`, is the same book with the solutions taken out of its
    sources.

    Raises
    ------
    subprocess.CalledProcessError
        If Jupyter Book fails or warns.
    """
    executed = _execute_all(root, parameters or {})
    over = root / "_build" / "student" if student else root
    target = over / "_build"
    source = target / "source"
    for stale in (source, target / "html", target / ".doctrees"):
        shutil.rmtree(stale, ignore_errors=True)
    (source / "notebooks").mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(root / name, source)
    shutil.copytree(root / "book", source / "book")
    for notebook in executed:
        shutil.copy(notebook, source / "notebooks")
    exercises = Path("notebooks", "exercises")
    editions.write_notebooks(root / exercises, source / exercises)  # for download
    if student:
        editions.strip_folder(source)
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["--path-output", str(over), "--warningiserror", "--keep-going", "--quiet"]
    subprocess.run([program, "build", source, *options], check=True, cwd=root)
    html = _moved(target / "html", over / "html") if student else target / "html"
    return html / "index.html"


def _moved(made: Path, wanted: Path) -> Path:
    """Jupyter Book adds `_build` to every path: the student edition lies where one looks for it."""
    shutil.rmtree(wanted, ignore_errors=True)
    return made.rename(wanted)


def page_weights(html: Path) -> dict[str, tuple[int, int]]:
    """Return, page by page, the bytes of the page itself and of the scripts and styles that it loads."""
    weights = {}
    for page in sorted(html.rglob("*.html")):
        if "_static" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        loaded = {(page.parent / unquote(address)).resolve() for address in _LOADED.findall(text)}
        of_loaded = sum(path.stat().st_size for path in loaded if path.is_file())
        weights[page.relative_to(html).as_posix()] = page.stat().st_size, of_loaded
    return weights


def refresh(root: Path) -> None:
    """Execute the notebooks on their defaults and keep the outputs in the committed files."""
    for executed in _execute_all(root, {}):
        notebook_to_keep = without_widget_data(nbformat.read(executed, as_version=4))
        nbformat.write(notebook_to_keep, root / "notebooks" / executed.name)
    for notebook in sorted((root / "notebooks" / "exercises").glob("*.ipynb")):
        execute(notebook, output := root / "_build" / "executed" / "exercises" / notebook.name, cwd=root)
        shutil.copy(output, notebook)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `build`, `student` or `refresh`; return the exit code.

    It is 1 if a cell or the build fails, 2 for a wrong parameter.
    """
    text = "Execute the notebooks and build the book."
    parser = argparse.ArgumentParser(prog="python -m lrp_companion.bookbuild", description=text)
    parser.add_argument("command", choices=["build", "student", "refresh"])
    form: dict[str, Any] = {"nargs": 2, "action": "append", "metavar": ("NAME", "VALUE"), "default": []}
    parser.add_argument("--parameter", **form, help="a notebook parameter, not for refresh")
    chosen = parser.parse_args(arguments)
    parameters = dict(chosen.parameter)
    if not parameters.keys() & {"source", "data_dir"}:
        os.environ.pop("LRP_COMPANION_DATA", None)  # without a source asked for: the embedded default
    try:
        if chosen.command == "refresh":
            refresh(ROOT)
            return 0
        student = chosen.command == "student"
        page = build(ROOT, parameters=parameters, student=student)
        if student:
            exercises = Path("notebooks", "exercises")
            target = ROOT / "_build" / "student" / "notebooks"
            for path in editions.write_notebooks(ROOT / exercises, target):
                print(f"without solutions: {path}")
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    except PapermillExecutionError as error:
        print(f"A notebook failed, so there is no book.\n{error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print("Jupyter Book failed or warned (see above), so there is no book.", file=sys.stderr)
        return 1
    for name, (weight, loaded) in page_weights(page.parent).items():
        print(f"{weight / 1e3:8.0f} kB, and {loaded / 1e3:6.0f} kB of scripts and styles: {name}")
    print(f"The book: {page} (opens as a file, too)" + ("" if student else "\nTo serve it: make serve"))
    return 0
