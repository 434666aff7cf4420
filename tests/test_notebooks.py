"""The notebooks as files (clean, complete, parametrised) and how they are executed and built into a book."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from itertools import dropwhile
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

pytest.importorskip("papermill", reason="papermill comes with the extra book")

from lrp_book import build
from lrp_book.parameters import declared
from lrp_book.sphinx import your_sentence

NOTEBOOKS = sorted((build.ROOT / "notebooks").glob("*.ipynb"))
ALL = [*NOTEBOOKS, *sorted((build.ROOT / "notebooks" / "exercises").glob("*.ipynb"))]
ABSOLUTE_PATH = re.compile(r"(?<![\w:/.<])/(home|root|tmp|usr|opt|work|Users|var|private)/|\b[A-Z]:\\\\")


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_was_run_whole_and_holds_no_error_stderr_path_or_widget(path: Path) -> None:
    notebook, cells = nbformat.read(path, as_version=4), code_cells(path)
    nbformat.validate(notebook)
    assert not {"widgets", "papermill"} & notebook.metadata.keys()
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr", output
            assert not [kind for kind in output.get("data", {}) if "widget" in kind], output
            texts = [str(value) for kind, value in output.get("data", {}).items() if kind.startswith("text/")]
            text = output.get("text", "") + "".join(texts)
            assert not ABSOLUTE_PATH.search(text), text[:500]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_needs_nothing_of_the_book(path: Path) -> None:
    assert not [cell for cell in code_cells(path) if "lrp_book" in cell.source]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_parameter_is_used_in_a_later_cell(path: Path) -> None:
    cells = dropwhile(lambda cell: "parameters" not in cell.metadata.get("tags", []), code_cells(path))
    code = "\n".join(TransformerManager().transform_cell(cell.source) for cell in list(cells)[1:])
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    assert not declared(path).keys() - used


def test_a_notebook_gets_those_of_the_parameters_that_it_has(project: Path) -> None:
    """Until a test demanded the same six of every notebook, 30 of 62 did nothing."""
    given = {"limit": "3", "seed": "1", "results": "elsewhere"}
    assert build.check_parameters(project / "notebooks" / "tiny.ipynb", given) == {"limit": 3}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A book of one page and one notebook, with the real configuration."""
    cells = [
        nbformat.v4.new_markdown_cell("# Tiny"),
        nbformat.v4.new_code_cell("limit = 2\nname = 'a'", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("import os\nprint(10 * limit, name, os.environ.get('LRP_COMPANION_DATA'))"),
    ]
    for folder in ("book", "notebooks"):
        (tmp_path / folder).mkdir()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    tiny = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(tiny, tmp_path / "notebooks" / "tiny.ipynb")
    shutil.copy(build.ROOT / "_config.yml", tmp_path)
    for name in ("logo.svg", "references.bib"):
        shutil.copy(build.ROOT / "book" / name, tmp_path / "book")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n- file: notebooks/tiny\n"
    )
    (tmp_path / "book" / "index.md").write_text("# Tiny book\n\n$R = a g$\n")
    return tmp_path


def printed(path: Path) -> str:
    return "".join(output.text for cell in code_cells(path) for output in cell.outputs)


def change(notebook: Path, *sources: str) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(content, notebook)


def test_execute_runs_with_parameters_and_uses_an_unchanged_result_again(project: Path):
    notebook, output = project / "notebooks" / "tiny.ipynb", project / "out" / "tiny.ipynb"
    before = notebook.read_bytes()
    assert build.execute(notebook, output, cwd=project)
    assert printed(output) == "20 a None\n"
    assert not build.execute(notebook, output, cwd=project), "nothing changed, so nothing has to run"
    assert build.execute(notebook, output, parameters={"limit": "3"}, cwd=project)
    assert printed(output) == "30 a None\n"
    assert notebook.read_bytes() == before
    assert "papermill" not in output.read_text()
    change(notebook, "1 / 0")
    with pytest.raises(build.PapermillExecutionError, match="ZeroDivisionError"):
        build.execute(notebook, output, cwd=project)
    assert not output.with_suffix(".key").exists(), "a failed run must not be used again"


def test_notebooks_run_side_by_side_and_a_failure_stops_what_has_not_begun(project, monkeypatch):
    tiny = project / "notebooks" / "tiny.ipynb"
    for name in ("a", "b", "z"):
        shutil.copy(tiny, project / "notebooks" / f"{name}.ipynb")
    change(project / "notebooks" / "b.ipynb", "print(os.environ['OMP_NUM_THREADS'])")
    build.refresh(project)
    said = [printed(project / "notebooks" / f"{name}.ipynb") for name in ("a", "b", "tiny", "z")]
    assert all(text.startswith("20 a None\n") for text in said)
    assert int(printed(project / "notebooks" / "b.ipynb").splitlines()[1]) >= 1
    monkeypatch.setattr(build, "AT_ONCE", 1)
    change(project / "notebooks" / "b.ipynb", "1 / 0")
    change(project / "notebooks" / "z.ipynb", "print('new')")
    with pytest.raises(build.PapermillExecutionError, match="ZeroDivisionError"):
        build.refresh(project)
    assert "new" not in printed(project / "_build" / "executed" / "z.ipynb"), "never begun"


def test_key_changes_with_every_input(project: Path) -> None:
    notebook, package = project / "notebooks" / "tiny.ipynb", project / "package"
    package.mkdir()
    (package / "rules.py").write_text("half = 0.5\n")

    def key(**given: int) -> str:
        return build.source_key(notebook, given, packages=[package])

    keys = [key(), key(limit=3)]
    (package / "rules.py").write_text("half = 1.0\n")
    keys.append(key())
    change(notebook, "print(1)")
    assert len({*keys, key()}) == 4 and key() == key()


def test_a_run_on_data_from_outside_is_never_used_again(project, monkeypatch):
    monkeypatch.setenv("LRP_COMPANION_DATA", "elsewhere")
    notebook, output = project / "notebooks" / "tiny.ipynb", project / "out" / "tiny.ipynb"
    assert build.execute(notebook, output, cwd=project) and build.execute(notebook, output, cwd=project)
    assert printed(output) == "20 a elsewhere\n"


@pytest.fixture(autouse=True)
def small_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built here is built on the embedded default, without the model that a page may carry."""
    monkeypatch.delenv("LRP_COMPANION_DATA", raising=False)
    monkeypatch.setenv(your_sentence.VARIABLE, "0")


def test_build_fails_and_names_every_warning(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A dead reference of a page, and a cell that writes to stderr."""
    (project / "book" / "index.md").write_text("# Tiny book\n\n{ref}`nowhere`\n")
    change(project / "notebooks" / "tiny.ipynb", "import sys\nprint('careful', file=sys.stderr)")
    with pytest.raises(subprocess.CalledProcessError):
        build.build(project)
    said = capfd.readouterr().err
    assert "nowhere" in said and "stderr" in said
