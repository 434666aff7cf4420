"""Slides and cheat sheet: cells of notebooks on other pages; decks on the screen and on paper."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browsing import ROOT, complaints_of_axe, pages_of, state_of
from lrp_book import student
from lrp_book.sessions import on_slides
from lrp_book.sphinx.slides import find_cell, in_state, part_of_table

from lrp_companion.checks import InputError
from lrp_companion.show import table
from lrp_companion.widgets import ProductTree

SOURCES = {
    path.stem: on_slides(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "book/slides").glob("session*.md"))
}
DECKS = list(SOURCES)
DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def notebook() -> nbformat.NotebookNode:
    shown = nbformat.v4.new_output(
        "execute_result", {"text/html": ProductTree((2, 3, 4)).page_html(), "text/plain": "a tree"}
    )
    cells = [
        nbformat.v4.new_markdown_cell("# One", id="words"),
        nbformat.v4.new_code_cell("1", id="tree", outputs=[shown]),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_cell_is_found_by_its_id_and_by_its_widgets_address() -> None:
    made = notebook()
    assert find_cell(made, "words").source == "# One"
    assert find_cell(made, "tree") is find_cell(made, "product")
    with pytest.raises(InputError, match="'tre'"):
        find_cell(made, "tre")


def test_a_widget_starts_in_the_state_that_is_asked_for_and_leaves_the_address_alone() -> None:
    markup = ProductTree((2, 3, 4)).page_html()
    turned = in_state(markup, "values=2,-3,0.5,4&grouping=(x1 x2) (x3 x4)")
    blob = json.loads(DATA.search(turned)[1])
    assert blob["state"]["values"] == [2, -3, 0.5, 4] and blob["state"]["grouping"] == "(x1 x2) (x3 x4)"
    assert blob["address"]["keys"] == []
    assert DATA.sub("", turned) == DATA.sub("", markup), "only the data change"


def test_a_table_is_shown_in_part() -> None:
    markup = table(
        [{"method": name, "r": value, "n": 3} for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))],
        caption="All",
    )
    whole, part = markup._repr_html_(), part_of_table(markup._repr_html_(), "method | r", "2-9")
    assert all(word in whole for word in (">n<", ">a<", ">3<"))
    assert not [word for word in (">n<", ">a<", ">3<", "0.1") if word in part]
    assert all(word in part for word in (">method<", ">b<", "0.2", ">c<", "0.3", "All", "<style>"))
    assert part_of_table(whole, "", "1").count("<tr>") == 2
    for columns, rows, told in (("q", "", "one of method | r | n"), ("", "4", "1 to 3"), ("", "x", "1 to 3")):
        with pytest.raises(InputError, match=re.escape(told)):
            part_of_table(whole, columns, rows)


@pytest.mark.parametrize("name", DECKS)
def test_the_student_edition_keeps_the_slides_and_drops_all_notes(name: str) -> None:
    before = SOURCES[name]
    after = student.without_solution_blocks(before)
    assert "```{answers}" in before and not re.search(r"\{(answers|notes)\}", after)
    assert re.findall("^#.*", before, re.M) == re.findall("^#.*", after, re.M)
    assert before.count("```{cell}") == after.count("```{cell}")
    dropped = re.findall(r"```\{(?:answers|notes)\}\n(.*?)\n```", before, re.S)
    assert not [text for text in dropped if text in after]


def opened(visit: Any, address: str, theme: str = "light", size: tuple[int, int] = (1280, 720)) -> Any:
    page = visit(address, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    page.wait_for_selector(".reveal[data-ready]")
    return page


def turn_to(page: Any, number: int) -> None:
    page.evaluate("number => Reveal.slide(number)", number)
    page.wait_for_function(
        "() => [...Reveal.getCurrentSlide().querySelectorAll('[data-companion-widget]')]"
        ".every(host => host.dataset.ready === '')"
    )
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


TOO_TALL = """() => {
    const slide = Reveal.getCurrentSlide(), box = slide.getBoundingClientRect(), out = [];
    const floor = box.bottom - 44 / 720 * box.height;
    const shown = 'h1, h2, p, li, pre, table, img, .lrp-widget, .slide-cell, mjx-container';
    for (const node of slide.querySelectorAll(shown)) {
        const place = node.getBoundingClientRect();
        if (node.closest('.notes, .lrp-hidden, mjx-assistive-mml') || !place.width) continue;
        const low = node.closest('.slide-origin') ? box.bottom : floor;
        if (place.right <= box.right + 1 && place.left >= box.left - 1 && place.bottom <= low + 2) continue;
        out.push(`${node.tagName} ${node.textContent.slice(0, 40)}`);
    }
    return out;
}"""


def count(page: Any) -> int:
    return page.evaluate("Reveal.getTotalSlides()")


@pytest.mark.parametrize("name", DECKS)
def test_every_slide_holds_what_it_shows(name: str, site: str, visit: Any) -> None:
    page = opened(visit, f"{site}/book/slides/{name}.html")
    source = SOURCES[name]
    assert count(page) == len(re.findall(r"^#{1,2} ", source, re.M))
    for number in range(count(page)):
        turn_to(page, number)
        title = page.evaluate("Reveal.getCurrentSlide().querySelector('h1, h2').textContent")
        assert not (too_tall := page.evaluate(TOO_TALL)), (name, title, too_tall)
        assert page.evaluate(
            "[...Reveal.getCurrentSlide().querySelectorAll('img')].every(p => p.naturalWidth && p.alt)"
        ), title
        sizes = page.evaluate(
            "[...Reveal.getCurrentSlide().querySelectorAll('.slide-cell')]"
            ".map(c => Number(c.style.zoom || 1))"
        )
        assert all(size >= 0.5 for size in sizes), (title, sizes)
    seen = page.evaluate(
        "[document.querySelectorAll('.math').length, document.querySelectorAll('.math mjx-container').length]"
    )
    assert seen[0] == seen[1] > 0 and page.locator("mjx-merror").count() == 0


def test_no_control_of_a_hidden_slide_is_reached_by_tab(site: str, visit: Any) -> None:
    page = opened(visit, f"{site}/book/slides/session2.html")
    for number in (0, 3, 1):
        turn_to(page, number)
        inert = page.evaluate("[...document.querySelectorAll('.slides > section')].map(slide => slide.inert)")
        assert [k for k, off in enumerate(inert) if not off] == [number]


@pytest.mark.parametrize("name", DECKS)
def test_a_deck_prints_one_page_per_slide(name: str, site: str, visit: Any) -> None:
    page = opened(visit, f"{site}/book/slides/{name}.html?print-pdf")
    page.wait_for_selector(".pdf-page")
    assert page.locator("[data-companion-widget]:not([data-ready])").count() == 0, (
        "a widget is printed as it starts"
    )
    assert pages_of(page.pdf(prefer_css_page_size=True, print_background=True)) == count(page)


@pytest.mark.parametrize("name", DECKS)
def test_slides_pass_axe(name: str, site: str, visit: Any) -> None:
    """A sixth of the slides in each theme: axe takes a second for one."""
    page = opened(visit, f"{site}/book/slides/{name}.html", "dark")
    for theme, first in (("dark", 3), ("light", 0)):
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        for number in range(first, count(page), 6):
            turn_to(page, number)
            assert not (broken := complaints_of_axe(page, ".reveal")), (number, theme, broken)
        page.keyboard.press("t")


def widget_slide(page: Any, kind: str) -> int:
    return page.evaluate(
        "kind => [...document.querySelectorAll('.slides > section')]"
        ".findIndex(s => s.querySelector(`[data-companion-widget=${kind}]`))",
        kind,
    )


def test_arrow_keys_are_the_widgets_while_it_has_the_focus(html: Path, visit: Any) -> None:
    page = opened(visit, (html / "book/slides/session1.html").as_uri())
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == 1
    number = widget_slide(page, "shares_simplex")
    turn_to(page, number)
    assert state_of(page, "shares", place=1) == [0.25, 0.25, 0.5]
    handle = page.locator(
        'section.present [data-companion-widget="shares_simplex"] [role="slider"], '
        'section.present svg [tabindex="0"]'
    ).first
    handle.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number
    assert state_of(page, "shares", place=1)[0] > 0.25, "the widget took the key"
    page.keyboard.press("Escape")
    assert not page.evaluate("Reveal.isOverview()")
    page.keyboard.press("ArrowRight")
    assert page.locator("section.present .slide-asked.visible").count() == 1, "first what was hidden"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number + 1


def test_a_widget_on_a_slide_reacts_and_leaves_the_address_to_the_slides(html: Path, visit: Any) -> None:
    page = opened(visit, (html / "book/slides/session2.html").as_uri())
    number = widget_slide(page, "layer_toggles")
    turn_to(page, number)
    slide = page.locator("section.present")
    assert slide.locator(".lrp-switch[aria-pressed=true]").count() == 0, "the state that the slide asks for"
    slide.locator(".lrp-switch").first.click(force=True)
    assert slide.locator(".lrp-switch[aria-pressed=true]").count() == 1
    page.wait_for_timeout(400)  # a widget writes its address after 200 ms
    assert page.evaluate("location.hash").startswith("#/")
    assert page.evaluate("Reveal.getIndices().h") == number
    link = slide.locator(".slide-origin a")
    assert "03_bert_layers.html#layers.sentence=2&layers.site=word&" in link.get_attribute("href")
    link.focus()
    assert "layers.bypassed=1" in link.get_attribute("href"), "as it stands on the slide"
    slide.get_by_role("button", name="CP-LRP", exact=True).click(force=True)
    page.keyboard.press("ArrowRight")
    assert slide.locator(".slide-asked.visible").count() == 1, "after a button the slides have the key"


def test_choices_of_two_widgets_on_a_page_do_not_exclude_each_other(site: str, visit: Any) -> None:
    page = visit(f"{site}/notebooks/03_bert_layers.html", viewport={"width": 1280, "height": 900})
    for host in page.locator("[data-companion-widget]").all():
        host.scroll_into_view_if_needed()
        page.wait_for_function("host => host.dataset.ready === ''", arg=host.element_handle())
    unset = page.evaluate(
        "[...document.querySelectorAll('fieldset.lrp-choice')]"
        ".filter(f => !f.querySelector(':checked')).map(f => f.textContent)"
    )
    assert not unset


def test_speaker_notes_open_in_a_window_of_their_own(site: str, visit: Any) -> None:
    page = opened(visit, f"{site}/book/slides/session1.html")
    with page.context.expect_page() as popup:
        page.keyboard.press("s")
    speaker = popup.value
    speaker.wait_for_function(
        "document.querySelector('.speaker-controls-notes:not(.hidden) .value')"
        "?.textContent.includes('Minute 0')"
    )
