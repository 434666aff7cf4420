"""A widget as one file: alive in a browser that reaches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import complaints_of_axe, open_page, state_of

from lrp_companion.methods import attribute, layer_lattice
from lrp_companion.models.pretrained import Classifier
from lrp_companion.schema import InputError
from lrp_companion.widgets import LayerToggles


@pytest.fixture(scope="module")
def toggles(clf: Classifier) -> LayerToggles:
    text = "a film of rare grace </script><script>window.bad = 1</script>"
    lattice = layer_lattice(clf, text)
    widget = LayerToggles(lattice, attribute(clf, text, method="loo", target=lattice.target))
    widget.bypassed = [2]
    return widget


def test_one_file_is_alive_offline(toggles: LayerToggles, tmp_path: Path, browser) -> None:
    toggles.save(tmp_path / "layers.html")
    assert [path.name for path in tmp_path.iterdir()] == ["layers.html"]
    page, watch = open_page(browser.new_context(offline=True), (tmp_path / "layers.html").as_uri())
    assert state_of(page, "bypassed") == [2]  # as it was when it was saved
    page.get_by_role("button", name="CP-LRP").click()
    assert state_of(page, "bypassed") == [1, 2, 3]
    assert page.evaluate("window.bad") is None and watch.nothing()
    assert not complaints_of_axe(page, "main")
    page.close()


@pytest.mark.parametrize("name", ["layers.svg", "layers", "missing/layers.html"])
def test_other_paths_are_refused(toggles: LayerToggles, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"LayerToggles.save.*path"):
        toggles.save(tmp_path / name)
