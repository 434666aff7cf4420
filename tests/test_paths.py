"""Paths that no system can hold are refused in one line wherever a path is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lrp_companion.attribution import Attribution
from lrp_companion.checks import CompanionError, InputError, as_path
from lrp_companion.cli import main
from lrp_companion.lab.load import load_run, load_runs
from lrp_companion.lab.paper.report import write_figures, write_report
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.page.live_page import export_page
from lrp_companion.sources import load_dataset, reachable

BAD = ["a\0b", "~nouser-of-this-name/x", "x" * 300, "y/" * 5000, "\ud800"]
NAMES = ["nul", "user", "name", "path", "surrogate"]


@pytest.mark.parametrize("given", [*BAD, "", "  ", None, 3, b"bytes", [Path("x")]])
def test_what_is_no_path_is_refused(given: object) -> None:
    with pytest.raises(InputError) as caught:
        as_path("run", "--out", given)
    assert len(str(caught.value)) < 250 and str(caught.value).startswith("run: got --out ")


def test_a_home_is_expanded_and_the_rest_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert as_path("run", "--out", "~/x") == tmp_path / "x"
    assert as_path("run", "--out", Path("runs", "first")) == Path("runs", "first")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert as_path("run", "--out", tmp_path / "loop") == tmp_path / "loop"
    with pytest.raises(InputError, match="no system can hold"):
        as_path("run", "--out", tmp_path / "loop" / "inner")


@pytest.fixture(scope="module")
def made(model_folder, tmp_path_factory) -> Path:
    """A run of one text."""
    out = tmp_path_factory.mktemp("made") / "run"
    call = ["run", "sst2", "--source", "embedded", "--model", str(model_folder("bert")), "--limit", "1"]
    assert main([*call, "--methods", "loo", "--out", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize("given", BAD, ids=NAMES)
def test_every_place_that_takes_a_path_refuses_it(given, made, tmp_path, capsys, refused) -> None:
    record = Attribution(("a", "b"), [1.0, 2.0], 0, 1.0, [False, False], "loo")
    for call in (
        load_classifier,
        load_run,
        lambda path: load_runs([path]),
        lambda path: reachable(path),
        lambda path: record.save(f"{path}.html"),
        lambda path: record.save(f"{path}.json"),
        lambda path: load_dataset(f"{path}.tsv", text="text"),
        lambda path: load_dataset(Path(path), text="text"),
        lambda path: write_report([load_run(made)], path),
        lambda path: write_figures([load_run(made)], path),
        lambda path: export_page(None, path),
    ):
        with pytest.raises(CompanionError):
            call(given)
    with pytest.raises(CompanionError):
        load_dataset("sst2", source="folder", data_dir=given)
    for arguments in (
        ["run", "sst2", "--out", given],
        ["run", "sst2", "--out", str(tmp_path / "x"), "--source", "folder", "--data-dir", given],
        ["report", given],
        ["sources", "--data-dir", given],
        ["explain", "a film", "--model", given],
        ["explain", "a film", "--out", f"{given}.html"],
        ["check", "a film", "--model", given],
        ["check", "a film", "--out", f"{given}.html"],
        ["run", f"{given}.csv", "--text", "text", "--out", str(tmp_path / "x")],
        ["run", "sst2", "--source", "embedded", "--loo-from", given, "--out", str(tmp_path / "x")],
        ["report", str(made), "--out", given],
        ["report", str(made), "--figures", given],
        ["export-page", "--out", given],
        ["export-page", "--model", given, "--out", str(tmp_path / "x")],
    ):
        capsys.readouterr()
        refused(arguments)
    assert not any(tmp_path.iterdir())


def test_a_run_goes_where_the_home_says(tmp_path, monkeypatch, model_folder) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    call = ["run", "sst2", "--source", "embedded", "--model", str(model_folder("bert")), "--limit", "1"]
    assert main([*call, "--methods", "loo", "--out", "~/runs/first", "--quiet"]) == 0
    assert (tmp_path / "home" / "runs" / "first" / "manifest.json").is_file()
    assert not (tmp_path / "~").exists() and os.listdir(tmp_path) == ["home"]


@pytest.mark.parametrize("option", ["--out", "--figures"])
@pytest.mark.parametrize("given", ["", " ", "\t"])
def test_an_empty_path_is_not_taken_for_none(option: str, given: str, made: Path, refused) -> None:
    line = refused(["report", str(made), option, given])
    assert line.startswith(f"report: got {option} ") and "which is empty" in line
    assert "an empty --out" in refused(["run", "sst2", "--source", "embedded", "--out", given])


@pytest.mark.parametrize("below", ["file/x", "file/x/y", "file/../file/x", "/proc/x", "/proc/self/x/y"])
def test_a_page_where_no_folder_can_be_made_is_refused(below: str, tmp_path, model_folder, refused) -> None:
    if below.startswith("/proc") and not os.path.isdir("/proc/self"):
        pytest.skip("a system without /proc")
    (tmp_path / "file").write_text("")
    given = tmp_path / below
    with pytest.raises(InputError, match="which cannot be made"):
        export_page(None, given)
    refused(["export-page", "--model", str(model_folder("bert")), "--out", str(given)])
    assert [place.name for place in tmp_path.iterdir()] == ["file"]
