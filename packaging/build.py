"""Build the wheels: the code, the weights of the embedded classifier as `lrp-companion-model`, and the
exercises, which need NumPy alone, as `lrp-exercises`.

`python3 packaging/build.py dist` writes them into `dist`; any Python 3.11 with pip does, since pip brings the
setuptools that the projects ask for. All are made from copies, so that no build folder is left here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "lrp_companion" / "embedded" / "companion"
ADAPTER = ROOT / "training" / "base" / "sst2-imdb-seed-0"
"""That of `load_classifier("base")`, which is looked for in `adapters/base`."""
APACHE = ROOT / "packaging" / "LICENSE-APACHE-2.0"
INIT = '"""The weights of the classifier `companion`, which lrp_companion finds here."""\n'
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "{description}"
readme = "README.md"
license = "{license}"
license-files = ["LICENSE*"]
requires-python = ">=3.11"
dependencies = [{dependencies}]
authors = [{{ name = "The LRP Companion authors" }}]
classifiers = ["Topic :: Scientific/Engineering :: Artificial Intelligence"]

[project.urls]
Paper = "https://arxiv.org/abs/2510.18810"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["companion/*", "adapters/base/*"]
"""
MODEL = {
    "name": "lrp-companion-model",
    "package": "lrp_companion_model",
    "description": "The embedded classifier of lrp-companion: 12 layers, made to be explained.",
    "license": "MIT AND Apache-2.0",
    "dependencies": "",
}
EXERCISES = {
    "name": "lrp-exercises",
    "package": "lrp_exercises",
    "description": "Exercises on layer-wise relevance propagation that check themselves, with NumPy alone.",
    "license": "MIT",
    "dependencies": '"numpy>=2"',
}
EXERCISES_README = """Exercises on layer-wise relevance propagation, of the LRP Companion. `exercises()` lists
them, `check("softmax-rule", my_function)` says what is likely wrong, `hint("softmax-rule")` helps.
"""


def version() -> str:
    """Return the package's version; both distributions have the same."""
    text = (ROOT / "lrp_companion" / "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "([^"]+)"', text, re.MULTILINE)[0]


def wheel(project: Path, out: Path) -> None:
    """Build the wheel of a project, isolated from this environment."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    command = [sys.executable, "-m", "pip", "wheel", *quiet, "--wheel-dir", str(out), str(project)]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"build: pip gives no wheel of {project.name}; its words stand above")


def model_project(folder: Path) -> Path:
    """Lay out the distribution of the weights in a folder."""
    package = folder / "lrp_companion_model"
    shutil.copytree(WEIGHTS, package / "companion")
    shutil.copytree(ADAPTER, package / "adapters" / "base")
    (package / "__init__.py").write_text(INIT, encoding="utf-8")
    card = (WEIGHTS / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(
        re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL), encoding="utf-8"
    )
    described(folder, MODEL)
    shutil.copy(APACHE, folder)
    return folder


def exercises_project(folder: Path) -> Path:
    """Lay out the distribution of the exercises in a folder."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "book" / "lrp_exercises", folder / "lrp_exercises", ignore=ignored)
    (folder / "README.md").write_text(EXERCISES_README, encoding="utf-8")
    return described(folder, EXERCISES)


def described(folder: Path, what: Mapping[str, str]) -> Path:
    """Give a distribution its `pyproject.toml` and the licence."""
    (folder / "pyproject.toml").write_text(PROJECT.format(version=version(), **what), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder)
    return folder


def code_project(folder: Path) -> Path:
    """Copy what the code's distribution is made of, so that no build folder is left in the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "companion")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "lrp_companion", folder / "lrp_companion", ignore=ignored)
    return folder


def main(out: Path) -> None:
    """Build all wheels into a folder, and print what was made with its size."""
    for lay_out in (code_project, model_project, exercises_project):
        with tempfile.TemporaryDirectory() as folder:
            wheel(lay_out(Path(folder)), out)
    for path in sorted(out.glob("*.whl")):
        print(f"{path.stat().st_size / 1e6:6.1f} MB  {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
