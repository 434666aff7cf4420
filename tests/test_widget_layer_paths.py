"""LayerPaths: the package's numbers by mouse, keyboard and address, in both modes and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import put, state_of
from lrp_book.ch05_worth import PATHS, depth_paths
from lrp_book.committed import records

from lrp_companion.schema import PROTOCOLS
from lrp_companion.widgets import LayerPaths

RESULTS = str(Path(__file__).resolve().parent.parent / "results")
KINDS = ("run", "protocol", "path", "layer")
START = ["sst2-companion", "positions", "back-to-front", 8]


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return depth_paths(records(RESULTS).runs.values())


@pytest.fixture
def widget(data: dict[str, Any]) -> LayerPaths:
    return LayerPaths(data, run="sst2-companion")


@pytest.fixture
def page(widget: LayerPaths, show: Any) -> Any:
    return show(widget, viewport={"width": 1000, "height": 900}, axe=True)


def shown(value: float) -> str:
    return f"{value:.2f}".replace("-", "\u2212")


def check(page: Any, data: dict[str, Any]) -> None:
    """What stands in the page is what the package computed for this run, protocol, path and layer."""
    key, protocol, path, layer = (state_of(page, kind) for kind in KINDS)
    run = next(row for row in data["runs"] if row["key"] == key)
    k = min(layer, run["layers"]) - 1
    cells, ends = run["cells"][protocol][path], run["ends"][protocol][path]
    said = page.locator(".lrp-paths-said").text_content()
    mean, low, high = (shown(cells[side][k]) for side in ("mean", "low", "high"))
    assert f"r = {mean} [{low}, {high}] in this project" in said
    assert ("the paper's model" in said) == (run["paper"] is not None)
    if run["paper"]:
        assert f", {shown(run['paper'][path][k])} in the paper's model." in said
    verdict = page.locator(".lrp-paths-said + p").text_content()
    assert f"{shown(ends['mean'])} [{shown(ends['low'])}, {shown(ends['high'])}]" in verdict
    words = {"above": "above 0", "below": "below 0", "across": "includes 0"}
    assert [side for side, phrase in words.items() if phrase in verdict] == [ends["side"]]
    slider = page.get_by_role("slider")
    assert int(slider.input_value()) == k + 1 and slider.get_attribute("aria-valuetext") is None
    dots = page.locator(".lrp-paths-dot")
    assert dots.count() == run["layers"] and page.locator(".lrp-paths-ring").count() == (
        run["layers"] if run["paper"] else 0
    )
    heights = dots.evaluate_all("dots => dots.map(dot => -Number(dot.getAttribute('cy')))")
    order = sorted(range(run["layers"]), key=lambda at: cells["mean"][at])
    assert all(heights[a] <= heights[b] + 1e-6 for a, b in zip(order, order[1:], strict=False))


def test_every_run_protocol_and_path(page: Any, data: dict[str, Any]) -> None:
    run, protocol = page.get_by_label("Run"), page.get_by_label("Protocol")
    for place in range(len(data["runs"])):
        run.select_option(index=place)
        for k in range(len(PROTOCOLS)):
            protocol.select_option(index=k)
            for label in PATHS.values():
                page.get_by_label(label).check()
                check(page, data)


def test_it_opens_where_the_two_orders_differ_most_and_says_so(page: Any, data: dict[str, Any]) -> None:
    cells = next(row for row in data["runs"] if row["key"] == START[0])["cells"]["positions"]
    back, front = (cells[path]["mean"] for path in ("back-to-front", "front-to-back"))
    gaps = [abs(back[k] - front[11 - k]) for k in range(12)]
    layer = state_of(page, "layer")
    assert gaps[layer - 1] == max(gaps) and page.get_by_role("slider").input_value() == str(layer)
    said = page.locator(".lrp-paths-said").text_content()
    assert said.startswith(f"Layers {layer} to 12 bypassed")
    assert said.endswith(f" Layers 1 to {13 - layer} instead: {shown(front[12 - layer])}.")
    page.get_by_label("single").check()
    assert "instead" not in page.locator(".lrp-paths-said").text_content()


def test_arrow_keys_and_the_pointer_read_the_layers(page: Any, data: dict[str, Any]) -> None:
    slider = page.get_by_role("slider")
    slider.focus()
    for key, layer in (("Home", 1), ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", 12)):
        page.keyboard.press(key)
        assert state_of(page, "layer") == layer
        check(page, data)
    chart = page.locator(".lrp-paths-chart")
    for layer in (1, 5, 12):
        dot = page.locator(".lrp-paths-dot").nth(layer - 1).bounding_box()
        page.mouse.move(dot["x"] + dot["width"] / 2, chart.bounding_box()["y"] + 40)
        assert state_of(page, "layer") == layer
        check(page, data)
    page.get_by_label("back to front").focus()
    page.keyboard.press("ArrowRight")
    assert state_of(page, "path") == "single"
    check(page, data)


def test_a_change_is_told_once_in_one_sentence(page: Any) -> None:
    status, verdict = page.get_by_role("status"), page.locator(".lrp-paths-said + p")
    page.evaluate("""() => { window.told = [];
      new MutationObserver(() => told.push(document.querySelector('[role=status]').textContent))
        .observe(document.querySelector('[role=status]'), {childList: true}); }""")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("told.length === 1")
    assert status.text_content() == page.locator(".lrp-paths-said").text_content()
    page.get_by_role("radio").last.check()
    page.wait_for_function("told.length === 2")
    assert status.text_content() == verdict.text_content()


def test_fewer_layers_than_the_one_that_was_read(page: Any, data: dict[str, Any]) -> None:
    put(page, run="sst2-companion-6")
    check(page, data)
    assert page.get_by_role("slider").get_attribute("max") == "6"
    assert "the paper's model: +" in page.locator(".lrp-paths-said + p").text_content()


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1000, 900)])
def test_controls_and_chart_fit_one_view(widget: LayerPaths, show: Any, width: int, height: int) -> None:
    page = show(widget, viewport={"width": width, "height": height})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".lrp-widget").bounding_box()["height"] <= 720
    page.emulate_media(media="print")
    assert (
        not page.locator(".lrp-controls").first.is_visible() and page.locator(".lrp-paths-chart").is_visible()
    )


def test_hostile_names_are_text(data: dict[str, Any], show: Any) -> None:
    run = {**data["runs"][0], "label": "</script><img src=x onerror=alert(1)>"}
    page = show(LayerPaths({**data, "runs": [run]}), java_script_enabled=True)
    assert page.locator("img").count() == 0 and "<img" in page.get_by_label("Run").inner_text()


def test_it_is_read_without_a_script(widget: LayerPaths, data: dict[str, Any]) -> None:
    assert [getattr(widget, kind) for kind in KINDS] == START
    assert repr(widget) == "LayerPaths(4 runs; sst2-companion, words + positions, all tokens, back to front)"
    (run,) = [row for row in data["runs"] if row["key"] == "sst2-companion"]
    cells = run["cells"]["positions"]["single"]
    text = widget.fallback()
    assert f"{cells['mean'][4]:.2f} [{cells['low'][4]:.2f}, {cells['high'][4]:.2f}]" in text
    assert "the paper&#x27;s" in text and "SST-2, 12 layers, n = 872" in text
