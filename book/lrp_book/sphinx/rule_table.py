"""Sphinx extension: the directive `rules` writes the table of the relevance rules, as they are registered."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_companion import rules

HEAD = ("operation, forward", "rule", "equation and source", "backward on $g$", "function")
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


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


class RuleTable(SphinxDirective):
    """Put the table of rules in place of the directive; the page is rebuilt when `rules.py` changes."""

    option_spec: ClassVar = {"name": directives.unchanged_required, "beyond": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the table's nodes."""
        self.env.note_dependency(str(rules.__file__))
        place = nodes.container()
        lines = rule_table(self.options.get("name"), beyond="beyond" in self.options)
        self.state.nested_parse(StringList(lines, source="rules.py"), self.content_offset, place)
        return place.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("rules", RuleTable)
    return {"parallel_read_safe": True}
