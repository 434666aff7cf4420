"""Where a model is: embedded, a folder, or the hub. No torch, so that a mistyped name is refused at once."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from lrp_companion.checks import SourceError
from lrp_companion.sources import base_model

EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
MODEL_PACKAGE, DEFAULT = "lrp_companion_model", "companion"
BASE = "base"
"""The name of the classifier that is an adapter of `sources.base_model`."""
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
    (`sources.base_model`) if it is there.
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
    if text == base_model.ID and revision is None and base_model.is_here():
        return Place(text, str(base_model.folder()), "folder")
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
    if not (base_model.is_here() or isinstance(try_to_load_from_cache(base_model.ID, CONFIG), str)):
        got = f"{BASE!r}, an adapter of {base_model.ID}, which is not in {base_model.folder()}"
        raise _missing(got, f"fetch it once (405 MB): {base_model.COMMAND}")
    return Place(BASE, str(here[0]), "embedded")


def _missing(got: str, hint: str) -> SourceError:
    expected = "an embedded model, a folder, or a hub id"
    return SourceError("load_classifier", got=got, expected=expected, hint=hint)
