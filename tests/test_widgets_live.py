"""A widget in JupyterLab, with a kernel: a click reaches Python, Python repaints the view, a typed sentence
is explained.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from browsing import jupyterlab, missing, open_page

CELLS = [
    """import lrp_companion as lrp
clf = lrp.load_classifier({folder!r})
def explain(text):
    return lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")[0]
toggles = lrp.LayerToggles(*explain("a film of rare grace"))
live = lrp.LiveSentence(toggles, explain)
live""",
    'print("in Python:", toggles.bypassed)',
    "toggles.bypassed = [1, 3]",
    "toggles.site = 'word+position'; print('read at', toggles.site)",
    """from lrp_companion.lab.digit_invariance import share_digits
from lrp_companion.lab.perturbation_paths import anytime_maps
from lrp_companion.lab.perturbation_paths import perturbation_paths
import numpy as np
net, images = lrp.LinearAttention(seed=1), np.random.default_rng(0).random((2, 14, 14))
text = ["a film of rare grace"]
maps = {m: lrp.attribute(clf, text, method=m) for m in ("loo", "cp-lrp")}
others = [lrp.ProductTree(), lrp.SoftmaxLab(), lrp.SharesSimplex(share_digits(net, images, [0, 1])),
          lrp.PerturbationPlayer(perturbation_paths(clf, text, maps)), lrp.TokenHeatmap(maps["loo"])]
import base64
packed = lambda values, kind: base64.b64encode(np.array(values, kind).tobytes()).decode()
cells = [[0, -100, 100, 3000, 2900, 3100, 3000, 2800, 3200],
         [0, -100, 100, -3000, -3100, -2900, -3000, -3200, -2800]]
both = [{"key": "all", "label": "all"}, {"key": "words", "label": "words only"}]
tokens = {"key": "tokens", "label": "tokens that count", "options": both}
made = {"key": "one", "label": "one run", "n": 9, "paper": None, "cells": packed(cells, "<i2"),
        "undefined": packed([0, 0], "<u2")}
board = {"key": "text", "label": "Reviews", "a": "CP-LRP", "b": "AttnLRP", "axes": [tokens],
         "runs": [made], "start": {"run": "one", "tokens": "all"}, "presets": []}
others.append(lrp.ProtocolSwitchboard({"boards": [board]}))
others.append(lrp.FrontierPlayer(anytime_maps(clf, text)))
for widget in others:
    display(widget)""",
    """print('seen:', others[0].grouping, others[1].logits[0],
      [round(share, 2) for share in others[2].shares], others[3].step,
      others[5].choices, others[6].way, others[6].step)""",
    "others[6].step = 2; others[0].grouping = 'x1 (x2 x3)'; others[1].logits = [1, 2, 3, 4]; "
    "others[3].step = 0",
]


@pytest.fixture(scope="module")
def lab(model_folder: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if importlib.util.find_spec("jupyterlab") is None:
        missing("jupyterlab is not installed; install the extra dev")
    home = tmp_path_factory.mktemp("lab")
    cells = [
        nbformat.v4.new_code_cell(text.replace("{folder!r}", repr(str(model_folder("bert", layers=3)))))
        for text in CELLS
    ]
    kernel = {
        "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
        "language_info": {"name": "python"},
    }
    (home / "work").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "work" / "live.ipynb")
    with jupyterlab(home / "work") as address:
        yield address


def run_cell(page: Any, place: int) -> Any:
    """Run the cell at a place and return it."""
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(place)
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    return cell


def test_a_widget_lives_in_jupyterlab(lab: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 1400})
    page, watch = open_page(context, f"{lab}/lab/tree/live.ipynb")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    first = run_cell(page, 0)
    # it may ask for the kernel
    page.add_locator_handler(page.locator(".jp-Dialog .jp-mod-accept"), lambda button: button.click())
    first.locator(".lrp-switch").first.wait_for()
    assert first.locator("li bdi").first.text_content() == "[CLS]"

    first.locator(".lrp-switch").nth(1).click()
    said = run_cell(page, 1).locator(".jp-OutputArea-output")
    said.wait_for()
    assert "in Python: [2]" in said.inner_text()

    run_cell(page, 2)
    first.locator(".lrp-switch[aria-pressed=true]").nth(1).wait_for()
    assert [switch.get_attribute("aria-pressed") for switch in first.locator(".lrp-switch").all()] == [
        "true",
        "false",
        "true",
    ]

    box = first.get_by_role("textbox", name="Sentence")
    box.fill("dull and slow")
    box.press("Enter")
    page.wait_for_function(
        "[...document.querySelectorAll('.lrp-tokens li bdi')].some(token => token.textContent === 'dull')"
    )
    assert first.locator(".lrp-switch[aria-pressed=true]").count() == 2, "the layers keep their state"

    box.fill("<img src=x onerror=alert(1)>" + " again" * 3000)
    box.press("Enter")
    page.wait_for_function("document.body.innerText.includes('Next step')")
    run_cell(page, 3)
    page.wait_for_selector("input[value='word+position']:checked")

    cell = run_cell(page, 4)
    cell.get_by_role("button", name="flat", exact=True).first.click()
    cell.get_by_role("button", name="one dominates").click()
    cell.get_by_role("button", name="right").last.click()
    for name in ("First", "Forward"):
        cell.get_by_role("button", name=name, exact=True).click()
    assert cell.locator("ol.lrp-tokens").count() == 5
    cell.get_by_role("radio", name="Random").check()
    cell.get_by_role("slider", name="Step").last.press("End")
    cell.get_by_role("radio", name="words only").first.check()
    said = run_cell(page, 5).locator(".jp-OutputArea-output")
    said.wait_for()
    assert "seen: x1 x2 x3 6.0 [0.5, 0.25, 0.25] 1 ['words'] random 7" in said.inner_text()
    run_cell(page, 6)
    cell.get_by_role("button", name="right").first.and_(page.locator("[aria-pressed=true]")).wait_for()
    cell.get_by_text("step 0 of 5", exact=True).wait_for()
    cell.get_by_text("step 2 of 7", exact=True).wait_for()
    assert not [url for url in watch.outside if "jupyter" not in url], watch.outside
    context.close()
