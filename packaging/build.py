"""Build the wheels: the code, and the weights of the embedded classifier as `lrp-companion-model`.

`python3 packaging/build.py dist` writes both into `dist`; any Python 3.11 with pip does, since pip brings the
setuptools that the projects ask for. Both are made from copies, so that no build folder is left here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
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
name = "lrp-companion-model"
version = "{version}"
description = "The embedded classifier of lrp-companion: 12 layers, made to be explained."
readme = "README.md"
license = "MIT AND Apache-2.0"
license-files = ["LICENSE", "LICENSE-APACHE-2.0"]
requires-python = ">=3.11"
authors = [{{ name = "The LRP Companion authors" }}]
classifiers = ["Topic :: Scientific/Engineering :: Artificial Intelligence"]

[project.urls]
Paper = "https://arxiv.org/abs/2510.18810"

[tool.setuptools]
packages = ["lrp_companion_model"]

[tool.setuptools.package-data]
lrp_companion_model = ["companion/*", "adapters/base/*"]
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
    (folder / "pyproject.toml").write_text(PROJECT.format(version=version()), encoding="utf-8")
    for path in (ROOT / "LICENSE", APACHE):
        shutil.copy(path, folder)
    return folder


def code_project(folder: Path) -> Path:
    """Copy what the code's distribution is made of, so that no build folder is left in the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "companion")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "lrp_companion", folder / "lrp_companion", ignore=ignored)
    return folder


def main(out: Path) -> None:
    """Build both wheels into a folder, and print what was made with its size."""
    with tempfile.TemporaryDirectory() as code, tempfile.TemporaryDirectory() as model:
        for project in (code_project(Path(code)), model_project(Path(model))):
            wheel(project, out)
    for path in sorted(out.glob("*.whl")):
        print(f"{path.stat().st_size / 1e6:6.1f} MB  {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
