"""A masked token and the classes of one token, read at a place of the text, for every family with a head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import BERT_LIKE, NAMES, build, pre_norm, randomise

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.cli import main
from lrp_companion.families.tasks import task_of
from lrp_companion.loading.classifier import load_classifier

FAMILIES = (*BERT_LIKE, "modernbert", "deberta-v2")
TEXT = "the film is {mask} and never dull"


def extra_inputs(clf: lrp.Classifier, ids: torch.Tensor, types: torch.Tensor | None = None) -> dict[str, Any]:
    """Positions where RoBERTa would skip padding ids, and token types."""
    w, extra = clf.encoder.wiring, {}
    if w.first_position:
        extra["position_ids"] = clf.encoder.position_ids(ids.shape[1], ids.device).expand(*ids.shape)
    return extra | ({"token_type_ids": types.expand(*ids.shape)} if types is not None and w.types > 1 else {})


def of_task(family: str, ending: str) -> lrp.Classifier:
    """A random network of a family with another head, float64."""
    labels = 2 if ending == "ForQuestionAnswering" else 3
    if family not in NAMES:
        network, tokenizer = pre_norm(family, layers=3, labels=labels, task=ending)
    else:
        classifier, tokenizer = build(family, layers=3, labels=labels)
        network = getattr(transformers, NAMES[family] + ending)(classifier.config)
        randomise(network, 1)
    return load_classifier(network.eval(), tokenizer, dtype="float64")


@pytest.fixture(scope="module", params=FAMILIES)
def masked(request: pytest.FixtureRequest) -> lrp.Classifier:
    return of_task(request.param, "ForMaskedLM")


@pytest.fixture(scope="module", params=[*FAMILIES, "llama", "gpt2", "gpt_neox", "phi3"])
def tagger(request: pytest.FixtureRequest) -> lrp.Classifier:
    return of_task(request.param, "ForTokenClassification")


def network_logits(clf: lrp.Classifier, text: str, place: int, **inputs: Any) -> np.ndarray:
    """The transformers network's logits at one place."""
    ids = torch.tensor([clf.encode(text, **inputs)[0].input_ids])
    with torch.no_grad():
        extra = extra_inputs(clf, ids)
        return (
            clf.network(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0, place].numpy()
        )


def checked(clf: lrp.Classifier, text: str, place: int, options: dict[str, Any]) -> None:
    """Logits, LOO, its limit, the mask gradient, and the modified gradient at one place."""
    encoded: dict[str, Any] = {key: value for key, value in options.items() if key == "position"}
    logits = network_logits(clf, text, place, **encoded)
    target = options["target"]
    number = clf.class_of(target)  # a token by its text, or its name
    number = number if isinstance(number, int) else clf.labels.index(number)
    (loo,) = lrp.attribute(clf, text, method="loo", **options)
    assert loo.logit == pytest.approx(float(logits[number]), abs=1e-5)
    (text_read,) = clf.encode(text, **encoded)
    assert text_read.read == place
    ids, ones = torch.tensor([text_read.input_ids]), torch.ones(1, len(text_read), dtype=torch.long)
    whole = clf.tape(text_read).logits[0, number].item()
    for i in range(len(text_read)):
        keep = torch.ones(1, len(text_read), dtype=torch.float64)
        keep[0, i] = 0
        with torch.no_grad():
            left = clf.encoder.forward(ids, ones, keep=keep, place=torch.tensor([place])).logits[0, number]
        assert loo.scores[i] == pytest.approx(whole - left.item(), abs=1e-9)
    (gradient,) = lrp.attribute(clf, text, method="mask-gradient", **options)
    if not clf.encoder.wiring.masks_whole:  # else the mask scales embeddings, too
        assert abs(gradient.scores.sum()) < 1e-8 * max(1e-3, np.abs(gradient.scores).sum())
    for method in ("attnlrp", "cp-lrp", "gradient-x-input", "rollout"):
        together = lrp.attribute(clf, [text, text + " , a quick plot"], method=method, **options)
        (alone,) = lrp.attribute(clf, text, method=method, **options)
        np.testing.assert_allclose(together[0].scores, alone.scores, rtol=0, atol=1e-9)
        assert np.isfinite(alone.scores).all() and np.abs(alone.scores).max() > 0


def test_a_masked_token(masked: lrp.Classifier) -> None:
    text = TEXT.format(mask=masked.tokenizer.mask_token)
    place = masked.encode(text)[0].input_ids.index(masked.tokenizer.mask_token_id)
    checked(masked, text, place, {"target": " warm" if " warm" in masked.labels else "warm"})
    (record,) = lrp.attribute(masked, text, method="attnlrp", target=7, contrast=9)
    one, other = (lrp.attribute(masked, text, method="attnlrp", target=k)[0] for k in (7, 9))
    np.testing.assert_allclose(record.scores, one.scores - other.scores, rtol=0, atol=1e-10)


def test_the_classes_of_one_token(tagger: lrp.Classifier) -> None:
    checked(tagger, "the film is warm", 2, {"target": 1, "position": 2})
    assert len(tagger.labels) == 3


@pytest.mark.parametrize("removal", ["mask-token", "delete"])
def test_removals_keep_the_place(masked: lrp.Classifier, removal: str) -> None:
    text = TEXT.format(mask=masked.tokenizer.mask_token)
    (encoded,) = masked.encode(text)
    keep = np.ones((3, len(encoded)), dtype=bool)
    keep[1, 1] = keep[2, -2] = False
    values = lrp.removal_evaluator(masked, text, target=7, removal=removal)(keep)
    for row, value in zip(keep, values, strict=True):
        ids, place = np.array(encoded.input_ids), encoded.read or 0
        if removal == "delete":
            ids, place = ids[row], place - int((~row[:place]).sum())
        else:
            ids = np.where(row, ids, masked.mask_id)
        batch = torch.tensor([ids.tolist()])
        with torch.no_grad():
            extra = extra_inputs(masked, batch)
            expected = masked.network(input_ids=batch, attention_mask=torch.ones_like(batch), **extra)
        assert value == pytest.approx(float(expected.logits[0, place, 7]), abs=1e-6)
    gone = np.ones((1, len(encoded)), dtype=bool)
    gone[0, encoded.read] = False
    if removal == "delete":
        with pytest.raises(InputError, match="the token that is read removed by 'delete'"):
            lrp.removal_evaluator(masked, text, target=7, removal=removal)(gone)


def test_causal_classes_of_a_token_see_nothing_after_it(tagger: lrp.Classifier) -> None:
    if tagger.encoder.wiring.causal:
        for method in ("attnlrp", "loo", "mask-gradient"):
            (record,) = lrp.attribute(tagger, "the film is warm", method=method, position=1, target=0)
            assert np.abs(record.scores[2:]).max() < 1e-12


def test_what_is_missing_is_said() -> None:
    tagger, masked = of_task("bert", "ForTokenClassification"), of_task("bert", "ForMaskedLM")
    classifier = load_classifier(*build("bert"))
    for clf, text, options, message in (
        (tagger, "a film", {}, "position None; expected the token that is read, from 0 to 3"),
        (tagger, "a film", {"position": 4}, "position 4; expected the token"),
        (tagger, ["a film of grace", "dull"], {"position": 3}, "from 0 to 2"),
        (tagger, "a film", {"position": "1"}, "position '1'"),
        (classifier, "a film", {"position": 1}, "expected a position only for a model of token classes"),
        (masked, "a film", {}, r"text 0 with 0 mask tokens; expected one \[MASK\]"),
        (masked, "[MASK] [MASK]", {}, "with 2 mask tokens"),
        (classifier, "a [MASK]", {}, "with the special token"),
    ):
        with pytest.raises(InputError, match=message):
            lrp.attribute(clf, text, method="loo", **options)
    with pytest.raises(InputError, match="position None"):
        lrp.layer_lattice(tagger, "a film")
    assert task_of(["BertForMultipleChoice"]) is None


@pytest.mark.parametrize("family", [*FAMILIES, "gpt2"])
def test_the_start_and_the_end_of_an_answer(family: str) -> None:
    clf = of_task(family, "ForQuestionAnswering")
    assert clf.labels == ("start", "end")
    pair = ("what is warm ?", "the film is warm and never dull")
    for given, place in (("the film is warm", 2), (pair, 7)):
        (text,) = clf.encode(given, position=place)
        ids = torch.tensor([text.input_ids])
        types = clf.padded([text])[2]["types"]
        with torch.no_grad():
            extra = extra_inputs(clf, ids, types)
            out = clf.network(input_ids=ids, attention_mask=torch.ones_like(ids), **extra)
        for label, logits in (("start", out.start_logits), ("end", out.end_logits)):
            for method in ("attnlrp", "cp-lrp", "loo", "mask-gradient", "gradient-x-input"):
                (record,) = lrp.attribute(clf, given, method=method, position=place, target=label)
                assert record.logit == pytest.approx(logits[0, place].item(), abs=1e-5)
                assert np.abs(record.scores).max() > 0
    with pytest.raises(InputError, match="position None"):
        lrp.attribute(clf, pair, method="loo")


@pytest.mark.parametrize(
    ("family", "ending", "arguments"),
    [
        *((name, "ForQuestionAnswering", "--position 1 --target end") for name in ("bert", "distilbert")),
        ("modernbert", "ForQuestionAnswering", "--position 1 --target end"),
        ("bert", "ForTokenClassification", "--position 1"),
        ("bert", "ForMaskedLM", "--target warm --contrast dull"),
    ],
)
def test_the_command_reads_a_folder_at_its_place(family, ending, arguments, tmp_path, capsys) -> None:
    clf, text = of_task(family, ending), "a [MASK] film" if ending == "ForMaskedLM" else "a film"
    clf.network.save_pretrained(tmp_path)
    clf.tokenizer.save_pretrained(tmp_path)
    read = load_classifier(tmp_path, dtype="float64")
    assert read.labels == clf.labels and read.card.family == family
    assert main(["explain", text, *arguments.split(), "--model", str(tmp_path)]) == 0
    assert "film" in capsys.readouterr().out
    if ending == "ForMaskedLM":
        assert not lrp.check(clf, ["a [MASK] film", "[MASK] is dull"]).broken
