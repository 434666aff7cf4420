"""LayerToggles: every mask and mixture in the page equals the package's numbers; mouse, keyboard, address,
live text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from browsing import put, state_of

import lrp_companion as lrp
from lrp_companion import InputError, LayerToggles, LiveSentence, Protocol
from lrp_companion.metrics import agreement
from lrp_companion.widgets.live import NO_KERNEL

TEXTS = ["a film of rare grace", "dull , slow and far too long"]
PROTOCOLS = [(site, tokens) for site in ("word", "word+position") for tokens in ("no-special", "all")]


@pytest.fixture(scope="module")
def made(clf: Any) -> tuple[list[Any], list[Any]]:
    return [lrp.layer_lattice(clf, text) for text in TEXTS], lrp.attribute(clf, TEXTS, method="loo")


@pytest.fixture
def toggles(made: tuple[list[Any], list[Any]]) -> LayerToggles:
    return LayerToggles(*made)


@pytest.fixture
def page(made: Any, show: Any) -> Any:
    return show(LayerToggles(*made), viewport={"width": 1000, "height": 900}, axe=True)


def shown(page: Any) -> tuple[float, int, np.ndarray]:
    """r, rank and scores as they stand in the page."""
    result = page.locator(".lrp-result")
    scores = page.locator("ol[aria-label^='LRP with'] .lrp-value").all_text_contents()
    return (
        float(result.get_attribute("data-r")),
        int(result.get_attribute("data-rank")),
        np.array([float(text) for text in scores]),
    )


def check(page: Any, lattice: Any, loo: Any, layers: list[int]) -> None:
    site, tokens = state_of(page, "site"), state_of(page, "tokens")
    protocol, at_site = Protocol(site=site, tokens=tokens), lattice.at(site)
    everything = np.array([agreement(row, loo.scores, lattice.special, protocol) for row in at_site.scores])
    expected = at_site.scores_for(layers)
    r, rank, scores = shown(page)
    assert r == pytest.approx(agreement(expected, loo.scores, lattice.special, protocol), abs=5e-5)
    close = 4e-5  # r is carried in steps of 3e-5, so masks that near to each other may share a rank
    assert (everything > r + close).sum() + 1 <= rank <= (everything > r - close).sum() + 1
    assert np.abs(scores - expected).max() <= np.abs(expected).max() / 127 + 1e-3


def test_every_mask_of_two_sentences_under_every_protocol(page: Any, made: Any) -> None:
    for sentence, (lattice, loo) in enumerate(zip(*made, strict=True)):
        page.get_by_label("Sentence").select_option(index=sentence)
        for site, tokens in PROTOCOLS:
            page.locator(f"input[value='{site}']").check()
            page.locator(f"input[value='{tokens}']").check()
            for mask in range(8):
                layers = [layer for layer in (1, 2, 3) if mask >> (layer - 1) & 1]
                put(page, bypassed=layers)
                check(page, lattice, loo, layers)


def test_mouse_and_keyboard_turn_the_layers(page: Any, made: Any) -> None:
    switches = page.get_by_role("toolbar", name="Layers bypassed").get_by_role("button")
    switches.nth(1).click()
    assert state_of(page, "bypassed") == [2] and switches.nth(1).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert state_of(page, "bypassed") == [2, 3]
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert state_of(page, "bypassed") == [1, 2, 3]
    check(page, made[0][0], made[1][0], [1, 2, 3])
    assert page.get_by_role("button", name="CP-LRP").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="AttnLRP").click()
    assert state_of(page, "bypassed") == []
    page.wait_for_function("document.querySelector('.lrp-hidden[aria-live]').textContent.includes('AttnLRP')")


def test_presets_halves_and_the_best_mask(page: Any, made: Any) -> None:
    page.get_by_role("button", name="CP-LRP", exact=True).click()
    assert state_of(page, "bypassed") == [1, 2, 3]
    page.get_by_role("button", name="Best for this sentence").click()
    _, rank, _ = shown(page)
    assert rank == 1
    check(page, made[0][0], made[1][0], state_of(page, "bypassed"))


def test_the_papers_paths_are_drawn_and_a_token_is_removed_in_words(page: Any, made: Any) -> None:
    lattice, loo = made[0][0], made[1][0]
    said = page.locator(".lrp-paths").get_attribute("aria-label").split(";")
    for text, masks in zip(
        said[1:], ([(), (1,), (1, 2), (1, 2, 3)], [(1, 2, 3), (2, 3), (3,), ()]), strict=False
    ):
        r = [agreement(lattice.scores_for(mask), loo.scores, lattice.special, Protocol()) for mask in masks]
        numbers = [float(word) for word in text.replace("\u2212", "-").split()[-4:]]
        assert numbers == pytest.approx(r, abs=0.006)
    page.locator("ol[aria-label=LOO] li").nth(2).click()
    change, after = loo.scores[2], loo.logit - loo.scores[2]
    text = page.locator(".lrp-panel [aria-live]").first.inner_text()
    assert f"by {abs(change):.3f}" in text and text.endswith(f"to {after:.3f}.".replace("-", "\u2212"))
    assert state_of(page, "removed") == 2


def test_half_open_layers_are_the_exact_mixture(page: Any, made: Any) -> None:
    (lattice, *_), (loo, *_) = made
    page.get_by_role("radio", name="half-open").check()
    generator = np.random.default_rng(0)
    for k in range(20):
        amounts, site, tokens = generator.random(3).round(2).tolist(), *PROTOCOLS[k % 4]
        put(page, amounts=amounts, site=site, tokens=tokens)
        expected = lattice.at(site).mix(amounts)
        r, _, scores = shown(page)
        assert np.abs(scores - expected).max() <= np.abs(lattice.at(site).scores).max() / 127 + 1e-3
        assert r == pytest.approx(
            agreement(expected, loo.scores, lattice.special, Protocol(site=site, tokens=tokens)), abs=0.02
        )
    slide = page.get_by_label("Layer 1: from AttnLRP")
    slide.focus()
    page.keyboard.press("End")
    assert state_of(page, "amounts")[0] == 1
    page.get_by_label("on or off").check()
    assert state_of(page, "bypassed") == [
        layer for layer, amount in enumerate(state_of(page, "amounts"), 1) if amount == 1
    ]


def test_maps_of_other_texts_are_refused(toggles: LayerToggles, made: Any) -> None:
    lattices, loos = made
    with pytest.raises(InputError, match="one LOO map per lattice"):
        LayerToggles(lattices, loos[:1])
    with pytest.raises(InputError, match="one LOO map per lattice"):
        LayerToggles(lattices[0], loos[1])
    assert repr(toggles) == "LayerToggles(2 sentences, 3 layers)"


def test_a_live_sentence_feeds_the_switches_and_says_what_is_wrong(toggles: LayerToggles, clf: Any) -> None:
    asked: list[str] = []

    def explain(text: str) -> Any:
        asked.append(text)
        assert "lrp-stale" in toggles._dom_classes, "what is shown is of another sentence"
        return lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")[0]

    live = LiveSentence(toggles, explain)
    toggles.bypassed, toggles.removed = [2], 3
    live.text.value = "rare grace"
    assert asked == ["rare grace"] and toggles.data["sentences"][0]["tokens"][1:-1] == list(
        clf.encode("rare grace")[0].tokens[1:-1]
    )
    assert toggles.bypassed == [2] and toggles.sentence == 0 and not live.button.disabled
    assert "lrp-stale" not in toggles._dom_classes
    assert toggles.removed == -1, "of another sentence"
    live.button.click()
    assert asked == ["rare grace"], "the same text is not computed twice"
    live.text.value = "grace " * 2000
    assert "tokens" in live.said.value and len(toggles.data["sentences"][0]["tokens"]) == 4
    bundle = live._repr_mimebundle_()
    assert NO_KERNEL in bundle["text/html"]
    assert "data-companion-widget" in bundle["text/html"]
    assert "0x" not in bundle["text/plain"]


@pytest.mark.parametrize("text", ["rare", "rare grace", "a dull"])
def test_r_of_fewer_than_three_tokens_is_undefined_in_every_mode(text: str, clf: Any, show: Any) -> None:
    page = show(LayerToggles(lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")))
    assert page.locator(".lrp-result strong").inner_text() == "undefined"
    page.get_by_role("radio", name="half-open").check()
    assert page.locator(".lrp-result strong").inner_text() == "undefined"
    page.get_by_role("radio", name="counted").check()
    assert page.locator(".lrp-result strong").inner_text() != "undefined"
