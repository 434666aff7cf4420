"""The tokens that a language model writes, all classes and all places: each as a call of its own gives it."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from test_own_logits import talker
from test_tasks import of_task
from tiny_models import _byte_pairs, build, pre_norm
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import lrp_companion as lrp
from lrp_companion import cli
from lrp_companion.attribution import Completion
from lrp_companion.checks import InputError
from lrp_companion.methods.completion import followed, opened
from lrp_companion.words import units_of

FAMILIES = dict.fromkeys(("llama", "gemma2", "qwen3", "gpt_neox", "phi3", "gemma3"), "ForCausalLM")
FAMILIES["gpt2"] = "LMHeadModel"
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


def spelled(record: lrp.Attribution) -> list[str]:
    return [record.text[start:end].strip() for start, end in record.offsets]


def same(record: lrp.Attribution, other: lrp.Attribution) -> None:
    assert record.tokens == other.tokens and spelled(record) == spelled(other)
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


@pytest.mark.parametrize("where", ["generation_config", "config", "tokenizer"])
@pytest.mark.parametrize("family", [*FAMILIES, "mistral", "qwen2"])
def test_an_answer_ends_where_generate_ends_it(family: str, where: str) -> None:
    more = {"final_logit_softcapping": 3.0} if family == "gemma2" else {}
    network, tokenizer = pre_norm(family, task=FAMILIES.get(family, "ForCausalLM"), **more)
    inputs = {"input_ids": torch.tensor([tokenizer(PROMPT)["input_ids"]])}
    start, end = inputs["input_ids"].shape[1], tokenizer.eos_token_id
    free = network.generate(**inputs, max_new_tokens=7, do_sample=False, eos_token_id=None)[
        0, start:
    ].tolist()
    last = next((token for k, token in enumerate(free) if k and token not in free[:k]), free[0])
    ends = [last, 0 if end is None else end]
    network.generation_config.eos_token_id = ends if where == "generation_config" else None
    network.config.eos_token_id = ends if where == "config" else None
    if where == "tokenizer":
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(last)
    asked = {"max_new_tokens": 7, "do_sample": False, "eos_token_id": ends}
    own = network.generate(**inputs, **asked)[0, start:].tolist()
    answer = lrp.attribute(lrp.load_classifier(network, tokenizer), PROMPT, method="attnlrp", completion=7)
    assert [record.target for record in answer] == own and own[-1] == last
    assert {record.details["ended"] for record in answer} == {"end token"}
    network.generation_config.eos_token_id = network.config.eos_token_id = tokenizer.eos_token = None
    answer = lrp.attribute(lrp.load_classifier(network, tokenizer), PROMPT, method="attnlrp", completion=7)
    assert [record.target for record in answer] == free and answer[0].details["ended"] == "length"


PIECES = dict.fromkeys("abcdefghijklmnopqrstuvwxyz.,35", -6.0) | {"▁": -4.0, "▁e.g.": -3.5, "▁3.5": -3.5}
PIECES |= {"▁the": -2.0, "▁harbour": -2.5, "▁film": -2.5}
PIECES |= dict.fromkeys(("▁fi", "lm", "bour", "▁bour"), -3.0)
TEMPLATE = """{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}</s>{% endfor %}\
{% if add_generation_prompt %}bot:{% endif %}"""


def tokenizers_of_kinds() -> dict[str, Any]:
    """Metaspace, byte level with and without a space before a text, WordPiece; some close a text."""

    names = ["<s>", "<pad>", "</s>", "<unk>"]
    known = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    pairs, merges = _byte_pairs()
    letters = [letter for letter in PIECES if len(letter) == 1]
    split = {
        name: k for k, name in enumerate([*names, *letters, "▁t", "▁th", "▁the", "fi", "lm", "▁fi", "▁film"])
    }
    joins = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("l", "m"), ("f", "i"), ("▁", "fi"), ("▁fi", "lm")]
    parts = [*letters, *(f"##{letter}" for letter in letters), "the", "film", "fi", "##lm", "har", "##bour"]
    unigram = models.Unigram([*((name, 0.0) for name in names), *PIECES.items()], unk_id=3)
    piece = models.WordPiece({name: k for k, name in enumerate([*names, *parts])}, unk_token="<unk>")
    made = {
        "metaspace": (unigram, pre_tokenizers.Metaspace(prepend_scheme="first"), "<s> $A"),
        "unigram": (unigram, pre_tokenizers.Metaspace(), "<s> $A </s>"),
        "pairs": (models.BPE(split, joins, unk_token="<unk>"), pre_tokenizers.Metaspace(), "<s> $A"),
        "bytes": (
            models.BPE(dict(pairs), list(merges)),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            "$A",
        ),
        "bytes after a space": (
            models.BPE(dict(pairs), list(merges)),
            pre_tokenizers.ByteLevel(add_prefix_space=True),
            "<s> $A </s>",
        ),
        "wordpiece": (piece, pre_tokenizers.BertPreTokenizer(), "<s> $A </s>"),
    }
    out = {}
    for name, (model, before, single) in made.items():
        inner = Tokenizer(model)
        inner.pre_tokenizer = before
        marks = [(mark, inner.token_to_id(mark)) for mark in ("<s>", "</s>")]
        inner.post_processor = processors.TemplateProcessing(single=single, special_tokens=marks)
        inner.decoder = decoders.ByteLevel() if "bytes" in name else decoders.Metaspace()
        if name == "wordpiece":
            inner.normalizer, inner.decoder = normalizers.BertNormalizer(), decoders.WordPiece()
        out[name] = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=64, **known)
    return out


def writer(tokenizer: Any) -> lrp.Classifier:
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, pad_token_id=1, bos_token_id=0, eos_token_id=2, max_position_embeddings=64,
    )  # fmt: skip
    return lrp.load_classifier(transformers.LlamaForCausalLM(config).eval(), tokenizer)


@pytest.fixture(scope="module")
def writers() -> dict[str, lrp.Classifier]:
    return {name: writer(tokenizer) for name, tokenizer in tokenizers_of_kinds().items()}


def drawn_answers(writers: dict[str, lrp.Classifier], count: int, seed: int = 0) -> dict[str, int]:
    """Texts cut at any place: what is explained is what the tokenizer makes of the whole text, or refused."""
    draw, seen = random.Random(seed), Counter[str]()
    words = [
        "the", "film", "harbour", "fi", "lm", "e.g.", "3.5", ",", "the film",
        "é", "e\u0301", "☃", "☃☃", "\u200b",
    ]  # fmt: skip
    kinds = list(writers)
    for k in range(count):
        name = kinds[k % len(kinds)]
        clf, gaps = writers[name], draw.choices(["", " ", "  ", "\n"], [2, 7, 1, 1], k=6)
        text = "".join(gap + draw.choice(words) for gap in gaps).strip()
        cut = draw.randrange(1, len(text))
        begin, answer = text[:cut], text[cut:]
        row = clf.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        places = [k for k, mark in enumerate(row["special_tokens_mask"]) if mark == 0]
        whole = row["input_ids"][: places[-1] + 1] if places else []
        try:
            prompt = opened(clf, begin)
            read, stops = followed(clf, prompt, answer)
        except lrp.CompanionError as error:
            changed = "at the prompt's token" in str(error)
            alone = [i for i in clf.tokenizer(begin)["input_ids"] if i != 2]
            lost = 3 in whole or "no token" in str(error) or any(c in text for c in "é\u0301☃\u200b")
            over = any(a < cut < b for a, b in row["offset_mapping"])
            assert over or whole[: len(alone)] != alone if changed else lost, (
                name,
                begin,
                answer,
                str(error),
            )
            seen[f"{name}: refused"] += 1
            continue
        assert list(read.input_ids) == whole and read.text == text, (name, begin, answer)
        after = [i for i, (a, b) in zip(row["input_ids"], row["offset_mapping"], strict=True) if b > cut]
        assert list(read.input_ids[len(prompt) :]) == after, (name, begin, answer)
        assert "".join(text[a:b] for a, b in itertools.pairwise(stops)) == answer
        seen[f"{name}: explained"] += 1
    return dict(seen)


def test_drawn_answers_are_the_tokens_of_the_whole_text(writers: dict[str, lrp.Classifier]) -> None:
    seen = drawn_answers(writers, 300)
    assert all(seen[f"{name}: explained"] > 5 for name in writers) and sum(seen.values()) == 300


@pytest.mark.parametrize("form", ["text", "talk", "begun"])
@pytest.mark.parametrize("kind", ["metaspace", "unigram", "bytes", "bytes after a space"])
def test_the_record_holds_the_text_that_was_read(writers: Any, kind: str, form: str) -> None:
    clf = copy.copy(writers[kind])
    tokenizer = clf.tokenizer = copy.deepcopy(clf.tokenizer)
    tokenizer.chat_template = TEMPLATE
    talk = [{"role": "user", "content": "the film"}]
    prompt: Any = {"text": "the film", "talk": talk}.get(
        form, [*talk, {"role": "assistant", "content": "the"}]
    )
    begun = {"add_generation_prompt": form == "talk", "continue_final_message": form == "begun"}
    text = (
        tokenizer.apply_chat_template(prompt, tokenize=False, **begun)
        if form in ("talk", "begun")
        else "the film"
    )
    bare = {"add_special_tokens": form == "text"}
    for given in (" the film", "."):
        whole = tokenizer(text + given, **bare)["input_ids"]
        while form == "text" and whole[-1] == 2:
            whole.pop()
        answer = lrp.attribute(clf, prompt, method="loo", completion=given)
        ids = [record.target for record in answer]
        assert whole[-len(ids) :] == ids and len(answer[-1].tokens) == len(whole) - 1
        assert (
            answer.text == given
            and answer[0].text.strip() == text
            and answer.from_json(answer.to_json()).text == given
        )
        by_ids = lrp.attribute(clf, prompt, method="loo", completion=ids)
        assert by_ids.text == given and [spelled(r) for r in by_ids] == [spelled(r) for r in answer]


@pytest.mark.parametrize(
    ("prompt", "answer", "said"),
    [
        ("the har", "bour", "becomes ' harbour'; expected a prompt whose tokens stay the same"),
        ("the ", "film", "expected a prompt whose tokens stay the same"),
        ("the", " ☃", "completion ' ☃' with '☃', which no token spells"),
        ("the", " fi☃lm☃", "with '☃', which no token spells"),
        ("the", "\u200b", "no token"),
    ],
)
def test_an_answer_that_would_be_another_text_is_refused(
    writers: Any, prompt: str, answer: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        lrp.attribute(writers["unigram"], prompt, method="loo", completion=answer)
    with pytest.raises(InputError, match=said.replace("completion ' ☃'", "contrast ' ☃'")):
        lrp.attribute(writers["unigram"], prompt, method="loo", completion=answer[:0] or [5], contrast=answer)


def test_what_closes_a_prompt_does_not_stand_before_its_answer(writers: dict[str, lrp.Classifier]) -> None:
    answer = lrp.attribute(writers["unigram"], "the film", method="loo", completion=2)
    assert "</s>" not in answer[0].tokens and answer[0].tokens[0] == "<s>"


def test_a_pair_goes_on_in_its_second_text(writers: dict[str, lrp.Classifier]) -> None:
    clf = writers["bytes"]
    answer = lrp.attribute(clf, ("the film", "the plot"), method="loo", completion=" was slow")
    whole = clf.tokenizer("the film", "the plot was slow")["input_ids"]
    assert [record.target for record in answer] == whole[-2:] and len(answer[-1].tokens) == len(whole) - 1
    assert answer.text == " was slow" and answer[0].text == "the film\nthe plot"


def test_words_grow_together_while_an_answer_goes_on(writers: dict[str, lrp.Classifier]) -> None:
    for name in ("bytes", "wordpiece"):
        answer = lrp.attribute(
            writers[name], "the film", method="loo", completion=", 5.3 the 3.5", unit="word"
        )
        assert answer.sum().tokens[-4:] == (",", "5.3", "the", "3.") and answer.sum().offsets[-4:] != ()
        assert np.isnan(answer.table()).sum() > 0


@pytest.mark.parametrize("unit", ["word", "sentence", ["e.g. the"]], ids=str)
def test_the_units_of_an_answer_are_those_of_the_whole_text(writers: dict[str, Any], unit: Any) -> None:
    # a token of spaces that ends a record belongs to the word that follows; a mark may follow its letter
    for name, clf in writers.items():
        given = " the, z e.g. 3.5 zz  </s> z" + ("  ดี นี้ e\u0301z" if "bytes" in name else "")
        read, _ = followed(clf, opened(clf, "the film, e.g."), given)
        known = {"tokens": read.tokens, "offsets": read.offsets, "special": read.special}
        whole = units_of("test", unit, text=read.text, **known).of_tokens(len(read))
        for method in ("loo", "mask-gradient"):
            answer = lrp.attribute(clf, "the film, e.g.", method=method, completion=given, unit=unit)
            for k, record in enumerate(answer, len(read) - len(answer)):
                assert len(record.tokens) == max(1, 1 + whole[:k].max()), (name, record.tokens)
                assert len(record.text) >= record.offsets[-1][1]


@pytest.mark.parametrize("word", ["the", "ดี", "é", "z"])
def test_a_word_is_found_by_its_first_letter(writers: dict[str, lrp.Classifier], word: str) -> None:
    for name, clf in writers.items():
        if "bytes" in name or word in ("the", "z"):
            for text in (f"{word} film", f" film {word}", f"film\n{word}, film"):
                (read,) = clf.encode(text, position=word)
                start, end = read.offsets[read.read]
                assert text[start:end].strip() in (word, word[0]) and text.index(word) in range(start, end)


def test_a_line_that_a_prompt_loses_is_no_part_of_its_answer() -> None:
    tokenizer = tokenizers_of_kinds()["bytes"]
    tokenizer.backend_tokenizer.normalizer = normalizers.Strip(left=False, right=True)
    clf = writer(tokenizer)
    with pytest.raises(InputError, match="prompt whose tokens stay the same"):
        lrp.attribute(clf, "the film\n", method="loo", completion="not")
    assert lrp.attribute(clf, "the film", method="loo", completion="\nnot").text == "\nnot"


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
    for kind in ("json", "html", "svg"):
        answer.save(tmp_path / f"answer.{kind}")
    assert Completion.from_json((tmp_path / "answer.json").read_text()) == answer


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    for part in pre_norm("llama", task="ForCausalLM"):
        part.save_pretrained(path)
    return path


def test_the_command_prints_one_screen(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture, refused: Any
) -> None:
    asked = ["explain", PROMPT, "--model", str(folder), "--completion", ANSWER]
    assert cli.main([*asked, "--contrast", OTHER, "--out", str(tmp_path / "page.html")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) < 20 and max(map(len, printed)) <= 80 and "logits that add up to" in printed[0]
    assert printed[2].split() == ["warm", "dull", "film", "sum"]
    assert "token_heatmap" in (tmp_path / "page.html").read_text()
    assert "completion with a target" in refused([*asked, "--target", "3"])
    assert "--completion and --write" in refused([*asked, "--write", "3"])


def test_a_number_and_a_text_never_stand_for_each_other(
    folder: Path, capsys: pytest.CaptureFixture, refused: Any
) -> None:
    asked = ["explain", "2 + 2 , film 3", "--model", str(folder), "--json"]
    clf = lrp.load_classifier(folder)
    for given, options in (
        (["--completion", "4"], {"completion": "4"}),
        (["--write", "4"], {"completion": 4}),
        (["--position", "3"], {"position": 3}),
        (["--word", "3"], {"position": "3"}),
    ):
        assert cli.main([*asked, *given]) == 0
        records = json.loads(capsys.readouterr().out)
        same_call = lrp.attribute(clf, asked[1], method="attnlrp", **options)
        assert ([records] if isinstance(records, dict) else records) == [r.to_dict() for r in same_call]
    assert "--position and --word" in refused([*asked, "--position", "3", "--word", "3"])
    assert "argument --position" in refused([*asked, "--position", "film"])
