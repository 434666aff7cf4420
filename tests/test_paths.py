"""Paths that no system can hold are refused in one line wherever a path is given."""

from __future__ import annotations

import os
from pathlib import Path

from lrp_companion.checks import as_path
from lrp_companion.cli import main


def test_a_home_is_expanded_and_the_rest_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert as_path("run", "--out", "~/x") == tmp_path / "x"
    assert as_path("run", "--out", Path("runs", "first")) == Path("runs", "first")


def test_a_run_goes_where_the_home_says(tmp_path, monkeypatch, model_folder) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    call = ["run", "sst2", "--source", "embedded", "--model", str(model_folder("bert")), "--limit", "1"]
    assert main([*call, "--methods", "loo", "--out", "~/runs/first", "--quiet"]) == 0
    assert (tmp_path / "home" / "runs" / "first" / "manifest.json").is_file()
    assert not (tmp_path / "~").exists() and os.listdir(tmp_path) == ["home"]
