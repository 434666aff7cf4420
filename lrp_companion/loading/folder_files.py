"""The files that a model's folder names: none of them may lie outside of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lrp_companion.checks import SourceError, shown
from lrp_companion.loading.places import CONFIG

INDICES = "*.index.json"
"""Tables of weights and the files that hold them."""


def check_files(folder: Path) -> None:
    """Refuse a folder that names a file of weights or of a tokenizer outside of it.

    Raises
    ------
    SourceError : such a name: with a folder in it, absolute, or a link that leads out.
    """
    for index in sorted(folder.glob(INDICES)):
        content = read_json(index)
        shards = content.get("weight_map") if isinstance(content, dict) else None
        files = list(shards.values()) if isinstance(shards, dict) else []
        names = {file for file in files if isinstance(file, str)}
        for file in [*(file for file in files if not isinstance(file, str)), *sorted(names)]:
            _check_inside(folder, index.name, file)
    for name, key in ((CONFIG, "transformers_weights"), ("tokenizer_config.json", "fast_tokenizer_files")):
        content = read_json(folder / name)
        given = content.get(key) if isinstance(content, dict) else None
        for file in given if isinstance(given, list) else [given] if given is not None else []:
            _check_inside(folder, name, file)


def read_json(file: Path) -> Any:
    """A file's content, or None: what cannot be read is refused where it is needed."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _check_inside(folder: Path, where: str, file: Any) -> None:
    """Refuse what is no name of a file in this folder; the hub's cache links to a folder next to it."""
    plain = isinstance(file, str) and file not in ("", ".", "..") and not set(file) & set("/\\\0")
    if plain:
        home = folder.resolve()
        roots = (home, home.parent.parent / "blobs") if home.parent.name == "snapshots" else (home,)
        target = (folder / file).resolve()
        plain = any(target.parent == root for root in roots)
    if not plain:
        got = f"folder {folder.name!r}, whose {where} names {shown(file)}"
        hint = "save the model again with save_pretrained"
        raise SourceError("load_classifier", got=got, expected="names of files in this folder", hint=hint)
