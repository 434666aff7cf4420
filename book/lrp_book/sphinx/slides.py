"""Sphinx extension: outputs of notebooks on any page, and pages of `book/slides/` as decks of slides.

The directive `cell` shows an output of an executed notebook again, and a widget live and in a given state, so
no number on a slide was typed in. A page of `book/slides/` (not its index) becomes a deck by reveal.js: its
first heading opens the first slide, each heading of the second level another. reveal.js comes from the wheel
`sphinx-revealjs`.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import nbformat
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective, SphinxRole

from lrp_book.sessions import BLOCKS
from lrp_book.sphinx import shows
from lrp_companion.checks import InputError
from lrp_companion.page.assets import wheel_folder
from lrp_companion.widgets import base as widgets

FOLDER = "book/slides/"
PRINTED = {"book/cheatsheet": ("cheatsheet",), "book/course/instructor/sheet": ("cheatsheet", "runsheet")}
REVEAL = "_static/revealjs"  # in the wheel
LOADED = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
WIDGET = re.compile(
    rf'(?P<open><div class="lrp-widget" {widgets.MARK}="\w+" data-address="(?P<address>[^"]*)">'
    r'<script type="application/json">)(?P<data>.*?)(?P<close></script>)',
    re.DOTALL,
)


@lru_cache(maxsize=16)
def _read(path: Path, changed: float) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def find_cell(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """Return the cell with this id, or the one that shows the widget of this address."""
    for cell in notebook.cells:
        pages = [_text(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
        addresses = {widget["address"] for page in pages for widget in WIDGET.finditer(page)}
        if cell.get("id") == name or name in addresses:
            return cell
    expected, hint = "a cell's id or a widget's address", "look into the executed notebook"
    raise InputError("cell", got=f"{name!r}", expected=expected, hint=hint)


def _text(data: str | list[str]) -> str:
    return data if isinstance(data, str) else "".join(data)


def in_state(markup: str, state: str) -> str:
    """Return a widget's markup with other values to start from, as `bypassed=2,3&sentence=1`.

    The widget no longer writes into the page's address, which belongs to the slides.
    """
    widget = WIDGET.search(markup)
    assert widget is not None
    blob = json.loads(widget["data"])
    keys = blob["address"]["keys"]
    for key, text in parse_qsl(state, keep_blank_values=True):
        if key not in keys:
            expected = f"one of {', '.join(keys)}"
            raise InputError("cell", got=f"state {key!r}", expected=expected, hint="check the state")
        blob["state"][key] = _value(text, blob["state"][key])
    blob["address"] |= {"keys": [], "linked": keys}
    changed = widget["open"] + widgets.embed(blob) + widget["close"]
    return markup[: widget.start()] + changed + markup[widget.end() :]


def _value(text: str, like: Any) -> Any:
    """A value as base.js reads it from an address."""
    if isinstance(like, list):
        pieces = text.split(",") if text else []
        return pieces if like and isinstance(like[0], str) else [_number(piece) for piece in pieces]
    if isinstance(like, bool):
        return {"0": False, "1": True}[text]
    return text if isinstance(like, str) else _number(text)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def excerpt(source: str, after: str, before: str) -> str:
    """Return the text of a Markdown cell between two of its lines; an empty line means the cell's end.

    >>> excerpt("# One\\n\\ntext\\n\\n**Next**: two", "# One", "**Next**")
    'text'
    """
    for mark in (after, before):
        if mark not in source:
            expected, hint = "a part of the cell's text", "look into the notebook"
            raise InputError("cell", got=f"{mark!r}", expected=expected, hint=hint)
    start = source.index(after) + len(after)
    return source[start : source.index(before, start) if before else None].strip()


def part_of_table(markup: str, columns: str, rows: str) -> str:
    """A table with some of its columns, by head (`method | r`), and some of its rows, from 1 (`3-5`)."""
    page = BeautifulSoup(markup, "html.parser")
    heads = [head.get_text(" ", strip=True) for head in page.select("thead tr:last-of-type > th")]
    wanted = [name.strip() for name in columns.split("|")] if columns else heads
    if missing := [name for name in wanted if name not in heads]:
        got, expected = f"column {missing[0]!r}", f"one of {' | '.join(heads)}"
        raise InputError("cell", got=got, expected=expected, hint="check the table's heads")
    body = page.select("tbody > tr")
    first, _, last = (rows or f"1-{len(body)}").partition("-")
    if not (first.isdigit() and (last or first).isdigit() and 1 <= int(first) <= len(body)):
        expected = f"1 to {len(body)}, as 3-5"
        raise InputError("cell", got=f"rows {rows!r}", expected=expected, hint="count from 1")
    for number, row in enumerate(page.select("tr")):
        if len(cells := row.find_all(["th", "td"], recursive=False)) != len(heads):
            got = f"a line {number} of {len(cells)} cells"
            raise InputError("cell", got=got, expected=f"{len(heads)}", hint="leave `columns` out")
        for head, cell in zip(heads, cells, strict=True):
            if head not in wanted:
                cell.decompose()
    for number, row in enumerate(body, start=1):
        if not int(first) <= number <= int(last or first):
            row.decompose()
    return str(page)


class CellDirective(SphinxDirective):
    """`{cell} PAGE NAME`: what a cell of an executed notebook shows; NAME is its id or a widget's address.

    Options: `state`, of a widget; `alt`, what a picture shows; `after` and `before`, which bound a part of a
    Markdown cell; `columns` and `rows` of a table that are wanted; `bare`, without a link to the notebook;
    `hide`: a widget's `results`, which a deck shows only when asked.
    """

    required_arguments = 2
    option_spec = {
        "state": directives.unchanged_required,
        "alt": directives.unchanged_required,
        "after": directives.unchanged_required,
        "before": directives.unchanged_required,
        "columns": directives.unchanged_required,
        "rows": directives.unchanged_required,
        "bare": directives.flag,
        "hide": lambda word: directives.choice(word, ("results",)),
    }

    def run(self) -> list[nodes.Node]:
        """Return the output, and a link to where it comes from."""
        page, name = self.arguments
        path = Path(self.env.srcdir, f"{page}.ipynb")
        if not path.is_file():
            raise self.error(f"cell: there is not a notebook {page}")
        self.env.note_dependency(str(path))
        try:
            cell = find_cell(_read(path, path.stat().st_mtime), name)
            if cell.cell_type == "markdown":
                bounds = self.options.get("after", ""), self.options.get("before", "")
                return self.parse_text_to_nodes(excerpt(cell.source, *bounds))
            shown, address = self._output(cell, name)
        except InputError as error:
            raise self.error(f"{page}, {name}: {error}") from None
        hidden = [f"slide-hide-{self.options['hide']}"] if "hide" in self.options else []
        holder = nodes.container("", *shown, classes=["slide-cell", *hidden])
        return [holder] if "bare" in self.options else [holder, self._origin(page, address)]

    def _output(self, cell: nbformat.NotebookNode, name: str) -> tuple[list[nodes.Node], str]:
        """The first output as nodes, and the address of its widget."""
        output = cell.outputs[0]
        data = output.get("data", {})
        if markup := _text(data.get("text/html", "")):
            return self._markup(markup)
        if picture := _text(data.get("image/png", "")):
            return [self._picture(picture)], ""
        text = output.text if output.output_type == "stream" else _text(data.get("text/plain", ""))
        return [nodes.literal_block("", text.rstrip(), language="none")], ""

    def _markup(self, markup: str) -> tuple[list[nodes.Node], str]:
        """HTML in the state, or with the columns and rows, that the options ask for."""
        widget, state = WIDGET.search(markup), self.options.get("state", "")
        if widget is not None:
            return [nodes.raw("", in_state(markup, state), format="html")], widget["address"]
        if state:
            expected = "none: this output is not a widget"
            raise InputError("cell", got="a state", expected=expected, hint="leave `state` out")
        if "columns" in self.options or "rows" in self.options:
            markup = part_of_table(markup, self.options.get("columns", ""), self.options.get("rows", ""))
        return [nodes.raw("", markup, format="html")], ""

    def _picture(self, data: str) -> nodes.Node:
        source = f"data:image/png;base64,{data.replace(chr(10), '')}"
        image = f'<img src="{source}" alt="{html.escape(self.options["alt"])}">'
        return nodes.raw("", image, format="html")

    def _origin(self, page: str, address: str) -> nodes.Node:
        pairs = parse_qsl(self.options.get("state", ""), keep_blank_values=True)
        text = f"{{doc}}`In the book </{page}>`"
        if address and pairs:
            written = "&".join(f"{address}.{key}={value}" for key, value in pairs)
            state = written.replace("+", "%2B")
            text = f"{{state}}`In the book, in this state <{page}#{state}>`"
        return nodes.container("", *self.parse_text_to_nodes(text), classes=["slide-origin"])


class NotesDirective(SphinxDirective):
    """`{notes}` from a `minute` on, some of them the `room`'s. `{answers}`: typical; no student gets them."""

    has_content = True
    option_spec = {"minute": directives.nonnegative_int, "room": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        """Return the notes in the element that reveal.js looks for."""
        room = self.options.get("room")
        head = f"Minute {self.options.get('minute')}" + (f"; {room} min for the room" if room else "")
        head = "Typical answers" if self.name == "answers" else head
        return [
            nodes.raw("", '<aside class="notes">', format="html"),
            nodes.paragraph("", "", nodes.strong("", head)),
            *self.parse_content_to_nodes(),
            nodes.raw("", "</aside>", format="html"),
        ]


def is_deck(docname: str) -> bool:
    """Return whether a page is a deck.

    >>> is_deck("book/slides/session1"), is_deck("book/slides/index")
    (True, False)
    """
    return docname.startswith(FOLDER) and docname != f"{FOLDER}index"


def slides(body: str) -> str:
    """Return a page's sections side by side instead of inside one another, as reveal.js wants them.

    >>> slides('<section id="a"><h1>A</h1><section id="b"><h2>B</h2></section></section>')
    '<section id="a"><h1>A</h1></section><section id="b"><h2>B</h2></section>'
    """
    body = body.strip()
    second = body.find("<section", 1)
    return body if second < 0 else f"{body[:second]}</section>{body[second:].removesuffix('</section>')}"


def write_deck(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> str | None:
    """Give a deck its template and, of the book's scripts and styles, only ours and MathJax.

    And give the cheat sheet and the run sheets their paper size.
    """
    for page, styles in PRINTED.items():
        for style in styles if pagename.startswith(page) else ():
            app.add_css_file(f"companion/{style}.css")
    if doctree is None or not is_deck(pagename) or app.builder.format != "html":
        return None
    # A head without words is none.
    context["body"] = slides(context["body"]).replace('<th class="head"><p></p></th>', "<td></td>")
    wanted = re.compile(r"_static/(companion|mathjax)/|window\.MathJax|pygments")
    for kind in ("script_files", "css_files"):
        context[kind][:] = [asset for asset in context[kind] if wanted.search(_asset_text(asset))]
    return "deck.html"


def _asset_text(asset: Any) -> str:
    """File name and body of a script or style."""
    return f"{getattr(asset, 'filename', '')} {getattr(asset, 'attributes', {}).get('body', '')}"


def stage_reveal(app: Sphinx) -> None:
    """Lay out what the decks load of reveal.js."""
    if app.builder.format != "html":
        return
    staged, made = Path(app.doctreedir, "companion_slides"), wheel_folder("sphinx_revealjs") / REVEAL
    shutil.rmtree(staged, ignore_errors=True)
    for name in LOADED:
        (staged / "reveal" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / name, staged / "reveal" / name)
    app.config.html_static_path.append(str(staged))


def add_template(app: Sphinx, config: Config) -> None:
    """Let Sphinx find the decks' template."""
    config.templates_path.append(str(Path(__file__).parent / "templates"))


class StepRole(SphinxRole):
    """The roles `click`, `set` and `expect`: a step as the speaker reads it in the notes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the step in words."""
        words = {"click": "press ", "set": "set ", "expect": "see: "}[self.name]
        return [nodes.inline(self.rawtext, words), nodes.emphasis("", self.text), nodes.inline("", ". ")], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_directive("cell", CellDirective)
    app.add_directive("notes", NotesDirective)
    app.add_directive("answers", NotesDirective)
    spec = {"has_content": True, "optional_arguments": 1, "final_argument_whitespace": True}
    on_no_slide = shows(lambda _: [], **spec)  # what `lrp_book.sessions` makes other pages of
    for name in BLOCKS[2:]:
        app.add_directive(name, on_no_slide)
    for name in ("click", "set", "expect"):
        app.add_role(name, StepRole())
    app.connect("config-inited", add_template)
    app.connect("builder-inited", stage_reveal)
    # After `assets` has chosen what the page loads.
    app.connect("html-page-context", write_deck, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
