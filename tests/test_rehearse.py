"""The three sessions, played in Chromium as their notes say; and faults of an earlier deck, put back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from browsing import ROOT, pages_of
from lrp_book import rehearse, sessions
from lrp_book.sessions import read_session

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
