"""The tokens that a language model writes, all classes and all places: each as a call of its own gives it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browsing import state_of
from test_own_logits import talker
from test_tasks import of_task
from tiny_models import build, pre_norm
from traitlets import TraitError

import lrp_companion as lrp
from lrp_companion import cli
from lrp_companion.checks import InputError
from lrp_companion.completion import Completion
from lrp_companion.methods.text_method import Work

FAMILIES = {"gpt2": "LMHeadModel", "llama": "ForCausalLM", "gemma2": "ForCausalLM", "qwen3": "ForCausalLM"}
PROMPT, ANSWER, OTHER = "the film was not", " warm dull film", " dull slow film"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("attnlrp", {}),
    ("attnlrp", {"output": "margin", "epsilon": 1e-3}),
    ("cp-lrp", {}),
    ("lrp", {"bypass": [2], "epsilon": 1e-3}),
    ("pa-lrp", {}),
    ("gradient-x-input", {}),
    ("mask-gradient", {}),
    ("mask-gradient", {"groups": 2}),
    ("loo", {}),
    ("loo", {"removal": "delete"}),
    ("loo", {"unit": "word", "output": "probability"}),
    ("loo", {"unit": ["film was"]}),
    ("hybrid", {"exact": 2}),
    ("shapley", {"exact": 9}),
    ("rollout", {}),
)
called = pytest.mark.parametrize(("method", "options"), CALLS, ids=[f"{m}-{o}" for m, o in CALLS])


@pytest.fixture(scope="module", params=FAMILIES)
def clf(request: pytest.FixtureRequest) -> lrp.Classifier:
    return lrp.load_classifier(*pre_norm(request.param, task=FAMILIES[request.param]), dtype="float64")


def ids_of(clf: lrp.Classifier, text: str) -> list[int]:
    return list(clf.tokenizer(text, add_special_tokens=False)["input_ids"])


def one_by_one(clf: lrp.Classifier, method: str, **options: Any) -> list[lrp.Attribution]:
    """A call for each token of the answer, with all before it as token ids."""
    prompt, answer, other = list(clf.encode(PROMPT)[0].input_ids), ids_of(clf, ANSWER), ids_of(clf, OTHER)
    contrasted, out = options.pop("contrast", None), []
    for k, token in enumerate(answer):
        more = {} if contrasted is None or other[k] == token else {"contrast": other[k]}
        (record,) = lrp.attribute(clf, [prompt + answer[:k]], method=method, target=token, **more, **options)
        out.append(record)
    return out


def same(record: lrp.Attribution, other: lrp.Attribution) -> None:
    assert record.tokens == other.tokens and record.offsets == other.offsets and record.text == other.text
    assert record.target == other.target and record.choices == other.choices
    np.testing.assert_array_equal(record.special, other.special)
    np.testing.assert_allclose(record.scores, other.scores, rtol=0, atol=1e-10)
    assert record.logit == pytest.approx(other.logit, abs=1e-10)
    assert record.parts.keys() == other.parts.keys()
    for name, part in record.parts.items():
        np.testing.assert_allclose(part, other.parts[name], rtol=0, atol=1e-10)


@called
def test_each_token_is_explained_as_alone(clf: lrp.Classifier, method: str, options: dict) -> None:
    answer = lrp.attribute(clf, PROMPT, method=method, completion=ANSWER, **options)
    assert isinstance(answer, Completion) and answer.text == ANSWER and len(answer) == 3
    for record, alone in zip(answer, one_by_one(clf, method, **options), strict=True):
        same(record, alone)


@pytest.mark.parametrize("method", ["attnlrp", "lrp", "loo", "mask-gradient", "gradient-x-input", "pa-lrp"])
def test_against_another_answer(clf: lrp.Classifier, method: str) -> None:
    options = {"epsilon": 1e-3} if method == "lrp" else {}
    answer = lrp.attribute(clf, PROMPT, method=method, completion=ANSWER, contrast=OTHER, **options)
    alone = one_by_one(clf, method, contrast=OTHER, **options)
    for record, other in zip(answer[:2], alone[:2], strict=True):
        same(record, other)
    np.testing.assert_allclose(answer[2].scores, 0, atol=1e-12)  # the same token in both
    assert answer[2].logit == pytest.approx(alone[2].logit)


def test_loo_is_that_of_the_network_itself() -> None:
    """Each removed token is closed to all others; the network's own logits, token by token."""
    network, tokenizer = pre_norm("llama", task="ForCausalLM")
    clf = lrp.load_classifier(network, tokenizer, dtype="float64")
    answer = lrp.attribute(clf, PROMPT, method="loo", completion=ANSWER)
    ids = torch.tensor([[*clf.encode(PROMPT)[0].input_ids, *ids_of(clf, ANSWER)]])
    start, count = len(answer[0].tokens), ids.shape[1]

    def logits(removed: int | None) -> torch.Tensor:
        closed = torch.full((1, 1, count, count), -torch.inf, dtype=torch.float64).triu(1)
        if removed is not None:
            closed[..., removed] = -torch.inf
            closed[..., removed, removed] = 0  # its own row is read by nobody
        with torch.no_grad():
            return clf.network(input_ids=ids, attention_mask=closed).logits[0]

    whole, without = logits(None), [logits(k) for k in range(count)]
    for step, record in enumerate(answer):
        at, token = start + step - 1, int(ids[0, start + step])
        for k in range(at):  # the last token reads itself; without it nothing is left of its own row
            gap = float(whole[at, token] - without[k][at, token])
            assert record.scores[k] == pytest.approx(gap, abs=1e-6)  # its norms work in float32


def test_a_gradient_is_that_of_autograd() -> None:
    clf = lrp.load_classifier(*pre_norm("llama", task="ForCausalLM"), dtype="float64")
    answer = lrp.attribute(clf, PROMPT, method="gradient-x-input", completion=ANSWER)
    ids = torch.tensor([[*clf.encode(PROMPT)[0].input_ids, *ids_of(clf, ANSWER)]])
    word = clf.network.get_input_embeddings()(ids).detach().requires_grad_(True)
    logits = clf.network(inputs_embeds=word).logits[0]
    for step, record in enumerate(answer):
        at = len(record.tokens) - 1
        (g,) = torch.autograd.grad(logits[at, ids[0, at + 1]], word, retain_graph=True)
        want = (g * word).sum(-1)[0].detach().numpy()
        np.testing.assert_allclose(record.scores, want[: at + 1], rtol=0, atol=1e-6)
        assert not want[at + 1 :].any() and step == at + 1 - len(answer[0].tokens)


def test_one_forward_serves_all_tokens(clf: lrp.Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    lrp.attribute(clf, PROMPT, method="attnlrp", completion=ANSWER)  # compared with the network, once
    forward, calls = type(clf.encoder).forward, []

    def counted(self: Any, ids: torch.Tensor, *given: Any, **more: Any) -> Any:
        calls.append(tuple(ids.shape))
        return forward(self, ids, *given, **more)

    monkeypatch.setattr(type(clf.encoder), "forward", counted)
    whole = len(clf.encode(PROMPT)[0]) + 2
    for method in ("attnlrp", "gradient-x-input", "mask-gradient"):
        calls.clear()
        lrp.attribute(clf, PROMPT, method=method, completion=ANSWER)
        assert calls == [(1, whole)], method
    calls.clear()
    few = lrp.attribute(clf, PROMPT, method="attnlrp", completion=ANSWER, batch_tokens=2 * whole)
    assert calls == [(1, whole - 1), (1, whole)]
    many = lrp.attribute(clf, PROMPT, method="attnlrp", completion=ANSWER)
    np.testing.assert_allclose(few.sum().scores, many.sum().scores, atol=1e-12)


def test_the_most_likely_tokens(clf: lrp.Classifier) -> None:
    answer, ids = (
        lrp.attribute(clf, PROMPT, method="loo", completion=4),
        list(clf.encode(PROMPT)[0].input_ids),
    )
    for record in answer:
        with torch.no_grad():
            assert record.target == int(clf.network(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        ids.append(record.target)
    assert len(answer) == 4 or ids[-1] == clf.tokenizer.eos_token_id
    given = lrp.attribute(clf, PROMPT, method="loo", completion=[record.target for record in answer])
    np.testing.assert_array_equal(given.sum().scores, answer.sum().scores)


def test_a_talk_is_answered() -> None:
    clf = lrp.load_classifier(*talker(), dtype="float64")
    talk = [{"role": "user", "content": "the film is dull"}]
    answer = lrp.attribute(clf, talk, method="attnlrp", completion=" not warm")
    first = answer[0]
    (alone,) = lrp.attribute(clf, talk, method="attnlrp", target=" not")
    same(first, alone)
    assert answer[-1].special.tolist() == [*first.special.tolist(), False]
    assert [token for token, mark in zip(first.tokens, first.special, strict=True) if mark][-1] == "<|turn|>"


def test_tables_sums_and_files(clf: lrp.Classifier, tmp_path: Path) -> None:
    answer = lrp.attribute(clf, PROMPT, method="cp-lrp", completion=ANSWER)
    table, total = answer.table(), answer.sum()
    assert table.dims == ("completion", "token") and list(table.completion.values) == list(answer.tokens)
    np.testing.assert_allclose(table.sum("token"), [record.scores.sum() for record in answer])
    np.testing.assert_allclose(table.sum("completion"), total.scores, atol=1e-12)
    assert int(table.isnull().sum()) == 3 and total.logit == pytest.approx(sum(r.logit for r in answer))
    np.testing.assert_allclose(total.parts["word"], total.scores, atol=1e-12)
    assert Completion.from_json(answer.to_json()) == answer
    for kind in ("json", "html", "svg", "tex"):
        answer.save(tmp_path / f"answer.{kind}")
    assert Completion.from_json((tmp_path / "answer.json").read_text()) == answer
    for wrong in ("no", "[]", "{}", "[{}]", "3"):
        with pytest.raises(InputError):
            Completion.from_json(wrong)
    with pytest.raises(InputError, match="none shorter"):
        Completion(answer[::-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"completion": ""}, "at least one token"),
        ({"completion": []}, "at least one token"),
        ({"completion": 0}, "completion 0"),
        ({"completion": True}, "completion True"),
        ({"completion": 2.5}, "completion 2.5"),
        ({"completion": [10**6]}, "token id 1000000"),
        ({"completion": 100}, "prompt and completion of"),
        ({"completion": " warm", "target": 3}, "completion with a target or a position"),
        ({"completion": " warm", "position": 1}, "completion with a target or a position"),
        ({"completion": " warm dull", "contrast": " dull"}, "as many tokens as the completion, 2"),
        ({"completion": " warm", "contrast": " dull", "output": "probability"}, "output 'probability'"),
        ({"completion": " warm", "contrast": " dull", "method": "rollout"}, "the same for every class"),
    ],
)
def test_bad_completions_are_refused(options: dict, message: str) -> None:
    clf = lrp.load_classifier(*pre_norm("llama", task="ForCausalLM"))
    with pytest.raises(InputError, match=message) as caught:
        lrp.attribute(clf, PROMPT, **{"method": "attnlrp", **options})
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="2 prompts with a completion"):
        lrp.attribute(clf, [PROMPT, PROMPT], method="loo", completion=" warm")


def test_a_classifier_writes_nothing() -> None:
    clf = lrp.load_classifier(*build("bert"))
    with pytest.raises(InputError, match="expected a model of the next token"):
        lrp.attribute(clf, PROMPT, method="loo", completion=" warm")


def test_the_next_token_at_any_place(clf: lrp.Classifier) -> None:
    ids = list(clf.encode(PROMPT)[0].input_ids)
    for method in ("attnlrp", "loo", "mask-gradient", "gradient-x-input", "rollout"):
        (record,) = lrp.attribute(clf, PROMPT, method=method, position=2)
        (alone,) = lrp.attribute(clf, [ids[:3]], method=method)
        assert record.target == alone.target and len(record.tokens) == len(ids)
        np.testing.assert_allclose(record.scores, [*alone.scores, *[0] * (len(ids) - 3)], rtol=0, atol=1e-10)
    (named,) = lrp.attribute(clf, PROMPT, method="loo", position="film")
    (placed,) = lrp.attribute(clf, PROMPT, method="loo", position=named.tokens.index(" film"))
    assert named == placed


# -- all classes, all places --------------------------------------------------------------------------------

SEVERAL = ("attnlrp", "cp-lrp", "loo", "mask-gradient", "gradient-x-input", "hybrid", "rollout")


@pytest.mark.parametrize("family", ["bert", "gpt2", "deit"])
@pytest.mark.parametrize("method", SEVERAL)
def test_all_classes_are_those_of_single_calls(family: str, method: str) -> None:
    if family == "deit":
        from tiny_models import vision

        clf = lrp.load_classifier(vision("deit", kind="ForImageClassificationWithTeacher"), dtype="float64")
        inputs: Any = np.random.default_rng(0).normal(size=(2, 2, 6, 9))
    else:
        clf = lrp.load_classifier(*build(family, labels=3), dtype="float64")
        inputs = ["a film of rare grace", "dull"]
    options = {"exact": 2} if method == "hybrid" else {}
    records = lrp.attribute(clf, inputs, method=method, target="all", **options)
    assert [record.target for record in records] == [0, 1, 2] * 2
    for k in range(3):
        alone = lrp.attribute(clf, inputs, method=method, target=k, **options)
        for record, one in zip(records[k::3], alone, strict=True):
            same(record, one)


@pytest.mark.parametrize("method", SEVERAL)
def test_all_places_of_a_tagger(method: str) -> None:
    clf = of_task("bert", "ForTokenClassification")
    options = {"exact": 2} if method == "hybrid" else {}
    text = "the film was warm"
    records = lrp.attribute(clf, text, method=method, target="all", **options)
    assert len(records) == 4  # not [CLS], not [SEP]
    for place, record in enumerate(records, start=1):
        same(record, lrp.attribute(clf, text, method=method, position=place, **options)[0])
    classes = lrp.attribute(clf, text, method=method, target="all", position=2, **options)
    assert [record.target for record in classes] == list(range(len(clf.labels)))


def test_one_pass_serves_all_classes() -> None:
    clf = lrp.load_classifier(*build("bert", labels=3), dtype="float64")
    texts = clf.encode(["dull", "a film", "dull"])
    work = Work("lrp", clf, [texts[0], texts[0], texts[1], texts[2], texts[0]], [None] * 5)
    shapes = [(rows, ids.shape[0]) for rows, ids, *_ in work.batches()]
    assert sorted(shapes) == [([0, 1, 4], 1), ([2, 3], 2)]


# -- what a user sees ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    for part in pre_norm("llama", task="ForCausalLM"):
        part.save_pretrained(path)
    return path


def test_the_command_prints_one_screen(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture, refused: Any
) -> None:
    asked = ["explain", PROMPT, "--model", str(folder), "--completion"]
    assert cli.main([*asked, ANSWER, "--contrast", OTHER, "--out", str(tmp_path / "page.html")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) < 20 and max(map(len, printed)) <= 80 and "sum of logits" in printed[0]
    assert printed[2].split() == ["warm", "dull", "film", "sum"]
    assert "token_heatmap" in (tmp_path / "page.html").read_text()
    assert cli.main([*asked, "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) <= 3
    assert "completion with a target" in refused([*asked, ANSWER, "--target", "3"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_completion(theme: str, clf: lrp.Classifier, show: Any) -> None:
    answer = lrp.attribute(clf, PROMPT, method="attnlrp", completion=ANSWER)
    widget = lrp.TokenHeatmap(answer)
    page = show(widget, theme=theme, axe=True, viewport={"width": 360, "height": 740})
    assert page.locator("ol.lrp-tokens").count() == 1
    page.get_by_label("' dull'", exact=True).check()
    assert state_of(page, "chosen") == 2
    assert page.locator("ol.lrp-tokens li").count() == len(answer[1].tokens)
    assert "' dull'" in page.inner_text("p.lrp-title")
    assert "chosen=2" in page.locator(".lrp-link").get_attribute("href")
    page.keyboard.press("ArrowRight")
    assert state_of(page, "chosen") == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    widget.chosen = 1
    for wrong in (-1, 4):
        with pytest.raises(TraitError, match="expected 0 to 3"):
            widget.chosen = wrong


@pytest.mark.skipif(not os.environ.get("LRP_COMPANION_GGUF"), reason="LRP_COMPANION_GGUF names no .gguf file")
def test_a_real_model_knows_a_capital() -> None:
    clf = lrp.load_classifier(os.environ["LRP_COMPANION_GGUF"])
    answer = lrp.attribute(clf, "The capital of France is", method="attnlrp", completion=2)
    assert answer.text.startswith(" Paris")
