"""Words, sentences and spans as groups of tokens: every token once, whatever the tokenizer spells."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from lrp_companion.words import readable, sentence_spans, units_of, word_spans

# "Zürich café" as a byte-level vocabulary spells it
BYTES = ("<s>", "Z", "Ã", "¼", "rich", "Ġca", "f", "Ã", "©", "</s>")
PLACES = [(0, 0), (0, 1), (1, 2), (1, 2), (2, 6), (7, 9), (9, 10), (10, 11), (10, 11), (0, 0)]
SPECIAL = np.array([True, *[False] * 8, True])
TEXT = "Zürich café"


def units(unit, *, tokens=BYTES, text=TEXT, offsets=PLACES):
    special = SPECIAL if tokens is BYTES else np.zeros(len(tokens), dtype=bool)
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
    words = units("word", tokens=tokens, text="a  b ", offsets=offsets)
    assert [member.tolist() for member in words.members] == [[0], [1, 2, 3]]
    assert words.names == ("a", "b")


def test_a_token_that_reaches_into_two_words_joins_them() -> None:
    tokens, offsets = ("well", "!a", "x"), [(0, 4), (4, 6), (7, 8)]
    words = units("word", tokens=tokens, text="well!a x", offsets=offsets)
    assert words.names == ("well", "!a", "x")  # one token reaches into two words, which are one unit
    tokens, offsets = ("it", "s b", "c"), [(0, 2), (2, 5), (5, 6)]
    words = units("word", tokens=tokens, text="its bc", offsets=offsets)
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
    names = [text[start:end] for start, end in offsets]
    for unit in ("token", "word", "sentence"):
        grouped = units(unit, tokens=names, text=text, offsets=offsets)
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
    ("text", "words"),
    [
        (
            "it's a well-made 1990's film, 3.5-inch",
            ["it's", "a", "well-made", "1990's", "film", ",", "3.5-inch"],
        ),
        ("10,000 at 12:30:45, 9/10.", ["10,000", "at", "12:30:45", ",", "9/10", "."]),
        ("it ended at 3.", ["it", "ended", "at", "3", "."]),
        ("wait...what", ["wait", "...", "what"]),
        ("end.It a - b", ["end", ".", "It", "a", "-", "b"]),
        ("so 'tis well-", ["so", "'", "tis", "well", "-"]),
    ],
)
def test_signs_within_a_word_and_at_its_end(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


@pytest.mark.parametrize("piece", ["ab.", "a.", "a@", "a@a.", "1,", "http://", "www.", "+", "#a", "-", "@"])
def test_words_of_a_long_run_are_found(piece: str) -> None:
    """50,000 characters, which take hours where an expression goes back and forth."""
    text = piece * (50_000 // len(piece))
    spans = word_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text


@pytest.mark.parametrize(
    "word", ["cafe\u0301", "שלו\u05b9ם\u05b9", "جدا\u064b", "Oslo\u0308", "e\u0301e\u0301"]
)
def test_marks_that_the_tokenizer_strips_stay_in_the_words_name(word: str) -> None:
    text = f"a {word}, b"
    end = 2 + max(k for k, c in enumerate(word) if not unicodedata.combining(c)) + 1
    offsets = [(0, 1), (2, end), (text.index(","), text.index(",") + 1), (len(text) - 1, len(text))]
    grouped = units("word", tokens=("a", "x", ",", "b"), text=text, offsets=offsets)
    assert grouped.names == ("a", word, ",", "b")
    spans = units([word], tokens=("a", "x", ",", "b"), text=text, offsets=offsets)
    assert spans.names == (word,) and [m.tolist() for m in spans.members] == [[1]]


@pytest.mark.parametrize(
    ("text", "tokens", "offsets", "shown"),
    [
        ("a 😀", ("a", "ĠðŁ", "ĺ", "Ģ"), [(0, 1), (1, 3), (2, 3), (2, 3)], ("a", "😀", "…", "…")),
        ("aéb", ("aÃ", "©b"), [(0, 2), (1, 3)], ("aé", "b")),
        ("éü", ("Ã", "©Ã", "¼"), [(0, 1), (0, 2), (1, 2)], ("é", "ü", "…")),
        ("½ x", ("1", "⁄", "2", "x"), [(0, 1), (0, 1), (0, 1), (2, 3)], ("½", "…", "…", "x")),
        ("今天 下", ("▁", "今天", "▁", "下"), [(0, 1), (0, 2), (2, 4), (3, 4)], ("␣", "今天", "␣", "下")),
        ("abc", ("▁", "a", "bc"), [(0, 1), (0, 1), (1, 3)], ("␣", "a", "bc")),
        ("▁b", ("▁", "▁", "b"), [(0, 1), (0, 1), (1, 2)], ("▁", "␣", "b")),
        ("kำ", ("k", "\u0e4d", "\u0e32"), [(0, 1), (1, 2), (1, 2)], ("k", "ำ", "…")),
        ("한", ("<0xED>", "<0x95>", "<0x9C>"), [(0, 1)] * 3, ("한", "…", "…")),
        ("a\nbc", ("bc", "a"), [(2, 4), (0, 1)], ("bc", "a")),
    ],
)
def test_a_character_in_several_tokens_is_shown_once(text, tokens, offsets, shown) -> None:
    assert readable(tokens, text, offsets, np.zeros(len(tokens), dtype=bool)) == shown


LETTERS = "今天下雨映画がหนังกำabfmé"
SENTENCEPIECE = Tokenizer(
    models.Unigram([("<unk>", 0.0), *((c, -3.0) for c in f"▁{LETTERS}"), ("今天", -2.0), ("▁ab", -1.0)], 0)
)
SENTENCEPIECE.normalizer, SENTENCEPIECE.pre_tokenizer = normalizers.NFC(), pre_tokenizers.Metaspace()


@given(st.text(f"{LETTERS}   ", min_size=1))
def test_a_vocabulary_of_sentencepiece_shows_each_character_once(text: str) -> None:
    """Where a word has no token with its space, the token of the space has the place of its first letter."""
    read = SENTENCEPIECE.encode(text)
    pieces = readable(read.tokens, text, read.offsets, np.zeros(len(read.ids), dtype=bool))
    shown = "".join(piece.lstrip("▁") for piece in pieces if piece not in "␣…")
    assert shown == "".join(text.split())


ODD = [
    "\u2764\ufe0f", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "co\u00adop",
    "\u0915\u094d\u200d\u0937", "#\ufe0f\u20e3", "1\ufe0f\u20e3", "\U0001f1f3\U0001f1f4",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\ufefffilm",
    "\u200fשלום", "well-ma\u00adde", "e\u0301t\u00ade\u0301",
]  # fmt: skip


@pytest.mark.parametrize("word", ODD)
def test_signs_without_a_form_of_their_own_stay_in_their_word(word: str) -> None:
    for text in (word, f"so {word} it", f"so {word}\nit", f"{word} it"):
        spans = word_spans(text)
        assert [text[a:b] for a, b in spans if text[a:b] not in ("so", "it")] == [word]
        by_character = [(k, k + 1) for k in range(len(text))]
        words = units("word", tokens=list(text), text=text, offsets=by_character)
        assert words.names == tuple(text.split())
        assert sorted(k for member in words.members for k in member) == list(range(len(text)))
        # a tokenizer that drops the rest
        seen = [place for place in by_character if text[place[0]].isalnum()]
        if word[0].isalnum():
            seen_words = units("word", tokens=["x"] * len(seen), text=text, offsets=seen)
            assert seen_words.names == words.names


def test_a_sign_without_a_form_of_its_own_may_stand_alone() -> None:
    for text in ("\u200d", "a \u200d b", "\u00ad!", "\ufe0f \ufe0f", "a\u200bb"):
        covered = {k for start, end in word_spans(text) for k in range(start, end)}
        assert covered == {k for k, c in enumerate(text) if c != " "}
    assert word_spans("a\u200bb") == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("unit", ["word", "sentence", "spans"])
def test_units_of_a_long_text_are_counted(unit: str) -> None:
    """A token in every span: 30,000 of them, which took minutes when each was sought in all."""
    n = 30_000
    text, places = "a. " * n, [(3 * k, 3 * k + 1) for k in range(n)]
    grouped = units(places if unit == "spans" else unit, tokens=["a"] * n, text=text, offsets=places)
    assert len(grouped) == n and grouped.sums(np.arange(float(n))).tolist() == list(map(float, range(n)))


def test_a_span_has_the_tokens_of_spaces_inside_it_but_none_at_its_ends() -> None:
    text, tokens = "\na\n\nb\nc", ("\n", "a", "\n\n", "b", "\n", "c")
    offsets = ((0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 7))
    spans = units([(0, 6), (6, 7)], tokens=tokens, text=text, offsets=offsets)
    assert spans.names == ("a\n\nb", "c") and [m.tolist() for m in spans.members] == [[1, 2, 3], [5]]
