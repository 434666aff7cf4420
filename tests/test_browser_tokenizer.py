"""The page's tokenizer: the ids that Python gives, for texts and tokenizers of every kind; or a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import missing
from engine_agreement import Engine
from front.check import find_deno, in_ci, no_deno
from tiny_models import SPECIAL, WORDS, build
from tokenizers import AddedToken, Tokenizer, processors
from transformers import BertTokenizerFast

import lrp_companion as lrp
from lrp_companion import CompanionError, ModelError
from lrp_companion.bookbuild import browser_check, browser_engine, browser_tokenizer
from lrp_companion.models.pretrained import Classifier

pytest.importorskip("wasmtime", reason="the extra book brings the compiler of the engine's kernel")
TEXTS = 2000
SIZE = 120
LETTERS = (
    "x", "y", "e", "##e", "é", "É", "##é", "##x", "s", "ß", "Σ", "σ", "i", "##\u0307", "字", "電", "##字",
    "##電", "שלום", "##ים", "한", "ᄒ", "##ᅡ", "##ᆫ", "[", "]", "##]", "E1", "e1", "<", ">", "^", "ent", "😀",
    "\u202e", "##\u200d", "\x00", "Film", "FILM", "\u0e01", "##\u0e33",
)  # fmt: skip
SEP, CLS = ("[SEP]", 3), ("[CLS]", 2)


@pytest.fixture(scope="module")
def deno() -> str:
    path = find_deno()
    if path is None and in_ci():
        pytest.fail(f"this is continuous integration, but {no_deno()}")
    return path or missing(no_deno())


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


def gap(state: dict[str, Any]) -> None:
    """Ids with holes, and in another order."""
    words = state["model"]["vocab"]
    for token in WORDS:
        words[token] = 2 * words[token] + 40


KINDS: dict[str, Callable[[], BertTokenizerFast]] = {
    "cased": lambda: tokenizer(normaliser(lowercase=False)),
    "cased without accents": lambda: tokenizer(normaliser(lowercase=False, strip_accents=True)),
    "lower case with accents": lambda: tokenizer(normaliser(strip_accents=False)),
    "no cleaning": lambda: tokenizer(normaliser(clean_text=False, lowercase=False)),
    "no Chinese characters apart": lambda: tokenizer(normaliser(handle_chinese_chars=False, clean_text=False)),
    "added words": lambda: tokenizer(
        lambda state: None, AddedToken("E1"), AddedToken("[E2]", normalized=False), AddedToken("Élan vital"), AddedToken("film noir")
    ),
    "words alone": lambda: tokenizer(
        normaliser(lowercase=False), AddedToken("ent", single_word=True), AddedToken("x.", single_word=True, normalized=False), AddedToken("字", single_word=True)
    ),
    "words that take spaces": lambda: tokenizer(
        lambda state: None, AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<b>", lstrip=True, rstrip=True, single_word=True), AddedToken(" two", normalized=False),
    ),
    "further special tokens": lambda: tokenizer(
        lambda state: None, AddedToken("[E1]", special=True, lstrip=True), AddedToken("<ent>", special=True, rstrip=True), special=True
    ),
    "ids with a gap": lambda: tokenizer(gap),
    "another prefix and short words": lambda: tokenizer(model(continuing_subword_prefix="", max_input_chars_per_word=5)),
    "unknown is a word": lambda: tokenizer(model(unk_token="dull")),
    "RoBERTa's ends": lambda: tokenizer(template(processors.RobertaProcessing(SEP, CLS))),
    "BERT's ends": lambda: tokenizer(template(processors.BertProcessing(SEP, CLS))),
    "no end": lambda: tokenizer(template(processors.TemplateProcessing("[CLS] $A", special_tokens=[CLS]))),
    "no beginning": lambda: tokenizer(template(processors.TemplateProcessing("$A [SEP]", special_tokens=[SEP]))),
    "two of each": lambda: tokenizer(
        template(processors.TemplateProcessing("[CLS] [CLS] $A [SEP] [CLS]", special_tokens=[CLS, SEP]))
    ),
    "ends in sequence": lambda: tokenizer(
        template(
            processors.Sequence(
                [
                    processors.TemplateProcessing("$A [SEP]", special_tokens=[SEP]),
                    processors.TemplateProcessing("[CLS] $A", special_tokens=[CLS]),
                ]
            )
        )
    ),
    "nothing around": lambda: tokenizer(template(processors.ByteLevel())),
}  # fmt: skip


def python_ids(clf: Classifier, text: str) -> list[int] | None:
    try:
        return list(clf.encode([text])[0].input_ids)
    except CompanionError:
        return None


def compared(clf: Classifier, folder: Path, seed: int) -> None:
    """The page's ids and Python's, over texts that were drawn for this tokenizer."""
    staged = browser_engine.stage(clf, folder)
    script = (folder / "model.js").read_text(encoding="utf-8")
    data = json.loads(script[script.index("(") + 1 : script.rindex(")")])["tokenizer"]
    texts = browser_check.texts_to_try(data, TEXTS, seed=seed)
    answers = Engine(staged.folder).ask([{"kind": "encode", "text": text} for text in texts])
    read = 0
    for text, answer in zip(texts, answers, strict=True):
        expected = python_ids(clf, text)
        if expected is not None and len(expected) > data["maxTokens"]:
            expected = None
        assert answer["result"].get("ids") == expected, ascii(text)
        if expected is None:
            assert answer["result"]["error"].startswith("CompanionError: encode"), ascii(text)
        else:
            read += 1
            assert answer["result"]["tokens"] == list(clf.encode([text])[0].tokens)
            assert answer["result"]["special"] == clf.encode([text])[0].special.tolist()
    assert read > TEXTS / 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_ids_are_pythons(kind: str, tmp_path: Path, deno: str) -> None:
    compared(classifier(KINDS[kind]()), tmp_path, 1 + list(KINDS).index(kind))


def test_the_embedded_models_ids_are_pythons(tmp_path: Path, deno: str) -> None:
    compared(lrp.load_classifier("companion"), tmp_path, 100)
