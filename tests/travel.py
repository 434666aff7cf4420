"""The chapters without a checkout: `python tests/travel.py [part of a name ...]` with a built book.

Each chapter's zip is unpacked in an empty folder and run by papermill, on wheels; some with widgets are run
in JupyterLab, in Chromium. Records that a zip has no room for come from a server of this machine. CI's
step "visit" does the same with an environment that pip made; here the packages come from this environment,
and the project alone from wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from browsing import HTML, ROOT, chromium, jupyterlab, open_page, serve

IN_LAB = ("03", "06", "09")
"""Chapters that are run in JupyterLab, where their widgets are looked at."""


def kernel(python: Path, folder: Path) -> dict[str, str]:
    """Variables with which Jupyter's kernel `python3` is this interpreter, without anything of ours."""
    kernels = folder / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    spec = {"argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    spec |= {"display_name": "Python 3 (ipykernel)", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps({**spec, "env": {"PYTHONPATH": ""}}))
    return {"JUPYTER_PATH": str(folder / "jupyter")}


@contextmanager
def records(folder: Path) -> Iterator[dict[str, str]]:
    """Variables with which `open_record` fetches from a release that this machine serves."""
    subprocess.run([sys.executable, "-m", "lrp_book.zips", folder / "release"], check=True, cwd=ROOT / "book")
    server = serve(folder / "release")
    yield {"LRP_COMPANION_RECORDS": next(server), "LRP_COMPANION_CACHE": str(folder / "cache")}
    server.close()


def run(notebook: Path, variables: dict[str, str]) -> None:
    """Run a notebook by papermill where it lies, and print its time."""
    start, out = time.perf_counter(), notebook.with_suffix(".out")
    command = [sys.executable, "-m", "papermill", "-k", "python3", notebook.name, out.name]
    options = ("--no-progress-bar", "--log-level", "CRITICAL")
    done = subprocess.run(
        [*command, *options],
        cwd=notebook.parent,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{time.perf_counter() - start:6.1f} s  {notebook.name}", flush=True)
    if done.returncode:
        raise SystemExit(done.stderr)


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


def chapters(python: Path, folder: Path, parts: Sequence[str] = ("",), which: str = "1/1") -> None:
    """Run the chapters' zips of the built book whose name has one of these parts, or of "2/3" each third
    from the second, with this interpreter.
    """
    own, (first, step) = kernel(python, folder), map(int, which.split("/"))
    with records(folder) as address:
        for bundle in sorted((HTML / "zips").glob("*.zip"))[first - 1 :: step]:
            if any(part in bundle.name for part in parts):
                fetches = b"Not in this zip" in zipfile.ZipFile(bundle).read("README.txt")
                variables = {**own, **(address if fetches else {})}
                notebook = folder / bundle.stem / "work" / f"{bundle.stem}.ipynb"
                zipfile.ZipFile(bundle).extractall(notebook.parent)
                if bundle.name.startswith(IN_LAB):
                    in_jupyterlab(notebook, folder, variables)
                else:
                    run(notebook, variables)


def environment(folder: Path) -> Path:
    """The interpreter of an environment whose project comes from wheels, all else from this environment."""
    python = folder / "env" / "bin" / "python"
    venv.create(folder / "env")
    place = sysconfig.get_path("purelib", vars={"base": str(folder / "env")})
    subprocess.run([sys.executable, ROOT / "packaging" / "build.py", folder / "dist"], check=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place]
    subprocess.run([*command, *sorted((folder / "dist").glob("*.whl"))], check=True)
    Path(place, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = [python, "-c", "import lrp_companion; print(lrp_companion.__file__)"]
    said = subprocess.run(where, cwd=folder, env={}, capture_output=True, text=True, check=True).stdout
    assert said.startswith(str(folder)), said
    return python


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        chapters(environment(Path(name)), Path(name), sys.argv[1:] or ("",))
