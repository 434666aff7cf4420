"""What widgets got wrong once, or only one of them has: pointers, a live sentence, undefined numbers."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from browsing import put, state_of, stroke
from test_widget_contract import AXES, BOARDS, LACKS, board, cells, protocol_switchboard

import lrp_companion as lrp
import lrp_companion.widgets as widgets
from lrp_companion import rules
from lrp_companion.lab.digit_invariance import share_digits
from lrp_companion.widgets.layers import NO_KERNEL

TEXTS = ["a film of rare grace", "dull , slow and far too long"]


@pytest.mark.parametrize(
    ("query", "keys", "values"),
    [(np.log(2), (1, 1, 2), (2, -6, 8)), (-1.5, (0.5, -2, 1), (1, 1, 1)), (0, (3, 1, 2), (-4, 5, 0.25))],
)
def test_relevance_of_a_head_is_that_of_the_rules(query: float, keys: tuple, values: tuple) -> None:
    """`rules.matmul` and `rules.softmax` on tensors, epsilon 0, in float64."""
    k, v = (torch.tensor([x], dtype=torch.float64).T for x in (keys, values))
    q = torch.tensor([[query]], dtype=torch.float64)
    z = q @ k.T
    a = z.softmax(-1)
    o = a @ v
    g_a, g_v = rules.matmul(torch.ones_like(o), a, v, o)
    g_z = rules.softmax(g_a, a)
    g_q, g_k = rules.matmul(g_z, q, k.T.contiguous(), z)
    parts = widgets.HeadStepper(q=query, k=keys, v=values).relevance()
    for name, expected in (
        ("at value", (v * g_v).ravel()),
        ("at score", (z * g_z).ravel()),
        ("at key", (k.T * g_k).ravel()),
        ("at query", (q * g_q).ravel()),
    ):
        np.testing.assert_allclose(parts[name], expected.numpy(), atol=1e-12, err_msg=name)
    total = (v * g_v).ravel() + (k.T * g_k).ravel()
    total[0] += (q * g_q).sum()
    np.testing.assert_allclose(parts["attnlrp"], total.numpy(), atol=1e-12)


def test_a_live_sentence_feeds_the_switches_and_says_what_is_wrong(clf: Any) -> None:
    asked: list[str] = []

    def made(text: str) -> Any:
        return lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")[0]

    toggles = widgets.LayerToggles(*made(TEXTS[0]))

    def explain(text: str) -> Any:
        asked.append(text)
        assert "lrp-stale" in toggles._dom_classes, "what is shown is of another sentence"
        return made(text)

    live = lrp.LiveSentence(toggles, explain)
    toggles.bypassed, toggles.removed = [2], 3
    live.text.value = "rare grace"
    assert asked == ["rare grace"] and len(toggles.data["sentences"][0]["tokens"]) == 4
    assert (toggles.bypassed, toggles.removed) == ([2], -1), "what was removed is of another sentence"
    live.button.click()
    assert asked == ["rare grace"] and "lrp-stale" not in toggles._dom_classes, "not computed twice"
    live.text.value = "grace " * 2000
    assert "tokens" in live.said.value and len(toggles.data["sentences"][0]["tokens"]) == 4
    live.text.value = ""
    assert live.said.value == "", "the box is empty, so there is no error"
    bundle = live._repr_mimebundle_()
    assert NO_KERNEL in bundle["text/html"] and "data-companion-widget" in bundle["text/html"]


def test_a_live_sentence_feeds_the_grids_and_keeps_the_level(clf: Any) -> None:
    def explain(text: str) -> dict[str, Any]:
        ways: dict[str, Any] = {"attnlrp": {}, "cp-lrp": {"bypass": range(1, clf.card.layers + 1)}}
        return {name: lrp.layer_relevance(clf, text, **of) for name, of in ways.items()}

    widget = widgets.LayerFlow([*map(explain, TEXTS)], labels=clf.labels)
    widget.text, widget.step = 1, 2
    live = lrp.LiveSentence(widget, explain)
    live.text.value = "rare grace"
    (shown,) = widget.data["texts"]
    wanted = explain("rare grace")["cp-lrp"].scores
    np.testing.assert_allclose(shown["scores"][1], wanted, rtol=1e-5, atol=1e-7)
    assert (widget.text, widget.step) == (0, 2) and live.said.value == ""


@pytest.mark.parametrize("text", ["rare", "rare grace"])
def test_r_of_fewer_than_three_tokens_is_undefined_in_every_mode(text: str, clf: Any, show: Any) -> None:
    page = show(widgets.LayerToggles(lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")))
    assert page.get_attribute(".lrp-result", "data-r") == "NaN"
    page.get_by_role("radio", name="half-open").check()
    assert page.get_attribute(".lrp-result", "data-r") == "NaN"
    page.get_by_role("radio", name="counted").check()
    assert page.get_attribute(".lrp-result", "data-r") != "NaN"


def test_on_a_dark_page_the_two_signs_have_two_colours(clf: Any, show: Any) -> None:
    page = show(widgets.TokenHeatmap(lrp.attribute(clf, TEXTS[0], method="loo")))
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    yellow = "all => all.map(node => Number(getComputedStyle(node).backgroundColor.match(/[-.\\d]+/g)[2]))"
    for sign, of in (("for", 1), ("against", -1)):  # OKLab's b: above 0 yellow, below it blue
        shades = page.locator(f"li.lrp-{sign}").evaluate_all(yellow)
        assert shades and all(of * shade > 0 for shade in shades), (sign, shades)


@pytest.mark.parametrize(("largest", "flat"), [(0.01, True), (0.5, False)])
def test_a_flat_loo_is_said_to_be_flat(largest: float, flat: bool, clf: Any, show: Any) -> None:
    (loo,) = lrp.attribute(clf, TEXTS[0], method="loo")
    scores = loo.scores * largest / abs(loo.scores[~loo.special]).max()
    page = show(widgets.LayerToggles(lrp.layer_lattice(clf, TEXTS[0]), replace(loo, scores=scores)))
    said = page.inner_text(".lrp-panel")
    assert ("r says nothing here" in said) is flat and bool(re.search(r"\br with LOO\D+\d", said)) is not flat
    assert page.locator(".lrp-figures").is_visible() is not flat, "the histogram is of r"


def test_a_row_that_the_switches_show_is_shown_once(clf: Any, show: Any) -> None:
    (loo,) = lrp.attribute(clf, TEXTS[0], method="loo")
    page = show(widgets.LayerToggles(lrp.layer_lattice(clf, TEXTS[0]), loo, reduced=True))
    for name, other in (("AttnLRP", "CP-LRP"), ("CP-LRP", "AttnLRP")):
        page.get_by_role("button", name=name, exact=True).click()
        shown = page.locator("ol:visible").evaluate_all("all => all.map(row => row.ariaLabel)")
        assert shown == ["LOO", "LRP with the layers as switched", other]


def test_what_was_said_of_another_state_is_gone(show: Any) -> None:
    page = show(widgets.ProductTree())
    page.get_by_text("Link to this state").click()
    page.wait_for_selector(".lrp-foot [role=status]:not(:empty)")
    page.get_by_role("spinbutton", name="x2", exact=True).fill("")
    put(page, values=[2, 3, 5])
    assert not page.inner_text(".lrp-foot [role=status]") and page.locator(".lrp-problem").is_hidden()


def test_equal_values_leave_no_rounding_noise_to_correlate(show: Any) -> None:
    page = show(widgets.SoftmaxLab())
    for logits, value in itertools.product(([0, 0, 0], [2.3, -1.1, 0.7, 5]), (0.3, -0.7, 1.1)):
        put(page, logits=logits, values=[value] * len(logits))
        loo = page.locator(".lrp-row-loo [data-x]").evaluate_all("all => all.map(n => Number(n.dataset.x))")
        assert loo == [0] * len(logits)
        assert page.locator(".lrp-facts tbody td").all_text_contents() == ["undefined"] * 4


def test_a_map_whose_sum_cancels_is_undefined(show: Any) -> None:
    flat = {"image": np.ones((2, 2)), "label": 3, "predicted": 3, "logit": 0.0, "loo": [1, 2, 3, 4]}
    maps = {"query": [1, -1, 0, 0], "key": [0, 0, 2, -2], "value": [0, 0, 0, 0]}
    page = show(widgets.SharesSimplex([{**flat, "maps": maps}]), "#shares.map=sum-to-one")
    numbers = page.locator("dl")
    assert numbers.get_attribute("data-r") == "NaN"
    assert page.locator("dd").first.text_content() == "undefined"
    put(page, shares=[0, 0, 1], map="raw")  # a map of zeros
    assert numbers.get_attribute("data-r") == "NaN"
    assert float(numbers.get_attribute("data-gap-left")) == pytest.approx(2)


@pytest.fixture
def triangle(show: Any) -> Any:
    net = lrp.LinearAttention(tokens=16, dim=4, seed=3)
    digits = share_digits(net, np.random.default_rng(0).random((1, 4, 4)), [1])

    def go(**options: Any) -> Any:
        return show(widgets.SharesSimplex(digits), **options)

    return go


def test_the_mouse_drags_a_point_and_keys_move_it(triangle: Any) -> None:
    page = triangle(viewport={"width": 820, "height": 1000})
    box = page.locator("svg[aria-label='Shares of relevance']").bounding_box()
    scale = box["width"] / 340

    def place(q: float, k: float) -> tuple[float, float]:
        return box["x"] + scale * (30 + 280 * (q + k / 2)), box["y"] + scale * (32 + 140 * 3**0.5 * (1 - k))

    page.mouse.move(*place(0.25, 0.25))
    page.mouse.down()
    for q, k in ((0.4, 0.4), (0.1, 0.7)):
        page.mouse.move(*place(q, k))
        assert state_of(page, "shares") == pytest.approx([q, k, 1 - q - k], abs=0.01)
    page.mouse.move(*place(1.4, -0.2))  # outside: the nearest point
    page.mouse.up()
    page.mouse.move(*place(0.2, 0.2))
    assert state_of(page, "shares") == [1, 0, 0]
    page.get_by_role("button", name="Shares:").focus()
    for key, shares in (("Home", [1 / 3] * 3), ("Enter", [0, 0, 1]), ("ArrowRight", [0.01, 0, 0.99])):
        page.keyboard.press(key)
        assert state_of(page, "shares") == pytest.approx(shares, abs=1e-12), key


def test_a_finger_that_goes_up_or_down_scrolls_and_one_that_goes_across_drags(triangle: Any) -> None:
    page = triangle(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 500})
    ring = page.get_by_role("button", name="Shares:")
    ring.scroll_into_view_if_needed()
    start = state_of(page, "shares")

    def drawn(right: float, down: float, *, beside: float = 0) -> float:
        box = ring.bounding_box()
        x, y = box["x"] + box["width"] / 2 + beside, box["y"] + box["height"] / 2
        return stroke(page, (x, y), right, down)

    assert drawn(10, -120) > 50 and state_of(page, "shares") == start
    assert drawn(-10, 60) < -20 and state_of(page, "shares") == start
    assert drawn(60, 10) == 0 and state_of(page, "shares")[0] > start[0]
    moved = state_of(page, "shares")
    assert drawn(0, -40) == 0 and state_of(page, "shares")[1] > moved[1], "now it is in use"


def test_the_curve_of_combinations_goes_by_keys_and_click(show: Any) -> None:
    data = {"boards": [board(key, runs) for key, runs in BOARDS.items()]}
    page = show(
        widgets.ProtocolSwitchboard(data), "#switchboard.all=1", viewport={"width": 1000, "height": 1500}
    )
    values = cells(BOARDS["text"]["sst"])
    at = [place for place in np.ndindex(3, 2, 2) if values[place][6] != LACKS]
    ranked = [
        [options[k] for options, k in zip(AXES.values(), place, strict=True)]
        for place in sorted(at, key=lambda place: values[place][6])
    ]
    cursor, last = page.locator("[role=slider]"), len(ranked) - 1
    cursor.focus()
    for key, to in (("End", last), ("ArrowRight", last), ("ArrowDown", last - 1), ("Home", 0), ("PageUp", 2)):
        page.keyboard.press(key)
        assert state_of(page, "choices") == ranked[to], key
    box = cursor.bounding_box()
    for place in range(len(ranked)):
        page.mouse.click(box["x"] + box["width"] * (place + 0.5) / len(ranked), box["y"] + 40)
        assert state_of(page, "choices") == ranked[place]
        keys = ("board", "run", "choices", "all")
        protocol_switchboard(page, None, {key: state_of(page, key) for key in keys})


def test_the_first_click_after_typing_counts(show: Any) -> None:
    page = show(widgets.ProductTree((2, 3, 4, 5), "x1 x2 x3 x4"))
    page.get_by_role("spinbutton", name="x2", exact=True).press("ControlOrMeta+a")
    page.keyboard.type("7")
    page.get_by_role("button", name="Multiply x2 and x3 first", exact=True).click()
    assert (state_of(page, "values"), state_of(page, "grouping")) == ([2, 7, 4, 5], "x1 (x2 x3) x4")


@pytest.mark.parametrize("text", ["", "1e70"])
def test_what_is_no_number_is_said_and_the_last_one_kept(show: Any, text: str) -> None:
    page = show(widgets.ProductTree(), axe=True)
    box = page.get_by_role("spinbutton", name="x2", exact=True)
    box.fill(text)
    assert box.get_attribute("aria-invalid") == "true" and state_of(page, "values") == [2, 3, 4]
    assert page.inner_text(".lrp-problem") == "x2 must be a number of at most 1e60 in size; 3 is kept."
