"""The browser's engine: against Python on the weights that it has, under deno; and whole, in Chromium."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browsing import open_page, serve
from engine_agreement import STRANGE, Engine, agreement, as_staged, questions_of, restored
from tiny_models import build

import lrp_companion as lrp
from lrp_companion import ModelError, families
from lrp_companion.loading.classifier import Classifier
from lrp_companion.page import browser_engine, browser_tokenizer

pytest.importorskip("wasmtime", reason="the extra book brings the compiler of the engine's kernel")
TEXT = "a slow start, but the last scene is unforgettable"
FAMILIES = ("bert", "distilbert", "electra")
WORDS = ("the plot is not very quick , but warm .", "a film of rare grace", "dull")


@pytest.fixture(scope="module", params=FAMILIES)
def tiny(request: pytest.FixtureRequest, model_folder: Any) -> Classifier:
    layers = {"layers": 3, "labels": 3} if request.param == "bert" else {}
    return lrp.load_classifier(model_folder(request.param, **layers), dtype="float64")


@pytest.fixture(scope="module")
def engine(tiny: Classifier, tmp_path_factory: pytest.TempPathFactory, deno: str) -> Engine:
    folder = tmp_path_factory.mktemp("staged")
    browser_engine.stage(tiny, folder)
    return Engine(folder)


def close(answer: dict[str, Any], expected: np.ndarray) -> None:
    assert "error" not in answer["result"], answer["result"]
    np.testing.assert_allclose(answer["result"]["scores"], expected, rtol=2e-4, atol=2e-6)


def asked(text: str, **choices: Any) -> dict[str, Any]:
    return {"kind": "explain", "text": text, "choices": choices}


def test_every_map_is_pythons_on_the_same_weights(tiny: Classifier, engine: Engine) -> None:
    python = as_staged(tiny)
    cases: list[dict[str, Any]] = [{"method": name} for name in ("attnlrp", "cp-lrp", "loo", "mask-gradient")]
    cases += [{"method": "lrp", "bypass": [2]}, {"method": "attnlrp", "site": "embedding"}]
    cases += [{"method": "cp-lrp", "site": "word+position", "target": 0}]
    questions = [asked(text, **case) for text in WORDS for case in cases]
    for question, answer in zip(questions, engine.ask(questions), strict=True):
        (expected,) = lrp.attribute(python, question["text"], **question["choices"])
        close(answer, expected.scores)
        result = answer["result"]
        assert result["tokens"] == list(expected.tokens) and result["target"] == expected.target
        assert result["special"] == expected.special.tolist()
        assert result["logits"][expected.target] == pytest.approx(expected.logit, abs=1e-5)


def test_every_level_is_pythons(tiny: Classifier, engine: Engine) -> None:
    python, layers = as_staged(tiny), range(1, tiny.card.layers + 1)
    questions = [{"kind": "levels", "text": text, "choices": {"target": 1}} for text in WORDS]
    for question, answer in zip(questions, engine.ask(questions), strict=True):
        result = answer["result"]
        for scores, bypass in zip(result["scores"], ((), layers), strict=True):
            expected = lrp.layer_relevance(python, question["text"], bypass=bypass, target=1)
            assert result["levels"] == list(expected.levels) and result["tokens"] == list(expected.tokens)
            np.testing.assert_allclose(scores, expected.scores, rtol=2e-4, atol=2e-6)


def test_masks_and_half_open_layers_are_the_lattices(tiny: Classifier, engine: Engine) -> None:
    python, text, layers = as_staged(tiny), WORDS[0], tiny.card.layers
    lattice = lrp.layer_lattice(python, text)
    amounts = np.linspace(0.1, 0.8, layers).tolist()
    questions = [{"kind": "masks", "text": text}, asked(text, method="lrp", amounts=amounts)]
    masks, half_open = engine.ask(questions)
    result, words = masks["result"], ~lattice.special
    table = np.reshape(result["masks"], lattice.scores.shape)
    np.testing.assert_allclose(table, lattice.scores, rtol=2e-4, atol=2e-6)
    (loo,) = lrp.attribute(python, text, method="loo")
    r = [lrp.pearson(row[words], loo.scores[words]) for row in lattice.scores]
    np.testing.assert_allclose(result["r"], r, atol=1e-5)
    close(half_open, lattice.mix(amounts))


REFUSED = (
    (asked("   "), "only white space"),
    (asked("film " * 40), "at most 32 tokens"),
    (asked("a [SEP] film"), "special token [SEP]"),
    (asked("film", method="ig"), 'method "ig"'),
    (asked("film", site="here"), 'site "here"'),
    (asked("film", target=7), "target 7"),
    (asked("film", method="lrp", bypass=[0]), "bypass [0]"),
    (asked("film", method="lrp", amounts=[2, 0]), "amounts [2,0]"),
    (asked("film", bypass=[1]), "for method attnlrp"),
    (asked("a" * 20001), "20,000 characters"),
)


def test_what_cannot_be_explained_is_refused_in_one_line(engine: Engine) -> None:
    answers = engine.ask([question for question, _ in REFUSED])
    for answer, (_, part) in zip(answers, REFUSED, strict=True):
        error = answer["result"]["error"]
        assert error.startswith("CompanionError: e") and part in error and "\n" not in error
        assert "Next step: " in error


def test_only_models_that_the_engine_runs_are_staged(model_folder: Any, tmp_path: Path) -> None:
    for family, shape, part in (
        ("roberta", {}, "another tokenizer"),
        ("mpnet", {}, "tokenizer"),
        ("bert", {"heads": 4}, "head width 4"),
        ("bert", {"activation": "silu"}, "activation function"),
    ):
        clf = lrp.load_classifier(model_folder(family, **shape))
        with pytest.raises(ModelError, match=part):
            browser_engine.stage(clf, tmp_path / "staged")
    assert not (tmp_path / "staged").exists()


Head = tuple[tuple[torch.nn.Module, Any], ...]


def with_head(head: Head) -> Callable[[Any], Any]:
    """A BERT with a head of its own."""
    return lambda model: dataclasses.replace(families.bert(model), head=head)


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Classifier]:
    """A BERT whose wiring is another one, as the family of a user would have it."""

    def make(wiring: Callable[[Any], Any], **shape: Any) -> Classifier:
        network, tokenizer = build("bert", labels=3, **shape)
        clf = lrp.load_classifier(network, tokenizer)  # only for its card
        # the network has another head than its wiring here
        monkeypatch.setattr(Classifier, "batch", Classifier.padded)
        monkeypatch.setattr("lrp_companion.loading.classifier.check_modules", lambda *_, **__: None)
        monkeypatch.setitem(families.FAMILIES, "bert", wiring)
        wired = wiring(network)
        labels = tuple(f"class {k}" for k in range(wired.head[-1][0].weight.shape[0]))
        card = dataclasses.replace(clf.card, name="changed", labels=labels)
        out = Classifier(network, tokenizer, card=card)

        def run(ids: Any, mask: Any, types: Any = None, place: Any = None) -> Any:
            return out.encoder.forward(ids, mask, types=types).logits

        monkeypatch.setattr(out, "logits", run)
        return out

    return make


def linear(out: int, *, bias: bool = True, wide: int = 16) -> torch.nn.Linear:
    torch.manual_seed(out)
    return torch.nn.Linear(wide, out, bias=bias).requires_grad_(False)


HEADS: tuple[Callable[[], Head], ...] = (
    lambda: ((linear(24), torch.nn.ReLU()), (linear(3, wide=24), None)),
    lambda: (
        (linear(8, bias=False), torch.tanh),
        (linear(5, wide=8), torch.nn.GELU()),
        (linear(2, wide=5), None),
    ),
    lambda: ((linear(7), torch.nn.Identity()), (linear(4, bias=False, wide=7), None)),
    lambda: ((linear(2), None),),
)


@pytest.mark.parametrize("number", range(len(HEADS)))
def test_heads_of_any_number_of_steps_are_followed(number, changed, tmp_path, deno):
    clf = changed(with_head(HEADS[number]()))
    browser_engine.stage(clf, tmp_path)
    python = as_staged(clf)
    questions = [asked(WORDS[0], method=name) for name in ("attnlrp", "cp-lrp", "mask-gradient")]
    for question, answer in zip(questions, Engine(tmp_path).ask(questions), strict=True):
        (expected,) = lrp.attribute(python, WORDS[0], **question["choices"])
        close(answer, expected.scores)
        assert answer["result"]["logits"][expected.target] == pytest.approx(expected.logit, abs=1e-5)


def replaced(**parts: Any) -> Callable[[Any], Any]:
    return lambda model: dataclasses.replace(families.bert(model), **parts)


def layered(**parts: Any) -> Callable[[Any], Any]:
    """The last layer changed."""

    def wiring(model: Any) -> Any:
        w = families.bert(model)
        return dataclasses.replace(w, layers=(*w.layers[:-1], dataclasses.replace(w.layers[-1], **parts)))

    return wiring


def norm_of_another_eps() -> torch.nn.LayerNorm:
    return torch.nn.LayerNorm(16, eps=0.1)


def ending(activation: Any) -> Callable[[Any], Any]:
    """A head with an activation function between two maps."""
    return with_head(((linear(8), activation), (linear(2, wide=8), None)))


OTHERWISE = "."
OTHERS: dict[str, tuple[Callable[[], Callable[[Any], Any]], str]] = {
    "silu in the head": (lambda: ending(torch.nn.SiLU()), "activation"),
    "softmax in the head": (lambda: with_head(((linear(2), torch.nn.Softmax(-1)),)), "activation"),
    "a norm in the head": (lambda: with_head(((torch.nn.LayerNorm(16), None), (linear(2), None))), OTHERWISE),
    "one output": (lambda: with_head(((linear(1), None),)), "one output"),
    "another activation in one layer": (lambda: layered(activation=torch.relu), OTHERWISE),
    "a cap": (lambda: layered(cap=torch.tanh), OTHERWISE),
    "norms of two eps": (lambda: layered(output_norm=norm_of_another_eps()), OTHERWISE),
    "the mean read": (lambda: replaced(readout="mean"), OTHERWISE),
    "classes of tokens": (lambda: replaced(task="token classes"), "token classes"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_the_engine_would_compute_otherwise_is_refused(kind, changed, tmp_path):
    make, part = OTHERS[kind]
    clf = changed(make())
    with pytest.raises(Exception, match=part):
        browser_engine.stage(clf, tmp_path / "staged")
    assert not (tmp_path / "staged").exists()


def test_a_hook_is_found_out(model_folder: Any, tmp_path: Path) -> None:
    clf = lrp.load_classifier(model_folder("bert", labels=3))
    network: Any = clf.network
    network.bert.encoder.layer[0].output.dense.register_forward_hook(lambda module, inputs, out: 1.2 * out)
    with pytest.raises(ModelError, match="the forward hook"):
        browser_engine.stage(clf, tmp_path)


def product(kernel: bytes, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """A product by the kernel, in wasmtime; transposed where there is a bias."""
    import wasmtime

    config = wasmtime.Config()
    config.wasm_relaxed_simd = True
    store = wasmtime.Store(wasmtime.Engine(config))
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(4, None)))
    run = wasmtime.Instance(store, wasmtime.Module(store.engine, kernel), [memory]).exports(store)
    for at, values in ((16, a), (65536, b), (131072, bias if bias is not None else np.zeros(1))):
        memory.write(store, values.astype("<f4").tobytes(), at)
    (m, k), n = a.shape, len(b) if bias is not None else b.shape[1]
    sizes = (16, 4 * k, 65536, 4 * b.shape[1], 196608, 4 * n, m, n, k)
    if bias is not None:
        run["product_transposed"](store, *sizes, 131072, 0)
    else:
        run["product"](store, *sizes, 0)
        run["product"](store, *sizes, 1)
    return np.frombuffer(memory.read(store, 196608, 196608 + 4 * m * n), "<f4").reshape(m, n)


@pytest.mark.parametrize("twin", [0, 1])
def test_the_kernels_products_are_numpys(twin: int) -> None:
    generator, kernel = np.random.default_rng(0), browser_engine.kernels()[twin]
    for m, n, k in ((4, 8, 4), (5, 16, 12), (9, 24, 40)):
        a, b, bias = generator.normal(size=(m, k)), generator.normal(size=(k, n)), generator.normal(size=n)
        np.testing.assert_allclose(product(kernel, a, b, None), 2 * a @ b, atol=1e-4)
        np.testing.assert_allclose(product(kernel, a, b.T, bias), a @ b + bias, atol=1e-4)
    assert len({*browser_engine.kernels()}) == 2


def test_eight_bits_are_within_half_a_step() -> None:
    matrix = np.random.default_rng(1).normal(size=(5, 100)).astype(np.float32)
    steps, scales = browser_engine.quantised(matrix)
    error = np.abs(restored(steps, scales) - matrix)
    assert steps.dtype == np.int8 and scales.shape == (5, 2)
    assert (error <= np.repeat(scales, 64, axis=1)[:, :100] * 0.5001).all()


def test_the_engine_is_one_text_in_which_no_name_stands_twice() -> None:
    for text in (
        browser_engine.joined(*browser_engine.WORKER),
        browser_engine.joined("refusal", "companion"),
    ):
        names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE)
        assert len(names) == len(set(names))
        assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    files = {path.stem for path in browser_engine.ENGINE.glob("*.js")}
    assert {*browser_engine.WORKER, "companion"} == files


@pytest.fixture(scope="module")
def companion_stage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, browser_engine.Staged]:
    clf = lrp.load_classifier("companion")
    return clf, browser_engine.stage(clf, tmp_path_factory.mktemp("companion"))


def test_the_embedded_model_agrees_and_8_bits_cost_little(companion_stage: Any, deno: str) -> None:
    clf, staged = companion_stage
    assert staged.bytes_sent < 40e6 < staged.bytes_on_disk < 70e6, "a web host sends bytes, not base64"
    texts = [TEXT, *STRANGE[:4], *STRANGE[5:7]]
    engine = Engine(staged.folder)
    answers = engine.ask(questions_of(texts))
    same = agreement(as_staged(clf), texts, answers)
    assert same.wrong_ids == 0 and same.logits < 1e-4 and same.same_class == 1
    for name, r in same.r.items():
        assert np.nanmin(r) > 0.99999 and same.error[name].max() < 1e-3, name
    rounded = agreement(clf, texts, answers)
    assert rounded.same_class == 1 and all(np.nanmin(r) > 0.99 for r in rounded.r.values())
    encoded = engine.ask([{"kind": "encode", "text": text} for text in STRANGE])
    expected = clf.encode(list(STRANGE))
    assert [answer["result"]["ids"] for answer in encoded] == [list(text.input_ids) for text in expected]


def test_every_character_is_what_the_tokenizer_makes_of_it(companion_stage: Any) -> None:
    clf, _ = companion_stage
    state = json.loads(clf.tokenizer.backend_tokenizer.to_str())
    kinds = browser_tokenizer.character_kinds(state["normalizer"])
    t = browser_tokenizer
    cases = {"a": 0, "\0": t.DROPPED, "!": t.PUNCTUATION, "\u0301": t.ACCENT, "電": t.ALONE}
    cases |= {"\t": t.SPACE + t.BETWEEN, " ": t.SPACE + t.BETWEEN}
    assert {character: kinds[ord(character)] for character in cases} == cases


PAGE = """<!doctype html><meta charset="utf-8"><title>t</title><script src="staged/engine.js"></script>"""


@pytest.fixture(scope="module")
def page_folder(model_folder: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("pages")
    clf = lrp.load_classifier(model_folder("bert", layers=10, labels=3))
    browser_engine.stage(clf, folder / "staged")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    yield folder


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_page_loads_explains_and_stops(visit: Any, page_folder: Path, scheme: str) -> None:
    served = serve(page_folder)
    address = f"{next(served)}/index.html" if scheme == "http" else (page_folder / "index.html").as_uri()
    page = visit(address)
    result = page.evaluate(
        """async () => {
          const seen = [], again = [];
          const progress = ({ loaded, total }) => seen.push(loaded / total);
          const companion = await LRPCompanion.load("staged", { progress });
          const shared = await LRPCompanion.load("staged/");
          const map = await companion.explain("a film of rare grace", { method: "lrp", bypass: [1, 2] });
          const stop = new AbortController();
          const masks = companion.masks("a film of rare grace", {
            signal: stop.signal,
            onProgress: ({ done, numbers }) => numbers && (again.push(done), stop.abort()),
          });
          const stopped = await masks.catch((error) => error.name);
          const all = await companion.masks("dull film");
          const refused = await companion.explain("film ".repeat(50)).catch((error) => String(error));
          return { seen: seen.at(-1), same: companion === shared, card: companion.card, map, stopped,
            again: again.length, masks: all.r.length, refused };
        }"""
    )
    served.close()
    assert result["seen"] == 1 and result["same"] and result["card"]["layers"] == 10
    assert result["stopped"] == "AbortError" and result["again"] == 1 and result["masks"] == 1024
    assert "at most 32 tokens" in result["refused"]
    assert [*result["map"]] == ["tokens", "ids", "special", "scores", "target", "logits"]


def test_a_load_that_breaks_off_can_be_repeated(browser: Any, page_folder: Path) -> None:
    served = serve(page_folder)
    page, _ = open_page(browser.new_context(), f"{next(served)}/index.html")
    part = page_folder / "staged" / "part-00.bin"
    whole = part.read_bytes()
    load = "LRPCompanion.load('staged').then(() => 'loaded', (error) => String(error))"
    part.write_bytes(bytes(len(whole)))
    assert "those written" in page.evaluate(load)
    part.write_bytes(whole)
    os.utime(part, (part.stat().st_mtime + 2,) * 2)  # else, within a second, it is "not modified"
    assert page.evaluate(load) == "loaded"
    served.close()
