"""A session of the course from one file: its deck of slides, the plan, two pages, run sheet and transcript.

In `book/slides/sessionN.md` a slide's `{notes}` say from which `:minute:` it is shown, in how many minutes of
`:room:` the room votes, works or rests, what to say, what to ask and what to click next; `{answers}` holds
typical answers. Three more blocks are on no slide. `{part}
TITLE` stands in the first slide of a part of the plan, or, with a `:minute:` of its own, where a break
begins; its text is what the teacher does, `:where:` the student's link, `:screen:` the teacher's.
`{handout}` and `{teaching}` are the students' and the teacher's page, in which `<!-- goals -->` and `<!--
plan -->` stand for what the slides say.
`write_pages` writes these pages, the run sheet and the transcript, where the book is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from docutils.nodes import make_id

from lrp_companion.checks import InputError

LENGTH = 90
"""Minutes of a session."""
BLOCKS = ("notes", "answers", "part", "handout", "teaching")
"""What a deck has on no slide."""
SAID = ("Say", "Ask", "Next")
_HEADING = re.compile(r"^#{1,2} (.*)$", re.MULTILINE)
_NOTES = re.compile(r"^```\{notes\}\n(?::minute: (\d+)\n)?(?::room: (\d+)\n)?(.*?)\n```$", re.M | re.S)
_ANSWERS = re.compile(r"^(`{3,})\{answers\}\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^\*\*(\w+)\.\*\* ", re.MULTILINE)
_PART = re.compile(r"^```\{part\} ([^\n]*)\n((?::[^\n]*\n)*)\n?(.*?)\n```$", re.MULTILINE | re.DOTALL)
_PAGE = re.compile(r"^(`{4,})\{(handout|teaching)\}\n(.*?)\n\1\n?", re.MULTILINE | re.DOTALL)
_GOALS = re.compile(r"<!-- goals -->\n(.*?)\n<!-- end of goals -->", re.DOTALL)
PLANS = (
    "| at | min | slides | what | where |\n| ---: | ---: | --- | --- | --- |",
    "| at | min | slides | what you do | on the screen |\n| ---: | ---: | --- | --- | --- |",
)
LINKS = {
    "handout": """[Deck](../slides/{0}.md) · [notebook](../../notebooks/{0}.ipynb) ·
[transcript](transcript{1}.md)

:::{{container}} instructors
For instructors: [minute by minute](instructor/{0}.md) · [run sheet](instructor/sheet{1}.md)
:::""",
    "teaching": "[Students' page](../{0}.md) · [deck](../../slides/{0}.md) · [run sheet](sheet{1}.md) "
    "· [transcript](../transcript{1}.md)",
}
"""The first lines of a session's two pages."""
SHEET = """# For instructors: run sheet of session {0}

:::{{admonition}} On this page
:class: tip no-print
**You will find** the plan of [session {0}](../session{0}.md) and the notes of its
[deck](../../slides/session{0}.md), slide by slide: minute, first sentence, question, answers, next click.
This page is not in the student edition.
**Time:** 10 minutes to read. **To print:** the browser's print command, A4; the sheet has at most two pages,
without this box.
**Next:** [the session minute by minute](session{0}.md).
:::

::::{{container}} run-sheet
{1}
::::
"""
TRANSCRIPT = """# Transcript of session {0}

:::{{admonition}} On this page
:class: tip
**You will find** every word that is said in [session {0}](session{0}.md), slide by slide, for whoever cannot
hear it, or was not there. It has the answers to the votes: read it beside the
[slides](../slides/session{0}.md), not before.
**Time:** 30 minutes. **To print:** the browser's print command.
**Next:** the [session's notebook](../../notebooks/session{0}.ipynb).
:::

{1}
"""


@dataclass(frozen=True)
class Slide:
    """A slide as its notes describe it: number from 1, title, minute, notes by label, the room's minutes, and
    the source of what is shown.
    """

    number: int
    title: str
    minute: int
    notes: dict[str, str]
    room: int = 0
    shown: str = ""


@dataclass(frozen=True)
class Part:
    """A line of the plan: from `minute` on, for `minutes`, these slides (none in a break)."""

    title: str
    minute: int
    minutes: int
    slides: tuple[Slide, ...]
    where: str
    screen: str
    does: str


@dataclass(frozen=True)
class Session:
    """What a deck says: slides, the plan, the goals as a list, and both pages as they are written."""

    slides: list[Slide]
    plan: list[Part]
    goals: str
    pages: dict[str, str]


def on_slides(text: str) -> str:
    """Return a deck's source without the two pages that it holds."""
    return _PAGE.sub("", text)


def read_session(text: str) -> Session:
    r"""Return what a deck says.

    Raises
    ------
    InputError
        If a slide's notes lack the minute, or one of the labels Say, Ask and Next; if time runs backwards;
        if the first slide is in no part of the plan, or a part has no time.

    >>> notes = "```{notes}\n:minute: 0\n**Say.** Hello.\n\n**Ask.** Who?\n\n**Next.** Turn.\n```\n"
    >>> session = read_session("# A\n\n```{part} Greeting\nWave.\n```\n\n" + notes)
    >>> session.plan[0].minutes, session.plan[0].does, session.slides[0].notes["Ask"]
    (90, 'Wave.', 'Who?')
    """
    pieces = _HEADING.split(on_slides(text))[1:]
    slides: list[Slide] = []
    begun: list[tuple[int, int, re.Match[str]]] = []  # minute, slides before it, and the part
    for title, body in zip(pieces[::2], pieces[1::2], strict=True):
        slides.append(_slide(len(slides) + 1, title, body))
        for part in _PART.finditer(body):
            own = re.search(r"^:minute: (\d+)$", part[2], re.MULTILINE)
            at = (int(own[1]), len(slides)) if own else (slides[-1].minute, len(slides) - 1)
            begun.append((*at, part))
    _check_clock(slides, [(minute, before) for minute, before, _ in begun])
    ends = [(minute, before) for minute, before, _ in begun[1:]] + [(LENGTH, len(slides))]
    plan = [
        _part(part, minute, end - minute, slides[before:until])
        for (minute, before, part), (end, until) in zip(begun, ends, strict=True)
    ]
    goals = _GOALS.search(text)
    return Session(
        slides, plan, goals[1] if goals else "", {kind: page for _, kind, page in _PAGE.findall(text)}
    )


def _slide(number: int, title: str, body: str) -> Slide:
    notes, answers = _NOTES.search(body), _ANSWERS.search(body)
    pieces = _LABEL.split(notes[3])[1:] if notes else []
    labelled = {label: text.strip() for label, text in zip(pieces[::2], pieces[1::2], strict=True)}
    lacking = [label for label in SAID if not labelled.get(label)]
    if notes is None or notes[1] is None or lacking:
        got = f"slide {number}, {title!r}, without {', '.join(lacking) or 'its minute'}"
        expected = "{notes} with :minute: and the labels " + ", ".join(f"**{label}.**" for label in SAID)
        raise InputError("session", got=got, expected=expected, hint="complete the slide's notes")
    if answers:
        labelled["Hear"] = answers[2].strip()
    shown = _PART.sub("", _ANSWERS.sub("", _NOTES.sub("", body)))
    return Slide(number, title, int(notes[1]), labelled, int(notes[2] or 0), shown)


def _check_clock(slides: list[Slide], begun: list[tuple[int, int]]) -> None:
    """Refuse slides out of order, and parts of no time or that leave the first slide out."""
    clock = [(slide.minute, f"slide {slide.number}") for slide in slides] + [(LENGTH, "the end")]
    for (minute, _), (later, name) in pairwise(clock):
        if later < minute:
            got, hint = f"{name} at minute {later}", "correct the notes' minutes"
            raise InputError("session", got=got, expected=f"minute {minute} or later", hint=hint)
    if begun[:1] != [(0, 0)]:
        expected = "{part} in the first slide, at minute 0"
        raise InputError("session", got="no such part", expected=expected, hint="begin the plan there")
    for (minute, _), (later, before) in pairwise([*begun, (LENGTH, len(slides))]):
        shown = slides[before - 1].minute
        if later <= minute or later < shown:
            got, expected = f"a part that ends at minute {later}", f"an end after minute {max(minute, shown)}"
            raise InputError("session", got=got, expected=expected, hint="correct the notes' minutes")


def _part(part: re.Match[str], minute: int, minutes: int, slides: list[Slide]) -> Part:
    options = dict(re.findall(r"^:(\w+): (.*)$", part[2], re.MULTILINE))
    links = options.get("where", ""), options.get("screen", "")
    return Part(part[1], minute, minutes, tuple(slides), *links, " ".join(part[3].split()))


def plan_table(plan: list[Part], deck: str, *, teacher: bool) -> str:
    """Return the plan as a table for one of the two pages, with links into the deck."""
    lines, slides = [PLANS[teacher]], f"{'../' * (1 + teacher)}slides/{deck}.html#/"
    for part in plan:
        numbers = sorted({slide.number for slide in (*part.slides[:1], *part.slides[-1:])})
        shown = "none"
        if numbers:  # reveal.js finds a slide by the id of its section
            shown = f'<a href="{slides}{make_id(part.slides[0].title)}">{"-".join(map(str, numbers))}</a>'
        cells = (part.does, part.screen) if teacher else (part.title, part.where)
        lines.append(
            f"| {part.minute} | {part.minutes} | {shown} | {cells[0]} | {cells[1]} |".replace("|  |", "| |")
        )
    return "\n".join(lines)


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence.

    >>> first_sentence("LOO asks $f(x)$. LRP asks the graph.")
    'LOO asks $f(x)$.'
    """
    return re.split(r"(?<=[.?!]) (?=[A-Z$*(\"])", " ".join(text.split()), maxsplit=1)[0]


def run_sheet(plan: list[Part]) -> str:
    """Return the plan's parts, and their slides with what the notes say, as Markdown."""
    return "\n\n".join(_sheet_lines(plan))


def _sheet_lines(plan: list[Part]) -> Iterator[str]:
    for part in plan:
        yield f"**{part.minute}-{part.minute + part.minutes} min: {part.title}**"
        for slide in part.slides:
            notes = slide.notes
            yield f"**{slide.number}** · min {slide.minute} · *{slide.title}*"
            yield first_sentence(notes["Say"])
            for label in ("Ask", "Hear", "Next"):
                if label in notes:
                    yield f"**{label}.** {notes[label]}"


def transcript(slides: list[Slide]) -> str:
    """Return what is said and asked, slide by slide, as Markdown."""
    spoken = (
        f"**{one.number} · minute {one.minute} · {one.title}**\n\n{one.notes['Say']}\n\n*{one.notes['Ask']}*"
        for one in slides
    )
    return "\n\n".join(spoken)


def write_pages(book: Path) -> list[Path]:
    """Write every session's pages for students and teachers, its run sheet and transcript; return the files.

    Raises
    ------
    InputError
        If a deck does not say what its pages need.
    """
    written = []
    for deck in sorted(book.glob("slides/session*.md")):
        session = read_session(deck.read_text(encoding="utf-8"))
        course, number = book / "course", deck.stem.removeprefix("session")
        if lacking := [kind for kind in ("handout", "teaching") if kind not in session.pages]:
            got, hint = f"{deck.name} without {{{lacking[0]}}}", "write the block at the deck's end"
            raise InputError("session", got=got, expected="{handout} and {teaching}", hint=hint)
        for kind, path in (("handout", course / deck.name), ("teaching", course / "instructor" / deck.name)):
            title, _, page = session.pages[kind].replace("<!-- goals -->", session.goals).partition("\n")
            table = plan_table(session.plan, deck.stem, teacher=kind == "teaching")
            links, page = LINKS[kind].format(deck.stem, number), page.replace("<!-- plan -->", table)
            path.write_text(f"{title}\n\n{links}\n{page}\n", encoding="utf-8")
            written.append(path)
        sheet = ("instructor/sheet", SHEET, run_sheet(session.plan))
        for name, page, text in (sheet, ("transcript", TRANSCRIPT, transcript(session.slides))):
            path = course / f"{name}{number}.md"
            path.write_text(page.format(number, text), encoding="utf-8")
            written.append(path)
    return written
