"""A chapter's zip: what the notebook opened, and no more; it runs where there is no checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path

import nbformat
import papermill
import pytest
from lrp_book import build, zips

CELL = """import json
import lrp_companion as lrp
from lrp_companion.lab.load import load_run
record = lrp.open_record("base/sst2-seed-0-paths")
run = load_run("results/mnist-plain")
print(record.layers.sizes["text"], len(run.seeds))"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A chapter of one cell."""
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbformat.write(content, tmp_path / "01_x.ipynb")
    return tmp_path / "01_x.ipynb"


def zipped(notebook: Path, opened: list[str], address: str = "") -> set[str]:
    """The names in its zip."""
    target = notebook.parent / "zips" / "x.zip"
    made = zips.write_chapter(notebook, opened, build.ROOT / "results", target, address=address)
    assert made.stat().st_size <= zips.LIMIT or not address
    return set(zipfile.ZipFile(made).namelist())


def test_a_chapters_zip_has_what_it_opens_and_runs_alone(notebook: Path, monkeypatch) -> None:
    output = notebook.parent / "out" / "01_x.ipynb"
    build.execute(notebook, output, cwd=build.ROOT)
    names = zipped(notebook, output.with_suffix(".records").read_text().splitlines())
    base, run = "results/base/sst2-seed-0-paths", "results/mnist-plain"
    tables = {f"{run}/{path.name}" for path in (build.ROOT / run).iterdir()}
    assert names == {"01_x.ipynb", "README.txt", f"{base}.npz", f"{base}.json"} | tables
    alone = notebook.parent / "alone"
    zipfile.ZipFile(notebook.parent / "zips" / "x.zip").extractall(alone)
    done = papermill.execute_notebook(
        str(alone / "01_x.ipynb"), None, kernel_name="python3", cwd=str(alone), progress_bar=False
    )
    assert [output.text for output in done.cells[0].outputs] == ["872 5\n"]


def test_what_does_not_fit_is_named_and_tables_of_layers_come_where_they_are_read(notebook: Path) -> None:
    content = nbformat.read(notebook, 4)
    content.cells[0].source = "record.r"
    nbformat.write(content, notebook)
    lattices = [f"base/sst2-seed-{k}-lattice.npz" for k in range(3)]
    assert sum("lattice.npz" in name for name in zipped(notebook, lattices)) == 3
    assert sum("lattice.npz" in name for name in zipped(notebook, lattices, "https://x.org")) == 1
    told = zipfile.ZipFile(notebook.parent / "zips" / "x.zip").read("README.txt").decode()
    assert "LRP_COMPANION_RECORDS is https://x.org" in told and told.count("base/sst2-seed-") == 2
    training = "trainings/sst2-companion-6-seed-1"
    assert f"results/{training}/masks.parquet" not in zipped(notebook, [f"{training}/manifest.json"])
    content.cells[0].source = "record.layers"
    nbformat.write(content, notebook)
    assert f"results/{training}/masks.parquet" in zipped(notebook, [f"{training}/manifest.json"])
