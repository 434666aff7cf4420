"""FrontierPlayer: maps, passes, r and error of the package at every step, by mouse, keyboard, address and
while playing.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from browsing import put, state_of

from lrp_companion import FrontierPlayer
from lrp_companion.lab.anytime import anytime_maps
from lrp_companion.show.palette import hexes
from lrp_companion.widgets.base import STATIC, minified

TEXTS = ["a film of rare grace", "dull , slow and far too long , a dull film"]
WAYS = ("hybrid", "groups", "random")
NAMES = {"no-special": "words", "all": "words and special tokens"}


@pytest.fixture(scope="module")
def maps(clf: Any) -> list[dict[str, Any]]:
    return anytime_maps(clf, TEXTS)


def made(
    size: int = 7, tokens: tuple[str, ...] = (), *, label: str = "negative", seed: int = 0, pace: int = 1
) -> dict[str, Any]:
    """A text as `anytime_maps` makes it, of random numbers; `pace` tokens become exact at each step, groups
    change after so many.
    """
    rng = np.random.default_rng(seed)
    loo, special, order = rng.normal(size=size), np.isin(range(size), (0, size - 1)), rng.permutation(size)

    def steps(start: Any, exact: bool, passes: Any) -> list[dict[str, Any]]:
        out = []
        for p in range(size + 1):
            places = np.sort(order[: pace * p if exact else 0])
            scores = np.array(start(p), dtype=float)
            scores[places] = loo[places]
            r, error = ({tokens: rng.random() for tokens in NAMES} for _ in range(2))
            forwards, backwards = passes(p)
            out.append(
                {
                    "scores": scores,
                    "forwards": forwards,
                    "backwards": backwards,
                    "exact": places.tolist(),
                    "r": r,
                    "error": error,
                }
            )
        return out

    first, rows = rng.normal(size=size), rng.normal(size=(size + 1, size))
    ways = {
        "hybrid": steps(lambda _: first, True, lambda p: (1 + p, 1)),
        "groups": steps(lambda p: rows[p // pace], False, lambda p: (1 + p, 1 + p)),
        "random": steps(lambda p: np.full(size, 0.1 * p), True, lambda p: (p, 0)),
    }
    words = tokens or ("[CLS]", *["overwrought"] * (size - 2), "[SEP]")
    return {
        "tokens": words,
        "special": special,
        "label": label,
        "loo": loo,
        "forwards": size + 1,
        "ways": ways,
    }


@pytest.fixture
def page(maps: Any, show: Any) -> Any:
    return show(FrontierPlayer(maps), viewport={"width": 1000, "height": 1100}, axe=True)


def say(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{value:.2f}".replace("-", "\u2212")


def about(shown: str, value: float) -> bool:
    """A number in the page, of two decimals, against one that was carried with five digits."""
    return (
        shown == "undefined"
        if np.isnan(value)
        else float(shown.replace("\u2212", "-")) == pytest.approx(value, abs=0.00505)
    )


SNAPSHOT = """() => {
  const all = (selector, read, inside = document) => [...inside.querySelectorAll(selector)].map(read);
  const model = document.querySelector('[data-companion-widget]').companion.model;
  const words = (node) => node.textContent, place = (node, name) => parseFloat(node.getAttribute(name));
  const number = (selector, ...names) => names.map((name) => place(document.querySelector(selector), name));
  const slider = document.querySelector('input[type=range]');
  const [grid] = all('.lrp-frontier-chart > g', (node) => node);
  const here = document.querySelector('.lrp-frontier-here');
  return {
    state: Object.fromEntries(['text', 'way', 'tokens', 'step'].map((key) => [key, model.get(key)])),
    scores: document.querySelector('ol.lrp-tokens').dataset.scores.split(' ').map(Number),
    rows: all('ol.lrp-tokens', (row) => all('li', (node) => ({
      exact: node.classList.contains('lrp-frontier-exact'), colour: node.style.backgroundColor,
      what: node.getAttribute('aria-description'),
      dot: getComputedStyle(node.firstChild, '::after').visibility === 'visible',
    }), row)),
    said: document.querySelector('.lrp-frontier-said').textContent,
    slider: [Number(slider.max), Number(slider.value), slider.getAttribute('aria-valuetext')],
    grid: all('text', (node) => [node.textContent, place(node, 'x'), place(node, 'y')], grid),
    strong: all('.lrp-frontier-on > text', words), names: all('g > path + path + text', words),
    lines: Object.fromEntries(['hybrid', 'groups', 'random'].map(
      (name) => [name, document.querySelector(`path.lrp-frontier-line.lrp-frontier-${name}`)
        .getAttribute('d')])),
    here: {shown: here.getBoundingClientRect().width > 0, kind: here.getAttribute('class'),
      at: number('.lrp-frontier-here', 'cx', 'cy')},
    now: number('.lrp-frontier-now', 'x1', 'x2'), loo: number('.lrp-frontier-loo', 'x1', 'x2'),
    numbers: document.querySelector('.lrp-frontier-numbers').textContent,
    heard: document.querySelector('[role=img]').getAttribute('aria-label'),
  };
}"""


def check(page: Any, maps: list[dict[str, Any]]) -> None:
    """What stands in the page is what the package computed for this text, way, tokens and step."""
    shown = page.evaluate(SNAPSHOT)
    text, way, tokens = maps[shown["state"]["text"]], shown["state"]["way"], shown["state"]["tokens"]
    last = len(text["tokens"])
    at = min(shown["state"]["step"], last)
    step = text["ways"][way][at]
    np.testing.assert_allclose(
        shown["scores"], step["scores"], rtol=0, atol=5.1e-5 * np.abs(text["loo"]).max()
    )
    scale = np.abs(text["loo"][~text["special"]]).max()
    for row, scores, exact in zip(
        shown["rows"], (step["scores"], text["loo"]), (step["exact"], []), strict=True
    ):
        colours = [[int(part) for part in re.findall(r"\d+", item["colour"])] for item in row]
        wanted = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in hexes(scores / scale)]
        assert np.abs(np.subtract(colours, wanted)).max() <= 1, "both rows are on the scale of LOO's words"
        for kind, sign in (("exact", True), ("dot", True), ("what", "exact LOO value")):
            assert [i for i, item in enumerate(row) if item[kind] == sign] == exact, kind
    known = len(step["exact"])
    groups = f", {at} groups" if way == "groups" and at > 1 else ""
    own = rf"; {known} tokens? ha(?:s|ve) LOO's own value \(dots\)" if known else ""
    where = " on words and special tokens" if tokens == "all" else ""
    frame = rf"{passes(step)}{groups}: r with LOO{where} (\S+?){own}\. "
    cost = rf"LOO itself takes {last + 1} forward passes\."
    (r,) = re.fullmatch(frame + cost, shown["said"]).groups()
    assert about(r, step["r"][tokens])
    assert shown["slider"] == [last, at, f"{at} of {last}"]
    chart_and_numbers(shown, text, way, tokens, step)


def passes(step: dict[str, Any]) -> str:
    forwards, backwards = step["forwards"], step["backwards"]
    back = f" and {backwards} backward" if backwards else ""
    return f"{forwards} forward{back} pass{'es' * ((backwards or forwards) != 1)}"


def chart_and_numbers(
    shown: dict[str, Any], text: dict[str, Any], way: str, tokens: str, step: dict[str, Any]
) -> None:
    """Lines, the reader's point and the bound lie on straight scales from 0, which hold all of the way in
    force; folded, there is what each way gives for the same passes.
    """
    rungs = [(float(name.replace("\u2212", "-")), y - 4) for name, _, y in shown["grid"] if "." in name]
    marks = [(int(name), x) for name, x, _ in shown["grid"] if "." not in name]
    across, up = np.polyfit(*zip(*marks, strict=True), 1), np.polyfit(*zip(*rungs, strict=True), 1)
    places = {
        name: [(made["forwards"] + made["backwards"], made["r"][tokens]) for made in text["ways"][name]]
        for name in WAYS
    }
    most = max(text["forwards"], places[way][-1][0])
    for name in WAYS:
        points = [
            (float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.-]+)", shown["lines"][name])
        ]
        seen = [
            (cost, r)
            for cost, r in places[name]
            if np.isfinite(r) and (name == way or r > rungs[0][0]) and cost <= most
        ]
        wanted = [(np.polyval(across, cost), np.polyval(up, r)) for cost, r in seen]
        np.testing.assert_allclose(points, wanted, rtol=0, atol=0.11)
        assert name != way or shown["lines"][name].count("M") == 1
    lowest = min(r for _, r in places[way] if np.isfinite(r))
    assert rungs[0][0] == min(0, 0.25 * np.floor(lowest / 0.25)) and rungs[-1][0] == 1
    cost, r = step["forwards"] + step["backwards"], step["r"][tokens]
    for line, passes in (("loo", text["forwards"]), ("now", cost)):
        assert shown[line] == pytest.approx([np.polyval(across, passes)] * 2, abs=1e-6)
    assert shown["here"]["shown"] == bool(np.isfinite(r)) and f"lrp-frontier-{way}" in shown["here"]["kind"]
    if np.isfinite(r):
        assert shown["here"]["at"] == pytest.approx(
            [np.polyval(across, cost), np.polyval(up, r)], abs=0.04
        )  # r has four decimals
    assert shown["names"] == ["Hybrid", "Groups", "Random"] and shown["strong"] == [way.title()]
    assert f"For at most {cost} passes, forward and backward: " in shown["numbers"]
    assert shown["said"] in shown["heard"] and shown["numbers"] in shown["heard"]
    for name in WAYS:
        affordable = [made for made in text["ways"][name] if made["forwards"] + made["backwards"] <= cost]
        if not affordable:
            assert f"{name.title()} takes more" in shown["numbers"]
            continue
        ((_, *values),) = re.findall(rf"({name.title()}) r (\S+), error (\S+?)[;.](?: |$)", shown["numbers"])
        assert all(
            about(value, affordable[-1][key][tokens])
            for value, key in zip(values, ("r", "error"), strict=True)
        )


def test_every_text_way_choice_of_tokens_and_step(page: Any, maps: Any) -> None:
    page.get_by_text("More numbers").click()
    for text, record in enumerate(maps):
        page.get_by_label("Sentence").select_option(index=text)
        for way in WAYS:
            page.get_by_role("radio", name=way.title()).check()
            for tokens, name in NAMES.items():
                page.get_by_role("radio", name=name, exact=True).check()
                assert [state_of(page, key) for key in ("text", "way", "tokens")] == [text, way, tokens]
                for step in range(len(record["tokens"]) + 1):
                    put(page, step=step)
                    check(page, maps)


def test_steps_that_repeat_or_take_two_tokens_at_once(show: Any) -> None:
    text = made(9, pace=2)
    assert FrontierPlayer([text]).data["texts"][0]["ways"]["groups"]["rest"][3] is None
    page = show(FrontierPlayer([text]))
    for way, step in product(WAYS, range(10)):
        put(page, way=way, step=step)
        check(page, [text])


def test_the_slider_and_the_radio_buttons_by_key(page: Any, maps: Any) -> None:
    slider, last = page.get_by_role("slider"), len(maps[0]["tokens"])
    slider.focus()
    for key, step in (
        ("ArrowRight", 1),
        ("ArrowUp", 2),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("End", last),
        ("ArrowRight", last),
        ("Home", 0),
        ("ArrowLeft", 0),
    ):
        page.keyboard.press(key)
        assert state_of(page, "step") == step
        check(page, maps)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert abs(state_of(page, "step") - last / 2) <= 1
    check(page, maps)
    page.get_by_role("radio", name="Hybrid").focus()
    page.keyboard.press("ArrowDown")
    assert state_of(page, "way") == "groups"
    check(page, maps)
    assert page.locator(".lrp-controls + .lrp-quiet").text_content().startswith("Groups: ")
    said = page.locator(".lrp-frontier-said").text_content()
    page.wait_for_function("said => document.querySelector('[role=status]').textContent === said", arg=said)
    top = page.evaluate("document.querySelector('.lrp-frontier-said').parentNode.firstChild.textContent")
    assert top == said, "what is announced stands on top"


def test_an_undefined_r_says_so_and_breaks_the_line(show: Any) -> None:
    text = made(12, seed=1)
    for step in text["ways"]["groups"][4:6]:
        step["r"]["no-special"] = step["error"]["no-special"] = float("nan")
    page = show(FrontierPlayer([text]), "#passes.way=groups&passes.step=4")
    assert ": r with LOO undefined. " in page.locator(".lrp-frontier-said").text_content()
    assert page.locator("path.lrp-frontier-line.lrp-frontier-groups").first.get_attribute("d").count("M") == 2
    assert not page.locator(".lrp-frontier-here").is_visible()
    assert "Groups r undefined, error undefined" in page.locator(".lrp-frontier-numbers").text_content()
    put(page, tokens="all")
    assert page.locator(".lrp-frontier-here").is_visible()


def falling() -> dict[str, Any]:
    """A text whose word 6 has LOO's value by groups but where it fades with [CLS]; hybrid's r falls once."""
    text = made(9)
    text["loo"][:] = [0.5, 0.1, 0, -0.1, 0.2, 0, 2, 0.1, 0]
    for p, step in enumerate(text["ways"]["groups"]):
        step["scores"] = np.where((np.arange(9) == 6) & (6 % max(p, 1) == 0), 0.02, text["loo"])
        step["r"] = dict.fromkeys(NAMES, {2: 0.5, 3: 0.5, 6: 0.4}.get(p, 0.9))
    for p, step in enumerate(text["ways"]["hybrid"]):
        step["scores"][step["exact"]] = text["loo"][step["exact"]]
        step["r"] = dict.fromkeys(NAMES, 0.3 if p == 2 else 0.6)
    return text | {"ways": text["ways"] | {"random": [s | {"exact": []} for s in text["ways"]["random"]]}}


def test_why_r_falls_is_said_where_it_does(show: Any) -> None:
    page = show(FrontierPlayer([falling(), made(3)]), "#passes.way=groups")
    about = page.locator(".lrp-controls + .lrp-quiet")
    assert about.text_content().endswith(
        "Why r falls at 2, 3 and 6 groups: “overwrought” fades together with “[CLS]” there "
        "and gets +0.02 (at 6); alone, as in LOO, +2.00."
    )
    put(page, way="hybrid")
    assert "no token has moved away from LOO" in about.text_content()
    put(page, way="random")
    assert "fall" not in about.text_content()
    flat = falling()
    for way, step in product(("hybrid", "groups"), range(10)):
        flat["ways"][way][step]["r"] = dict.fromkeys(NAMES, 0.8)
    page = show(FrontierPlayer([flat]), "#passes.way=groups")
    assert "fall" not in page.locator(".lrp-controls + .lrp-quiet").text_content()


def test_six_texts_are_light_and_so_is_the_script() -> None:
    assert len(FrontierPlayer([made(24, seed=seed) for seed in range(6)]).page_html().encode()) < 60_000
    script = (STATIC / "frontier_player.js").read_text(encoding="utf-8")
    assert len(minified(script).encode()) < 14_000
