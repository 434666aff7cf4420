"""Reading a classifier: from files in the hub's format, from a PEFT adapter, or from objects in memory."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from lrp_companion.models.config_entries import check_saved_as
from lrp_companion.models.device_map import undivided
from lrp_companion.models.places import ADAPTER, Place, locate
from lrp_companion.models.tasks import (
    ANSWER,
    CLASSES,
    IMAGE_CLASSES,
    MASKED_TOKEN,
    NEXT_TOKEN,
    TOKEN_CLASSES,
    task_of,
)  # fmt: skip
from lrp_companion.schema import CompanionError, InputError, ModelError, SourceError

AUTO = {
    CLASSES: "AutoModelForSequenceClassification", NEXT_TOKEN: "AutoModelForCausalLM",
    MASKED_TOKEN: "AutoModelForMaskedLM", TOKEN_CLASSES: "AutoModelForTokenClassification",
    IMAGE_CLASSES: "AutoModelForImageClassification", ANSWER: "AutoModelForQuestionAnswering",
}  # fmt: skip
"""The class of `transformers` that reads a model of a task."""
PREPROCESSOR = "preprocessor_config.json"
MEAN_POOLED = "MeanPooledBertForSequenceClassification"
"""The one class of this package that a folder may name; importing it imports `transformers`."""


class Readable(Protocol):
    """What `load_classifier` reads: each of "settings", "config", "network" (with a report of its keys) and
    "tokenizer", or for images "processor", the settings of an image processor or None.
    """

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    def read(self, what: str) -> Any: ...


@dataclass(frozen=True)
class Files:
    """A model on disk or on the hub; with a `device_map` its weights are read to where this says."""

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
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            if self.source == "hub":
                got = f"hub id {self.name!r}, which cannot be loaded ({reason})"
                expected = "a hub id that can be reached"
                embedded = 'the embedded model: load_classifier("companion")'
                hint = f"check the id and the connection, or use {embedded}"
            else:
                got = f"folder {self.name!r} whose {what} cannot be read ({reason})"
                expected = "config.json, weights and tokenizer files in the hub's format"
                hint = "save the model and its tokenizer there with save_pretrained"
            raise SourceError("load_classifier", got=got, expected=expected, hint=hint) from error

    def _from_pretrained(self, what: str) -> Any:
        import transformers
        from transformers import AutoConfig, AutoTokenizer, PretrainedConfig

        options: dict[str, Any] = {}
        if self.source == "hub" and self.place.revision:
            options["revision"] = self.place.revision
        if what == "settings":
            return PretrainedConfig.get_config_dict(self.place.path, **options)[0]
        if what == "config":  # before transformers reads it: some versions refuse in words of their own
            settings = PretrainedConfig.get_config_dict(self.place.path, **options)[0]
            check_saved_as(self.name, settings.get("architectures"))
        # Unset, transformers asks on standard input whether to run code that comes with the model.
        options["trust_remote_code"] = False
        if what == "config":
            return AutoConfig.from_pretrained(self.place.path, **options)
        if what == "tokenizer":
            return AutoTokenizer.from_pretrained(self.place.path, use_fast=True, **options)
        if what == "processor":
            return self._processor(options)
        saved_as = AutoConfig.from_pretrained(self.place.path, **options).architectures
        if MEAN_POOLED in (saved_as or []):
            del options["trust_remote_code"]
            kind: Any = importlib.import_module("lrp_companion.models.mean_pooled").__dict__[MEAN_POOLED]
        else:
            kind = getattr(transformers, AUTO[task_of(saved_as) or CLASSES])
        if self.device_map is not None:
            options["device_map"] = self.device_map
        return kind.from_pretrained(self.place.path, dtype="auto", output_loading_info=True, **options)

    def _processor(self, options: dict[str, Any]) -> Any:
        """Settings of the image processor; None where the model has none."""
        from transformers.image_processing_base import ImageProcessingMixin

        if self.source != "hub" and not (Path(self.place.path) / PREPROCESSOR).is_file():
            return None
        revision = {key: value for key, value in options.items() if key == "revision"}
        return ImageProcessingMixin.get_image_processor_dict(self.place.path, **revision)[0]


@dataclass(frozen=True)
class AdapterFiles(Files):
    """A PEFT adapter on disk, merged into the model that it was trained on."""

    def _from_pretrained(self, what: str) -> Any:
        from transformers import AutoTokenizer

        if what == "tokenizer":
            beside = (Path(self.place.path) / "tokenizer_config.json").is_file()
            path = self.place.path if beside else self._base.path
            return AutoTokenizer.from_pretrained(path, use_fast=True, trust_remote_code=False)
        if what == "settings":
            return Files(self._base).read(what)
        return self._merged() if what == "network" else self._config()

    @property
    def _base(self) -> Place:
        entries = json.loads((Path(self.place.path) / ADAPTER).read_text(encoding="utf-8"))
        return locate(entries["base_model_name_or_path"], entries.get("revision"))

    def _config(self) -> Any:
        """The base model's configuration, with as many labels as the adapter's classifier has."""
        from transformers import AutoModelForSequenceClassification

        config = Files(self._base).read("config")
        rows = [shape[0] for key, shape in self._shapes().items() if _is_last_layer(key)]
        if rows and rows[0] != config.num_labels:
            config.num_labels = rows[0]
        known = AutoModelForSequenceClassification._model_mapping
        config.architectures = [known[type(config)].__name__] if type(config) in known else []
        return config

    def _merged(self) -> tuple[nn.Module, Mapping[str, Any]]:
        from transformers import AutoModelForSequenceClassification

        network, report = AutoModelForSequenceClassification.from_pretrained(
            self._base.path, config=self._config(), dtype="auto", output_loading_info=True,
            trust_remote_code=False, ignore_mismatched_sizes=True,
        )  # fmt: skip
        brought = {key.removeprefix("base_model.model.") for key in self._shapes()}
        mismatched = {key[0] if isinstance(key, tuple) else key for key in report["mismatched_keys"]}
        missing = (set(report["missing_keys"]) | mismatched) - brought
        adapted = importlib.import_module("peft").PeftModel.from_pretrained(network, self.place.path)
        merged = adapted.merge_and_unload()
        return merged, {**report, "missing_keys": missing}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the adapter's weights."""
        from safetensors import safe_open

        with safe_open(Path(self.place.path) / "adapter_model.safetensors", "pt") as weights:
            return {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118


def _is_last_layer(key: str) -> bool:
    """Whether a weight is that of a classifier's last map, which has a row per label."""
    return key.endswith((".classifier.weight", ".classifier.out_proj.weight"))


@dataclass(frozen=True)
class InMemory:
    """A network and its tokenizer or image processor; the network is copied, so that the caller's does
    not change.
    """

    network: nn.Module
    tokenizer: Any
    source: str = "memory"

    @property
    def name(self) -> str:
        """The last part of the network's path, or its class."""
        known = str(getattr(self._config, "_name_or_path", "") or "")
        return Path(known).name or type(self.network).__name__

    @property
    def _config(self) -> Any:
        return getattr(self.network, "config", None)

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
        if hasattr(network, "merge_and_unload"):  # of PEFT
            network = network.merge_and_unload()
        return network, {"missing_keys": (), "unexpected_keys": ()}

    def _named_config(self) -> Any:
        """The network's configuration; that of a model that was never saved does not name its class."""
        config = copy.deepcopy(self._config)
        network: Any = self.network
        inner = network.get_base_model() if hasattr(network, "get_base_model") else network
        kinds = [kind.__name__ for kind in type(inner).__mro__]
        config.architectures = [name for name in kinds if task_of([name])][:1] or kinds[:1]
        return config


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
    hint = "load_classifier(model, tokenizer), or the name of one that is saved"
    if isinstance(model, nn.Module):
        if device_map is not None:
            raise _needs_files("a network in memory")
        _check_beside(model, tokenizer)
        if getattr(model, "config", None) is None:
            got, expected = f"a network of type {type(model).__name__}", "a classifier of transformers"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
        return InMemory(model, tokenizer)
    if tokenizer is not None:
        got = f"a tokenizer with a model of type {type(model).__name__}"
        expected = "a tokenizer only with a network in memory"
        raise InputError("load_classifier", got=got, expected=expected, hint=hint)
    place = locate(model, revision)
    if not place.is_adapter:
        return Files(place, device_map)
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
        hint = "load_classifier(model, tokenizer), or the name of one that is saved"
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
