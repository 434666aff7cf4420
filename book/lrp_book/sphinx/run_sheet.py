"""Sphinx extension: checks that a session's plan and deck agree, and makes the teacher's run sheet from both.

A slide's notes say when it is shown (`:minute:` of `{notes}`), what to say, what to ask and what to click
next; `{answers}` holds typical answers. The plan of the session names the slides of each part.
`{run-sheet} 2` writes both, slide by slide, for two printed pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import lrp_companion
from lrp_companion.checks import InputError

PAGES = "book/course/instructor/sheet"  # and the session's number
SAID = ("Say", "Ask", "Next")
_HEADING = re.compile(r"^#{1,2} (.*)$", re.MULTILINE)
_NOTES = re.compile(r"^```\{notes\}\n(?::minute: (\d+)\n)?(.*?)\n```$", re.MULTILINE | re.DOTALL)
_ANSWERS = re.compile(r"^(`{3,})\{answers\}\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^\*\*(\w+)\.\*\* ", re.MULTILINE)
_PART = re.compile(r"^\| (\d+) \| (\d+) \| (none|\d+(?:-\d+)?) \| (.*?) \| .*\|$", re.MULTILINE)


@dataclass(frozen=True)
class Slide:
    """A slide as described by its notes: number from 1, title, minute, and the notes by label."""

    number: int
    title: str
    minute: int
    notes: dict[str, str]


@dataclass(frozen=True)
class Part:
    """A line of the plan: from `minute` on, for `minutes`, slides `first` to `last` (0, 0: none)."""

    minute: int
    minutes: int
    first: int
    last: int
    what: str


def read_deck(text: str) -> list[Slide]:
    r"""Return the slides of a deck with their notes.

    Raises
    ------
    InputError
        If a slide's notes lack the minute, or one of the labels Say, Ask and Next.

    >>> text = "# A\n\n```{notes}\n:minute: 3\n**Say.** Hello.\n\n**Ask.** Who?\n\n**Next.** Turn.\n```\n"
    >>> read_deck(text)[0].minute, read_deck(text)[0].notes["Ask"]
    (3, 'Who?')
    """
    pieces = _HEADING.split(text)[1:]
    return [
        _slide(number, title, body)
        for number, (title, body) in enumerate(zip(pieces[::2], pieces[1::2], strict=True), start=1)
    ]


def _slide(number: int, title: str, body: str) -> Slide:
    notes, answers = _NOTES.search(body), _ANSWERS.search(body)
    pieces = _LABEL.split(notes[2])[1:] if notes else []
    labelled = {label: text.strip() for label, text in zip(pieces[::2], pieces[1::2], strict=True)}
    lacking = [label for label in SAID if not labelled.get(label)]
    if notes is None or notes[1] is None or lacking:
        got = f"slide {number}, {title!r}, without {', '.join(lacking) or 'its minute'}"
        expected = "{notes} with :minute: and the labels " + ", ".join(f"**{label}.**" for label in SAID)
        raise InputError("run sheet", got=got, expected=expected, hint="complete the slide's notes")
    if answers:
        labelled["Hear"] = answers[2].strip()
    return Slide(number, title, int(notes[1]), labelled)


def read_plan(text: str) -> list[Part]:
    """Return the lines of a session's plan.

    >>> read_plan("| 5 | 15 | 2-4 | One head | the primer |")
    [Part(minute=5, minutes=15, first=2, last=4, what='One head')]
    """
    parts = []
    for minute, minutes, slides, what in _PART.findall(text):
        first, _, last = ("0" if slides == "none" else slides).partition("-")
        parts.append(Part(int(minute), int(minutes), int(first), int(last or first), what))
    return parts


def check_plan(plan: list[Part], deck: list[Slide]) -> None:
    """Refuse a plan and a deck that do not agree.

    Raises
    ------
    InputError
        If parts leave a gap of time, slides are left out or named twice, a part's first slide is not shown
        when the part begins, or a slide's minute lies outside its part or before the slide before it.
    """

    def refuse(got: str, expected: str) -> InputError:
        return InputError("plan and deck", got=got, expected=expected, hint="change the plan or the notes")

    clock, shown = 0, 0
    for part in plan:
        if part.minute != clock:
            raise refuse(f"{part.what!r} at minute {part.minute}", f"minute {clock}")
        clock += part.minutes
        if not part.first:
            continue
        if part.first != shown + 1 or not part.first <= part.last <= len(deck):
            got = f"{part.what!r} with slides {part.first}-{part.last}"
            raise refuse(got, f"from slide {shown + 1} on, of {len(deck)}")
        earliest = part.minute
        for slide in deck[part.first - 1 : part.last]:
            starts = slide.number > part.first or slide.minute == part.minute
            if not (starts and earliest <= slide.minute < clock):
                place = f"{earliest} to {clock - 1}" if starts else f"{part.minute}"
                raise refuse(f"slide {slide.number} at minute {slide.minute}", f"minute {place}")
            earliest = slide.minute
        shown = part.last
    if shown != len(deck):
        raise refuse(f"a plan up to slide {shown}", f"up to slide {len(deck)}")


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence.

    >>> first_sentence("LOO asks $f(x)$. LRP asks the graph.")
    'LOO asks $f(x)$.'
    """
    return re.split(r"(?<=[.?!]) (?=[A-Z$*(\"])", " ".join(text.split()), maxsplit=1)[0]


def sheet(plan: list[Part], deck: list[Slide]) -> str:
    """Return the run sheet as Markdown: each part of the plan, and its slides with what their notes say."""
    lines = []
    for part in plan:
        lines += [f"**{part.minute}-{part.minute + part.minutes} min: {part.what}**", ""]
        for slide in deck[part.first - 1 : part.last] if part.first else []:
            lines += [f"**{slide.number}** · min {slide.minute} · *{slide.title}*", ""]
            lines += [first_sentence(slide.notes["Say"]), "", f"**Ask.** {slide.notes['Ask']}", ""]
            if "Hear" in slide.notes:
                lines += ["**Hear.** " + slide.notes["Hear"], ""]
            lines += [f"**Next.** {slide.notes['Next']}", ""]
    return "\n".join(lines)


class RunSheetDirective(SphinxDirective):
    """`{run-sheet} N`: the plan and the notes of session N."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the sheet; plan and deck are compared first."""
        folder, name = Path(self.env.srcdir, "book"), f"session{self.arguments[0]}.md"
        texts = []
        for path in (folder / "course" / name, folder / "slides" / name):
            if not path.is_file():
                raise self.error(f"run-sheet: there is no {path.parent.name}/{name}")
            self.env.note_dependency(str(path))
            texts.append(path.read_text(encoding="utf-8"))
        try:
            plan, deck = read_plan(texts[0]), read_deck(texts[1])
            check_plan(plan, deck)
        except InputError as error:
            raise self.error(f"{name}: {error}") from None
        holder = nodes.container("", classes=["run-sheet"])
        lines = StringList(sheet(plan, deck).splitlines(), source=self.get_source_info()[0])
        self.state.nested_parse(lines, 0, holder)
        return [holder]


def add_style(app: Sphinx, pagename: str, templatename: str, context: Any, doctree: Any) -> None:
    """Give the run sheets their paper size."""
    if pagename.startswith(PAGES):
        app.add_css_file("companion/cheatsheet.css")
        app.add_css_file("companion/runsheet.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_directive("run-sheet", RunSheetDirective)
    app.connect("html-page-context", add_style)
    return {"version": lrp_companion.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
