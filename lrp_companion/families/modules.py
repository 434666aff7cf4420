"""What a comparison of logits does not find in a network: an activation function through which relevance does
not pass as it is, since it reads several numbers; a head with other outputs than the labels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lrp_companion.checks import CompanionError, ModelError, reason_of
from lrp_companion.families.wiring import Wiring

OFTEN = "replace it by modules of torch.nn, or register the wiring of your network with family()"


def refused(got: str, *, expected: str, hint: str = OFTEN) -> ModelError:
    """One line on what a network is made of."""
    return ModelError("load_classifier", got=got[:240], expected=expected, hint=hint)


@torch.no_grad()
def is_elementwise(activation: Callable[[Tensor], Tensor]) -> bool:
    """Whether a function gives of each number alone what it gives of all, and leaves them as they are.

    >>> is_elementwise(torch.tanh), is_elementwise(nn.Softmax(dim=-1)), is_elementwise(nn.GLU())
    (True, False, False)
    """
    held = next(activation.parameters(), None) if isinstance(activation, nn.Module) else None
    if held is not None and held.is_meta:
        return True
    like = torch.zeros(()) if held is None else held
    z = torch.linspace(-3, 6, 24).reshape(2, 3, 4).to(like.device, like.dtype)
    given = z.clone()
    try:
        y = activation(given)
        unchanged = torch.equal(given, z)
        alone = torch.stack([activation(one.reshape(1, 1, 1)) for one in z.flatten()]).reshape(z.shape)
    except Exception:  # a function of somebody else's
        return False
    return y.shape == z.shape and unchanged and torch.allclose(y, alone, rtol=1e-3, atol=1e-5)


def check_modules(name: str, wiring: Wiring, *, labels: int) -> None:
    """Refuse what a comparison of logits does not find in a network.

    Raises
    ------
    ModelError : no layer; an activation function that reads several numbers, or changes its input; a head of
        another number of outputs than labels.

    >>> from transformers import BertConfig, BertForSequenceClassification
    >>> from lrp_companion.tape.encoder import Encoder
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10}
    >>> model = BertForSequenceClassification(BertConfig(**sizes)).eval()
    >>> check_modules("mine", Encoder(model).wiring, labels=2)
    """
    if not wiring.layers:
        raise refused(f"{name!r} without a layer", expected="a layer or more", hint="load the whole network")
    functions = [layer.activation for layer in wiring.layers] + [function for _, function in wiring.head]
    for activation in {id(one): one for one in functions if one is not None}.values():
        if not is_elementwise(activation):
            got = f"{name!r}, whose {type(activation).__name__} is no activation function of single numbers"
            raise refused(got, expected="a function that treats every number by itself, and changes no input")
    outputs = len(wiring.head[-1][0].weight)  # an adapter may leave out_features of another map
    if outputs != labels:
        got = f"{name!r}, whose head has {outputs} outputs, with {labels} labels"
        hint = f"set num_labels = {outputs} (and id2label) in its configuration, and load it again"
        raise refused(got, expected="a label for each output", hint=hint)


def copied(network: nn.Module) -> nn.Module:
    """A copy of a network.

    Raises
    ------
    ModelError : a network that holds what cannot be copied.
    """
    try:
        return copy.deepcopy(network)
    except Exception as error:  # a hook may hold anything
        got = f"a network of type {type(network).__name__} that cannot be copied ({reason_of(error, 120)})"
        hint = "remove its hooks, or save it and name its folder"
        raise refused(got, expected="a network that copy.deepcopy copies", hint=hint) from error


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
