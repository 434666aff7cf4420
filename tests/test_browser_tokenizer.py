"""The page's tokenizer: the ids that Python gives, for texts and tokenizers of every kind; or a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_texts import texts_to_try
from engine_agreement import Engine, as_staged
from tiny_models import SPECIAL, WORDS, build
from tokenizers import AddedToken, Tokenizer, processors
from transformers import BertTokenizerFast

import lrp_companion as lrp
from lrp_companion import CompanionError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.page import browser_engine

pytest.importorskip("wasmtime", reason="the extra book brings the compiler of the engine's kernel")
TEXTS = 200
SIZE = 120
LETTERS = (
    "x", "y", "e", "##e", "é", "É", "##é", "##x", "s", "ß", "Σ", "σ", "i", "##\u0307", "字", "電", "##字",
    "##電", "שלום", "##ים", "한", "ᄒ", "##ᅡ", "##ᆫ", "[", "]", "##]", "E1", "e1", "<", ">", "^", "ent", "😀",
    "\u202e", "##\u200d", "\x00", "Film", "FILM", "\u0e01", "##\u0e33",
)  # fmt: skip
SEP, CLS = ("[SEP]", 3), ("[CLS]", 2)


def tokenizer(
    change: Callable[[dict[str, Any]], Any] = lambda state: None,
    *added: AddedToken,
    special: bool = False,
    **options: Any,
) -> BertTokenizerFast:
    """A WordPiece tokenizer whose saved state is changed, with added tokens."""
    words = dict.fromkeys((*SPECIAL, *WORDS, *LETTERS))
    made = BertTokenizerFast(
        vocab={token: k for k, token in enumerate(words)}, model_max_length=64, **options
    )
    state = json.loads(made.backend_tokenizer.to_str())
    change(state)
    made._tokenizer = Tokenizer.from_str(json.dumps(state))
    made.add_tokens(list(added), special_tokens=special)
    return made


def classifier(made: BertTokenizerFast) -> Classifier:
    network, _ = build("bert", labels=2)
    network.resize_token_embeddings(SIZE + 100, mean_resizing=False)
    return lrp.load_classifier(network, made)


def normaliser(**options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["normalizer"].update(options)


def model(**options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["model"].update(options)


def template(made: Any) -> Callable[[dict[str, Any]], Any]:
    """Another post-processor, as the tokenizer would save it."""

    def change(state: dict[str, Any]) -> None:
        plain = Tokenizer.from_str(json.dumps({**state, "post_processor": None}))
        plain.post_processor = made
        state["post_processor"] = json.loads(plain.to_str())["post_processor"]

    return change


def typed(text: str) -> Callable[[dict[str, Any]], Any]:
    return template(processors.TemplateProcessing(text, special_tokens=[CLS, SEP]))


def gap(state: dict[str, Any]) -> None:
    """Every other id without a token."""
    words = state["model"]["vocab"]
    for token in set(words) - set(SPECIAL):
        words[token] = 2 * words[token] + 3


KINDS: dict[str, Callable[[], BertTokenizerFast]] = {
    "cased": lambda: tokenizer(normaliser(lowercase=False)),
    "cased without accents": lambda: tokenizer(normaliser(lowercase=False, strip_accents=True)),
    "lower case with accents": lambda: tokenizer(normaliser(strip_accents=False)),
    "no cleaning": lambda: tokenizer(normaliser(clean_text=False, lowercase=False)),
    "no Chinese characters apart": lambda: tokenizer(
        normaliser(handle_chinese_chars=False, clean_text=False)
    ),
    "added words": lambda: tokenizer(
        normaliser(),
        AddedToken("E1"),
        AddedToken("[E2]", normalized=False),
        AddedToken("Élan vital"),
        AddedToken("film noir"),
    ),
    "words alone": lambda: tokenizer(
        normaliser(lowercase=False),
        AddedToken("ent", single_word=True),
        AddedToken("字", single_word=True),
        AddedToken("x.", single_word=True, normalized=False),
    ),
    "words that take spaces": lambda: tokenizer(
        normaliser(),
        AddedToken("<l>", lstrip=True),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<b>", lstrip=True, rstrip=True, single_word=True),
        AddedToken(" two", normalized=False),
    ),
    "further special tokens": lambda: tokenizer(
        normaliser(),
        AddedToken("[E1]", special=True, lstrip=True),
        AddedToken("<ent>", special=True, rstrip=True),
        special=True,
    ),
    "ids with a gap": lambda: tokenizer(gap),
    "another prefix and short words": lambda: tokenizer(
        model(continuing_subword_prefix="", max_input_chars_per_word=5)
    ),
    "unknown is a word": lambda: tokenizer(model(unk_token="dull")),
    "RoBERTa's ends": lambda: tokenizer(template(processors.RobertaProcessing(SEP, CLS))),
    "BERT's ends": lambda: tokenizer(template(processors.BertProcessing(SEP, CLS))),
    "no end": lambda: tokenizer(typed("[CLS] $A")),
    "no beginning": lambda: tokenizer(typed("$A [SEP]")),
    "two of each": lambda: tokenizer(typed("[CLS] [CLS] $A [SEP] [CLS]")),
    "nothing around": lambda: tokenizer(template(processors.ByteLevel())),
}


def encoded(clf: Classifier, text: str) -> Any:
    """What Python reads; None where it refuses."""
    try:
        return clf.encode([text])[0]
    except CompanionError:
        return None


def compared(clf: Classifier, folder: Path, seed: int, count: int = TEXTS) -> None:
    """The page's ids and Python's, over texts that were drawn for this tokenizer."""
    staged = browser_engine.stage(clf, folder)
    script = (folder / "model.js").read_text(encoding="utf-8")
    data = json.loads(script[script.index("(") + 1 : script.rindex(")")])["tokenizer"]
    texts = texts_to_try(data, count, seed=seed)
    answers = Engine(staged.folder).ask([{"kind": "encode", "text": text} for text in texts])
    read = 0
    for text, answer in zip(texts, answers, strict=True):
        expected, result = encoded(clf, text), answer["result"]
        if expected is None or len(expected) > data["maxTokens"]:
            assert result.get("error", "").startswith("CompanionError: encode"), ascii(text)
            continue
        read += 1
        assert result.get("ids") == list(expected.input_ids), ascii(text)
        assert result["tokens"] == list(expected.tokens), ascii(text)
        assert result["special"] == expected.special.tolist(), ascii(text)
    assert read > count / 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_ids_are_pythons(kind: str, tmp_path: Path, deno: str) -> None:
    compared(classifier(KINDS[kind]()), tmp_path, 1 + list(KINDS).index(kind))


def test_the_embedded_models_ids_are_pythons(tmp_path: Path, deno: str) -> None:
    compared(lrp.load_classifier("companion"), tmp_path, 100, 1000)


@pytest.mark.parametrize(
    "kind", ["ids with a gap", "no beginning", "two of each", "nothing around", "further special tokens"]
)
def test_maps_of_other_tokenizers_are_pythons(kind: str, tmp_path: Path, deno: str) -> None:
    clf = classifier(KINDS[kind]())
    staged = browser_engine.stage(clf, tmp_path)
    python = as_staged(clf)
    cases = [
        {"kind": "explain", "text": text, "choices": {"method": method}}
        for text in ("a film of rare grace", "dull, but never slow!", "<ent> the plot")
        for method in ("attnlrp", "cp-lrp", "loo", "mask-gradient")
    ]
    for case, answer in zip(cases, Engine(staged.folder).ask(cases), strict=True):
        (expected,) = lrp.attribute(python, case["text"], **case["choices"])
        result = answer["result"]
        assert result["tokens"] == list(expected.tokens) and result["target"] == expected.target
        np.testing.assert_allclose(result["scores"], expected.scores, rtol=2e-4, atol=2e-5)
        assert result["logits"][expected.target] == pytest.approx(expected.logit, abs=1e-5)


def twins(state: dict[str, Any]) -> None:
    """Two words with one id."""
    state["model"]["vocab"]["film"] = state["model"]["vocab"]["plot"]


REFUSED: dict[str, tuple[Callable[[], BertTokenizerFast], str]] = {
    "types": (lambda: tokenizer(typed("[CLS] $A:1 [SEP]:1")), "token types"),
    "twice": (lambda: tokenizer(typed("[CLS] $A [SEP] $A [SEP]")), "in several parts"),
    "ids that two words share": (lambda: tokenizer(twins), "the token id"),
    "no unknown word": (lambda: tokenizer(model(unk_token="nothing")), "nothing"),
    "alike": (lambda: tokenizer(normaliser(), AddedToken("Abc"), AddedToken("aBC")), "reads like another"),
    "read as nothing": (lambda: tokenizer(normaliser(), AddedToken("\u0301")), "reads like nothing"),
    "no normaliser": (lambda: tokenizer(lambda state: state.update(normalizer=None)), "another tokenizer"),
    "split at white space": (
        lambda: tokenizer(lambda state: state.update(pre_tokenizer={"type": "WhitespaceSplit"})),
        "another tokenizer",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_tokenizers_are_refused(kind: str, tmp_path: Path) -> None:
    make, part = REFUSED[kind]
    with pytest.raises(Exception, match=part):
        browser_engine.stage(classifier(make()), tmp_path / "staged")
    assert not (tmp_path / "staged").exists()
