"""Texts and pairs as a model reads them: a pair is one input, and no text spells a special token."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pandas
import pytest
import torch
from tiny_models import BERT_LIKE, build

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import METHODS, attribute, layer_lattice, removal_evaluator
from lrp_companion.model_check import check
from lrp_companion.schema import REMOVALS, Texts
from lrp_companion.sources import load_dataset

PAIR = ("a film of rare grace", "the plot is slow")


@pytest.fixture(scope="module", params=BERT_LIKE)
def three(request: pytest.FixtureRequest) -> Classifier:
    """A classifier of each family in memory, three classes."""
    return load_classifier(*build(request.param, labels=3), dtype="float64")


def whole(clf: Classifier, pair: tuple[str, str]) -> np.ndarray:
    """The logits of the `transformers` model for what its tokenizer makes of a pair."""
    with torch.no_grad():
        return clf.network(**clf.tokenizer(*pair, return_tensors="pt")).logits[0].numpy()


def test_a_pair_is_what_the_model_was_trained_on(three: Classifier) -> None:
    (text,) = three.encode(PAIR)
    row = three.tokenizer(*PAIR)
    assert list(text.input_ids) == row["input_ids"] and text.source == PAIR
    inner = [k for k, token in enumerate(text.tokens) if token in ("[SEP]", "</s>")]
    assert len(inner) > 1 and text.special[inner].all()
    np.testing.assert_allclose(three.tape(text).logits[0].detach(), whole(three, PAIR), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains_the_pair(three: Classifier, method: str) -> None:
    """Alone and in a batch with a longer and a shorter input."""
    (alone,) = attribute(three, PAIR, method=method, target=1)
    assert alone.logit == pytest.approx(whole(three, PAIR)[1], abs=1e-8)
    batch = attribute(three, [PAIR[0], PAIR, (PAIR[1], " ".join(PAIR))], method=method, target=1)
    assert batch[1].tokens == alone.tokens
    np.testing.assert_allclose(batch[1].scores, alone.scores, atol=1e-8)


@pytest.mark.parametrize("removal", REMOVALS)
def test_loo_of_a_pair_is_the_networks(three: Classifier, removal: str) -> None:
    """Token types and positions of what is left are those of the whole pair, but for deleted tokens."""
    row = {name: values[0] for name, values in three.tokenizer(*PAIR, return_tensors="pt").items()}
    (record,) = attribute(three, PAIR, method="loo", removal=removal, target=1)
    place = 8
    ids, mask, types = row["input_ids"].clone(), row["attention_mask"].clone(), row.get("token_type_ids")
    if removal == "attention-mask":
        mask[place] = 0
    elif removal == "delete":
        kept = torch.arange(len(ids)) != place
        ids, mask, types = ids[kept], mask[kept], None if types is None else types[kept]
    else:
        ids[place] = three.mask_id if removal == "mask-token" else three.pad_id
    left = three.logits(ids[None], mask[None], None if types is None else types[None])[0, 1]
    assert record.scores[place] == pytest.approx(record.logit - float(left), abs=1e-8)


def test_the_lattice_and_its_ends_read_the_pair(three: Classifier) -> None:
    lattice = layer_lattice(three, PAIR, target=1)
    for row, method in ((0, "attnlrp"), (-1, "cp-lrp")):
        (record,) = attribute(three, PAIR, method=method, target=1)
        np.testing.assert_allclose(lattice.scores[row], record.scores, atol=1e-8)


@pytest.mark.parametrize("family", ["bert", "roberta", "llama"])
def test_threads_read_what_one_thread_reads(family: str) -> None:
    """Fast tokenizers keep how they cut and pad as state, which the caller's own calls set, too."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    clf = load_classifier(*build(family))
    long, some = "the plot is slow " * 12, [PAIR[0], (PAIR[0], "a slow plot " * 20), [5, 7]]
    want = clf.encode([long, *some], truncate=True), clf.encode(PAIR[0])
    wrong: list[object] = []

    def cut() -> None:
        wrong.extend(one for one in clf.encode([long, *some], truncate=True) if repr(one) not in known)

    def whole() -> None:
        wrong.extend(one for one in clf.encode(PAIR[0]) if repr(one) not in known)
        with pytest.raises(InputError, match="expected at most 32 tokens"):
            clf.encode(long)

    def own() -> None:
        clf.tokenizer([PAIR[0], "dull"], padding="max_length", truncation=True, max_length=8)

    known = {repr(one) for some in want for one in some}

    def again(work: Callable[[], None]) -> None:
        try:
            for _ in range(150):
                work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=again, args=(work,)) for work in (cut, cut, whole, whole, own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert not wrong, wrong[:3]


def test_a_text_is_tokenised_once(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    inner = type(clf.tokenizer).__call__
    monkeypatch.setattr(
        type(clf.tokenizer),
        "__call__",
        lambda *given, **more: calls.append(given[1:]) or inner(*given, **more),
    )
    for text in (PAIR[0], PAIR, [PAIR[0], PAIR[1]]):
        calls.clear()
        attribute(clf, text, method="loo", unit="word")
        assert len(calls) == (len(text) if isinstance(text, list) else 1)


def test_two_texts_of_a_data_set_are_no_pair(three: Classifier) -> None:
    data = load_dataset({"text": [*PAIR, "dull"]}, text="text")
    for some in (data.texts[:2], data.texts[1:], Texts(PAIR)):
        for method in ("attnlrp", "loo"):
            records = attribute(three, some, method=method)
            alone = [attribute(three, text, method=method)[0] for text in some]
            assert [r.tokens for r in records] == [r.tokens for r in alone]
            for record, one in zip(records, alone, strict=True):
                np.testing.assert_allclose(record.scores, one.scores, atol=1e-8)
        assert [text.pair for text in three.encode(some)] == [None, None]
        assert check(three, some).texts == 2
        for one_text in (layer_lattice, lambda clf, text: removal_evaluator(clf, text, target=0)):
            with pytest.raises(InputError, match="2 texts of type Texts"):
                one_text(three, some)
    with pytest.raises(InputError, match="text 0 of type Texts"):
        three.encode([data.texts[:2]])
    with pytest.raises(InputError, match="text 0 of type DataFrame"):
        three.encode(pandas.DataFrame({"text": PAIR}))
    assert three.encode(PAIR)[0].pair == PAIR[1]


@pytest.mark.parametrize("texts", ["a film [SEP] the plot", ("a [CLS] film", "the plot")])
def test_a_special_token_that_is_typed_is_refused(clf: Classifier, texts: object) -> None:
    with pytest.raises(InputError, match="the special token .* in it"):
        attribute(clf, texts, method="attnlrp")
