"""The light core: what runs without the extras, and one line where one is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lrp_companion import SourceError
from lrp_companion.checks import EXTRAS, extra

CORE = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None  # an import of it fails as if it were not installed
import lrp_companion as lrp
clf = lrp.load_classifier({folder!r})
for method in "attnlrp cp-lrp pa-lrp loo mask-gradient hybrid rollout gradient-x-input".split():
    (record,) = lrp.attribute(clf, "a film of rare grace", method=method)
print(round(lrp.agreement(record, record), 6), lrp.layer_lattice(clf, "dull").scores.shape)
assert len(record.to_json()) > 9
record.save({out!r} + "/map.html")
tries = {{
    "captum": lambda: lrp.attribute(clf, "dull", method="ig"),
    "pyarrow": lambda: lrp.load_dataset({out!r} + "/none.parquet", text="a"),
    "matplotlib": lambda: record.save({out!r} + "/map.png"),
    "scipy": lambda: lrp.kendall([1, 2], [2, 1]),
    "anywidget": lambda: lrp.TokenHeatmap(record),
}}
for name, act in tries.items():
    try:
        act()
    except lrp.SourceError as error:
        print(name, error)
from lrp_companion.cli import main
assert main(["explain", "dull film", "--model", {folder!r}, "--no-colour"]) == 0
"""


def test_attribute_runs_without_the_extras_which_are_named_in_one_line(model_folder, tmp_path):
    (tmp_path / "none.parquet").touch()
    blocked = sorted({*EXTRAS, "pandas"} - {"PIL"})
    code = CORE.format(blocked=blocked, folder=str(model_folder("bert")), out=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("1.0") and (tmp_path / "map.html").is_file()
    lines, explained = lines[:5], lines[5:]
    assert any("film" in line for line in explained)
    for line in lines:
        name = line.partition(" ")[0]
        package = "traitlets" if name == "anywidget" and "traitlets" in line else name
        assert f"got no package {package}" in line
        assert f'pip install "lrp-companion[{EXTRAS[package]}]"' in line


def test_another_missing_module_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), extra("x"):
        import nowhere  # noqa: F401
    with pytest.raises(SourceError, match=r"lrp-companion\[ig\]"), extra("x"):
        raise ModuleNotFoundError("no", name="captum.attr")
