"""Is the explained logit the network's own? The package's logits against those of `network(**inputs)`.

The network is called as its user would call it: it masks, positions and reads by itself. Compared are the
logits of the tape, which LRP walks, and those of `packed_logits`, which removals use.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_all_modules

from lrp_companion.checks import ModelError, shown
from lrp_companion.families.tasks import NEXT_TOKEN, logits_of_output
from lrp_companion.families.wiring import fresh_rotations
from lrp_companion.loading.images import EncodedImage, ImageReader
from lrp_companion.loading.texts import EncodedText
from lrp_companion.tape.packed import Row, packed_logits

CLOSE = {torch.float32: 1e-4, torch.float64: 1e-8, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` of logits that are to be the same."""
NEAR = {torch.float32: 1e-3, torch.float64: 1e-5, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` where more is computed twice: an adapter's weights, texts without some tokens, the relevance
of a level. A network may work in float32 in places, whatever its weights are.
"""


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of two arrays, as a fraction of 1 + the largest size in the second one."""
    return float(np.abs(ours - theirs).max() / (1 + np.abs(theirs).max()))


@contextmanager
def usual_device() -> Iterator[None]:
    """Make tensors on the processor unless code says where, whatever default device the caller has set: new
    tensors on "meta" hold no numbers, and generators do not follow them to a GPU.
    """
    if torch.get_default_device().type == "cpu":  # each call of PyTorch takes longer in a context
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def as_recorded(device: torch.device, network: nn.Module | None = None) -> Iterator[None]:
    """Compute in the numbers' type and without randomness, whatever the caller has switched on.

    Autocast would change scores by several percent, inference mode forbids gradients, and a network in
    training mode drops units at random. These settings are restored afterwards, and the default device.
    """
    training = [] if network is None else [module for module in network.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with usual_device(), torch.inference_mode(False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        for module in training:
            module.training = True


@cache
def warn_of_slow_products() -> None:
    """Say once if this CPU has no instructions for bfloat16, so that its products are slow (measured)."""
    known = getattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})()
    if not any(has for name, has in known.items() if name.endswith("bf16")):
        text = "this CPU has no instructions for bfloat16: float32 is about seven times as fast here"
        warn(text, stacklevel=3)


if TYPE_CHECKING:
    from lrp_companion.loading.classifier import Classifier

COMPARE = ("new", "all")
"""Which texts are compared: those unlike any compared before, or every one."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module keeps what its call runs besides its forward."""
COLLECTS = "transformers.utils.output_capturing"
"""Where the hooks are that the first call with `output_hidden_states` or `output_attentions` leaves."""
KNOWN = {"torch", "transformers", "lrp_companion"}
"""Packages of modules that decide nothing by the numbers that they get."""
TRIED = 8
"""Tokens of the shorter text that is compared when a model is loaded."""
TRIED_AT_MOST = 1_024
"""Tokens of the longer one, which is to pass any window; what is longer is compared when it comes."""


def tolerance(clf: Classifier) -> float:
    """The largest allowed difference of logits as a fraction of 1 + the largest logit; as in float32 where
    the network works in float32 in places.
    """
    single = clf.encoder.wiring.single_precision and clf.dtype == torch.float64
    return CLOSE[torch.float32 if single else clf.dtype]


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


def _adds_types(clf: Classifier, text: Any) -> bool:
    """Whether a network without a table of token types may add other vectors for those that it is given."""
    takes = inspect.signature(clf.network.forward).parameters
    return getattr(text, "typed", False) and clf.encoder.wiring.types == 1 and "token_type_ids" in takes


@torch.no_grad()
def own_logits(clf: Classifier, text: Any) -> Tensor:
    """The logits (C,) that the network itself gives for pixels, or for what the tokenizer returns."""
    network, wiring = clf.network, clf.encoder.wiring
    ids, mask, _ = clf.padded([text])
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if wiring.patches is not None:
        inputs = {"pixel_values": wiring.patches.joined(ids)}
    elif wiring.types > 1 or _adds_types(clf, text):
        inputs["token_type_ids"] = torch.tensor([text.types], device=ids.device)
    takes = inspect.signature(network.forward).parameters
    if wiring.task == NEXT_TOKEN and "logits_to_keep" in takes and text.read is None:
        inputs["logits_to_keep"] = 1  # as generation does: the others would be large
    fresh_rotations(network)
    with as_recorded(clf.device, clf.network):
        logits = logits_of_output(network(**inputs))[0]
    if logits.ndim == 2:  # one row for each token
        logits = logits[-1 if text.read is None else text.read]
    return clf.chosen_of(logits.to(clf.device))


@torch.no_grad()
def our_logits(clf: Classifier, text: Any) -> dict[str, Tensor]:
    """The package's logits (C,) of a text or an image: those of the tape, and those of removals."""
    wiring = clf.encoder.wiring
    (numbered,), words = clf.vocabulary([text])
    ids, places = np.asarray(numbered.input_ids), np.arange(len(text))
    row = Row(ids, places, types=np.asarray(numbered.types), read=(row_read(clf, text),))
    given, mask, further = clf.padded([text])
    with as_recorded(clf.device, clf.network):
        return {
            "the tape": clf.encoder.forward(given, mask, **further).logits[0],
            "removals": packed_logits(wiring, [row], words=words, device=clf.device)[0],
        }


def row_read(clf: Classifier, text: Any) -> int:
    """The place that is read of a whole text; 0 where the readout needs none."""
    if text.read is not None:
        return int(text.read)
    return len(text) - 1 if clf.encoder.wiring.readout == "last" else 0


def compare(clf: Classifier, texts: Sequence[Any]) -> None:
    """Compare the logits of texts with the network's, of all if the classifier says so or a module is of
    somebody else's class, else of those that are new: longer than any compared before, or of another kind
    (pair, cut, ids, other dtype).
    """
    clf = clf.whole.follow()
    config: Any = clf.network.config
    # a network that counts positions by ids, as RoBERTa does, may leave out some of a text
    skipped = config.pad_token_id if clf.encoder.wiring.first_position > 0 else None
    always = clf.compare == "all" or clf.identity.foreign
    by_kind: dict[Any, Any] = {}
    for text in texts:
        kind = _kind(clf, text)
        key = (*kind, text.key, text.read) if always or skipped in text.input_ids else kind
        if len(text) > max(clf.compared.get(key, 0), len(by_kind.get(key, ()))):
            by_kind[key] = text
    for key, text in by_kind.items():
        named = f"an {'image' if isinstance(text, EncodedImage) else 'input'} of {len(text)} tokens"
        _check_same(clf, text, named if not text.text else f"{named}, {shown(text.text[:60])}")
        clf.compared[key] = len(text)


def _kind(clf: Classifier, text: Any) -> tuple[Any, ...]:
    if isinstance(text, EncodedImage):
        return "image", clf.dtype
    kind = text.pair is not None, text.cut, text.bare, text.read is None
    return *kind, text.typed, any(text.types), clf.dtype


def _check_same(clf: Classifier, text: Any, named: str, *, operation: str = "attribute") -> None:
    """Refuse a text whose logits are not the network's own."""
    theirs = own_logits(clf, text).detach().double().cpu()
    for where, logits in our_logits(clf, text).items():
        ours = logits.detach().double().cpu()
        if not (theirs.isfinite().all() and ours.isfinite().all()):
            got = f"{named}, with logits of {clf.card.name!r} that are not finite"
            hint = 'try dtype="float64", or another checkpoint'
            raise ModelError(operation, got=got, expected="finite logits", hint=hint)
        gaps, most = (ours - theirs).abs(), tolerance(clf) * (1 + float(theirs.abs().max()))
        if float(gaps.max()) <= most:
            continue
        k = int(gaps.argmax())
        there, here = f"{float(theirs[k]):.4g} by the network {clf.card.name!r}", f"{float(ours[k]):.4g}"
        got = f"{named}, whose logit of {shown(clf.labels[k][:40])} is {there} and {here} by {where}"
        hint = "check config.json (such as is_decoder), or register the wiring of your network with family()"
        if clf.changed is not None:
            hint = f"undo what was changed in {clf.changed or 'the network'} since it was loaded"
        if _adds_types(clf, text):
            hint = 'leave out token types: "model_input_names": ["input_ids", "attention_mask"] in '
            hint += "tokenizer_config.json, or tokenizer.model_input_names = [...]"
        raise ModelError(operation, got=got, expected=f"logits at most {most:.1g} apart", hint=hint)


@torch.no_grad()
def check_forward(clf: Classifier) -> None:
    """Compare the logits of a model that is being loaded, on texts that reach its branches: a short one, one
    longer than any window, and a pair; or on two noisy images.
    """
    for text in _trials(clf):
        _check_same(clf, text, "a trial input", operation="load_classifier")
        clf.compared[_kind(clf, text)] = len(text)


def _trials(clf: Classifier) -> list[Any]:
    """Texts of token ids that are not special, spread over the vocabulary to its last one."""
    wiring = clf.encoder.wiring
    if wiring.patches is not None:
        draw = torch.Generator().manual_seed(0)
        pixels = torch.randn(2, wiring.patches.channels, *wiring.patches.size, generator=draw)
        return [*ImageReader(wiring.patches, None).encode(pixels)]
    count = min(TRIED, clf.max_tokens)
    windows = [layer.window + 2 for layer in wiring.layers if layer.window is not None]
    beyond = max([count, *windows, (wiring.rotary_from or 0) + 1])
    known = clf.reader.vocabulary or len(clf.tokenizer)
    ids = sorted(
        {k for k in clf.tokenizer.get_vocab().values() if k < known} - {*clf.tokenizer.all_special_ids}
    )
    typed = "token_type_ids" in getattr(clf.tokenizer, "model_input_names", ())
    read = 0 if wiring.readout == "place" else None
    texts = []
    for n in (count, min(beyond, clf.max_tokens, TRIED_AT_MOST)):
        chosen = tuple(ids[k * (len(ids) - 1) // max(1, n - 1)] for k in range(n))
        texts.append(EncodedText("", chosen, ("",) * n, np.zeros(n, dtype=bool), read=read, typed=typed))
    if wiring.types > 1:
        types = tuple(int(k >= count // 2) for k in range(count))
        texts.append(replace(texts[0], pair="", types=types))
    return texts
