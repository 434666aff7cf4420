"""The chapters without a checkout, with a built book: a part of `visit.py`.

Each chapter's zip, at most 5 MB, is unpacked in an empty folder and run by papermill, on wheels: it prints
what the book prints. Chapters with a widget run in JupyterLab, too, in Chromium.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from browsing import HTML, ROOT, chromium, jupyterlab, open_page

EXECUTED = ROOT / "_build" / "executed"
LIMIT = 5_000_000
"""Bytes of a zip."""
HIDDEN = re.compile(r"0x[0-9a-f]+|<script.*?</script>", re.DOTALL)
WIDGET = 'class="lrp-widget"'
IN_LAB = ("03", "06", "09")
"""Chapters that are run in JupyterLab, where their widgets are looked at."""


def kernel(python: Path, folder: Path) -> dict[str, str]:
    """Variables with which Jupyter's kernel `python3` is this interpreter, without anything of ours."""
    kernels = folder / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    spec = {"argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    spec |= {"display_name": "Python 3 (ipykernel)", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps({**spec, "env": {"PYTHONPATH": ""}}))
    # one thread, as in the book: beside other work threads wait for each other
    return {"JUPYTER_PATH": str(folder / "jupyter"), "OMP_NUM_THREADS": "1"}


def run(notebook: Path, variables: dict[str, str]) -> None:
    """Run a notebook by papermill where it lies, print its time, and compare its outputs with the book's."""
    start, out = time.perf_counter(), notebook.with_suffix(".out.ipynb")
    command = [sys.executable, "-m", "papermill", "-k", "python3", notebook.name, out.name]
    options = ("--no-progress-bar", "--log-level", "CRITICAL")
    done = subprocess.run(
        [*command, *options],
        cwd=notebook.parent,
        env={key: value for key, value in os.environ.items() if not key.startswith("LRP_")} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{time.perf_counter() - start:6.1f} s  {notebook.name}", flush=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    for cell, (here, book) in enumerate(zip(said(out), said(EXECUTED / notebook.name), strict=True)):
        if here != book:
            raise SystemExit(f"{notebook.name}, cell {cell}, prints {here}; the book has {book}")


def said(notebook: Path) -> list[str]:
    """What each cell of an executed notebook has printed: no images, no addresses of objects, no pictures and
    data of widgets (a model computes some of them: their last digit is not always the same).
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [[of.get("data", of) for of in cell.get("outputs", [])] for cell in cells]
    texts = [["".join(of[kind]) for of in each for kind in of if kind.startswith("text")] for each in outputs]
    return [HIDDEN.sub("", "".join(text for text in each if WIDGET not in text)) for each in texts]


def in_jupyterlab(notebook: Path, folder: Path, variables: dict[str, str]) -> None:
    """Run all cells in JupyterLab: none fails, a widget is alive, and no page but this server's is asked."""
    start = time.perf_counter()
    with jupyterlab(notebook.parent, **variables) as address, chromium(folder) as browser:
        page, watch = open_page(browser.new_context(), f"{address}/lab/tree/{notebook.name}")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.add_locator_handler(page.locator(".jp-Dialog .jp-mod-accept"), lambda button: button.click())
        page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].every(cell =>
                !cell.querySelector('.cm-content')?.textContent.trim()
                || /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent))
                || document.querySelector('[data-mime-type="application/vnd.jupyter.error"]')""",
            timeout=600_000,
        )
        failed = page.locator('[data-mime-type="application/vnd.jupyter.error"]').all_inner_texts()
        page.locator(".jp-OutputArea-output .lrp-widget :visible").first.wait_for()
        count = page.locator(".jp-OutputArea-output .lrp-widget").count()
        outside = [url for url in watch.outside if "jupyter" not in url]
    print(f"{time.perf_counter() - start:6.1f} s  {notebook.name} in JupyterLab, {count} widgets", flush=True)
    if failed or outside:
        raise SystemExit(f"{notebook.name} in JupyterLab: {failed} {outside}")


def chapters(python: Path, folder: Path, which: str) -> None:
    """Run the chapters' zips of the built book with this interpreter: of "2/3" each third from the second."""
    own, (first, step) = kernel(python, folder), map(int, which.split("/"))
    for bundle in sorted((HTML / "zips").glob("*.zip"))[first - 1 :: step]:
        if bundle.stat().st_size > LIMIT:
            raise SystemExit(f"{bundle.name} has {bundle.stat().st_size / 1e6:.1f} MB")
        places = [folder / bundle.stem / name / "work" for name in ("papermill", "lab")]
        for place in places:
            zipfile.ZipFile(bundle).extractall(place)
        run(places[0] / f"{bundle.stem}.ipynb", own)
        if bundle.name.startswith(IN_LAB):
            in_jupyterlab(places[1] / f"{bundle.stem}.ipynb", folder, own)
