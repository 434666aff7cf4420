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


def test_fewer_layers_than_the_one_that_was_read(page: Any, data: dict[str, Any]) -> None:
    put(page, run="sst2-companion-6")
    check(page, data)
    assert page.get_by_role("slider").get_attribute("max") == "6"
    assert "the paper's model: +" in page.locator(".lrp-paths-said + p").text_content()
