"""Sphinx extension of a book with widgets: scripts and fonts come from wheels, so no page asks another host.

MathJax comes from the wheel `sphinx-mathjax-offline` (only the file and the fonts that are used: the
extension of that name would copy 48 MB). The pages' script and style lie in `page/static`, the widgets' front
ends in `widgets/static`.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

import lrp_companion
from lrp_companion.widgets import base as widgets

_STATIC = Path(__file__).parent / "static"


def wheel_folder(module: str) -> Path:
    """Return the folder of an installed module, which is not imported: its name may not be importable."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        install = "install the extra: pip install -c constraints.txt -e .[book]"
        raise ExtensionError(f"the book needs the package {module}; {install}")
    return Path(spec.origin).parent


def stage_assets(app: Sphinx) -> None:
    """Lay out the pages' assets in one folder and give it to Sphinx as a static path."""
    if app.builder.format != "html":
        return
    staged = Path(app.doctreedir, "companion_assets")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(_STATIC, staged / "companion")
    mathjax = wheel_folder("sphinx-mathjax-offline") / "static" / "mathjax"
    fonts = "output/chtml/fonts/woff-v2"
    shutil.copytree(mathjax / fonts, staged / "mathjax" / fonts)
    shutil.copy(mathjax / "tex-chtml.js", staged / "mathjax")
    for name in widgets.front_ends():  # as classic scripts: a module would not run in a page opened from disk
        (staged / "companion" / f"{name}.js").write_text(widgets.page_script(name), encoding="utf-8")
    sheets = [widgets.STATIC / f"{name}.css" for name in ("base", *widgets.SHARED, *widgets.front_ends())]
    styles = [sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.is_file()]
    (staged / "companion" / "widgets.css").write_text("\n".join(styles), encoding="utf-8")
    app.config.html_static_path.append(str(staged))


def drop_thebe(app: Sphinx) -> None:
    """Disconnect sphinx-thebe, which Jupyter Book always loads.

    It needs a server, and writes a script into every page.
    """
    listeners = [listener for of_event in app.events.listeners.values() for listener in of_event]
    for listener in listeners:
        if listener.handler.__module__ == "sphinx_thebe":
            app.disconnect(listener.id)


def _is_dead(asset: Any, *, formulas: bool) -> bool:
    """Whether this is thebe's leftover style, widget state that needs a script from another host, or MathJax
    on a page without formulas, whose subpages have some.
    """
    attributes = getattr(asset, "attributes", {})
    text = f"{getattr(asset, 'filename', '')} {attributes.get('body', '')}"
    state = attributes.get("type") == "application/vnd.jupyter.widget-state+json"
    return state or "thebe" in text or (not formulas and "mathjax" in text.lower())


def trim_assets(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Drop dead scripts and styles from a page; load front ends only where needed."""
    markup = [node.astext() for node in doctree.findall(nodes.raw)] if doctree is not None else []
    widget = re.compile(rf'<div class="lrp-widget" {widgets.MARK}="(\w+)"')
    used = {name for text in markup for name in widget.findall(text)}
    for name in sorted(used):
        app.add_js_file(f"companion/{name}.js", loading_method="defer", priority=700)
    if used:
        app.add_css_file("companion/widgets.css")
    formulas = any(mark in context.get("body", "") for mark in ('class="math', r"\("))
    for kind in ("script_files", "css_files"):
        context[kind][:] = [asset for asset in context[kind] if not _is_dead(asset, formulas=formulas)]


_ICONS = re.compile(r'\s*<script defer src="[^"]*/fontawesome\.js[^"]*"></script>')
_SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')


def drop_theme_scripts(app: Sphinx, error: Exception | None) -> None:
    """Take out of the built pages what the theme loads everywhere: 1.5 MB of icons, which its style has as a
    font, too, and the index of the search, which one page needs.
    """
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        without = _ICONS.sub("", text)
        if path.name != "search.html":
            without = _SEARCH.sub("", without)
        if without != text:
            path.write_text(without, encoding="utf-8")


def set_theme(app: Sphinx, config: Config) -> None:
    """Add to jupyter-book's theme options; set in `_config.yml` they would replace them all."""
    options = config.html_theme_options
    options["navbar_persistent"] = []  # else a second search field stands in a bar of its own


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    drop_thebe(app)  # _config.yml names this extension after Jupyter Book's own
    app.connect("config-inited", set_theme)
    app.connect("builder-inited", stage_assets)
    # After the extensions that add what is dropped here.
    app.connect("html-page-context", trim_assets, priority=900)
    app.connect("build-finished", drop_theme_scripts)
    app.add_css_file("companion/pages.css")
    app.add_js_file("companion/pages.js", loading_method="defer", priority=600)
    return {"version": lrp_companion.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
