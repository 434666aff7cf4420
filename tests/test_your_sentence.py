"""A reader's own sentence, in Chromium: from a cold page to Python's numbers, and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browsing import becomes, complaints_of_axe, open_page, serve, state_of
from engine_agreement import as_staged
from tiny_models import build
from transformers import AddedToken

import lrp_companion as lrp
from lrp_companion import CompanionError, ModelError
from lrp_companion.cli import main
from lrp_companion.loading.classifier import Classifier
from lrp_companion.terminal import visible

pytest.importorskip("wasmtime", reason="the extra book brings the compiler of the engine's kernel")
pytest.importorskip("sphinx", reason="the extra book builds pages")


from lrp_companion.page import live_page

TEXT, SECOND = "the plot is not very quick , but warm .", "a film of rare grace"
LAYERS = 4
HOSTILE = (
    "<img src=x onerror=alert(1)> </script><script>alert(2)</script>",
    "😀 🎬🎬 👨\u200d👩\u200d👧",
    "שלום עולם \u202e abc",
    "film \x00\x07\x1b[31m\u2066 grace",
    "&amp; %3Cb%3E \\u003c",
)
PANEL = ".lrp-panel"
DONE = f"[...document.querySelectorAll('{PANEL}')].every(s => s.hidden || " + (
    "(s.querySelector('[role=status]').textContent === '' && "
    "[...s.querySelectorAll('.lrp-row-title')].slice(1).every(t => t.dataset.r) && "
    "s.querySelector('.lrp-row-title')))"
)


def loud(folder: Path, **options: Any) -> Classifier:
    """A random model whose logits words move by more than 0.1, so that the page shows r."""
    clf = lrp.load_classifier(folder, **options)
    clf.network.classifier.weight.data *= 16
    return clf


@pytest.fixture(scope="module")
def python(model_folder: Any) -> Classifier:
    """The model with the weights that the page has."""
    return as_staged(loud(model_folder("bert", layers=LAYERS, labels=3), dtype="float64"))


@pytest.fixture(scope="module")
def exported(model_folder: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    clf = loud(model_folder("bert", layers=LAYERS, labels=3))
    examples = (SECOND, "dull", "the film was never dull !")
    return live_page.export_page(clf, tmp_path_factory.mktemp("live") / "page", examples=examples)


@pytest.fixture(scope="module")
def site(exported: Path) -> Iterator[str]:
    yield from serve(exported.parent)


@pytest.fixture
def at(browser: Any, site: str) -> Iterator[Any]:
    """`at("#state")` opens the page; all contexts are closed afterwards."""
    contexts = []

    def go(state: str = "", *, url: str | None = None, load: bool = True, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page, watch = open_page(contexts[-1], (url or f"{site}/index.html") + state)
        page.wait_for_selector("[data-ready]")
        if load:
            page.click("button.lrp-load")
            page.wait_for_selector(".lrp-loader", state="detached")
            page.wait_for_function(DONE)
        return page, watch

    yield go
    for context in contexts:
        context.close()


def explain(page: Any, text: str) -> None:
    page.fill("textarea[name=text]", text)
    page.click(".lrp-sentence-box button >> nth=0")
    page.wait_for_function(DONE)


def shown(page: Any, *, panel: int = 0) -> dict[str, float]:
    """r of each row, as the page has it."""
    rows = page.locator(PANEL).nth(panel).locator(".lrp-row-title").all()
    return {row.inner_text().split(" r with")[0]: float(row.get_attribute("data-r") or "nan") for row in rows}


def expected(clf: Classifier, text: str, **choices: Any) -> dict[str, float]:
    site = choices.pop("site", "word")
    (loo,) = lrp.attribute(clf, text, method="loo", **choices)
    maps = {
        name: lrp.attribute(clf, text, method=method, **choices)[0].scores_at(site)
        for name, method in (("AttnLRP", "attnlrp"), ("CP-LRP", "cp-lrp"))
    }
    maps["Mask gradient"] = lrp.attribute(clf, text, method="mask-gradient", **choices)[0].scores
    words = ~loo.special
    return {name: lrp.pearson(scores[words], loo.scores[words]) for name, scores in maps.items()}


def agrees(given: dict[str, float], wanted: dict[str, float]) -> None:
    for name, r in wanted.items():
        assert given[name] == pytest.approx(r, abs=2e-4), name


ASK = """values => {
    const {model} = document.querySelector('[data-companion-widget]').companion;
    const panel = document.querySelector('.lrp-panel');
    window.charts = [];
    const lines = () => [...panel.querySelectorAll('.lrp-paths polyline')].filter(p => p.checkVisibility());
    const chart = () => panel.matches('.lrp-stale') || charts.push(lines().map(line => line.outerHTML));
    new MutationObserver(chart).observe(panel, {subtree: true, childList: true, characterData: true});
    for (const key in values) model.set(key, values[key]);
    const status = panel.querySelector('[role=status]').textContent;
    return [status, panel.querySelectorAll('ol').length, panel.classList.contains('lrp-stale')];
}"""


def test_the_sentence_before_is_never_shown_as_the_answer(at: Any) -> None:
    page, watch = at(f"#sentence.text={quote(TEXT)}")
    before = page.locator(".lrp-paths polyline").evaluate_all("all => all.map(line => line.outerHTML)")
    assert before and page.evaluate(ASK, {"text": SECOND}) == ["Computing", 5, True]
    page.wait_for_function(DONE)
    assert not [chart for chart in page.evaluate("charts") if set(before) & set(chart)]
    for change in ({"target": 1}, {"site": "word+position"}):
        assert page.evaluate(ASK, change) == ["Computing", 5, True]
        page.wait_for_function(DONE)
        assert not page.locator(".lrp-stale").count()
    assert page.evaluate(ASK, {"text": "film " * 60}) == ["Computing", 5, True]
    page.wait_for_function("document.querySelector('.lrp-panel [role=status]').textContent.includes('most')")
    assert not page.locator(".lrp-panel ol, .lrp-stale").count() and watch.nothing()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_typed_sentence_gives_pythons_numbers(
    scheme: str, at: Any, exported: Path, python: Classifier
) -> None:
    page, watch = at(url=None if scheme == "http" else exported.as_uri())
    explain(page, TEXT)
    agrees(shown(page), expected(python, TEXT))
    (record,) = lrp.attribute(python, TEXT, method="loo")
    values = page.locator("ol[aria-label=LOO] .lrp-value").all_inner_texts()
    np.testing.assert_allclose([float(value) for value in values], record.scores, atol=6e-4)
    head = page.locator(".lrp-panel .lrp-readout").first.inner_text()
    assert f"Predicted: {record.details['label']}" in head and head.count(",") == 2
    assert watch.nothing(), watch


def test_site_tokens_and_class_change_what_python_changes(at: Any, python: Classifier) -> None:
    page, _ = at()
    explain(page, TEXT)
    page.get_by_label("word + position").check()
    page.wait_for_function(DONE)
    agrees(shown(page), expected(python, TEXT, site="word+position"))
    page.get_by_label("Explain the logit of").select_option(index=1)
    page.wait_for_function(DONE)
    agrees(shown(page), expected(python, TEXT, site="word+position", target=0))
    page.get_by_label("counted").check()
    (loo,), (lrp_map,) = (
        lrp.attribute(python, TEXT, method=method, target=0) for method in ("loo", "attnlrp")
    )
    r = lrp.pearson(lrp_map.scores_at("word+position"), loo.scores)
    assert shown(page)["AttnLRP"] == pytest.approx(r, abs=2e-4)


def switched(page: Any) -> float:
    return shown(page)["LRP with the layers as switched"]


def test_switches_and_half_open_layers_are_the_lattices(at: Any, python: Classifier) -> None:
    page, _ = at(f"#sentence.text={quote(TEXT)}&sentence.bypassed=2,3")
    lattice = lrp.layer_lattice(python, TEXT)
    (loo,) = lrp.attribute(python, TEXT, method="loo")
    words = ~lattice.special

    def r_of(scores: np.ndarray) -> Any:
        return pytest.approx(lrp.pearson(scores[words], loo.scores[words]), abs=2e-4)

    assert switched(page) == r_of(lattice.scores_for((2, 3)))
    page.click("button.lrp-switch >> nth=2")
    becomes(page, lambda: switched(page), r_of(lattice.scores_for((2,))))
    page.get_by_role("radio", name="half-open").check()
    page.get_by_label("Layer 1: from").fill("0.3")
    becomes(page, lambda: switched(page), r_of(lattice.mix([0.3, 1, 0, 0])))
    page.get_by_role("radio", name="on or off").check()
    becomes(page, lambda: switched(page), r_of(lattice.scores_for((2,))))


def test_all_masks_fill_the_histogram_and_the_best_can_be_taken(at: Any, python: Classifier) -> None:
    page, watch = at(f"#sentence.text={quote(TEXT)}")
    page.locator(".lrp-panel button", has_text="All 16 sets of layers").first.click()
    page.locator(".lrp-panel button", has_text="Best for this sentence").first.wait_for()
    assert "rank" in page.locator(PANEL).first.inner_text()
    page.locator(".lrp-panel button", has_text="Best for this sentence").first.click()
    lattice = lrp.layer_lattice(python, TEXT)
    (loo,) = lrp.attribute(python, TEXT, method="loo")
    words = ~lattice.special
    best = max(lrp.pearson(row[words], loo.scores[words]) for row in lattice.scores)
    becomes(page, lambda: switched(page), pytest.approx(best, abs=2e-4))
    assert f"rank 1 of {2**LAYERS}" in page.locator(PANEL).first.inner_text()
    assert page.locator(".lrp-panel >> nth=0 >> .lrp-bin").count() == 40 and watch.nothing()


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_token_is_removed_by_key_and_the_page_says_what_that_does(
    key: str, at: Any, python: Classifier
) -> None:
    page, _ = at(f"#sentence.text={quote(TEXT)}")
    (loo,) = lrp.attribute(python, TEXT, method="loo")
    item = page.locator("ol[aria-label=LOO] li").nth(4)
    item.focus()
    before = page.evaluate("scrollY")
    page.keyboard.press(key)
    said = page.locator(".lrp-panel [aria-live]").first.inner_text().replace("−", "-")
    assert page.evaluate("scrollY") == before, "a space scrolls nothing"
    assert f"Without “{loo.tokens[4]}”" in said and f"{loo.logit - loo.scores[4]:.3f}" in said
    way = "falls" if loo.scores[4] > 0 else "rises"
    assert item.get_attribute("data-removed") == "" and f"{way} by {abs(loo.scores[4]):.3f}" in said
    page.wait_for_function("location.hash.includes('sentence.removed=4')")
    again, _ = at(url=page.url)
    assert again.locator(".lrp-panel [aria-live]").first.inner_text().replace("−", "-") == said
    explain(again, SECOND)
    assert "Without" not in again.locator(".lrp-panel [aria-live]").first.inner_text()


def test_two_sentences_and_a_link_that_brings_both_back(at: Any, python: Classifier) -> None:
    page, _ = at()
    page.get_by_label("Compare with a second sentence").check()
    page.fill("textarea[name=other]", TEXT)
    page.keyboard.press("Enter")
    page.wait_for_function(DONE)
    agrees(shown(page, panel=0), expected(python, SECOND))
    agrees(shown(page, panel=1), expected(python, TEXT))
    page.wait_for_function("location.hash.includes('sentence.other=')")
    again, _ = at(url=page.url)
    assert again.input_value("textarea[name=other]") == TEXT
    agrees(shown(again, panel=1), expected(python, TEXT))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str, at: Any) -> None:
    page, watch = at()
    explain(page, text)
    assert page.locator(".lrp-panel img, .lrp-panel script").count() == 0
    kept = state_of(page, "text")
    assert "\x00" not in kept and "\u202e" not in kept and "\u2066" not in kept
    link, _ = at(f"#sentence.text={quote(text)}&sentence.bypassed=99&sentence.site=x&sentence.target=7")
    assert state_of(link, "bypassed") == [] and state_of(link, "site") == "word"
    assert state_of(link, "target") == -1 and watch.nothing()


def test_what_is_too_long_or_empty_is_refused_in_one_line(at: Any) -> None:
    page, watch = at()
    page.fill("textarea[name=text]", "film " * 2000)
    page.click(".lrp-sentence-box button >> nth=0")
    assert "9,999 characters; the limit is 2,000" in page.inner_text(".lrp-refused >> nth=0")
    page.fill("textarea[name=text]", " \u200b ")
    page.click(".lrp-sentence-box button >> nth=0")
    assert page.inner_text(".lrp-refused >> nth=0") == "Type at least one word."
    page.locator(".lrp-dropdown select").first.select_option(index=1)
    assert not page.inner_text(".lrp-refused >> nth=0"), "another text is in the box"
    for text, part in (("film " * 60, "at most 32 tokens"), ("a [SEP] b", "special token [SEP]")):
        page.fill("textarea[name=text]", text)
        page.click(".lrp-sentence-box button >> nth=0")
        page.wait_for_function(
            "part => document.querySelector('.lrp-panel [role=status]').textContent.includes(part)", arg=part
        )
        assert page.locator(".lrp-panel ol").count() == 0
    explain(page, TEXT)
    assert shown(page) and watch.nothing()


def test_a_load_can_be_cancelled_broken_off_and_repeated(at: Any) -> None:
    page, _ = at(load=False)
    assert page.get_by_text("Computed when this page was made").is_visible()
    assert page.get_by_text("Your sentence: first load the model").is_visible()
    page.fill("textarea[name=text]", TEXT)
    page.click(".lrp-sentence-box button >> nth=0")
    assert "Load the model" in page.inner_text(".lrp-refused >> nth=0")
    page.route("**/part-*", lambda route: route.abort())
    page.click("button.lrp-load")
    page.wait_for_function("document.querySelector('.lrp-load-line').textContent.includes('cannot be read')")
    assert "Next step" in page.inner_text(".lrp-load-line")
    page.unroute("**/part-*")
    held = []
    page.route("**/part-*", lambda route: held.append(route))
    page.click("button.lrp-load")
    becomes(page, lambda: bool(held), True)
    page.click("text=Cancel")
    page.wait_for_function("document.querySelector('.lrp-load-line').textContent === 'Cancelled.'")
    page.reload()
    page.unroute("**/part-*")
    page.wait_for_selector("[data-ready]")
    page.click("button.lrp-load")
    page.wait_for_selector(".lrp-loader", state="detached")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_accessible_and_fits_a_phone(theme: str, at: Any) -> None:
    page, watch = at(viewport={"width": 360, "height": 740}, color_scheme=theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.locator(".lrp-panel button", has_text="All 16 sets of layers").first.click()
    page.locator(".lrp-panel button", has_text="Best for this sentence").first.wait_for()
    page.get_by_label("Compare with a second sentence").check()
    page.wait_for_function(DONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not complaints_of_axe(page, ".lrp-widget") and watch.nothing()


def test_the_books_page_loads_nothing_until_it_is_asked(html: Path, browser: Any) -> None:
    path, chapter = html / "book" / "your_sentence.html", html / "notebooks" / "03_bert_layers.html"
    assert path.is_file() and (html / "_static" / "live" / "companion" / "engine.js").is_file()
    for other in html.rglob("*.html"):
        if other not in (path, chapter):
            assert "_static/live" not in other.read_text(encoding="utf-8"), other.name
    asked: list[str] = []
    for base in serve(html):
        context = browser.new_context()
        context.on("request", lambda request: asked.append(request.url))
        page, watch = open_page(context, f"{base}/book/your_sentence.html")
        page.wait_for_selector("[data-ready]")
        assert not [url for url in asked if "/live/" in url]
        page.click("button.lrp-load")
        page.wait_for_selector(".lrp-loader", state="detached")
        page.wait_for_function(DONE)
        assert all(np.isfinite(list(shown(page).values())[1:])) and watch.nothing()
        context.close()
    size = sum(path.stat().st_size for path in (html / "_static" / "live").rglob("*") if path.is_file())
    assert size <= 90e6, "base64 for a page from disk, bytes for a web host"


def test_the_text_box_of_chapter_3_works_without_a_kernel(html: Path, visit: Any) -> None:
    page = visit((html / "notebooks" / "03_bert_layers.html").as_uri())
    toggles = page.locator('[data-companion-widget="layer_toggles"]')
    toggles.scroll_into_view_if_needed()
    toggles.get_by_text("A sentence of your own").click()
    toggles.locator("button.lrp-load").click()
    toggles.locator("button.lrp-load").wait_for(state="detached")
    toggles.locator("textarea[name=text]").fill("a dull film")
    page.keyboard.press("Enter")
    page.wait_for_function(DONE)
    assert "dull" in toggles.locator("ol[aria-label^='LRP with']").inner_text()
    r = float(toggles.locator(".lrp-result").first.get_attribute("data-r"))
    clf = as_staged(lrp.load_classifier("companion"))
    assert r == pytest.approx(expected(clf, "a dull film")["AttnLRP"], abs=1e-3)
    flow_box = page.locator('[data-address="own-layer_flow"]')
    flow_box.scroll_into_view_if_needed()
    flow_box.locator("button.lrp-load").click()  # the model is there already
    flow_box.locator("input[type=text]").fill("a dull film")
    flow = page.locator('[data-companion-widget="layer_flow"]').first
    faded = """button => {
        button.click();
        return document.querySelector('[data-companion-widget="layer_flow"]').matches('.lrp-stale');
    }"""  # in one step: a fast machine has computed before it is asked again
    assert flow_box.get_by_role("button", name="layer by layer").evaluate(faded)
    flow_box.get_by_text("now show your sentence").wait_for()
    assert "lrp-stale" not in flow.get_attribute("class")
    shown = page.evaluate(
        """() => {
            const {model} = document.querySelector('[data-companion-widget="layer_flow"]').companion;
            return model.get("data").texts[model.get("text")];
        }"""
    )
    for scores, bypass in zip(shown["scores"], ((), range(1, clf.card.layers + 1)), strict=True):
        theirs = lrp.layer_relevance(clf, "a dull film", bypass=bypass).scores
        np.testing.assert_allclose(scores, theirs, rtol=1e-3, atol=1e-4)
    assert "dull" in page.locator('[data-companion-widget="layer_flow"] .lrp-flow-panel').first.inner_text()
    flow.locator("select").first.select_option(index=0)
    assert not flow_box.locator("p[role=status]").inner_text(), "they show another text"
    for address in ("layers", "own-layer_flow"):
        assert not complaints_of_axe(page, f'[data-address="{address}"]')


def test_a_page_is_made_for_models_that_the_engine_runs_and_no_others(
    model_folder: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "page"
    options = ["--example", "a slow film", "--title", "Mine <b>", "--max-tokens", "20"]
    assert main(["export-page", "--model", str(model_folder("electra")), "--out", str(out), *options]) == 0
    assert "opens in a browser" in capsys.readouterr().out
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "Mine &lt;b&gt;" in text and "up to 20 tokens" in text.replace("\n", " ")
    assert main(["export-page", "--model", str(model_folder("electra")), "--out", str(out)]) == 2
    assert "holds files" in capsys.readouterr().err
    with pytest.raises(ModelError, match="another tokenizer"):
        live_page.export_page(lrp.load_classifier(model_folder("roberta")), tmp_path / "b")
    with pytest.raises(CompanionError, match="special token"):
        live_page.export_page(
            lrp.load_classifier(model_folder("electra")), tmp_path / "b", examples=["a", "b [SEP]"]
        )
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


MARKS = "\u202e\u2066\u200f\u061c\xad"


def test_no_mark_is_hidden_in_a_page(browser: Any, tmp_path: Path) -> None:
    network, tokenizer = build("bert", labels=2)
    tokenizer.add_tokens([AddedToken(f"odd{MARKS}", normalized=False)])
    network.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    network.config.id2label = {0: f"class {MARKS}", 1: "other"}
    examples = [f"a film odd{MARKS} of grace", "dull"]
    clf = lrp.load_classifier(network, tokenizer)
    made = live_page.export_page(clf, tmp_path / "page", examples=examples, title=f"Mine {MARKS}")
    for path in (made, made.parent / "model" / "model.js"):
        assert not set(path.read_text(encoding="utf-8")) & set(MARKS), path.name
    page, watch = open_page(browser.new_context(), made.as_uri())
    page.wait_for_selector("[data-ready]")
    assert not set(page.inner_text("body")) & set(MARKS)
    page.click("button.lrp-load")
    page.wait_for_function(DONE)
    page.wait_for_selector(".lrp-loader", state="detached")
    page.wait_for_function(DONE)
    (loo,) = lrp.attribute(as_staged(clf), examples[0], method="loo")
    texts = page.locator("ol[aria-label=LOO] bdi").all_inner_texts()
    assert texts == [visible(token) for token in loo.tokens] and any("\\u202e" in text for text in texts)
    assert not set(page.inner_text("body")) & set(MARKS) and watch.nothing()
