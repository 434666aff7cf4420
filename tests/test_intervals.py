"""Numbers of sentences on the pages: the interval of each stands in the page, and tables keep theirs."""

from __future__ import annotations

from types import SimpleNamespace

from docutils import nodes
from docutils.core import publish_doctree
from lrp_book.sphinx.intervals import tuck_away

HTML = SimpleNamespace(builder=SimpleNamespace(format="html"))


def test_sentences_hide_intervals_and_nothing_is_lost() -> None:
    tree = publish_doctree("It is −0.02 [−0.03, −0.01] **or 0.1 [0.0, 0.2]**, n = 3.\n\n``0.1 [0.0, 0.2]``\n")
    before = tree.astext()
    tuck_away(HTML, tree, "")
    made = [raw.astext() for raw in tree.findall(nodes.raw)]
    assert len(made) == 2 and all('tabindex="0"' in one for one in made)
    assert "−0.02<span class=" in made[0] and " [−0.03, −0.01]</span>" in made[0]
    assert tree.findall(nodes.literal).__next__().astext() == "0.1 [0.0, 0.2]"
    left = "".join(
        node.astext() for node in tree.findall(nodes.Text) if not isinstance(node.parent, nodes.raw)
    )
    assert left == before.replace("\n\n", "").replace("−0.02 [−0.03, −0.01]", "").replace(
        "0.1 [0.0, 0.2]", "", 1
    )


def test_other_builders_keep_the_text() -> None:
    tree = publish_doctree("It is 0.1 [0.0, 0.2].")
    tuck_away(SimpleNamespace(builder=SimpleNamespace(format="latex")), tree, "")
    assert not list(tree.findall(nodes.raw))
