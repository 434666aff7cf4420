"""What every widget owes its reader: in each state that its traits allow, the numbers in the page are the
package's; each control is reached by mouse and keyboard; a phone has room, axe no complaint; an address keeps
the state and cannot break it; without a script there is a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import traitlets
from browsing import complaints_of_axe, put, state_of, widget_page
from test_product import all_groupings

import lrp_companion as lrp
import lrp_companion.widgets as widgets
from lrp_companion.lab.digit_invariance import share_digits
from lrp_companion.lab.perturbation_paths import anytime_maps, perturbation_paths
from lrp_companion.metrics import agreement, invariance_gap, pearson
from lrp_companion.schema import Protocol
from lrp_companion.show.tokens import decimals
from lrp_companion.toys import Product, SoftmaxStep, flat, shares, write
from lrp_companion.toys.linear_attention import SHARES
from lrp_companion.widgets.base import front_ends, packed

TEXTS = ["a film of rare grace", "dull , slow and far too long"]
METHODS = ("loo", "attnlrp", "cp-lrp")
LACKS = -32768
WRONG = {  # by the widget's name in an address: what a link may hold that names no state
    "FrontierPlayer": "passes: text=2 text=-1 text=0.5 step=99 step=-1 step=1.5 way=nobody way=toString"
    " tokens=constructor way=<b>",
    "HeadStepper": "head: step=9 k=1,2 v=1,2,99 rules=constructor q=<b>",
    "LayerFlow": "flow: text=2 step=99 step=-1 step=0.5 text=<b> without=2 cut=2",
    "LayerToggles": "layers: bypassed=9 bypassed=1,1 bypassed=<img%20onerror=alert(1)> sentence=7 sentence=x"
    " site=nowhere amounts=2,2,2 amounts=0.5 mode= tokens=%00 unknown=1 text=mine other=x compare=1 target=0"
    " removed=99",
    "OutlierScene": "outlier: without=2 without=<b> ranked=x ranked=",
    "PerturbationPlayer": "player: text=9 text=-1 step=99 step=1.5 left=nobody right=toString"
    " order=constructor step=<b>",
    "ProductTree": "product: grouping=<img%20src=x%20onerror=alert(1)> grouping=%3Cimg%3E grouping="
    " grouping=x1 grouping=x2%20x1%20x3 grouping=x1%20x1%20x2 grouping=x1%20(x2%20x3"
    " grouping=x1%20()%20x2%20x3 grouping=x1%20x2%20x3%20x4%20x5%20x6 grouping=x0%20x1%20x2"
    f" grouping={'(' * 5000} values=1,2,3,4,5,6,7,8,9 values=NaN,1,2 values=1 values= values=1,Infinity"
    " values=1,1e99 values=a,b address=x data=1",
    "ProtocolSwitchboard": "switchboard: board=toString board= run=net run=__proto__ choices= choices=a"
    " choices=a,<b> choices=z,b choices=a,b,b board=Text&switchboard.run=0",
    "SharesSimplex": "shares: shares=0.5,0.5 shares=-0.5,1,0.5 shares=0.5,0.5,0.5 shares=a,b,c shares="
    " shares=Infinity,0,0 digit=10 digit=-1 digit=1.5 digit=x map=other map=toString data=1"
    " map=%3Cimg%20src=x%20onerror=alert(1)%3E digit=%3Cscript%3E",
    "SoftmaxLab": "softmax: logits=9,0,0 logits=1,2 values=1,x,2 values= logits=1e999,0,0 logits=<img>,0,0",
}
SAID = """() => {
  const copy = document.querySelector('.lrp-widget').cloneNode(true);
  for (const node of copy.querySelectorAll('[aria-live], [role=status], script')) node.remove();
  return copy.textContent;
}"""
ARRIVE = """hash => new Promise(done => {
  addEventListener('hashchange', () => done(), {once: true});
  location.hash = hash;
})"""
every_widget = pytest.mark.parametrize("name", [*WRONG, "TokenHeatmap"])
with_a_state = pytest.mark.parametrize("name", WRONG)


AXES = {
    "site": ["word", "word+position", "embedding"],
    "tokens": ["no-special", "all"],
    "map": ["raw", "sum"],
}


def cells(seed: int) -> np.ndarray:
    """Mean, low and high of b, of a and of their difference, in steps of 1e-4; one combination lacks r."""
    rng = np.random.default_rng(seed)
    b, difference = rng.uniform(-0.2, 0.8, (3, 2, 2)), rng.normal(0, 0.12, (3, 2, 2))
    means, half = np.stack([b, b + difference, difference], -1), rng.uniform(0.01, 0.09, (3, 2, 2, 3))
    values = np.rint(10_000 * np.stack([means, means - half, means + half], -1)).astype(np.int16)
    values[1, 1, seed % 2] = LACKS
    return values.reshape(3, 2, 2, 9)


def board(key: str, seeds: dict[str, int]) -> dict[str, Any]:
    axes = [
        {"key": axis, "label": axis, "options": [{"key": option, "label": option} for option in options]}
        for axis, options in AXES.items()
    ]
    arrays = {
        run: {"cells": packed(cells(seed), "int16"), "undefined": packed(np.zeros((3, 2, 2)), "uint16")}
        for run, seed in seeds.items()
    }
    runs = [{"key": run, "label": run, "n": 9, "paper": None, **made} for run, made in arrays.items()]
    start = {"run": runs[0]["key"], **{axis: options[0] for axis, options in AXES.items()}}
    named = {"key": key, "label": key, "a": "CP-LRP", "b": "AttnLRP"}
    return {**named, "axes": axes, "runs": runs, "start": start, "presets": []}


BOARDS = {"text": {"sst": 0, "imdb": 1}, "digits": {"net": 2}}


@pytest.fixture(scope="module")
def truth(clf: Any) -> dict[str, Any]:
    """What the widgets are made from, as the package gives it."""
    records = {name: lrp.attribute(clf, TEXTS, method=name) for name in METHODS}
    net = lrp.LinearAttention(tokens=16, dim=4, bias=True, seed=3, dtype=torch.float64)
    images = np.random.default_rng(0).random((2, 4, 4))
    ways: dict[str, Any] = {
        "attnlrp": {},
        "cp-lrp": {"bypass": [1, 2, 3]},
        "key-cut": {"cut": ("key", "special")},
    }
    flows = [{name: lrp.layer_relevance(clf, text, **of) for name, of in ways.items()} for text in TEXTS]
    return {
        "records": records,
        "lattices": [lrp.layer_lattice(clf, text) for text in TEXTS],
        "flows": [{**flow, "loo": loo} for flow, loo in zip(flows, records["loo"], strict=True)],
        "labels": clf.labels,
        "paths": perturbation_paths(clf, TEXTS, records),
        "passes": anytime_maps(clf, TEXTS),
        "net": net,
        "images": images,
        "digits": share_digits(net, images, [1, 2]),
    }


@pytest.fixture(scope="module")
def made(truth: dict[str, Any]) -> Callable[[str], Any]:
    """A widget by its name."""
    loo, attnlrp, cp_lrp = (truth["records"][name] for name in METHODS)
    makers: dict[str, Callable[[], Any]] = {
        "TokenHeatmap": lambda: widgets.TokenHeatmap([attnlrp[0]], loo=loo[0]),
        "LayerToggles": lambda: widgets.LayerToggles(truth["lattices"], loo),
        "OutlierScene": lambda: widgets.OutlierScene([attnlrp[0], cp_lrp[0]], loo[0]),
        "LayerFlow": lambda: widgets.LayerFlow(truth["flows"], labels=truth["labels"]),
        "PerturbationPlayer": lambda: widgets.PerturbationPlayer(truth["paths"]),
        "FrontierPlayer": lambda: widgets.FrontierPlayer(truth["passes"]),
        "SharesSimplex": lambda: widgets.SharesSimplex(truth["digits"]),
        "ProtocolSwitchboard": lambda: widgets.ProtocolSwitchboard(
            {"boards": [board(key, runs) for key, runs in BOARDS.items()]}
        ),
    }
    return lambda name: makers.get(name, getattr(widgets, name))()


def value_of(trait: Any, rng: np.random.Generator) -> Any:
    """A value that a trait takes."""
    if isinstance(trait, traitlets.Enum):
        return rng.choice(list(trait.values)).item()
    if isinstance(trait, traitlets.Bool):
        return bool(rng.integers(2))
    if isinstance(trait, traitlets.Int):
        return int(rng.integers(trait.min or 0, 2 if trait.max is None else trait.max + 1))
    if isinstance(trait, traitlets.Float):
        return round(rng.uniform(max(trait.min, -20), min(trait.max, 20)), 2)
    return [value_of(trait._trait, rng) for _ in range(rng.integers(trait._minlen, trait._maxlen + 1))]


def told_by_data(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Values where the data, not the traits, say what is possible."""
    if name == "ProtocolSwitchboard":
        key = str(rng.choice(list(BOARDS)))
        run, values = (run := str(rng.choice(list(BOARDS[key])))), cells(BOARDS[key][run])
        measured = [at for at in np.ndindex(3, 2, 2) if values[at][6] != LACKS]
        at = measured[rng.integers(len(measured))]
        choices = [options[k] for options, k in zip(AXES.values(), at, strict=True)]
        return {"board": key, "run": run, "choices": choices, "all": True}
    if name == "LayerToggles":
        bypassed, amounts = [k for k in (1, 2, 3) if rng.integers(2)], rng.random(3).round(2).tolist()
        start = {"text": "", "other": "", "compare": False, "target": -1, "removed": -1}
        return {"bypassed": bypassed, "amounts": amounts, **start}
    if name == "PerturbationPlayer":
        left, right = (str(rng.choice(METHODS)) for _ in range(2))
        return {"left": left, "right": right, "step": int(rng.integers(6))}
    if name == "SharesSimplex":
        q, k = rng.dirichlet([1, 1, 1]).round(2)[:2].tolist()
        return {"shares": [q, k, round(1 - q - k, 2)]}
    n = int(rng.integers(3, 6))
    trees = [*all_groupings(n), flat(n)]
    return {
        "FrontierPlayer": {"step": int(rng.integers(8))},
        "LayerFlow": {"step": int(rng.integers(5))},
        "ProductTree": {
            "values": rng.uniform(-9, 9, n).round(2).tolist(),
            "grouping": write(trees[rng.integers(len(trees))]),
        },
        "SoftmaxLab": {
            "logits": rng.uniform(-8, 8, n).round(1).tolist(),
            "values": rng.uniform(-2, 2, n).round(2).tolist(),
        },
    }.get(name, {})


def drawn(widget: Any, count: int) -> Iterator[dict[str, Any]]:
    """States of a widget, drawn from its traits."""
    rng, traits = np.random.default_rng(0), widget.traits()
    for _ in range(count):
        given = told_by_data(type(widget).__name__, rng)
        yield {key: given[key] if key in given else value_of(traits[key], rng) for key in widget.linked()}


def floats(texts: list[str]) -> list[float]:
    return [np.nan if text == "undefined" else float(text.replace("\u2212", "-")) for text in texts]


def rows_of(page: Any, selector: str, *names: str) -> np.ndarray:
    """Attributes of all elements of a selector, as numbers: a row for each element."""
    read = "(all, names) => all.map(node => names.map(name => node.getAttribute(name)))"
    return np.array(page.locator(selector).evaluate_all(read, list(names)), dtype=float)


def outlier_scene(page: Any, truth: Any, at: Any) -> None:
    loo, maps = truth["records"]["loo"][0], [truth["records"][name][0] for name in METHODS[1:]]
    protocol = Protocol(
        tokens="no-special" if at["without"] else "all", statistic="spearman" if at["ranked"] else "pearson"
    )
    wanted = [agreement(one.scores, loo.scores, loo.special, protocol) for one in maps]
    np.testing.assert_allclose(rows_of(page, ".lrp-scene-panel", "data-r").ravel(), wanted, atol=1e-12)


def head_stepper(page: Any, truth: Any, at: Any) -> None:
    parts = widgets.HeadStepper(q=at["q"], k=at["k"], v=at["v"]).relevance()
    shown = rows_of(page, ".lrp-head-maps tbody td", "data-x").reshape(3, 4)
    for row, name in zip(shown, METHODS[1:] + METHODS[:1], strict=True):
        np.testing.assert_allclose(row, [*parts[name], sum(parts[name])], atol=1e-9)
    bands = page.locator(".lrp-head-band").evaluate_all(
        "all => all.map(node => [Number(node.dataset.amount) < 0, node.classList.contains('lrp-head-minus')])"
    )
    assert all(negative == dashed for negative, dashed in bands)


def softmax_lab(page: Any, truth: Any, at: Any) -> None:
    n = min(len(at["logits"]), len(at["values"]))
    step = SoftmaxStep(at["logits"][:n], at["values"][:n])
    wanted = {"attention": step.attention, "loo": step.loo(), "cp": step.cp_lrp(), "attnlrp": step.attnlrp()}
    wanted |= {"value": step.value_relevance(), "logit": step.logit_relevance()}
    for key, row in wanted.items():
        shown = rows_of(page, f".lrp-row-{key} [data-x]", "data-x").ravel()
        np.testing.assert_allclose(shown, row, rtol=1e-9, atol=1e-12)
    size = np.linalg.norm(step.loo())
    for (r, error), scores in zip(
        rows_of(page, ".lrp-facts tbody tr", "data-r", "data-error"),
        (step.cp_lrp(), step.attnlrp()),
        strict=True,
    ):
        if size > 1e-9 and np.ptp(scores) > 1e-9 and np.ptp(step.loo()) > 1e-9:
            wanted_r, wanted_error = pearson(scores, step.loo()), np.linalg.norm(scores - step.loo()) / size
            np.testing.assert_allclose([r, error], [wanted_r, wanted_error], rtol=1e-7, atol=1e-9)
        else:
            assert np.isnan(r)


def perturbation_player(page: Any, truth: Any, at: Any) -> None:
    path, order = truth["paths"][at["text"]], at["order"]
    for row, side in enumerate(("left", "right")):
        method = path["methods"][at[side]]
        steps = method[order]["steps"]
        step = min(at["step"], len(steps))
        shown = page.locator("tbody tr").nth(row)
        said = [float(shown.get_attribute(f"data-{name}")) for name in ("logit", "morf", "lerf")]
        assert said == [method[order]["logits"][step], method["morf"]["mean"], method["lerf"]["mean"]]
        kinds = page.locator(f"div.lrp-panel.lrp-{side} li").evaluate_all("all => all.map(n => n.className)")
        gone = [i for i, kind in enumerate(kinds) if "lrp-gone" in kind]
        assert gone == sorted(i for tokens in steps[:step] for i in tokens)


def layer_toggles(page: Any, truth: Any, at: Any) -> None:
    lattice = truth["lattices"][at["sentence"]].at(at["site"])
    loo, protocol = truth["records"]["loo"][at["sentence"]], Protocol(site=at["site"], tokens=at["tokens"])
    half_open = at["mode"] == "half-open"
    wanted = lattice.mix(at["amounts"]) if half_open else lattice.scores_for(at["bypassed"])
    every = np.array([agreement(row, loo.scores, lattice.special, protocol) for row in lattice.scores])
    result = page.locator(".lrp-result")
    r = agreement(wanted, loo.scores, lattice.special, protocol)
    assert float(result.get_attribute("data-r")) == pytest.approx(r, abs=0.02 if half_open else 5e-5)
    if not half_open:
        close = 4e-5  # r is carried in steps of 3e-5, so masks that near to each other may share a rank
        rank = int(result.get_attribute("data-rank"))
        assert (every > r + close).sum() + 1 <= rank <= (every > r - close).sum() + 1
    shown = page.locator("ol[aria-label^='LRP with'] .lrp-value").all_text_contents()
    digits = decimals(wanted)
    if half_open:  # mixed from rounded maps
        np.testing.assert_allclose(floats(shown), wanted, atol=1.1 * 10.0**-digits)
    else:
        assert [text.strip() for text in shown] == [f"{score:+.{digits}f}" for score in wanted]


def layer_flow(page: Any, truth: Any, at: Any) -> None:
    flows = truth["flows"][at["text"]]
    loo, kept = flows["loo"], slice(1 if at["without"] else 0, None)
    for k, flow in enumerate((flows["key-cut" if at["cut"] else "attnlrp"], flows["cp-lrp"])):
        panel, scores = page.locator(".lrp-flow-panel").nth(k), flow.scores[at["step"]]
        values = floats(panel.locator("li .lrp-value").all_text_contents())
        np.testing.assert_allclose(values, scores, atol=6e-4)
        said = panel.locator("p.lrp-readout").text_content().replace("\u2212", "-")
        total, sign, rest, logit = re.fullmatch(
            r"(\S+) here ([+-]) (\S+) left above = logit (\S+)", said
        ).groups()
        assert float(total) == pytest.approx(flow.sums[at["step"]], abs=0.0051)
        assert float(total) + float(sign + rest) == pytest.approx(float(logit), abs=1e-9)
        assert float(logit) == pytest.approx(flow.logit, abs=0.0051)
        (r,) = floats([panel.locator(".lrp-flow-title strong").text_content().split(" ")[-1]])
        wanted = pearson(scores[kept], loo.scores[kept])
        assert r == pytest.approx(wanted, abs=0.0051, nan_ok=True)


def product_tree(page: Any, truth: Any, at: Any) -> None:
    made = Product([float(value) for value in at["values"]], at["grouping"])
    for kind, wanted in (("lrp", made.relevance()), ("ig", made.integrated_gradients()), ("loo", made.loo())):
        shown = json.loads(page.get_attribute(f"[data-kind={kind}]", "data-scores"))
        assert shown == pytest.approx(wanted, rel=1e-12)
    text = page.locator(".lrp-product").inner_text()
    assert f"Shares of f: {', '.join(map(str, shares(made.grouping)))}; they sum to 1." in text
    assert f"Grouping {at['grouping']}: relevance" in text


def frontier_player(page: Any, truth: Any, at: Any) -> None:
    text = truth["passes"][at["text"]]
    step = text["ways"][at["way"]][min(at["step"], len(text["tokens"]))]
    shown = [float(x) for x in page.locator("ol.lrp-tokens").first.get_attribute("data-scores").split()]
    np.testing.assert_allclose(shown, step["scores"], rtol=0, atol=5.1e-5 * np.abs(text["loo"]).max())
    kinds = page.locator("ol.lrp-tokens").first.locator("li").evaluate_all("all => all.map(n => n.className)")
    exact = [i for i, kind in enumerate(kinds) if "lrp-frontier-exact" in kind]
    assert exact == list(step["exact"])
    said = page.locator(".lrp-frontier-said").text_content()
    assert said.startswith(f"{step['forwards']} forward") and f"takes {text['forwards']} forward" in said
    r = re.search(r"r with LOO(?: on words and special tokens)? (\S+?)[;.] ", said)[1]
    assert floats([r]) == pytest.approx([step["r"][at["tokens"]]], abs=0.00505, nan_ok=True)


def shares_simplex(page: Any, truth: Any, at: Any) -> None:
    net, image, digit = truth["net"], truth["images"][[at["digit"]]], truth["digits"][at["digit"]]

    def relevance(point: Any) -> np.ndarray:
        """The map by its own walk through the net, not by a mixture."""
        return net.relevance(image, digit["predicted"], shares=point)[0].numpy()

    scores, none = relevance(at["shares"]), np.zeros(16, dtype=bool)
    protocol = Protocol(tokens="all", map=at["map"])
    gaps = [invariance_gap(scores, relevance(SHARES[side])).relative for side in ("left", "right")]
    wanted = [agreement(scores, digit["loo"], none, protocol), *gaps, float(net(image)[0].max().detach())]
    ((*shown, total),) = rows_of(
        page, "dl", "data-r", "data-gap-left", "data-gap-right", "data-logit", "data-sum"
    )
    np.testing.assert_allclose(shown, wanted, atol=1e-6)
    assert total == pytest.approx(scores.sum(), abs=1e-5 * np.abs(scores).sum())


def protocol_switchboard(page: Any, truth: Any, at: Any) -> None:
    values = cells(BOARDS[at["board"]][at["run"]])
    cell = values[tuple(keys.index(key) for keys, key in zip(AXES.values(), at["choices"], strict=True))]
    words = page.locator(".lrp-words")
    shown = [float(text) for text in words.get_attribute("data-values").split()]
    np.testing.assert_allclose(shown, cell / 10_000, atol=1e-12)
    side = "CP-LRP is nearer to LOO" if cell[7] > 0 else "AttnLRP is nearer to LOO"
    level, open_ = cell[7] > -500 and cell[8] < 500, cell[7] <= 0 <= cell[8] or abs(cell[6]) < 500
    wanted = "level, within 0.05" if level else "open, not within 0.05 and not beyond it" if open_ else side
    assert words.locator("strong").text_content() == wanted
    if at["all"]:
        measured = values[..., 6][values[..., 6] != LACKS]
        assert int(words.get_attribute("data-rank")) == (measured < cell[6]).sum() + 1
    checked = page.locator("fieldset input:checked").evaluate_all("all => all.map(node => node.value)")
    assert checked[-4:] == [at["run"], *at["choices"]]


def check(name: str, page: Any, widget: Any, truth: dict[str, Any]) -> None:
    """Everything that a page says of its state, against the package."""
    if name != "TokenHeatmap":
        globals()[widget.front](page, truth, {key: state_of(page, key) for key in widget.linked()})


def test_no_widget_is_forgotten() -> None:
    alone = {"sentence_box"}  # it needs a model in the page: test_your_sentence.py
    assert {getattr(widgets, name).front for name in [*WRONG, "TokenHeatmap"]} == set(front_ends()) - alone


@with_a_state
def test_numbers_are_the_packages_in_every_state(name: str, made: Any, truth: Any, show: Any) -> None:
    widget = made(name)
    page = show(widget, viewport={"width": 1000, "height": 1000})
    check(name, page, widget, truth)
    for state in drawn(widget, 20):
        put(page, **state)
        check(name, page, widget, truth)


BY_KEY = {"range": "ArrowRight", "number": "ArrowUp", "radio": "Space", "checkbox": "Space"}
ASLEEP = {"LayerToggles": {"text", "other", "compare", "target", "removed"}}
"""States that need a model in the page, or a click on a word."""


def use(control: Any, page: Any, by_key: bool) -> None:
    """Use a control as a reader would, by mouse or by keyboard."""
    tag, kind = control.evaluate("node => [node.tagName, node.type]")
    if tag == "SELECT":
        control.select_option(index=control.evaluate("node => (node.selectedIndex + 1) % node.length"))
    elif kind in ("range", "number"):
        control.focus()
        page.keyboard.press(BY_KEY[kind])
    elif by_key:
        control.focus()
        page.keyboard.press(BY_KEY.get(kind, "Enter"))
    else:
        control.click()


@with_a_state
@pytest.mark.parametrize("by_key", [False, True], ids=["mouse", "keyboard"])
def test_every_control_changes_what_it_says(
    name: str, by_key: bool, made: Any, truth: Any, show: Any
) -> None:
    widget, keys = made(name), set(made(name).linked())
    page = show(widget, viewport={"width": 1000, "height": 1200})
    for fold in page.locator(".lrp-widget summary").all():
        fold.click()
    changed: set[str] = set()
    controls = page.locator(".lrp-widget :is(button, input, select):visible")
    for place in range(200):
        if place >= controls.count():
            break
        control = controls.nth(place)
        if control.is_disabled() or control.text_content() in ("Play", "Pause"):
            continue
        before = {key: state_of(page, key) for key in keys}
        use(control, page, by_key)
        check(name, page, widget, truth)
        changed |= {key for key in keys if state_of(page, key) != before[key]}
    assert changed >= keys - ASLEEP.get(name, set())


@every_widget
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_axe_and_the_tab_key(name: str, theme: str, made: Any, show: Any) -> None:
    page = show(made(name), theme=theme, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not complaints_of_axe(page, ".lrp-widget")
    here, stops = "document.activeElement.closest('.lrp-widget') !== null", 0
    page.keyboard.press("Tab")
    while page.evaluate(here):
        stops += 1
        assert stops < 60, "the Tab key does not leave the widget"
        page.keyboard.press("Tab")
    assert stops, "the Tab key does not reach the widget"


@every_widget
def test_print_has_no_controls_and_without_a_script_there_is_a_picture_or_a_text(
    name: str, made: Any, show: Any, browser: Any, tmp_path: Path
) -> None:
    page = show(made(name))
    page.emulate_media(media="print")
    assert page.locator(".lrp-controls:visible").count() == 0
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(widget_page(made(name), tmp_path))
    assert page.locator(".lrp-widget :is(table, ol, svg)").first.text_content().strip()
    context.close()


@with_a_state
def test_nonsense_in_the_address_is_ignored(name: str, made: Any, visit: Any, tmp_path: Path) -> None:
    """All of it where a reader arrives, and then one after the other, as the address changes."""
    widget, (address, wrong) = made(name), WRONG[name].split(": ")
    url, keys = widget_page(widget, tmp_path), [key for key in widget.state() if key != "data"]
    parts = [f"{address}.{part}" for part in wrong.split(" ")]
    starts = []
    for hash in ("", f"#{'&'.join(parts)}"):
        page = visit(url + hash)
        page.wait_for_selector("[data-ready]")
        starts.append([state_of(page, key) for key in keys])
    assert starts[0] == starts[1]
    for part in parts:
        page.evaluate(ARRIVE, part)
        assert [state_of(page, key) for key in keys] == starts[0], part
        assert page.locator("img").count() == 0


@with_a_state
def test_the_state_survives_in_the_address(name: str, made: Any, show: Any, visit: Any) -> None:
    widget = made(name)
    page, start = show(widget), {key: getattr(widget, key) for key in widget.linked()}
    state = next(state for state in drawn(widget, 9) if sum(state[key] != start[key] for key in state) > 1)
    put(page, **state)
    page.wait_for_function(
        "keys => keys.every(key => location.hash.includes(`.${key}=`))",
        arg=[key for key in state if state[key] != start[key]],
    )
    other = visit(page.url)
    other.wait_for_selector("[data-ready]")
    assert {key: state_of(other, key) for key in state} == state
    assert other.evaluate(SAID) == page.evaluate(SAID)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
@pytest.mark.parametrize("name", ["FrontierPlayer", "PerturbationPlayer", "LayerFlow"])
def test_playing_advances_and_stops_at_the_end(
    name: str, motion: Any, made: Any, browser: Any, tmp_path: Path
) -> None:
    context = browser.new_context(reduced_motion=motion)
    page, widget = context.new_page(), made(name)
    widget.text, widget.step = 1, 0
    page.clock.install(time="2030-01-01T00:00:00")
    page.goto(widget_page(widget, tmp_path))
    page.wait_for_selector("[data-ready]", state="attached")
    page.clock.pause_at("2030-01-01T01:00:00")  # else a slow machine moves it, too
    last = int(page.get_by_role("slider").get_attribute("max"))
    play = page.get_by_role("button", name=re.compile("^(Play|Pause)$"))
    play.focus()
    page.keyboard.press("Space")
    assert play.text_content() == "Pause"
    page.clock.run_for(3500)
    step = state_of(page, "step")
    assert 0 < step < last
    page.keyboard.press("Space")
    page.clock.run_for(5000)
    assert state_of(page, "step") == step and play.text_content() == "Play"
    play.click()
    page.clock.run_for(60_000)
    assert state_of(page, "step") == last and play.text_content() == "Play"
    play.click()
    assert state_of(page, "step") == 0 and play.text_content() == "Pause", "from the end it plays again"
    context.close()
