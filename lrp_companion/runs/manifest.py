"""A run's manifest: its configuration, named by a key, and its sessions. Without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lrp_companion.checks import SourceError, is_whole

FORMAT = 1
MANIFEST = "manifest.json"


def key_of(config: Mapping[str, Any]) -> str:
    """12 hexadecimal digits for a configuration, which is all that its rows depend on.

    >>> key_of({"task": "sst2", "dtype": "float32"}) == key_of({"dtype": "float32", "task": "sst2"})
    True
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a run's folder; it may be incomplete but has format, key and configuration.

    Raises
    ------
    SourceError : there is none, or it cannot be read.
    """
    file = place / MANIFEST
    if not file.is_file():
        state = "an empty folder" if not any(place.iterdir()) else "a folder without a manifest"
        got, hint = f"{place}, {state}", "make one with lrp-companion run"
        raise SourceError("load_run", got=got, expected="the folder of a run", hint=hint)
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or key_of(manifest["config"]) != manifest["key"]:
            raise ValueError("its key does not fit its configuration, or it has another format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        got = f"{file}, which cannot be read ({error})"
        expected, way = f"a manifest of format {FORMAT}", "repeat the same run command"
        hint = f"restore the file, or remove it and {way}: the rows are untouched, and it writes another"
        raise SourceError("load_run", got=got, expected=expected, hint=hint) from None
    return manifest


def check_complete(place: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest without all that a report reads; a session of the run completes it."""
    wrong = [name for name, fits in _ENTRIES.items() if not fits(manifest)]
    if wrong:
        got, expected = (
            f"{place / MANIFEST} without a usable entry {wrong[0]}",
            "a manifest as a run writes it",
        )
        hint = "repeat the same run command: the rows are untouched, and it completes the manifest"
        raise SourceError("load_run", got=got, expected=expected, hint=hint)


def are_sessions(rows: Any) -> bool:
    """Whether these are sessions as a manifest keeps them, none among them."""
    return isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("start"), str) and {"end", "seconds"} <= row.keys()
        for row in rows
    )


def _is_model(manifest: Mapping[str, Any]) -> bool:
    model, on_texts = manifest.get("model"), "chunk" in manifest["config"]
    needed = {"name": str, "family": str} | ({"layers": int, "labels": list} if on_texts else {})
    return isinstance(model, dict) and all(isinstance(model.get(key), kind) for key, kind in needed.items())


def _are_axes(manifest: Mapping[str, Any]) -> bool:
    """Axes of the columns, which only a run on texts has."""
    axes = manifest.get("axes")
    return "chunk" not in manifest["config"] or (
        isinstance(axes, dict) and isinstance(axes.get("removal"), list) and bool(axes["removal"])
    )


_ENTRIES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "sessions": lambda manifest: are_sessions(manifest.get("sessions")) and bool(manifest["sessions"]),
    "model": _is_model,
    "data": lambda manifest: isinstance(manifest.get("data"), str),
    "examples": lambda manifest: is_whole(manifest.get("examples")),
    "axes": _are_axes,
}
"""What a report reads in a manifest besides the configuration, with a check of each entry."""
