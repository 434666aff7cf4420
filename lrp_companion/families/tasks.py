"""What a model predicts, from the name of its class, and the head for it, of any make that is a chain."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lrp_companion.checks import CompanionError, reason_of
from lrp_companion.families.modules import WAY_OUT, is_elementwise, near, numbers, refused
from lrp_companion.families.wiring import (
    LinearPart,
    LinearRows,
    MeanOfTwo,
    RootMeanSquare,
    Unchanged,
    Wiring,
    beside,
    norm_of,
    of_rows_and_columns,
)

CLASSES, NEXT_TOKEN, MASKED_TOKEN, TOKEN_CLASSES = "classes", "next token", "masked token", "token classes"
IMAGE_CLASSES, ANSWER = "classes of an image", "an answer's start and end"
ENDS = ("start", "end")
"""What a token of an answer can be, as labels."""
TASKS = {
    "ForSequenceClassification": CLASSES,
    "ForCausalLM": NEXT_TOKEN,
    "LMHeadModel": NEXT_TOKEN,
    "ForMaskedLM": MASKED_TOKEN,
    "ForTokenClassification": TOKEN_CLASSES,
    "ForQuestionAnswering": ANSWER,
    "ForImageClassification": IMAGE_CLASSES,
    "ForImageClassificationWithTeacher": IMAGE_CLASSES,
}
"""Tasks by the endings of class names; people read these names, too."""
Steps = tuple
"""Of a head: linear maps with their activation functions, and norms."""
ACTIVATIONS = {
    "relu",
    "relu6",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "mish",
    "softplus",
    "softsign",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "logsigmoid",
    "tanhshrink",
    "threshold",
    "mul",
    "truediv",
}
"""Functions and methods of tensors that treat every number separately."""
NOTHING = {"contiguous", "clone"}
"""Methods that change no number."""


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

    Raises
    ------
    AttributeError : a task that the family has no head for, or a head without its modules.
    """
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


class _Composed:
    """Two activation functions, one after another."""

    def __init__(self, first: Callable, second: Callable) -> None:
        self.first, self.second = first, second

    def __call__(self, z: Tensor) -> Tensor:
        return self.second(self.first(z))


def head_steps(*parts: Any) -> tuple:
    """The steps of a head: linear maps with the activation functions after them, and norms.

    A part is a module (one linear map, an activation, a norm; dropout and the identity are left out; or a
    `Sequential` or a module of your own that is a chain of these), an activation function, or what
    `after_first` gives.

    Raises
    ------
    ModelError : a part that is not such a chain, or a head that does not end with a linear map.

    >>> first, last = nn.Linear(4, 3), nn.Linear(3, 2)
    >>> steps = head_steps(nn.Sequential(first, nn.Dropout(), nn.ReLU()), last)
    >>> [module for module, _ in steps] == [first, last], steps[0][1]
    (True, ReLU())
    """
    steps: list[tuple[Any, Any]] = []
    for piece in _unfolded(parts):
        if _is_map(piece) or _is_norm(piece):
            steps.append((piece, None))
        elif steps and not _is_norm(steps[-1][0]):
            module, activation = steps[-1]
            steps[-1] = module, piece if activation is None else _Composed(activation, piece)
        else:
            steps.append((Unchanged(), piece))
    if not steps or not _is_map(steps[-1][0]):
        kinds = ", ".join(type(part).__name__ for part in parts if isinstance(part, nn.Module))
        raise refused(f"a head ({kinds}) that does not end with a linear map", expected="logits of a map")
    return tuple(steps)


def after_first(module: Any) -> tuple:
    """The pieces of a part of a head that reads the first of all tokens by itself.

    Raises
    ------
    ModelError : it reads something else.
    """
    pieces = _pieces(module)
    rest = tuple(piece for piece in pieces if not isinstance(piece, str))
    if len(pieces) != len(rest) + 1:
        got = f"a head ({type(module).__name__}) that does not take the first token, where it gets all tokens"
        raise refused(got, expected="a head that reads x[:, 0]", hint="begin its forward with x = x[:, 0]")
    return rest  # every step treats tokens separately, so it does not matter when one is taken


_FIRST = "the first token"
"""Stands for `x[:, 0]` among the pieces of a head."""


def _unfolded(parts: Iterable[Any]) -> Iterator[Any]:
    """The pieces of all parts; none takes a token, as the wiring has done so."""
    for part in parts:
        pieces = part if isinstance(part, tuple) else _pieces(part)
        if _FIRST in [piece for piece in pieces if isinstance(piece, str)]:
            got = f"a {type(part).__name__} that takes a token, where one is taken already"
            raise refused(got, expected="a head that reads one vector")
        yield from pieces


def _is_map(piece: Any) -> bool:
    return isinstance(piece, (nn.Linear, LinearPart, LinearRows, MeanOfTwo)) or (
        isinstance(piece, nn.Module) and of_rows_and_columns(piece) and not list(piece.children())
    )


def _is_norm(piece: Any) -> bool:
    return isinstance(piece, (nn.LayerNorm, RootMeanSquare))


def _is_activation(module: nn.Module) -> bool:
    """Whether a module is an activation function: it has no weights of its own (but a PReLU's)."""
    alone = not any(True for _ in module.parameters()) and not list(module.children())
    return (alone or isinstance(module, nn.PReLU)) and is_elementwise(module)


def _pieces(part: Any) -> list[Any]:
    """A module as maps, norms, activation functions and `_FIRST`, in the order in which they work."""
    if part is None:
        raise refused("a head in which a module is missing", expected="a module", hint="load another network")
    if not isinstance(part, nn.Module):
        return [part]  # a map that is a part of a module, or a function
    of_torch = type(part).__module__.startswith("torch.")
    if of_torch and isinstance(part, (nn.Identity, nn.modules.dropout._DropoutNd)):
        return []
    if hasattr(part, "nf") and of_rows_and_columns(part):
        return [LinearPart(part, transposed=True)]  # a Conv1D of transformers
    if _is_map(part):
        return [part]
    norm = norm_of(part)
    if _is_norm(norm):
        return [norm]
    if _is_activation(part):
        return [part]
    if of_torch and not isinstance(part, nn.Sequential):
        got = f"a head with a {type(part).__name__}"
        expected = "linear maps, norms, dropout, and activation functions of single numbers"
        raise refused(got, expected=expected)
    return _traced(part)


class _Tracer(fx.Tracer):
    """Follows a head down to modules that are a step, or that are torch's own."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        # found out now: while it follows, no module can be tried
        self.leaves = {id(module) for module in head.modules() if module is not head and self._leaf(module)}

    def is_leaf_module(self, module: nn.Module, _name: str) -> bool:
        return id(module) in self.leaves

    @staticmethod
    def _leaf(module: nn.Module) -> bool:
        if type(module).__module__.startswith("torch.") or _is_map(module) or _is_norm(norm_of(module)):
            return not isinstance(module, nn.Sequential)
        return _is_activation(module)


def _traced(module: nn.Module) -> list[Any]:
    """The pieces of a module with a forward of its own, if this is a chain; checked on random numbers."""
    kind = type(module).__name__
    expected = "a chain of linear maps, norms, dropout, and activation functions of single numbers"
    if not isinstance(module, nn.Sequential) and type(module).forward is nn.Module.forward:
        raise refused(f"a head that is a {kind}, which computes nothing", expected=expected)
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        graph = _Tracer(module).trace(module)
        for node in reversed(graph.nodes):
            if node.op not in ("placeholder", "output") and not node.users:
                graph.erase_node(node)  # its result goes nowhere
        pieces: list[Any] = []
        last: Any = None
        for node in graph.nodes:
            inputs = [one for one in node.all_input_nodes if one.op != "get_attr"]
            if node.op == "placeholder":
                last = last or node
                if node is not last and node.users:
                    raise _NoChain(f"a second input {node.name}")
            elif node.op == "output":
                if node.args[0] is not last:
                    raise _NoChain("an output that is not one tensor")
            elif node.op != "get_attr":
                if inputs != [last]:
                    raise _NoChain(f"the step {node.name!r}, which reads more than the step before it")
                pieces += _pieces_of(module, node)
                last = node
    except CompanionError:
        raise
    except _NoChain as error:
        raise refused(f"a head ({kind}) with {error}", expected=expected) from None
    except Exception as error:  # of torch.fx, where a forward decides by its numbers; of the forward itself
        reason = reason_of(error, 120)
        raise refused(f"a head ({kind}) that cannot be followed ({reason})", expected=expected) from error
    finally:
        for part, mode in modes:
            part.training = mode
    if not _same(module, pieces):
        got = f"a head ({kind}) that computes something else than its modules"
        raise refused(got, expected=expected, hint=WAY_OUT)
    return pieces


class _NoChain(Exception):
    """What a head does that no chain of steps does."""


def _pieces_of(module: nn.Module, node: fx.Node) -> list[Any]:
    """What one node of a traced head does."""
    if node.op == "call_module":
        if len(node.args) > 1 or node.kwargs:
            raise _NoChain(f"a {node.target} of several arguments")
        return _pieces(module.get_submodule(str(node.target)))
    function: Any = node.target
    name = str(getattr(function, "__name__", function)).rstrip("_")
    args = [_value(module, one) for one in node.args]
    more = {key: _value(module, one) for key, one in node.kwargs.items() if key not in ("inplace", "input")}
    if name in NOTHING:
        return []
    if name.endswith("dropout"):
        always = {"training": True, "train": args[2] if len(args) > 2 else True, **more}
        if always["training"] and always["train"]:
            raise _NoChain("a dropout that is always on")
        return []
    if name == "getitem" and args[1] in ((slice(None), 0), (slice(None), 0, slice(None))):
        return [_FIRST]
    if name == "linear" and node.op == "call_function":
        return [_map_of(*args[1:], **more)]
    if name == "layer_norm":
        return [_norm_of(*args[1:], **more)]
    if name not in ACTIVATIONS:
        raise _NoChain(f"the step {name!r}")
    if name in ("mul", "truediv"):
        factor = next((one for one in args if isinstance(one, (int, float))), None)
        if factor is None or (name == "truediv" and args[0] is factor):
            raise _NoChain(f"the step {name!r}")
        return [functools.partial(torch.mul if name == "mul" else torch.div, other=factor)]
    if node.op == "call_method":
        function = getattr(Tensor, name)
    elif str(function.__name__).endswith("_"):
        function = getattr(functional, name, None) or getattr(torch, name)
    if args[1:]:
        raise _NoChain(f"the step {name!r} with unnamed options")
    activation = functools.partial(function, **more)
    if not is_elementwise(activation):
        raise _NoChain(f"the step {name!r}")
    return [activation]


def _value(module: nn.Module, argument: Any) -> Any:
    """An argument of a node: a parameter where it is one."""
    if not isinstance(argument, fx.Node) or argument.op != "get_attr":
        return argument
    owner, _, name = str(argument.target).rpartition(".")
    return getattr(module.get_submodule(owner), name)


def _map_of(weight: Any, bias: Any = None) -> nn.Linear:
    """A linear map of parameters that a head keeps by themselves."""
    if not all(isinstance(one, nn.Parameter) for one in (weight, *([] if bias is None else [bias]))):
        raise _NoChain("a linear map whose weights are computed")
    out = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    out.weight = weight
    if bias is not None:
        out.bias = bias
    return out


def _norm_of(shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> nn.LayerNorm:
    """A norm of parameters that a head keeps by themselves."""
    if not all(isinstance(one, nn.Parameter) for one in (weight, bias)):
        raise _NoChain("a norm without weights")
    out = nn.LayerNorm(shape, eps=eps, device="meta")
    out.weight, out.bias = weight, bias
    return out


@torch.no_grad()
def _same(module: nn.Module, pieces: list[Any]) -> bool:
    """Whether a head computes what its pieces do, on random numbers; True where it cannot be tried."""
    first = next((piece for piece in pieces if _is_map(piece) or _is_norm(piece)), None)
    if first is None or first.weight.is_meta:
        return True
    x = numbers((2, 3, first.weight.shape[-1]), first.weight)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        for given in [x] if _FIRST in [p for p in pieces if isinstance(p, str)] else [x, x[0]]:
            z = given
            for piece in pieces:
                placed = z if not (_is_map(piece) or _is_norm(piece)) else beside(piece, z)
                z = z[:, 0] if isinstance(piece, str) else piece(placed)
            try:
                y = module(given)
            except Exception:  # of another number of axes
                continue
            return y.shape == z.shape and near(y.to(z.device), z, z.abs().amax() + 1)
    finally:
        for part, mode in modes:
            part.training = mode
    return False
