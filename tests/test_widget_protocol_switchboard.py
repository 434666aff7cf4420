"""ProtocolSwitchboard: what stands in the page under every combination is what the data says; mouse,
keyboard, address, Python.
"""

from __future__ import annotations

import copy
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from browsing import put, state_of

from lrp_companion import ProtocolSwitchboard
from lrp_companion.widgets.base import packed

LACKS = -32768
TEXT = {
    "site": ["word", "word+position", "embedding"],
    "tokens": ["no-special", "all"],
    "removal": ["attention-mask", "mask", "delete"],
}
DIGITS = {"bias": ["yes", "no"], "steps": ["8", "512"]}  # keys that look like numbers keep their order


def made(shape: tuple[int, ...], *, seed: int, shift: float = 0.0) -> np.ndarray:
    """Cells (*shape, 9): mean, low, high of b, of a, and of the difference, in steps of 1e-4; signs of all
    three kinds.
    """
    rng = np.random.default_rng(seed)
    b, difference = rng.uniform(-0.2, 0.8, shape), rng.normal(shift, 0.12, shape)
    means, half = np.stack([b, b + difference, difference], -1), rng.uniform(0.01, 0.09, (*shape, 3))
    return (
        np.rint(10_000 * np.stack([means, means - half, means + half], -1))
        .astype(np.int16)
        .reshape(*shape, 9)
    )


def run_of(
    key: str, cells: np.ndarray, *, n: int = 872, paper: Any = None, lacking: Any = 0
) -> dict[str, Any]:
    lacking = np.broadcast_to(lacking, cells.shape[:-1])
    arrays = {"cells": packed(cells, "int16"), "undefined": packed(lacking, "uint16")}
    return {"key": key, "label": f"run {key}", "n": n, "paper": paper, **arrays}


def board_of(
    key: str, axes: dict[str, list[str]], runs: list[dict[str, Any]], **others: Any
) -> dict[str, Any]:
    rows = [
        {
            "key": axis,
            "label": f"{axis} is",
            "options": [{"key": key, "label": f"{axis} {key}"} for key in keys],
        }
        for axis, keys in axes.items()
    ]
    start = {"run": runs[0]["key"], **{axis: keys[0] for axis, keys in axes.items()}}
    named = {"key": key, "label": key.title(), "a": "CP-LRP", "b": "AttnLRP"}
    return {**named, "axes": rows, "runs": runs, "start": start, "presets": [], **others}


def cells() -> dict[str, np.ndarray]:
    """Three runs: one whole, one without an option and without one further combination, one on another
    board.
    """
    by_run = {
        "sst": made((3, 2, 3), seed=1),
        "imdb": made((3, 2, 3), seed=2, shift=0.1),
        "net": made((2, 2), seed=3),
    }
    by_run["imdb"][:, :, 2] = LACKS
    by_run["imdb"][1, 1, 0] = LACKS
    by_run["sst"][2, 1, 1, 6:] = 12, 3, 21  # wholly above 0, by less than two decimals show
    by_run["sst"][2, 0, 1, [7, 8]] = LACKS  # a mean without an interval
    return by_run


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    by_run = cells()
    few = np.zeros((3, 2, 3), int)
    few[0, 1, 1] = 7
    runs = [
        run_of("sst", by_run["sst"], paper={"a": 0.52, "b": 0.22}, lacking=few),
        run_of("imdb", by_run["imdb"], n=1000),
    ]
    presets = [
        {"label": "words only (default)", "state": {}},
        {
            "label": "elsewhere",
            "state": {"run": "imdb", "site": "embedding", "tokens": "all", "removal": "mask"},
        },
    ]
    return {
        "boards": [
            board_of("text", TEXT, runs, presets=presets),
            board_of("digits", DIGITS, [run_of("net", by_run["net"], n=300)]),
        ]
    }


AXES = {"sst": TEXT, "imdb": TEXT, "net": DIGITS}


def combinations(run: str, *, measured: bool = True) -> list[tuple[list[str], np.ndarray]]:
    """Choices and cell of each combination, in the data's order."""
    values = cells()[run]
    every = [
        (list(keys), values[at])
        for keys, at in zip(product(*AXES[run].values()), np.ndindex(values.shape[:-1]), strict=True)
    ]
    return [(keys, cell) for keys, cell in every if cell[6] != LACKS or not measured]


def curve_of(run: str) -> list[tuple[list[str], np.ndarray]]:
    return sorted(
        combinations(run), key=lambda entry: entry[1][6]
    )  # a stable sort: ties stay in the data's order


def number(text: str) -> float:
    return float(text.replace("\u2212", "-"))


@pytest.fixture
def page(data: Any, show: Any) -> Any:
    return show(ProtocolSwitchboard(data), viewport={"width": 1000, "height": 1500}, axe=True)


def state(page: Any) -> tuple[str, list[str]]:
    return state_of(page, "run"), state_of(page, "choices")


def check(page: Any, run: str, choices: list[str]) -> None:
    """Everything that the page says of a combination against the cell that it was made from."""
    (cell,) = (cell_values for keys, cell_values in combinations(run) if keys == choices)
    words, values = (
        page.locator(".lrp-words"),
        [float("nan") if step == LACKS else step / 10_000 for step in cell.tolist()],
    )
    shown = [float(text) for text in words.get_attribute("data-values").split()]
    assert shown == pytest.approx(values, abs=1e-12, nan_ok=True)
    ranked = [keys for keys, _ in curve_of(run)]
    assert int(words.get_attribute("data-rank")) == ranked.index(choices) + 1
    low, high = cell[7], cell[8]
    sign = "across" if LACKS in (low, high) else "above" if low > 0 else "below" if high < 0 else "across"
    said = {
        "above": "CP-LRP is nearer to LOO",
        "below": "AttnLRP is nearer to LOO",
        "across": "the interval includes 0",
    }[sign]
    assert words.locator("strong").text_content() == said and f"lrp-{sign}" in words.get_attribute("class")
    # two decimals would hide on which side of 0 it lies
    fine = any(abs(value) < 0.005 for value in values[6:])
    assert bool(re.search(r"\d\.\d{4}", words.text_content())) == fine
    close = 1e-9 + (0.00005 if fine else 0.005)
    for kind, first in (("a", 3), ("b", 0), ("d", 6)):
        row = page.locator(f".lrp-measures tr.lrp-{kind}")
        texts = row.locator("td").all_text_contents()
        assert number(texts[0]) == pytest.approx(values[first], abs=close)
        if cell[first + 1] == LACKS:
            assert texts[1] == "[no interval]"
        else:
            assert [number(text) for text in texts[1][1:-1].split(", ")] == pytest.approx(
                values[first + 1 : first + 3], abs=close
            )
    assert f"CP-LRP minus AttnLRP: {page.locator('.lrp-d td').nth(0).text_content()} " in words.text_content()
    strips(page, values, {"sst": (0.52, 0.22)}.get(run))
    checked = page.locator("fieldset input:checked").evaluate_all("all => all.map((node) => node.value)")
    assert checked == [run, *choices]
    cursor = page.locator("[role=slider]")
    place = [int(cursor.get_attribute(f"aria-value{end}")) for end in ("min", "now", "max")]
    assert place == [1, ranked.index(choices) + 1, len(ranked)]
    assert said in cursor.get_attribute("aria-valuetext")
    bold = page.locator(".lrp-option.lrp-on").all_text_contents()
    assert bold == [f"{axis} {key}" for axis, key in zip(AXES[run], choices, strict=True)]


def strips(page: Any, values: list[float], paper: tuple[float, float] | None) -> None:
    """Marks, bars and the paper's rings lie on one straight scale per axis, from the line at 0."""
    places = page.evaluate(
        """() => ['a', 'b', 'd'].map((kind) => {
          const find = (name) => document.querySelector(`tr.lrp-${kind} .lrp-strip .lrp-${name}`);
          const part = (node, name) => parseFloat(node.getAttribute(name));
          const bar = find('span'), ring = find('paper');
          return {zero: part(find('origin'), 'x1'), mark: part(find('dot').parentNode, 'x'),
                  ring: ring && part(ring.parentNode, 'x'),
                  bar: bar && [part(bar, 'x'), part(bar, 'x') + part(bar, 'width')]};
        })"""
    )
    scales = []
    for place, first, quoted in zip(
        places, (3, 0, 6), (*(paper or (None, None)), paper and paper[0] - paper[1]), strict=True
    ):
        assert (place["ring"] is None) == (quoted is None)
        pairs = [(place["mark"], values[first]), *([(place["ring"], quoted)] if paper else [])]
        pairs += zip(place["bar"] or [], values[first + 1 : first + 3] if place["bar"] else [], strict=True)
        scales += [
            ((x - place["zero"]) / value, 0.02 / abs(value), first == 6)
            for x, value in pairs
            if abs(value) > 0.02
        ]
        assert all(0 <= x <= 100 for x, _ in pairs)
    for is_difference in (True, False):
        group = [(scale, slack) for scale, slack, kind in scales if kind == is_difference]
        assert all(abs(scale - group[0][0]) <= slack + group[0][1] for scale, slack in group), group


def test_every_combination_of_every_run(page: Any) -> None:
    for board, run in (("text", "sst"), ("text", "imdb"), ("digits", "net")):
        for choices, _ in combinations(run):
            put(page, board=board, run=run, choices=choices)
            check(page, run, choices)


def test_each_switch_says_what_it_would_give_and_why_it_cannot(page: Any) -> None:
    everything = {run: {tuple(keys): cell for keys, cell in combinations(run)} for run in ("sst", "imdb")}
    for run, choices in (("sst", ["word", "all", "mask"]), ("imdb", ["word", "all", "attention-mask"])):
        put(page, run=run, choices=choices)
        for axis, (name, options) in enumerate(TEXT.items()):
            row = page.locator("fieldset").nth(axis + 1)
            assert row.locator("legend").text_content() == f"{name} is"
            for place, option in enumerate(options):
                there = everything[run].get((*choices[:axis], option, *choices[axis + 1 :]))
                label = row.locator("label").nth(place)
                assert label.locator("input").is_disabled() == (there is None)
                text = label.locator("small").text_content()
                assert (
                    (text == "")
                    if there is None
                    else number(text) == pytest.approx(there[6] / 10_000, abs=0.005 + 1e-9)
                )
    why = page.locator(".lrp-why:visible").all_text_contents()
    assert why == [
        "no r together with these other choices: site word+position",
        "not run on run imdb: removal delete",
    ]


def test_switches_by_mouse_and_by_keyboard(page: Any) -> None:
    page.get_by_role("radio", name="site embedding").click()
    page.get_by_text("tokens all", exact=True).first.click()
    assert state(page) == ("sst", ["embedding", "all", "attention-mask"])
    page.get_by_role("radio", name="removal attention-mask").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert state(page) == ("sst", ["embedding", "all", "delete"])
    check(page, *state(page))
    page.get_by_role("radio", name="run imdb").click()
    assert state(page) == (
        "imdb",
        ["embedding", "all", "mask"],
    )  # delete was not run there: one step back is nearest
    check(page, *state(page))
    page.wait_for_function(
        "document.querySelector('[aria-live]').textContent.startsWith('CP-LRP minus AttnLRP')"
    )


def test_presets_are_pressed_where_they_hold(page: Any) -> None:

    def pressed() -> list[str]:
        return page.locator(".lrp-presets button").evaluate_all("all => all.map((node) => node.ariaPressed)")

    assert pressed() == ["true", "false"]
    page.get_by_role("button", name="elsewhere").click()
    assert pressed() == ["false", "true"] and state(page) == ("imdb", ["embedding", "all", "mask"])
    check(page, *state(page))
    page.get_by_role("radio", name="tokens no-special").click()
    assert pressed() == ["false", "false"]
    page.get_by_role("button", name="words only (default)").press("Enter")
    assert state(page) == ("sst", ["word", "no-special", "attention-mask"])


def test_the_curve_goes_to_a_combination_by_keys_click_and_drag(page: Any) -> None:
    ranked, cursor = [keys for keys, _ in curve_of("sst")], page.locator("[role=slider]")
    cursor.focus()
    last = len(ranked) - 1
    steps = [
        ("End", last),
        ("ArrowRight", last),
        ("ArrowLeft", last - 1),
        ("ArrowDown", last - 2),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("ArrowUp", 1),
        ("PageUp", 3),
        ("PageDown", 1),
    ]
    for key, to in steps:
        page.keyboard.press(key)
        assert state(page) == ("sst", ranked[to]), key
        check(page, "sst", ranked[to])
    box = cursor.bounding_box()
    for place in range(len(ranked)):
        page.mouse.click(
            box["x"] + box["width"] * (place + 0.5) / len(ranked),
            box["y"] + (40 if place % 2 else box["height"] - 20),
        )
        assert state(page)[1] == ranked[place]
        dot = page.locator(".lrp-cursor > i").bounding_box()
        assert dot["x"] + dot["width"] / 2 == pytest.approx(
            box["x"] + box["width"] * (place + 0.5) / len(ranked), abs=1
        )
    page.mouse.move(box["x"] + 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 90, box["y"] + 20, steps=4)
    assert state(page)[1] == ranked[-1]
    page.mouse.up()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    assert state(page)[1] == ranked[-1]


@pytest.mark.parametrize("run", ["sst", "imdb"])
def test_the_picture_holds_every_combination_in_order(run: str, page: Any) -> None:
    put(page, run=run)
    ranked = curve_of(run)
    signs = [
        "across"
        if LACKS in values[7:] or values[7] <= 0 <= values[8]
        else "above"
        if values[7] > 0
        else "below"
        for _, values in ranked
    ]
    tally = [int(text) for text in page.locator(".lrp-tally b").all_text_contents()]
    assert tally == [signs.count(sign) for sign in ("above", "below", "across")]
    levels = page.locator(".lrp-rungs span").evaluate_all(
        "all => all.map((node) => [node.textContent, parseFloat(node.style.top)])"
    )
    (zero,) = (top for text, top in levels if number(text) == 0)
    unit = (levels[-1][1] - zero) / number(levels[-1][0])
    for sign in ("above", "across", "below"):
        path = page.locator(f".lrp-mean.lrp-{sign}").get_attribute("d")
        points = {int(x): (float(y) - zero) / unit for x, y in re.findall(r"M(\d+) ([\d.-]+)h1", path)}
        assert points == {
            x: pytest.approx(ranked[x][1][6] / 10_000, abs=2e-3)
            for x, side in enumerate(signs)
            if side == sign
        }
        bands = re.findall(
            r"M([\d.]+) ([\d.-]+)V([\d.-]+)", page.locator(f".lrp-band.lrp-{sign}").get_attribute("d")
        )
        limits = {float(x) - 0.5: [(float(y) - zero) / unit for y in ends] for x, *ends in bands}
        known = [x for x, side in enumerate(signs) if side == sign and LACKS not in ranked[x][1][7:]]
        assert limits == {x: pytest.approx(ranked[x][1][7:] / 10_000, abs=2e-3) for x in known}
    paths = page.locator(".lrp-ticks path").evaluate_all("all => all.map((node) => node.getAttribute('d'))")
    means = page.locator(".lrp-ticks + .lrp-average").all_text_contents()
    for (axis, option), path, mean in zip(
        ((k, o) for k, keys in enumerate(TEXT.values()) for o in keys), paths, means, strict=True
    ):
        inside = [x for x, (keys, _) in enumerate(ranked) if keys[axis] == option]
        covered = [
            x
            for start, width in re.findall(r"M(\d+) 0h(\d+)", path or "")
            for x in range(int(start), int(start) + int(width))
        ]
        assert covered == inside
        expected = np.mean([ranked[x][1][6] for x in inside]) / 10_000 if inside else None
        assert (mean == "–") if expected is None else number(mean) == pytest.approx(expected, abs=0.0051)


def test_examples_without_r_are_counted(page: Any) -> None:
    assert ", n = 872: " in page.locator(".lrp-words").text_content()
    put(page, choices=["word", "all", "mask"])
    assert ", n = 865 (7 more without r): " in page.locator(".lrp-words").text_content()


def test_an_address_with_an_options_former_key_opens(data: Any, show: Any, visit: Any) -> None:
    board = copy.deepcopy(data)
    board["boards"][0]["axes"][1]["options"][1]["was"] = "everything"
    page = show(ProtocolSwitchboard(board))
    other = visit(f"{page.url.split('#')[0]}#switchboard.choices=embedding,everything,mask")
    other.wait_for_selector("[data-ready]")
    check(other, "sst", ["embedding", "all", "mask"])
    other.get_by_role("radio", name="site word+position").click()
    assert state(other) == ("sst", ["word+position", "all", "mask"])


def test_the_curve_begins_with_site_tokens_and_map_and_has_all_on_demand(show: Any) -> None:
    axes = {
        "site": ["word", "all"],
        "tokens": ["few", "all"],
        "removal": ["mask", "pad"],
        "map": ["raw", "sum"],
    }
    board = board_of("text", axes, [run_of("sst", made((2, 2, 2, 2), seed=5))])
    page = show(ProtocolSwitchboard({"boards": [board]}))
    assert "8 combinations" in page.inner_text(".lrp-all .lrp-heading")
    page.get_by_role("radio", name="removal pad").click()
    words = page.locator(".lrp-words")
    pad = np.sort(made((2, 2, 2, 2), seed=5)[:, :, 1, :, 6].ravel())
    here = made((2, 2, 2, 2), seed=5)[0, 0, 1, 0, 6]
    assert int(words.get_attribute("data-rank")) == pad.tolist().index(here) + 1
    page.get_by_role("button", name="Show all 16").click()
    assert "All 16 combinations" in page.inner_text(".lrp-all .lrp-heading")
    page.wait_for_function("location.hash.includes('switchboard.all=1')")
