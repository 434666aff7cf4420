"""Is the explained logit the network's own? The package's logits against those of `network(**inputs)`.

The network is called as its user would call it: it masks, positions and reads by itself. Compared are the
logits of the tape, which LRP walks, and those of `packed_logits`, which removals use.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from lrp_companion.checks import ModelError, shown
from lrp_companion.families.tasks import NEXT_TOKEN, logits_of_output
from lrp_companion.families.wiring import fresh_rotations
from lrp_companion.loading.images import ImageReader
from lrp_companion.loading.texts import EncodedText
from lrp_companion.tape.encoder import as_recorded
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


@cache
def warn_of_slow_products() -> None:
    """Say once if this CPU has no instructions for bfloat16, so that its products are slow (measured)."""
    known = getattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})()
    if not any(has for name, has in known.items() if name.endswith("bf16")):
        text = "this CPU has no instructions for bfloat16: float32 is about seven times as fast here"
        warn(text, stacklevel=3)


if TYPE_CHECKING:
    from lrp_companion.loading.classifier import Classifier

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


def check_same(clf: Classifier, text: Any, named: str, *, operation: str = "attribute") -> None:
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
        clf.check_logits([text], "a trial input", operation="load_classifier")


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
        rest = ("",) * n, np.zeros(n, dtype=bool), (0,) * n
        texts.append(EncodedText("", chosen, *rest, read=read, typed=typed))
    if wiring.types > 1:
        types = tuple(int(k >= count // 2) for k in range(count))
        texts.append(replace(texts[0], pair="", types=types))
    return texts
