"""The three sessions, played in Chromium as their notes say; and faults of an earlier deck, put back."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from browsing import ROOT, pages_of
from lrp_book import rehearse, sessions
from lrp_book.sessions import Slide, read_session

import lrp_companion as lrp
from lrp_companion.lab.paper.primary import MARGIN
from lrp_companion.lab.paper.published import paper_paths

SOURCES = ROOT / "book/slides"


@pytest.mark.parametrize("session", rehearse.SESSIONS)
def test_a_session_plays_as_its_notes_say(session: str, html: Path, browser: Any) -> None:
    played = rehearse.rehearse(browser, html / "book/slides", SOURCES, session)
    assert not {one.slide.title: one.faults for one in played if one.faults}
    assert sum(one.minutes for one in played) == sessions.LENGTH
    assert sum(one.steps for one in played) >= 10


def faults(
    html: Path, browser: Any, session: str, title: str, do: str, *, shown: bool = False, say: str = ""
) -> list[str]:
    """What is said of one slide with other steps or words, or with its results on the screen at once."""
    slides = read_session((SOURCES / f"{session}.md").read_text(encoding="utf-8")).slides
    (slide,) = (one for one in slides if one.title == title)
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto((html / "book/slides" / f"{session}.html").as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    if shown:
        page.add_style_tag(content=".slide-cell * { visibility: visible !important }")
    changed = dataclasses.replace(slide, notes={**slide.notes, "Do": do, "Say": say or slide.notes["Say"]})
    (played,) = rehearse.play(page, [changed])
    page.close()
    return played.faults


def test_a_demonstration_that_shows_nothing_is_red(html: Path, browser: Any) -> None:
    """With equal values nothing moves when all logits rise by one."""
    do = "{click}`Show the results` {click}`all logits + 1` {expect}`AttnLRP changes`"
    (told,) = faults(html, browser, "session3", "Claim 2: one step to vary", do)
    assert told.startswith("expected AttnLRP changes: AttnLRP 0.125 0.125 0.125 0.125")


def test_an_answer_on_the_screen_before_its_vote_is_red(html: Path, browser: Any) -> None:
    title = "Claim 2: one step to vary"
    assert not faults(html, browser, "session3", title, "")
    (told,) = faults(html, browser, "session3", title, "", shown=True)
    assert "before it is shown" in told


NOTES = "```{{notes}}\n:minute: {}\n**Say.** {}\n\n**Ask.** Who?\n\n**Next.** Turn.\n```\n"
EARLY = {
    "## A vote\n\nHands up.\n\n{}## Reversed\n\n{}": "the heading answers what the room is asked",
    "## One\n\nA site.\n\n{}## Two\n\nThe **site** is a place.\n\n{}": "'site' is said before it is defined",
    "## A vote\n\nThe **site**.\n\n{}## Who is ahead?\n\nBy site.\n\n{}": "",
}


@pytest.mark.parametrize(("deck", "fault"), EARLY.items())
def test_a_heading_or_a_word_that_comes_too_early_is_red(deck: str, fault: str) -> None:
    """A vote was given away by "The same sentence, reversed"; words came before their definitions."""
    source = "# Deck\n\n```{part} All\nPlay.\n```\n\n{}" + deck
    slides = read_session(
        source.replace("{}", "%s") % tuple(NOTES.format(k, "Look.") for k in range(3))
    ).slides
    assert [told for _, told in rehearse.too_early(slides)] == ([fault] if fault else [])


def test_minutes_of_looking_are_no_minutes_to_speak() -> None:
    slide = sessions.Slide(1, "A", 0, {"Say": "word " * 150, "Ask": "Who?"})
    assert not rehearse.Played(slide, 2).clock()
    assert rehearse.Played(slide, 2, looking=1.0).clock()


def test_a_number_that_is_said_and_not_shown_is_red(html: Path, browser: Any) -> None:
    """A lead of 0.30 was said over a table that has 0.52 and 0.22."""
    say = "The first row is 1.00 and the last 0.52; once it was 0.5123."
    (told,) = faults(html, browser, "session3", "Claim 3: the paper's number", "", say=say)
    assert told == "0.5123 is said and is not on the slide"


def test_a_control_that_is_not_there_is_red(html: Path, browser: Any) -> None:
    (told,) = faults(html, browser, "session1", "Group it yourself", "{click}`flatten`")
    assert told == "there is no control flatten"


def test_handouts_are_printed_and_a_run_sheet_has_two_pages(html: Path, browser: Any, tmp_path: Path) -> None:
    made = rehearse.write_handouts(browser, html / "book", tmp_path)
    pages = {path.stem: pages_of(path.read_bytes()) for path in made}
    assert all(pages.values()) and max(pages[f"sheet{number}"] for number in (1, 2, 3)) == 2


COUNTED = "sentences|reviews|texts|trainings|steps|networks"
WHOLE = rf"\d{{1,3}}(?:,\d{{3}})+|\d+(?= ?%| percent| (?:{COUNTED}))|\d{{3,}}"
NUMBER = rf"(?<![\w.,/-])(?:\d+\.\d+|{WHOLE})(?![\w,])"
NO_NUMBERS = r"^:\w+: .*|^```.*|arXiv \S+|\b20\d\d\b|95 % [*i]\S*|\{\w+\}`[^`]*`|\]\([^)]*\)|<[^>]*>"


CHANGES = {  # what the session's notebook asks for under "Change one thing"
    "pairs": {"values = {": 'values = {"x4": 5, ', '(("x1", "x2"), "x3")': '(("x1", "x2"), ("x3", "x4"))',
              '("x1", ("x2", "x3"))': '((("x1", "x2"), "x3"), "x4")', "2 * 3 * 4": "2 * 3 * 4 * 5"},
    "word": {'site="word+position"': 'site="word"'},
    "mask": {"rules = {": 'rules = {"mask-gradient": "mask gradient", '},
    "alone": {'rank": {"statistic": "spearman"}': 'rank": {"tokens": "all"}',
              'whole | {"statistic": "spearman"}': '{"site": "word+position"}',
              "show.table(rows,": "show.table(rows, digits=3,"},
    "three": {"(declared)": '(declared | {"tokens": "all", "site": "word+position", "map": "sum-to-one"})'},
}  # fmt: skip


@cache
def changed(session: str, cell: str, change: str) -> str:
    """What a cell of a session's notebook prints and returns after a change."""
    changes = {'"results"  #': f"{str(ROOT / 'results')!r}  #", **CHANGES[change]}
    scope: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for one in json.loads((ROOT / f"notebooks/{session}.ipynb").read_text(encoding="utf-8"))["cells"]:
            code = "".join(one["source"]) if one["cell_type"] == "code" else ""
            for old, new in changes.items():
                code = code.replace(old, new)
            *body, last = ast.parse(code or "pass").body
            value = isinstance(last, ast.Expr)
            exec(compile(ast.Module(body if value else [*body, last], []), session, "exec"), scope)
            said = eval(compile(ast.Expression(last.value), session, "eval"), scope) if value else ""
            if one["id"] == cell:
                break
    return f"{printed.getvalue()} {said}"


def source(text: str) -> str:
    """What a source says: a cell's output ("PAGE ID"), a page, or Python on records and the paper's table."""
    if page := re.fullmatch(r"(notebooks/\S+) (\S+)", text):
        cells = json.loads((ROOT / f"{page[1]}.ipynb").read_text(encoding="utf-8"))["cells"]
        (outputs,) = (cell.get("outputs", []) for cell in cells if cell["id"] == page[2])
        return " ".join("".join(of.get("text", of.get("data", {}).get("text/plain", ""))) for of in outputs)
    if text.endswith(".md"):
        return (ROOT / "book" / text).read_text(encoding="utf-8")
    known = {
        "changed": changed,
        "record": lambda name: lrp.open_record(name, results=ROOT / "results"),
        "MARGIN": MARGIN,
    }
    return str(eval(text, {**known, "paper": paper_paths("SST")["back-to-front"]}))


def unsourced(slide: Slide) -> list[str]:
    """Numbers on a slide or in its notes that no formula or cell of it has, nor a source after **From.**"""
    cells = re.findall(r"\{cell\} (notebooks/\S+ \S+)$", slide.shown, re.MULTILINE)
    given = re.findall(r"\$[^$]+\$|^```python\n.*?^```|^:state: .*", slide.shown, re.MULTILINE | re.DOTALL)
    given += [source(name) for name in cells if not re.search(" [a-z]+$", name)]  # of a widget, its state
    given += map(source, re.findall(r"\{include\} \.\./(\S+)", slide.shown))
    told = re.findall(r"([^:`]+): `([^`]+)`", slide.notes.get("From", ""))
    text = " ".join([slide.shown, *(slide.notes.get(label, "") for label in ("Say", "Ask", "Hear"))])
    typed = re.findall(NUMBER, re.sub(NO_NUMBERS, "", text, flags=re.MULTILINE))

    def without(numbers: list[str], said: str) -> list[str]:
        return [n for n in numbers if not re.search(rf"(?<![\d.]){re.escape(n)}(?!\d|\.\d)", said)]

    wrong = [f"{n}: {of}" for names, of in told for n in without(re.findall(NUMBER, names), source(of))]
    return wrong + without(sorted(set(typed)), " ".join([*given, *(names for names, _ in told)]))


@pytest.mark.parametrize("session", rehearse.SESSIONS)
def test_every_typed_number_has_a_source_that_says_it(session: str) -> None:
    slides = read_session((SOURCES / f"{session}.md").read_text(encoding="utf-8")).slides
    assert not {slide.title: found for slide in slides if (found := unsourced(slide))}
    last = slides[-1]
    for typed, said in (("0.77", ""), ("44 percent", ""), ("", "0.77: `notebooks/session2 s2-cut`.")):
        notes = {**last.notes, "From": said}
        assert unsourced(dataclasses.replace(last, shown=f"{last.shown} {typed}", notes=notes))


EXPECTED = [
    ("session1", [("s1-both", "pairs"), ("s1-loo-both", "pairs")]),
    ("session2", [("s2-share", "word"), ("s2-share", "mask")]),
    ("session3", [("s3-primary", "three")]),
]


@pytest.mark.parametrize(("session", "made"), EXPECTED)
def test_one_thing_changed_gives_what_the_notebook_says(session: str, made: list[tuple[str, str]]) -> None:
    """The task once said neither in which cell nor what to expect."""
    text = (ROOT / f"notebooks/{session}.ipynb").read_text(encoding="utf-8")
    (said,) = re.findall(r"What you should see</summary>(.*?)</details>", text, re.DOTALL)
    seen = " ".join([*(changed(session, *one) for one in made), source("notebooks/session3 s3-questions")])
    numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]\w)", said)
    assert len(numbers) >= 2 and not [n for n in numbers if not re.search(rf"(?<![\d.]){n}", seen)]
