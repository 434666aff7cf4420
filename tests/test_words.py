"""Words, sentences and spans as groups of tokens: every token once, whatever the tokenizer spells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.checks import InputError
from lrp_companion.words import asked_spans, readable, sentence_spans, units_of, word_spans

# "Zürich café" as a byte-level vocabulary spells it
BYTES = ("<s>", "Z", "Ã", "¼", "rich", "Ġca", "f", "Ã", "©", "</s>")
PLACES = [(0, 0), (0, 1), (1, 2), (1, 2), (2, 6), (7, 9), (9, 10), (10, 11), (10, 11), (0, 0)]
SPECIAL = np.array([True, *[False] * 8, True])
TEXT = "Zürich café"


def units(unit, *, tokens=BYTES, text=TEXT, offsets=PLACES, special=SPECIAL):
    return units_of("test", unit, tokens=tokens, text=text, offsets=offsets, special=special)


def test_bytes_are_shown_as_text() -> None:
    shown = ("<s>", "Z", "ü", "…", "rich", "ca", "f", "é", "…", "</s>")
    assert readable(BYTES, TEXT, PLACES, SPECIAL) == shown


def test_pieces_of_words_stay_as_the_vocabulary_has_them() -> None:
    tokens, offsets = ("[CLS]", "zur", "##ich", "[UNK]"), [(0, 0), (0, 3), (3, 6), (7, 8)]
    assert readable(tokens, "Zürich \U0001f600", offsets, np.array([True, False, False, False])) == tokens
    assert readable(tokens, "", (), np.ones(4, dtype=bool)) == tokens  # nothing known: as they are


def test_words_hold_the_bytes_of_their_characters() -> None:
    words = units("word")
    assert words.names == ("<s>", "Zürich", "café", "</s>") and words.special.tolist() == [1, 0, 0, 1]
    assert [member.tolist() for member in words.members] == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert words.offsets == ((0, 0), (0, 6), (7, 11), (0, 0))


def test_a_token_of_spaces_goes_with_the_next_word() -> None:
    tokens, offsets = ("a", "Ġ", "Ġb", "Ġ"), [(0, 1), (1, 2), (2, 4), (4, 5)]
    words = units("word", tokens=tokens, text="a  b ", offsets=offsets, special=np.zeros(4, dtype=bool))
    assert [member.tolist() for member in words.members] == [[0], [1, 2, 3]]
    assert words.names == ("a", "b")


def test_a_token_that_reaches_into_two_words_joins_them() -> None:
    tokens, offsets = ("well", "!a", "x"), [(0, 4), (4, 6), (7, 8)]
    words = units("word", tokens=tokens, text="well!a x", offsets=offsets, special=np.zeros(3, dtype=bool))
    assert words.names == ("well", "!a", "x")  # one token reaches into two words, which are one unit
    tokens, offsets = ("it", "s b", "c"), [(0, 2), (2, 5), (5, 6)]
    words = units("word", tokens=tokens, text="its bc", offsets=offsets, special=np.zeros(3, dtype=bool))
    assert words.names == ("its bc",)


@given(st.text(max_size=40))
def test_words_and_sentences_cover_all_but_spaces(text: str) -> None:
    for spans in (word_spans(text), sentence_spans(text)):
        covered = {k for start, end in spans for k in range(start, end)}
        assert all(k in covered for k, c in enumerate(text) if not c.isspace())
        assert sum(end - start for start, end in spans) == len(covered)


@given(st.text(alphabet="ab '-.!?\u00e9\u0301 \n", min_size=1, max_size=30), st.data())
def test_every_token_is_in_one_unit_and_sums_are_kept(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=6)) | {0, len(text)})
    offsets = list(zip(cuts, cuts[1:], strict=False))
    special = np.zeros(len(offsets), dtype=bool)
    names = [text[start:end] for start, end in offsets]
    for unit in ("token", "word", "sentence"):
        grouped = units(unit, tokens=names, text=text, offsets=offsets, special=special)
        assert sorted(k for member in grouped.members for k in member) == list(range(len(offsets)))
        scores = np.arange(1.0, len(offsets) + 1)
        assert grouped.sums(scores).sum() == scores.sum()
        of_tokens = grouped.of_tokens(len(offsets))
        for u in range(len(grouped)):
            assert (of_tokens == u).tolist() == (~grouped.kept_without(u, len(offsets))).tolist()


def test_spans_are_phrases_or_places() -> None:
    spans = units(["café", (0, 6)])
    assert spans.names == ("Zürich", "café") and not spans.special.any()
    assert [member.tolist() for member in spans.members] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    part = units([(0, 1)])  # a token that reaches beyond a span belongs to it
    assert part.names == ("Z",) and part.kept_without(0, 10).sum() == 9 and part.kept_without(-1, 10).all()


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("syllable", "unit 'syllable'"), (3, "unit 3"), ([], r"unit \[\]"), (["film"], "'film', 0 times"),
        (["i", "c"], "'c', 2 times"), ([(0, 99)], r"\(0, 99\)"), ([(3, 3)], r"\(3, 3\)"), ([(0, 1.5)], "1.5"),
        ([(True, 2)], "True"), ([(0, 6), "rich"], r"begins before 6"), (["  "], "0 times"),
        ([(6, 7)], "without a token"), ([(1, 2), (2, 3), None], "span None"),
    ],
)  # fmt: skip
def test_what_is_no_unit_is_refused(unit: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        units(unit)


def test_two_spans_in_one_token_are_refused() -> None:
    with pytest.raises(InputError, match="two spans in the token"):
        units([(2, 3), (4, 5)])
    with pytest.raises(InputError, match="tokens without offsets"):
        units("word", offsets=())


def test_spans_come_in_reading_order() -> None:
    assert asked_spans("test", "a b c", ["c", (0, 2), "b"]) == [(0, 1), (2, 3), (4, 5)]
