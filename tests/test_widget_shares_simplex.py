"""The simplex of shares in a browser: every number in it against the net's own relevance at these shares."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from browsing import put, state_of, stroke

from lrp_companion.lab.digit_invariance import share_digits
from lrp_companion.methods import attribute
from lrp_companion.metrics import agreement, invariance_gap
from lrp_companion.schema import Protocol
from lrp_companion.toys.linear_attention import SHARES, LinearAttention
from lrp_companion.widgets import SharesSimplex
from lrp_companion.widgets.shares_simplex import POINTS

COUNT = 10
LABELS = [7, 2, 1, 0, 4, 9, 5, 6, 3, 8]
EVERYWHERE = np.zeros(196, dtype=bool)
Open = Callable[..., Any]


def pictures() -> np.ndarray:
    values = np.random.default_rng(0).random((COUNT, 14, 14))
    return np.where(values > 0.6, values, 0.0)  # strokes on black


@pytest.fixture(scope="module")
def net() -> LinearAttention:
    """Biases keep a part of the relevance, so sums are of both signs."""
    return LinearAttention(dim=4, bias=True, seed=3, dtype=torch.float64)


@pytest.fixture(scope="module")
def digits(net: LinearAttention) -> list[dict[str, Any]]:
    return share_digits(net, pictures(), LABELS)


@pytest.fixture
def shown(show: Any, digits: list[dict[str, Any]]) -> Open:
    def go(hash: str = "", **options: Any) -> Any:
        return show(
            SharesSimplex(digits), hash, axe=True, **{"viewport": {"width": 820, "height": 1000}, **options}
        )

    return go


def points(count: int = 20) -> list[list[float]]:
    return np.random.default_rng(1).dirichlet([1, 1, 1], count).tolist()


def relevance(net: LinearAttention, digit: dict[str, Any], shares: Any, place: int) -> np.ndarray:
    """The map by its own walk through the net, not by a mixture."""
    return net.relevance(pictures()[place : place + 1], digit["predicted"], shares=shares)[0].numpy()


def check(page: Any, net: LinearAttention, digits: list[dict[str, Any]]) -> dict[str, float]:
    """Compare the numbers in the page with the package's for the state that the page is in."""
    shares, place, map = (state_of(page, key) for key in ("shares", "digit", "map"))
    digit, shown = (
        digits[place],
        {
            key: float(value)
            for key, value in page.locator("dl").evaluate("node => ({...node.dataset})").items()
        },
    )
    scores = relevance(net, digit, shares, place)
    assert shown["r"] == pytest.approx(
        agreement(scores, digit["loo"], EVERYWHERE, Protocol(tokens="all", map=map)), abs=1e-6
    )
    for key, graph in (("gapLeft", "left"), ("gapRight", "right")):
        assert shown[key] == pytest.approx(
            invariance_gap(scores, relevance(net, digit, SHARES[graph], place)).relative, abs=1e-6
        )
    assert shown["sum"] == pytest.approx(scores.sum(), abs=1e-5 * np.abs(scores).sum())
    assert shown["logit"] == pytest.approx(float(net(pictures()[place : place + 1])[0].max().detach()))
    texts = [text.replace("\u2212", "-") for text in page.locator("dd").all_text_contents()]
    numbers = [
        *(shown[key] for key in ("r", "gapLeft", "gapRight", "sum")),
        digit["loo"].sum(),
        shown["logit"],
    ]
    assert all(abs(float(text) - number) <= 0.00501 for text, number in zip(texts, numbers, strict=True))
    said = [float(number) for number in re.findall(r"-?\d+\.\d+", sentence(page))]
    assert said[:3] == pytest.approx(shares, abs=0.00501)
    assert said[3:5] == pytest.approx([shown["r"], shown["sum"]], abs=0.00501)
    assert said[5:] == ([pytest.approx(shown["logit"], abs=0.00501)] if map == "raw" else [])
    return shown


def sentence(page: Any) -> str:
    """The line on top, which says the state in words."""
    return page.locator(".lrp-said").text_content().replace("\u2212", "-")


def handle(page: Any) -> Any:
    return page.get_by_role("button", name="Shares:")


@pytest.mark.parametrize("map", ["raw", "sum-to-one"])
def test_twenty_points_give_the_nets_own_numbers(
    map: str, shown: Open, net: LinearAttention, digits: list[dict[str, Any]]
) -> None:
    page = shown()
    page.get_by_label(map.replace("-", " ")).check()
    signs = set()
    for k, shares in enumerate(points()):
        put(page, digit=k % COUNT, shares=shares)
        signs.add(check(page, net, digits)["sum"] > 0)
    assert signs == {True, False}


def test_number_inputs_reach_every_point(
    shown: Open, net: LinearAttention, digits: list[dict[str, Any]]
) -> None:
    page = shown()
    page.get_by_text("More numbers").click()
    queries, keys, values = (page.get_by_label(name, exact=True) for name in ("queries", "keys", "values"))
    for shares in points():
        for box, share in ((queries, shares[0]), (keys, shares[1])):
            box.fill(repr(share))
            box.press("Tab")
        assert state_of(page, "shares") == pytest.approx(shares, abs=1e-12)
        check(page, net, digits)
    put(page, shares=[0.2, 0.2, 0.6])
    values.fill("0.2")
    values.press("Enter")
    assert state_of(page, "shares") == pytest.approx([0.4, 0.4, 0.2])
    queries.fill("0.9")
    queries.press("Enter")
    assert state_of(page, "shares") == pytest.approx([0.9, 0.1, 0])
    keys.fill("7")
    keys.press("Enter")
    assert state_of(page, "shares") == [0, 1, 0]
    assert keys.input_value() == "1" and queries.input_value() == "0"
    values.fill("0.5")
    values.press("Enter")
    assert state_of(page, "shares") == [0, 0.5, 0.5]
    queries.fill("")
    queries.press("Tab")
    assert state_of(page, "shares") == [0, 0.5, 0.5] and queries.input_value() == "0"


def test_the_mouse_drags_and_a_finger_taps(
    shown: Open, net: LinearAttention, digits: list[dict[str, Any]]
) -> None:
    page = shown(has_touch=True)
    box = page.locator("svg[aria-label='Shares of relevance']").bounding_box()
    scale = box["width"] / 340

    def place(shares: Any) -> tuple[float, float]:
        q, k, _ = shares
        return box["x"] + scale * (30 + 280 * (q + k / 2)), box["y"] + scale * (32 + 140 * 3**0.5 * (1 - k))

    page.mouse.move(*place(POINTS["left"]))
    page.mouse.down()
    for aim in ([0.4, 0.4, 0.2], [0.1, 0.7, 0.2], [0.6, 0.3, 0.1]):
        page.mouse.move(*place(aim))
        assert state_of(page, "shares") == pytest.approx(aim, abs=0.01)
        check(page, net, digits)
    page.mouse.move(*place([1.4, -0.2, -0.2]))  # outside: the nearest point
    assert state_of(page, "shares") == [1, 0, 0]
    page.mouse.up()
    page.mouse.move(*place([0.2, 0.2, 0.6]))
    assert state_of(page, "shares") == [1, 0, 0]
    page.mouse.click(*place([0.2, 0.5, 0.3]))
    assert state_of(page, "shares") == pytest.approx([0.2, 0.5, 0.3], abs=0.01)
    page.touchscreen.tap(*place([0.5, 0.2, 0.3]))
    assert state_of(page, "shares") == pytest.approx([0.5, 0.2, 0.3], abs=0.01)
    finger = page.context.new_cdp_session(page)
    for kind, q, k in (("touchStart", 0.5, 0.2), ("touchMove", 0.4, 0.35), ("touchMove", 0.2, 0.6)):
        (x, y), at = place([q, k, 1 - q - k]), page.evaluate("scrollY")
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        page.wait_for_timeout(50)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("scrollY") == at
    assert state_of(page, "shares") == pytest.approx([0.2, 0.6, 0.2], abs=0.01)
    check(page, net, digits)


def test_a_finger_that_goes_up_or_down_scrolls_and_one_that_goes_across_drags(shown: Open) -> None:
    page = shown(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 500})
    ring = handle(page)
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
    used = state_of(page, "shares")
    assert drawn(3, -200, beside=60) > 20 and state_of(page, "shares") == used, "beside the ring, too"


def test_keys_move_the_point(shown: Open, net: LinearAttention, digits: list[dict[str, Any]]) -> None:
    page = shown()
    handle(page).focus()
    for key, shares in (
        ("ArrowRight", [0.26, 0.25, 0.49]),
        ("ArrowLeft", [0.25, 0.25, 0.5]),
        ("ArrowUp", [0.245, 0.26, 0.495]),
        ("ArrowDown", [0.25, 0.25, 0.5]),
        ("Shift+ArrowRight", [0.35, 0.25, 0.4]),
        ("Shift+ArrowUp", [0.3, 0.35, 0.35]),
        ("Home", [1 / 3, 1 / 3, 1 / 3]),
        ("Enter", [0, 0, 1]),
        ("Enter", [0.25, 0.25, 0.5]),
        (" ", [0.5, 0.25, 0.25]),
    ):
        page.keyboard.press(key)
        assert state_of(page, "shares") == pytest.approx(shares, abs=1e-12), key
        check(page, net, digits)
        assert all(
            f"{share:.2f}" in handle(page).get_attribute("aria-label") for share in state_of(page, "shares")
        )
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    assert state_of(page, "shares")[2] == 0 and sum(state_of(page, "shares")) == pytest.approx(1, abs=1e-12)


def test_named_points_and_digits_by_mouse_and_keyboard(
    shown: Open, net: LinearAttention, digits: list[dict[str, Any]]
) -> None:
    page = shown()
    assert {name: POINTS[name] for name in ("left", "right", "flat")} == {
        name: SHARES[name] for name in ("left", "right", "flat")
    }
    assert POINTS["CP"] == SHARES["values"]
    for name, shares in POINTS.items():
        button = page.get_by_role("button", name=name, exact=True)
        button.click()
        assert state_of(page, "shares") == list(shares) and button.get_attribute("aria-pressed") == "true"
        assert page.locator("button[aria-pressed=true]").count() == 2  # this point and this digit
        check(page, net, digits)
    assert page.locator("[role=group][aria-label='Named points'] button[tabindex='0']").count() == 1
    for place, label in enumerate(LABELS):
        page.get_by_role("button", name=f"digit {label}").click()
        assert state_of(page, "digit") == place
        check(page, net, digits)
        names = [canvas.get_attribute("aria-label") for canvas in page.locator(".lrp-maps canvas").all()]
        scores, loo = relevance(net, digits[place], POINTS["CP"], place), digits[place]["loo"]
        assert f"{label}; the network predicts {digits[place]['predicted']}" in names[0]
        for name, map in zip(names[1:], (scores, loo), strict=True):
            assert f"sum {map.sum():.2f}".replace("-", "\u2212") in name
            assert f"{100 * (map < -1e-6 * np.abs(map).max()).mean():.0f} % of the pixels below zero" in name
    page.get_by_role("button", name="digit 0").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert state_of(page, "digit") == LABELS.index(4)


def test_colours_dots_and_the_field_say_the_map(
    shown: Open, net: LinearAttention, digits: list[dict[str, Any]]
) -> None:
    from lrp_companion.show.palette import hexes

    page = shown()
    put(page, shares=[0.6, 0.2, 0.2])
    read = """node => { const pen = node.getContext("2d"); return [...Array(196).keys()].map((i) =>
      [2, 10].map((off) => [...pen.getImageData(20 * (i % 14) + off, 20 * Math.floor(i / 14) + off, 1, 1)
        .data.slice(0, 3)])); }"""
    scores = relevance(net, digits[0], [0.6, 0.2, 0.2], 0)
    for canvas, map in ((1, scores), (2, digits[0]["loo"])):
        size = np.abs(map).max()
        drawn = page.locator(".lrp-maps canvas").nth(canvas).evaluate(read)
        for value, expected, (corner, centre) in zip(map, hexes(map / size), drawn, strict=True):
            assert np.abs(np.array(corner) - [int(expected[i : i + 2], 16) for i in (1, 3, 5)]).max() <= 1
            assert (centre == [27, 27, 27]) == (value < -0.08 * size)
    field = page.locator(".lrp-triangle canvas")
    labels = page.locator("svg[aria-label='Shares of relevance'] text").all_text_contents()
    corners = {"queries": [1, 0, 0], "keys": [0, 1, 0], "values, CP": [0, 0, 1]}
    names = {f"all to {name}: r": shares for name, shares in corners.items()}
    for name, shares in {**names, **{name: POINTS[name] for name in ("left", "right", "flat")}}.items():
        r = agreement(
            relevance(net, digits[0], shares, 0), digits[0]["loo"], EVERYWHERE, Protocol(tokens="all")
        )
        assert f"{name} {r:.2f}".replace("-", "\u2212") in labels
    grid = [(q / 30, k / 30, (30 - q - k) / 30) for q in range(31) for k in range(31 - q)]
    parts = [digits[0]["maps"][name] for name in ("query", "key", "value")]
    every = [
        agreement(np.array(point) @ parts, digits[0]["loo"], EVERYWHERE, Protocol(tokens="all"))
        for point in grid
    ]
    assert field.get_attribute("aria-label").endswith(
        f"from {min(every):.2f} to {max(every):.2f}".replace("-", "\u2212")
    )


def test_a_negative_sum_is_said(shown: Open, digits: list[dict[str, Any]]) -> None:
    page = shown()
    seen = set()
    for place, digit in enumerate(digits):
        for shares in ([1, 0, 0], [0, 1, 0], [0, 0, 1]):
            put(page, digit=place, shares=shares)
            map_is_negative = (
                sum(
                    share * digit["maps"][name].sum()
                    for share, name in zip(shares, ("query", "key", "value"), strict=True)
                )
                < 0
            )
            text, loo_is_negative = page.locator(".lrp-quiet + p").last.text_content(), digit["loo"].sum() < 0
            assert ("this map" in text, "LOO" in text) == (map_is_negative, loo_is_negative) and (
                "reverses the sign" in text
            ) == (map_is_negative != loo_is_negative)
            seen.add((bool(map_is_negative), bool(loo_is_negative)))
    assert len(seen) > 1


def test_a_map_whose_sum_cancels_is_undefined_and_not_drawn(show: Any) -> None:
    flat = {"image": np.ones((2, 2)), "label": 3, "predicted": 3, "logit": 0.0, "loo": [1, 2, 3, 4]}
    widget = SharesSimplex(
        [{**flat, "maps": {"query": [1, -1, 0, 0], "key": [0, 0, 2, -2], "value": [0, 0, 0, 0]}}]
    )
    page = show(widget, "#shares.map=sum-to-one")
    assert (
        page.locator("dl").get_attribute("data-r") == "NaN"
        and page.locator("dd").first.text_content() == "undefined"
    )
    put(page, shares=[0, 0, 1], map="raw")  # a map of zeros
    assert page.locator("dl").get_attribute("data-r") == "NaN"
    assert float(page.locator("dl").get_attribute("data-gap-left")) == pytest.approx(2)


class TestPython:
    def test_records_are_the_nets(self, net: LinearAttention, digits: list[dict[str, Any]]) -> None:
        loo = attribute(net, pictures(), method="loo", progress=False)
        for k, digit in enumerate(digits):
            assert (
                digit["label"] == LABELS[k]
                and digit["predicted"] == loo[k].target
                and np.array_equal(digit["loo"], loo[k].scores)
            )
            assert digit["logit"] == pytest.approx(loo[k].logit) and np.array_equal(
                digit["image"], pictures()[k]
            )
        assert SharesSimplex(digits).scores([0.2, 0.3, 0.5], digit=3) == pytest.approx(
            relevance(net, digits[3], [0.2, 0.3, 0.5], 3)
        )

    @pytest.mark.parametrize("labels", [[1], [[1] * COUNT], [0.5] * COUNT])
    def test_labels_that_do_not_fit_are_refused(self, labels: Any, net: LinearAttention) -> None:
        with pytest.raises((TypeError, ValueError)):
            share_digits(net, pictures(), labels)
