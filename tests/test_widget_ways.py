"""What every widget owes its reader: room on a phone, no fault of axe, a way by keyboard, an address that
cannot break it. What each one shows is in its own `test_widget_<name>.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import complaints_of_axe, open_page, state_of, widget_page
from widget_cases import widget_arguments

import lrp_companion.widgets as widgets
from lrp_companion.widgets.base import front_ends

WRONG = {  # by the widget's name in an address: what a link may hold that names no state
    "FrontierPlayer": "passes: text=2 text=-1 text=0.5 step=99 step=-1 step=1.5 way=nobody way=toString"
    " tokens=constructor way=<b>",
    "HeadStepper": "head: step=9 k=1,2 v=1,2,99 rules=constructor q=<b>",
    "LayerFlow": "flow: text=2 step=99 step=-1 step=0.5 text=<b> without=2",
    "LayerPaths": "paths: run=<b> protocol= path=sideways layer=0 layer=13 layer=1.5",
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
every_widget = pytest.mark.parametrize("name", [*WRONG, "TokenHeatmap"])


@pytest.fixture(scope="module")
def made(model_folder: Any) -> Callable[[str], Any]:
    """A widget by its name, from a tiny model."""
    import lrp_companion as lrp

    arguments = widget_arguments(lrp.load_classifier(model_folder("bert", layers=2)))
    return lambda name: getattr(widgets, name)(**arguments[name])


def test_no_widget_is_forgotten() -> None:
    alone = {"sentence_box"}  # it needs a model in the page: test_your_sentence.py
    assert {getattr(widgets, name).front for name in [*WRONG, "TokenHeatmap"]} == set(front_ends()) - alone


@every_widget
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_axe_and_the_tab_key(name: str, theme: str, made: Any, browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page, watch = open_page(context, widget_page(made(name), tmp_path, theme=theme))
    page.wait_for_selector("[data-ready]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not complaints_of_axe(page, ".lrp-widget")
    here, stops = "document.activeElement.closest('.lrp-widget') !== null", 0
    page.keyboard.press("Tab")
    while page.evaluate(here):
        stops += 1
        assert stops < 60, "the Tab key does not leave the widget"
        page.keyboard.press("Tab")
    assert stops, "the Tab key does not reach the widget"
    assert not complaints_of_axe(page, ".lrp-widget") and watch.nothing(), watch
    context.close()


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_in_the_address_is_ignored(name: str, made: Any, browser: Any, tmp_path: Path) -> None:
    context, widget, (address, wrong) = browser.new_context(), made(name), WRONG[name].split(": ")
    url, keys, start = widget_page(widget, tmp_path), [key for key in widget.state() if key != "data"], None
    for part in ("", *wrong.split(" ")):
        page, watch = open_page(context, f"{url}#{address}.{part}" if part else url)
        page.wait_for_selector("[data-ready]")
        state = [state_of(page, key) for key in keys]
        start = start or state
        assert state == start, part
        assert page.locator("img").count() == 0 and watch.nothing(), watch
        page.close()
    context.close()
