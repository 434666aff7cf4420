"""A run on the answers of a language model: its numbers are those of one call of `attribute` per token."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr
from tiny_models import pre_norm

import lrp_companion as lrp
from lrp_companion import cli
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import AnswerRun, load_run
from lrp_companion.lab.review_jobs import AnswerJobs, agreements
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.sources import load_dataset

COLUMNS = {
    "ask": ["the film was not", "a warm slow film was the", "dull and slow and warm"],
    "answer": [" warm dull film", " slow film", " not"],
}
FEW = ("attnlrp", "mask-gradient:groups=2")


@pytest.fixture(scope="module")
def clf() -> lrp.Classifier:
    return load_classifier(*pre_norm("llama", task="ForCausalLM"), dtype="float64")


def data(**columns: Any) -> lrp.sources.Dataset:
    return load_dataset({**COLUMNS, **columns}, text="ask", pair="answer", title="mine")


def by_hand(clf: lrp.Classifier, method: str, row: int, **options: Any) -> list[lrp.Attribution]:
    """A call for each token of the answer."""
    prompt, answer = (
        list(clf.tokenizer(text, add_special_tokens=first)["input_ids"])
        for text, first in ((COLUMNS["ask"][row], True), (COLUMNS["answer"][row], False))
    )
    return [
        lrp.attribute(clf, [prompt + answer[:k]], method=method, target=token, **options)[0]
        for k, token in enumerate(answer)
    ]


def test_a_prompt_of_one_token_has_no_r_at_first(clf: lrp.Classifier, tmp_path: Path) -> None:
    short = data(ask=["film", *COLUMNS["ask"][1:]])
    execute(AnswerJobs(clf, short, methods=FEW), tmp_path / "run", progress=False)
    assert cli.main(["report", str(tmp_path / "run")]) == 0
    answer = lrp.attribute(clf, "film", method="attnlrp", completion=COLUMNS["answer"][0])
    first, *others = agreements(answer, lrp.attribute(clf, "film", method="loo", completion=3))[:3]
    assert np.isnan(first) and np.isfinite(others).all()


def test_the_rows_are_calls_one_by_one(clf: lrp.Classifier, tmp_path: Path) -> None:
    execute(AnswerJobs(clf, data(), methods=FEW), tmp_path / "run", progress=False)
    run = load_run(tmp_path / "run")
    assert isinstance(run, AnswerRun) and run.n == 3 and run.methods == ("loo", *FEW) and run.own
    statistics = {"pearson": pearsonr, "spearman": spearmanr, "kendall": kendalltau}
    calls = {"loo": ("loo", {}), FEW[0]: (FEW[0], {}), FEW[1]: ("mask-gradient", {"groups": 2})}
    for row in range(3):
        loo = by_hand(clf, "loo", row)
        for name, (method, options) in calls.items():
            records = by_hand(clf, method, row, **options)
            for statistic, f in statistics.items():
                pairs = [
                    (one.scores[~one.special], other.scores[~other.special])
                    for one, other in zip(records, loo, strict=True)
                ]
                longest = len(pairs[-1][0])
                padded = [np.pad(pair, ((0, 0), (0, longest - len(pair[0])))) for pair in pairs]
                sums = np.sum(padded, axis=0)
                got = run.r().sel(explainer=name, statistic=statistic, example=row)
                assert got.sel(of="tokens") == pytest.approx(
                    np.mean([f(*pair)[0] for pair in pairs]), abs=1e-5
                )
                assert got.sel(of="sum") == pytest.approx(f(*sums)[0], abs=1e-5)


def test_a_number_of_tokens_is_what_the_model_writes(clf: lrp.Classifier, tmp_path: Path) -> None:
    asked = load_dataset({"ask": COLUMNS["ask"]}, text="ask")
    execute(AnswerJobs(clf, asked, completion=3, methods=FEW[:1]), tmp_path / "run", progress=False)
    (loo,) = [row for row in rows(tmp_path / "run") if row["job"] == 1 and row["method"] == "loo"]
    written = lrp.attribute(clf, COLUMNS["ask"][1], method="loo", completion=3)
    np.testing.assert_allclose(loo["logits"], [record.logit for record in written], rtol=1e-6)


def rows(folder: Path) -> list[dict[str, Any]]:
    return load_run(folder).tables["answers"].to_pylist()


def test_the_command_and_its_report(clf: lrp.Classifier, tmp_path: Path, capsys: Any) -> None:
    network, tokenizer = pre_norm("llama", task="ForCausalLM")
    for part in (network, tokenizer):
        part.save_pretrained(tmp_path / "model")
    with open(tmp_path / "mine.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        writer.writerows(
            [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
        )
    command = [
        "run",
        str(tmp_path / "mine.csv"),
        "--text",
        "ask",
        "--model",
        str(tmp_path / "model"),
        "--quiet",
    ]
    out = ["--out", str(tmp_path / "run")]
    assert cli.main([*command, "--completion", "answer", "--methods", "attnlrp", *out]) == 0
    assert cli.main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "files")]) == 0
    said = capsys.readouterr().out
    assert "1 to 3 tokens an answer" in said and "attnlrp" in said and "You et al." not in said
    (row,) = [
        r for r in csv.DictReader((tmp_path / "files/answers-run.csv").open()) if r["method"] == "attnlrp"
    ]
    r = load_run(tmp_path / "run").r().sel(explainer="attnlrp", statistic="spearman", of="sum")
    assert float(row["r of the sum by rank"]) == pytest.approx(float(r.mean()))
    for wrong in (
        ["--completion", "missing"],
        ["--completion", "4"],
        ["--write", "0"],
        ["--write", "2", "--completion", "answer"],
        ["--completion", "answer", "--masks", "all"],
    ):
        assert cli.main([*command, *wrong, "--out", str(tmp_path / "other")]) == 2
    assert cli.main(["run", "sst2", "--write", "2", "--out", str(tmp_path / "other")]) == 2
    assert not (tmp_path / "other").exists()
