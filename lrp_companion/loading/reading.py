"""Reading a model: files in the hub's format, a .gguf file, a PEFT adapter, or objects in memory."""

from __future__ import annotations

import copy
import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from lrp_companion.extras import extra
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import (
    ANSWER,
    CLASSES,
    IMAGE_CLASSES,
    MASKED_TOKEN,
    NEXT_TOKEN,
    TASKS,
    TOKEN_CLASSES,
    task_of,
)
from lrp_companion.loading.adapters import adapted, inside, labels_of, merged, of_peft, shapes_of
from lrp_companion.loading.compute import undivided
from lrp_companion.loading.gguf_keys import check_tensors, read_keys
from lrp_companion.loading.places import ADAPTER, CONFIG, Place, locate

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
VOCABULARY = (
    "embed_tokens.weight",
    "word_embeddings.weight",
    "wte.weight",
    "tok_embeddings.weight",
    "embed_in.weight",
)
"""Endings of the names of embeddings."""
PREPROCESSOR = "preprocessor_config.json"
MEAN_POOLED = "MeanPooledBertForSequenceClassification"
"""The one class of this package that a folder may name; importing it imports `transformers`."""
Network = tuple[Any, Mapping[str, Any]]
"""A network, and the report of `transformers` on weights that it lacks or does not take."""


@dataclass(frozen=True)
class Files:
    """A model on disk or on the hub, read by `transformers`, whose errors pass as they are."""

    place: Place
    device_map: Any = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def source(self) -> str:
        return self.place.source

    @property
    def _options(self) -> dict[str, Any]:
        # Unset, transformers asks on standard input whether to run code that comes with the model.
        options: dict[str, Any] = {"trust_remote_code": False}
        asked = self.source == "hub" and self.place.revision
        return options | ({"revision": self.place.revision} if asked else {})

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The entries of config.json."""
        from transformers import PretrainedConfig

        return PretrainedConfig.get_config_dict(self.place.path, **self._options)[0]

    @cached_property
    def config(self) -> Any:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(self.place.path, **self._options)

    @property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.place.path, use_fast=True, **self._options)

    @property
    def processor(self) -> dict[str, Any] | None:
        """The settings of the image processor, if there is one."""
        from transformers.image_processing_base import ImageProcessingMixin

        if self.source != "hub" and not (Path(self.place.path) / PREPROCESSOR).is_file():
            return None
        return ImageProcessingMixin.get_image_processor_dict(self.place.path, **self._options)[0]

    def network(self, config: Any) -> Network:
        """The network of this configuration."""
        import transformers

        # weights of other shapes are in the report, too
        options = self._options | {"output_loading_info": True, "ignore_mismatched_sizes": True}
        if MEAN_POOLED in (config.architectures or []):
            del options["trust_remote_code"]
            kind: Any = importlib.import_module("lrp_companion.families.mean_pooled").__dict__[MEAN_POOLED]
        else:
            kind = getattr(transformers, AUTO[task_of(config.architectures) or CLASSES])
        if self.device_map is not None:
            options["device_map"] = self.device_map
        return kind.from_pretrained(self.place.path, config=config, dtype=self._dtype, **options)

    _dtype = "auto"


@dataclass(frozen=True)
class PackedFile(Files):
    """A causal language model in one .gguf file, whose weights are unpacked to float32."""

    _dtype = "float32"

    @property
    def _options(self) -> dict[str, Any]:
        return {**super()._options, "gguf_file": self.place.packed}

    @cached_property
    def _reader(self) -> Any:
        with extra("load_classifier"):
            importlib.import_module("accelerate")  # which transformers asks for
            from gguf import GGUFReader
        return GGUFReader(Path(self.place.path) / str(self.place.packed))

    @cached_property
    def stored(self) -> str:
        """The type of most of its weights in the file, such as "Q4_1"."""
        counts: Counter[str] = Counter()
        for tensor in self._reader.tensors:
            counts[tensor.tensor_type.name] += int(tensor.n_elements)
        return counts.most_common(1)[0][0]

    @cached_property
    def config(self) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        reader = self._reader
        config = AutoConfig.for_model(**self.settings)
        kinds: Any = AutoModelForCausalLM._model_mapping
        if type(config) in kinds:
            config.architectures = [kinds[type(config)].__name__]
        if config.model_type in FAMILIES:  # others are refused by name
            read_keys(str(self.place.packed), reader, config)
        return config

    def network(self, config: Any) -> Network:
        network, report = super().network(config)
        check_tensors(str(self.place.packed), self._reader, network)
        return network, report


@dataclass(frozen=True)
class AdapterFiles(Files):
    """A PEFT adapter on disk, merged into the model that it was trained on."""

    @property
    def _folder(self) -> Path:
        return Path(self.place.path)

    @cached_property
    def _entries(self) -> dict[str, Any]:
        return json.loads((self._folder / ADAPTER).read_text(encoding="utf-8"))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return shapes_of(self._folder)

    @cached_property
    def _base(self) -> Files:
        """The model that the adapter was trained on."""
        place = locate(self._entries["base_model_name_or_path"], self._entries.get("revision"))
        return Files(place, self.device_map)

    @property
    def settings(self) -> dict[str, Any]:
        return self._base.settings

    @property
    def tokenizer(self) -> Any:
        here = (self._folder / "tokenizer_config.json").is_file()
        return super().tokenizer if here else self._base.tokenizer

    @property
    def processor(self) -> dict[str, Any] | None:
        here = (self._folder / PREPROCESSOR).is_file()
        return super().processor if here else self._base.processor

    @cached_property
    def config(self) -> Any:
        """The base model's configuration for the adapter's task, labels and vocabulary."""
        config = self._base.config
        mapping = self._entries.get("auto_mapping") or {}
        named = [mapping["base_model_class"]] if "base_model_class" in mapping else []
        if named != [MEAN_POOLED]:  # no class of another library
            transformers = importlib.import_module("transformers")
            _ = [getattr(transformers, name) for name in named]
        task = self._task(config, named)
        saved_as = [*named, *(config.architectures or [])]
        config.architectures = [name for name in saved_as if task_of([name]) == task][:1] or [
            next(f"Adapted{ending}" for ending, of in TASKS.items() if of == task)
        ]
        if task in (CLASSES, TOKEN_CLASSES, IMAGE_CLASSES):
            self._name_labels(config)
        rows = [shape[0] for key, shape in self._shapes.items() if key.endswith(VOCABULARY)]
        if rows:  # peft saves the embeddings of a vocabulary that has grown
            config.vocab_size = rows[0]
        return config

    def _task(self, config: Any, named: list[str]) -> str:
        """What the adapter was trained for: what it says, or what its classifier or its base model is for."""
        import transformers

        asked = self._entries.get("task_type")
        task = TASK_TYPES[asked] if asked else task_of(named or config.architectures) or CLASSES
        if not (asked or named) and task in (NEXT_TOKEN, MASKED_TOKEN) and labels_of(self._shapes):
            task = CLASSES
        of_texts = type(config) in getattr(transformers, AUTO[CLASSES])._model_mapping
        return IMAGE_CLASSES if task == CLASSES and not of_texts else task

    def _name_labels(self, config: Any) -> None:
        """Set the number of labels from the adapter's classifier, and names for as many."""
        count = labels_of(self._shapes) or config.num_labels
        here = self._folder / CONFIG
        settings = json.loads(here.read_text(encoding="utf-8")) if here.is_file() else {}
        names = {int(k): name for k, name in settings.get("id2label", {}).items()}
        if sorted(names) == list(range(count)):
            config.id2label, config.label2id = names, {name: k for k, name in names.items()}
        elif count != config.num_labels:
            config.num_labels = count
        config.problem_type = settings.get("problem_type", config.problem_type)

    def network(self, config: Any) -> Network:
        network, report = self._base.network(config)
        whole = set(self._shapes)
        missing = set(report["missing_keys"]) - whole
        mismatched = {found for found in report["mismatched_keys"] if found[0] not in whole}
        report = {**report, "missing_keys": missing, "mismatched_keys": mismatched}
        return adapted(self.name, self._folder, network), report


@dataclass(frozen=True)
class InMemory:
    """A network, which is copied, so that the caller's does not change."""

    given: Any
    source: str = "memory"
    tokenizer: Any = None
    processor: Any = None

    @property
    def name(self) -> str:
        """The last part of the network's path, or its class; with several adapters, those that are active."""
        known = str(getattr(self.given.config, "_name_or_path", "") or "")
        name = Path(known).name or type(inside(self.given)).__name__
        if not of_peft(self.given) or len(self.given.peft_config) < 2:
            return name
        active = getattr(self.given, "active_adapters", None) or self.given.active_adapter
        return f"{name} with {', '.join([active] if isinstance(active, str) else active)}"

    @property
    def settings(self) -> dict[str, Any]:
        return json.loads(self.config.to_json_string())

    @cached_property
    def config(self) -> Any:
        """The network's configuration; that of a model that was never saved does not name its class."""
        config = copy.deepcopy(self.given.config)
        kinds = [kind.__name__ for kind in type(inside(self.given)).__mro__]
        config.architectures = [name for name in kinds if task_of([name])][:1] or kinds[:1]
        return config

    def network(self, config: Any) -> Network:
        network: Any = undivided(self.given)
        if of_peft(network):
            network = merged(self.name, network)
        return network, dict.fromkeys(("missing_keys", "unexpected_keys", "mismatched_keys"), ())


Readable = Files | InMemory


def files_of(model: Any, revision: str | None, *, device_map: Any = None) -> Readable:
    """The model that `load_classifier` is to read."""
    if isinstance(model, nn.Module):
        return InMemory(model)
    place = locate(model, revision)
    kind = PackedFile if place.packed else AdapterFiles if place.is_adapter else Files
    return kind(place, device_map)


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
