"""The explained logit is the network's own: what a text becomes, which token is read, and in what company."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from test_tasks import of_task
from tiny_models import TEXTS, build, edit, pre_norm, randomise
from tokenizers import processors

import lrp_companion as lrp
from lrp_companion.checks import InputError, ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.loading.texts import token_texts
from lrp_companion.methods import METHODS, attribute, kept_logits, removal_evaluator

LONG = " ".join(TEXTS) + " " + " ".join(TEXTS)
ROTATIONS: dict[str, dict[str, Any]] = {
    "longrope": {
        "rope_type": "longrope",
        "factor": 4.0,
        "original_max_position_embeddings": 8,
        "short_factor": [1.0, 1.5],
        "long_factor": [4.0, 8.0],
    },
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    "linear": {"rope_type": "linear", "factor": 2.0},
}


def ends(tokenizer: Any, single: str) -> Any:
    """The tokenizer with another template."""
    marks = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("<s>", "</s>")]
    template = processors.TemplateProcessing(single=single, pair=f"{single} $B", special_tokens=marks)
    tokenizer.backend_tokenizer.post_processor = template
    return tokenizer


def cut_cases() -> dict[str, tuple[Any, Any]]:
    """Models of several kinds, and tokenizers that end texts in several ways, on either side."""
    out: dict[str, tuple[Any, Any]] = {}
    for side in ("right", "left"):
        for family in ("bert", "roberta", "gpt2", "llama", "modernbert"):
            network, tokenizer = build(family)
            tokenizer.truncation_side = side
            tokenizer.model_max_length = 9
            out[f"{family} {side}"] = network, tokenizer
    network, tokenizer = pre_norm("qwen2", task="ForCausalLM")
    out["two at the end"] = network, ends(tokenizer, "<s> $A </s> </s>")
    tokenizer.model_max_length = 11
    return out


@pytest.mark.parametrize("name", cut_cases())
def test_a_text_is_cut_as_its_tokenizer_cuts_it(name: str) -> None:
    network, tokenizer = cut_cases()[name]
    clf = load_classifier(network, tokenizer, dtype="float64")
    row = tokenizer(LONG, truncation=True, return_offsets_mapping=True)
    (record,) = attribute(clf, LONG, method="loo", target=0, truncate=True)
    assert list(record.tokens) == token_texts(tokenizer, row["input_ids"])
    whole = len(tokenizer(LONG)["input_ids"])
    assert record.details["cut"] == f"{len(record.tokens)} of {whole} tokens"
    assert "cut" not in attribute(clf, TEXTS[2], method="rollout", target=0)[0].details
    named = {LONG[start:end].strip() for start, end in row["offset_mapping"] if end > start}
    words = record.words()
    assert all(
        mark or any(part in word for part in named)
        for word, mark in zip(words.tokens, words.special, strict=True)
    )
    with torch.no_grad():
        inputs = tokenizer(LONG, truncation=True, return_tensors="pt")
        logits = network.double()(**{k: v for k, v in inputs.items() if k != "token_type_ids"}).logits[0]
    networks = logits[-1, 0] if logits.ndim == 2 else logits[0]
    assert record.logit == pytest.approx(float(networks), abs=1e-6)
    with pytest.raises(InputError, match="tokens; expected at most"):
        clf.encode(LONG)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral"])
@pytest.mark.parametrize("template", ["<s> $A </s>", "$A </s> </s>", "<s> $A"])
def test_where_padding_ends_a_text_the_networks_token_is_read(family: str, template: str) -> None:
    """`transformers` reads the last token whose id is not that of padding."""
    network, tokenizer = pre_norm(family, layers=3)
    tokenizer.pad_token = tokenizer.eos_token = "</s>"
    network.config.pad_token_id = tokenizer.pad_token_id
    clf = load_classifier(network, ends(tokenizer, template), dtype="float64")
    ids = torch.tensor([tokenizer(TEXTS[0])["input_ids"]])
    with torch.no_grad():
        networks = network.double()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, 1]
    options: dict[str, dict[str, Any]] = {"hybrid": {"exact": 2}, "ig": {"n_steps": 4, "baseline": "zero"}}
    for method in METHODS:
        alone, *_ = attribute(clf, [TEXTS[0]], method=method, target=1, **options.get(method, {}))
        beside, *_ = attribute(clf, [TEXTS[0], TEXTS[3]], method=method, target=1, **options.get(method, {}))
        assert alone.logit == pytest.approx(float(networks), abs=1e-5), method
        np.testing.assert_allclose(alone.scores, beside.scores, rtol=1e-7, atol=1e-9, err_msg=method)
    (loo,) = attribute(clf, TEXTS[0], method="loo", target=1)
    mask = torch.ones_like(ids)
    mask[0, 2] = 0
    with torch.no_grad():
        without = network(input_ids=ids, attention_mask=mask).logits[0, 1]
    assert loo.scores[2] == pytest.approx(float(networks - without), abs=1e-5)
    kept = ids[:, [k for k in range(ids.shape[1]) if k != 2]]
    (deleted,) = attribute(clf, TEXTS[0], method="loo", removal="delete", target=1)
    with torch.no_grad():
        left = network(input_ids=kept, attention_mask=torch.ones_like(kept)).logits[0, 1]
    assert deleted.scores[2] == pytest.approx(float(networks - left), abs=1e-5)


def test_a_removed_last_word_moves_the_place_that_is_read() -> None:
    network, tokenizer = pre_norm("llama")
    tokenizer.pad_token = tokenizer.eos_token = "</s>"
    network.config.pad_token_id = tokenizer.pad_token_id
    clf = load_classifier(network, ends(tokenizer, "<s> $A </s>"), dtype="float64")
    (text,) = clf.encode(TEXTS[0])
    assert text.read == len(text) - 2
    keep = np.ones(len(text), dtype=bool)
    keep[text.read] = False
    ids = torch.tensor([[i for i, one in zip(text.input_ids, keep, strict=True) if one]])
    with torch.no_grad():
        networks = network.double()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    ours = kept_logits(clf, [(text, keep)], removal="delete")[0]
    np.testing.assert_allclose(ours, networks, atol=1e-7)


@pytest.mark.parametrize("kind", ROTATIONS)
@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_rotations_do_not_depend_on_the_company(kind: str, family: str) -> None:
    network, tokenizer = pre_norm(family, layers=3, rope_parameters={"rope_theta": 100.0, **ROTATIONS[kind]})
    clf = load_classifier(network, tokenizer)
    assert (clf.encoder.wiring.rotary_from is not None) == (kind in ("longrope", "dynamic"))
    in_company(clf, close=2e-5)
    for text in (TEXTS[2], TEXTS[3]):
        (record,) = attribute(clf, text, method="loo", target=1)
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.no_grad():
            assert record.logit == pytest.approx(float(network(ids).logits[0, 1]), abs=1e-5)
            last = torch.ones_like(ids)
            last[0, 1] = 0
            without = network(input_ids=ids, attention_mask=last).logits[0, 1]
        assert record.scores[1] == pytest.approx(record.logit - float(without), abs=1e-5)


def in_company(clf: lrp.Classifier, close: float = 1e-9) -> None:
    """Every method, all texts at once against each alone."""
    options: dict[str, dict[str, Any]] = {"ig": {"n_steps": 3, "baseline": "zero"}, "hybrid": {"exact": 2}}
    options |= {"sampled-loo": {"budget": 2}, "mask-gradient": {"groups": 2}}
    rotated = clf.encoder.wiring.position is None
    for method in METHODS:
        if method == "rollout" and clf.encoder.wiring.readout == "last":
            continue
        more = dict(options.get(method, {}))
        together = attribute(clf, list(TEXTS), method=method, target=1, **more)
        for text, record in zip(TEXTS, together, strict=True):
            (alone,) = attribute(clf, text, method=method, target=1, **more)
            size = 1 + np.abs(alone.scores).max()
            assert abs(alone.logit - record.logit) < close * 10, method
            if method != "sampled-loo":  # which tokens it draws depends on the place in the list
                np.testing.assert_allclose(
                    record.scores, alone.scores, atol=close * 10 * size, err_msg=method
                )
    if not rotated:
        return
    for removal in ("pad-token", "delete"):
        if removal == "pad-token" and clf.tokenizer.pad_token_id is None:
            continue
        together = attribute(clf, list(TEXTS), method="loo", removal=removal, target=1)
        (alone,) = attribute(clf, TEXTS[0], method="loo", removal=removal, target=1)
        np.testing.assert_allclose(together[0].scores, alone.scores, atol=close * 10)


def test_a_target_given_as_text_is_what_the_tokenizer_makes_of_it() -> None:
    network, tokenizer = pre_norm("llama", task="ForCausalLM")
    clf = load_classifier(network, tokenizer)
    for name in ("film", "grace", " film", "é", "x"):
        ids = tokenizer(name, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            (record,) = attribute(clf, TEXTS[0], method="attnlrp", target=name)
            assert record.target == ids[0]
        else:
            with pytest.raises(InputError, match="of . tokens"):
                attribute(clf, TEXTS[0], method="attnlrp", target=name)
    (record,) = attribute(clf, TEXTS[0], method="attnlrp", target="film", contrast="grace")
    assert record.details["label"] == " film" and record.choices["contrast"] == " grace"
    lattice = lrp.layer_lattice(clf, TEXTS[0], target="film")
    assert lattice.target == record.target == lrp.layer_relevance(clf, TEXTS[0], target="film").target
    evaluate = removal_evaluator(clf, TEXTS[0], target="film")
    everything = np.ones((1, len(record.tokens)), dtype=bool)
    assert evaluate(everything)[0] == pytest.approx(lattice.logit, abs=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "modernbert", "mistral"])
def test_frequencies_stay_in_float32(family: str, dtype: str) -> None:
    network, tokenizer = pre_norm(family)
    clf = load_classifier(network, tokenizer, dtype=dtype)
    before = {name: value for name, value in clf.network.named_buffers() if "inv_freq" in name}
    assert before and all(value.dtype == torch.float32 for value in before.values())
    assert all(value.dtype == getattr(torch, dtype) for value in clf.network.parameters())


def breakable(network: Any) -> list[int]:
    """Make a network add 1 to the logits of texts of at least as many tokens as the list says; list its
    calls, too.
    """
    state, kind = [10**9], type(network)

    class Breakable(kind):  # type: ignore[misc,valid-type]
        def forward(self, input_ids: Any = None, **inputs: Any) -> Any:
            state.append(1)
            out = super().forward(input_ids=input_ids, **inputs)
            far = input_ids is not None and input_ids.shape[1] >= state[0]
            return dataclasses.replace(out, logits=out.logits + 1.0 * far)

    Breakable.__name__, Breakable.__module__ = kind.__name__, kind.__module__
    Breakable.forward.__module__ = kind.__module__  # else every text is compared
    network.__class__ = Breakable
    return state


@pytest.mark.parametrize("family", ["bert", "llama", "roberta"])
@pytest.mark.parametrize("method", ["loo", "attnlrp", "ig", "mask-gradient", "rollout"])
def test_a_logit_that_is_not_the_networks_is_refused(family: str, method: str) -> None:
    network, tokenizer = build(family)
    state = breakable(network)
    clf = load_classifier(network, tokenizer, dtype="float64")
    more = {"baseline": "zero"} if method == "ig" else {}
    if method == "rollout" and family == "llama":
        more = {"row": "mean"}
    state[0] = 12
    attribute(clf, TEXTS[0], method=method, **more)
    with pytest.raises(ModelError, match=r"whose logit of '\w+' is .* by the network .* and .* by the tape"):
        attribute(clf, [TEXTS[0], TEXTS[3]], method=method, **more)
    for call in (lrp.layer_lattice, lrp.layer_relevance):
        with pytest.raises(ModelError, match="by the network"):
            call(clf, TEXTS[3])
    report = lrp.check(clf, TEXTS[3])
    assert report.broken and [figure.name for figure in report.figures] == ["logits"]


def test_all_texts_are_compared_if_asked() -> None:
    network, tokenizer = build("bert")
    state = breakable(network)
    clf = load_classifier(network, tokenizer, dtype="float64")
    attribute(clf, TEXTS[3], method="attnlrp")
    state[0] = 0
    attribute(clf, TEXTS[0], method="attnlrp")  # no longer than what was compared
    with pytest.raises(ModelError, match="by the network"):
        attribute(clf, TEXTS[0], method="attnlrp", compare="all")
    with pytest.raises(ModelError, match="by the network"):
        attribute(clf, (TEXTS[0], TEXTS[0]), method="attnlrp")  # as a pair it is new
    with pytest.raises(InputError, match="compare 'some'"):
        attribute(clf, TEXTS[0], method="attnlrp", compare="some")
    state[0] = 10**9
    clf = load_classifier(network, tokenizer, compare="all")
    state[0] = 0
    with pytest.raises(ModelError, match="by the network"):
        attribute(clf, TEXTS[2], method="loo")


def test_a_text_is_compared_once() -> None:
    network, tokenizer = build("bert")
    state = breakable(network)
    clf = load_classifier(network, tokenizer)
    del state[1:]
    for _ in range(3):
        attribute(clf, list(TEXTS), method="attnlrp")
        attribute(clf, list(TEXTS), method="attnlrp", target=1, contrast=0)
    assert state[1:] == [1]
    attribute(clf, list(TEXTS), method="loo", compare="all")
    assert len(state[1:]) == 1 + len(TEXTS)


@pytest.mark.parametrize("family", ["mistral", "gemma3_text", "modernbert"])
def test_at_load_a_text_passes_every_window(family: str) -> None:
    network, tokenizer = pre_norm(family)
    clf = load_classifier(network, tokenizer)
    windows = [layer.window for layer in clf.encoder.wiring.layers if layer.window is not None]
    lengths = [length for (pair, *_), length in clf.compared.items() if not pair]
    assert windows and max(lengths) > max(windows) + 1


def talker(task: str = "ForCausalLM") -> tuple[Any, Any]:
    """A language model with a chat template, and turns as special tokens."""
    _, tokenizer = pre_norm("llama")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>", "<|end|>"]})
    tokenizer.chat_template = (
        "{{bos_token}}{% for m in messages %}<|turn|>{{m.role}} {{m.content}}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|turn|>assistant{% endif %}"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
    )
    network = getattr(transformers, f"Llama{task}")(config)
    randomise(network, 0)
    tokenizer.model_max_length = 64
    return network.eval(), tokenizer


def test_a_talk_is_what_the_chat_template_makes_of_it() -> None:
    network, tokenizer = talker()
    clf = load_classifier(network, tokenizer, dtype="float64")
    talk = [{"role": "user", "content": "the film is dull"}]
    made = tokenizer.apply_chat_template(
        talk, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    ids = made["input_ids"]
    with torch.no_grad():
        networks = network.double()(ids).logits[0, -1]
    forms: list[Any] = [talk, [talk], ids, ids[0], ids.tolist(), ids[0].tolist(), ids.numpy()]
    for given in forms:
        (record,) = attribute(clf, given, method="loo", target="film")
        assert list(record.tokens) == token_texts(tokenizer, ids[0].tolist())
        assert record.logit == pytest.approx(float(networks[record.target]), abs=1e-6)
        named = [token for token, mark in zip(record.tokens, record.special, strict=True) if mark]
        assert named == ["<s>", "<|turn|>", "<|end|>", "<|turn|>"]
        assert "film" in record.words().tokens
    two = attribute(clf, [talk, TEXTS[0], ids[0].tolist()], method="attnlrp", target="film")
    np.testing.assert_allclose(two[0].scores, two[2].scores, atol=1e-7)
    answered = [*talk, {"role": "assistant", "content": "no"}]
    begun = tokenizer.apply_chat_template(answered, continue_final_message=True, return_dict=False)
    assert list(clf.encode(answered)[0].input_ids) == begun != clf.encode(answered[:1])[0].input_ids
    reads = load_classifier(*talker("ForSequenceClassification"))
    closed = tokenizer.apply_chat_template(answered, return_dict=False)
    assert (
        list(reads.encode(answered)[0].input_ids) == closed
        and reads.encode(answered)[0].tokens[-1] == "<|end|>"
    )


@pytest.mark.parametrize(
    "places", [[1, 4], (1, 4), np.array([1, 4]), torch.tensor([1, 4]), ["dull", "rare"], [1, "rare"]], ids=str
)
def test_each_text_has_a_place_of_its_own(places: Any) -> None:
    clf = of_task("bert", "ForTokenClassification")
    texts = ["dull film", "the film of rare grace"]
    networks = [
        clf.network(**clf.tokenizer(text, return_tensors="pt")).logits[0, at, 2].item()
        for text, at in zip(texts, (1, 4), strict=True)
    ]
    for method in ("attnlrp", "loo", "ig", "mask-gradient", "gradient-x-input"):
        records = attribute(clf, texts, method=method, target=2, position=places)
        assert [record.logit for record in records] == pytest.approx(networks, abs=1e-6)


def test_a_tagger_is_checked_and_walked_at_a_place() -> None:
    clf = of_task("bert", "ForTokenClassification")
    text = "the film of rare grace"
    (record,) = attribute(clf, text, method="attnlrp", target=2, position="rare")
    lattice = lrp.layer_lattice(clf, text, target=2, position="rare")
    flow = lrp.layer_relevance(clf, text, target=2, position="rare")
    np.testing.assert_allclose(lattice.scores[0], record.scores, atol=1e-7)
    np.testing.assert_allclose(flow.scores[-1], record.scores, atol=1e-7)
    evaluate = removal_evaluator(clf, text, target=2, position="rare")
    assert evaluate(np.ones((1, len(record.tokens)), dtype=bool))[0] == pytest.approx(record.logit)
    assert not lrp.check(clf, [text, "dull film"]).broken
    assert not lrp.check(clf, [text, "dull film"], position=["rare", "film"]).broken


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert"])
def test_a_network_that_skips_positions_is_found_in_any_company(family: str) -> None:
    """RoBERTa counts positions by ids that are not padding; ids with padding in them are read otherwise."""
    network, tokenizer = build(family)
    clf = load_classifier(network, tokenizer, dtype="float64")
    attribute(clf, LONG, method="attnlrp", truncate=True)
    padded = tokenizer(list(TEXTS), padding=True)["input_ids"]
    with pytest.raises(ModelError, match="by the network"):
        attribute(clf, [clf.encode(TEXTS[3])[0].source, padded[0]], method="attnlrp")


@pytest.mark.parametrize("kind", [None, "dynamic", "longrope"])
def test_rotations_have_no_end(kind: str | None) -> None:
    """The tokenizer says how long a text may be; the network turns it further than its first length."""
    more = {"rope_parameters": {"rope_theta": 100.0, **ROTATIONS[kind]}} if kind else {}
    network, tokenizer = pre_norm("llama", max_position_embeddings=16, **more)
    tokenizer.model_max_length = 40
    clf = load_classifier(network, tokenizer)
    assert clf.max_tokens == 40
    for text in (LONG, TEXTS[3], LONG, TEXTS[0]):  # a network that remembers a longer text begins again
        fresh = pre_norm("llama", max_position_embeddings=16, **more)[0]
        with torch.no_grad():
            ids = tokenizer(text, truncation=True, return_tensors="pt")["input_ids"]
            networks = fresh(ids).logits[0, 1]
        for method in ("attnlrp", "loo", "ig"):
            options = {"baseline": "zero", "n_steps": 3} if method == "ig" else {}
            (record,) = attribute(clf, text, method=method, target=1, truncate=True, **options)
            assert record.logit == pytest.approx(float(networks), abs=1e-5)


@pytest.mark.parametrize("task", ["ForSequenceClassification", "LMHeadModel", "ForTokenClassification"])
def test_token_types_that_gpt2_adds_as_words_are_refused(task: str, tmp_path: Any) -> None:
    """`network(**tokenizer(text))` adds the vectors of words 0 and 1; a tokenizer without types adds none."""
    network, tokenizer = pre_norm("gpt2", task=task)
    more = {"position": 2} if task == "ForTokenClassification" else {}
    names = tokenizer.model_input_names
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    edit(file, model_input_names=tokenizer.model_input_names)
    for given in ((network, tokenizer), (tmp_path,)):
        with pytest.raises(ModelError, match='by the network .*leave out token types: "model_input_names"'):
            load_classifier(*given)
    tokenizer.model_input_names = names
    edit(file, model_input_names=names)
    load_classifier(tmp_path)
    clf = load_classifier(network, tokenizer, dtype="float64")
    network = network.double()
    (record,) = attribute(clf, TEXTS[0], method="loo", target=1, **more)
    with torch.no_grad():
        logits = network(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    networks = logits if logits.ndim == 1 else logits[more.get("position", -1)]
    assert record.logit == pytest.approx(float(networks[1]), abs=1e-8)
