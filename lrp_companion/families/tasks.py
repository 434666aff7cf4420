"""What a model predicts, from the name of its class; the steps of its head; and what a comparison of logits
does not find in a network: an activation function that reads several numbers, other outputs than the labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion.checks import ModelError
from lrp_companion.families.wiring import LinearMap, Norm, Wiring, norm_of

CLASSES, NEXT_TOKEN, MASKED_TOKEN, TOKEN_CLASSES = "classes", "next token", "masked token", "token classes"
IMAGE_CLASSES, ANSWER = "classes of an image", "an answer's start and end"
ENDS = ("start", "end")
"""What a token of an answer can be, as labels."""
TASKS = {
    "ForSequenceClassification": CLASSES,
    "ForCausalLM": NEXT_TOKEN,
    "ForConditionalGeneration": NEXT_TOKEN,
    "LMHeadModel": NEXT_TOKEN,
    "ForMaskedLM": MASKED_TOKEN,
    "ForTokenClassification": TOKEN_CLASSES,
    "ForQuestionAnswering": ANSWER,
    "ForImageClassification": IMAGE_CLASSES,
    "SentenceEncoder": CLASSES,
    "ForImageClassificationWithTeacher": IMAGE_CLASSES,
}
"""Tasks by the endings of class names; people read these names, too."""
Steps = tuple
"""Of a head: linear maps with their activation functions, and norms."""


def task_of(names: Iterable[str] | None) -> str | None:
    """The task of a model by the names of its class and of what it derives from; None: none of `TASKS`.

    >>> task_of(["LlamaForCausalLM"]), task_of(["BertForSequenceClassification"]), task_of(["BertModel"])
    ('next token', 'classes', None)
    """
    for name in names or []:
        for ending, task in TASKS.items():
            if name.endswith(ending):
                return task
    return None


def task_of_network(model: Any) -> str:
    """The task of a network in memory; one of another name counts as a classifier."""
    return task_of(kind.__name__ for kind in type(model).__mro__) or CLASSES


def with_head(
    wiring: Callable[[Steps], Wiring],
    model: Any,
    *,
    classes: Callable[[], Steps],
    masked: Callable[[], Steps] | None = None,
    tokens: Callable[[], Steps] | None = None,
    answer: Callable[[], Steps] | None = None,
) -> Wiring:
    """The wiring of a model with the head of its task; of these functions only the right one runs.

    A masked token and the classes of a token, such as whether an answer starts there, are read at a place of
    the text.
    """
    if hasattr(model, "pooling"):  # of `families.sentences`
        out = dataclasses.replace(wiring(model.steps), readout=model.pooling)
        if out.masks_whole and model.pooling != "first":
            raise AttributeError("a pooling of tokens that a mask closes whole")
        return out
    task = task_of_network(model)
    heads = {
        CLASSES: classes,
        MASKED_TOKEN: masked,
        TOKEN_CLASSES: tokens or (lambda: head_steps(model.classifier)),
        ANSWER: answer or (lambda: head_steps(model.qa_outputs)),
    }
    head = heads.get(task)
    if head is None:
        raise AttributeError(f"no wiring of a {type(model).__name__}")
    out = wiring(head())
    task = TOKEN_CLASSES if task == ANSWER else task
    return out if task == CLASSES else dataclasses.replace(out, readout="place", task=task)


def logits_of_output(output: Any) -> Tensor:
    """The logits of what a network returns; of an answer's start and end one class each, (B, T, 2)."""
    ends = getattr(output, "start_logits", None)
    return output.logits if ends is None else torch.stack([ends, output.end_logits], dim=-1)


def head_steps(*parts: Any) -> Steps:
    """The steps of a head: linear maps, each with its activation function or None, and norms.

    A part is a linear map, an activation function, a norm, or dropout or the identity, which are left out.

    >>> first, last = nn.Linear(4, 3), nn.Linear(3, 2)
    >>> head_steps(first, nn.Dropout(), torch.tanh, last) == ((first, torch.tanh), (last, None))
    True
    """
    steps: list[tuple[Any, Any]] = []
    for part in parts:
        if isinstance(part, (nn.Identity, nn.Dropout)):
            continue
        step = part if isinstance(part, (nn.Linear, LinearMap)) else _norm_of(part)
        if step is not None:
            steps.append((step, None))
        elif steps and steps[-1][1] is None and not isinstance(steps[-1][0], Norm) and _is_function(part):
            steps[-1] = steps[-1][0], part
        else:
            raise AttributeError(f"a {type(part).__name__} in a head")
    if not steps or isinstance(steps[-1][0], Norm):
        raise AttributeError("a head that does not end with a linear map")
    return tuple(steps)


def _norm_of(part: Any) -> Norm | None:
    """A norm, if a part of a head is one."""
    weight = getattr(part, "weight", None)
    of_vectors = isinstance(part, nn.Module) and isinstance(weight, Tensor) and weight.ndim == 1
    return norm_of(part) if of_vectors and not isinstance(part, nn.PReLU) else None


def _is_function(part: Any) -> bool:
    """Whether a part may be an activation function: `check_modules` tries it."""
    return callable(part) and not (isinstance(part, nn.Module) and any(True for _ in part.children()))


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
    """
    outputs = len(wiring.head[-1][0].weight)
    if outputs != labels:
        got, hint = f"{name!r}, whose head has {outputs} outputs", f"set num_labels = {outputs}"
        raise ModelError("load_classifier", got=got, expected=f"one for each of {labels} labels", hint=hint)
    functions = [layer.activation for layer in wiring.layers] + [function for _, function in wiring.head]
    for activation in {id(one): one for one in functions if one is not None}.values():
        if not is_elementwise(activation):
            got = f"{name!r}, whose {type(activation).__name__} is no activation function of single numbers"
            hint = "replace it by modules of torch.nn, or register the wiring of your network with family()"
            expected = "a function that treats every number by itself, and changes no input"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
