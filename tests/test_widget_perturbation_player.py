"""PerturbationPlayer: the steps and curves of the package, by mouse, keyboard, address and while playing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from browsing import put, state_of

import lrp_companion as lrp
from lrp_companion import InputError, PerturbationPlayer
from lrp_companion.lab.perturbation_paths import perturbation_paths
from lrp_companion.methods import removal_evaluator
from lrp_companion.metrics import perturbation_curve

TEXTS = ["a film of rare grace", "dull , slow and far too long"]
METHODS = ("loo", "attnlrp", "cp-lrp")


@pytest.fixture(scope="module")
def paths(clf: Any) -> list[dict[str, Any]]:
    return perturbation_paths(clf, TEXTS, {name: lrp.attribute(clf, TEXTS, method=name) for name in METHODS})


@pytest.fixture
def page(paths: Any, show: Any) -> Any:
    page = show(PerturbationPlayer(paths), viewport={"width": 1000, "height": 900}, axe=True)
    put(page, text=0, step=0)
    return page


def test_it_opens_where_the_two_orders_differ_most_and_says_so(paths: Any, show: Any) -> None:
    page = show(PerturbationPlayer(paths))
    gaps = [
        np.abs(np.subtract(*(path["methods"][name]["morf"]["logits"] for name in METHODS[1:])))
        for path in paths
    ]
    text, step = state_of(page, "text"), state_of(page, "step")
    assert gaps[text][step] == max(map(max, gaps)) and page.get_by_role("slider").input_value() == str(step)
    logits = [paths[text]["methods"][name]["morf"]["logits"][step] for name in METHODS[1:]]
    first, second = (f"{logit:.2f}".replace("-", "\N{MINUS SIGN}") for logit in logits)
    said = f"the logit is {first} in the order of AttnLRP, {second} in that of CP-LRP. The lower"
    assert said in page.locator(".lrp-gap").text_content()
    page.get_by_role("radio").nth(1).check()
    assert state_of(page, "step") == step, "another order at the same step"
    put(page, left="loo", step=1)
    assert "The higher one kept" in page.locator(".lrp-gap").text_content()


def check(page: Any, paths: list[dict[str, Any]]) -> None:
    """What stands in the page is what the package computed for this text, step and pair of methods."""
    path, step, order = paths[state_of(page, "text")], state_of(page, "step"), state_of(page, "order")
    for row, side in enumerate(("left", "right")):
        method = path["methods"][state_of(page, side)]
        shown = page.locator("tbody tr").nth(row)
        assert float(shown.get_attribute("data-logit")) == method[order]["logits"][step]
        assert [float(shown.get_attribute(f"data-{name}")) for name in ("morf", "lerf")] == [
            method["morf"]["mean"],
            method["lerf"]["mean"],
        ]
        line = page.locator(f"path.lrp-done.lrp-{side}")
        assert [float(value) for value in line.get_attribute("data-logits").split()] == list(
            method[order]["logits"]
        )
        assert page.locator(f"g.lrp-marks.lrp-{side} path").count() == step + 1
        items = page.locator(f"div.lrp-panel.lrp-{side} li")
        kinds = [item.get_attribute("class") or "" for item in items.all()]
        gone = sorted(i for tokens in method[order]["steps"][:step] for i in tokens)
        assert [i for i, kind in enumerate(kinds) if "lrp-gone" in kind] == gone
        following = method[order]["steps"][step] if step < len(method[order]["steps"]) else []
        assert [i for i, kind in enumerate(kinds) if "lrp-next" in kind] == following


def test_paths_are_what_perturbation_curve_and_the_table_say(paths: list[dict[str, Any]], clf: Any) -> None:
    for k, path in enumerate(paths):
        evaluate = removal_evaluator(clf, TEXTS[k], target=clf.labels.index(path["label"]))
        words_of = np.flatnonzero(~path["special"])
        for method in path["methods"].values():
            ranked = sorted(words_of, key=lambda i, scores=method["scores"]: -scores[i])
            assert method["morf"]["steps"] == [[i] for i in ranked]
            assert method["lerf"]["steps"] == [[i] for i in ranked[::-1]]
            assert path["logit"] == method["morf"]["logits"][0] == method["lerf"]["logits"][0]
            for order in ("morf", "lerf"):
                curve = perturbation_curve(
                    evaluate, method["scores"], order=order, removable=~path["special"]
                )
                # batches differ, and so the last bits
                assert method[order]["logits"] == pytest.approx(curve.logits, abs=1e-12)
                assert method[order]["mean"] == pytest.approx(curve.mean_logit, abs=1e-12)


def test_chunks_go_together(clf: Any) -> None:
    (path,) = perturbation_paths(
        clf, TEXTS[:1], {"loo": lrp.attribute(clf, TEXTS[:1], method="loo")}, chunk=2
    )
    assert [len(step) for step in path["methods"]["loo"]["morf"]["steps"]] in (
        [2, 2, 1],
        [1, 2, 2],
        [2, 1, 2],
    )


def test_paths_refuse_maps_of_other_texts_or_classes(clf: Any) -> None:
    maps = lrp.attribute(clf, TEXTS, method="loo")
    with pytest.raises(InputError, match="one of each text"):
        perturbation_paths(clf, TEXTS, {"loo": maps[::-1]})
    others = lrp.attribute(clf, TEXTS, method="attnlrp", target=[(record.target + 1) % 3 for record in maps])
    with pytest.raises(InputError, match="the same class"):
        perturbation_paths(clf, TEXTS, {"loo": maps, "attnlrp": others})


def test_every_text_order_method_and_step(page: Any, paths: Any) -> None:
    for text, path in enumerate(paths):
        page.locator("select").first.select_option(index=text)
        for place, order in enumerate(("morf", "lerf")):
            page.get_by_role("radio").nth(place).check()
            for left, right in (("loo", "attnlrp"), ("cp-lrp", "loo")):
                put(page, left=left, right=right)
                for step in range(len(path["methods"][left][order]["steps"]) + 1):
                    put(page, step=step)
                    check(page, paths)


def test_buttons_slider_and_keys_step(page: Any, paths: Any) -> None:
    last = len(paths[0]["methods"]["loo"]["morf"]["steps"])
    for name, expected in (
        ("Forward", 1),
        ("Forward", 2),
        ("Back", 1),
        ("Last", last),
        ("Forward", last),
        ("First", 0),
        ("Back", 0),
    ):
        page.get_by_role("button", name=name).click()
        assert state_of(page, "step") == expected
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert state_of(page, "step") == 2
    check(page, paths)
    page.wait_for_function("document.querySelector('[aria-live]').textContent.startsWith('Step 2 of')")
    page.get_by_label("Method ◆").select_option(label="LOO")
    assert state_of(page, "left") == "loo"


def test_a_step_beyond_this_text_is_its_last_and_leaves_no_dead_press(paths: Any, show: Any) -> None:
    last, most = (len(path["methods"]["loo"]["morf"]["steps"]) for path in paths)
    assert last + 1 < most
    page = show(PerturbationPlayer(paths), f"#player.text=0&player.step={most}")
    assert page.locator(".lrp-controls .lrp-readout").text_content() == f"step {last} of {last}"
    page.get_by_role("button", name="Back").click()
    assert state_of(page, "step") == last - 1
    check(page, paths)
    # more than any text has
    page.goto(page.url.split("#")[0] + f"#player.step={most + 1}")
    assert state_of(page, "step") < most + 1


def test_the_chart_names_its_lines_and_the_next_token_its_score(page: Any, paths: Any) -> None:
    put(page, left="loo", step=1)
    names = page.locator(".lrp-curve text").all_text_contents()
    assert {"whole text", "LOO", "CP-LRP", "tokens removed", f"logit of {paths[0]['label']}"} <= set(names)
    method = paths[0]["methods"]["loo"]
    (i,) = method["morf"]["steps"][1]
    said = page.locator("div.lrp-panel.lrp-left p").text_content()
    assert said.startswith(f"next: “{paths[0]['tokens'][i]}” (") and said[-1] == ")"
    shown = said.split("(")[-1][:-1].replace("\u2212", "-")
    assert shown[0] in "+-" and float(shown) == pytest.approx(
        method["scores"][i], abs=10.0 ** -len(shown.split(".")[1])
    )
    assert page.locator("div.lrp-panel.lrp-left li").nth(i).get_attribute("aria-description") == "goes next"
