"""The set-up: what is pinned, what is promised, and that the two cannot drift apart."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from house_figures import sizes
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, Version]:
    """What constraints.txt pins on this Python, by canonical name."""
    versions: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not (text := line.split("#")[0].strip()):
            continue
        requirement = Requirement(text)
        (pin,) = requirement.specifier
        assert pin.operator == "==" and "*" not in pin.version, f"{line} is not a pin"
        if requirement.marker is None or requirement.marker.evaluate():
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"{name} is pinned twice"
            versions[name] = Version(pin.version)
    return versions


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_every_package_that_comes_along_is_pinned_and_installed_as_pinned() -> None:
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("only the environment that make sets up has to match constraints.txt")
    pinned = pins()
    waiting, seen = [("lrp-companion", frozenset({"dev"}))], set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        distribution = importlib.metadata.distribution(name)
        if name != "lrp-companion":
            installed = Version(distribution.version).public  # a local build (2.13.0+cpu) is of that version
            assert name in pinned, f"constraints.txt does not pin {name}"
            assert installed == pinned[name].public, f"{name} is {installed}, pinned at {pinned[name]}"
        for text in distribution.requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
            ):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    assert len(seen) > 50


def test_environment_file_takes_its_versions_from_the_constraints() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *others, last = environment["dependencies"]
    assert last == {"pip": ["--constraint constraints.txt", "--editable .[dev]", "--editable ./book"]}
    assert not [name for name in others if re.search(r"torch|transformers|numpy|jupyter", name)]
    (python,) = [Requirement(name) for name in others if name.startswith("python")]
    tested = {text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)}
    assert tested == {"3.11", "3.12", "3.13", "3.14"}
    assert {f"3.{minor}" for minor in range(9, 20) if python.specifier.contains(f"3.{minor}")} == tested


def test_make_installs_through_the_constraints_only() -> None:
    command = ["make", "--dry-run", "--always-make", "book", "test"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [line for line in said.splitlines() if " pip " in line]
    assert len(installs) >= 2
    assert all("--constraint constraints.txt" in line for line in installs)


def test_make_passes_on_only_what_its_command_line_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "cuda")
    monkeypatch.setenv("MODEL", "somewhere/else")
    assert passed_on() == set()
    assert passed_on("SOURCE=folder", "LIMIT=64") == {
        "LRP_COMPANION_BOOK_SOURCE=folder",
        "LRP_COMPANION_BOOK_LIMIT=64",
    }
    for folder in ("it's here", '"quoted" $HOME `id` #1', "a\\b; echo c"):
        assert passed_on(f"DATA_DIR={folder}") == {f"LRP_COMPANION_BOOK_DATA_DIR={folder}"}


def passed_on(*arguments: str) -> set[str]:
    """What make's commands see in their environment."""
    done = subprocess.run(
        ["make", "--silent", "--eval", "show:; @env", "show", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in done.stdout.splitlines() if line.startswith("LRP_COMPANION_BOOK_")}


def test_a_checkout_is_small_and_no_file_names_an_index_a_delivery_network_or_a_machine() -> None:
    pieces = "py pi.org, python hosted, registry.np mjs, download.py torch, jsde livr, unp kg.com, cdn js"
    # in two pieces, so that this file passes, too
    hosts = pieces.replace(" ", "").split(",")
    parts = [*hosts, "/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/"]
    for path in tracked_files():
        if path.suffix in {".safetensors", ".png", ".npz"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace" if path.suffix == ".parquet" else "strict")
        allowed = {hosts[3]} if path.name == "torch_build.py" else set()  # torch's CPU build is nowhere else
        assert not [part for part in parts if part in text and part not in allowed], path.relative_to(ROOT)
    assert sum(sizes(ROOT)) < 130e6 and max(sizes(ROOT)) < 50e6
