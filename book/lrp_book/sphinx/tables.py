"""Sphinx extension: tables that are made from code. The directive `rules` writes the relevance rules as they
are registered, `family-checks` which families each check of the tests runs on.

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
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

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


class RuleTable(SphinxDirective):
    """Put the table of rules in place of the directive; the page is rebuilt when `rules.py` changes."""

    option_spec: ClassVar = {"name": directives.unchanged_required, "beyond": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the table's nodes."""
        self.env.note_dependency(rules.__file__)
        lines = rule_table(self.options.get("name"), beyond="beyond" in self.options)
        return self.parse_text_to_nodes("\n".join(lines))


class FamilyChecks(SphinxDirective):
    """Put the table of checks in place of the directive; the page is rebuilt when its file changes."""

    option_spec: ClassVar = {"name": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the table's nodes."""
        file = Path(self.env.doc2path(self.env.docname)).with_name(FILE)
        self.env.note_dependency(str(file))
        return self.parse_text_to_nodes("\n".join(check_table(json.loads(file.read_text("utf-8")))))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("rules", RuleTable)
    app.add_directive("family-checks", FamilyChecks)
    return {"parallel_read_safe": True}
