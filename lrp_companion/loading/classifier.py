"""`load_classifier`: the embedded model, a folder in the hub's format, or a hub id; and tokenisation."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.modules import module as of_all_modules

from lrp_companion.checks import InputError, ModelError, choose, is_whole, shown
from lrp_companion.families.tasks import (
    CLASSES,
    MASKED_TOKEN,
    NEXT_TOKEN,
    TOKEN_CLASSES,
    Steps,
    check_modules,
    logits_of_output,
)
from lrp_companion.families.wiring import LinearRows, RootMeanSquare, UnitLength, fresh_rotations
from lrp_companion.loading.comparison import check_forward, check_same, warn_of_slow_products
from lrp_companion.loading.formats import opened
from lrp_companion.loading.images import EncodedImage, ImageReader
from lrp_companion.loading.reading import card_of, files_of, fingerprint_of, quietly, read
from lrp_companion.loading.texts import (
    EncodedText,
    Reader,
    beside_ids,
    kind_of,
    token_texts,
    tokenised,
)
from lrp_companion.schema import MULTI_LABEL, REGRESSION, ModelCard
from lrp_companion.sources import EMBEDDED_FOLDER, embedded_models
from lrp_companion.tape.encoder import Encoder, Readout, Tape, as_recorded, pad
from lrp_companion.words import SPACES, word_spans

__all__ = ["EMBEDDED_FOLDER", "Classifier", "EncodedText", "embedded_models", "load_classifier"]
DTYPES = ("float32", "float64", "bfloat16", "float16")
COMPARE = ("new", "all")
"""Which texts are compared: those unlike any compared before, or every one."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module keeps what its call runs besides its forward."""
COLLECTS = "transformers.utils.output_capturing"
"""Where the hooks are that the first call with `output_hidden_states` or `output_attentions` leaves."""
KNOWN = {"torch", "transformers", "lrp_companion"}
"""Packages of modules that decide nothing by the numbers that they get."""


class Identity:
    """What tells whether a network is the one that was read: its modules with their attributes, the versions,
    types and devices of their parameters, its configuration, and hooks of all modules.
    """

    def __init__(self, network: Any) -> None:
        self.network, self.config = network, copy.deepcopy(vars(network.config))
        kinds = [of for module in network.modules() for of in (type(module), type(module).forward)]
        self.foreign = not {of.__module__.partition(".")[0] for of in kinds} <= KNOWN
        self.parts = [
            (path, module, vars(module).copy(), module._modules.copy(), type(module), type(module).forward)
            for path, module in network.named_modules()
        ]
        self.numbers, self.of_all = self._numbers()
        self.hooks = [hook for _, module, *_ in self.parts for _, hook in hooks_of(module)]

    def _numbers(self) -> tuple[dict[str, list[Any]], list[Any]]:
        """The parameters of each module by its path, and the hooks of all modules there are. A version goes
        up with each change in place.
        """
        numbers = {
            path: [
                (id(p), p._version, p.dtype, p.device) for p in module._parameters.values() if p is not None
            ]
            for path, module, *_ in self.parts
        }
        return numbers, [list(getattr(of_all_modules, f"_global{name}").values()) for name in HOOKS]

    def changed(self) -> str | None:
        """The path of the first module that is another one now, "" for the network; None: nothing changed."""
        for path, module, then, children, kind, forward in self.parts:
            now = vars(module)
            if any(map(now.__getitem__, HOOKS)) or "forward" in now:
                check_hooks("attribute", self.network, self.hooks)
            then["training"] = now["training"]
            try:
                same = now == then and module._modules == children
            except RuntimeError:  # of two tensors
                same = False
            if not (same and type(module) is kind and kind.forward is forward):
                return path
        numbers, of_all = self._numbers()
        edited = next((path for path, now in numbers.items() if now != self.numbers[path]), None)
        if edited is not None:
            return edited
        return None if vars(self.network.config) == self.config and of_all == self.of_all else ""


def hooks_of(module: nn.Module) -> list[tuple[str, Any]]:
    """What a call of a module runs besides the forward of its class, by kind; accelerate's forward moves
    tensors only, and a hook by which `transformers` collects hidden states changes none.
    """
    here = vars(module)
    kinds = [(name.strip("_")[:-1].replace("_", " "), hook) for name in HOOKS for hook in here[name].values()]
    found = [one for one in kinds if getattr(one[1], "__module__", "") != COLLECTS]
    forward = here.get("forward")
    moved = "_hf_hook" in here or getattr(forward, "__func__", None) is type(module).forward
    return found + ([] if forward is None or moved else [("forward", forward)])


def check_hooks(operation: str, network: Any, known: Collection[Any] = ()) -> None:
    """Refuse a network with hooks other than the `known` ones: the way back does not know what they do."""
    found = [(path, *one) for path, module in network.named_modules() for one in hooks_of(module)]
    for path, kind, hook in found:
        if hook not in known:
            name = getattr(hook, "__qualname__", hook)
            got = f"a network whose module {path or 'at the top'} has the {kind} {name}"
            hint = "remove it (handle.remove()), or make its change in the weights"
            raise ModelError(operation, got=got, expected="the forward of each module's class", hint=hint)


class Classifier:
    """A classifier with its tokenizer, ready to be explained. Made by `load_classifier`.

    Of a model that reads images `tokenizer` is its image processor, or None.
    """

    def __init__(
        self, network: nn.Module, tokenizer: Any, *, card: ModelCard, recompute: bool = False
    ) -> None:
        self.network, self.tokenizer, self.card = network, tokenizer, card
        self.recompute = recompute
        self._read()
        self.labels, self.max_tokens = card.labels, card.max_tokens
        self.mask_id: Any = getattr(tokenizer, "mask_token_id", None)
        known = [getattr(tokenizer, name, None) for name in ("pad_token_id", "eos_token_id")]
        self.pad_id = next(k for k in (*known, 0) if k is not None)  # any will do: nothing attends to it
        self.multi_label = card.problem_type == MULTI_LABEL
        self.regression = card.problem_type == REGRESSION
        self.chosen_of: Callable[[Tensor], Tensor] = torch.Tensor.contiguous  # of the network's, if narrowed
        self.similarity: str | None = getattr(network, "similarity", None)
        self.template: Mapping[str, Any] | None = None
        self._whole: Classifier | None = None
        self.compare = COMPARE[0]
        self.changed: str | None = None  # the module in which it is not as it was loaded

    def _read(self) -> None:
        """Where the modules of the network are, and what its numbers are."""
        self.encoder = Encoder(self.network, recompute=self.recompute)
        check_modules(self.card.name, self.encoder.wiring, labels=len(self.card.labels))
        first = self.encoder.wiring.word.weight  # layers may lie on further devices
        self.device, self.dtype = first.device, first.dtype
        if self.encoder.wiring.rotary_from is not None:
            fresh_rotations(self.network)
        self.identity = Identity(self.network)
        self.compared: dict[Any, int] = {}  # how long the compared texts of each kind were

    def follow(self) -> Classifier:
        """This classifier; a network in which a module, a setting or a type of number has changed since it
        was read is read again, and its logits are compared again.
        """
        if self.similarity and self._whole:  # its texts are embedded again, too
            whole = self._whole.follow()
            return self if whole.identity is self.identity else whole.similar_to(self.labels)
        if self.encoder.wiring.rotary_from is not None:
            fresh_rotations(self.network)
        changed = self.identity.changed() if self.network is self.identity.network else ""
        if changed is not None:
            check_hooks("attribute", self.network, self.identity.hooks)
            self._read()
            self.changed = changed
            dtype, layers = str(self.dtype).removeprefix("torch."), len(self.encoder.wiring.layers)
            weights = fingerprint_of(self.network)
            self.card = dataclasses.replace(self.card, dtype=dtype, layers=layers, fingerprint=weights)
        return self

    def __repr__(self) -> str:
        c = self.card
        sizes = f"{c.layers} layers, {c.hidden} wide, {c.dtype}, {self.device.type}"
        return f"Classifier({c.name!r} from {c.source}: {c.family}, {sizes})"

    @property
    def whole(self) -> Classifier:
        """The classifier with all its classes; another one only if this is narrowed."""
        return self._whole or self

    @property
    def reads_images(self) -> bool:
        """Whether the model reads images instead of texts."""
        return self.encoder.wiring.patches is not None

    @property
    def inputs(self) -> str:
        """What the model reads, in a word."""
        return "images" if self.reads_images else "texts"

    @property
    def units(self) -> str:
        """What its inputs are made of, in a word: the tokens that are not special."""
        return "patches" if self.reads_images else "words"

    def encode(self, texts: Any, *, truncate: bool = False, position: Any = None) -> list[EncodedText]:
        """Tokenise texts and pairs of texts, or cut images into patches.

        Parameters
        ----------
        texts : a string; a pair as a tuple of two strings; token ids as a list of whole numbers; a chat as a
            list of messages, for the tokenizer's chat template; or a list of these. For a model of images,
            an array or tensor of pixels (`ImageReader` says which).
        truncate : cut what is beyond `max_tokens` as the tokenizer does.
        position : the token whose classes are explained, from 0, counting special tokens, or a word of the
            text, whose first token it is; one for all texts or one for each. For a language model it is the
            token after which the next is explained (None: the last).

        Raises
        ------
        InputError : no texts; a text that is not a string, is empty, has only special tokens, spells a
            special token such as [SEP], or is beyond `max_tokens`; a position that is missing, beyond a text,
            or not applicable.

        >>> clf = load_classifier("companion")
        >>> [text.tokens for text in clf.encode(("A fine film.", "Not bad."))]
        [('[CLS]', 'a', 'fine', 'film', '.', '[SEP]', 'not', 'bad', '.', '[SEP]')]
        """
        w = self.encoder.wiring
        if w.patches is None:
            encoded = self.reader.encode(texts, truncate=truncate)
        else:
            encoded = [*ImageReader(w.patches, self.tokenizer).encode(texts)]
        return self._at(encoded, position) if w.task == TOKEN_CLASSES or position is not None else encoded

    @property
    def reader(self) -> Reader:
        """What makes token ids of texts for this model."""
        w = self.encoder.wiring
        skipped = None
        if w.readout == "last" and w.task == CLASSES:  # `transformers` looks for it by the id of padding
            config: Any = self.network.config
            skipped = getattr(config.get_text_config(), "pad_token_id", None)
        return Reader(
            self.tokenizer,
            self.max_tokens,
            reads_mask=w.task == MASKED_TOKEN,
            vocabulary=getattr(w.word, "num_embeddings", None),
            skipped=skipped,
            prompts=w.task == NEXT_TOKEN,
            template=self.template,
        )

    def encode_one(
        self, operation: str, text: Any, *, truncate: bool = False, position: Any = None
    ) -> EncodedText:
        """One text, pair or image, as `encode` gives it; several are refused."""
        encoded = self.encode(text, truncate=truncate, position=position)
        if len(encoded) == 1 and (self.reads_images or kind_of(text)[0]):
            return encoded[0]
        one, got = self.inputs[:-1], f"{len(encoded)} {self.inputs} of type {type(text).__name__}"
        raise InputError(operation, got=got, expected=f"one {one}", hint=f"call it once per {one}")

    def batch(self, texts: Sequence[EncodedText]) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """As `padded`; the logits of texts unlike any before are first compared with the network's own."""
        self.check_logits(texts)
        return self.padded(texts)

    def check_logits(
        self, texts: Sequence[EncodedText], named: str = "", *, operation: str = "attribute"
    ) -> None:
        """Compare the logits of texts with the network's, of all if the classifier says so or a module is of
        somebody else's class, else of those that are new: longer than any compared before, or of another kind
        (pair, cut, ids, other dtype).
        """
        clf = (self._whole or self).follow()
        config: Any = clf.network.config
        # a network that counts positions by ids, as RoBERTa does, may leave out some of a text
        skipped = config.pad_token_id if clf.encoder.wiring.first_position > 0 else None
        always = clf.compare == "all" or clf.identity.foreign
        by_kind: dict[Any, EncodedText] = {}
        for text in texts:
            kind: tuple[Any, ...] = "image", clf.dtype
            if not isinstance(text, EncodedImage):
                kind = text.pair is not None, len(text) < text.whole, text.bare, text.read is None
                kind = *kind, text.typed, any(text.types), clf.dtype
            key = (*kind, text.key, text.read) if always or skipped in text.input_ids else kind
            if len(text) > max(clf.compared.get(key, 0), len(by_kind.get(key, ()))):
                by_kind[key] = text
        for key, text in by_kind.items():
            told = f"an {'image' if isinstance(text, EncodedImage) else 'input'} of {len(text)} tokens"
            told = f"{told}, {shown(text.text[:60])}" if text.text else told
            check_same(clf, text, named or told, operation=operation)
            clf.compared[key] = len(text)

    def for_call(
        self,
        target: Any,
        contrast: Any,
        template: Mapping[str, Any] | None,
        compare: str | None,
        *,
        truncate: bool,
    ) -> Classifier:
        """The classifier of one call, as its network is now: a chat's template has options, an encoder's
        targets are texts, and it compares "new" or "all" texts (None: as it was loaded).
        """
        if template is not None and not isinstance(template, Mapping):
            got, hint = f"chat_template_kwargs {shown(template)}", "one for all chats of a call"
            raise InputError("attribute", got=got, expected="options by name", hint=hint)
        clf = self.follow()
        out = copy.copy(clf) if template else clf
        if template:
            from transformers.utils import get_json_schema

            tools = [get_json_schema(one) if callable(one) else one for one in template.get("tools") or ()]
            out.template = {**template, "tools": tools} if tools else template
        if clf.similarity is not None and clf._whole is None:
            several = isinstance(target, Iterable) and not isinstance(target, (str, Mapping))
            named = list(target) if several else [target]
            texts = [one for one in (*named, contrast) if isinstance(one, str)]
            if not named or not all(isinstance(one, str) for one in named):
                got = f"an encoder and target {shown(target)}"
                hint = 'target="the other text", or one for each; elsewhere clf.similar_to(texts)'
                expected = "a text to compare with as the target"
                raise InputError("attribute", got=got, expected=expected, hint=hint)
            out = out.similar_to(list(dict.fromkeys(texts)), truncate=truncate)
        if compare is not None and choose("attribute", "compare", compare, COMPARE) != clf.compare:
            out = copy.copy(out)
            out.compare, out.compared, out._whole = compare, clf.compared.copy(), None
        return out

    def padded(self, texts: Sequence[EncodedText]) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """What `Encoder.forward` takes for texts, padded to one length, or for images: ids (B, T) or patches
        (B, T, P), the mask (B, T), and by name token types and places that are read.
        """
        if images := [text for text in texts if isinstance(text, EncodedImage)]:
            rows = np.stack([image.patches for image in images])
            ids = torch.as_tensor(rows, dtype=self.dtype, device=self.device)
            return ids, torch.ones(ids.shape[:2], dtype=torch.long, device=self.device), {}
        ids, mask = pad([text.input_ids for text in texts], self.pad_id, self.device)
        return ids, mask, beside_ids(texts, self.device)

    @torch.no_grad()
    def vocabulary(self, texts: Sequence[EncodedText]) -> tuple[list[EncodedText], Tensor | None]:
        """The texts with ids of one vocabulary, and its embeddings (V, E) where it is no tokenizer's.

        The patches of the images at hand are such a vocabulary: their ids count through all images.
        """
        if not self.reads_images:
            return list(texts), None
        distinct = {id(text): text for text in texts}
        tables = [self.encoder.embed(self.padded([text])[0])[0] for text in distinct.values()]
        starts = np.cumsum([0, *map(len, tables)]).tolist()
        numbered = {
            key: dataclasses.replace(text, input_ids=tuple(range(start, start + len(text))))
            for (key, text), start in zip(distinct.items(), starts, strict=False)
        }
        return [numbered[id(text)] for text in texts], torch.cat(tables)

    def _at(self, texts: list[EncodedText], position: Any) -> list[EncodedText]:
        """The texts with the token that is explained: one for all, or one for each."""
        if self.encoder.wiring.task not in (TOKEN_CLASSES, NEXT_TOKEN):
            expected = "a position only for a model of token classes or of the next token"
            raise InputError("encode", got=f"position {position}", expected=expected, hint="leave it out")
        position = position.tolist() if hasattr(position, "tolist") else position
        places = position if isinstance(position, (list, tuple)) else [position] * len(texts)
        pairs = zip(texts, places, strict=True)
        return [dataclasses.replace(text, read=self._place(text, place)) for text, place in pairs]

    def _place(self, text: EncodedText, position: Any) -> int:
        """The index of a token, given as such or as the word that begins there."""
        if is_whole(position) and 0 <= int(position) < len(text):
            return int(position)
        joined, first = text.joined, dict[int, int]()
        starts = {start for start, end in word_spans(joined) if joined[start:end] == position}
        for k, (start, end) in enumerate(text.offsets):
            start += len(joined[start:end]) - len(joined[start:end].lstrip())
            if start in starts and start < end and text.tokens[k].strip(SPACES):
                first.setdefault(start, k)  # further parts of a letter have its place
        named = list(first.values())
        if len(named) == 1:
            return named[0]
        got = f"position {shown(position)}{f', a word at each of {named}' if named else ''}"
        expected = f"the token that is read, from 0 to {len(text) - 1}, or one word of the text"
        raise InputError("encode", got=got, expected=expected, hint="attribute(clf, text, position=2, ...)")

    def class_of(self, target: Any) -> Any:
        """A class by its text: for a language model the token that the tokenizer makes of it; else the target
        itself.
        """
        if not (self.encoder.wiring.of_vocabulary and isinstance(target, str)):
            return target
        ids = tokenised(self.tokenizer, [target], bare=True).ids
        if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id:
            return int(ids[0])
        tokens = shown(token_texts(self.tokenizer, ids))
        got, expected = f"target {shown(target)} of {len(ids)} tokens, {tokens}", "the text of one token"
        hint = "name its first token, or pass the number of a token"
        raise InputError("attribute", got=got, expected=expected, hint=hint)

    def narrowed(self, classes: Sequence[int]) -> Classifier:
        """The same classifier with only these classes, in this order."""
        chosen, ((last, activation),) = list(classes), self.encoder.wiring.head[-1:]
        assert not isinstance(last, (nn.LayerNorm, RootMeanSquare))  # a head ends with its map to the classes
        end = ((LinearRows(last, tuple(chosen)), activation),)
        return self._ending(end, [self.labels[k] for k in chosen], lambda logits: logits[..., chosen])

    def _ending(self, end: Steps, labels: Sequence[str], of: Callable[[Tensor], Tensor]) -> Classifier:
        """The same classifier with other last steps of its head, which are `of` the logits before."""
        out, wiring, before = copy.copy(self), self.encoder.wiring, self.chosen_of
        out.encoder = copy.copy(self.encoder)
        out.encoder.wiring = dataclasses.replace(wiring, head=(*wiring.head[:-1], *end))
        out.labels, out._whole = tuple(labels), self.whole
        out.card = dataclasses.replace(self.card, labels=out.labels)
        out.chosen_of = lambda logits: of(before(logits))
        return out

    @torch.no_grad()
    def similar_to(self, texts: Sequence[str], *, truncate: bool = False) -> Classifier:
        """A sentence encoder as a classifier: its classes are these texts, its logits similarities to them.

        `s_c = <e(x), e_c>` (dot) or `<e(x) / |e(x)|, e_c / |e_c|>` (cosine), as the encoder's
        `similarity_fn_name` says. All e_c are constants, and in LRP `|e(x)|`, as what a norm divides by.

        Raises
        ------
        InputError : a classifier that is no encoder.

        >>> clf = load_classifier("all-MiniLM-L6-v2").similar_to(["Someone eats."])  # doctest: +SKIP
        """
        whole, cosine = self.whole, self.similarity == "cosine"
        if self.similarity is None:
            got, hint = f"{self.card.name!r}, which is none", "load a folder of sentence-transformers"
            raise InputError("similar_to", got=got, expected="a sentence encoder", hint=hint)

        def scaled(x: Tensor) -> Tensor:
            return normalize(x, dim=-1) if cosine else x

        network: Any = whole.network
        last, encoded = nn.Linear(1, 1, bias=False), whole.encode(list(texts), truncate=truncate)
        with as_recorded(self.device, network):
            each = [whole.tape(text).logits for text in encoded]
            last.weight = nn.Parameter(scaled(torch.cat(each)), requires_grad=False)
        unit = ((UnitLength(last, 0.0), None),) if cosine and not network.normalised else ()
        return whole._ending((*unit, (last, None)), texts, lambda logits: scaled(logits) @ last.weight.T)

    def tape(self, text: EncodedText, **inputs: Any) -> Tape:
        """One forward pass of one text, kept; `inputs` as of `Encoder.forward`."""
        ids, mask, further = self.batch([text])
        return self.encoder.forward(ids, mask, **further, **inputs)

    @torch.no_grad()
    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        types: Tensor | None = None,
        place: Tensor | None = None,
    ) -> Tensor:
        """The logits (B, C) of the `transformers` model for ids, mask and token types (B, T), read at `place`
        (B,) if the model reads a place; if it reads images, `input_ids` are patches (B, T, P).
        """
        patches = self.encoder.wiring.patches
        if patches is not None:
            return self.run_network(attention_mask, pixel_values=patches.joined(input_ids))
        extra, (many, tokens) = {"input_ids": input_ids}, input_ids.shape
        if self.encoder.wiring.first_position:
            # Left to itself, RoBERTa skips a position where a token is replaced by padding.
            extra["position_ids"] = self.encoder.position_ids(tokens, self.device).expand(many, tokens)
        if types is not None and self.encoder.wiring.types > 1:
            extra["token_type_ids"] = types.expand(many, tokens)
        return self.run_network(attention_mask, place=place, **extra)

    def logits_of_words(
        self, word: Tensor, mask: Tensor, *, types: Tensor | None = None, place: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C) for word embeddings (B, T, E), with gradients: of the `transformers` model, or where
        that takes no embeddings of patches, of the tape.
        """
        if self.reads_images:
            return self.encoder.forward(word[..., 0], mask, word=word).logits
        extra = {} if types is None else {"token_type_ids": types}
        # a clone, as FlopCounterMode takes no leaf as the input of a module
        return self.run_network(mask, place=place, inputs_embeds=word.clone(), **extra)

    def run_network(self, attention_mask: Tensor, *, place: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """The logits (B, C) of the `transformers` model for its inputs: ids or embeddings, positions, types.

        A causal network finds the token to read by the id of padding; here it is the last token of the mask.
        """
        base = self.encoder.wiring.base
        fresh_rotations(self.network)
        if base is None:
            logits = logits_of_output(self.network(attention_mask=attention_mask, **inputs))
            if self.encoder.wiring.readout == "place":
                logits = Readout.of("place", logits[..., 0], logits.dtype, place=place).read(logits)
            return self.chosen_of(logits.to(self.device))
        hidden = base(attention_mask=attention_mask, use_cache=False, **inputs).last_hidden_state
        attended = attention_mask if attention_mask.ndim == 2 else hidden.new_ones(hidden.shape[:2])
        x = Readout.of(self.encoder.wiring.readout, attended, hidden.dtype, place=place).read(hidden)
        return self.encoder.wiring.logits_of(x).to(self.device)


@as_recorded(torch.device("cpu"))  # weights that are made in inference mode can have no gradient
def load_classifier(
    model: str | os.PathLike | nn.Module = "companion",
    tokenizer: Any = None,
    *,
    device: str = "cpu",
    device_map: Any = None,
    dtype: str | torch.dtype = "float32",
    revision: str | None = None,
    recompute: bool = False,
    compare: str = "new",
) -> Classifier:
    """Load a model of a supported family (`families`) to explain: a classifier of texts, tokens or
    images, or a model that predicts the next or a masked token.

    Code from a folder or a hub repository is never run: a model that needs it is refused. The logits are
    compared with those of the network itself, here on trial texts and later on every text that is unlike any
    compared before, so a network that computes something other than its family is also refused.

    Parameters
    ----------
    model : an embedded model ("companion"), the base-size classifier ("base", whose base model
        `lrp-companion sources --fetch-base` fetches once), a folder in the hub's on-disk format, of
        sentence-transformers or of a PEFT adapter (which is merged), a hub id, a network of `transformers` or
        `peft` in memory, which is copied, or an object that holds it with its tokenizer: a
        `SentenceTransformer`, `SetFitModel`, `CrossEncoder` or pipeline.
    tokenizer : the tokenizer of a network in memory, or one in place of that of a folder; if the network
        reads images, its image processor or None.
    device : "cpu", "cuda", "cuda:1", ...
    device_map : instead of a device, for what is not in memory: as `transformers` takes it (with accelerate).
        Each layer has to lie whole on one device, and all weights in memory.
    dtype : "float32", "float64", "bfloat16" or "float16", or PyTorch's dtypes; weights are converted.
    revision : branch, tag or commit, only for a hub id.
    recompute : keep the tape of one layer at a time, for long texts and large models; every layer that is
        walked runs once more. Up to rounding, scores are the same.
    compare : "all" compares the logits of every text, not only of texts of a new kind or length.

    Raises
    ------
    InputError, SourceError : another dtype; a name that is no embedded model, no folder and no hub id.
    ModelError : another family or task; weights that the network lacks or does not take; no tokenizer; logits
        that are not finite, or not those of the network itself.
    Exception : what `transformers`, `peft`, `gguf` and `torch` raise where they cannot read or run the model.

    >>> load_classifier("companion").card.layers
    12
    """
    dtype = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype
    weights_dtype: torch.dtype = getattr(torch, choose("load_classifier", "dtype", dtype, DTYPES))
    choose("load_classifier", "compare", compare, COMPARE)
    place = torch.device(device)
    model, tokenizer = opened(model, tokenizer)
    files = files_of(model, revision, device_map=device_map)
    with quietly():
        network, tokenizer = read(files, tokenizer)
    check_hooks("load_classifier", network)
    fingerprint = fingerprint_of(network)  # before the weights are converted
    network.eval().requires_grad_(False)
    network.config.return_dict = True
    if device_map is None:
        network.to(device=place)
    half = weights_dtype.itemsize < 4 and device_map is None
    _convert(network, torch.float32 if half else weights_dtype)
    wiring = Encoder(network).wiring
    if any(layer.cap is not None for layer in wiring.layers):
        network.set_attn_implementation("eager")  # others leave the cap out, depending on the version
    card = card_of(files, wiring, tokenizer, dtype=dtype, fingerprint=fingerprint)
    tried = Classifier(network, tokenizer, card=card)
    with as_recorded(tried.device):
        check_forward(tried)
    _convert(network, weights_dtype)
    clf = Classifier(network, tokenizer, card=card, recompute=recompute)
    clf.compare, clf.compared = compare, tried.compared
    if weights_dtype == torch.bfloat16 and clf.device.type == "cpu":
        warn_of_slow_products()
    return clf


def _convert(network: nn.Module, dtype: torch.dtype) -> None:
    """Convert weights; in half precision float32 buffers that are no weights, such as the frequencies of
    rotations, stay as `transformers` keeps them.
    """
    own = [(module, name) for module in network.modules() for name in module._non_persistent_buffers_set]
    kept = [(module, name, module._buffers[name]) for module, name in own if dtype.itemsize < 4]
    network.to(dtype=dtype)
    for module, name, value in kept:
        if value is not None and value.dtype == torch.float32:
            module._buffers[name] = value
