"""Reading a model: files in the hub's format, a .gguf file, a PEFT adapter, or objects in memory."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import ModelError, extra
from lrp_companion.families import FAMILIES, tasks
from lrp_companion.families.sentences import SIMILARITIES, SentenceEncoder, label
from lrp_companion.families.tasks import ANSWER, ENDS, TASKS, task_of
from lrp_companion.families.wiring import Wiring
from lrp_companion.loading.formats import (
    adapted,
    check_tensors,
    check_texts,
    inside,
    labels_of,
    merged,
    of_peft,
    read_keys,
    shapes_of,
)
from lrp_companion.loading.texts import token_texts
from lrp_companion.schema import MULTI_LABEL, PROBLEM_TYPES, REGRESSION, ModelCard
from lrp_companion.sources import ADAPTER, CONFIG, Place, locate

AUTO = {
    tasks.CLASSES: "AutoModelForSequenceClassification",
    tasks.NEXT_TOKEN: "AutoModelForCausalLM",
    tasks.MASKED_TOKEN: "AutoModelForMaskedLM",
    tasks.TOKEN_CLASSES: "AutoModelForTokenClassification",
    tasks.IMAGE_CLASSES: "AutoModelForImageClassification",
    tasks.ANSWER: "AutoModelForQuestionAnswering",
}
"""The class of `transformers` that reads a model of a task."""
TASK_TYPES = {"SEQ_CLS": tasks.CLASSES, "TOKEN_CLS": tasks.TOKEN_CLASSES, "CAUSAL_LM": tasks.NEXT_TOKEN}
"""Tasks by the words of PEFT, which has none for masked tokens and for images."""
VOCABULARY = tuple(
    f"{name}.weight" for name in ("embed_tokens", "word_embeddings", "wte", "tok_embeddings", "embed_in")
)
"""Endings of the names of embeddings."""
PREPROCESSOR, MODULES = "preprocessor_config.json", "modules.json"
MEAN_POOLED = "MeanPooledBertForSequenceClassification"
"""The one class of this package that a folder may name; importing it imports `transformers`."""
OTHER_TASKS = """pooler cls lm_predictions mask_predictions predictions sop_classifier lm_head vocab_transform
    vocab_layer_norm vocab_projector discriminator_predictions generator_predictions generator_lm_head decoder
    pre_classifier classifier score qa_outputs v_head"""
"""Modules after the last layer, as heads of other tasks: what a network without them computes needs none."""
UNUSED = {"seq_relationship", "masked_bias"}
"""Parts of modules that no logit depends on."""
Network = tuple[Any, Mapping[str, Any]]
"""A network, and the report of `transformers` on weights that it lacks or does not take."""


@dataclass(frozen=True)
class Files:
    """A model on disk or on the hub, read by `transformers`, whose errors pass as they are."""

    place: Place
    device_map: Any = None
    dtype, auto = "auto", ""
    stored = ""

    @property
    def options(self) -> dict[str, Any]:
        """What `transformers` is told with each call."""
        # Unset, transformers asks on standard input whether to run code that comes with the model.
        options: dict[str, Any] = {"trust_remote_code": False}
        asked = self.place.source == "hub" and self.place.revision
        return options | ({"revision": self.place.revision} if asked else {})

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The entries of config.json."""
        from transformers import PretrainedConfig

        return PretrainedConfig.get_config_dict(self.place.path, **self.options)[0]

    @cached_property
    def config(self) -> Any:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(self.place.path, **self.options)

    def tokenizer(self, *, images: bool) -> Any:
        """The tokenizer, or of a model of images its image processor, None if a folder has none."""
        from transformers import AutoImageProcessor, AutoTokenizer

        if not images:
            return AutoTokenizer.from_pretrained(self.place.path, use_fast=True, **self.options)
        known = self.place.source == "hub" or self.place.has(PREPROCESSOR)
        return AutoImageProcessor.from_pretrained(self.place.path, **self.options) if known else None

    def network(self, config: Any) -> Network:
        """The network of this configuration."""
        import transformers

        # weights of other shapes are in the report, too
        options = self.options | {"output_loading_info": True, "ignore_mismatched_sizes": True}
        if MEAN_POOLED in (config.architectures or []):
            del options["trust_remote_code"]
            kind: Any = importlib.import_module("lrp_companion.families.mean_pooled").__dict__[MEAN_POOLED]
        else:
            kind = getattr(transformers, self.auto or AUTO[task_of(config.architectures) or tasks.CLASSES])
        if self.device_map is not None:
            options["device_map"] = self.device_map
        return kind.from_pretrained(self.place.path, config=config, dtype=self.dtype, **options)


@dataclass(frozen=True)
class PackedFile(Files):
    """A causal language model in one .gguf file, whose weights are unpacked to float32."""

    dtype = "float32"

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "gguf_file": self.place.packed}

    @cached_property
    def _reader(self) -> Any:
        with extra("load_classifier"):
            importlib.import_module("accelerate")  # which transformers asks for
            from gguf import GGUFReader
        return GGUFReader(Path(self.place.path) / str(self.place.packed))

    @cached_property
    def stored(self) -> str:  # type: ignore[override]
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

    def tokenizer(self, *, images: bool) -> Any:
        here = self.place.has(PREPROCESSOR if images else "tokenizer_config.json")
        return super().tokenizer(images=images) if here else self._base.tokenizer(images=images)

    @cached_property
    def config(self) -> Any:
        """The base model's configuration for the adapter's task, labels and vocabulary."""
        import transformers

        config, asked = self._base.config, self._entries.get("task_type")
        named = (self._entries.get("auto_mapping") or {}).get("base_model_class")
        if named not in (None, MEAN_POOLED):
            getattr(transformers, named)  # no class of another library
        saved_as = [name for name in (named, *(config.architectures or [])) if name]
        task = TASK_TYPES[asked] if asked else task_of(saved_as) or tasks.CLASSES
        headed = not (asked or named) and labels_of(self._shapes)
        if headed and task in (tasks.NEXT_TOKEN, tasks.MASKED_TOKEN):
            task = tasks.CLASSES
        if (
            task == tasks.CLASSES
            and type(config) not in getattr(transformers, AUTO[tasks.CLASSES])._model_mapping
        ):
            task = tasks.IMAGE_CLASSES
        ending = next(f"Adapted{ending}" for ending, of in TASKS.items() if of == task)
        config.architectures = [name for name in saved_as if task_of([name]) == task][:1] or [ending]
        if task in (tasks.CLASSES, tasks.TOKEN_CLASSES, tasks.IMAGE_CLASSES):
            self._name_labels(config)
        rows = [shape[0] for key, shape in self._shapes.items() if key.endswith(VOCABULARY)]
        if rows:  # peft saves the embeddings of a vocabulary that has grown
            config.vocab_size = rows[0]
        return config

    def _name_labels(self, config: Any) -> None:
        """Set the number of labels from the adapter's classifier, and names for as many."""
        count = labels_of(self._shapes) or config.num_labels
        saved = (self._folder / CONFIG).read_text(encoding="utf-8") if self.place.has(CONFIG) else "{}"
        settings = json.loads(saved)
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
        return adapted(self.place.name, self._folder, network), report


@dataclass(frozen=True)
class EncoderFiles(Files):
    """A sentence encoder in the files of sentence-transformers: a network below, a pooling, a norm."""

    auto = "AutoModel"

    @cached_property
    def _modules(self) -> list[tuple[str, str]]:
        """The class and the folder of each module."""
        return [(row["type"].rpartition(".")[2], row["path"]) for row in entries(self.place, MODULES)]

    @cached_property
    def _said(self) -> Mapping[str, Any]:
        return entries(self.place, "config_sentence_transformers.json")

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "subfolder": self._modules[0][1]}

    @cached_property
    def config(self) -> Any:
        config = label(super().config)
        config.architectures = [SentenceEncoder.__name__]
        return config

    def tokenizer(self, *, images: bool) -> Any:
        """The tokenizer, with the length that the encoder reads."""
        tokenizer = super().tokenizer(images=images)
        saved = entries(self.place, "sentence_bert_config.json", self._modules[0][1])
        tokenizer.model_max_length = saved.get("max_seq_length") or tokenizer.model_max_length
        prompt, lower = self._said.get("default_prompt_name"), saved.get("do_lower_case")
        check_texts(self.place.name, tokenizer, prompt=prompt, lower=lower)
        return tokenizer

    def network(self, config: Any) -> Network:
        if entries(self.place, "config_setfit.json"):
            got, hint = f"{self.place.name!r} of SetFit", "load_classifier(SetFitModel.from_pretrained(...))"
            raise ModelError("load_classifier", got=got, expected="a SetFitModel as an object", hint=hint)
        base, report = super().network(config)
        parts = [(kind, entries(self.place, CONFIG, path) if path else {}) for kind, path in self._modules]
        network = SentenceEncoder(
            base, parts, similarity=self._said.get("similarity_fn_name") or SIMILARITIES[0]
        )
        missing = {key for key in report["missing_keys"] if not key.startswith("pooler.")}
        return network, {**report, "missing_keys": missing}


def entries(place: Place, name: str, folder: str = "") -> Any:
    """What a file of JSON of a model says; empty where there is none."""
    from transformers.utils import cached_file

    quiet = {f"_raise_exceptions_for_{of}": False for of in ("missing_entries", "connection_errors")}
    path = cached_file(place.path, name, subfolder=folder, revision=place.revision, **quiet)
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}


@dataclass(frozen=True)
class InMemory:
    """A network, which is copied, so that the caller's does not change."""

    given: Any
    stored = ""

    @property
    def place(self) -> Place:
        """The last part of the network's path, or its class; with several adapters, those that are active."""
        known = str(getattr(self.given.config, "_name_or_path", "") or "")
        name = Path(known).name or type(inside(self.given)).__name__
        if of_peft(self.given) and len(self.given.peft_config) > 1:
            active = getattr(self.given, "active_adapters", None) or self.given.active_adapter
            name = f"{name} with {', '.join([active] if isinstance(active, str) else active)}"
        return Place(name, known, "memory")

    @property
    def settings(self) -> dict[str, Any]:
        return json.loads(self.config.to_json_string())

    def tokenizer(self, *, images: bool) -> Any:
        """None: it comes with its network."""

    @cached_property
    def config(self) -> Any:
        """The network's configuration; that of a model that was never saved does not name its class."""
        config = copy.deepcopy(self.given.config)
        kinds = [kind.__name__ for kind in type(inside(self.given)).__mro__]
        config.architectures = [name for name in kinds if task_of([name])][:1] or kinds[:1]
        return config

    def network(self, config: Any) -> Network:
        network: Any = copy.deepcopy(self.given).cpu()
        if of_peft(network):
            network = merged(self.place.name, network)
        return network, dict.fromkeys(("missing_keys", "unexpected_keys", "mismatched_keys"), ())


Readable = Files | InMemory


def files_of(model: Any, revision: str | None, *, device_map: Any = None) -> Readable:
    """The model that `load_classifier` is to read."""
    if isinstance(model, nn.Module):
        return InMemory(model)
    place = locate(model, revision)
    if place.packed or place.has(ADAPTER):
        return (PackedFile if place.packed else AdapterFiles)(place, device_map)
    pooled = any(row["type"].endswith("Pooling") for row in entries(place, MODULES))
    return (EncoderFiles if pooled else Files)(place, device_map)


def read(files: Readable, tokenizer: Any) -> tuple[Any, Any]:
    """The network, and its tokenizer or image processor unless one is given."""
    config, name = files.config, files.place.name
    if config.model_type not in FAMILIES or task_of(config.architectures) is None:
        got = f"{name!r} of family {config.model_type!r}, saved as {', '.join(config.architectures or [])}"
        known = config.model_type in FAMILIES
        expected = f"a class that ends in {', '.join(TASKS)}" if known else f"one of {', '.join(FAMILIES)}"
        hint = "choose one, or tell a wiring by lrp.family"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    network, report = files.network(config)
    images = network.main_input_name == "pixel_values"
    if tokenizer is None:
        tokenizer = files.tokenizer(images=images)
    single = [key for key, value in network.named_parameters() if value.is_floating_point()]
    wrong = {  # of 8 bits, converted without their scales they would be other weights
        "in 8 bits": [key for key in single if network.get_parameter(key).itemsize < 2],
        "of another shape": [key for key, *_ in report["mismatched_keys"]],
        "lacking": [key for key in report["missing_keys"] if "position_ids" not in key],
        "that its network does not take": [
            key for key in report["unexpected_keys"] if not _of_another_task(key, network)
        ],
    }
    found = [f"{how}: {', '.join(sorted(keys)[:3])}" for how, keys in wrong.items() if keys]
    if not images and (tokenizer is None or len(tokenizer) <= len(tokenizer.all_special_ids)):
        found.append("without its tokenizer")
    if found:
        expected = "exactly the weights of the network that config.json describes, and its tokenizer"
        hint = (
            "fine-tune the model or, for a sentence encoder, add modules.json; merge adapters, correct "
            "config.json, or load_classifier(network, tokenizer)"
        )
        got = f"{name!r} with weights {' and weights '.join(found)}"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    return network, tokenizer


def _of_another_task(key: str, network: Any) -> bool:
    """Whether a weight belongs to one of `OTHER_TASKS` that neither the network nor its base model has."""
    path = key.removeprefix(f"{network.base_model_prefix}.").split(".")
    own = {name for one in (network, network.base_model) for name, _ in one.named_children()}
    return path[0] in {*OTHER_TASKS.split()} - own or not UNUSED.isdisjoint(path)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars, load reports and notes of `transformers` and the hub for a while."""
    from transformers.utils import logging as theirs

    level, bars = logging.root.manager.disable, theirs.is_progress_bar_enabled()
    logging.disable(logging.WARNING)
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        logging.disable(level)
        if bars:
            theirs.enable_progress_bar()


BOOKKEEPING = (
    "_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id",
)  # fmt: skip
"""Entries of `config.json` on which no score depends; labels are compared by name."""
UNSET = 10**9
"""From this length on, a tokenizer's `model_max_length` says that nobody has set it."""


def card_of(files: Readable, wiring: Wiring, tokenizer: Any, *, dtype: str, fingerprint: str) -> ModelCard:
    """The record of a loaded model; what reads its images counts as its tokenizer."""
    config, images = files.config, wiring.patches is not None
    settings = {key: value for key, value in files.settings.items() if key not in BOOKKEEPING}
    # a classifier with one output is a regression, as in `transformers`, unless it is a sigmoid
    problem = str(config.problem_type or PROBLEM_TYPES[0])
    if not wiring.of_vocabulary and config.num_labels == 1 and problem != MULTI_LABEL:
        problem = REGRESSION
    processor = tokenizer.to_dict() if images and tokenizer is not None else None
    most = UNSET if images else int(tokenizer.model_max_length)
    # rotations have no end: the tokenizer decides, if somebody has set its length
    endless = wiring.position is None and most < UNSET
    return ModelCard(
        name=files.place.name,
        source=files.place.source,
        family=config.model_type,
        layers=len(wiring.layers),
        heads=wiring.heads,
        hidden=wiring.layers[0].query.in_features,
        max_tokens=most if endless else min(wiring.longest, most),
        labels=_labels(config, wiring, tokenizer),
        dtype=dtype,
        fingerprint=fingerprint,
        tokenizer=_digest(processor) if images else _tokenizer_fingerprint(tokenizer),
        config=_digest(settings),
        problem_type=problem,
        stored=files.stored,
    )


def _labels(config: Any, wiring: Wiring, tokenizer: Any) -> tuple[str, ...]:
    """Names of the classes; of a language model the tokens of its vocabulary; the two ends of an answer."""
    if task_of(config.architectures) == ANSWER:
        return ENDS
    if not wiring.of_vocabulary:
        return tuple(str(config.id2label[k]) for k in range(config.num_labels))
    unused = range(len(tokenizer), config.get_text_config().vocab_size)
    return (*token_texts(tokenizer, range(len(tokenizer))), *(f"<unused {k}>" for k in unused))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _tokenizer_fingerprint(tokenizer: Any) -> str:
    """Fingerprint of the tokenizer: vocabulary, normaliser, splitting, special tokens, length."""
    backend = getattr(tokenizer, "backend_tokenizer", None)  # none where the family has no fast tokenizer
    state = json.loads(backend.to_str()) if backend else tokenizer.get_vocab()
    per_call = ("truncation", "padding")  # every call sets them
    state = {key: value for key, value in state.items() if key not in per_call}
    return _digest([state, sorted(tokenizer.all_special_ids), int(tokenizer.model_max_length)])


def fingerprint_of(network: nn.Module) -> str:
    """Fingerprint of the names and values of all weights."""
    digest = hashlib.sha256()
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
