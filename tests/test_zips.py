"""A chapter's zip: what its notebook read of the records and no more, and it prints the same there."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import nbformat
import papermill
import pytest
from lrp_book import build, zips

import lrp_companion as lrp

LIMIT = 5_000_000
CELL = """import lrp_companion as lrp
at = {"site": "word", "tokens": "all", "removal": "attention-mask", "target": "logit"}
record = lrp.open_record("trainings/sst2-companion-6-short-seed-0")
r = record.r.sel(at | {"explainer": "cp-lrp", "statistic": "pearson"})
print(lrp.interval(r.sel(map="raw")), lrp.interval(r.sel(map="sum-to-one")))
print(record.tokens(methods=("attnlrp",)).attnlrp.sum())
layers = lrp.open_record("trainings/sst2-companion-6-seed-1").layers.sel(bypassed="1 to 6", site="word")
print(layers.mean().item())
maps = lrp.open_record("base/sst2-seed-*-maps").r.sel(explainer="attnlrp", site="word", statistic="spearman")
print(lrp.interval(maps.sel(tokens="all", map="raw", removal="attention-mask")))
print(len(lrp.open_record("mnist-plain").frame("images")))"""


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a notebook printed, and the folder of its zip after it ran there."""
    folder = tmp_path_factory.mktemp("zip")
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbformat.write(content, notebook := folder / "01_x.ipynb")
    build.execute(notebook, output := folder / "out" / "01_x.ipynb", cwd=build.ROOT)
    watched = output.with_suffix(".records").read_text().splitlines()
    made = zips.write_chapter(notebook, watched, build.ROOT / "results", folder / "zips" / "x.zip")
    assert made.stat().st_size < 2_500_000
    zipfile.ZipFile(made).extractall(alone := folder / "alone")
    return printed(nbformat.read(output, as_version=4)), alone


def printed(notebook: nbformat.NotebookNode) -> str:
    return "".join(output.text for cell in notebook.cells for output in cell.outputs)


def test_a_zip_prints_the_same_where_there_is_no_checkout(zipped: tuple[str, Path]) -> None:
    told, alone = zipped
    out = papermill.execute_notebook(
        str(alone / "01_x.ipynb"), None, kernel_name="python3", cwd=str(alone), progress_bar=False
    )
    assert printed(out) == told and len(told.splitlines()) == 5
    whole, kept = (lrp.open_record("mnist-plain", results=of / "results") for of in (build.ROOT, alone))
    assert kept.frame("images").equals(whole.frame("images")), "a table that was read whole is whole"


def test_what_a_zip_leaves_out_is_refused_and_not_called_undefined(zipped: tuple[str, Path]) -> None:
    record = lrp.open_record("trainings/sst2-companion-6-short-seed-0", results=zipped[1] / "results")
    at = {"site": "word", "tokens": "all", "removal": "attention-mask", "target": "logit", "map": "raw"}
    assert record.r.sel(at | {"explainer": "cp-lrp", "statistic": "pearson"}).notnull().all()
    with pytest.raises(lrp.InputError, match="expected what this chapter's notebook reads"):
        record.r.sel(at | {"explainer": "attnlrp"}).load()
    with pytest.raises(lrp.InputError, match="cp-lrp"):
        record.tokens(methods=("cp-lrp",))
    (run,) = record.parts.values()
    for read in (
        run.logits,
        lambda: run.loo(lrp.Protocol(target="margin")),
        lambda: run.column("loo", "morf"),
    ):
        with pytest.raises(lrp.InputError, match="expected what this chapter"):
            read()
    with pytest.raises(KeyError, match="explainer"):
        lrp.open_record("base/sst2-seed-0-maps", results=zipped[1] / "results").r.sel(explainer="cp-lrp")


def test_zips_of_the_built_book_are_small() -> None:
    made = sorted((build.ROOT / "_build/html/zips").glob("*.zip"))
    if not made:
        pytest.skip("there is no built book; run make book")
    sizes = [os.path.getsize(path) for path in made]
    assert max(sizes) <= LIMIT and sum(sizes) <= 8 * LIMIT
