"""Where a model lies: a mistyped name is told at once, without torch and without waiting for the hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lrp_companion.checks import SourceError
from lrp_companion.loading.places import locate

NOBODY = "http://127.0.0.1:9"


def test_a_folder_an_embedded_model_and_an_adapter(model_folder, tmp_path: Path) -> None:
    folder = model_folder("bert")
    assert (locate(folder).source, locate(str(folder)).name, locate(folder).is_adapter) == (
        "folder",
        folder.name,
        False,
    )
    assert locate("companion").source == "embedded"
    (tmp_path / "adapter_config.json").write_text("{}")
    assert locate(tmp_path).is_adapter


@pytest.mark.parametrize("name", ["my-modle", "runs/my-modle", "./my-modle", "a/b/c", "", " ", "my modle"])
def test_a_mistyped_folder_is_no_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under a folder that is there: `runs/my-modle` is not a hub id of an owner `runs`."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match="which is not a folder"):
        locate(name)


def test_the_command_tells_it_without_torch(tmp_path: Path) -> None:
    """The hub is at a closed port: it is asked once, for an id with an owner only."""
    code = (
        "import sys\nfrom lrp_companion.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)\n"
    )
    for name in ("my-modle", "someone/my-modle"):
        done = subprocess.run(
            [sys.executable, "-c", code, "explain", "a film", "--model", name],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "HF_ENDPOINT": NOBODY, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"},
        )
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert f"{name!r}, which is not a folder" in done.stderr


def test_a_word_without_an_owner_is_told_before_the_hub_is_asked() -> None:
    with pytest.raises(SourceError, match="a hub id has an owner"):
        locate("companoin")
