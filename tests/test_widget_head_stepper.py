"""HeadStepper: the head of the primer, by mouse, keys, address and typed numbers, against the rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from browsing import put, state_of

from lrp_companion import HeadStepper, rules

STATES = [
    (math.log(2), (1, 1, 2), (2, -6, 8)),
    (-1.5, (0.5, -2, 1), (1, 1, 1)),
    (0, (3, 1, 2), (-4, 5, 0.25)),
]


@pytest.fixture
def page(show: Any) -> Any:
    return show(HeadStepper(), viewport={"width": 900, "height": 900}, axe=True)


@pytest.mark.parametrize(("query", "keys", "values"), STATES)
def test_relevance_is_that_of_the_rules(query: float, keys: tuple, values: tuple) -> None:
    """`rules.matmul` and `rules.softmax` on tensors, epsilon 0, in float64."""
    k, v = (torch.tensor([x], dtype=torch.float64).T for x in (keys, values))
    q = torch.tensor([[query]], dtype=torch.float64)
    z = q @ k.T
    a = z.softmax(-1)
    o = a @ v
    g_a, g_v = rules.matmul(torch.ones_like(o), a, v, o)
    g_z = rules.softmax(g_a, a)
    g_q, g_k = rules.matmul(g_z, q, k.T.contiguous(), z)
    parts = HeadStepper(q=query, k=keys, v=values).relevance()
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


def check(page: Any) -> None:
    """The table of maps and the widths of the bands against the package."""
    state = {key: state_of(page, key) for key in ("q", "k", "v", "rules", "step")}
    parts = HeadStepper(q=state["q"], k=state["k"], v=state["v"]).relevance()
    for row, name in enumerate(("attnlrp", "cp-lrp", "loo")):
        cells = page.locator(".lrp-head-maps tbody tr").nth(row).locator("td")
        shown = [float(cell.get_attribute("data-x")) for cell in cells.all()]
        np.testing.assert_allclose(shown, [*parts[name], sum(parts[name])], atol=1e-9)
    bands = page.locator(".lrp-head-band").all()
    amounts = np.array([float(band.get_attribute("data-amount")) for band in bands])
    widths = np.array([float(band.get_attribute("stroke-width")) for band in bands])
    if len(amounts) and np.abs(amounts).max() > 1e-9:
        largest = max(abs(parts["output"][0]), np.abs(amounts).max())
        np.testing.assert_allclose(widths, np.maximum(1, 30 * np.abs(amounts) / largest), atol=0.006)
    dashed = ["lrp-head-minus" in band.get_attribute("class") for band in bands]
    assert dashed == [amount < 0 for amount in amounts]


def test_every_step_of_both_rules(page: Any) -> None:
    for rules_name, label in (("attnlrp", "AttnLRP"), ("cp-lrp", "CP-LRP")):
        page.get_by_role("radio", name=label).check()
        for k, name in enumerate(("Forward", "Split the product", "The softmax", "Keys and query")):
            page.get_by_role("button", name=name).click()
            assert state_of(page, "step") == k and state_of(page, "rules") == rules_name
            check(page)
            assert not page.locator(".lrp-head-maps").is_visible()
        page.get_by_role("button", name="Side by side").click()
        assert page.locator(".lrp-head-maps").is_visible()
        check(page)
    shown = page.locator(".lrp-head-maps tbody").inner_text()
    assert "0.6399" in shown and "2.8664" in shown and "\u22120.3333" in shown


def test_typed_numbers_are_taken_or_refused_in_words(page: Any) -> None:
    page.locator("summary").click()
    field = page.get_by_label("value of slow")
    field.fill("3")
    field.press("Tab")
    assert state_of(page, "v") == [2, 3, 8]
    check(page)
    for wrong in ("99", ""):
        field.fill(wrong)
        field.press("Tab")
        assert state_of(page, "v") == [2, 3, 8]
        assert "from \u221220 to 20" in page.locator(".lrp-head-refusal").text_content()
    page.get_by_label("query", exact=True).fill("-1")
    page.get_by_label("query", exact=True).press("Tab")
    assert state_of(page, "q") == -1 and page.locator(".lrp-head-refusal").text_content() == ""
    put(page, step=3)
    check(page)
