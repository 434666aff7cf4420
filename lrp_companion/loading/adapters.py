"""PEFT adapters: their entries are checked before `peft` acts on them, their weights compared with what the
adapted network expects, and merged into it.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion.checks import CompanionError, ModelError, is_whole, reason_of, shown
from lrp_companion.loading.accepted import of_peft
from lrp_companion.loading.compute import NEAR
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


SAFE, PICKLED = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
"""What `peft` writes before the name of each weight."""
HEADS = ("score", "classifier", "classifier.out_proj", "cls_classifier")
"""Last maps of the classifiers of `transformers`: a row per label."""
TRIED = 8
"""Tokens of the text that both read."""


def read_weights(name: str, folder: Path) -> dict[str, Tensor]:
    """The adapter's weights by name; of a pickled file tensors only, and no code of it runs.

    Raises
    ------
    ModelError : no such file, or one that holds something else.
    """
    hint = "save the adapter again with save_pretrained"
    files = [folder / file for file in (SAFE, PICKLED) if (folder / file).is_file()]
    if not files:
        raise refused(name, "weights are missing", f"{SAFE} next to its configuration", hint=hint)
    try:
        if files[0].name == SAFE:
            from safetensors.torch import load_file

            weights = load_file(files[0])
        else:
            weights = torch.load(files[0], map_location="cpu", weights_only=True)
    except Exception as error:  # of safetensors, of pickle, of the file system
        got = f"{files[0].name} cannot be read ({reason_of(error, 120)})"
        raise refused(name, got, "a file of tensors", hint=hint) from None
    if not isinstance(weights, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items()
    ):
        raise refused(name, f"{files[0].name} holds no tensors by name", "a file of tensors", hint=hint)
    return weights


def brought(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of whole weights of the network that the adapter's file replaces, by their names there."""
    return {
        key.removeprefix(PREFIX).replace(".base_layer.", "."): tuple(value.shape)
        for key, value in weights.items()
    }


def labels_of(weights: Mapping[str, Tensor]) -> int | None:
    """How many labels the adapter's classifier has; None where it brings none."""
    for key, shape in brought(weights).items():
        module = key.removesuffix(".weight").removesuffix(".lora_B")
        if module in HEADS and key.endswith(".weight") and len(shape) == 2:
            return shape[0]
    return None


def adapted(name: str, network: Any, entries: Entries, weights: dict[str, Tensor]) -> nn.Module:
    """The network with the adapter merged into it.

    Raises
    ------
    ModelError : entries that cannot be used; weights that are not those that the adapter's entries ask for; a
        merged network that computes something else.
    """
    peft = importlib.import_module("peft")
    config_class = peft.PEFT_TYPE_TO_CONFIG_MAPPING[entries["peft_type"]]
    given = checked(name, entries, config_class, [key for key, _ in network.named_modules()])
    largest = max((side for value in weights.values() for side in value.shape), default=0)
    for key in ("r", "n_frequency") if entries["peft_type"] not in ("LORA", "LOKR") else ():
        if given.get(key, 0) > largest:  # refused before so much memory is taken
            got = f"{key} is {given[key]}, with weights of at most {largest} rows"
            raise refused(name, got, "its configuration and its weights from one training")
    begins_plain = entries["peft_type"] == "LORA" and given.get("init_lora_weights") not in CHANGES_BASE
    network = _precise(network)
    dtype = next(value.dtype for value in network.parameters() if value.is_floating_point())
    weights = {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights.items()}
    with _in_one_line(name, "modules cannot be put on its base model"), _unwarned():
        config = config_class(task_type=entries.get("task_type"), inference_mode=True, **given)
        network = peft.get_peft_model(network, config, low_cpu_mem_usage=begins_plain)
    _check_keys(name, network, weights)
    with _in_one_line(name, "weights cannot be read into its base model"), _unwarned():
        peft.set_peft_model_state_dict(network, weights, low_cpu_mem_usage=begins_plain)
    return merged(name, network)


def _check_keys(name: str, network: Any, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not, by name and shape, those that the adapter's entries ask for."""
    utils = importlib.import_module("peft.utils.save_and_load")
    with _unwarned():
        expected = utils.get_peft_model_state_dict(network, save_embedding_layers=False)
    wanted = {_short(key): tuple(value.shape) for key, value in expected.items()}
    given = {_short(key): tuple(value.shape) for key, value in weights.items()}
    tables, known = _vocabulary(network), set(wanted)
    missing = sorted(known - set(given))
    unknown = sorted(key for key in set(given) - known if key.replace(".base_layer.", ".") not in tables)
    other = sorted(key for key in set(given) & known if given[key] != wanted[key])
    if missing:
        got, words = f"weights lack {_some(missing)}", "all weights that its configuration asks for"
    elif unknown:
        got = f"weights {_some(unknown)} belong to nothing that its configuration names"
        words = "the weights that its configuration asks for"
    elif other:
        got = f"weight {_some(other[:1])} has shape {given[other[0]]}"
        words = f"shape {wanted[other[0]]}, from its configuration and its base model"
    else:
        return
    hint = "take the configuration and the weights of one training, and the base model that it names"
    raise refused(name, got, words, hint=hint)


def _short(key: str) -> str:
    """The name of a weight without what every name has, or has in some versions of `peft` only."""
    short = key.removeprefix(PREFIX)
    return short.removesuffix(".weight") if short.endswith("lora_magnitude_vector.weight") else short


def _some(keys: list[str]) -> str:
    """The first keys, cut: files may hold any text."""
    more = f" and {len(keys) - 2} more" if len(keys) > 2 else ""
    return ", ".join(shown(key[-70:])[1:-1] for key in keys[:2]) + more


def _vocabulary(network: Any) -> set[str]:
    """Names of the embeddings and the output map, which `peft` saves whole where their size has changed."""
    inner = inside(network)
    tables = [get() for get in (inner.get_input_embeddings, inner.get_output_embeddings)]
    whole = {id(getattr(table, "base_layer", table)) for table in tables if table is not None}
    named = [key.replace(".base_layer", "") for key, part in inner.named_modules() if id(part) in whole]
    return {f"{key}.{kind}" for key in named for kind in ("weight", "bias")}


def inside(network: Any) -> Any:
    """The network of `transformers` inside one of `peft`; any other is returned as it is."""
    base: Any = getattr(network, "base_model", None)
    return base.model if of_peft(network) and hasattr(base, "model") else network


@torch.no_grad()
def merged(name: str, network: Any) -> nn.Module:
    """A network of `peft` as a plain one, changed in place.

    Raises
    ------
    ModelError : an adapter that does not become plain weights; a merged network that computes something else.
    """
    hint = "merge it as it was trained, with merge_and_unload, and save the merged model"
    if any(getattr(part, "disable_adapters", False) is True for part in network.modules()):
        hint = "switch it on with enable_adapter_layers, or pass the base model"
        raise refused(name, "layers are switched off", "an adapter in use", hint=hint)
    if not hasattr(network, "merge_and_unload"):
        kinds = [str(getattr(one.peft_type, "value", one.peft_type)) for one in network.peft_config.values()]
        expected = "an adapter that becomes plain weights, such as LoRA"
        hint = "train such an adapter, or explain the base model"
        raise refused(name, f"kind is {', '.join(kinds)[:100]}", expected, hint=hint)
    with _in_one_line(name, "weights cannot be merged"), _unwarned():
        network = _precise(network).eval()
        inner = inside(network)
        inputs = _trial(inner)
        before = inner(**inputs).logits
        _untie(inner)
        plain = _unwrapped(network.merge_and_unload())
        after = plain(**inputs).logits
    apart = float((after - before).abs().max())
    if not apart <= NEAR[torch.float32] * (1 + float(before.abs().max())) and bool(before.isfinite().all()):
        got = f"logits change by {apart:.2g} when it is merged"
        raise refused(name, got, "an adapter that can be merged", hint=hint)
    return plain


def _unwrapped(network: Any) -> Any:
    """A merged network with the modules that were trained whole in their places; some kinds leave both."""
    for path, module in list(network.named_modules()):
        if type(module).__name__ == "ModulesToSaveWrapper":
            parent, _, name = path.rpartition(".")
            (adapter,) = module.active_adapters
            setattr(network.get_submodule(parent), name, module.modules_to_save[adapter])
    return network


def _precise(network: Any) -> Any:
    """In float32 where it has fewer digits, so that merging rounds nothing."""
    halves = [value for value in network.parameters() if value.is_floating_point() and value.itemsize < 4]
    return network.float() if halves else network


def _trial(network: Any) -> dict[str, Tensor]:
    """A few tokens, spread over the vocabulary; or a noisy image."""
    config = network.config
    if network.main_input_name == "pixel_values":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        draw = torch.Generator().manual_seed(0)
        return {"pixel_values": torch.randn(1, config.num_channels, height, width, generator=draw)}
    ids = torch.linspace(0, config.vocab_size - 1, TRIED).long()[None]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _untie(network: Any) -> None:
    """Give the output map its own weights where the adapter changes the embeddings, which it shares."""
    table, out = network.get_input_embeddings(), network.get_output_embeddings()
    base = getattr(table, "base_layer", getattr(table, "original_module", None))
    if base is not None and getattr(out, "weight", None) is base.weight:
        out.weight = nn.Parameter(out.weight.clone())


@contextmanager
def _in_one_line(name: str, what: str) -> Iterator[None]:
    """What `peft` raises, in one line: what of the adapter it could not do."""
    try:
        yield
    except CompanionError:
        raise
    except Exception as error:  # peft raises many kinds
        hint = "check adapter_config.json, and that this is the base model of its training"
        expected = "an adapter of this base model"
        raise refused(name, f"{what} ({reason_of(error, 150)})", expected, hint=hint) from error


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without the warnings of `peft`: what they are about is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
