"""Runs on one's own model and data: own names, any classes, pairs, several labels at once, and the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lrp_book.zips import cut
from tiny_models import build, save

from lrp_companion.checks import InputError
from lrp_companion.cli import main
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.paper.published import FINGERPRINTS
from lrp_companion.lab.paper.tables import table2
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.schema import MULTI_LABEL, Protocol
from lrp_companion.sources import load_dataset

ROWS = [
    ("a film of rare grace", "positive"),
    ("the plot is slow", "negative"),
    ("a warm film , but dull", "mixed"),
    ("no laugh was quick", ""),
]
COLUMNS = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
FEW = {"methods": ("loo", "attnlrp"), "masks": "none"}


def several(labels: int = 3) -> Classifier:
    """A classifier whose labels do not exclude one another."""
    network, tokenizer = build("bert", labels=labels)
    network.config.problem_type = MULTI_LABEL
    return load_classifier(network, tokenizer, dtype="float64")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Own data under the name of the paper's, in a folder of the paper's layout."""
    (tmp_path / "sst2").mkdir()
    file = tmp_path / "sst2" / "sst2.csv"
    with open(file, "w", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *ROWS])
    return file


def test_from_the_command_to_the_files(tmp_path: Path, rows: Path, capsys: pytest.CaptureFixture) -> None:
    """Three classes by name, one row unlabelled; whatever the file is called, no number of the paper."""
    model, out, files = save(tmp_path / "mine", "roberta", labels=3), tmp_path / "first", tmp_path / "report"
    given = ["--text", "text", "--label", "label", "--model", str(model), "--out", str(out), "--quiet"]
    assert main(["run", str(rows), *given, "--methods", "loo,attnlrp,cp-lrp"]) == 0
    run = load_run(out)
    assert isinstance(run, TextRun) and (run.task, run.data_name) == ("texts", "sst2")
    assert run.example_column("label").tolist() == [1, 0, 2, -1]
    assert main(["report", str(out), "--out", str(files)]) == 0
    text = (files / "report.txt").read_text()
    assert "sst2 from file: 4 texts" in text
    assert not any(word in text for word in ("paper", "Table 2", "Table A3", "Claims", "textattack"))
    kinds = {file.suffix for file in files.iterdir()}
    assert kinds == {".txt", ".csv", ".tex"} and all(f.stat().st_size for f in files.iterdir())
    with open(files / "methods-first.csv", newline="") as source:
        table = list(csv.DictReader(source))
    assert len(table) == 2 * 9 and {row["data"] for row in table} == {"sst2"} and "r, paper" not in table[0]
    expected = table2(run)[1]["r"]
    found = [row for row in table if row["method"] == "attnlrp" and "default" in row["protocol"]]
    row, _ = sorted(found, key=lambda row: row["statistic"].lower())  # Pearson's before Spearman's
    assert float(row["r"]) == expected.mean and float(row["r low"]) == expected.low
    capsys.readouterr()


def test_the_papers_numbers_stand_beside_its_data_only(tmp_path: Path) -> None:
    """Other texts under the paper's name are not its data."""
    clf, data = load_classifier(*build("bert")), load_dataset("sst2", source="embedded", limit=2)
    execute(TextJobs(clf, data, **FEW), tmp_path / "run", progress=False)
    run = load_run(tmp_path / "run")
    assert all(row["r, paper"] is None for row in table2(run))
    run.manifest["config"]["data"] = FINGERPRINTS["sst2"]
    assert [row["r, paper"] for row in table2(run)][0] == 1.0


def test_the_fingerprints_are_those_of_the_committed_runs() -> None:
    for name, task in (("sst2-companion", "sst2"), ("imdb-companion", "imdb"), ("mnist-plain", "mnist")):
        file = Path(__file__).parent.parent / "results" / name / "manifest.json"
        assert json.loads(file.read_text())["config"]["data"] == FINGERPRINTS[task]


def test_a_run_goes_on_from_another_name_of_the_same_data_only(tmp_path: Path) -> None:
    clf = load_classifier(*build("bert", labels=3))
    first = load_dataset(COLUMNS, text="text", label="label", title="first")
    execute(TextJobs(clf, first, limit=2, **FEW), tmp_path / "run", progress=False)
    execute(TextJobs(clf, first, **FEW), tmp_path / "run", progress=False)
    other = load_dataset(COLUMNS, text="text", label="label", title="other")
    with pytest.raises(InputError, match="name: 'first' there, 'other' now"):
        execute(TextJobs(clf, other, **FEW), tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="LOO from .* with name first"):
        TextJobs(clf, other, **FEW, loo_from=tmp_path / "run")


def test_loo_of_a_record_that_was_cut_is_that_of_the_removals_that_it_keeps(tmp_path: Path) -> None:
    clf, removals = load_classifier(*build("bert", labels=3)), ["attention-mask", "delete"]
    data = load_dataset(COLUMNS, text="text", label="label", title="first")
    execute(TextJobs(clf, data, **FEW), tmp_path / "run", progress=False)
    whole = TextJobs(clf, data, removals=removals, loo_from=tmp_path / "run", **FEW).known
    for path, content in cut(tmp_path, "run", "examples.*", {"removal": removals}).items():
        path.write_bytes(content) if content else path.unlink()
    again = TextJobs(clf, data, removals=removals, loo_from=tmp_path / "run", **FEW).known
    for job, row in whole.items():
        np.testing.assert_array_equal(again[job]["after"], row["after"])
    with pytest.raises(InputError, match=r"with removals \['attention-mask', 'delete'\]"):
        TextJobs(clf, data, loo_from=tmp_path / "run", **FEW)


def test_a_run_on_pairs_is_what_attribute_gives(tmp_path: Path) -> None:
    clf = load_classifier(*build("bert", labels=3), dtype="float64")
    data = load_dataset({"a": COLUMNS["text"], "b": COLUMNS["text"][::-1]}, text="a", pair="b")
    execute(TextJobs(clf, data, methods=("loo", "attnlrp"), masks="paths"), tmp_path / "run", progress=False)
    run = load_run(tmp_path / "run")
    records = attribute(clf, data.inputs, method="loo")
    for loo, record in zip(run.loo(), records, strict=True):
        np.testing.assert_allclose(loo, record.scores, atol=1e-9)
    assert run.example_column("tokens").tolist() == [len(record.tokens) for record in records]


def test_the_probability_of_a_label_is_its_sigmoid() -> None:
    clf = several()
    assert clf.card.problem_type == MULTI_LABEL
    (text,) = clf.encode(ROWS[0][0])
    logits = clf.tape(text).logits[0].detach()
    (record,) = attribute(clf, ROWS[0][0], method="loo", output="probability", target=2)
    ids = torch.tensor([text.input_ids])
    mask = torch.ones_like(ids)
    mask[0, 2] = 0
    left = clf.logits(ids, mask)[0, 2].sigmoid()
    assert record.scores[2] == pytest.approx(float(logits[2].sigmoid() - left), abs=1e-10)
    (gradient,) = attribute(clf, ROWS[0][0], method="gradient-x-input", output="probability", target=2)
    (of_logit,) = attribute(clf, ROWS[0][0], method="gradient-x-input", target=2)
    slope = float(logits[2].sigmoid() * (1 - logits[2].sigmoid()))
    np.testing.assert_allclose(gradient.scores, slope * of_logit.scores, atol=1e-10)


@pytest.mark.parametrize("labels", [1, 3])
def test_a_run_on_several_labels_leaves_the_margin_out(tmp_path: Path, labels: int) -> None:
    clf, data = several(labels), load_dataset({"text": COLUMNS["text"]}, text="text")
    execute(TextJobs(clf, data, methods=("loo", "attnlrp")), tmp_path / "run", progress=False)
    run = load_run(tmp_path / "run")
    assert run.manifest["config"]["targets"] == ["logit", "probability"]
    records = attribute(clf, data.texts[0], method="loo", output="probability")
    np.testing.assert_allclose(run.loo(Protocol(target="probability"))[0], records[0].scores, atol=1e-9)
    assert np.isnan(run.loo(Protocol(target="margin"))[0]).all()
    assert np.isfinite(run.r("attnlrp", Protocol(target="probability"))).any()
    with pytest.raises(InputError, match="multi-label"):
        TextJobs(clf, data, targets=("logit", "margin"))


def test_a_run_without_perturbation_curves(tmp_path: Path) -> None:
    """`--no-curves` leaves out MoRF and LeRF, and nothing else; its rows are those of another key."""
    model, runs = save(tmp_path / "mine", "bert"), {}
    for name, more in (("with", []), ("without", ["--no-curves"])):
        command = ["run", "sst2", "--source", "embedded", "--limit", "3", "--model", str(model), "--quiet"]
        command += ["--methods", "loo,attnlrp,cp-lrp", *more, "--out", str(tmp_path / name)]
        assert main(command) == 0
        runs[name] = load_run(tmp_path / name)
    for row in (*runs["with"].methods, *runs["with"].masks):
        np.testing.assert_array_equal(runs["without"].r(row), runs["with"].r(row))
        assert np.isfinite(runs["with"].column(row, "delta")).all()
        assert np.isnan(runs["without"].column(row, "delta")).all()
    assert runs["with"].manifest["key"] != runs["without"].manifest["key"]
    assert "curves" not in runs["with"].manifest["config"]  # as in runs that were made before
