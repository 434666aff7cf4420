"""One class against another, of classifiers and of language models."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch
from tiny_models import build, pre_norm

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import load_classifier

METHODS = ("attnlrp", "cp-lrp", "gradient-x-input", "loo", "mask-gradient", "hybrid", "ig")
LANGUAGE_MODELS = {
    "gpt2": "LMHeadModel",
    "llama": "ForCausalLM",
    "qwen3": "ForCausalLM",
    "gemma2": "ForCausalLM",
}


@pytest.fixture(scope="module", params=["bert", "llama"])
def clf(request: pytest.FixtureRequest) -> lrp.Classifier:
    return load_classifier(*build(request.param, labels=3), dtype="float64")


@pytest.fixture(scope="module", params=LANGUAGE_MODELS)
def language_model(request: pytest.FixtureRequest) -> lrp.Classifier:
    task = LANGUAGE_MODELS[request.param]
    more = {"final_logit_softcapping": 3.0} if request.param == "gemma2" else {}
    return load_classifier(*pre_norm(request.param, task=task, **more), dtype="float64")


@pytest.mark.parametrize("method", METHODS)
def test_the_contrast_is_the_difference_of_two_explanations(clf: lrp.Classifier, method: str) -> None:
    options = {"baseline": "zero"} if method == "ig" else {"exact": 99} if method == "hybrid" else {}
    texts = ["a film of rare grace", "the plot is dull"]
    both = lrp.attribute(clf, texts, method=method, target=2, contrast="negative", **options)
    for k, record in enumerate(both):
        one, other = (lrp.attribute(clf, texts[k], method=method, target=c, **options)[0] for c in (2, 0))
        close = 1e-5 if method == "ig" else 1e-9  # the network's own norms work in float32
        np.testing.assert_allclose(record.scores, one.scores - other.scores, rtol=0, atol=close)
        assert record.target == 2 and record.details["label"] == "mixed"
        assert record.choices["contrast"] == "negative" and record.logit == pytest.approx(one.logit)


def test_the_next_token_by_its_text(language_model: lrp.Classifier) -> None:
    clf = language_model
    (record,) = lrp.attribute(clf, "the film was", method="attnlrp", target=" warm", contrast=" dull")
    one, other = (
        lrp.attribute(clf, "the film was", method="attnlrp", target=word)[0] for word in (" warm", " dull")
    )
    np.testing.assert_allclose(record.scores, one.scores - other.scores, rtol=0, atol=1e-11)
    assert clf.labels[record.target] == " warm" and len(clf.labels) == clf.network.config.vocab_size
    whole = clf.network(input_ids=lrp_ids(clf, "the film was")).logits[0, -1]
    assert one.logit == pytest.approx(float(whole[one.target]), rel=1e-5)
    assert lrp.attribute(clf, "the film was", method="loo")[0].target == int(whole.argmax())


def lrp_ids(clf: lrp.Classifier, text: str):
    return torch.tensor([clf.encode(text)[0].input_ids])


@pytest.mark.parametrize(
    "one", [2, torch.tensor(2), np.array(2), np.int64(2), "mixed", np.array("mixed"), np.str_("mixed")]
)
def test_one_target_in_any_form(clf: lrp.Classifier, one: object) -> None:
    texts = ["a film of rare grace", "the plot is dull"]
    assert [r.target for r in lrp.attribute(clf, texts, method="loo", target=one)] == [2, 2]
    several = pandas.Series([one, one], index=[7, 9])
    assert [r.target for r in lrp.attribute(clf, texts, method="loo", target=several)] == [2, 2]
    with pytest.raises(InputError, match=r"one of \[0, 2\]"):
        lrp.attribute(called(("good", "bad", "good")), "a film", method="loo", target="good")


def called(names: tuple[str, ...]) -> lrp.Classifier:
    model, tokenizer = build("bert", labels=len(names))
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: k for k, name in enumerate(names)}
    return load_classifier(model, tokenizer, dtype="float64")


@pytest.mark.parametrize("names", [("1", "2", "3"), ("0", "2", "1"), ("-1", "0", "1")])
def test_text_is_a_label_and_a_number_is_a_number(names: tuple[str, ...]) -> None:
    clf = called(names)
    for k, name in enumerate(names):
        (record,) = lrp.attribute(clf, "a film", method="loo", target=name)
        assert record.target == k and record.details["label"] == name
        assert lrp.attribute(clf, "a film", method="loo", target=k)[0].target == k
    with pytest.raises(InputError, match="target '7'"):
        lrp.attribute(clf, "a film", method="loo", target="7")
