"""OutlierScene: r with and without one token, by mouse, keyboard and address, as the package computes it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from browsing import state_of

from lrp_companion import Attribution, InputError, OutlierScene
from lrp_companion.metrics import Interval

TOKENS = ("[CLS]", "<b>not</b>", "a", "dull", "film", "[SEP]")
SPECIAL = [True, False, False, False, False, True]
MEANS = {
    "pearson": [Interval(0.09, 0.07, 0.12, n=9), Interval(-0.02, -0.03, -0.01, n=9)],
    "spearman": [Interval(-0.03, -0.04, -0.02, n=9), Interval(0.01, -0.01, 0.02, n=9)],
}


def record(method: str, scores: list[float]) -> Attribution:
    return Attribution(TOKENS, np.array(scores), 1, 2.0, np.array(SPECIAL), method)


LOO = record("loo", [2.0, 1.5, 0.1, -1.0, 0.3, 0.1])
MAPS = [record("attnlrp", [-5, 1.0, 0.2, -0.6, 0.2, 0.2]), record("cp-lrp", [1, 0.4, 0.3, -0.9, 0.1, 0.3])]


@pytest.fixture
def scene() -> OutlierScene:
    return OutlierScene(MAPS, LOO, means=MEANS, label="positive", note="A picked sentence.")


def test_every_state_shows_the_packages_r(scene: OutlierScene, show: Any) -> None:
    page = show(scene, viewport={"width": 780, "height": 700}, axe=True)
    buttons = [page.get_by_role("button", name=name) for name in ("Without [CLS]", "Rank both axes")]
    for without, ranked in itertools.product((False, True), repeat=2):
        for button, wanted in zip(buttons, (without, ranked), strict=True):
            if (button.get_attribute("aria-pressed") == "true") != wanted:
                button.focus()
                page.keyboard.press("Enter")
        panels = page.locator(".lrp-scene-panel")
        shown = [float(panels.nth(k).get_attribute("data-r")) for k in range(2)]
        np.testing.assert_allclose(shown, scene.r(without=without, ranked=ranked), atol=1e-12)
        assert panels.nth(0).locator("g.lrp-scene-out").count() == without
        for k, scores in enumerate(one.scores for one in MAPS):
            said = [f"LOO {a:+.3f}, relevance {b:+.3f}" for a, b in zip(LOO.scores, scores, strict=True)]
            told = [
                text.replace("\u2212", "-") for text in panels.nth(k).locator("title").all_text_contents()
            ]
            assert [text.split(": ")[1] for text in told] == said
            label = panels.nth(k).locator("svg").get_attribute("aria-label").replace("\u2212", "-")
            assert (told[0] in label) != without
        mean = MEANS["spearman" if ranked else "pearson"][without].mean
        assert f"{abs(mean):.2f}" in page.locator("td.lrp-here").inner_text()
    assert [state_of(page, key) for key in ("without", "ranked")] == [True, True]
    assert "undecided" in page.locator("td.lrp-here").inner_text()
    assert page.locator("svg text").all_text_contents().count("<b>not</b>") == 2


def test_what_does_not_fit_is_refused_and_a_page_without_a_script_has_r(scene: OutlierScene) -> None:
    other = record("cp-lrp", [0.0] * 6)
    for maps in (MAPS[:1], [*MAPS, other]):
        with pytest.raises(InputError):
            OutlierScene(maps, LOO)
    assert repr(scene) == "OutlierScene(attnlrp, cp-lrp; 6 tokens; [CLS] can be left out)"
    assert "without [CLS]" in scene.fallback()
