"""What a model predicts, from the name of its class, and the head for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from lrp_companion.models.wiring import Wiring

CLASSES, NEXT_TOKEN, MASKED_TOKEN, TOKEN_CLASSES = "classes", "next token", "masked token", "token classes"
IMAGE_CLASSES = "classes of an image"
TASKS = {
    "ForSequenceClassification": CLASSES, "ForCausalLM": NEXT_TOKEN, "LMHeadModel": NEXT_TOKEN,
    "ForMaskedLM": MASKED_TOKEN, "ForTokenClassification": TOKEN_CLASSES,
    "ForImageClassification": IMAGE_CLASSES, "ForImageClassificationWithTeacher": IMAGE_CLASSES,
}  # fmt: skip
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
) -> Wiring:
    """The wiring of a model with the head of its task; of these functions only the right one runs.

    A masked token and the classes of a token are read at a place of the text.

    Raises
    ------
    AttributeError : a task that the family has no head for, or a head without its modules.
    """
    task = task_of_network(model)
    heads = {
        CLASSES: classes,
        MASKED_TOKEN: masked,
        TOKEN_CLASSES: tokens or (lambda: ((model.classifier, None),)),
    }
    head = heads.get(task)
    if head is None:
        raise AttributeError(f"no wiring of a {type(model).__name__}")
    out = wiring(head())
    return out if task == CLASSES else dataclasses.replace(out, readout="place", task=task)
