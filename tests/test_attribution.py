"""Records are pickled, copied, compared and read back; words and spans are sums; ranks and scales."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, layer_lattice

CALLS = ("loo", "ig", "attnlrp", "lrp", "rollout", "mask-gradient", "hybrid", "sampled-loo")


def record(scores=(0.5, 1.0, 2.0, -4.0, 0.25), **changes) -> Attribution:
    """A record of "Fine plots!"."""
    made = Attribution(
        ("[CLS]", "fine", "plot", "##s", "!"),
        scores,
        1,
        2.5,
        [True, False, False, False, False],
        "lrp",
        choices={"bypass": (1, 2), "site": "word"},
        parts={"word": np.array(scores) / 2},
        details={"label": "positive"},
        text="Fine plots!",
        offsets=[(0, 0), (0, 4), (5, 9), (9, 10), (10, 11)],
    )
    return replace(made, **changes) if changes else made


@pytest.mark.parametrize("method", CALLS)
def test_records_of_methods_come_back_equal(clf: Classifier, method: str) -> None:
    (made,) = attribute(clf, "the actors laughed .", method=method)
    ways = (
        pickle.loads(pickle.dumps(made)),
        copy.copy(made),
        copy.deepcopy(made),
        Attribution.from_dict(made.to_dict()),
        Attribution.from_json(made.to_json()),
    )
    for back in ways:
        assert back == made and hash(back) == hash(made)
        assert not back.scores.flags.writeable and back.scores.dtype == np.float64
    assert made.text == "the actors laughed ." and len(made.offsets) == len(made.tokens)


def test_a_lattice_is_pickled_and_compared(clf: Classifier) -> None:
    made = layer_lattice(clf, "a dull film")
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    assert made != layer_lattice(clf, "a dull plot") and made.pieces == made.tokens


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=5, max_size=5))
def test_json_keeps_every_number(scores: list[float]) -> None:
    made = record(tuple(scores))
    assert Attribution.from_json(made.to_json()) == made


def test_words_and_spans_are_sums() -> None:
    words = record().words()
    assert words.tokens == ("[CLS]", "Fine", "plots", "!") and words.scores.tolist() == [0.5, 1, -2, 0.25]
    assert words.special.tolist() == [True, False, False, False] and words.choices["summed over"] == "word"
    assert words.parts["word"].tolist() == [0.25, 0.5, -1, 0.125] and words.words().tokens == words.tokens
    spans = record().spans(["Fine plots"])
    assert spans.tokens == ("Fine plots",) and spans.scores.tolist() == [-1.0]
    assert record().spans("sentence").tokens == ("[CLS]", "Fine plots!")
    with pytest.raises(InputError, match="tokens without offsets"):
        record(offsets=()).words()


def test_the_largest_scores() -> None:
    made = record()
    assert made.top(2) == [("##s", -4.0), ("plot", 2.0)]
    assert made.top(9, by="for") == [("plot", 2.0), ("fine", 1.0), ("!", 0.25)]
    assert made.top(by="against") == [("##s", -4.0)]
    with pytest.raises(InputError, match="by 'largest'"):
        made.top(by="largest")


GOOD = {
    "tokens": ("a", "b"),
    "scores": [1.0, 2.0],
    "target": 1,
    "logit": 2.5,
    "special": [False, False],
    "method": "loo",
    "text": "a b",
    "offsets": [(0, 1), (2, 3)],
}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.arange(3), (0, 1, 2)),
        (np.float32(0.5), 0.5),
        (np.array([[1.5], [2.5]]), ((1.5,), (2.5,))),
        ([1, [2, None]], (1, (2, None))),
        ({1: True}, {"1": True}),
        (np.bool_(True), True),
        ({"x"}, ("x",)),
        (np.array(["a"]), ("a",)),
        (np.str_("é"), "é"),
    ],
)
def test_choices_and_details_are_kept_as_json_holds_them(value: object, kept: object) -> None:
    made = Attribution(**GOOD, choices={"a": value}, details={"b": {"c": value}})
    assert made.choices == {"a": kept} and made.details == {"b": {"c": kept}}
    assert made == Attribution.from_json(made.to_json()) == copy.deepcopy(made)
