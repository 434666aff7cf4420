"""Sentence encoders: folders of sentence-transformers and objects, against forward passes of our own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from oracles_pre_norm import relevance_r_form
from tiny_models import TEXTS, build

import lrp_companion as lrp

OTHER = "a dull film ."
POOLINGS = ("mean", "cls", "max")
CASES = [
    ("bert", "mean", True, "cosine"),
    ("bert", "mean", False, "cosine"),
    ("mpnet", "mean", True, "dot"),
    ("mpnet", "max", True, None),
    ("bert", "max", False, "dot"),
    ("roberta", "cls", True, "cosine"),
    ("distilbert", "cls", False, "dot"),
]
NAMES = ["-".join(map(str, case)) for case in CASES]


def folder(
    out: Path, family: str, pooling: str, normalised: bool, similarity: str | None, below: str = ""
) -> tuple[Path, Any]:
    """An encoder in the format of sentence-transformers, and its classifier's network in float64."""
    network, tokenizer = build(family)
    network.base_model.save_pretrained(out / below)
    tokenizer.save_pretrained(out / below)
    kinds = [
        ("Transformer", below),
        ("Pooling", "1_Pooling"),
        *([("Normalize", "2_Normalize")] if normalised else []),
    ]
    modules = [
        {"idx": k, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for k, (kind, path) in enumerate(kinds)
    ]
    marks = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}
    if below:  # as version 6 writes it
        poolings: dict[str, Any] = {
            "embedding_dimension": 16,
            "pooling_mode": pooling,
            "include_prompt": True,
        }
    else:
        poolings = {f"pooling_mode_{mark}": key == pooling for key, mark in marks.items()} | {
            "include_prompt": True
        }
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": poolings,
        "config_sentence_transformers.json": {"similarity_fn_name": similarity, "default_prompt_name": None},
        f"{below}/sentence_bert_config.json".lstrip("/"): {"max_seq_length": 24, "do_lower_case": False},
    }
    for name, content in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(json.dumps(content), encoding="utf-8")
    return out, network.double()


def pooled(states: np.ndarray, mask: np.ndarray, pooling: str, normalised: bool) -> np.ndarray:
    """The embedding of last states (T, D): tokens whose mask is 0 are in no mean and no maximum."""
    of = {
        "cls": lambda: states[0],
        "mean": lambda: states[mask > 0].mean(0),
        "max": lambda: states[mask > 0].max(0),
    }
    out = of[pooling]()
    return out / np.sqrt((out**2).sum()) if normalised else out


@torch.no_grad()
def embedding(
    network: Any, ids: Any, pooling: str, normalised: bool, without: int | None = None
) -> np.ndarray:
    mask = np.ones(len(ids))
    if without is not None:
        mask[without] = 0
    first = getattr(network.base_model.embeddings, "padding_idx", -1) + 1
    places = {"position_ids": torch.arange(first, first + len(ids))[None]} if first else {}
    given = {"attention_mask": torch.tensor(mask, dtype=torch.long)[None], **places}
    states = network.base_model(torch.tensor([ids]), **given).last_hidden_state[0].numpy()
    return pooled(states, mask, pooling, normalised)


@pytest.mark.parametrize(("family", "pooling", "normalised", "similarity"), CASES, ids=NAMES)
def test_embeddings_similarities_and_loo_are_the_librarys_own(
    tmp_path: Path, family: str, pooling: str, normalised: bool, similarity: str | None
) -> None:
    below = "0_Transformer" if pooling == "cls" else ""
    path, network = folder(tmp_path, family, pooling, normalised, similarity, below)
    clf = lrp.load_classifier(path, dtype="float64")
    assert clf.max_tokens == 24
    ids = [list(text.input_ids) for text in clf.encode([TEXTS[0], OTHER])]
    e, other = (embedding(network, one, pooling, normalised) for one in ids)
    own = clf.tape(clf.encode(TEXTS[0])[0]).logits[0].numpy()
    np.testing.assert_allclose(own, e, rtol=0, atol=1e-12)

    def similar(one: np.ndarray) -> float:
        lengths = np.linalg.norm(one) * np.linalg.norm(other) if similarity != "dot" else 1.0
        return float(one @ other / lengths)

    (record,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method="loo")
    assert abs(record.logit - similar(e)) < 1e-12 and record.details["label"] == OTHER
    assert record.choices["similarity"] == similarity or similarity is None
    without = [embedding(network, ids[0], pooling, normalised, k) for k in range(len(ids[0]))]
    np.testing.assert_allclose(
        record.scores, [similar(e) - similar(one) for one in without], rtol=0, atol=1e-12
    )
    (swapped,) = lrp.attribute(clf, OTHER, target=TEXTS[0], method="loo")
    assert abs(swapped.logit - record.logit) < 1e-12 and len(swapped.tokens) == len(ids[1])


@pytest.mark.parametrize(("family", "pooling", "normalised", "similarity"), CASES[:5], ids=NAMES[:5])
def test_relevance_is_that_of_the_equations(
    tmp_path: Path, family: str, pooling: str, normalised: bool, similarity: str | None
) -> None:
    """The length of the embedding is constant; a mean is a sum; a maximum gives all to the largest."""
    path, network = folder(tmp_path, family, pooling, normalised, similarity)
    clf = lrp.load_classifier(path, dtype="float64")
    ids, others = (list(text.input_ids) for text in clf.encode([TEXTS[0], OTHER]))
    other, cosine = embedding(network, others, pooling, normalised), similarity != "dot"

    def end(x: np.ndarray) -> tuple[float, np.ndarray]:
        y = pooled(x, np.ones(len(x)), pooling, False)
        length = np.linalg.norm(y) if normalised or cosine else 1.0
        each = y / length * other / (np.linalg.norm(other) if cosine else 1.0)  # (D,): each share of the sum
        shares = x / x.sum(0) if pooling == "mean" else (x == x.max(0)).astype(float)
        return float(each.sum()), shares * each

    for method, bypass in (("attnlrp", ()), ("cp-lrp", (1, 2))):
        value, parts = relevance_r_form(clf.encoder.wiring, ids, 0, bypass=bypass, end=end)
        (record,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method=method)
        assert abs(record.logit - value) < 1e-12
        for name, relevance in parts.items():
            np.testing.assert_allclose(record.parts[name], relevance, rtol=0, atol=1e-12)


def test_gradients_are_autograds(tmp_path: Path) -> None:
    path, network = folder(tmp_path, "bert", "mean", True, "cosine")
    clf = lrp.load_classifier(path, dtype="float64")
    ids, others = (list(text.input_ids) for text in clf.encode([TEXTS[0], OTHER]))
    other = torch.tensor(embedding(network, others, "mean", True))
    base, rows = network.base_model, torch.tensor([ids])
    word = base.embeddings.word_embeddings(rows).detach().requires_grad_()
    y = base(inputs_embeds=word, attention_mask=torch.ones_like(rows)).last_hidden_state.mean(1)[0]
    (g,) = torch.autograd.grad(y @ other / y.norm(), word)
    (record,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method="gradient-x-input")
    np.testing.assert_allclose(record.scores, (g * word)[0].sum(-1).detach(), rtol=0, atol=1e-12)
    (exact,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method="loo")
    (near,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method="mask-gradient", groups="all", nodes=32)
    np.testing.assert_allclose(near.scores, exact.scores, rtol=0, atol=1e-8)


def test_several_targets_a_contrast_and_a_target_that_is_missing(tmp_path: Path) -> None:
    clf = lrp.load_classifier(folder(tmp_path, "bert", "mean", True, "cosine")[0], dtype="float64")
    how: dict[str, Any] = {"method": "attnlrp"}
    both = lrp.attribute(clf, list(TEXTS[:2]), target=[OTHER, TEXTS[2]], **how)
    for record, text, other in zip(both, TEXTS, (OTHER, TEXTS[2]), strict=False):
        (alone,) = lrp.attribute(clf, text, target=other, **how)
        np.testing.assert_allclose(record.scores, alone.scores, rtol=0, atol=1e-12)
    (less,) = lrp.attribute(clf, TEXTS[0], target=OTHER, contrast=TEXTS[2], **how)
    (second,) = lrp.attribute(clf, TEXTS[0], target=TEXTS[2], **how)
    np.testing.assert_allclose(less.scores, both[0].scores - second.scores, rtol=0, atol=1e-12)
    for target in (None, [OTHER, None], [OTHER, 0], 1, 3.5, {OTHER: 1}):
        with pytest.raises(ValueError, match="a text to compare with as the target"):
            lrp.attribute(clf, list(TEXTS[:2]), target=target, **how)
    near = clf.similar_to([OTHER])
    (before,) = lrp.attribute(near, TEXTS[0], **how)
    with torch.no_grad():
        network: Any = clf.network
        network.base_model.embeddings.word_embeddings.weight.mul_(1.5)
    (after,) = lrp.attribute(near, TEXTS[0], **how)  # its texts are embedded again
    (fresh,) = lrp.attribute(clf, TEXTS[0], target=OTHER, **how)
    assert after.logit == fresh.logit != before.logit


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "pooling weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}, "pooling mean, max"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "manhattan"}, "similarity manhattan"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "query"},
            "default_prompt_name 'query'",
        ),
        ("config_setfit.json", {"labels": None}, "as an object"),
    ],
)
def test_what_would_be_another_number_is_refused(tmp_path: Path, file: str, content: Any, said: str) -> None:
    path, _ = folder(tmp_path, "bert", "mean", True, "cosine")
    (path / file).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TypeError, match=said):
        lrp.load_classifier(path)


class Module(SimpleNamespace):
    def get_config_dict(self) -> dict[str, Any]:
        return self.config


class Transformer(Module):
    pass


class Pooling(Module):
    pass


class Normalize(Module):
    pass


class Body(list):
    """What sentence-transformers calls a SentenceTransformer: its modules, and how their outputs compare."""

    def __init__(self, similarity: str | None = "cosine") -> None:
        self.network, self.tokenizer = build("bert")
        modules = Pooling(config={"pooling_mode": "mean"}), Normalize(config={})
        super().__init__([Transformer(auto_model=self.network.base_model, config={}), *modules])
        self.max_seq_length, self.default_prompt_name = 20, None
        if similarity:
            self.similarity_fn_name = similarity


def test_an_object_is_read_as_its_folder_and_not_changed(tmp_path: Path) -> None:
    body = Body()
    clf = lrp.load_classifier(body)
    (held,) = lrp.attribute(clf, TEXTS[0], target=OTHER, method="attnlrp")
    saved = lrp.load_classifier(folder(tmp_path, "bert", "mean", True, "cosine")[0])
    (there,) = lrp.attribute(saved, TEXTS[0], target=OTHER, method="attnlrp")
    np.testing.assert_allclose(held.scores, there.scores, rtol=0, atol=1e-6)
    assert clf.max_tokens == 20 and body.network.base_model.pooler is not None


@pytest.mark.parametrize("name", ["max_seq_length", "max_length"])
def test_a_pair_reader_with_its_tokenizer_is_its_network(name: str) -> None:
    network, tokenizer = build("bert", labels=2)
    clf = lrp.load_classifier(SimpleNamespace(model=network, tokenizer=tokenizer, **{name: 12}))
    (held,) = lrp.attribute(clf, (TEXTS[0], OTHER), method="attnlrp", truncate=True)
    plain = lrp.load_classifier(network, tokenizer)
    plain.max_tokens = 12
    (record,) = lrp.attribute(plain, (TEXTS[0], OTHER), method="attnlrp", truncate=True)
    assert clf.max_tokens == 12 and np.array_equal(held.scores, record.scores)


class Regression:
    """What scikit-learn's LogisticRegression has."""

    def __init__(self, classes: Any, *, wrong: bool = False) -> None:
        rows = 1 if len(classes) == 2 else len(classes)
        draw = np.random.default_rng(3)
        self.coef_, self.intercept_ = draw.normal(size=(rows, 16)), draw.normal(size=rows)
        self.classes_, self.wrong = np.array(classes), wrong

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        z = x @ self.coef_.T + self.intercept_
        z = np.concatenate([0 * z, z], 1) if len(self.classes_) == 2 else z
        e = np.exp(2 * z if self.wrong else z)
        return e / e.sum(1, keepdims=True)


class Head(torch.nn.Module):
    """What SetFit calls a SetFitHead."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.temperature, self.eps, self.multitarget = torch.nn.Linear(16, 3), 2.0, 1e-5, False


def setfit(head: Any, *, labels: Any = None, normalised: bool = False) -> Any:
    body: Any = Body(similarity=None)
    if normalised:
        body.pop()
    return SimpleNamespace(model_body=body, model_head=head, labels=labels, normalize_embeddings=normalised)


@pytest.mark.parametrize("normalised", [False, True])
def test_setfit_is_explained_by_its_heads_logit(normalised: bool) -> None:
    cases: list[tuple[Any, Any, tuple[str, ...]]] = [
        (Regression(["bad", "good"]), None, ("good",)),
        (Regression([0, 1, 2]), ["bad", "fair", "good"], ("bad", "fair", "good")),
        (Head(), None, ("0", "1", "2")),
    ]
    for head, labels, named in cases:
        model = setfit(head, labels=labels, normalised=normalised)
        clf = lrp.load_classifier(model, dtype="float64")
        assert clf.labels == named
        ids = list(clf.encode(TEXTS[0])[0].input_ids)
        x = embedding(model.model_body.network.double(), ids, "mean", True)
        if isinstance(head, Head):
            theirs = head.linear.double()(torch.tensor(x)).detach().numpy() / (2.0 + 1e-5)
        else:
            theirs = head.coef_ @ x + head.intercept_
        (record,) = lrp.attribute(clf, TEXTS[0], target=named[-1], method="loo")
        assert abs(record.logit - theirs[-1]) < 1e-12
        (chance,) = lrp.attribute(clf, TEXTS[0], target=named[-1], output="probability", method="attnlrp")
        assert chance.logit == pytest.approx(record.logit, abs=1e-12)


def test_a_head_whose_probabilities_are_no_softmax_is_refused() -> None:
    with pytest.raises(TypeError, match="Regression of another form"):
        lrp.load_classifier(setfit(Regression(["bad", "good"], wrong=True)))
