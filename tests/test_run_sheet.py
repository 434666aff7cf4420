"""Plan and deck of each session as one: slides, minutes and order; and the run sheets made from both."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import ROOT, open_page
from lrp_book.sphinx.run_sheet import check_plan, read_deck, read_plan, sheet

from lrp_companion.checks import InputError

SESSIONS = sorted(path.stem for path in (ROOT / "book/slides").glob("session*.md"))


def text_of(kind: str, name: str) -> str:
    return (ROOT / "book" / kind / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SESSIONS)
def test_plan_and_deck_name_the_same_slides_at_the_same_minutes(name: str) -> None:
    plan, deck = read_plan(text_of("course", name)), read_deck(text_of("slides", name))
    check_plan(plan, deck)
    assert plan[-1].minute + plan[-1].minutes == 90
    assert len(plan) == len(re.findall(r"^\| \d+ \| \d+ \| ", text_of("course", name), re.M))
    assert len(deck) == len(re.findall(r"^#{1,2} ", text_of("slides", name), re.M))


@pytest.mark.parametrize("name", SESSIONS)
def test_every_slide_tells_what_to_say_ask_hear_and_click(name: str) -> None:
    for slide in read_deck(text_of("slides", name)):
        assert {"Say", "Ask", "Hear", "Next"} <= set(slide.notes), slide.title


WORDS_A_MINUTE, QUESTION, CLICK = 120, 30, 10  # a slow speaker; seconds for an answer and for a click


@pytest.mark.parametrize("name", SESSIONS)
def test_what_is_said_fits_the_clock(name: str) -> None:
    """Read aloud at 120 words a minute, each slide ends within 15 seconds of its time, each part in time."""
    plan, deck = read_plan(text_of("course", name)), read_deck(text_of("slides", name))
    minutes = [slide.minute for slide in deck] + [90]
    needed = [len(slide.notes["Say"].split()) * 60 / WORDS_A_MINUTE + QUESTION + CLICK for slide in deck]
    late = {
        slide.title: round(need - 60 * (after - slide.minute))
        for slide, need, after in zip(deck, needed, minutes[1:], strict=True)
        if need > 60 * (after - slide.minute) + 15
    }
    assert not late, late
    for part in plan:
        said = sum(
            n for n, slide in zip(needed, deck, strict=True) if part.first <= slide.number <= part.last
        )
        assert said <= 60 * part.minutes, part


@pytest.mark.parametrize("name", SESSIONS)
def test_the_opening_vote_comes_back(name: str) -> None:
    titles = [slide.title for slide in read_deck(text_of("slides", name))]
    assert titles[1].startswith("A vote") and "The vote again" in titles[-3:]


def test_a_plan_that_does_not_fit_its_deck_is_refused() -> None:
    plan, deck = read_plan(text_of("course", "session2")), read_deck(text_of("slides", "session2"))
    wrong = {
        "minute 6": [plan[0], replace(plan[1], minute=7), *plan[2:]],
        "from slide 5": [plan[0], replace(plan[1], first=6), *plan[2:]],
        "up to slide 28": plan[:-1],
    }
    for told, changed in wrong.items():
        with pytest.raises(InputError, match=told):
            check_plan(changed, deck)
    cases = (
        (4, 7, "minute 6"),
        (5, 2, "minute 6 to 19"),
        (5, 20, "minute 6 to 19"),
        (6, 7, "minute 8 to 19"),
    )
    for place, minute, told in cases:
        late = [replace(slide, minute=minute) if k == place else slide for k, slide in enumerate(deck)]
        with pytest.raises(InputError, match=told):
            check_plan(plan, late)


def test_notes_without_a_minute_or_a_question_are_refused() -> None:
    whole = "# A\n\n```{notes}\n:minute: 3\n**Say.** Hello.\n\n**Ask.** Who?\n\n**Next.** Turn.\n```\n"
    assert read_deck(whole)[0].notes == {"Say": "Hello.", "Ask": "Who?", "Next": "Turn."}
    with pytest.raises(InputError, match="without its minute"):
        read_deck(whole.replace(":minute: 3\n", ""))
    with pytest.raises(InputError, match="without Ask"):
        read_deck(whole.replace("**Ask.** Who?\n\n", ""))


def test_the_sheet_has_every_slide_once_with_the_first_sentence_of_its_notes() -> None:
    plan, deck = read_plan(text_of("course", "session2")), read_deck(text_of("slides", "session2"))
    text = sheet(plan, deck)
    assert re.findall(r"^\*\*(\d+)\*\* · min", text, re.M) == [str(slide.number) for slide in deck]
    assert "One head by hand" in text and all(slide.notes["Next"] in text for slide in deck)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_run_sheet_prints_on_two_pages(number: int, site: str, browser: Any) -> None:
    context = browser.new_context()
    page, watch = open_page(context, f"{site}/book/course/instructor/sheet{number}.html")
    pages = len(re.findall(rb"/Type\s*/Page(?![a-z])", page.pdf(prefer_css_page_size=True)))
    assert 1 <= pages <= 2
    assert watch.nothing(), watch
    context.close()


def test_run_sheets_are_in_no_student_edition() -> None:
    assert len(list(Path(ROOT, "book/course/instructor").glob("sheet*.md"))) == len(SESSIONS)
