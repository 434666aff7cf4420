"""Sphinx extension: the directive `family-checks` writes which families each check of the tests runs on.

`book/family_checks.json` is made from the tests that pytest collects (`tests/family_checks.py`), and a test
refuses the page's table where the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FILE = "family_checks.json"
IMAGES = "classes of an image"
HEAD = ("task", "method", "checked against", "families")


def families_in_words(names: Sequence[str], every: Sequence[str]) -> str:
    """The families of a row: all, all but a few, or their names.

    >>> families_in_words(["a", "b", "c", "d"], ["a", "b", "c", "d"])
    'all 4'
    >>> families_in_words(["a", "b", "c"], ["a", "b", "c", "d"])
    'all but `d`'
    >>> families_in_words(["a"], ["a", "b", "c", "d"])
    '`a`'
    """
    missing = [name for name in every if name not in names]
    if not missing:
        return f"all {len(every)}"
    listed = ", ".join(f"`{name}`" for name in (missing if len(missing) <= 2 else names))
    return f"all but {listed}" if len(missing) <= 2 else listed


def check_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table in MyST Markdown; families of texts and of images are counted apart."""
    lines = [_line(HEAD), _line(["---"] * len(HEAD))]
    for row in rows:
        alike = [other for other in rows if (other["task"] == IMAGES) == (row["task"] == IMAGES)]
        every = list(dict.fromkeys(name for other in alike for name in other["families"]))
        families = families_in_words(row["families"], every)
        lines.append(_line([row["task"], row["method"], row["check"], families]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


class FamilyChecks(SphinxDirective):
    """Put the table in place of the directive; the page is rebuilt when its file changes."""

    option_spec: ClassVar = {"name": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the table's nodes."""
        file = Path(self.env.doc2path(self.env.docname)).with_name(FILE)
        self.env.note_dependency(str(file))
        place = nodes.container()
        lines = check_table(json.loads(file.read_text(encoding="utf-8")))
        self.state.nested_parse(StringList(lines, source=FILE), self.content_offset, place)
        return place.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("family-checks", FamilyChecks)
    return {"parallel_read_safe": True}
