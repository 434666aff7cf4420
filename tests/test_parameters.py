"""A build refuses parameters that no notebook could use: one line, exit code 2, before the first cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from lrp_book import build

from lrp_companion.sources import VARIABLE


@pytest.fixture(autouse=True)
def project_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebooks of this project, also where the package is a copy elsewhere; no data folder."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(build, "ROOT", Path(__file__).parents[1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source": "nope"}, "SOURCE 'nope'"),
        ({"limit": "0"}, "LIMIT 0"),
        ({"limit": "1000"}, "limit 1000; expected a whole number from 1 to 96"),
        ({"seed": "-1"}, "SEED -1"),
        ({"model": "./nowhere"}, "'./nowhere', which is not a folder"),
        ({"data_dir": "nowhere"}, "nowhere/sst2/validation.parquet"),
        ({"data_dir": "a\0b"}, "DATA_DIR 'a"),
        ({"source": "folder"}, "no folder"),
        ({"source": "hub", "data_dir": "x"}, "data_dir='x'"),
        ({"limit": "abc"}, "limit='abc'"),
        ({"nothing": "3"}, "parameter 'nothing'"),
    ],
    ids=str,
)
def test_one_line_and_no_cell(given, words, capsys, monkeypatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("a notebook ran")

    monkeypatch.setattr(build, "execute", work)
    arguments = [text for pair in given.items() for text in ("--parameter", *pair)]
    assert build.main(["build", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1 and words in said.err


def notebook(place: Path, source: str) -> Path:
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(content, place)
    return place


def test_outputs_with_a_warning_are_not_used_again(tmp_path) -> None:
    """Kept, they would fail every later build, too: Jupyter Book takes a cell's stderr for a warning."""
    (tmp_path / "results").mkdir()
    for name, source, again in (
        ("quiet", "print(1)", False),
        ("loud", "import sys; print(1, file=sys.stderr)", True),
    ):
        source_file, output = notebook(tmp_path / f"{name}.ipynb", source), tmp_path / "out" / f"{name}.ipynb"
        assert build.execute(source_file, output, cwd=tmp_path)
        assert build.execute(source_file, output, cwd=tmp_path) is again
