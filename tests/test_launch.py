"""Launch links: one address in `_config.yml`, and from it every link and every notebook's cell for Colab."""

from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path

import nbformat
import pytest
import yaml
from browsing import ROOT
from docutils import nodes
from lrp_book.sphinx import launch

ADDRESS = "https://github.com/someone/companion"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The configuration and the notebooks, with an address."""
    text = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert text.count('  url: ""\n') == 1
    (tmp_path / "_config.yml").write_text(
        text.replace('  url: ""\n', f"  url: {ADDRESS}\n"), encoding="utf-8"
    )
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    return tmp_path


def first_cells(root: Path) -> dict[str, nbformat.NotebookNode]:
    return {
        path.name: nbformat.read(path, as_version=4).cells[0]
        for path in sorted((root / "notebooks").rglob("*.ipynb"))
    }


def test_the_notebooks_agree_with_the_address() -> None:
    address, branch = launch.repository(ROOT)
    for name, cell in first_cells(ROOT).items():
        exercises = name.startswith("e")
        wanted = launch.install_cell(address, branch, exercises=exercises) if address else ""
        assert (cell.source if cell.get("id") == launch.CELL else "") == wanted, (
            f"{name}: run python -m lrp_book.sphinx.launch"
        )


def test_every_notebook_gets_the_cell_once_and_loses_nothing(project: Path) -> None:
    before = {
        path: nbformat.read(path, as_version=4) for path in sorted((project / "notebooks").rglob("*.ipynb"))
    }
    if any(old.cells[0].get("id") == launch.CELL for old in before.values()):
        before = {path: launch.with_cell(old, "") for path, old in before.items()}
    launch.update(project)
    assert launch.update(project) == [], "a second time changes nothing"
    for path, old in before.items():
        new = nbformat.read(path, as_version=4)
        cell, *rest = new.cells
        assert cell.id == launch.CELL and cell.metadata.tags == ["remove-cell"] and not cell.outputs
        assert cell.source.count(ADDRESS) == 1
        assert [cell.source for cell in rest] == [cell.source for cell in old.cells]
        counts = [cell.execution_count for cell in new.cells if cell.cell_type == "code"]
        assert counts == list(range(1, len(counts) + 1)), "as if it had been run from the top"
        nbformat.validate(new)
    text = (project / "_config.yml").read_text(encoding="utf-8")
    (project / "_config.yml").write_text(text.replace(f"  url: {ADDRESS}\n", '  url: ""\n'), encoding="utf-8")
    launch.update(project)
    assert {path: nbformat.read(path, as_version=4) for path in before} == before, "and back again"


@pytest.mark.parametrize("colab", [False, True])
def test_the_cell_acts_on_colab_only(colab: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell, calls = InteractiveShell(), []
    monkeypatch.setattr(shell, "system", calls.append)
    monkeypatch.setattr(shell, "run_line_magic", lambda name, line, **_: calls.append(f"{name} {line}"))
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    shell.user_ns["get_ipython"] = lambda: shell
    if colab:
        monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    else:
        monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    shell.run_cell(launch.install_cell(ADDRESS, "main")).raise_error()
    wanted = [
        f"git clone --quiet --depth 1 --branch main {ADDRESS} companion",
        "pip install --quiet ./companion ./companion/book",
        "cd -q companion",
    ]
    assert calls == (wanted if colab else [])
    calls.clear()
    shell.run_cell(launch.install_cell(ADDRESS, "main", exercises=True)).raise_error()
    assert calls == ([wanted[0], "cd -q companion/book"] if colab else []), "exercises install nothing"


def test_binder_installs_what_make_installs() -> None:
    root, binder = (
        yaml.safe_load((ROOT / name).read_text()) for name in ("environment.yml", "binder/environment.yml")
    )
    *others, last = binder["dependencies"]
    assert (binder["name"], binder["channels"]) == (root["name"], root["channels"])
    assert last == {"pip": ["--constraint ../constraints.txt", "--editable ..[book]", "--editable ../book"]}
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.startswith("torch==")
    )
    assert others == ["python =3.11", "pip", f"pytorch-cpu ={pinned['torch']}"]


def test_a_chapters_first_picture_stands_before_its_first_cell() -> None:
    page, app = nodes.document(None, None), types.SimpleNamespace(env=types.SimpleNamespace())
    page += (section := nodes.section("", nodes.title("", "A chapter"), nodes.paragraph("", "Press.")))
    for code, shown in (("import this", nodes.Text("printed")), ("draw()", nodes.image(uri="a.png"))):
        parts = nodes.literal_block("", code), nodes.container("", shown)
        section += nodes.container("", *parts, nb_element="cell_code")
    app.env.docname = "notebooks/session1"
    launch.picture_first(app, page)
    assert [len(cell) for cell in section.children[2:]] == [2, 2], "in a session's notebook nothing moves"
    app.env.docname = "notebooks/01_product_counterexample"
    launch.picture_first(app, page)
    assert [len(cell) for cell in section.children[2:]] == [1, 2, 1]
    assert list(section.children[2].findall(nodes.image)) and not list(
        section.children[4].findall(nodes.image)
    )
