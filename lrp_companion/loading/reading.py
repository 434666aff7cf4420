"""Reading a classifier: from files in the hub's format, from a PEFT adapter, or from objects in memory."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from lrp_companion.checks import CompanionError, InputError, ModelError, SourceError, reason_of, shown
from lrp_companion.extras import extra
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import (
    ANSWER,
    CLASSES,
    IMAGE_CLASSES,
    MASKED_TOKEN,
    NEXT_TOKEN,
    TOKEN_CLASSES,
    task_of,
)
from lrp_companion.loading.accepted import (
    check_network,
    check_object,
    check_saved_as,
    check_settings,
    of_peft,
)
from lrp_companion.loading.adapters import (
    Entries,
    adapted,
    brought,
    inside,
    labels_of,
    merged,
    read_entries,
    read_weights,
    refused,
)
from lrp_companion.loading.compute import undivided
from lrp_companion.loading.gguf_keys import check_tensors, read_keys
from lrp_companion.loading.places import ADAPTER, CONFIG, PACKED, Place, check_files, locate, read_json
from lrp_companion.sources import base_model

AUTO = {
    CLASSES: "AutoModelForSequenceClassification",
    NEXT_TOKEN: "AutoModelForCausalLM",
    MASKED_TOKEN: "AutoModelForMaskedLM",
    TOKEN_CLASSES: "AutoModelForTokenClassification",
    IMAGE_CLASSES: "AutoModelForImageClassification",
    ANSWER: "AutoModelForQuestionAnswering",
}
"""The class of `transformers` that reads a model of a task."""
TASK_TYPES = {"SEQ_CLS": CLASSES, "TOKEN_CLS": TOKEN_CLASSES, "CAUSAL_LM": NEXT_TOKEN}
"""Tasks by the words of PEFT, which has none for masked tokens and for images."""
VOCABULARY = ("embed_tokens.weight", "word_embeddings.weight", "wte.weight", "tok_embeddings.weight")
"""Endings of the names of embeddings."""
LONGEST_NAME = 400
"""Characters of a base model's path or id, more than which no message could show."""
PREPROCESSOR = "preprocessor_config.json"
SAVED = "load_classifier(model, tokenizer), or the name of one that is saved"
MEAN_POOLED = "MeanPooledBertForSequenceClassification"
"""The one class of this package that a folder may name; importing it imports `transformers`."""


@dataclass(frozen=True)
class Files:
    """A model on disk or on the hub; with a `device_map` its weights are read to where this says.

    `read` gives each of "settings", "config", "network" (with a report of its keys) and "tokenizer", or for
    images "processor", the settings of an image processor or None.
    """

    place: Place
    device_map: str | dict[str, str] | None = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def source(self) -> str:
        return self.place.source

    def read(self, what: str) -> Any:
        """One part of the model, or one line on why it cannot be read."""
        try:
            with quietly():
                return self._from_pretrained(what)
        except CompanionError:
            raise
        except Exception as error:  # transformers raises many kinds; each means that the model cannot be read
            raise self._unreadable(what, reason_of(error, 200)) from error

    def _unreadable(self, what: str, reason: str) -> SourceError:
        if self.source == "hub":
            got = f"hub id {self.name!r}, which cannot be loaded ({reason})"
            expected = "a hub id that can be reached"
            hint = 'check the id and the connection, or use the embedded model: load_classifier("companion")'
        else:
            got = f"folder {self.name!r} whose {what} cannot be read ({reason})"
            expected = "config.json, weights and tokenizer files in the hub's format"
            hint = "save the model and its tokenizer there with save_pretrained"
        return SourceError("load_classifier", got=got, expected=expected, hint=hint)

    def _from_pretrained(self, what: str) -> Any:
        from transformers import AutoConfig, AutoTokenizer, PretrainedConfig
        from transformers.image_processing_base import ImageProcessingMixin

        path, options = self.place.path, self._options
        if what == "processor":
            missing = self.source != "hub" and not (Path(path) / PREPROCESSOR).is_file()
            return None if missing else ImageProcessingMixin.get_image_processor_dict(path, **options)[0]
        if what == "tokenizer":
            return AutoTokenizer.from_pretrained(path, use_fast=True, **options)
        if what in ("settings", "config"):
            settings = PretrainedConfig.get_config_dict(path, **options)[0]
            if what == "settings":
                return settings
            # before transformers reads it: some versions refuse in words of their own
            check_saved_as(self.name, settings.get("architectures"))
            check_settings(self.name, settings)
        config = AutoConfig.from_pretrained(path, **options)
        return config if what == "config" else self.network(config)

    def network(self, config: Any) -> tuple[nn.Module, Mapping[str, Any]]:
        """The network of this configuration, and the report on its keys."""
        import transformers

        options = self._options
        if MEAN_POOLED in (config.architectures or []):
            del options["trust_remote_code"]
            kind: Any = importlib.import_module("lrp_companion.families.mean_pooled").__dict__[MEAN_POOLED]
        else:
            kind = getattr(transformers, AUTO[task_of(config.architectures) or CLASSES])
        if self.device_map is not None:
            options["device_map"] = self.device_map
        options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # which are refused by name
        network, report = kind.from_pretrained(self.place.path, config=config, dtype=self._dtype, **options)
        self._plain(network)
        check_network(network)
        return network, report

    _dtype = "auto"

    def _plain(self, network: Any) -> None:
        """Take back what a network says of the form in which its weights were saved."""

    @property
    def _options(self) -> dict[str, Any]:
        # Unset, transformers asks on standard input whether to run code that comes with the model.
        options: dict[str, Any] = {"trust_remote_code": False}
        asked = self.source == "hub" and self.place.revision
        return options | ({"revision": self.place.revision} if asked else {})


@dataclass(frozen=True)
class PackedFile(Files):
    """A causal language model in one .gguf file, whose weights are unpacked to float32."""

    _dtype = "float32"

    @cached_property
    def stored(self) -> str:
        """The type of most of its weights in the file, such as "Q4_1"."""
        counts: Counter[str] = Counter()
        for tensor in self._reader.tensors:
            counts[tensor.tensor_type.name] += int(tensor.n_elements)
        return counts.most_common(1)[0][0]

    @property
    def _path(self) -> Path:
        return Path(self.place.path) / str(self.place.packed)

    @cached_property
    def _reader(self) -> Any:
        from gguf import GGUFReader

        return GGUFReader(self._path)

    @property
    def _options(self) -> dict[str, Any]:
        return {**super()._options, "gguf_file": self.place.packed}

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """What a config.json would have; reading it takes a second."""
        from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

        settings = PretrainedConfig.get_config_dict(self.place.path, **self._options)[0]
        kinds: Any = AutoModelForCausalLM._model_mapping
        kind = type(AutoConfig.for_model(settings["model_type"]))
        if kind not in kinds:
            got = f"{self._path.name!r} of a model of type {settings['model_type'][:40]!r}"
            hint = "load that model from a folder in the hub's format"
            expected = f"a {PACKED} file of a causal language model"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
        return settings | {"architectures": [kinds[kind].__name__]}

    def _from_pretrained(self, what: str) -> Any:
        from transformers import AutoConfig

        with extra("load_classifier"):
            for package in ("gguf", "accelerate"):
                importlib.import_module(package)
        if what == "settings":
            return self._settings
        if what in ("config", "network"):
            config = AutoConfig.for_model(**self._settings)
            if config.model_type in FAMILIES:  # others are refused by name
                read_keys(self._path.name, self._reader, config)
            return config if what == "config" else self.network(config)
        return super()._from_pretrained(what)

    def network(self, config: Any) -> tuple[nn.Module, Mapping[str, Any]]:
        network, report = super().network(config)
        check_tensors(self._path.name, self._reader, network)
        return network, report

    def _plain(self, network: Any) -> None:
        network.hf_quantizer, network.is_quantized = None, False  # it says so of the file
        if hasattr(network.config, "quantization_config"):
            del network.config.quantization_config

    def _unreadable(self, what: str, reason: str) -> SourceError:
        got = f"{self._path.name!r} whose {what} cannot be read ({reason})"
        expected = f"a {PACKED} file of a causal language model that transformers can unpack"
        hint = "check that the file is whole, or name a folder in the hub's format"
        return SourceError("load_classifier", got=got, expected=expected, hint=hint)


@dataclass(frozen=True)
class AdapterFiles(Files):
    """A PEFT adapter on disk, merged into the model that it was trained on."""

    def _from_pretrained(self, what: str) -> Any:
        base = Files(self._base)
        if what == "config":
            return self._config(base)
        if what == "network":
            return self._merged(base)
        beside = {"tokenizer": "tokenizer_config.json", "processor": PREPROCESSOR}.get(what)
        in_folder = beside is not None and (self._folder / beside).is_file()
        return (Files(self.place) if in_folder else base).read(what)

    @property
    def _folder(self) -> Path:
        return Path(self.place.path)

    @cached_property
    def _entries(self) -> Entries:
        return read_entries(self._folder)

    @cached_property
    def _weights(self) -> dict[str, Any]:
        return read_weights(self.name, self._folder)

    @cached_property
    def _base(self) -> Place:
        """Where the model is that the adapter was trained on."""
        given: Any = self._entries.get("base_model_name_or_path")
        revision = self._entries.get("revision")
        hint = f"correct base_model_name_or_path in {ADAPTER}, or merge the adapter and save the model"
        expected = "a folder with a whole model, or a hub id"
        possible = isinstance(given, str) and given.isprintable() and 0 < len(given) <= LONGEST_NAME
        if not possible or not (revision is None or isinstance(revision, str)):
            got = f"base model is {shown(given)}" + (f", revision {shown(revision)}" if possible else "")
            raise refused(self.name, got, expected, hint=hint)
        try:
            place = locate(given, revision)
        except CompanionError as error:
            got = f"adapter {shown(self.name)}, whose base model is {error.got[:250]}"
            hint = error.hint if given == base_model.ID else hint
            raise SourceError("load_classifier", got=got, expected=expected, hint=hint) from None
        if place.is_adapter:
            raise refused(self.name, f"base model {shown(given)} is an adapter itself", expected, hint=hint)
        if place.source != "hub":
            check_files(Path(place.path))
        return place

    def _config(self, base: Files) -> Any:
        """The base model's configuration for the adapter's task, labels and vocabulary."""
        config = base.read("config")
        kinds, named = self._kinds(config), kinds_named(self._entries)
        if task_of(named) and named[0] not in kinds:
            hint = "merge the adapter into its own network, and pass that"
            expected = " or ".join(kinds) or "a known class"
            raise refused(self.name, f"auto_mapping names {shown(named[0])}", expected, hint=hint)
        saved_as = [*named, *(config.architectures or [])]
        config.architectures = [name for name in saved_as if name in kinds][:1] or kinds[:1]
        if (task_of(config.architectures) or CLASSES) in (CLASSES, TOKEN_CLASSES, IMAGE_CLASSES):
            self._name_labels(config)
        tables = brought(self._weights)
        rows = [shape[0] for key, shape in tables.items() if key.endswith(VOCABULARY) and len(shape) == 2]
        if rows:  # peft saves the embeddings of a vocabulary that has grown
            config.vocab_size = rows[0]
        return config

    def _kinds(self, config: Any) -> list[str]:
        """Names of the base model's classes in `transformers` for the adapter's task."""
        import transformers

        for task in self._tasks(config):
            if task == CLASSES and MEAN_POOLED in (config.architectures or []):
                return [MEAN_POOLED]
            known = getattr(transformers, AUTO[task])._model_mapping
            if type(config) in known:
                kinds = known[type(config)]
                return [kind.__name__ for kind in (kinds if isinstance(kinds, (tuple, list)) else (kinds,))]
        return []

    def _tasks(self, config: Any) -> tuple[str, ...]:
        """What the adapter was trained for: one task, or classes of texts or else of images."""
        asked, classes = self._entries.get("task_type"), (CLASSES, IMAGE_CLASSES)
        if asked is not None:
            if asked not in tuple(TASK_TYPES):
                got = f"task_type is {shown(asked)}"
                hint = "fine-tune an adapter for one of these tasks"
                raise refused(self.name, got, f"one of {', '.join(TASK_TYPES)}, or none", hint=hint)
            return classes if TASK_TYPES[asked] == CLASSES else (TASK_TYPES[asked],)
        named = task_of(kinds_named(self._entries))
        if named is not None:
            return (named,)
        task = task_of(config.architectures)
        if task in (None, NEXT_TOKEN, MASKED_TOKEN) and labels_of(self._weights) is not None:
            return classes
        return classes if task is None else (task,)

    def _name_labels(self, config: Any) -> None:
        """Set the number of labels from the adapter's classifier, and names for as many."""
        count = labels_of(self._weights) or config.num_labels
        settings = read_json(self._folder / CONFIG)
        names = settings.get("id2label") if isinstance(settings, dict) else None
        names = names if isinstance(names, dict) and set(names) == {str(k) for k in range(count)} else {}
        if names and all(type(name) is str for name in names.values()):
            config.id2label = {k: names[str(k)] for k in range(count)}
            config.label2id = {name: k for k, name in config.id2label.items()}
        elif count != config.num_labels:
            config.num_labels = count
        if isinstance(settings, dict) and "problem_type" in settings:
            config.problem_type = settings["problem_type"]

    def _merged(self, base: Files) -> tuple[nn.Module, Mapping[str, Any]]:
        network, report = base.network(self._config(base))
        whole = set(brought(self._weights))
        missing = set(report["missing_keys"]) - whole
        mismatched = {found for found in report["mismatched_keys"] if found[0] not in whole}
        report = {**report, "missing_keys": missing, "mismatched_keys": mismatched}
        return adapted(self.name, network, self._entries, self._weights), report


def kinds_named(entries: Entries) -> list[str]:
    """The class of `transformers` that an adapter says it was trained on, if it does."""
    mapping = entries.get("auto_mapping")
    name = mapping.get("base_model_class") if isinstance(mapping, dict) else None
    return [name] if isinstance(name, str) else []


@dataclass(frozen=True)
class InMemory:
    """A network and its tokenizer or image processor; the network is copied, so that the caller's does
    not change.
    """

    network: Any
    tokenizer: Any
    source: str = "memory"

    @property
    def name(self) -> str:
        """The last part of the network's path, or its class; with several adapters, those that are active."""
        network = self.network
        known = str(getattr(network.config, "_name_or_path", "") or "")
        name = Path(known).name or type(inside(network)).__name__
        if not of_peft(network) or len(network.peft_config) < 2:
            return name
        active = getattr(network, "active_adapters", None) or network.active_adapter
        return f"{name} with {', '.join([active] if isinstance(active, str) else active)}"

    def read(self, what: str) -> Any:
        """One part of the model."""
        if what == "settings":
            return json.loads(self._named_config().to_json_string())
        if what == "config":
            return self._named_config()
        if what == "tokenizer":
            return self.tokenizer
        if what == "processor":
            return self.tokenizer.to_dict() if hasattr(self.tokenizer, "to_dict") else self.tokenizer
        network: Any = undivided(self.network)
        if of_peft(network):
            network = merged(self.name, network)
        return network, dict.fromkeys(("missing_keys", "unexpected_keys", "mismatched_keys"), ())

    def _named_config(self) -> Any:
        """The network's configuration; that of a model that was never saved does not name its class."""
        config = copy.deepcopy(self.network.config)
        kinds = [kind.__name__ for kind in type(inside(self.network)).__mro__]
        config.architectures = [name for name in kinds if task_of([name])][:1] or kinds[:1]
        return config


Readable = Files | InMemory


def readable(
    model: Any, tokenizer: Any, revision: str | None, *, device_map: str | dict[str, str] | None = None
) -> Readable:
    """The model that `load_classifier` is to read.

    Raises
    ------
    InputError : a network of texts without a tokenizer, or a name with one; objects of other types; a device
        map of what is no folder or hub id.
    SourceError : as `locate`.
    ModelError : an adapter where `peft` is not installed.
    """
    check_object(model)
    if isinstance(model, nn.Module):
        if device_map is not None:
            raise _needs_files("a network in memory")
        _check_beside(model, tokenizer)
        if getattr(model, "config", None) is None:
            got, expected = f"a network of type {type(model).__name__}", "a classifier of transformers"
            raise ModelError("load_classifier", got=got, expected=expected, hint=SAVED)
        check_network(model)
        return InMemory(model, tokenizer)
    if tokenizer is not None:
        got = f"a tokenizer with a model of type {type(model).__name__}"
        expected = "a tokenizer only with a network in memory"
        raise InputError("load_classifier", got=got, expected=expected, hint=SAVED)
    place = locate(model, revision)
    if place.source != "hub":
        check_files(Path(place.path))
    if place.packed and device_map is not None:
        raise _needs_files(f"the {PACKED} file {place.packed!r}")
    if not place.is_adapter:
        return PackedFile(place) if place.packed else Files(place, device_map)
    if place.is_whole:
        got = f"folder {place.name!r}, which holds a whole model and an adapter"
        hint = f"move {ADAPTER} and the adapter's weights, or the model, to another folder"
        raise ModelError("load_classifier", got=got, expected="one of them", hint=hint)
    if device_map is not None:
        raise _needs_files(f"the adapter {place.name!r}")
    if importlib.util.find_spec("peft") is None:
        got = f"folder {place.name!r}, which holds a PEFT adapter, and no peft"
        hint = "pip install peft"
        raise ModelError("load_classifier", got=got, expected="peft to be installed", hint=hint)
    return AdapterFiles(place)


def _check_beside(network: nn.Module, beside: Any) -> None:
    """Refuse what cannot be a network's tokenizer or, where it reads images, their processor."""
    if getattr(network, "main_input_name", "") == "pixel_values":
        if beside is None or isinstance(beside, Mapping) or hasattr(beside, "image_mean"):
            return
        got = f"a network of images with a {type(beside).__name__}"
        expected, hint = "its image processor, its settings as a dict, or None", "leave it out"
    elif callable(beside) and hasattr(beside, "convert_ids_to_tokens"):
        return
    else:
        kind = "" if beside is None else type(beside).__name__
        got = f"a network with a tokenizer of type {kind}" if kind else "a network without its tokenizer"
        expected = "a network and its tokenizer from transformers"
        hint = SAVED
    raise InputError("load_classifier", got=got, expected=expected, hint=hint)


def _needs_files(what: str) -> InputError:
    expected = "a device_map only for a model in a folder or on the hub"
    hint = "name one device, or save the model (an adapter merged) and name its folder"
    return InputError("load_classifier", got=f"{what} with a device_map", expected=expected, hint=hint)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars, load reports and retry notes of `transformers` and the hub.

    Their settings are restored afterwards.
    """
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, bars, hub_level = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    hub.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()
