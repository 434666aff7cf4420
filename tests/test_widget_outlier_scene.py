"""OutlierScene: r with and without one token, by mouse, keyboard and address, as the package computes it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from browsing import state_of

from lrp_companion import Attribution, InputError, OutlierScene
from lrp_companion.lab.paper.primary import MARGIN

TOKENS = ("[CLS]", "<b>not</b>", "a", "dull", "film", "[SEP]")
SPECIAL = [True, False, False, False, False, True]


def record(method: str, scores: list[float]) -> Attribution:
    return Attribution(TOKENS, np.array(scores), 1, 2.0, np.array(SPECIAL), method)


LOO = record("loo", [2.0, 1.5, 0.1, -1.0, 0.3, 0.1])
MAPS = [record("attnlrp", [-5, 1.0, 0.2, -0.6, 0.2, 0.2]), record("cp-lrp", [1, 0.4, 0.3, -0.9, 0.1, 0.3])]


@pytest.fixture
def scene() -> OutlierScene:
    return OutlierScene(MAPS, LOO, label="positive", note="Look at the first.", margin=MARGIN)


def test_every_state_shows_the_packages_r(scene: OutlierScene, show: Any) -> None:
    page = show(scene, viewport={"width": 780, "height": 700}, axe=True)
    buttons = [page.get_by_role("button", name=name) for name in ("Count only the words", "Rank both axes")]
    for without, ranked in itertools.product((False, True), repeat=2):
        for button, wanted in zip(buttons, (without, ranked), strict=True):
            if (button.get_attribute("aria-pressed") == "true") != wanted:
                button.focus()
                page.keyboard.press("Enter")
        panels = page.locator(".lrp-scene-panel")
        shown = [float(panels.nth(k).get_attribute("data-r")) for k in range(2)]
        np.testing.assert_allclose(shown, scene.r(without=without, ranked=ranked), atol=1e-12)
        lead = shown[1] - shown[0]
        verdict = ["level"] * 2 if abs(lead) < MARGIN else ["", "ahead"] if lead > 0 else ["ahead", ""]
        assert [panels.nth(k).locator("em").inner_text() for k in range(2)] == verdict
        assert panels.nth(0).locator("g.lrp-scene-out").count() == sum(SPECIAL) * without
        for k, scores in enumerate(one.scores for one in MAPS):
            said = [f"LOO {a:+.3f}, relevance {b:+.3f}" for a, b in zip(LOO.scores, scores, strict=True)]
            told = [
                text.replace("\u2212", "-") for text in panels.nth(k).locator("title").all_text_contents()
            ]
            assert [text.split(": ")[1] for text in told] == said
            label = panels.nth(k).locator("svg").get_attribute("aria-label").replace("\u2212", "-")
            assert (told[0] in label) != without
    assert [state_of(page, key) for key in ("without", "ranked")] == [True, True]
    assert page.locator("svg text").all_text_contents().count("<b>not</b>") == 2
    assert page.locator("ol.lrp-tokens").count() == 3


def test_axes_stay_and_a_first_look_has_one_button(show: Any) -> None:
    page = show(OutlierScene(MAPS, LOO, reduced=True))
    drawn = page.locator(".lrp-scene-panel g, .lrp-scene-zero")
    at = "all => all.map(e => [e.style.transform, e.getAttribute('d')])"
    before = drawn.evaluate_all(at)
    page.get_by_role("button").click()
    assert drawn.evaluate_all(at) == before


def test_two_words_have_no_r(show: Any) -> None:
    four = [
        Attribution(tuple("abcd"), np.arange(4.0) ** k, 1, 2.0, np.array([1, 0, 0, 1], bool), "loo")
        for k in (1, 2)
    ]
    scene = OutlierScene(four, four[0])
    page = show(scene, "#outlier.without=1")
    assert (
        page.locator("strong").all_text_contents() == ["undefined"] * 2
        and np.isnan(scene.r(without=True, ranked=False)).all()
    )


def test_what_does_not_fit_is_refused_and_a_page_without_a_script_has_rows(scene: OutlierScene) -> None:
    other = record("cp-lrp", [0.0] * 6)
    for maps in (MAPS[:1], [*MAPS, other]):
        with pytest.raises(InputError):
            OutlierScene(maps, LOO)
    assert repr(scene) == "OutlierScene(attnlrp, cp-lrp; 6 tokens, 4 of them words)"
    assert scene.fallback().count("<ol") == 3
