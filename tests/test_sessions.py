"""A session from one file: slides, minutes and parts of a deck; the pages and the run sheet made of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from browsing import ROOT
from lrp_book import sessions

from lrp_companion.checks import InputError

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
    assert sessions.plan_table(session.plan, "deck", teacher=False).splitlines()[2:] == [
        '| 0 | 40 | <a href="../slides/deck.html#/a">1</a> | One | there |',
        "| 40 | 5 | none | Break | |",
        '| 45 | 45 | <a href="../slides/deck.html#/b">2-3</a> | Two | |',
    ]
    assert (
        sessions.plan_table(session.plan, "deck", teacher=True).splitlines()[-1]
        == '| 45 | 45 | <a href="../../slides/deck.html#/b">2-3</a> | Do more. | dark |'
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
    assert len(written) == 12
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert "<!--" not in text and text.startswith("# ")
        assert (
            path.stem.startswith(("sheet", "transcript")) or text.count("\n1. ") == 1 and "\n| 0 | " in text
        )
    (tmp_path / "slides/session1.md").write_text(SMALL.partition("````{teaching}")[0])
    with pytest.raises(InputError, match=re.escape("session1.md without {teaching}")):
        sessions.write_pages(tmp_path)
