"""Sphinx extension: tables that are made from code. The directive `rules` writes the relevance rules as they
are registered, `family-checks` which families each check of the tests runs on.

`book/family_checks.json` is made from the tests that pytest collects (`tests/family_checks.py`), and a test
refuses the page's table where the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_book.sphinx import shows
from lrp_companion import rules

HEAD = ("operation, forward", "rule", "equation and source", "backward on $g$", "function")
FILE = "family_checks.json"
IMAGES = "classes of an image"
CHECKS_HEAD = ("task", "method", "checked against", "families")
CAPTION = r"The rules, as `lrp_companion.rules` has them. $\odot$ multiplies entry by entry."


def rule_table(name: str | None = None, *, beyond: bool = False) -> list[str]:
    """Return the table in MyST Markdown, one row for each use of a rule; with a name, under its caption.

    It has the rules that BERT needs, or with `beyond` those that only other families need.

    >>> [line for line in rule_table() if "Eq. (5)" in line and "`rules.softmax`" in line] != []
    True
    """
    lines = [_line(HEAD), _line(["---"] * len(HEAD))]
    for rule in rules.RULES.values():
        for row in (row for row in rule.rows if row.beyond == beyond):
            functions = ", ".join(f"`rules.{function}`" for function in (rule.name, *row.also))
            lines.append(_line([row.operation, row.says, row.source, row.backward, functions]))
    return [f":::{{table}} {CAPTION}", f":name: {name}", "", *lines, ":::"] if name else lines


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
    lines = [_line(CHECKS_HEAD), _line(["---"] * len(CHECKS_HEAD))]
    for row in rows:
        alike = [other for other in rows if (other["task"] == IMAGES) == (row["task"] == IMAGES)]
        every = list(dict.fromkeys(name for other in alike for name in other["families"]))
        families = families_in_words(row["families"], every)
        lines.append(_line([row["task"], row["method"], row["check"], families]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def of_page(directive: SphinxDirective) -> list[str]:
    """The table of checks from the file beside the page."""
    file = Path(directive.env.doc2path(directive.env.docname)).with_name(FILE)
    return check_table(json.loads(file.read_text("utf-8")))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    given = {"name": directives.unchanged_required, "beyond": directives.flag}
    of_rules = shows(
        lambda d: rule_table(d.options.get("name"), beyond="beyond" in d.options), option_spec=given
    )
    app.add_directive("rules", of_rules)
    app.add_directive("family-checks", shows(of_page, option_spec={"name": directives.unchanged_required}))
    return {"parallel_read_safe": True}
