"""A regression: one output, explained as it is; what needs classes is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import TEXTS, build, save

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.cli import main
from lrp_companion.lab.load import load_run, loo_maps
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import METHODS
from lrp_companion.schema import Protocol

NEAR = 1e-6  # the rotations of Llama are in single precision
FAMILIES = ("bert", "distilbert", "llama")


@pytest.fixture(scope="module", params=FAMILIES)
def regression(request: pytest.FixtureRequest) -> Classifier:
    network, tokenizer = build(request.param, labels=1)
    return load_classifier(network, tokenizer, dtype="float64")


def test_a_network_with_one_output_is_a_regression(regression: Classifier) -> None:
    assert regression.regression and not regression.multi_label
    assert regression.card.problem_type == "regression" and len(regression.labels) == 1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains_the_one_output(regression: Classifier, method: str) -> None:
    record = lrp.attribute(regression, TEXTS[0], method=method)[0]
    assert record.target == 0 and np.isfinite(record.scores).all()
    ids = regression.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        value = regression.network(**ids).logits
    assert value.shape == (1, 1) and record.logit == pytest.approx(value.item(), abs=NEAR)


def test_loo_is_the_fall_of_the_output(regression: Classifier) -> None:
    record = lrp.attribute(regression, TEXTS[0], method="loo")[0]
    ids = regression.tokenizer(TEXTS[0], return_tensors="pt")
    for place in range(1, len(record.scores) - 1):
        mask = torch.ones_like(ids["input_ids"])
        mask[0, place] = 0
        with torch.no_grad():
            after = regression.network(input_ids=ids["input_ids"], attention_mask=mask).logits.item()
        assert record.scores[place] == pytest.approx(record.logit - after, abs=NEAR)


def test_lrp_starts_at_the_output(regression: Classifier) -> None:
    """The relevance of the end of the last layer is the output, less what the head's biases keep."""
    report = lrp.check(regression, list(TEXTS))
    assert not report.broken, str(report)


def test_a_run_has_the_logit_only(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = save(tmp_path / "model", "bert", labels=1)
    texts = tmp_path / "texts.csv"
    texts.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS))
    command = ["run", str(texts), "--text", "text", "--model", str(folder), "--quiet"]
    assert main([*command, "--masks", "all", "--keep-maps", "--out", str(tmp_path / "run")]) == 0
    run = load_run(tmp_path / "run")
    assert run.manifest["config"]["targets"] == ["logit"]
    assert run.manifest["model"]["problem_type"] == "regression"
    assert np.isfinite(run.r("attnlrp")).any() and np.isnan(run.r("attnlrp", Protocol(target="margin"))).all()
    assert np.isfinite(run.mask_means()).all()
    assert main([*command, "--targets", "logit,probability", "--out", str(tmp_path / "other")]) == 2
    assert "output 'probability' of a regression" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "run")]) == 0
    command = ["export-page", "--model", str(folder), "--out", str(tmp_path / "page")]
    assert main(command) == 2 and "one output, a regression" in capsys.readouterr().err


@pytest.mark.parametrize("family", FAMILIES)
def test_one_sigmoid_output_has_a_logit_and_a_probability(family: str) -> None:
    network, tokenizer = build(family, labels=1)
    network.config.problem_type = "multi_label_classification"
    clf = load_classifier(network, tokenizer, dtype="float64")
    assert clf.multi_label and not clf.regression and len(clf.labels) == 1
    loo = {o: lrp.attribute(clf, TEXTS[0], method="loo", output=o)[0] for o in ("logit", "probability")}
    whole = loo["logit"].logit
    left = whole - loo["logit"].scores
    expected = 1 / (1 + np.exp(-whole)) - 1 / (1 + np.exp(-left))
    np.testing.assert_allclose(loo["probability"].scores, expected, atol=1e-9)
    for method in METHODS:
        (record,) = lrp.attribute(clf, TEXTS[0], method=method)
        assert np.isfinite(record.scores).all() and record.logit == pytest.approx(whole, abs=NEAR)
    with pytest.raises(InputError, match="output 'margin' of a multi-label classifier"):
        lrp.attribute(clf, TEXTS[0], method="loo", output="margin")
    after = np.array([[1.0], [0.25]])
    probability = 1 / (1 + np.exp(-after[:, 0]))
    _, margin, found = loo_maps(after, 0, multi_label=True)
    assert found == pytest.approx(probability[0] - probability[1]) and np.isnan(margin).all()
