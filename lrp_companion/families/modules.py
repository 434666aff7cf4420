"""Checks that each module of a network computes what its wiring reads; networks in memory, copied."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune, remove_spectral_norm, remove_weight_norm

from lrp_companion.checks import CompanionError, ModelError, reason_of
from lrp_companion.families.wiring import (
    LinearPart,
    LinearRows,
    MeanOfTwo,
    RootMeanSquare,
    Unchanged,
    Wiring,
    of_rows_and_columns,
)
from lrp_companion.tape.steps import NormStep, slope_at_zero

NEAR = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
"""Largest difference of what a module computes from what is read of it, as a part of its largest terms."""
OFTEN = "replace it by modules of torch.nn, or register the wiring of your network with family()"
ELSE = "computes something else than the wiring reads from it"
WAY_OUT = "merge what it adds into its weights, or register a wiring of your own with family()"


def refused(got: str, *, expected: str, hint: str = OFTEN) -> ModelError:
    """One line on what a network is made of."""
    return ModelError("load_classifier", got=got[:240], expected=expected, hint=hint)


def numbers(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Random numbers of a tensor's type, on its device; the last of each row of vectors is large."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x[..., -1, :] *= 6
    return x.to(like.device, like.dtype if like.dtype.is_floating_point else torch.float32)


def near(y: Tensor, z: Tensor, scale: Any) -> bool:
    """Whether numbers agree up to rounding, as a part of `scale`."""
    most = max(NEAR.get(kind, 1e-5) for kind in (y.dtype, z.dtype))
    return bool(((y.double() - z.double()).abs() <= most * (scale + 1e-30)).all())


def is_elementwise(activation: Callable[[Tensor], Tensor]) -> bool:
    """Whether a function treats every number separately, leaves its input as it is, and has a slope at 0.

    >>> is_elementwise(torch.tanh), is_elementwise(nn.Softmax(dim=-1)), is_elementwise(nn.GLU())
    (True, False, False)
    """
    held = next(activation.parameters(), None) if isinstance(activation, nn.Module) else None
    if held is not None and held.is_meta:
        return True
    z = numbers((2, 3, 4), torch.zeros(()) if held is None else held)
    other, kept = z + 1.25, torch.arange(z.numel(), device=z.device).reshape(z.shape) % 3 > 0
    try:
        with torch.no_grad():
            given = z.clone()
            y, one = (activation(x).to(z.device) for x in (given, z.reshape(-1, 1)))
            if y.shape != z.shape or not torch.equal(given, z) or not y.isfinite().all():
                return False
            mixed = activation(torch.where(kept, z, other)).to(z.device)
            flat = near(one.reshape(y.shape), y, 1 + y.abs())
        slope_at_zero(activation)
    except Exception:  # a function of somebody else's
        return False
    return flat and near(torch.where(kept, mixed, y), y, 1 + y.abs())


def _hooked(module: nn.Module) -> bool:
    """Whether calling a module may run more than the forward of its class."""
    from torch.nn.modules import module as of_all

    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
        of_all._global_forward_hooks,
        of_all._global_forward_pre_hooks,
        of_all._global_backward_hooks,
        of_all._global_backward_pre_hooks,
    )
    return any(hooks) or "forward" in vars(module)


def _without_hooks(module: nn.Module) -> None:
    """Remove hooks that change nothing: they may expect the inputs of the network's own order."""
    for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks):
        hooks.clear()
    module._backward_pre_hooks.clear()


def _plain(module: Any, kind: type) -> bool:
    """Whether a module is exactly one of torch with weights in the usual form."""
    if kind not in (type(module),) or module.weight is None or _hooked(module):
        return False
    held = (module.weight, getattr(module, "bias", None))
    return all(type(one) in (Tensor, nn.Parameter) for one in held if one is not None)


class _Checked:
    """The check of one network: each module once, by its path."""

    def __init__(self, name: str, network: nn.Module) -> None:
        self.name, self.done = name, set[tuple[int, str]]()
        self.paths = {id(module): path for path, module in network.named_modules()}

    def refuse(self, module: Any, expected: str, *, does: str = ELSE, hint: str | None = None) -> ModelError:
        """One line on a module that computes something else."""
        path = self.paths.get(id(module), "")
        got = f"{self.name!r}, whose module {path or 'of the wiring'} ({type(module).__name__}) {does}"
        hooked = isinstance(module, nn.Module) and _hooked(module)
        says = "remove its hooks and the forward set on it, then load it again" if hooked else WAY_OUT
        return refused(got, expected=expected, hint=hint or says)

    def first_time(self, module: Any, what: str = "") -> bool:
        seen = (id(module), what) in self.done
        self.done.add((id(module), what))
        return not seen

    def map(self, part: Any, *, alone: bool) -> None:
        """A linear map: `alone` where the network gives it one vector of a text."""
        if part is None or isinstance(part, Unchanged):
            return
        if isinstance(part, LinearRows):
            return self.map(part.map, alone=alone)
        if isinstance(part, MeanOfTwo):
            self.map(part.first, alone=alone)
            return self.map(part.second, alone=alone)
        module = part.module if isinstance(part, LinearPart) else part
        transposed = isinstance(part, LinearPart) and part.transposed
        if not self.first_time(module):
            return None
        expected = "x W + b, what its weights say"
        if not isinstance(module, nn.Module) or not of_rows_and_columns(module):
            raise self.refuse(module, "a map with a matrix of numbers as weight", does="is no linear map")
        if _plain(module, nn.Linear) and not transposed:
            return None
        whole = LinearPart(module, transposed=transposed)
        if whole.weight.is_meta:
            return None  # refused elsewhere: its numbers are not at hand
        self.compare(module, whole, whole.weight, expected, alone=alone)
        return None

    def norm(self, norm: Any, *, alone: bool = False) -> None:
        """A norm, against the step that the tape takes."""
        if norm is None:
            return
        module = norm.module if isinstance(norm, RootMeanSquare) else norm
        if not self.first_time(module) or _plain(module, nn.LayerNorm):
            return
        weight = getattr(module, "weight", None)
        usual = isinstance(norm, RootMeanSquare) or hasattr(module, "normalized_shape")
        if not usual or not isinstance(weight, Tensor) or weight.ndim != 1:
            raise self.refuse(module, "a LayerNorm or an RMSNorm with weights", does="is none")
        if weight.is_meta:
            return
        expected = "the norm that its weights and its eps say"
        self.compare(module, lambda x: NormStep.run(norm, x).y, weight, expected, alone=alone)

    def compare(
        self, module: Any, read: Callable[[Tensor], Tensor], weight: Tensor, expected: str, *, alone: bool
    ) -> None:
        """A module against what is read of it, values and gradients, on the shape of input that it gets."""
        x = numbers((2, 3, weight.shape[-1]), weight)
        norm = weight.ndim == 1
        error: Exception | None = None
        for given in (x[0], x) if alone else (x, x[0]):
            try:
                with torch.enable_grad():
                    at, ours = given.clone().requires_grad_(), given.clone().requires_grad_()
                    y, z = module(at), read(ours)
                    start = numbers(tuple(z.shape), z)
                    there, here = torch.autograd.grad(y, at, start)[0], torch.autograd.grad(z, ours, start)[0]
            except Exception as caught:
                error = error or caught
                continue
            terms = z.abs().amax() + 1e-6 if norm else given.norm(dim=-1, keepdim=True) * weight.norm(dim=-1)
            backward = here.abs().amax() + start.abs().amax() * weight.abs().amax() / 100
            if norm:  # families work in float32 here, whatever the weights are
                y, z, there, here = y.float(), z.float(), there.float(), here.float()
            if y.shape == z.shape and near(y, z, terms + z.abs()) and near(there, here, backward):
                return _without_hooks(module)
            raise self.refuse(module, expected)
        raise self.refuse(module, expected, does=f"cannot be run on vectors ({reason_of(error, 80)})")

    def activation(self, activation: Any) -> None:
        if activation is None or not self.first_time(activation):
            return
        if not is_elementwise(activation):
            expected = "an activation function of single numbers, with a slope at 0"
            raise self.refuse(activation, expected, does="is none", hint=OFTEN)
        if isinstance(activation, nn.Module) and _hooked(activation):
            held = next(activation.parameters(), torch.zeros(()))
            z = numbers((2, 3, 4), held)
            with torch.enable_grad():
                ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
                pairs = []
                alone = functools.partial(type(activation).forward, activation)
                for run, at in ((activation, ours), (alone, theirs)):
                    y = run(at)
                    pairs.append((y, torch.autograd.grad(y.sum(), at)[0]))
            if not all(near(one, other, 1 + other.abs()) for one, other in zip(*pairs, strict=True)):
                raise self.refuse(activation, "its function alone")
            _without_hooks(activation)

    def table(self, module: Any, what: str) -> None:
        """Embeddings: rows of a matrix, of which a type's are read as they are."""
        if module is None:
            return
        weight = getattr(module, "weight", None)
        if not isinstance(weight, Tensor) or weight.ndim != 2 or not weight.is_floating_point():
            raise self.refuse(module, f"a table of {what} embeddings", does="is none")
        if not hasattr(module, "num_embeddings"):
            raise self.refuse(module, f"a table of {what} embeddings, such as nn.Embedding", does="is none")
        if what == "type" and not weight.is_meta and not _plain(module, nn.Embedding):
            rows = torch.arange(min(3, len(weight)), device=weight.device)
            if not near(module(rows), weight[rows], 1 + weight[rows].abs()):
                raise self.refuse(module, "the rows of its weight")

    def patches(self, words: Any) -> None:
        """A convolution whose stride is its width."""
        if words.weight.is_meta:
            return
        pixels = numbers((1, words.channels, *words.size), words.weight)
        expected = "a map of separate patches"
        try:
            with torch.no_grad():
                there = words.projection(pixels).flatten(2).mT
                here = words(words.cut(pixels))[:, len(words.special) :]
        except Exception as error:
            reason = reason_of(error, 80)
            raise self.refuse(words.projection, expected, does=f"cannot be run ({reason})") from error
        if there.shape != here.shape or not near(there, here, 1 + here.abs().amax()):
            raise self.refuse(words.projection, expected)


def check_modules(name: str, network: nn.Module, wiring: Wiring) -> None:
    """Refuse a network in which a map, a norm, an activation function or a table computes something else than
    the wiring reads from it.

    Modules that are exactly torch's, without hooks, are not run; every other one is tried on random numbers.
    Hooks on them that change nothing are removed.

    Raises
    ------
    ModelError : such a module, with its path; a head of another number of outputs than the configuration.

    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> from lrp_companion.tape.encoder import Encoder
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10}
    >>> model = BertForSequenceClassification(BertConfig(**sizes)).eval()
    >>> check_modules("mine", model, Encoder(model).wiring)
    """
    check = _Checked(name, network)
    if not wiring.layers:
        raise refused(f"{name!r} without a layer", expected="a layer or more", hint="load the whole network")
    if wiring.patches is not None:
        check.patches(wiring.patches)
    else:
        check.table(wiring.word, "word")
        check.table(wiring.position, "position")
        check.table(wiring.type, "type")
        check.table(wiring.score_bias and wiring.score_bias.table, "score")
    for norm in (wiring.embedding_norm, wiring.final_norm):
        check.norm(norm)
    check.map(wiring.projection, alone=False)
    for layer in wiring.layers:
        attention = layer.query, layer.key, layer.value, layer.attention_out
        for part in (*attention, layer.up, layer.down, layer.gate):
            check.map(part, alone=False)
        for norm in (
            layer.attention_norm,
            layer.output_norm,
            layer.attention_input_norm,
            layer.mlp_input_norm,
            layer.attention_branch_norm,
            layer.mlp_branch_norm,
            layer.query_norm,
            layer.key_norm,
        ):
            check.norm(norm)
        check.activation(layer.activation)
    alone = wiring.readout != "place" and wiring.base is None
    for module, activation in wiring.head:
        if isinstance(module, (nn.LayerNorm, RootMeanSquare)):
            check.norm(module, alone=alone)
        else:
            check.map(module, alone=alone)
        check.activation(activation)
    _check_outputs(name, network, wiring)


def _check_outputs(name: str, network: Any, wiring: Wiring) -> None:
    """Refuse a head whose outputs are not the labels of the configuration."""
    config = getattr(network, "config", None)
    labels = getattr(config, "num_labels", None)
    outputs = wiring.head[-1][0].out_features if hasattr(wiring.head[-1][0], "out_features") else labels
    if not wiring.of_vocabulary and labels is not None and outputs != labels:
        got = f"{name!r}, whose head has {outputs} outputs and whose configuration {labels} labels"
        hint = f"set num_labels = {outputs} (and id2label) in its configuration"
        raise ModelError("load_classifier", got=got, expected="a label for each output", hint=hint)


# -- networks in memory --------------------------------------------------------------------------------------


def copied(network: nn.Module) -> nn.Module:
    """A copy of a network whose weights are numbers, also where a hook computes them (pruning, weight norm).

    Raises
    ------
    ModelError : a network that holds what cannot be copied.
    """
    made = {
        id(value): value.detach().clone()  # what a hook has computed; only leaves can be copied
        for module in network.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        return copy.deepcopy(network, made)
    except Exception as error:  # a hook may hold anything
        got = f"a network of type {type(network).__name__} that cannot be copied ({reason_of(error, 120)})"
        hint = "remove its hooks, or save it and name its folder"
        raise refused(got, expected="a network that copy.deepcopy copies", hint=hint) from error


def settle(network: Any) -> None:
    """Leave out of a network what changes how it computes and not what: chunks, in-place activations, pruning
    and weight norm as hooks, outputs as tuples.
    """
    network.eval()
    if getattr(network.config, "return_dict", True) is not True:
        network.config.return_dict = True
    for module in network.modules():
        if getattr(module, "chunk_size_feed_forward", 0):
            module.chunk_size_feed_forward = 0
        if getattr(module, "inplace", False) is True:
            module.inplace = False
        for hook in list(module._forward_pre_hooks.values()):
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)
            elif type(hook).__module__ == "torch.nn.utils.weight_norm":
                remove_weight_norm(module, hook.name)
            elif type(hook).__module__ == "torch.nn.utils.spectral_norm":
                remove_spectral_norm(module, hook.name)


@contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """An error that a network raises where it is tried becomes one line.

    Raises
    ------
    ModelError : any error that is not the package's own.
    """
    try:
        yield
    except CompanionError:
        raise
    except Exception as error:
        got = f"{name!r}, which cannot be run ({reason_of(error, 160)})"
        hint = "run it on a text yourself; the modules in it may not fit together"
        raise refused(got, expected="a network that computes logits", hint=hint) from error
