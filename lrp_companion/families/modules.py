"""What a comparison of logits does not find in a network: an activation function through which relevance does
not pass as it is, since it reads several numbers; a head with other outputs than the labels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lrp_companion.checks import ModelError
from lrp_companion.families.wiring import Wiring


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
    """Refuse an activation function that reads several numbers, or changes its input: the logits would be
    right and the relevance would not; and a head with other outputs than the labels.

    Raises
    ------
    ModelError : one of these.
    """
    outputs = len(wiring.head[-1][0].weight)
    if outputs != labels:
        got, hint = (
            f"{name!r}, whose head has {outputs} outputs",
            f"set num_labels = {outputs} in its configuration",
        )
        raise ModelError("load_classifier", got=got, expected=f"one for each of {labels} labels", hint=hint)
    functions = [layer.activation for layer in wiring.layers] + [function for _, function in wiring.head]
    for activation in {id(one): one for one in functions if one is not None}.values():
        if not is_elementwise(activation):
            got = f"{name!r}, whose {type(activation).__name__} is no activation function of single numbers"
            hint = "replace it by modules of torch.nn, or register the wiring of your network with family()"
            expected = "a function that treats every number by itself, and changes no input"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
