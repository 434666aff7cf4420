"""Builds the book: executes the notebooks with papermill, puts them next to the pages, runs Jupyter Book.

The committed notebooks are only read, except by `refresh`. The output is in `_build/`: `executed/`
(notebooks with fresh outputs), `source/` (what Jupyter Book reads) and `html/` (the book).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from lrp_book import exercise_cells, nbgrader, sessions, zips
from lrp_book import student as editions
from lrp_book.parameters import check_names, check_parameters, check_values, from_make
from lrp_book.sphinx import your_sentence
from lrp_companion.checks import CompanionError, InputError, choose
from lrp_companion.terminal import BAD_INPUT, STOPPED, complain

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(ROOT / name for name in ("lrp_companion", "book/lrp_book", "book/lrp_exercises"))
AT_ONCE = min(2, os.cpu_count() or 1)  # notebooks: much of each is one thread's work
# A notebook that is given one of these may read what no key covers: a folder, the hub.
_OUTSIDE = ("source", "data_dir", "model", "data", "results")
_LOADED = re.compile(r'<(?:script[^>]*? src|link[^>]*? rel="stylesheet"[^>]*? href)="([^"?#]+)')
WIDGET_DATA = re.compile(
    r'<div class="lrp-widget" data-companion-widget=[^>]*><script type="application/json">.*?</script>',
    re.DOTALL,
)


def source_key(
    notebook: Path,
    parameters: Mapping[str, Any],
    *,
    packages: Sequence[Path] = PACKAGES,
    records: Path = ROOT / "results",
) -> str:
    """Hash everything that a notebook's outputs depend on.

    That is its cells, the parameters, the packages that it names, the records, Python and every installed
    version.
    """
    cells = [
        (cell.cell_type, cell.source, cell.metadata.get("tags", []))
        for cell in nbformat.read(notebook, as_version=4).cells
    ]
    code = "".join(source for kind, source, _ in cells if kind == "code")
    packages = [folder for folder in packages if folder not in PACKAGES or folder.name in code]
    distributions = importlib.metadata.distributions()
    installed = sorted({f"{package.name}=={package.version}" for package in distributions})
    digest = hashlib.sha256(json.dumps([cells, sorted(parameters.items()), sys.version, installed]).encode())
    for folder in (*packages, records):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\0{path.relative_to(folder.parent).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _without_run_traces(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop papermill's notes (times, paths, statuses), and views of widgets whose kernel is gone."""
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
    """Keep only the part of a widget that can be read without a script.

    Its data (up to 1.5 MB) are for pages, not for a committed file.
    """
    for output in _outputs(notebook):
        if "text/html" in output.get("data", {}):
            output.data["text/html"] = WIDGET_DATA.sub('<div class="lrp-widget">', output.data["text/html"])
    return notebook


def execute(notebook: Path, output: Path, *, cwd: Path, parameters: Mapping[str, str] | None = None) -> bool:
    """Execute one notebook into `output`; return False if an earlier result could be used again.

    Of the parameters it gets those that it has. The key of an earlier result is stored next to it. A run that
    reads outside the project (a data folder, the hub) is never reused.

    Raises
    ------
    InputError
        If a parameter is of the wrong kind.
    papermill.exceptions.PapermillExecutionError
        If a cell fails.
    """
    values = check_parameters(notebook, parameters or {})
    key, key_file = source_key(notebook, values, records=cwd / "results"), output.with_suffix(".key")
    opened = output.with_suffix(".records")  # what it read, for its zip
    outside = any(name in values for name in _OUTSIDE) or bool(os.environ.get("LRP_COMPANION_DATA"))
    if not outside and output.is_file() and key_file.is_file() and key_file.read_text() == key:
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    key_file.unlink(missing_ok=True)
    opened.write_text("")
    places = str((cwd / "results").resolve()), str(opened.resolve())
    watch = f"__import__('lrp_book.watch').watch.watch{places!r}"
    papermill.execute_notebook(
        str(notebook),
        str(output),
        values,
        kernel_name="python3",
        cwd=str(cwd),
        progress_bar=False,
        store_widget_state=False,
        # Else each kernel warns on the terminal that it listens on a local port.
        extra_arguments=["--log-level=CRITICAL", f"--IPKernelApp.exec_lines={watch}"],
    )
    executed = _without_run_traces(nbformat.read(output, as_version=4))
    for cell in executed.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace("# Parameters", "# Set for this build", 1)
    nbformat.write(executed, output)
    complaints = any(output.get("name") == "stderr" for output in _outputs(executed))
    if not outside and not complaints:  # a warning fails the book; kept, it would fail every later one
        key_file.write_text(key)
    return True


def _execute_all(root: Path, parameters: Mapping[str, str]) -> list[Path]:
    """Execute all notebooks, some at once; return the executed ones in the book's order."""
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    check_names(notebooks, parameters)  # all is checked before the first cell runs
    for notebook in notebooks:
        check_parameters(notebook, parameters)
    check_values(parameters)
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
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)  # one that is running comes to its end
            if isinstance(error, KeyboardInterrupt):
                _stop_kernels(running)
            raise


def _stop_kernels(running: Sequence[Future[Path]]) -> None:
    """Kill the kernels of this process until no notebook runs; each would otherwise run to its last cell."""
    import psutil  # type: ignore[import-untyped]  # comes with ipykernel

    logging.disable(logging.CRITICAL)  # each would say that its kernel died
    while not all(notebook.done() for notebook in running):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        time.sleep(0.05)


def build(root: Path, *, parameters: Mapping[str, str] | None = None, student: bool = False) -> Path:
    """Execute the notebooks and build the book from nothing, warnings as errors; return the index page.

    Jupyter Book starts from nothing each time, because it would not repeat a warning for pages kept from an
    earlier build. The student edition, in `_build/student/`, is the same book without the solutions in its
    sources.

    Raises
    ------
    subprocess.CalledProcessError
        If Jupyter Book fails or warns.
    """
    executed = _execute_all(root, parameters or {})
    wanted = root / "_build" / "student" / "html" if student else root / "_build" / "html"
    making = root / "_build" / ("making-student" if student else "making")
    source = making / "source"
    shutil.rmtree(making, ignore_errors=True)
    (source / "notebooks").mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(root / name, source)
    code = shutil.ignore_patterns("lrp_book", "*.egg-info", "pyproject.toml")
    shutil.copytree(root / "book", source / "book", ignore=code)
    sessions.write_pages(source / "book")
    exercise_cells.write_pages(source / "book")
    for notebook in executed:
        shutil.copy(notebook, source / "notebooks")
    exercises = Path("notebooks", "exercises")
    editions.write_notebooks(root / exercises, source / exercises)  # for download
    if student:
        editions.strip_folder(source)
    for notebook in executed:
        page = source / "notebooks" / notebook.name
        opened = notebook.with_suffix(".records").read_text(encoding="utf-8").splitlines()
        zips.write_chapter(page, opened, root / "results", source / "zips" / f"{notebook.stem}.zip")
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["--path-output", str(making), "--warningiserror", "--keep-going", "--quiet"]
    # In a session of its own, so that Ctrl-C reaches this process only, which ends it without a traceback.
    subprocess.run([program, "build", source, *options], check=True, cwd=root, start_new_session=True)
    shutil.copytree(source / "zips", making / "_build" / "html" / "zips")
    return _moved(making / "_build" / "html", wanted) / "index.html"


def _moved(made: Path, wanted: Path) -> Path:
    """Move a finished book to its final place, where pages of a failed build never appear."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
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


def refresh(root: Path, only: str = "") -> None:
    """Execute the notebooks on their defaults and keep the outputs in the committed files; `only` names one.

    Raises
    ------
    InputError : no notebook of that name.
    """
    for notebook in sorted((root / "notebooks" / "exercises").glob("*.ipynb")):
        nbformat.write(exercise_cells.fill(nbformat.read(notebook, as_version=4)), notebook)
    if only:
        folder = root / "notebooks"
        known = {path.stem: path for path in (*folder.glob("*.ipynb"), *folder.glob("exercises/*.ipynb"))}
        notebook = known[choose("refresh", "notebook", Path(only).stem, sorted(known))]
        execute(notebook, output := root / "_build" / "executed" / notebook.relative_to(folder), cwd=root)
        nbformat.write(without_widget_data(nbformat.read(output, as_version=4)), notebook)
        return
    for executed in _execute_all(root, {}):
        notebook_to_keep = without_widget_data(nbformat.read(executed, as_version=4))
        nbformat.write(notebook_to_keep, root / "notebooks" / executed.name)
    for notebook in sorted((root / "notebooks" / "exercises").glob("*.ipynb")):
        execute(notebook, output := root / "_build" / "executed" / "exercises" / notebook.name, cwd=root)
        shutil.copy(output, notebook)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `build`, `student` or `refresh`; return the exit code.

    It is 1 if a cell or the build fails, 2 for a wrong parameter, 130 if it was stopped.
    """
    try:
        return _command(arguments)
    except CompanionError as error:
        complain(str(error))
        return BAD_INPUT
    except PapermillExecutionError as error:
        if error.ename in {"InputError", "SourceError", "ModelError"}:  # one line says it all
            complain(str(error.evalue))
            return BAD_INPUT
        print(f"A notebook failed, so there is no book.\n{error}", file=sys.stderr)
    except subprocess.CalledProcessError:
        print("Jupyter Book failed or warned (see above), so there is no book.", file=sys.stderr)
    except KeyboardInterrupt:
        complain("stopped: notebooks that were executed are kept; the book is as it was before")
        return STOPPED
    return 1


def _command(arguments: Sequence[str] | None) -> int:
    text = "Execute the notebooks and build the book."
    parser = argparse.ArgumentParser(prog="python -m lrp_book", description=text)
    parser.add_argument("command", choices=["build", "student", "refresh"])
    parser.add_argument("notebook", nargs="?", default="", help="the one to refresh, such as 03_bert_layers")
    form: dict[str, Any] = {"nargs": 2, "action": "append", "metavar": ("NAME", "VALUE"), "default": []}
    parser.add_argument("--parameter", **form, help="a notebook parameter, not for refresh")
    chosen = parser.parse_args(arguments)
    parameters = {**from_make(), **dict(chosen.parameter)}
    your_sentence.wanted()  # a wrong LIVE is told before a notebook runs
    if not parameters.keys() & {"source", "data_dir"}:
        os.environ.pop("LRP_COMPANION_DATA", None)  # without a source asked for: the embedded default
    if chosen.notebook and chosen.command != "refresh":
        got, hint = f"{chosen.command} {chosen.notebook}", "leave it out: the book is built whole"
        raise InputError("lrp_book", got=got, expected="a notebook for refresh only", hint=hint)
    if chosen.command == "refresh":
        refresh(ROOT, chosen.notebook)
        return 0
    student = chosen.command == "student"
    page = build(ROOT, parameters=parameters, student=student)
    if student:
        exercises = Path("notebooks", "exercises")
        target = ROOT / "_build" / "student" / "notebooks"
        written = editions.write_notebooks(ROOT / exercises, target)
        for path in written:
            print(f"without solutions: {path}")
        bundle = editions.write_bundle(ROOT, written, target.with_name("lrp-exercises.zip"))
        print(f"the same with what they need but NumPy: {bundle}")
        for path in nbgrader.write_course(ROOT / exercises, ROOT / "_build" / "nbgrader"):
            print(f"for nbgrader, with solutions: {path}")
    for name, (weight, loaded) in page_weights(page.parent).items():
        print(f"{weight / 1e3:8.0f} kB, and {loaded / 1e3:6.0f} kB of scripts and styles: {name}")
    print(f"The book: {page} (opens as a file, too)" + ("" if student else "\nTo serve it: make serve"))
    return 0
