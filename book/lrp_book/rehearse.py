"""`python -m lrp_book.rehearse`: play all sessions from their decks, as their notes say, in Chromium.

A slide's notes may have a line **Do.** of steps, which the deck shows to the speaker and this module plays
in order: `{click}` a control of the slide by its name; `{set}` a slider, "name = value"; `{expect}` a text on
the slide in quotes, or "NAME changes" or "NAME stays": what stands on the lines that begin with NAME, against
the moment before the last step. A session fails if a control does not exist, an expectation does not hold,
what a room is asked is on the screen or in a heading before it is shown, a figure does not say what n and its
data are, a decimal number is said that is not on the slide, a word of `TERMS` comes before the slide that has
it in bold, or the words to say are not `WORDS` a minute, the minutes of the room and of looking left out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrp_book.sessions import LENGTH, Slide, read_session

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = ("session1", "session2", "session3")
HANDOUTS = ("cheatsheet", "course/feedback") + tuple(
    f"course/{page}{number}" for page in ("session", "transcript", "instructor/sheet") for number in (1, 2, 3)
)
WORDS = 60, 100
"""The fewest and the most words that a speaker says in a minute."""
TERMS = {
    "r": r"(?<![\w$'\\{/])r(?![\w'}/])",
    "rank": r"[Bb]y ranks?\b|Spearman",
    "interval": r"\bintervals?\b",
    "site": r"\bsites?\b",
    "logit": r"\blogits?\b",
    "level": r"\b(?:is|are) level\b|: level\b",
    "centred": r"\bcentred\b",
    "half open": r"\bhalf.open\b",
}
"""Words that a deck has in bold on the slide where they come first, the goals left out."""
VERDICT = re.compile(r"\b(revers|turns?|turned|flip|wins?|ahead|closer|level|equal)\w*\b(?!.*\?$)", re.I)
"""What a heading may not say while the room has yet to answer."""
STEP = re.compile(r"\{(click|set|expect)\}`([^`]+)`")
_LINES = """() => {
  const walk = node => [...node.childNodes].flatMap(child => child.nodeType === 3
    ? [child.textContent] : child.nodeType === 1 && getComputedStyle(child).visibility === 'visible'
      && getComputedStyle(child).display !== 'none' && !child.matches('.notes, style, script')
    ? child.matches('li, tr, p, div, figcaption, text, h2')
      ? ['\\n', ...walk(child), '\\n'] : [...walk(child), ' '] : []);
  return walk(document.querySelector('section.present')).join('').replace(/[ \\u00a0]+/g, ' ')
    .split('\\n').map(line => line.trim()).filter(Boolean);
}"""
_SHOWN = """() => [...document.querySelectorAll(
  'section.present .slide-hide-results :is(.lrp-outcome *, .lrp-words, .lrp-readout, .lrp-tokens, td, '
  + '.lrp-row-title span)')]
  .some(node => node.getClientRects().length && getComputedStyle(node).visibility === 'visible')"""
_LOOKING = """() => {
  const all = what => [...document.querySelectorAll(`section.present :is(${what})`)]
    .filter(node => !node.closest('.notes, .lrp-widget'));
  const pictures = all('img').map(one => Math.max(1, one.naturalWidth / one.naturalHeight / 1.5));
  const told = all('.slide-cell :is(img, .lrp-table)').length === 0 || all('.slide-data').length > 0;
  const text = document.querySelector('section.present').cloneNode(true);
  text.querySelectorAll('.notes, script').forEach(one => one.remove());
  const minutes = pictures.reduce((sum, one) => sum + one, all('tbody :is(td, th)').length / 24);
  return [told, minutes, text.textContent];
}"""  # a minute for a picture, more for a wide one, which has panels; a minute for 24 cells of tables


@dataclass
class Played:
    """A slide that was played: words, steps, minutes that one looks at it, and what went wrong."""

    slide: Slide
    minutes: int
    steps: int = 0
    looking: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def words(self) -> int:
        """How many words the speaker says on the slide."""
        return len((self.slide.notes["Say"] + " " + self.slide.notes["Ask"]).split())

    @property
    def spoken(self) -> float:
        """In how many of the slide's minutes one speaks: the room looks in its own, too."""
        return self.minutes - max(self.slide.room, self.looking)

    def clock(self) -> list[str]:
        """Return what is wrong with the slide's minutes and words."""
        fits = WORDS[0] * self.spoken <= self.words <= WORDS[1] * self.spoken
        if fits and self.spoken > 0:
            return []
        return [f"{self.words} words to say in {self.spoken:.1f} minutes, {self.looking:.1f} of looking"]


def steps_of(slide: Slide) -> list[tuple[str, str]]:
    """What is done on a slide, in order.

    >>> steps_of(Slide(1, "A", 0, {"Do": "{click}`flat` {expect}`LOO stays`"}))
    [('click', 'flat'), ('expect', 'LOO stays')]
    """
    return STEP.findall(slide.notes.get("Do", ""))


def minutes_of(slides: list[Slide]) -> list[int]:
    """How long each slide is shown."""
    ends = [slide.minute for slide in slides[1:]] + [LENGTH]
    return [end - slide.minute for slide, end in zip(slides, ends, strict=True)]


def too_early(slides: list[Slide]) -> Iterator[tuple[Slide, str]]:
    """Words that are used before they stand in bold on a slide, and headings that answer a question."""
    defined: set[str] = set()
    asked = False
    for slide in slides:
        text = slide.shown + slide.notes["Say"] + slide.notes["Ask"]
        bold = " ".join(re.findall(r"\*\*+[^*\n]+\*\*+", slide.shown))
        defined |= {name for name in TERMS if re.search(rf"\b{name}s?\b", bold, re.IGNORECASE)}
        for name, pattern in TERMS.items() if "<!-- goals -->" not in text else ():
            if name not in defined and re.search(pattern, text):
                yield slide, f"{name!r} is said before it is defined"
                defined.add(name)
        if (asked or ":hide: results" in slide.shown) and VERDICT.search(slide.title):
            yield slide, "the heading answers what the room is asked"
        asked = "vote" in slide.title.lower()


def play(page: Any, slides: list[Slide]) -> Iterator[Played]:
    """Play a deck that is open in a page, slide by slide."""
    for slide, minutes in zip(slides, minutes_of(slides), strict=True):
        played = Played(slide, minutes)
        page.evaluate("n => Reveal.slide(n)", slide.number - 1)
        page.wait_for_function(
            "() => [...document.querySelectorAll('section.present [data-companion-widget]')]"
            ".every(host => host.dataset.ready === '')"
        )
        before = lines = page.evaluate(_LINES)
        told, played.looking, text = page.evaluate(_LOOKING)
        if not told:
            played.faults.append("a figure without n, data and band")
        for said in re.findall(r"\d+\.\d+", slide.notes["Say"] + slide.notes["Ask"]):
            if said not in slide.shown + text:
                played.faults.append(f"{said} is said and is not on the slide")
        if page.locator("section.present button", has_text="Show the results").count():
            shown = page.evaluate(_SHOWN)
            if shown:
                played.faults.append("what the room is asked is on the screen before it is shown")
        for kind, text in steps_of(slide):
            played.steps += 1
            if kind == "expect":
                if not holds(text, before, lines):
                    played.faults.append(f"expected {text}: {after(text, lines)}")
                continue
            before = lines
            if not _act(page, kind, text):
                played.faults.append(f"there is no control {text}")
            page.wait_for_timeout(350)  # a widget paints and writes its address
            lines = page.evaluate(_LINES)
        yield played


def _act(page: Any, kind: str, text: str) -> bool:
    slide = page.locator("section.present")
    if kind == "set":
        name, _, value = text.partition(" = ")
        slider = slide.get_by_role("slider", name=name, exact=True)
        if slider.count():
            slider.first.evaluate(
                "(node, v) => { node.value = v; for (const e of ['input', 'change'])"
                " node.dispatchEvent(new Event(e, { bubbles: true })); }",
                value,
            )
        return bool(slider.count())
    for role in ("button", "radio", "checkbox"):
        control = slide.get_by_role(role, name=text, exact=True)
        if control.count():
            control.first.click(force=True)
            return True
    return False


def holds(expected: str, before: list[str], after_it: list[str]) -> bool:
    """Whether an expectation holds between two moments of a slide.

    >>> holds("LOO stays", ["LOO 1", "LRP 2"], ["LOO 1", "LRP 3"]), holds("LRP stays", ["LRP 2"], ["LRP 3"])
    (True, False)
    >>> holds('"r 0.9"', [], ["now r 0.9 here"]), holds("LRP changes", ["LRP 2"], [])
    (True, False)
    """
    if expected.startswith('"'):
        return any(expected.strip('"') in line for line in after_it)
    name, _, how = expected.rpartition(" ")
    one, other = ([line for line in lines if line.startswith(name)] for lines in (before, after_it))
    if how not in ("stays", "changes") or not one or not other:
        return False
    return (one == other) == (how == "stays")


def after(expected: str, lines: list[str]) -> str:
    """What stands there instead, for a message."""
    name = expected.rpartition(" ")[0]
    found = [line for line in lines if line.startswith(name)]
    return " | ".join(found)[:160] or "no such line"


def rehearse(browser: Any, decks: Path, sources: Path, session: str) -> list[Played]:
    """Play one session of a built book."""
    slides = read_session((sources / f"{session}.md").read_text(encoding="utf-8")).slides
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.route(
        "**/*", lambda route: route.abort() if route.request.url.startswith("http") else route.continue_()
    )
    page.goto((decks / f"{session}.html").as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    try:
        played = list(play(page, slides))
        for one in played:
            one.faults += one.clock()
        for slide, fault in too_early(slides):
            played[slide.number - 1].faults.append(fault)
        return played
    finally:
        page.close()


def write_handouts(browser: Any, book: Path, target: Path) -> list[Path]:
    """Print the pages that are handed out on A4, as PDF; return the files."""
    page, written = browser.new_page(), []
    for name in HANDOUTS:
        page.goto((book / f"{name}.html").as_uri())
        written.append(target / f"{Path(name).name}.pdf")
        page.pdf(path=written[-1], format="A4", print_background=True)
    page.close()
    return written


def main() -> int:
    """Play the sessions of the built book, then print its handouts; return 1 if a session fails."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sessions", nargs="*", default=SESSIONS, help="session1, session2, session3")
    parser.add_argument("--browser", help="the browser's program, if it is not playwright's own")
    args = parser.parse_args()
    failed = False
    with sync_playwright() as play_with:
        browser = play_with.chromium.launch(executable_path=args.browser, args=["--no-sandbox"])
        for session in args.sessions:
            print(session)
            decks, sources = ROOT / "_build/html/book/slides", ROOT / "book/slides"
            for one in rehearse(browser, decks, sources, session):
                head = f"{one.slide.minute:3d} {one.slide.title[:44]:44s}"
                print(f"{head} {one.words:4d} words in {one.spoken:.1f}/{one.minutes} min, {one.steps} steps")
                for fault in one.faults:
                    failed = True
                    print(f"      FAILS: {fault}")
        for path in write_handouts(browser, ROOT / "_build/html/book", ROOT / "_build/handouts"):
            print(path.relative_to(ROOT))
        browser.close()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
