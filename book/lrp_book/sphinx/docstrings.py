"""Sphinx extension of the API page: the house style of docstrings as reStructuredText, and the widgets.

In this package a parameter is one entry, `name : what it is`, because its type is in the signature; numpydoc
and napoleon would read the words after the colon as a type. Code is in single backticks, and a doctest needs
no heading.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

from lrp_book.sphinx import shows
from lrp_companion import widgets

_FIELDS = {"Parameters": "param", "Attributes": "ivar", "Raises": "raises"}
_ENTRY = re.compile(r"(\w+(?:, \w+)*) : (.*)")
_INLINE = re.compile(r"(?P<kept>``.+?``|:\w+:`[^`]+`)|`(?P<code>[^`]+)`(?P<joined>\w?)|(?P<sign>[*|])")


def to_rst(lines: list[str]) -> list[str]:
    """Return a docstring's lines as reStructuredText.

    >>> to_rst(["Add `x`s.", "", "Parameters", "----------", "x : what to", "    add.", "", ">>> 1 + 1", "2"])
    ['Add ``x``\\\\ s.', '', ':param x: what to', '    add.', '', '>>> 1 + 1', '2']
    """
    out: list[str] = []
    section, doctest = "", False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line and re.fullmatch("-{3,}", following):
            section, doctest = line.strip(), False
        elif section and re.fullmatch("-{3,}", line):
            continue
        elif line.startswith(">>>") or (doctest and line):
            if not doctest and out and out[-1]:
                out.append("")
            section, doctest = "", True
            out.append(line)
        else:
            doctest = False
            out.append(_entry(section, _INLINE.sub(_inline, line)))
    return out


def _inline(mark: re.Match[str]) -> str:
    """Code becomes a literal; stars and bars are not markup here."""
    if mark["kept"]:
        return mark["kept"]
    if mark["sign"]:
        return f"\\{mark['sign']}"
    return f"``{mark['code']}``" + (rf"\ {mark['joined']}" if mark["joined"] else "")


def _entry(section: str, line: str) -> str:
    """The first line of a field; other lines of a section are its indented continuation."""
    if not section or not line or line.startswith(" "):
        return line
    if section not in _FIELDS:
        return f":{section.lower()}: {line}"
    entry = _ENTRY.fullmatch(line)
    # Without spaces between names: Sphinx would take one before a space for a type.
    name, text = (entry[1].replace(", ", ","), entry[2]) if entry else (line, "")
    return f":{_FIELDS[section]} {name}: {text}".rstrip()


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)


_OF_EVERY_WIDGET = {"count", "fallback", "linked", "page_html", "run", "state", "summary"}


def widget_lines() -> list[str]:
    """Return an `autoclass` for each widget that the package has, with the methods that only it has.

    >>> lines = widget_lines()
    >>> lines[lines.index(".. autoclass:: lrp_companion.LayerToggles") + 1]
    '   :members: show'
    """
    lines = []
    for name in widgets.__all__:
        members = vars(getattr(widgets, name)).items()
        public = {key for key, value in members if inspect.isfunction(value) and not key.startswith("_")}
        lines.append(f".. autoclass:: lrp_companion.{name}")
        if shown := sorted(public - _OF_EVERY_WIDGET):
            lines.append(f"   :members: {', '.join(shown)}")
    return lines


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_directive("widget-classes", shows(lambda _: widget_lines()))
    # Before napoleon, which has nothing left to do.
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
