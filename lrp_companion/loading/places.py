"""Where a model is: embedded, a folder, whose files may not lie outside of it, or the hub. No torch, so that
a mistyped name is refused at once.
"""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError, SourceError, as_path, shown
from lrp_companion.sources import base_model

EMBEDDED_FOLDER = Path(__file__).parent.parent / "embedded"
MODEL_PACKAGE, DEFAULT = "lrp_companion_model", "companion"
BASE = "base"
"""The name of the classifier that is an adapter of `sources.base_model`."""
CHECKOUT = Path(__file__).parents[2] / "training" / "base" / "sst2-imdb-seed-0"
CONFIG, ADAPTER, PACKED = "config.json", "adapter_config.json", ".gguf"
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
PATIENCE = 4.0
"""Seconds to wait for the hub's first answer."""


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

    @property
    def is_adapter(self) -> bool:
        """Whether this is a folder of a PEFT adapter; a configuration next to it may name its labels."""
        return self.source != "hub" and (Path(self.path) / ADAPTER).is_file()

    @property
    def is_whole(self) -> bool:
        """Whether this is a folder with a whole model."""
        folder = Path(self.path)
        weights = (file for pattern in WEIGHTS for file in folder.glob(pattern))
        return self.source != "hub" and (folder / CONFIG).is_file() and any(weights)


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

    A hub id is `owner/name`. If the local cache does not have it, the hub is asked once. "base" is an adapter
    of all-mpnet-base-v2, which is read from its folder (`sources.base_model`) if it is there.

    Raises
    ------
    InputError : a name of another type.
    SourceError : no such folder; one with several .gguf files and no other model; an id that the hub does not
        have, or a hub that does not answer.

    >>> locate("companion").source
    'embedded'
    """
    if not isinstance(name, (str, os.PathLike)):
        got, expected = f"a model of type {type(name).__name__}", "a name, a folder, or a network of torch"
        raise InputError("load_classifier", got=got, expected=expected, hint="pass the network inside of it")
    text = os.fspath(name)
    folders = embedded_folders()
    if text in folders:
        return Place(text, str(folders[text]), "embedded", revision)
    if text == DEFAULT and not Path(text).is_dir():
        got, expected = f"{text!r}, whose weights are missing", "the embedded model, a separate package"
        hint = "install it: pip install lrp-companion-model"
        raise SourceError("load_classifier", got=got, expected=expected, hint=hint)
    if text == BASE and not Path(text).is_dir():
        return _base_place(revision)
    if text == base_model.ID and revision is None and base_model.is_here():
        return Place(text, str(base_model.folder()), "folder")
    place = as_path("load_classifier", "name", text) if text.strip() else Path(text)
    if text.strip() and place.suffix == PACKED and place.is_file():
        return Place(place.stem, str(place.parent), "folder", revision, place.name)
    if text.strip() and place.is_dir():
        return _in_folder(Place(place.resolve().name, str(place), "folder", revision))
    is_path = isinstance(name, os.PathLike) or text.startswith((".", "/", "~"))
    owner, slash, rest = text.partition("/")
    is_path |= not text.strip() or "/" in rest or "\\" in text or (bool(slash) and Path(owner).is_dir())
    if is_path:
        raise _no_folder(text, f"embedded models: {', '.join(embedded_models()) or 'none'}")
    if not _cached(text, revision):
        if not slash:
            raise _no_folder(text, "check the name; a hub id has an owner, as in owner/name")
        _ask_hub(text, revision)
    return Place(text, text, "hub", revision)


def _base_place(revision: str | None) -> Place:
    """The adapter that `BASE` means, if its base is on this machine."""
    folders = [CHECKOUT, *(folder / "adapters" / BASE for folder in _model_package())]
    here = [folder for folder in folders if (folder / ADAPTER).is_file()]
    if not here:
        got, expected = f"{BASE!r}, whose adapter is missing", "it in a checkout, or in a separate package"
        hint = "install it: pip install lrp-companion-model"
        raise SourceError("load_classifier", got=got, expected=expected, hint=hint)
    if not (base_model.is_here() or _cached(base_model.ID, None)):
        got, expected = f"{BASE!r}, an adapter of {base_model.ID}", f"this model in {base_model.folder()}"
        hint = f"fetch it once (405 MB): {base_model.COMMAND}"
        raise SourceError("load_classifier", got=got, expected=expected, hint=hint)
    return Place(BASE, str(here[0]), "embedded", revision)


def _in_folder(place: Place) -> Place:
    """The model of a folder; that of its one .gguf file where it holds no other weights."""
    files = sorted(file.name for file in Path(place.path).glob(f"*{PACKED}"))
    if not files or place.is_adapter or place.is_whole:
        return place
    if len(files) > 1:
        got, hint = (
            f"folder {place.name!r} with {len(files)} {PACKED} files",
            f"name one, such as {files[0]!r}",
        )
        raise SourceError("load_classifier", got=got, expected="one model", hint=hint)
    return replace(place, packed=files[0])


def _no_folder(text: str, hint: str) -> SourceError:
    got, expected = f"{text!r}, which is not a folder", "an embedded model, a folder, or a hub id"
    return SourceError("load_classifier", got=got, expected=expected, hint=hint)


def _cached(text: str, revision: str | None) -> bool:
    """Whether the hub's local cache has this model's configuration."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(text, CONFIG, revision=revision), str)
    except HFValidationError:
        raise _no_folder(text, "check the name; it is not a hub id either") from None


def _ask_hub(text: str, revision: str | None) -> None:
    """Refuse an id that the hub does not have, by one request, because loading repeats failed ones."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    try:
        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set, and the local cache does not have it")
        get_hf_file_metadata(hf_hub_url(text, CONFIG, revision=revision), timeout=PATIENCE)
    except Exception as error:  # of httpx or huggingface_hub, with no common base
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        got = f"{text!r}, which is not a folder and, as hub id {text!r}, cannot be loaded ({reason[:200]})"
        expected = "a folder, or a hub id that can be reached"
        hint = 'check name and connection, or use the embedded model: load_classifier("companion")'
        hint = base_model.COMMAND if text == base_model.ID else hint
        raise SourceError("load_classifier", got=got, expected=expected, hint=hint) from None


def check_files(folder: Path) -> None:
    """Refuse a folder whose tables name files of weights or of a tokenizer outside of it.

    `transformers` would read them there.

    Raises
    ------
    SourceError : such a name: with a folder in it, absolute, or a link that leads out.
    """
    home = folder.resolve()
    inside = {home, home.parent.parent / "blobs"} if home.parent.name == "snapshots" else {home}
    tables = [read_json(index)["weight_map"].values() for index in folder.glob("*.index.json")]
    tables.append((read_json(folder / "tokenizer_config.json") or {}).get("fast_tokenizer_files") or [])
    outside = [file for files in tables for file in files if (folder / file).resolve().parent not in inside]
    if outside:
        got = f"folder {folder.name!r}, whose tables name {shown(outside[0])}"
        hint = "save the model again with save_pretrained"
        raise SourceError("load_classifier", got=got, expected="names of files in this folder", hint=hint)


def read_json(file: Path) -> Any:
    """A file's content; None where there is none."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
