"""What `check` measures: right models are found right, a broken walk is found broken, and losses add up."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from tiny_models import PRE_NORM, TEXTS, build

import lrp_companion as lrp
from lrp_companion import cli
from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import layer_relevance
from lrp_companion.tape.steps import CAUSES, MapStep, metered, metering

MODELS = ("bert", "electra", "distilbert", *PRE_NORM)


@pytest.fixture(scope="module", params=MODELS)
def clf(request: pytest.FixtureRequest) -> lrp.Classifier:
    return load_classifier(*build(request.param, layers=3), dtype="float64")


def test_a_model_that_is_right_is_found_right(clf: lrp.Classifier) -> None:
    done = lrp.check(clf, [TEXTS[1], TEXTS[3]])
    assert not done.broken and "4 of 4 checks right on 2 texts" in done.verdict
    by_name = {figure.name: figure for figure in done.figures}
    assert by_name["logits"].value < 1e-6 and by_name["leave-one-out"].value < 1e-6
    assert by_name["conservation of attnlrp"].value < 1e-9 > by_name["conservation of cp-lrp"].value
    assert list(done.layers) == ["attnlrp", "cp-lrp"]


@pytest.mark.parametrize("bypass", [(), (2,), (1, 2, 3)], ids=str)
def test_from_the_logit_down_every_loss_is_accounted_for(clf: lrp.Classifier, bypass: tuple) -> None:
    flow = layer_relevance(clf, TEXTS[1], bypass=bypass)
    assert set(flow.lost) == set(CAUSES)
    left = flow.logit - np.cumsum(sum(flow.lost.values()))
    np.testing.assert_allclose(flow.sums, left, rtol=0, atol=1e-10 * max(1, abs(flow.logit)))
    softmax = flow.lost["softmax"]
    assert (softmax[[level for level in (1, 2, 3) if 4 - level in bypass]] == 0).all()
    assert bypass == (1, 2, 3) or softmax.any()


def test_the_share_of_biases_is_that_of_their_own_relevance() -> None:
    """A bias keeps b times g: twice the bias of the head's last map keeps twice as much."""
    network, tokenizer = build("bert")
    clf = load_classifier(network, tokenizer, dtype="float64")
    record = layer_relevance(clf, TEXTS[0], target=1)
    last = clf.network.classifier.bias[1].item()
    pooler = clf.encoder.forward(*_batch(clf)).head.steps[0]
    g = pooler.slope[0] * clf.network.classifier.weight[1]
    expected = last + float((g * clf.network.bert.pooler.dense.bias).sum())
    assert record.lost["biases"][0] == pytest.approx(expected, rel=1e-10)


def _batch(clf: lrp.Classifier):
    import torch

    ids = torch.tensor([clf.encode(TEXTS[0])[0].input_ids])
    return ids, torch.ones_like(ids)


def test_nothing_is_worked_out_while_nobody_measures() -> None:
    assert metering() is None
    with metered() as outer, metered() as inner:
        assert outer is not inner and metering() is inner


def test_a_walk_that_is_wrong_is_found_broken(monkeypatch, capsys, model_folder) -> None:
    clf = load_classifier(model_folder("bert"), dtype="float64")
    whole = MapStep.backward
    monkeypatch.setattr(MapStep, "backward", lambda self, g, *, eps: 1.01 * whole(self, g, eps=eps))
    done = lrp.check(clf, list(TEXTS[:2]))
    assert done.broken and "BROKEN: conservation of attnlrp, conservation of cp-lrp" in done.verdict
    assert cli.main(["check", *TEXTS[:2], "--model", str(model_folder("bert"))]) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_the_command(capsys, model_folder) -> None:
    assert cli.main(["check", *TEXTS[:2], "--model", str(model_folder("bert")), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert not record["broken"] and record["texts"] == 2 and record["model"]["family"] == "bert"
    assert [figure["verdict"] for figure in record["figures"][:4]] == ["right"] * 4
    assert cli.main(["check", "dull", "--model", "nowhere"]) == 2


def test_one_text_has_no_interval() -> None:
    clf = load_classifier(*build("gpt2"))
    assert "n = 1, no interval" in str(lrp.check(clf, TEXTS[1]))
    with pytest.raises(ModelError, match="check: got a model of type str"):
        lrp.check("companion", TEXTS[1])  # type: ignore[arg-type]


def test_a_page_shows_names_as_text(clf: lrp.Classifier) -> None:
    done = lrp.check(clf, TEXTS[1])
    named = dataclasses.replace(done, card=dataclasses.replace(done.card, name="<script>x</script>"))
    page = named._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert json.loads(named.to_json())["model"]["name"] == "<script>x</script>"
