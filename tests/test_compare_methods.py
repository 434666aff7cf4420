"""A run in memory is the run that a folder holds (`test_run_load.py`); paths are those of Table A3."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion.lab.compare_methods import compare_methods
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import load_run
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.masks import path_masks
from lrp_companion.sources import load_dataset
from lrp_companion.sources.dataset import Dataset


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_dataset({"text": [text for text in TEXTS if len(text.split()) > 3]}, text="text")


def test_it_is_the_run_of_a_folder(clf: lrp.Classifier, data: Dataset, tmp_path: Path) -> None:
    asked = {"methods": ("loo", "attnlrp"), "masks": "all", "removals": ("attention-mask",)}
    here = compare_methods(clf, data, **asked, targets=("logit",), keep_maps=True)
    jobs = TextJobs(clf, data, **asked, targets=("logit",), keep_maps=True)
    execute(jobs, tmp_path / "run", progress=False)
    there = load_run(tmp_path / "run")
    assert here.manifest["key"] == there.manifest["key"] and here.methods == there.methods
    assert set(here.tables) == set(there.tables) and here.describe() == there.describe()
    for name, table in there.tables.items():
        times = ("seconds",) if "seconds" in table.column_names else ()
        order = [("job", "ascending")] if "job" in table.column_names else "part"
        one, other = (of.tables[name].sort_by(order).drop_columns(times) for of in (here, there))
        assert repr(one.to_pylist()) == repr(other.select(one.column_names).to_pylist()), name


def test_paths_have_the_identities_of_table_a3():
    masks = path_masks(12)
    assert masks["front-to-back"][0] == masks["single"][0]
    assert masks["back-to-front"][0] == masks["single"][-1]
    assert masks["front-to-back"][-1] == masks["back-to-front"][-1] == frozenset(range(1, 13))
    printed = {
        (row["path"], frozenset(row["bypass"])) for row in paper_table("tableA3") if row["dataset"] == "SST"
    }
    for path, name in (
        ("front-to-back", "front_to_back"),
        ("back-to-front", "back_to_front"),
        ("single", "single"),
    ):
        assert {mask for printed_path, mask in printed if printed_path == name} == set(masks[path])
