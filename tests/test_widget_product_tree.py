"""The product as a tree: every grouping by mouse and keyboard, and every number in the page against
`Product`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from itertools import product as cartesian
from typing import Any

import pytest
from browsing import becomes, complaints_of_axe, state_of

from lrp_companion.toys.product import Grouping, Product, flat, leaves_of, left, parse, right, shares, write
from lrp_companion.widgets import ProductTree

Open = Callable[..., Any]


def every_grouping(leaves: Sequence[int]) -> Iterator[Grouping]:
    """All ways to group these factors in order, products of three and more included."""
    if len(leaves) == 1:
        yield leaves[0]
    for parts in range(2, len(leaves) + 1):
        for cuts in combinations(range(1, len(leaves)), parts - 1):
            edges = (0, *cuts, len(leaves))
            yield from cartesian(
                *(list(every_grouping(leaves[a:b])) for a, b in zip(edges, edges[1:], strict=False))
            )


def bracket(node: Grouping) -> str:
    return write(node) if isinstance(node, int) else f"({write(node)})"


def clicks_to(tree: Grouping) -> list[str]:
    """Names of the controls that lead from the flat product to a grouping."""

    def inner(node: Grouping) -> list[str]:
        if isinstance(node, int):
            return []
        names = [name for part in node for name in inner(part)]
        whole, passing = node[0], []
        for part in node[1:]:
            names.append(f"Multiply {bracket(whole)} and {bracket(part)} first")
            whole = (whole, part)
            passing.append(f"Dissolve the product {write(whole)}")
        if len(node) == 2:
            return names
        for _ in node[2:]:  # a product of three and more is made of pairs, from the outside in
            whole = whole[0]  # type: ignore[index]
            names.append(f"Dissolve the product {write(whole)}")
        return names

    return [] if isinstance(tree, int) else [name for part in tree for name in inner(part)]


def short(number: float) -> str:
    """At most four significant digits, for numbers that need no exponent."""
    return f"{float(f'{number:.4g}'):.15g}".replace("-", "\N{MINUS SIGN}")


def scores(page: Any, kind: str) -> tuple[float, ...]:
    return tuple(json.loads(page.get_attribute(f"[data-kind={kind}]", "data-scores")))


def check(page: Any, values: Sequence[float], grouping: str) -> None:
    """Everything that stands in the page against the package."""
    truth = Product([float(value) for value in values], grouping)
    n = len(values)
    assert (scores(page, "lrp"), scores(page, "ig"), scores(page, "loo")) == (
        truth.relevance(),
        truth.integrated_gradients(),
        truth.loo(),
    )
    shown = ", ".join(map(short, truth.relevance()))
    assert (
        page.inner_text(".lrp-head") == f"Grouping {grouping}: relevance {shown} of f = {short(truth.value)}."
    )
    assert page.inner_text(".lrp-product > p.lrp-readout:last-of-type, .lrp-chart + p") == (
        f"Shares of f: {', '.join(map(str, shares(truth.grouping)))}; they sum to 1. "
        f"LOO sums to {n} f = {short(sum(truth.loo()))}."
    )
    handed = [step.share for step in truth.steps() for _ in step.parts]
    assert sorted(page.locator(".lrp-flow").all_text_contents()) == sorted(
        f"↓ {short(share)}" for share in handed
    )
    boxes = page.locator(".lrp-box b").all_text_contents()
    assert sorted(boxes) == sorted(short(step.value) for step in truth.steps())
    assert [float(box.input_value()) for box in page.locator("input").all()] == [
        float(value) for value in values
    ]
    pressed = [
        name for name, make in (("left", left), ("right", right), ("flat", flat)) if make(n) == truth.grouping
    ]
    assert page.locator("[aria-pressed=true]").all_text_contents() == pressed


@pytest.fixture
def opened(show: Any) -> Open:
    def go(
        values: Sequence[float] = (2, 3, 4), grouping: str = "(x1 x2) x3", *, hash: str = "", width: int = 900
    ) -> Any:
        return show(ProductTree(values, grouping), hash, viewport={"width": width, "height": 900})

    return go


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def box(page: Any, name: str) -> Any:
    return page.get_by_role("spinbutton", name=name, exact=True)


class TestPython:
    def test_the_state_is_checked_and_written_in_one_way(self) -> None:
        widget = ProductTree((2, 0.5, -4), "((x1)*(x2·x3))")
        assert widget.grouping == "x1 (x2 x3)"
        assert widget.values == [2.0, 0.5, -4.0]
        assert repr(widget) == "ProductTree(x1 (x2 x3) = -4)"
        widget.values = [1, 2, 3, 4]
        assert widget.grouping == "x1 x2 x3 x4"
        widget.grouping = "(x1 x2) (x3 x4)"
        assert widget.state()["grouping"] == "(x1 x2) (x3 x4)"
        widget.set_state({"values": [5, 6], "grouping": "x1 x2"})  # as the front end sends it
        assert repr(widget) == "ProductTree(x1 x2 = 30)"

    def test_the_fallback_has_every_number(self) -> None:
        page = ProductTree((2, -3, 4)).fallback()
        for text in ("(x1 x2) x3 = -24", "x2 = -3", "1/4", ">-12</td>", ">-8</td>", ">-72</td>"):
            assert text in page
        assert len(ProductTree().page_html()) < 5000


class TestGroupings:
    def test_all_eleven_of_four_factors_by_mouse(self, opened: Open) -> None:
        trees = list(every_grouping(range(4)))
        assert len(set(trees)) == 11
        page, values = opened((2, -3, 0.5, 7), "x1 x2 x3 x4"), (2, -3, 0.5, 7)
        for tree in trees:
            press(page, "flat")
            for name in clicks_to(tree):
                press(page, name)
            assert parse(state_of(page, "grouping")) == tree
            check(page, values, write(tree))

    def test_by_keyboard_with_one_tab_stop(self, opened: Open) -> None:
        page = opened((2, 3, 4, 5), "x1 x2 x3 x4")
        key, focused = page.keyboard.press, "document.activeElement.getAttribute('aria-label')"
        page.get_by_role("button", name="Add a factor").focus()
        key("Tab")
        assert page.evaluate(focused) == "Multiply x1 and x2 first"
        key("Tab")
        assert page.evaluate(focused) == "x1"  # the tree is one stop; then come the numbers
        key("Shift+Tab")
        for arrows, then, grouping, focus in (
            (["ArrowRight"], "Enter", "x1 (x2 x3) x4", "Dissolve the product x2 x3"),
            (["End"], "Space", "x1 ((x2 x3) x4)", "Dissolve the product (x2 x3) x4"),
            (["ArrowRight"], "Enter", "x1 (x2 x3 x4)", "Multiply x2 and x3 first"),
            (["ArrowRight"], "Enter", "x1 (x2 (x3 x4))", "Dissolve the product x3 x4"),
            (["Home"], "Enter", "x1 x2 (x3 x4)", "Multiply x2 and (x3 x4) first"),
            (
                ["ArrowRight", "ArrowUp", "ArrowLeft"],
                "Space",
                "(x1 x2) (x3 x4)",
                "Dissolve the product x1 x2",
            ),
        ):
            for arrow in arrows:
                key(arrow)
            key(then)
            assert page.evaluate(focused) == focus
            assert page.locator(".lrp-stage [tabindex='0']").count() == 1
            check(page, (2, 3, 4, 5), grouping)
        said = "Grouping (x1 x2) (x3 x4): relevance 30, 30, 30, 30 of f = 120."
        becomes(page, lambda: page.inner_text("[role=status]"), said)

    def test_presets(self, opened: Open) -> None:
        page = opened((2, 3, 4, 5, 6), "x1 x2 (x3 x4) x5")
        check(page, (2, 3, 4, 5, 6), "x1 x2 (x3 x4) x5")
        for name, make in (("left", left), ("right", right), ("flat", flat)):
            press(page, name)
            check(page, (2, 3, 4, 5, 6), write(make(5)))

    @pytest.mark.parametrize("width", [360, 900])
    def test_nothing_covers_anything(self, opened: Open, width: int) -> None:
        page = opened((2, -3, 4.25, 500, 0.0617), "x1 x2 x3 x4 x5", width=width)
        overlaps = """() => {
            const boxes = [...document.querySelectorAll('.lrp-stage > :not(svg)')]
                .map((node) => [node, node.getBoundingClientRect()]);
            const stage = document.querySelector('.lrp-product').getBoundingClientRect(), bad = [];
            boxes.forEach(([a, p], i) => {
                if (p.left < stage.left - 1 || p.right > stage.right + 1) bad.push(`out: ${a.textContent}`);
                for (const [b, q] of boxes.slice(i + 1))
                    if (p.right > q.left + 1 && q.right > p.left + 1
                        && p.bottom > q.top + 1 && q.bottom > p.top + 1)
                        bad.push(`${a.textContent} | ${b.textContent}`);
            });
            return bad;
        }"""
        trees = [tree for n in range(2, 6) for tree in every_grouping(range(n))]
        assert len(trees) == 1 + 3 + 11 + 45
        bad = {}
        for tree in trees:
            state = {"values": [2, -3, 4.25, 500, 0.0617][: len(leaves_of(tree))], "grouping": write(tree)}
            page.evaluate(
                "state => { for (const key in state) "
                "document.querySelector('.lrp-widget').companion.model.set(key, state[key]); }",
                state,
            )
            if covered := page.evaluate(overlaps):
                bad[write(tree)] = covered
        assert not bad


class TestValues:
    def test_typed(self, opened: Open) -> None:
        page = opened()
        for text, value in (("-1.5", -1.5), ("0", 0), ("2e-3", 0.002), (".25", 0.25)):
            box(page, "x2").fill(text)
            check(page, (2, value, 4), "(x1 x2) x3")
        box(page, "x2").press("ArrowUp")
        check(page, (2, 1.25, 4), "(x1 x2) x3")
        box(page, "x2").press_sequentially("5")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "x2"
        check(page, (2, 1.255, 4), "(x1 x2) x3")

    @pytest.mark.parametrize("text", ["", "1e70"])
    def test_what_is_no_number_is_said_and_the_last_one_kept(self, opened: Open, text: str) -> None:
        page = opened()
        x2 = box(page, "x2")
        x2.fill(text)
        assert x2.get_attribute("aria-invalid") == "true"
        assert page.inner_text(".lrp-problem") == "x2 must be a number of at most 1e60 in size; 3 is kept."
        assert state_of(page, "values") == [2, 3, 4]
        assert not complaints_of_axe(page, ".lrp-widget")
        x2.blur()
        assert x2.get_attribute("aria-invalid") == "false"
        assert page.locator(".lrp-problem").is_hidden()
        check(page, (2, 3, 4), "(x1 x2) x3")

    @pytest.mark.parametrize(("text", "value"), [("7", 7), ("", 3)])
    def test_the_first_click_after_typing_counts(self, opened: Open, text: str, value: float) -> None:
        page = opened((2, 3, 4, 5), "x1 x2 x3 x4")
        box(page, "x2").press("ControlOrMeta+a")
        page.keyboard.press("Backspace")
        page.keyboard.type(text)
        press(page, "Multiply x2 and x3 first")
        check(page, (2, value, 4, 5), "x1 (x2 x3) x4")
        assert page.locator(".lrp-problem").is_hidden()

    def test_add_and_remove(self, opened: Open) -> None:
        page = opened()
        more, less = "Add a factor", "Remove the last factor"
        for name, values, grouping in (
            (more, (2, 3, 4, 5), "((x1 x2) x3) x4"),  # a preset is kept
            (more, (2, 3, 4, 5, 6), "(((x1 x2) x3) x4) x5"),
            (more, (2, 3, 4, 5, 6), "(((x1 x2) x3) x4) x5"),
            ("Dissolve the product ((x1 x2) x3) x4", (2, 3, 4, 5, 6), "((x1 x2) x3) x4 x5"),
            ("Multiply x4 and x5 first", (2, 3, 4, 5, 6), "((x1 x2) x3) (x4 x5)"),
            (less, (2, 3, 4, 5), "((x1 x2) x3) x4"),
            ("flat", (2, 3, 4, 5), "x1 x2 x3 x4"),
            ("Multiply x2 and x3 first", (2, 3, 4, 5), "x1 (x2 x3) x4"),
            (more, (2, 3, 4, 5, 6), "x1 (x2 x3) x4 x5"),  # else the new factor joins the last multiplication
            (less, (2, 3, 4, 5), "x1 (x2 x3) x4"),
            (less, (2, 3, 4), "x1 (x2 x3)"),
            (less, (2, 3), "x1 x2"),
            (less, (2, 3), "x1 x2"),
        ):
            page.get_by_role("button", name=name, exact=True).click(force=True)
            check(page, values, grouping)
        assert page.get_by_role("button", name=less).get_attribute("aria-disabled") == "true"

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1e7, "1e7"),
            (-1234567.0, "−1.235e6"),
            (123456.0, "123500"),
            (0.00001234, "1.234e−5"),
            (1 / 3, "0.3333"),
            (-0.0, "0"),
            (1.05e10, "1.05e10"),
        ],
    )
    def test_numbers_are_short(self, opened: Open, value: float, text: str) -> None:
        page = opened((1, value), "x1 x2")
        assert page.inner_text(".lrp-head").endswith(f"of f = {text}.")
