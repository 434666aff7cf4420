"""The notebooks that `make book` has just executed, against their stored outputs, by nbval's comparison.

nbval alone would execute every notebook a second time. `make test` lets it execute the first chapter and the
exercises.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from browsing import missing

pytest.importorskip("papermill", reason="papermill comes with the extra book")

from lrp_book import build

nbval = pytest.importorskip("nbval.plugin", reason="nbval comes with the extra dev")
NOTEBOOKS = sorted((build.ROOT / "notebooks").glob("*.ipynb"))
PATTERNS = nbval.get_sanitize_patterns((Path(__file__).parent / "sanitize.cfg").read_text(encoding="utf-8"))


def executed(stored: Path) -> nbformat.NotebookNode:
    """The notebook as executed on its defaults; skips where it is not there, or older than its sources."""
    output = build.ROOT / "_build" / "executed" / stored.name
    key = output.with_suffix(".key")
    if not output.is_file() or not key.is_file():
        missing(f"{stored.name} was not executed; run make book")
    if key.read_text() != build.source_key(stored, build.check_parameters(stored, {})):
        missing(f"{stored.name} was executed from other sources or parameters; run make book")
    return nbformat.read(output, as_version=4)


def differences(stored: Path, made: nbformat.NotebookNode, session: pytest.Session) -> list[str]:
    """What nbval says of each cell whose outputs are not the stored ones."""
    notebook = nbval.IPyNbFile.from_parent(session, path=stored)
    notebook.sanitize_patterns.update(PATTERNS)
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    out = []
    for item, cell in zip(notebook.collect(), cells, strict=True):
        assert item.cell.source == cell.source
        stored_outputs, outputs = map(nbval.coalesce_streams, (item.cell.outputs, cell.outputs))
        if not item.compare_outputs(outputs, stored_outputs):
            out.append("\n".join([f"cell {cell.id}:", *item.comparison_traceback]))
    return out


@pytest.mark.parametrize("stored", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_outputs_of_the_book_are_the_stored_ones(stored: Path, request: pytest.FixtureRequest) -> None:
    assert not (unlike := differences(stored, executed(stored), request.session)), "\n".join(unlike)


def test_another_number_is_seen(request: pytest.FixtureRequest) -> None:
    """Every cell that prints is compared; durations and addresses of objects are not."""
    (stored, *_) = NOTEBOOKS
    made = nbformat.read(stored, as_version=4)
    assert not differences(stored, made, request.session)
    outputs = (output for cell in made.cells for output in cell.get("outputs", []))
    next(output for output in outputs if "text/html" in output.get("data", {})).data["text/html"] += "0.7"
    assert len(differences(stored, made, request.session)) == 1
