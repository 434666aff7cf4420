"""What every widget owes its reader: room on a phone, no fault of axe, a way by keyboard, an address that
keeps its state and cannot break it, and of the players that they play. What each one shows is in its own
`test_widget_<name>.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import complaints_of_axe, open_page, put, state_of, widget_page
from widget_cases import widget_arguments

import lrp_companion.widgets as widgets
from lrp_companion.widgets.base import front_ends

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
KEPT: dict[str, dict[str, Any]] = {  # another state than the start, as a reader may leave it
    "FrontierPlayer": {"text": 1, "way": "random", "tokens": "all", "step": 3},
    "HeadStepper": {"q": -1.5, "k": [0, 1, 2], "v": [1, -2, 3], "rules": "cp-lrp", "step": 2},
    "LayerFlow": {"text": 1, "without": True, "cut": True, "step": 2},
    "LayerToggles": {"sentence": 1, "site": "word+position", "bypassed": [1]},
    "OutlierScene": {"without": True, "ranked": True},
    "PerturbationPlayer": {"text": 1, "left": "attnlrp", "right": "loo", "order": "lerf", "step": 3},
    "ProductTree": {"values": [-2.5, 3, 4], "grouping": "x1 (x2 x3)"},
    "ProtocolSwitchboard": {"choices": ["b", "a"]},
    "SharesSimplex": {"shares": [0.2, 0.3, 0.5], "digit": 1, "map": "sum-to-one"},
    "SoftmaxLab": {"logits": [1, 2, 3], "values": [0.5, -0.5, 1.5]},
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


@pytest.fixture(scope="module")
def made(model_folder: Any) -> Callable[[str], Any]:
    """A widget by its name, from a tiny model."""
    import lrp_companion as lrp

    arguments = widget_arguments(lrp.load_classifier(model_folder("bert", layers=2)), "a film of rare grace")
    return lambda name: getattr(widgets, name)(**arguments[name])


def test_no_widget_is_forgotten() -> None:
    alone = {"sentence_box"}  # it needs a model in the page: test_your_sentence.py
    assert {getattr(widgets, name).front for name in [*WRONG, "TokenHeatmap"]} == set(front_ends()) - alone


@every_widget
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_axe_and_the_tab_key(name: str, theme: str, made: Any, show: Any) -> None:
    page = show(made(name), theme=theme, axe=True, viewport={"width": 360, "height": 740})
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
def test_print_has_no_controls_and_without_a_script_there_is_a_text(
    name: str, made: Any, show: Any, browser: Any, tmp_path: Path
) -> None:
    page = show(made(name))
    page.emulate_media(media="print")
    assert page.locator(".lrp-controls:visible").count() == 0
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(widget_page(made(name), tmp_path))
    assert page.locator(".lrp-widget :is(table, ol)").first.inner_text().strip()
    context.close()


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_in_the_address_is_ignored(name: str, made: Any, browser: Any, tmp_path: Path) -> None:
    """All of it where a reader arrives, and then one after the other, as the address changes."""
    context, widget, (address, wrong) = browser.new_context(), made(name), WRONG[name].split(": ")
    url, keys = widget_page(widget, tmp_path), [key for key in widget.state() if key != "data"]
    parts = [f"{address}.{part}" for part in wrong.split(" ")]
    starts = []
    for hash in ("", f"#{'&'.join(parts)}"):
        page, watch = open_page(context, url + hash)
        page.wait_for_selector("[data-ready]")
        starts.append([state_of(page, key) for key in keys])
    assert starts[0] == starts[1]
    for part in parts:
        page.evaluate(ARRIVE, part)
        assert [state_of(page, key) for key in keys] == starts[0], part
        assert page.locator("img").count() == 0 and watch.nothing(), watch
    context.close()


@pytest.mark.parametrize("name", WRONG)
def test_the_state_survives_in_the_address(name: str, made: Any, show: Any, visit: Any) -> None:
    page, wanted = show(made(name)), KEPT[name]
    put(page, **wanted)
    page.wait_for_function("key => location.hash.includes(`.${key}=`)", arg=[*wanted][-1])
    other = visit(page.url)
    other.wait_for_selector("[data-ready]")
    assert {key: state_of(other, key) for key in wanted} == wanted
    assert other.evaluate(SAID) == page.evaluate(SAID)


@pytest.mark.parametrize(
    ("name", "motion", "time"),
    [
        ("FrontierPlayer", "no-preference", 1500),
        ("FrontierPlayer", "reduce", 3100),
        ("PerturbationPlayer", "no-preference", 2000),
        ("PerturbationPlayer", "reduce", 3500),
    ],
)
def test_playing_advances_and_stops_at_the_end(
    name: str, motion: Any, time: int, made: Any, browser: Any, tmp_path: Path
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
    page.clock.run_for(time)
    assert state_of(page, "step") == 2
    page.keyboard.press("Space")
    page.clock.run_for(5000)
    assert state_of(page, "step") == 2 and play.text_content() == "Play"
    play.click()
    if name == "FrontierPlayer":  # a change of what is shown pauses, and keeps the step
        page.get_by_role("radio", name="Random").check()
        page.clock.run_for(5000)
        assert (state_of(page, "step"), state_of(page, "way"), play.text_content()) == (2, "random", "Play")
        play.click()
    page.clock.run_for(60_000)
    assert state_of(page, "step") == last > 2 and play.text_content() == "Play"
    play.click()
    assert state_of(page, "step") == 0 and play.text_content() == "Pause", "from the end it plays again"
    context.close()
