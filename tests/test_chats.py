"""Chats as they are used: options of a template, several prompts with answers, a message as a unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_own_logits import talker

import lrp_companion as lrp

TEMPLATE = (
    "{{bos_token}}{% if tools %}<|turn|>tools "
    "{% for t in tools %}{{t.function.name}} {% endfor %}<|end|>{% endif %}"
    "{% for d in documents or [] %}<|turn|>source {{d.title}}: {{d.text}}<|end|>{% endfor %}"
    "{% for m in messages %}<|turn|>{{m.role}} {{m.content | trim}}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant"
    "{% if enable_thinking is false %} no film{% endif %}{% endif %}"
)
TALK = [
    {"role": "system", "content": "a film"},
    {"role": "user", "content": " is the film dull"},  # the template strips it
    {"role": "assistant", "content": "no"},
    {"role": "user", "content": "a film"},  # a second time
]
SOURCES = [{"title": "one", "text": "the film is dull"}, {"title": "two", "text": "a film of grace"}]


@pytest.fixture(scope="module")
def clf() -> lrp.Classifier:
    network, tokenizer = talker()
    tokenizer.chat_template, tokenizer.model_max_length = TEMPLATE, 256
    return lrp.load_classifier(network, tokenizer, dtype="float64")


def places(clf: lrp.Classifier, text: str, start: int, stop: int) -> list[int]:
    """Tokens that are not special and lie in text[start:stop], one by one."""
    read = clf.encode([clf.tokenizer(text, add_special_tokens=False)["input_ids"]])[0]
    offsets = clf.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [
        k
        for k, (a, b) in enumerate(offsets)
        if not read.special[k] and any(start <= c < stop and not text[c].isspace() for c in range(a, b))
    ]


def test_options_of_a_template_pass_through_and_are_recorded(clf: lrp.Classifier) -> None:
    def film(title: str) -> str:
        """Look for a film.

        Args:
            title: what it is called.
        """
        return title

    for options in ({"enable_thinking": False}, {"tools": [film]}, {"documents": SOURCES}):
        made = clf.tokenizer.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True, **options)
        how: dict[str, Any] = {"method": "attnlrp", "target": "film"}
        (record,) = lrp.attribute(clf, TALK, chat_template_kwargs=options, **how)
        (plain,) = lrp.attribute(clf, TALK, **how)
        assert record.text == made != plain.text and "chat_template_kwargs" not in plain.choices
        assert list(record.choices["chat_template_kwargs"]) == list(options)
        assert record == lrp.Attribution.from_json(record.to_json())


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (TALK, {"enable_thinkin": False}, "'enable_thinkin', which its chat template does not read"),
        (TALK, {"padding": True}, "'padding', which its chat template does not read"),
        ("a film", {"enable_thinking": False}, "that is no chat"),
        (TALK, {"content": "no"}, "'content', which its chat template does not read"),
        (TALK, {"add_generation_prompt": False}, "'add_generation_prompt', which its chat"),
        (TALK, [{"enable_thinking": False}], "expected options by name"),
        (TALK, {"chat_template": "{{ raise_exception('no system') }}"}, "chat template refuses: no system"),
    ],
)
def test_an_option_without_effect_is_refused(
    clf: lrp.Classifier, given: Any, options: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        lrp.attribute(clf, given, method="loo", target="film", chat_template_kwargs=options)


@pytest.mark.parametrize("unit", ["message", "document"])
def test_a_unit_of_a_chat_is_removed_or_summed_as_a_whole(clf: lrp.Classifier, unit: str) -> None:
    options = {"documents": SOURCES}
    how: dict[str, Any] = {"target": "film", "chat_template_kwargs": options}
    (tokens,) = lrp.attribute(clf, TALK, method="attnlrp", **how)
    text, spans, first = tokens.text, [], 0
    said = [d["text"] for d in SOURCES] if unit == "document" else [m["content"].strip() for m in TALK]
    first = 0 if unit == "document" else text.index("<|turn|>system")
    for one in said:
        first = text.index(f" {one}<|end|>", first) + 1
        spans.append((first, first + len(one)))
    groups = [places(clf, text, *span) for span in spans]
    (summed,) = lrp.attribute(clf, TALK, method="attnlrp", unit=unit, **how)
    assert summed.tokens == tuple(said) and summed.choices["summed over"] == unit
    np.testing.assert_allclose(summed.scores, [tokens.scores[g].sum() for g in groups], rtol=0, atol=1e-12)
    (loo,) = lrp.attribute(clf, TALK, method="loo", unit=unit, **how)
    ids = torch.tensor([clf.tokenizer(text, add_special_tokens=False)["input_ids"]])
    network: Any = clf.network

    def logit(group: list[int]) -> float:
        mask = torch.ones_like(ids)
        mask[0, group] = 0
        places = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            return float(network(ids, attention_mask=mask, position_ids=places).logits[0, -1, loo.target])

    np.testing.assert_allclose(loo.scores, [logit([]) - logit(g) for g in groups], rtol=0, atol=1e-6)
    assert loo.choices["unit"] == unit


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in messages %}<|turn|>{{m.content | upper}}{% endfor %}", "message 0"),
        ("{% for m in messages[:1] %}<|turn|>{{m.content}} a{% endfor %}", "message 1 .*is the film dull"),
        ("{% for m in messages %}<|turn|>{{m.content}} {{messages[3].content}}{% endfor %}", "message 3"),
    ],
)
def test_a_message_that_is_not_once_in_the_text_is_named(template: str, said: str) -> None:
    network, tokenizer = talker()
    tokenizer.chat_template = template
    model = lrp.load_classifier(network, tokenizer)
    how: dict[str, Any] = {"method": "loo", "target": "film"}
    lrp.attribute(model, TALK, **how)  # tokens can be explained
    with pytest.raises(ValueError, match=said):
        lrp.attribute(model, TALK, unit="message", **how)


def test_spaces_at_the_ends_of_a_message_go_with_it() -> None:
    network, tokenizer = talker()
    tokenizer.chat_template = "{% for m in messages %}<|turn|>{{m.role}}:{{m.content}}{% endfor %}"
    clf = lrp.load_classifier(network, tokenizer, dtype="float64")
    talk = [{"role": "system", "content": " a film  "}, {"role": "user", "content": " the plot"}]
    (tokens,) = lrp.attribute(clf, talk, method="attnlrp", target="film")
    (message,) = lrp.attribute(clf, talk, method="attnlrp", target="film", unit="message")
    start = tokens.text.index(" a film")
    inside = [
        k
        for k, (a, b) in enumerate(tokens.offsets)
        if start <= a < b <= start + 9 and not tokens.special[k] and k < len(tokens.tokens)
    ]
    assert any(not tokens.text[slice(*tokens.offsets[k])].strip() for k in inside)
    assert message.scores[0] == pytest.approx(tokens.scores[inside].sum(), abs=1e-12)
    assert message.tokens == ("a film", "the plot")


def test_an_odd_chat_of_several_has_its_own_number(clf: lrp.Classifier) -> None:
    network, tokenizer = talker()
    template = "{% if messages[0].role == 'user' %}{{ raise_exception('no user first') }}{% endif %}"
    tokenizer.chat_template = template + TEMPLATE
    strict = lrp.load_classifier(network, tokenizer)
    how: dict[str, Any] = {"method": "loo", "target": "film"}
    with pytest.raises(ValueError, match="text 1 which its chat template refuses: no user first"):
        lrp.attribute(strict, [TALK, TALK[1:]], **how)
    with pytest.raises(ValueError, match="text 1 which its chat template refuses"):
        lrp.attribute(strict, [TALK, TALK[1:]], method="loo", completion=" film")
    with pytest.raises(ValueError, match="text 1 without a message"):
        lrp.attribute(clf, [TALK, "a film"], unit="message", **how)


def test_units_of_a_chat_are_refused_elsewhere(clf: lrp.Classifier) -> None:
    how: dict[str, Any] = {"method": "loo", "target": "film"}
    for given, unit in (("a film", "message"), (TALK, "document")):
        with pytest.raises(ValueError, match=f"without a {unit}"):
            lrp.attribute(clf, given, unit=unit, **how)
    with pytest.raises(ValueError, match="option 'unit' for method 'sampled-loo'"):
        lrp.attribute(clf, TALK, method="sampled-loo", target="film", unit="message")


def test_sums_over_words_are_those_of_the_record(clf: lrp.Classifier) -> None:
    for method in ("attnlrp", "gradient-x-input", "rollout", "ig"):
        (whole,) = lrp.attribute(clf, TALK, method=method, target="film")
        (words,) = lrp.attribute(clf, TALK, method=method, target="film", unit="word")
        assert words == whole.words()


def test_several_prompts_each_with_its_answer(clf: lrp.Classifier) -> None:
    prompts: list[Any] = [TALK, TALK[:2], "a film of"]
    how: dict[str, Any] = {"method": "attnlrp"}
    for completion in ([" dull film", " film", " grace"], 2, " a film"):
        several = lrp.attribute(clf, prompts, completion=completion, **how)
        for k, (prompt, answer) in enumerate(zip(prompts, several, strict=True)):
            one = completion[k] if isinstance(completion, list) else completion
            alone = lrp.attribute(clf, prompt, completion=one, **how)
            assert isinstance(answer, lrp.Completion) and list(answer) == list(alone)
    said = lrp.attribute(clf, prompts[:2], completion=[" film", " a"], contrast=[" a", " film"], **how)
    assert [one[0].choices["contrast"] for one in said] == [" a", " film"]
    by_message = lrp.attribute(clf, TALK, completion=" a film", method="loo", unit="message")
    assert {len(record.tokens) for record in by_message} == {len(TALK)}
    with pytest.raises(ValueError, match="3 prompts, and 2 and 3 to follow"):
        lrp.attribute(clf, prompts, completion=[" a", " film"], **how)
