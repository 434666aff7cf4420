"""Where a model lies: a mistyped name is told at once, without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lrp_companion.checks import SourceError
from lrp_companion.sources import ADAPTER, locate


def test_a_folder_an_embedded_model_and_an_adapter(model_folder, tmp_path: Path) -> None:
    folder = model_folder("bert")
    assert (locate(folder).source, locate(str(folder)).name) == ("folder", folder.name)
    assert not locate(folder).has(ADAPTER)
    assert locate("companion").source == "embedded"
    (tmp_path / "adapter_config.json").write_text("{}")
    assert locate(tmp_path).has(ADAPTER)


@pytest.mark.parametrize(
    "name", ["my-modle", "./my-modle", "a/b/c", "", " ", "my modle", "companoin", "a\0b"]
)
def test_a_mistyped_folder_is_no_folder(name: str) -> None:
    with pytest.raises(SourceError, match="which is not a folder.* a hub id is owner/name"):
        locate(name)


def test_the_command_tells_it_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom lrp_companion.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)\n"
    )
    command = [sys.executable, "-c", code, "explain", "a film", "--model", "my-modle"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "'my-modle', which is not a folder" in done.stderr
