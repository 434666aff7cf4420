"""The directive that writes the table of rules, in a page that Sphinx builds."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from lrp_companion.rules import RULES

CONF = """
extensions = ["myst_parser", "sphinxcontrib.bibtex", "lrp_book.sphinx.tables"]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
bibtex_bibfiles = ["references.bib"]
numfig = True
"""
PAGE = """
# Rules

{numref}`tab-rules` has them.

```{rules}
:name: tab-rules
```

```{rules}
```

```{rules}
:beyond:
```

```{bibliography}
```
"""


def test_a_page_has_every_rule_with_its_references(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "book/references.bib"
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "references.bib").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "index.md").write_text(PAGE)
    warnings = (tmp_path / "warnings.txt").open("w+")
    folders = (tmp_path, tmp_path, tmp_path / "html", tmp_path / "trees")
    app = Sphinx(*map(str, folders), "html", status=None, warning=warnings)
    app.build()
    warnings.seek(0)
    assert warnings.read() == ""
    page = (tmp_path / "html/index.html").read_text(encoding="utf-8")
    assert page.count("<table") == 3 and page.count("<caption") == 1 and 'id="tab-rules"' in page
    for rule in RULES.values():
        times = sum(1 if row.beyond else 2 for row in rule.rows)
        assert page.count(f"rules.{rule.name}<") == times, rule.name
    assert "{cite}" not in page and "reference internal" in page
