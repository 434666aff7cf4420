"""What is removed at once: a slow loop over the model, for LOO, the mask gradient and the hybrid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
import transformers
from tiny_models import TEXTS

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.loading.offsets import offsets_of
from lrp_companion.methods import attribute
from lrp_companion.words import units_of

TEXT = TEXTS[3]  # "the actors laughed and the slow scene was never dull !"
SPANS = ["slow scene", (4, 10)]


def members(clf: Classifier, unit: object) -> list[np.ndarray]:
    (loo,) = attribute(clf, TEXT, method="loo")
    grouped = units_of(
        "test", unit, tokens=loo.tokens, text=loo.text, offsets=loo.offsets, special=loo.special
    )
    return list(grouped.members)


def removed(clf: Classifier, places: np.ndarray, target: int) -> float:
    """The logit of the `transformers` model under an attention mask."""
    (text,) = clf.encode(TEXT)
    mask = torch.ones(1, len(text), dtype=torch.long)
    mask[0, places] = 0
    with torch.no_grad():
        return clf.logits(torch.tensor([text.input_ids]), mask)[0, target].item()


@pytest.mark.parametrize("unit", ["word", "sentence", SPANS], ids=["word", "sentence", "spans"])
def test_loo_removes_all_tokens_of_a_unit(family_clf: Classifier, unit: object) -> None:
    (record,) = attribute(family_clf, TEXT, method="loo", unit=unit)
    groups = members(family_clf, unit)
    expected = [record.logit - removed(family_clf, places, record.target) for places in groups]
    assert np.allclose(record.scores, expected, atol=1e-10) and len(record.tokens) == len(groups)
    assert record.choices["unit"] == (unit if isinstance(unit, str) else "span")
    if unit == "word":
        (pieces,) = attribute(family_clf, TEXT, method="loo")
        summed = pieces.words()
        assert summed.tokens == record.tokens and not np.allclose(summed.scores, record.scores)
        assert "laughed" in record.tokens  # in two pieces


@pytest.mark.parametrize("unit", ["word", SPANS], ids=["word", "spans"])
def test_mask_gradient_integrates_to_loo_of_the_unit(clf: Classifier, unit: object) -> None:
    (exact,) = attribute(clf, TEXT, method="loo", unit=unit)
    (near,) = attribute(clf, TEXT, method="mask-gradient", unit=unit, groups="all", nodes=24)
    assert near.tokens == exact.tokens and near.offsets == exact.offsets
    assert np.allclose(near.scores, exact.scores, atol=1e-6)
    (slope,) = attribute(clf, TEXT, method="mask-gradient", unit=unit)
    (tokens,) = attribute(clf, TEXT, method="mask-gradient")
    assert np.allclose(slope.scores, [tokens.scores[places].sum() for places in members(clf, unit)])


@pytest.mark.parametrize("unit", ["word", "sentence", SPANS], ids=["word", "sentence", "spans"])
def test_hybrid_with_all_exact_is_loo_of_the_units(clf: Classifier, unit: object) -> None:
    (exact,) = attribute(clf, TEXT, method="loo", unit=unit)
    (mixed,) = attribute(clf, TEXT, method="hybrid", unit=unit, exact=99)
    assert np.allclose(mixed.scores, exact.scores, atol=1e-10) and mixed.tokens == exact.tokens
    (one,) = attribute(clf, TEXT, method="hybrid", unit=unit, exact=1)
    (place,) = one.details["exact tokens"]
    assert one.scores[place] == pytest.approx(exact.scores[place])


def test_tokens_are_as_before(clf: Classifier) -> None:
    for method in ("loo", "mask-gradient", "hybrid"):
        (plain,), (named,) = (attribute(clf, TEXT, method=method, **o) for o in ({}, {"unit": "token"}))
        assert plain == named and "unit" not in plain.choices


def test_several_texts_have_spans_each(clf: Classifier) -> None:
    both = attribute(clf, [TEXTS[0], TEXT], method="loo", unit=[["rare grace"], SPANS])
    assert [record.tokens for record in both] == [("rare grace",), ("actors", "slow scene")]
    (alone,) = attribute(clf, TEXT, method="loo", unit=[SPANS])
    assert alone.tokens == ("actors", "slow scene")


@pytest.mark.parametrize(
    ("texts", "unit", "words"),
    [
        (TEXT, "letter", "unit 'letter'"),
        (TEXT, None, "unit None"),
        (TEXT, [], "unit"),
        (TEXT, ["banana"], "'banana', 0 times"),
        ([TEXT, TEXT], SPANS, "for 2 texts"),
        ([TEXT, TEXT], [SPANS], "for 2 texts"),
        (TEXT, [(0, 999)], "span"),
    ],
)
@pytest.mark.parametrize("method", ["loo", "mask-gradient", "hybrid"])
def test_units_are_refused_before_any_work(clf: Classifier, monkeypatch, method, texts, unit, words) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(clf.encoder, "forward", work)
    with pytest.raises(InputError, match=words):
        attribute(clf, texts, method=method, unit=unit)


def test_a_cut_text_has_words_up_to_its_cut(clf: Classifier) -> None:
    (record,) = attribute(clf, "the film " * 40, method="loo", unit="word", truncate=True)
    assert len(record.tokens) == 32 and record.tokens[-2:] == ("film", "[SEP]")
    with pytest.raises(InputError, match="without a token"):
        attribute(clf, "the film " * 40, method="loo", unit=[(300, 304)], truncate=True)


class OnlyInPython(transformers.PythonBackend):
    """A tokenizer without positions, whose words go on as `split` spells it."""

    def __init__(self, split: Callable[[str], list[str]], texts: Sequence[str]) -> None:
        pieces = {
            piece for text in texts for word in text.split() for piece in split(word) + split(f" {word}")
        }
        self.names = ["<s>", "</s>", "<pad>", "<unk>", *sorted(pieces - {"☃"})]
        self.ids, self.split_ = {name: k for k, name in enumerate(self.names)}, split
        super().__init__(unk_token="<unk>", cls_token="<s>", sep_token="</s>", pad_token="<pad>")

    vocab_files_names: ClassVar[dict[str, str]] = {}

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)

    def _tokenize(self, text: str, **_: object) -> list[str]:
        return self.split_(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, self.ids["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return self.names[index]

    def build_inputs_with_special_tokens(
        self, first: list[int], second: list[int] | None = None
    ) -> list[int]:
        return [0, *first, 1] + ([*second, 1] if second else [])

    def get_special_tokens_mask(self, first, second=None, already_has_special_tokens=False) -> list[int]:
        return [1, *[0] * len(first), 1] + ([*[0] * len(second), 1] if second else [])


def threes(mark: Callable[[list[str]], list[str]], start: str = "") -> Callable[[str], list[str]]:
    """Words in pieces of three characters, marked."""

    def split(text: str) -> list[str]:
        words = [start + word for word in text.split()]
        return [piece for word in words for piece in mark([word[k : k + 3] for k in range(0, len(word), 3)])]

    return split


SPELLINGS = {
    "@@": threes(lambda parts: [f"{part}@@" for part in parts[:-1]] + parts[-1:]),
    "##": threes(lambda parts: parts[:1] + [f"##{part}" for part in parts[1:]]),
    "metaspace": threes(lambda parts: parts, "▁"),
    "</w>": threes(lambda parts: [*parts[:-1], f"{parts[-1]}</w>"]),
    "space before": lambda text: threes(list, "Ġ" if text.startswith(" ") else "")(text),
    "letters": list,
}
PLAIN = ("so happy to see the sun", "the café, it's well-made ☃ 3.5")
NAMED = (tuple(PLAIN[0].split()), ("the", "café", ",", "it's", "well-made", "☃", "3.5"))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_words_of_a_tokenizer_without_positions(spelling: str) -> None:
    tokenizer = OnlyInPython(SPELLINGS[spelling], [*PLAIN, " ", *PLAIN[0]])
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=80,
        pad_token_id=2,
    )
    clf = load_classifier(transformers.RobertaForSequenceClassification(config).eval(), tokenizer)
    for text, names in zip(PLAIN, NAMED, strict=True):
        (tokens,) = attribute(clf, text, method="loo", target=1)
        words = tokens.words()
        shown = [name.strip(",") for name in words.tokens[1:-1] if name != ","]
        assert shown == [name for name in names if name != ","]
        assert words.scores.sum() == pytest.approx(tokens.scores.sum())
        (removed,) = attribute(clf, text, method="loo", target=1, unit="word")
        assert removed.tokens == words.tokens
        assert len(tokens.spans([names[1]]).tokens) == 1
    (pair,) = attribute(clf, [(PLAIN[0], PLAIN[0])], method="loo", target=1)
    assert pair.words().tokens.count("happy") == 2
    (cut,) = clf.encode(PLAIN[0])
    places = offsets_of(
        clf, replace(cut, input_ids=(*cut.input_ids[:4], 1), special=cut.special[[0, 1, 2, 3, -1]])
    )[1]
    assert len(places) == 5 and PLAIN[0].startswith(PLAIN[0][places[1][0] : places[1][1]] or "!")


def test_words_that_cannot_be_found_are_refused_in_one_line() -> None:
    tokenizer = OnlyInPython(lambda text: [f"{len(text.split())}{word}" for word in text.split()], PLAIN)
    clf = load_classifier(
        transformers.RobertaForSequenceClassification(
            transformers.RobertaConfig(
                vocab_size=tokenizer.vocab_size,
                hidden_size=8,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=8,
                max_position_embeddings=80,
                pad_token_id=2,
            )
        ).eval(),
        tokenizer,
    )
    (record,) = attribute(clf, PLAIN[0], method="loo", target=1)
    with pytest.raises(InputError, match="tokens without offsets"):
        record.words()
