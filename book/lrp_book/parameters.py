"""The notebooks' parameters in a build, checked before the first cell runs."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import papermill

from lrp_companion.checks import InputError, choose, whole
from lrp_companion.sources import SOURCES, load_dataset, locate

PARAMETERS = ("source", "data_dir", "model", "limit", "seed", "device", "results")
MAKE_PREFIX = "LRP_COMPANION_BOOK_"
READ = (("sst2", "validation"), ("imdb", "test"), ("mnist", "train"), ("mnist", "test"))


def from_make() -> dict[str, str]:
    """Notebook parameters that make passes in its environment, where no shell reads them."""
    return {
        name: os.environ[MAKE_PREFIX + name.upper()]
        for name in PARAMETERS
        if MAKE_PREFIX + name.upper() in os.environ
    }


def declared(notebook: Path) -> dict[str, Any]:
    """Return the names of a notebook's cell tagged `parameters`, and their values there."""
    cell = papermill.inspect_notebook(str(notebook))
    return {name: ast.literal_eval(parameter["default"]) for name, parameter in cell.items()}


def check_names(notebooks: Sequence[Path], given: Mapping[str, str]) -> None:
    """Refuse a name that is a parameter of none of these notebooks.

    Raises
    ------
    InputError : no notebook has a parameter of that name.
    """
    known = sorted({name for notebook in notebooks for name in declared(notebook)})
    for name in given:
        choose("make book", "parameter", name, known)


def check_parameters(notebook: Path, given: Mapping[str, str]) -> dict[str, Any]:
    """Return those of the given parameters that a notebook has, as values of its types.

    Raises
    ------
    InputError : a number is asked for, and none is given.
    """
    defaults = declared(notebook)
    values: dict[str, Any] = {}
    for name in defaults.keys() & given.keys():
        kind = type(defaults[name])
        try:
            values[name] = kind(given[name])
        except (ValueError, OverflowError):
            got, expected = f"{name}={given[name]!r}", f"a value like {defaults[name]!r}"
            hint = f"pass {name} as {kind.__name__}"
            raise InputError(f"run {notebook.name}", got=got, expected=expected, hint=hint) from None
    return values


def check_values(given: Mapping[str, str]) -> None:
    """Refuse values of the notebooks' common parameters that no notebook could use, before a cell runs.

    Raises
    ------
    CompanionError
        If there is no such source, folder or model, or a number is out of range.
    """
    for name, least in (("limit", 1), ("seed", 0)):
        if name in given:
            whole("make book", name.upper(), int(given[name]), least=least, hint=f"leave out {name.upper()}")
    if "source" in given:
        choose("make book", "SOURCE", given["source"], SOURCES)
    place: dict[str, Any] = {"source": given.get("source", "auto"), "data_dir": given.get("data_dir") or None}
    try:
        for name, split in READ if place["data_dir"] or place["source"] == "folder" else ():
            load_dataset(name, split=split, **place)
    except (OSError, ValueError) as error:  # the library's words, in one line
        got, hint = f"DATA_DIR {place['data_dir']!r}: {error}", "name their folder, or leave DATA_DIR out"
        raise InputError("make book", got=got, expected="the notebooks' data sets", hint=hint) from error
    if place["source"] != "hub" and "limit" in given:
        load_dataset("sst2", limit=int(given["limit"]), **place)
    if "model" in given:
        locate(given["model"])
