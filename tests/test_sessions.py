"""A session from one file: slides, minutes and parts of a deck; the pages and the run sheet made of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browsing import ROOT
from lrp_book import sessions

from lrp_companion.checks import InputError

DECKS = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book/slides").glob("session*.md"))
}
READ = {name: sessions.read_session(text) for name, text in DECKS.items()}


@pytest.mark.parametrize("name", DECKS)
def test_the_plan_fills_the_time_and_has_every_slide_once(name: str) -> None:
    session = READ[name]
    assert sum(part.minutes for part in session.plan) == sessions.LENGTH and len(session.plan) >= 6
    assert [slide for part in session.plan for slide in part.slides] == session.slides
    assert len(session.plan) == DECKS[name].count("```{part} ") and len(session.goals.splitlines()) == 5
    assert len(session.slides) == len(re.findall(r"^#{1,2} ", sessions.on_slides(DECKS[name]), re.M))
    for part in session.plan:
        assert part.title and part.does and all(part.minute <= slide.minute for slide in part.slides)


@pytest.mark.parametrize("name", DECKS)
def test_every_slide_tells_what_to_say_ask_hear_and_click(name: str) -> None:
    for slide in READ[name].slides:
        assert {"Say", "Ask", "Hear", "Next"} <= set(slide.notes), slide.title


WORDS_A_MINUTE, QUESTION, CLICK = 120, 30, 10  # a slow speaker; seconds for an answer and for a click


@pytest.mark.parametrize("name", DECKS)
def test_what_is_said_fits_the_clock(name: str) -> None:
    """At 120 words a minute and with the room's minutes a slide is at most 15 s late, and no part is."""
    slides = READ[name].slides
    minutes = [slide.minute for slide in slides] + [90]
    needed = [
        len(slide.notes["Say"].split()) * 60 / WORDS_A_MINUTE + max(QUESTION + CLICK, 60 * slide.room)
        for slide in slides
    ]
    late = {
        slide.title: round(need - 60 * (after - slide.minute))
        for slide, need, after in zip(slides, needed, minutes[1:], strict=True)
        if need > 60 * (after - slide.minute) + 15
    }
    assert not late, late
    plan = READ[name].plan
    for part, after in zip(plan, [*plan[1:], plan[0]], strict=True):
        rest = 0 if after.slides else after.minutes  # a break is in the room's minutes of the slide before it
        need = sum(needed[slide.number - 1] for slide in part.slides)
        assert need <= 60 * (part.minutes + rest), part.title


@pytest.mark.parametrize("name", DECKS)
def test_the_opening_vote_comes_back(name: str) -> None:
    titles = [slide.title for slide in READ[name].slides]
    assert titles[1].startswith("A vote") and "The vote again" in titles[-3:]


def test_slides_that_a_page_names_are_those() -> None:
    """What session 3 leaves out when late is named by its slide and by a word of its title or cell."""
    (told,) = re.findall(r"Skip in this order: (.*?)\. Keep", DECKS["session3"])
    named = re.findall(r"the ([\w ]+) \(slide (\d+), (\d+)", told)
    slides = READ["session3"].slides
    assert len(named) == 3
    for (what, number, minutes), word in zip(named, ("digit", "masks", "model"), strict=True):
        slide, after = slides[int(number) - 1], slides[int(number)]
        assert word in slide.title.lower() + slide.notes["Say"].lower(), (what, slide.title)
        assert after.minute - slide.minute == int(minutes), what


SMALL = """# A

```{part} One
:where: there

Do it.
```

```{notes}
:minute: 0
**Say.** Hello. And more.

**Ask.** Who?

**Next.** Turn.
```

```{part} Break
:minute: 40

Rest.
```

## B

```{part} Two
:screen: dark

Do
more.
```

```{notes}
:minute: 45
**Say.** Again.

**Ask.** What?

**Next.** Stop.
```

## C

```{notes}
:minute: 60
**Say.** Last.

**Ask.** How?

**Next.** Stop.
```

````{handout}
# Page

<!-- plan -->

```python
1
```
````

````{teaching}
# Teach

<!-- plan -->
````
"""


def test_a_plan_is_read_off_the_slides() -> None:
    session = sessions.read_session(SMALL)
    assert sessions.plan_table(session.plan, teacher=False).splitlines()[2:] == [
        "| 0 | 40 | 1 | One | there |",
        "| 40 | 5 | none | Break | |",
        "| 45 | 45 | 2-3 | Two | |",
    ]
    assert (
        sessions.plan_table(session.plan, teacher=True).splitlines()[-1]
        == "| 45 | 45 | 2-3 | Do more. | dark |"
    )
    assert session.slides[0].notes == {"Say": "Hello. And more.", "Ask": "Who?", "Next": "Turn."}
    sheet = sessions.run_sheet(session.plan)
    assert "**45-90 min: Two**" in sheet and "Hello.\n\n**Ask.** Who?" in sheet and "And more" not in sheet
    assert session.pages["handout"].endswith("```python\n1\n```")
    assert "# Page" not in sessions.on_slides(SMALL)


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        (":minute: 45\n", "", "slide 2, 'B', without its minute"),
        ("**Ask.** What?\n\n", "", "without Ask"),
        (":minute: 60", ":minute: 44", "slide 3 at minute 44; expected minute 45 or later"),
        (":minute: 60", ":minute: 91", "the end at minute 90; expected minute 91 or later"),
        (":minute: 40", ":minute: 45", "a part that ends at minute 45; expected an end after minute 45"),
        (":minute: 40", ":minute: 50", "a part that ends at minute 45; expected an end after minute 50"),
        ("```{part} One", "```{other} One", "no such part"),
    ],
)
def test_a_deck_whose_clock_or_notes_cannot_be_is_refused(was: str, becomes: str, told: str) -> None:
    assert was in SMALL
    with pytest.raises(InputError, match=re.escape(told)):
        sessions.read_session(SMALL.replace(was, becomes))


def test_pages_are_written_with_goals_and_plan_and_a_deck_without_them_is_refused(tmp_path: Path) -> None:
    (tmp_path / "course/instructor").mkdir(parents=True)
    shutil.copytree(ROOT / "book/slides", tmp_path / "slides")
    written = sessions.write_pages(tmp_path)
    assert len(written) == 9
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert "<!--" not in text and text.startswith("# ")
        assert path.stem.startswith("sheet") or text.count("\n1. ") == 1 and "\n| 0 | " in text
    (tmp_path / "slides/session1.md").write_text(SMALL.partition("````{teaching}")[0])
    with pytest.raises(InputError, match=re.escape("session1.md without {teaching}")):
        sessions.write_pages(tmp_path)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_run_sheet_prints_on_two_pages(number: int, site: str, visit: Any) -> None:
    page = visit(f"{site}/book/course/instructor/sheet{number}.html")
    pages = len(re.findall(rb"/Type\s*/Page(?![a-z])", page.pdf(prefer_css_page_size=True)))
    assert 1 <= pages <= 2
