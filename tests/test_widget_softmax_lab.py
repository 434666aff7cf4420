"""SoftmaxLab: every number equals `SoftmaxStep`'s, by slider, button, keyboard and address."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from browsing import put, state_of

from lrp_companion import SoftmaxLab
from lrp_companion.metrics import pearson
from lrp_companion.toys.softmax_step import SoftmaxStep


@pytest.fixture
def page(show: Any) -> Any:
    return show(SoftmaxLab(), viewport={"width": 1000, "height": 1000}, axe=True)


READ = "key => [...document.querySelectorAll(`.lrp-row-${key} [data-x]`)].map(cell => Number(cell.dataset.x))"


def check(page: Any) -> None:
    """All numbers of the page against the package's."""
    step = SoftmaxStep(state_of(page, "logits"), state_of(page, "values"))
    expected = {
        "attention": step.attention,
        "loo": step.loo(),
        "cp": step.cp_lrp(),
        "attnlrp": step.attnlrp(),
        "value": step.value_relevance(),
        "logit": step.logit_relevance(),
    }
    for key, row in expected.items():
        np.testing.assert_allclose(page.evaluate(READ, key), row, rtol=1e-9, atol=1e-12)
    assert float(page.locator(".lrp-lab-output").get_attribute("data-x")) == pytest.approx(
        float(step.output), abs=1e-12
    )
    for place, map in enumerate((step.cp_lrp(), step.attnlrp())):
        row = page.locator(".lrp-facts tbody tr").nth(place)
        size = np.linalg.norm(step.loo())
        if size > 1e-9 and np.ptp(map) > 1e-9 and np.ptp(step.loo()) > 1e-9:
            assert float(row.get_attribute("data-r")) == pytest.approx(pearson(map, step.loo()), abs=1e-9)
            assert float(row.get_attribute("data-error")) == pytest.approx(
                np.linalg.norm(map - step.loo()) / size, rel=1e-9
            )
        elif size <= 1e-12:
            assert row.get_attribute("data-error") == "NaN"


def check_bars(page: Any) -> None:
    """The bars' ends, in pixels from the zero line, against the numbers: LOO, CP-LRP, and AttnLRP's stack
    with its mark.
    """
    step = SoftmaxStep(state_of(page, "logits"), state_of(page, "values"))
    limit = float(page.locator(".lrp-top").text_content())
    value, logit = step.value_relevance(), step.logit_relevance()
    stacked = np.where(value * logit > 0, value, 0)
    spans = {
        "loo": (0 * value, step.loo()),
        "cp": (0 * value, step.cp_lrp()),
        "value": (0 * value, value),
        "logit": (stacked, stacked + logit),
    }
    read = """key => [...document.querySelectorAll(`.lrp-column.lrp-fill-${key}`)].map(bar => {
        const cell = bar.parentNode.getBoundingClientRect(), box = bar.getBoundingClientRect()
        const half = cell.height / 2
        return [box.bottom, box.top].map(y => (cell.top + half - y) / half)
    })"""
    for key, ends in spans.items():
        np.testing.assert_allclose(page.evaluate(read, key), np.sort(np.stack(ends, 1)) / limit, atol=0.01)
        assert np.abs(np.stack(ends)).max() <= limit * (1 + 1e-9)
    np.testing.assert_allclose(np.mean(page.evaluate(read, "attnlrp"), 1), step.attnlrp() / limit, atol=0.02)


def test_thirty_random_settings(page: Any) -> None:
    generator = np.random.default_rng(0)
    for _ in range(30):
        n = int(generator.integers(3, 7))
        put(
            page,
            logits=generator.uniform(-8, 8, n).round(1).tolist(),
            values=generator.uniform(-2, 2, n).round(2).tolist(),
        )
        check(page)
        check_bars(page)


@pytest.mark.parametrize("logits", [[0, 0, 0], [2.3, -1.1, 0.7, 5]])
def test_equal_values_leave_no_rounding_noise_to_correlate(page: Any, logits: list[float]) -> None:
    for value in (0.3, -0.7, 1.1):
        put(page, logits=logits, values=[value] * len(logits))
        assert page.evaluate(READ, "loo") == [0] * len(logits)
        assert page.locator(".lrp-facts tbody td").all_text_contents() == ["undefined"] * 4
        assert not any("\N{MINUS SIGN}0.000" in text for text in page.locator(".lrp-lab").all_text_contents())


def test_sliders_answer_to_keys_and_mouse(page: Any) -> None:
    slider = page.get_by_label("logit of token 2")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert state_of(page, "logits") == pytest.approx([2, 1.1, 0, 0])
    page.keyboard.press("End")
    assert state_of(page, "logits")[1] == 8
    check(page)
    box = page.get_by_label("value of token 3").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    assert state_of(page, "values")[2] < -1.5
    check(page)
    page.wait_for_function("document.querySelector('[aria-live]').textContent.startsWith('Output')")


def test_presets_show_the_papers_two_errors(page: Any) -> None:
    for name in ("equal values", "large equal logits", "one dominates"):
        button = page.get_by_role("button", name=name)
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        check(page)
        if name == "equal values":
            assert np.abs(page.evaluate(READ, "loo")).max() < 1e-12 and min(page.evaluate(READ, "cp")) == 0.25
            assert page.locator(".lrp-facts tbody td").nth(1).text_content() == "undefined"
        if name == "large equal logits":
            np.testing.assert_allclose(
                page.evaluate(READ, "logit"), 6 * 3 / 8 * np.array(page.evaluate(READ, "loo"))
            )
    page.get_by_role("button", name="large equal logits").click()
    before = page.evaluate(READ, "loo"), page.evaluate(READ, "logit")
    page.get_by_role("button", name="all logits + 1").click()
    np.testing.assert_allclose(page.evaluate(READ, "loo"), before[0], atol=1e-12)
    assert np.abs(np.subtract(page.evaluate(READ, "logit"), before[1])).max() > 0.05
    for _ in range(2):
        button = page.get_by_role("button", name="all logits + 1")
        if button.is_enabled():
            button.click()
    assert max(state_of(page, "logits")) == 8
    assert not page.get_by_role("button", name="all logits + 1").is_enabled()
    assert page.evaluate("document.activeElement.textContent") == "all logits + 1", "it keeps the focus"
    put(page, logits=[-1.1, 0.1, 2.3, 0])
    page.get_by_role("button", name="all logits + 1").click()
    assert state_of(page, "logits") == [-0.1, 1.1, 3.3, 1]
    page.get_by_role("button", name="equal values").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert state_of(page, "values") == [2, 1, 0, -1]


def test_tokens_come_and_go(page: Any) -> None:
    for name, count in (("+ token", 5), ("+ token", 6), ("− token", 5), ("− token", 4), ("− token", 3)):
        page.get_by_role("button", name=name, exact=True).click()
        assert len(state_of(page, "logits")) == len(state_of(page, "values")) == count
        assert page.locator(".lrp-pair").count() == count
        check(page)
    assert not page.get_by_role("button", name="− token", exact=True).is_enabled()


def test_numbers_and_answers_come_on_demand(page: Any) -> None:
    number = page.locator(".lrp-row-loo td span").first
    assert number.evaluate("node => getComputedStyle(node).visibility") == "hidden"
    assert not page.locator(".lrp-facts").is_visible() and page.locator(".lrp-plot").is_visible()
    assert page.locator(".lrp-widget").bounding_box()["height"] <= 720
    page.get_by_role("button", name="Show all numbers").click()
    assert number.is_visible() and page.locator(".lrp-facts").is_visible()
    answer = page.locator(".lrp-note details p")
    assert page.locator(".lrp-note > span").text_content().endswith("?") and not answer.is_visible()
    page.get_by_text("Answer", exact=True).click()
    assert answer.is_visible()
    page.get_by_role("button", name="one dominates").click()
    assert not answer.is_visible() and page.locator(".lrp-note > span").text_content().endswith("?")
