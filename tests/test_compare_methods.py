"""A run in memory is the run that a folder holds; the paths are those of Table A3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion.masks import path_masks
from lrp_companion.paper.published import paper_table
from lrp_companion.paper.tables import figure2
from lrp_companion.runs.compare_methods import compare_methods
from lrp_companion.runs.execute import execute
from lrp_companion.runs.load import load_run
from lrp_companion.runs.review_jobs import TextJobs
from lrp_companion.sources import load_dataset
from lrp_companion.sources.dataset import Dataset

MASKED = lrp.Protocol(site="word+position", tokens="all", map="sum-to-one", removal="mask-token")


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


def test_agreement_equals_the_methods_called_by_hand(clf: lrp.Classifier, data: Dataset) -> None:
    run = compare_methods(
        clf, data, methods=("loo", "cp-lrp", "rollout"), removals=("attention-mask", "mask-token")
    )
    for k, text in enumerate(data.texts):
        loo = lrp.attribute(clf, text, method="loo", removal="mask-token")[0]
        cp_lrp = lrp.attribute(clf, text, method="cp-lrp", site="word+position")[0]
        slow = np.corrcoef(cp_lrp.scores / cp_lrp.scores.sum(), loo.scores / loo.scores.sum())[0, 1]
        assert run.r("cp-lrp", MASKED)[k] == pytest.approx(slow, abs=2e-5)
    assert np.allclose(run.r("loo"), 1)


def test_a_path_is_its_masks_one_by_one(clf: lrp.Classifier, data: Dataset) -> None:
    run = compare_methods(clf, data, methods=("attnlrp",), masks="paths", curves=False)
    loo = lrp.attribute(clf, list(data.texts), method="loo")
    for path, masks in path_masks(clf.card.layers).items():
        for mask, interval in zip(masks, figure2(run)["paths"][path], strict=True):
            records = lrp.attribute(clf, list(data.texts), method="lrp", bypass=sorted(mask))
            r = [
                np.corrcoef(a.scores[~a.special], b.scores[~b.special])[0, 1]
                for a, b in zip(records, loo, strict=True)
            ]
            assert interval.mean == pytest.approx(np.mean(r), abs=2e-5)


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
