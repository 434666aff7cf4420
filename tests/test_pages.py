"""The built book as a reader meets it: in Chromium, every other host blocked, on a desk and a phone, light
and dark, served and as files.

Needs a built book (`make book`) and Chromium; skips with the reason without them, and fails instead where
LRP_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from browsing import ROOT, Desk, Watch, complaints_of_axe, open_page, resize, serve
from lrp_book.build import page_weights

from lrp_companion.widgets.base import front_ends

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
CHAPTERS = [chapter for part in TOC["parts"] for chapter in part["chapters"]]
FILES = [entry["file"] for chapter in CHAPTERS for entry in (chapter, *chapter.get("sections", ()))]
PAGES = [
    f"{name}.html" for name in [TOC["root"], *FILES] if not name.startswith("book/slides/session")
]  # decks are no pages
WITH_WIDGETS = [f"book/{name}.html" for name in ("index", "small_print", "primer", "your_sentence")]


def rendered(page: Any) -> dict[str, Any]:
    """What stands on the page: formulas asked for, typeset and failed; pictures that did not load."""
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")  # pictures may load when seen
    shown = "const shown = [...document.images].filter(p => p.getClientRects().length);"  # light or dark
    page.wait_for_function(f"(() => {{ {shown} return shown.every(picture => picture.complete); }})()")
    return page.evaluate(
        """() => ({
            asked: document.querySelectorAll('.math').length,
            typeset: document.querySelectorAll('.math mjx-container').length,
            failed: [...document.querySelectorAll('mjx-merror')].map(e => e.textContent),
            broken: [...document.images].filter(p => p.getClientRects().length && !p.naturalWidth)
                .map(p => p.src),
            pictures: document.querySelectorAll('.cell_output img').length,
        })"""
    )


CONTRAST = """() => {
    const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const ground = e => {
        for (; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.99) return c;
        }
        return [255, 255, 255];
    };
    const worst = [];
    const texts = 'article :is(p, h1, h2, td, th, pre, li)';
    for (const e of document.querySelectorAll(texts)) {
        if (!e.innerText || !e.getClientRects().length) continue;
        const [a, b] = [light(numbers(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) worst.push(e.tagName + ': ' + e.innerText.slice(0, 60));
    }
    return worst;
}"""


@pytest.fixture(scope="module", params=PAGES)
def opened(request: pytest.FixtureRequest, site: str, desk: Desk) -> Iterator[tuple[str, Any, Watch]]:
    """One page, opened once for all tests of it."""
    with desk.opened(f"{site}/{request.param}", viewport={"width": 1280, "height": 900}) as (page, watch):
        yield request.param, page, watch


def test_page_renders_and_asks_no_other_host(opened: tuple[str, Any, Watch]) -> None:
    name, page, watch = opened
    seen = rendered(page)
    assert watch.nothing(), watch
    assert seen["asked"] == seen["typeset"] and not seen["failed"], seen
    assert not seen["broken"], seen
    if name.startswith("notebooks/0"):
        assert seen["pictures"] > 0, seen


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_page_is_readable(mode: str, opened: tuple[str, Any, Watch]) -> None:
    _, page, _ = opened
    page.emulate_media(color_scheme=mode)
    page.wait_for_function("mode => document.documentElement.dataset.theme === mode", arg=mode)
    assert not (faint := page.evaluate(CONTRAST)), f"contrast under 4.5 to 1: {faint}"


@pytest.mark.parametrize("name", ["book/course/session2", "book/cheatsheet", "notebooks/04_softmax_rule"])
def test_a_page_is_printed_light(name: str, html: Path, visit: Any) -> None:
    """From a dark screen headings were black on black."""
    page = visit((html / f"{name}.html").as_uri(), color_scheme="dark")
    page.evaluate(
        "addEventListener('beforeprint', () => window.ground = getComputedStyle(document.body)"
        ".backgroundColor)"
    )
    page.pdf(print_background=True)
    assert page.evaluate("window.ground") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the screen's is back"


def test_page_fits_a_phone(opened: tuple[str, Any, Watch]) -> None:
    _, page, _ = opened
    resize(page, 360, 740)
    width = page.evaluate("document.documentElement.scrollWidth")
    wide = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 361)
            .filter(e => {
                while (e = e.parentElement) if (getComputedStyle(e).overflowX !== 'visible') return false;
                return true;
            })
            .map(e => `${e.tagName}.${e.className}: ${e.innerText?.slice(0, 40)}`).slice(0, 8)"""
    )
    assert width <= 360, f"{width} px wide; beyond the edge: {wide}"
    broken = page.evaluate(
        """() => [...document.querySelectorAll('article :is(td, th), article :is(td, th) *')]
            .flatMap(e => [...e.childNodes]).filter(n => n.nodeType === 3)
            .flatMap(n => [...n.data.matchAll(/\\[\\S+, \\S+\\]|^\\s*[−-]?[0-9.]+°?\\s*$/g)].filter(part => {
                const range = document.createRange();
                range.setStart(n, part.index);
                range.setEnd(n, part.index + part[0].length);
                return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
            })).map(part => part[0])"""
    )
    assert not broken, "numbers or intervals in two pieces"
    lists = page.locator(".lrp-list tbody td:not(:first-child, :empty)")
    assert all(cell["heading"] for cell in lists.evaluate_all("cells => cells.map(cell => cell.dataset)"))
    scrolls = page.locator("article .lrp-scrolls tbody")
    assert all(rows > 38 for rows in scrolls.evaluate_all("all => all.map(body => body.rows.length)"))


def test_one_switch_shows_or_hides_the_code_of_all_pages(html: Path, visit: Any) -> None:
    """Remembered, hidden at first on a phone, and chosen before the page is drawn."""
    first, second = (
        (html / f"notebooks/{name}.html").as_uri() for name in ("03_bert_layers", "04_softmax_rule")
    )
    shown = ".cell :is(.cell_input, .above-input):visible"
    for width, code in ((1280, True), (390, False)):
        page = visit(first, axe=".code-switch", viewport={"width": width, "height": 800})
        switch = page.locator(".code-switch")
        assert switch.inner_text() == ("Hide code" if code else "Show code"), "what it does"
        assert page.locator(".code-here:visible").count() == (0 if code else 4), "what is said leads on"
        assert page.evaluate("document.head.querySelector('script[src*=code]:not([defer], [async])')")
        assert (page.locator(shown).count() > 0) is code
        switch.focus()
        page.keyboard.press("Enter")
        assert (page.locator(shown).count() > 0) is not code
        assert switch.inner_text() == ("Show code" if code else "Hide code")
        page.goto(second)
        assert (page.locator(shown).count() > 0) is not code, "remembered"
    plain = visit((html / "book/notation.html").as_uri())
    assert plain.locator(".code-switch").count() == 0


@pytest.mark.parametrize("name", [*WITH_WIDGETS, *(name for name in PAGES if name.startswith("notebooks/"))])
def test_page_works_as_a_plain_file(name: str, html: Path, visit: Any) -> None:
    """Of those that load the data of their widgets."""
    page = visit((html / name).as_uri())
    seen = rendered(page)
    widgets_of(page)
    assert seen["asked"] == seen["typeset"] and not seen["failed"] and not seen["broken"], seen


def test_the_first_page_is_light(html: Path) -> None:
    """Bytes of the page, its scripts and styles, and the font of its icons."""
    page, of_loaded = page_weights(html)["book/index.html"]
    font = next((html / "_static/vendor").rglob("fa-solid-900.woff2")).stat().st_size
    assert page + of_loaded + font <= 1_500_000


def test_first_page_leads_to_the_book(site: str, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{site}/index.html")
    page.wait_for_url(f"**/{PAGES[0]}")
    page.close()


LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "link": "href",
}


def test_page_one_on_a_phone_has_both_panels_on_its_first_screen(html: Path, visit: Any) -> None:
    page = visit((html / "book/index.html").as_uri(), viewport={"width": 390, "height": 844})
    page.wait_for_selector("[data-ready]")
    left, right = (node.bounding_box() for node in page.locator(".lrp-scene-panel svg").all())
    assert left["x"] + left["width"] <= right["x"], "each has its own scale, so neither lies on the other"
    assert right["y"] + right["height"] < 800
    assert "(LOO)" in page.locator("article p").first.inner_text()


def parsed(folder: Path) -> Iterator[tuple[Path, Any]]:
    from bs4 import BeautifulSoup

    for path in folder.rglob("*.html"):
        yield path, BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def outside_loads(soup: Any) -> list[str]:
    """Every address on another host that a page would load."""
    loads = [str(element.get(LOADS[element.name], "")) for element in soup.find_all(list(LOADS))]
    dead = soup.select('script[type^="application/vnd.jupyter.widget"]')
    return [address for address in loads if re.match(r"(https?:)?//", address)] + ["dead widget"] * len(dead)


def test_pages_load_nothing_from_elsewhere_and_their_links_lead_somewhere(html: Path) -> None:
    html, anchors, links, awake, dead = html.resolve(), {}, [], set(), []
    for path, soup in parsed(html):
        assert not outside_loads(soup), path
        if "_static" in path.parts:
            continue
        anchors[path] = {element["id"] for element in soup.select("[id]")}
        awake |= {path} if soup.select("[data-companion-widget]") else set()
        links += [(path, str(element["href"])) for element in soup.select("article a[href], nav a[href]")]
    for path, link in links:
        address = urlsplit(link)
        if address.scheme or address.netloc:
            continue
        target = (path.parent / unquote(address.path)).resolve() if address.path else path
        ids = anchors.get(target, set())
        if "=" in address.fragment:  # the state of a widget, tested with the exercises
            lost = target not in awake
        else:
            place = unquote(address.fragment).removeprefix("/")  # of a slide
            lost = bool(place and ids and place not in ids)
        if not target.exists() or lost:
            dead.append(f"{path.relative_to(html)}: {link}")
    assert not dead


DATA = re.compile(r'data-companion-widget="(\w+)"[^>]*><script type="application/json">(.*?)</script>')
LIMITS = {"layer_toggles": 1_500_000}  # bytes of data a widget may bring; 300,000 for all others


def widgets_of(page: Any) -> list[Any]:
    """All widgets of a page, awake."""
    hosts = page.locator("[data-companion-widget]").all()
    for host in hosts:
        host.scroll_into_view_if_needed()
        page.wait_for_function("host => host.dataset.ready === ''", arg=host.element_handle())
    return hosts


def test_every_widget_is_in_the_book_and_brings_little_data(html: Path) -> None:
    given = [(name, *found) for name in PAGES for found in DATA.findall((html / name).read_text())]
    assert {kind for _, kind, _ in given} == set(front_ends())
    for name, kind, data in given:
        assert len(data) <= LIMITS.get(kind, 300_000), f"{kind} on {name}: {len(data)} bytes"


def test_every_widget_of_the_page_wakes_and_passes_axe(opened: tuple[str, Any, Watch], html: Path) -> None:
    name, page, watch = opened
    given = DATA.findall((html / name).read_text())
    if not given:
        assert not page.locator("[data-companion-widget]").count()
        return
    resize(page, 1280, 900)
    kinds = [host.get_attribute("data-companion-widget") for host in widgets_of(page)]
    assert sorted(kinds) == sorted(kind for kind, _ in given)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("mode => document.documentElement.dataset.theme === mode", arg=theme)
        broken = complaints_of_axe(page, "[data-companion-widget]")
        assert not broken, (theme, broken)
    resize(page, 360, 740)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360, "wider than a phone once its widgets are awake"
    assert watch.nothing(), watch


def test_the_book_works_from_a_sub_folder_of_a_host(html: Path, visit: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "book").mkdir(parents=True)
    (tmp_path / "a" / "book" / "html").symlink_to(html, target_is_directory=True)
    for address in serve(tmp_path):
        widgets_of(visit(f"{address}/a/book/html/notebooks/03_bert_layers.html"))


def test_a_link_into_a_page_brings_its_widget_into_view(site: str, visit: Any) -> None:
    page = visit(f"{site}/notebooks/03_bert_layers.html#layers.bypassed=2,3&layers.sentence=1")
    page.wait_for_selector('[data-companion-widget="layer_toggles"][data-ready]')
    inside = "(e => { const b = e.getBoundingClientRect(); return b.bottom > 0 && b.top < innerHeight })"
    page.wait_for_function(f"{inside}(document.querySelector('[data-companion-widget=layer_toggles]'))")
    pressed = page.locator(".lrp-switch[aria-pressed=true]")
    assert pressed.all_text_contents() == ["L2CP", "L3CP"]
    assert page.evaluate("document.activeElement.dataset.address") == "layers", "Tab goes on from there"


def test_search_says_words_and_in_a_folder_why_there_are_none(html: Path, site: str, browser: Any) -> None:
    context = browser.new_context()
    page, watch = open_page(context, f"{site}/search.html?q=bypassed")
    page.wait_for_selector("#search-results p.context")
    page.wait_for_load_state("networkidle")
    texts = page.locator("#search-results p.context").all_text_contents()
    assert texts and not any("\\(" in text for text in texts)
    page, watch = open_page(context, f"{site}/notebooks/03_bert_layers.html?highlight=loo")
    page.wait_for_selector(".highlighted", state="attached")
    assert watch.nothing(), "a drawing's title has no box to be marked by"
    page, watch = open_page(context, f"{(html / 'search.html').as_uri()}?q=bypassed")
    page.wait_for_selector("#search-results li a")
    assert watch.nothing(), watch
    assert page.locator("#search-results p.context").count() == 0
    assert page.get_by_text("Opened from a folder, the search lists titles").is_visible()
    context.close()
