"""The entries of a PEFT adapter's adapter_config.json, checked before `peft` acts on them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lrp_companion.checks import ModelError, is_whole, shown
from lrp_companion.loading.places import ADAPTER

Entries = dict[str, Any]
MERGEABLE = (
    "LORA",
    "IA3",
    "LOHA",
    "LOKR",
    "OFT",
    "HRA",
    "LN_TUNING",
    "VERA",
    "FOURIERFT",
    "MISS",
    "TRAINABLE_TOKENS",
)
"""Kinds of adapters that become plain weights."""
OF_FILES = (
    "peft_type",
    "task_type",
    "auto_mapping",
    "peft_version",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "runtime_config",
    "megatron_core",
)
"""Entries on which no weight depends; the reader of a base looks at some of them."""
OF_TRAINING = ("loftq_config", "eva_config", "corda_config", "lora_ga_config")
"""Entries for the start of a training; its end is in the file of weights."""
STARTS = ("gaussian", "eva", "orthogonal", "mica", "lycoris")
"""How the weights of an adapter may begin, where that leaves the base model as it is."""
CHANGES_BASE = ("pissa", "olora")
"""Those that take something from the base model's weights, which every reader must take again."""
PATTERNS = ("target_modules", "exclude_modules", "feedforward_modules")
NAMES = ("modules_to_save", "layers_pattern")
TABLES = ("rank_pattern", "alpha_pattern", "n_frequency_pattern")
INDICES = ("layers_to_transform", "trainable_token_indices", "token_indices")
PLAIN = re.compile(r"\^?(?:[\w-]|\\?\.)+\$?")
"""Names, and patterns that repeat nothing."""
MOST = 1_000_000
"""The largest rank and the like."""
PATIENCE = 5.0
"""Seconds for matching a pattern with the names of all modules: a few milliseconds are usual."""
_MATCHING = """
import json, re, sys
patterns, names = json.load(sys.stdin)
json.dump([[name for name in names if re.fullmatch(pattern, name)] for pattern in patterns], sys.stdout)
"""


def read_entries(folder: Path) -> Entries:
    """What adapter_config.json holds.

    Raises
    ------
    ModelError : no JSON object, or a kind of adapter that cannot be merged into its base model.
    """
    try:
        with (folder / ADAPTER).open("rb") as file:
            content = file.read(1_000_001)
        entries = json.loads(content) if len(content) <= 1_000_000 else None
    except (OSError, ValueError, RecursionError):
        entries = None
    if not isinstance(entries, dict):
        raise refused(folder.name, f"{ADAPTER} cannot be read", "a JSON object, as peft writes it")
    kind = entries.get("peft_type")
    if not isinstance(kind, str) or kind not in MERGEABLE:
        expected = f"a kind of adapter that becomes plain weights: {', '.join(MERGEABLE)}"
        hint = "train such an adapter, or explain the base model"
        raise refused(folder.name, f"peft_type is {shown(kind)}", expected, hint=hint)
    return entries


def checked(name: str, entries: Entries, config_class: Any, modules: Iterable[str]) -> Entries:
    """The entries as `config_class` of `peft` takes them, every pattern as a list of names of modules.

    Raises
    ------
    ModelError : an entry of another type, or one that `peft` does not know; a pattern that takes too long.
    """
    defaults = {
        field.name: None if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(config_class)
    }
    if isinstance(entries.get("target_modules"), str) and entries.get("layers_to_transform") is not None:
        got = "target_modules is a pattern and layers_to_transform chooses layers"
        raise refused(name, got, "one of them")
    modules, out = [module for module in modules if module], {}
    for key, value in entries.items():
        if key in OF_FILES or key in OF_TRAINING:
            continue
        if key not in defaults:
            if value:  # nobody knows what it would change
                got = f"{shown(key, 40)} is {shown(value)}"
                raise refused(name, got, "entries that the installed peft knows", hint="update peft")
            continue
        out[key] = _checked(name, key, value, defaults[key], modules)
    return out


def _checked(name: str, key: str, value: Any, default: Any, modules: list[str]) -> Any:
    """One entry."""
    if key in ("init_lora_weights", "init_weights", "init_ia3_weights"):
        return _start(name, key, value)
    if key in PATTERNS:
        return (_names_of if isinstance(value, str) else _plain_names)(name, key, value, modules)
    if key in NAMES:
        return _plain_names(name, key, [value] if isinstance(value, str) else value, modules)
    if key in TABLES:
        return _table(name, key, value, modules)
    if key in INDICES:
        return _indices(name, key, value)
    if isinstance(default, bool):
        good, expected = isinstance(value, bool), "true or false"
    elif isinstance(default, int):  # a seed may be any number
        good, expected = _is_number(value) and (abs(value) <= MOST or "seed" in key), f"a number up to {MOST}"
    elif isinstance(default, float):
        good, expected = _is_number(value), "a finite number"
    elif isinstance(default, str):
        good, expected = isinstance(value, str) and bool(PLAIN.fullmatch(value)), "a word"
    else:
        good, expected = not value, "nothing: what it asks for is not read here"
    if not good:
        raise refused(name, f"{key} is {shown(value)}", expected)
    least = min(1, default) if key == "r" else 0
    if key == "r" and not (is_whole(value) and value >= least):
        raise refused(name, f"r is {shown(value)}", f"a whole number, at least {least}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _start(name: str, key: str, value: Any) -> Any:
    """How the training began, where a reader must begin alike; else True, since all weights are read."""
    if value is None or isinstance(value, bool) or value in STARTS:
        return True
    if key == "init_lora_weights" and isinstance(value, str) and value in CHANGES_BASE:
        return value
    hint = "save it with save_pretrained(..., path_initial_model_for_weight_conversion=...), or merged"
    raise refused(name, f"{key} is {shown(value)}", "a start that can be repeated exactly", hint=hint)


def _plain_names(name: str, key: str, value: Any, modules: list[str]) -> list[str] | None:
    """A list of names, as long as one of all modules at most."""
    if value is None:
        return None
    listed = isinstance(value, list) and len(value) <= max(100, len(modules))
    if listed and all(isinstance(one, str) and PLAIN.fullmatch(one) for one in value):
        return value
    raise refused(name, f"{key} is {shown(value)}", "a list of names of modules")


def _table(name: str, key: str, value: Any, modules: list[str]) -> Entries:
    """Numbers by module; a pattern becomes the modules that it names, the first pattern first."""
    if not value:
        return {}
    if not (isinstance(value, dict) and all(_is_number(one) and 0 < one <= MOST for one in value.values())):
        raise refused(name, f"{key} is {shown(value)}", f"numbers up to {MOST} by names of modules")
    if all(PLAIN.fullmatch(pattern) for pattern in value):
        return value
    matches = matched(name, key, [rf"(?:.*\.)?(?:{pattern})" for pattern in value], modules)
    out: Entries = {}
    for number, names in zip(value.values(), matches, strict=True):
        for module in names:
            out.setdefault(f"^{re.escape(module)}$", number)
    return out


def _indices(name: str, key: str, value: Any) -> Any:
    def whole(given: Any) -> bool:
        return isinstance(given, list) and all(is_whole(one) and one >= 0 for one in given)

    if value is None or whole(value) or (key == "layers_to_transform" and is_whole(value)):
        return value
    named = key == "trainable_token_indices" and isinstance(value, dict)
    if named and all(PLAIN.fullmatch(module) and whole(given) for module, given in value.items()):
        return value
    raise refused(name, f"{key} is {shown(value)}", "a list of whole numbers")


def _names_of(name: str, key: str, pattern: str, modules: list[str]) -> str | list[str]:
    """The modules that a pattern names; "all-linear" stays a word."""
    if pattern.lower() == "all-linear":
        return pattern
    (names,) = matched(name, key, [pattern], modules)
    if not names and key == "target_modules":
        raise refused(name, f"{key} is {shown(pattern)}", "a pattern of some of the base model's modules")
    return names


def matched(name: str, key: str, patterns: list[str], modules: list[str]) -> list[list[str]]:
    """The names that each pattern matches whole, found by another process, since a pattern may never end.

    Raises
    ------
    ModelError : a pattern that is none, or that takes longer than `PATIENCE`.
    """
    command = [sys.executable, "-I", "-S", "-c", _MATCHING]
    given = json.dumps([patterns, modules])
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        got = f"{key} is {shown(patterns[0])}"
        hint = f"list the names of the modules in {ADAPTER}"
        raise refused(name, got, "a pattern that is quickly matched", hint=hint) from None


def refused(name: str, got: str, expected: str, *, hint: str = f"correct {ADAPTER}") -> ModelError:
    """One line on an adapter."""
    return ModelError(
        "load_classifier", got=f"adapter {shown(name)}, whose {got}", expected=expected, hint=hint
    )
