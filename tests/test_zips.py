"""A chapter's zip: what the notebook opened, and no more; it runs where there is no checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest
import xarray as xr
from lrp_book import build, zips

from lrp_companion.checks import InputError
from lrp_companion.lab.record import open_record

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


def zipped(notebook: Path, opened: list[str]) -> zipfile.ZipFile:
    """Its zip."""
    target = notebook.parent / "zips" / "x.zip"
    return zipfile.ZipFile(zips.write_chapter(notebook, opened, build.ROOT / "results", target))


def test_a_chapters_zip_has_what_it_opens_and_runs_alone(notebook: Path) -> None:
    output = notebook.parent / "out" / "01_x.ipynb"
    build.execute(notebook, output, cwd=build.ROOT)
    bundle = zipped(notebook, output.with_suffix(".records").read_text().splitlines())
    base, run = "results/base/sst2-seed-0-paths", "results/mnist-plain"
    tables = {f"{run}/{path.name}" for path in (build.ROOT / run).iterdir()}
    assert {*bundle.namelist()} == {"01_x.ipynb", "README.txt", f"{base}.npz", f"{base}.json"} | tables
    alone = notebook.parent / "alone"
    bundle.extractall(alone)
    done = papermill.execute_notebook(
        str(alone / "01_x.ipynb"), None, kernel_name="python3", cwd=str(alone), progress_bar=False
    )
    assert [output.text for output in done.cells[0].outputs] == ["872 5\n"]


AT = {"removal": "attention-mask", "target": "logit"}


def test_what_is_left_of_a_record_has_the_values_of_the_whole(notebook: Path, tmp_path, monkeypatch) -> None:
    chosen = zips.PAIR | zips.PLAIN | {"site": ["word"]}
    parts = {
        "wirings/llama-seed-0": "methods.r methods.morf methods.lerf masks.r",
        "maps/imdb-companion": "methods.r methods.map examples.*",
        "smollm2/facts-maps": "r",
    }
    monkeypatch.setitem(zips.DRAWN, "01", {name: (columns, chosen) for name, columns in parts.items()})
    files = [f"{name}/manifest.json" for name in parts if "facts" not in name] + ["smollm2/facts-maps.npz"]
    zipped(notebook, files).extractall(tmp_path)
    for name in parts:
        cut, whole = (open_record(name, results=place / "results") for place in (tmp_path, build.ROOT))
        axes = {axis: of for axis, of in chosen.items() if axis in whole.r.dims}
        xr.testing.assert_identical(cut.r, whole.r.sel(axes))
    name = "maps/imdb-companion"
    cut, whole = (open_record(name, results=place / "results") for place in (tmp_path, build.ROOT))
    pd.testing.assert_frame_equal(cut.tokens(), whole.tokens(methods=zips.PAIR["explainer"]))
    name = "wirings/llama-seed-0"
    cut, whole = (open_record(name, results=place / "results") for place in (tmp_path, build.ROOT))
    pair = {"explainer": zips.PAIR["explainer"]}
    xr.testing.assert_identical(cut.curves, whole.curves.sel(pair))
    np.testing.assert_array_equal(cut.layers.sel(AT), whole.layers.sel(AT | {"site": ["word"]}))
    (run,) = cut.parts.values()
    with pytest.raises(InputError, match="keeps no sums.* it is whole in commit"):
        run.sums("cp-lrp")
