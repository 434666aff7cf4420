"""LayerFlow: the levels of the package, by mouse, keyboard, address and while playing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import complaints_of_axe, put, state_of, widget_page

import lrp_companion as lrp
from lrp_companion import InputError, LayerFlow

TEXTS = ["a film of rare grace", "dull , slow and far too long"]


@pytest.fixture(scope="module")
def flows(clf: Any) -> list[dict[str, Any]]:
    everything = range(1, clf.card.layers + 1)
    return [
        {
            "attnlrp": lrp.layer_relevance(clf, text),
            "cp-lrp": lrp.layer_relevance(clf, text, bypass=everything),
            "loo": lrp.attribute(clf, text, method="loo")[0],
            "key-cut": lrp.layer_relevance(clf, text, cut=("key", "special")),
        }
        for text in TEXTS
    ]


@pytest.fixture
def page(flows: Any, clf: Any, show: Any) -> Any:
    return show(LayerFlow(flows, labels=clf.labels), viewport={"width": 1000, "height": 900}, axe=True)


def check(page: Any, flows: list[dict[str, Any]]) -> None:
    """What stands in the page is what the package computed for this text and level."""
    one, other, loo, cut = flows[state_of(page, "text")].values()
    pair = [cut if state_of(page, "cut") else one, other]
    step = state_of(page, "step")
    scale = max(abs(flow.scores[step]).max() for flow in pair)
    for k, flow in enumerate(pair):
        panel = page.locator(".lrp-flow-panel").nth(k)
        values = [float(text.replace("+", "")) for text in panel.locator("li .lrp-value").all_text_contents()]
        np.testing.assert_allclose(values, flow.scores[step], atol=6e-4)
        said = panel.locator("p.lrp-readout").text_content().replace("\u2212", "-")
        total, sign, rest, logit = re.fullmatch(
            r"(\S+) here ([+-]) (\S+) left above = logit (\S+)", said
        ).groups()
        assert float(total) == pytest.approx(flow.sums[step], abs=0.0051)
        taken = sum(lost[: step + 1].sum() for lost in flow.lost.values())
        assert float(sign + rest) == pytest.approx(taken, abs=0.0101), "what was lost, by cause"
        assert float(total) + float(sign + rest) == pytest.approx(float(logit), abs=1e-9)
        shares = panel.locator(".lrp-here > i").evaluate_all(
            "cells => cells.map(c => parseFloat(c.style.getPropertyValue('--lrp-share')))"
        )
        np.testing.assert_allclose(shares, 100 * abs(flow.scores[step]) / scale, atol=0.06)
        filled = panel.locator(".lrp-flow-level > i[data-heat]").count()
        assert filled == (step + 2) * len(flow.tokens), "LOO is below"
        heard = page.get_by_role("list", name="LOO", exact=True).get_by_role("listitem").all_text_contents()
        assert [item.rsplit(" ", 1)[0] for item in heard] == list(flow.tokens)
        told = [float(item.rsplit(" ", 1)[1]) for item in heard]
        np.testing.assert_allclose(told, loo.scores, atol=6e-4)
        r = panel.locator(".lrp-flow-title strong").text_content().replace("\u2212", "-").split(" ")[-1]
        assert float(r) == pytest.approx(lrp.pearson(flow.scores[step], loo.scores), abs=0.0051)


def test_every_text_and_level(page: Any, flows: Any) -> None:
    for text, flow in enumerate(flows):
        page.locator("select").select_option(index=text)
        for step in range(len(flow["attnlrp"].levels)):
            put(page, step=step)
            check(page, flows)
            assert flow["attnlrp"].levels[step] in page.locator(".lrp-controls .lrp-readout").text_content()


def test_buttons_slider_keys_and_a_click_on_a_level(page: Any, flows: Any) -> None:
    last = len(flows[0]["attnlrp"].levels) - 1
    assert state_of(page, "step") == last, "it opens at its end"
    put(page, step=0)
    for name, expected in (("Down", 1), ("Down", 2), ("Up", 1)):
        page.get_by_role("button", name=name).click()
        assert state_of(page, "step") == expected
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("End")
    assert state_of(page, "step") == last and slider.get_attribute("aria-valuetext") == "words"
    page.keyboard.press("ArrowLeft")
    assert state_of(page, "step") == last - 1
    page.locator(".lrp-flow-level").nth(0).click()
    assert state_of(page, "step") == 0
    assert "the same" in page.locator(".lrp-flows + p").text_content()
    put(page, step=last)
    said = page.locator(".lrp-flows + p").text_content()
    gaps = abs(flows[0]["attnlrp"].scores[last] - flows[0]["cp-lrp"].scores[last])
    assert flows[0]["attnlrp"].tokens[gaps.argmax()] in said
    check(page, flows)


@pytest.mark.parametrize("width", [360, 1366])
def test_words_stand_under_their_columns_and_the_key_above(flows: Any, show: Any, width: int) -> None:
    page = show(LayerFlow(flows), viewport={"width": width, "height": 740})
    off = page.evaluate(
        """() => {
          const middle = (node) => {
            const { left, right } = node.getBoundingClientRect();
            return (left + right) / 2;
          };
          const words = [...document.querySelectorAll('.lrp-flow-panel li > bdi')];
          const level = innerWidth > 400 ? '.lrp-flow-level:first-child' : '.lrp-flow-1 .lrp-flow-loo';
          const cells = [...document.querySelectorAll(`${level} > i`)];
          return words.map((word, i) => middle(word) - middle(cells[i % cells.length]));
        }"""
    )
    assert len(off) and np.abs(off).max() < 1
    frame = "node => { const {outlineWidth, outlineOffset} = getComputedStyle(node); " + (
        "return parseFloat(outlineWidth) + parseFloat(outlineOffset); }"
    )
    assert page.locator("li.lrp-differs").first.evaluate(frame) <= 1, "the gap to the next word"
    key = page.get_by_text("Rows: layers 3 to 1, embeddings, words, LOO")
    assert key.bounding_box()["y"] < page.locator(".lrp-flows").bounding_box()["y"]


def test_a_phone_shows_both_methods_and_loo_at_once(flows: Any, show: Any) -> None:
    page = show(LayerFlow(flows), viewport={"width": 390, "height": 844}, axe=True)
    for k in range(len(flows[0]["attnlrp"].levels)):
        left, right = (
            page.locator(f".lrp-flow-{side} .lrp-flow-level").nth(k).bounding_box() for side in (0, 1)
        )
        assert abs(left["y"] - right["y"]) < 1 and left["x"] + left["width"] < right["x"]
    loo = page.locator(".lrp-flow-1 .lrp-flow-loo").bounding_box()
    lists = [page.locator(f".lrp-flow-{side} ol.lrp-tokens").bounding_box() for side in (0, 1)]
    assert (
        loo["y"]
        < lists[0]["y"]
        < lists[1]["y"]
        < page.locator(".lrp-flow-0 > p.lrp-readout").bounding_box()["y"]
    )
    assert lists[1]["y"] + lists[1]["height"] < 844 and abs(lists[0]["x"] - loo["x"]) < 1


def test_a_change_is_told_in_parts(page: Any) -> None:
    page.get_by_role("button", name="Up").click()
    page.wait_for_function(
        "/^embeddings; AttnLRP: r with LOO \\S+; CP-LRP: r with LOO \\S+\\. They differ most in “/"
        ".test(document.querySelector('[role=status]').textContent)"
    )


def test_the_first_token_can_be_left_out(page: Any, flows: Any) -> None:
    *pair, loo, _ = flows[0].values()
    page.get_by_role("button", name="Without [CLS]").click()
    assert state_of(page, "without") is True
    for k, flow in enumerate(pair):
        panel = page.locator(".lrp-flow-panel").nth(k)
        title = panel.locator(".lrp-flow-title strong").text_content().replace("\u2212", "-")
        r = float(title.split(" ")[-1])
        assert r == pytest.approx(lrp.pearson(flow.scores[-1][1:], loo.scores[1:]), abs=0.0051)
        assert not panel.locator(".lrp-flow-level > i:nth-child(2)[data-heat]").count()


@pytest.mark.parametrize(("theme", "width"), [("light", 1000), ("dark", 390)])
def test_keys_go_off_and_on(flows: Any, clf: Any, show: Any, theme: str, width: int) -> None:
    """The switch puts the cut flow in the first panel, of every text; the address keeps it."""
    widget = LayerFlow([*flows, {name: flows[0][name] for name in ("attnlrp", "cp-lrp")}], labels=clf.labels)
    page = show(widget, theme=theme, viewport={"width": width, "height": 900}, axe=True)
    switch, title = page.get_by_role("button", name="Keys off"), page.locator(".lrp-flow-title b").first
    assert (switch.get_attribute("aria-pressed"), title.text_content()) == ("false", "AttnLRP")
    switch.focus()
    page.keyboard.press("Enter")
    assert (switch.get_attribute("aria-pressed"), title.text_content()) == ("true", "AttnLRP, keys off")
    page.wait_for_function("location.hash.includes('flow.cut=1')")
    for text, step in ((0, 4), (1, 2)):
        put(page, text=text, step=step)
        check(page, flows)
    assert not complaints_of_axe(page, ".lrp-widget")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    put(page, text=2)
    assert switch.is_hidden() and title.text_content() == "AttnLRP", "a text without it"
    put(page, text=1)
    switch.click()
    check(page, flows)


def test_playing_goes_down_and_stops(flows: Any, browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.clock.install(time="2030-01-01T00:00:00")
    page.goto(widget_page(LayerFlow(flows), tmp_path))
    page.wait_for_selector("[data-ready]", state="attached")
    page.clock.pause_at("2030-01-01T01:00:00")  # else a slow machine moves it, too
    page.locator(".lrp-play").click()
    page.clock.run_for(60_000)
    assert state_of(page, "step") == len(flows[0]["attnlrp"].levels) - 1
    assert page.locator(".lrp-play").text_content() == "Play"
    context.close()


def test_hostile_tokens_are_text_and_a_phone_has_room(flows: Any, show: Any) -> None:
    flow = flows[0]["attnlrp"]
    tokens = ("<img src=x onerror=alert(1)>", "</script>", "\u202egpj", *flow.tokens[3:])
    hostile: list[dict[str, Any]] = [
        {"a": replace(flow, tokens=tokens), "b": replace(flows[0]["cp-lrp"], tokens=tokens)}
    ]
    page = show(LayerFlow(hostile, labels=["<b>"] * 3), viewport={"width": 360, "height": 740}, axe=True)
    shown = page.locator(".lrp-flow-panel").nth(0).locator("li bdi").all_text_contents()
    assert shown[:2] == list(tokens[:2]) and "\u202e" not in shown[2]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360 and page.locator("img").count() == 0


def test_other_methods_are_refused_and_it_is_read_without_a_script(flows: Any, clf: Any) -> None:
    widget = LayerFlow(flows, labels=clf.labels)
    for wrong in ([], [{"attnlrp": flows[0]["attnlrp"]}], [flows[0], dict(reversed(flows[1].items()))]):
        with pytest.raises(InputError, match="the same two methods"):
            LayerFlow(wrong)
    assert repr(widget) == f"LayerFlow(2 texts; attnlrp, cp-lrp; {clf.card.layers + 2} levels)"
    for said in ("film", "Relevance of the words", "AttnLRP, keys off"):
        assert said in widget.fallback()


def test_a_live_sentence_feeds_the_grids_and_keeps_the_level(flows: list[Any], clf: Any) -> None:
    everything = range(1, clf.card.layers + 1)

    def explain(text: str) -> dict[str, Any]:
        return {
            "attnlrp": lrp.layer_relevance(clf, text),
            "cp-lrp": lrp.layer_relevance(clf, text, bypass=everything),
        }

    widget = LayerFlow(flows, labels=clf.labels)
    widget.text, widget.step = 1, 2
    live = lrp.LiveSentence(widget, explain)
    live.text.value = "rare grace"
    (shown,) = widget.data["texts"]
    np.testing.assert_allclose(
        shown["scores"][1], explain("rare grace")["cp-lrp"].scores, rtol=1e-5, atol=1e-7
    )
    assert (widget.text, widget.step) == (0, 2) and live.said.value == ""
    live.text.value = "grace " * 2000
    assert "tokens" in live.said.value and widget.data["texts"] == [shown]
    assert 'data-feeds="layer_flow"' in live._repr_mimebundle_()["text/html"]
    with pytest.raises(InputError, match="same two methods"):
        widget.show({"attnlrp": flows[0]["attnlrp"]})
