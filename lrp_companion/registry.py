"""The attribution methods on text by name, and the one place where a method is added. No torch.

Each method of the package is one row here, so that tables and figures of finished runs need no model; its
function is the one that is decorated with this name, in any file of `methods`. Your own method needs no row:

>>> @method("constant", label="the same for all")
... def constant(clf, texts, targets, *, value=1.0, progress=None):
...     raise NotImplementedError
>>> method_named("constant").options, label_of("constant")
(('progress', 'value'), 'the same for all')
>>> forget("constant")
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np

from lrp_companion.checks import InputError, on_cpu

Function = TypeVar("Function", bound=Callable[..., Any])
SHARED = ("batch_tokens", "progress")
"""Options of every method of a `Request` that no record depends on."""
TAKEN = {"output": "logit", "unit": "token"}
"""Choices that several methods take, with their defaults."""


@dataclass(frozen=True)
class Style:
    """How a method or a path is drawn and labelled; `dash` is a matplotlib line style."""

    label: str
    colour: str
    marker: str
    dash: Any


@dataclass(frozen=True)
class Method:
    """The registry entry of a method on text.

    Attributes
    ----------
    name : as `attribute(method=...)` takes it.
    label : as tables and figures print it.
    outputs : "every": a run explains logit, margin and probability; "logit": only the logit, because every
        further output would cost the whole method again; "none": the scores do not depend on the output.
    dial : the option that buys more passes; figures join the points of a method along it.
    style : how figures draw it; None takes the next spare style.
    function : explains texts; None until `lrp_companion.methods` is imported.
    takes : which of "output" and "unit" a function of a `Request` takes, besides `SHARED` (without "unit" the
        scores of its tokens are summed); None: a function of classifier, texts and targets.
    fixed : options of the function that this method fixes.
    """

    name: str
    label: str
    outputs: str = "every"
    dial: str | None = None
    style: Style | None = None
    function: Callable[..., Any] | None = None
    takes: tuple[str, ...] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The method's own options, keyword-only, with their defaults; `inspect.Parameter.empty` for none."""
        parameters = inspect.signature(self.function).parameters.values() if self.function else ()
        own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in self.fixed}
        return own | {name: TAKEN[name] for name in self.takes or ()}

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Names of the method's options."""
        return tuple(sorted({*self.defaults, *(SHARED if self.takes is not None else ())}))


def _row(name: str, label: str, drawn: tuple[str, str, Any], **more: Any) -> Method:
    """A method of this package; `drawn` is its colour, marker and dash. A dial means only the logit."""
    outputs = "logit" if "dial" in more else "every"
    return Method(name, label, style=Style(label, *drawn), **{"outputs": outputs, **more})


PACKAGE = (
    _row("loo", "LOO", ("#1b1b1b", "o", "-")),
    _row("ig", "IG", ("#1f6f8b", "^", (0, (6, 2))), dial="n_steps"),
    _row("gradient-x-input", "gradient x input", ("#8a4b3d", "v", (0, (6, 2, 1, 2)))),
    _row("rollout", "rollout", ("#6a6a6a", "s", (0, (1, 1.5))), outputs="none"),
    _row("attnlrp", "AttnLRP", ("#6b3fb0", "D", "-")),
    _row("cp-lrp", "CP-LRP", ("#00755e", "X", (0, (3, 1.5)))),
    _row("pa-lrp", "PA-LRP", ("#a8216b", "P", (0, (4, 1.5, 1, 1.5)))),
    _row("key-cut", "key cut", ("#2b4fa8", "8", (0, (9, 1, 1, 1)))),
    _row("lrp", "LRP", ("#5d5d8a", "p", (0, (2, 1)))),
    _row("mask-gradient", "mask gradient", ("#946500", "*", (0, (8, 2))), dial="groups"),
    _row("secant-mask-gradient", "secant mask gradient", ("#b8560f", ">", (0, (5, 1)))),
    _row("hybrid", "hybrid", ("#3d6b1f", "h", (0, (5, 1, 1, 1, 1, 1))), dial="exact"),
    _row("sampled-loo", "sampled LOO", ("#30616b", "d", (0, (1, 3))), dial="budget"),
    _row("shapley", "Shapley", ("#5c5200", "<", (0, (7, 1, 1, 1))), dial="permutations"),
)
"""The methods of this package, one row each, in the order in which they are listed."""
METHODS = {row.name: row for row in PACKAGE}
"""Every method by name: those of the package, then those that `method` registered."""


def method(
    name: str,
    *,
    label: str | None = None,
    outputs: str = "every",
    dial: str | None = None,
    style: Style | None = None,
    takes: tuple[str, ...] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as a method on text, for `attribute`, runs, tables and figures.

    The function takes a `Classifier`, encoded texts and one target (or None) for each, its options as
    keyword-only parameters, and returns one `Attribution` per text. `Method` has the other arguments. (A
    method of the package has a row in `PACKAGE`, and its function, with `takes`, is one of a `Request`.)

    Raises
    ------
    InputError : a name that is taken, or that the command line cannot read.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[^\s:,]+", name):
        hint = "the command line reads options after a colon, and several methods with commas between them"
        expected = "a name without spaces, colons and commas"
        raise InputError("method", got=f"name {name!r}", expected=expected, hint=hint)
    known = METHODS.get(name)
    if known is not None and known.function is not None:
        hint = "choose another name, or forget one of yours with lrp_companion.registry.forget"
        raise InputError("method", got=f"{name!r} twice", expected="a name for each method", hint=hint)
    row = known or Method(name, label or name, outputs, dial, style)

    def register(function: Function) -> Function:
        METHODS[name] = replace(row, function=function, takes=takes, fixed=fixed or {})
        return function

    return register


def forget(name: str) -> None:
    """Remove a method of your own from the registry."""
    METHODS.pop(name, None)


def method_named(name: str) -> Method:
    """Return the entry of a method; for an unregistered one, only its name."""
    return METHODS.get(name) or Method(name, name)


INSTALLED = ("<frozen", sysconfig.get_path("stdlib"), str(Path(__file__).parent))
PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
PASSING = ("__doc__", "__module__", "__firstlineno__")
"""Attributes of a class that change with its text, not with what it computes."""


def called(function: Any) -> str:
    """The name of a function, of one with some arguments given, or of an object that can be called."""
    function = function.func if isinstance(function, partial) else function
    return str(getattr(function, "__name__", type(function).__name__))


def print_of(function: Any) -> str:
    """Eight hexadecimal digits of what a function computes: its code and defaults, and of all that it leads
    to (numbers, arrays, functions, classes, objects, whole modules of yours) the same again. What is
    installed counts by its name, and what it wraps or holds as yours does.

    >>> double = lambda x, times=2: times * x
    >>> print_of(double) == print_of(lambda x, times=2: times * x) != print_of(lambda x, times=3: times * x)
    True
    """
    digest, seen, todo = hashlib.sha256(), dict[int, tuple[int, Any]](), [function]
    while todo:
        one = todo.pop()
        parts = str(seen[id(one)][0]).encode() if id(one) in seen else _parts(one)
        digest.update(f"{type(one).__name__} {len(parts)} ".encode())
        if isinstance(parts, bytes):
            digest.update(parts)
        else:
            todo += parts
            if not isinstance(one, (tuple, CodeType)):  # of which Python may keep one or two that are equal
                seen[id(one)] = len(seen), one
    return digest.hexdigest()[:8]


def _parts(one: Any) -> bytes | list[Any]:
    """What an object is made of, or what stands for it."""
    if isinstance(one, CodeType):
        takes = one.co_varnames, one.co_argcount, one.co_kwonlyargcount, one.co_flags
        return [one.co_code, one.co_names, one.co_consts, one.co_exceptiontable, *takes]
    if isinstance(one, FunctionType):
        code, cells = one.__code__, one.__closure__ or ()
        held = [cell.cell_contents for cell in cells if cell != CellType()]
        if code.co_filename.startswith(INSTALLED) or PACKAGES.search(code.co_filename):
            return [one.__globals__["__name__"], code.co_qualname, held, vars(one)]
        outside = _read(one.__code__, one.__globals__)
        return [code, one.__defaults__, one.__kwdefaults__, outside, held, vars(one)]
    if isinstance(one, ModuleType):
        inside = [pair for pair in vars(one).items() if not pair[0].startswith("__")]
        return inside if _own(one.__name__) else one.__name__.encode()
    if isinstance(one, type):
        inside = [pair for pair in vars(one).items() if pair[0] not in PASSING]
        name = f"{one.__module__}.{one.__qualname__}".encode()
        return [one.__qualname__, type(one), one.__bases__, *inside] if _own(one.__module__) else name
    if isinstance(one, (MethodType, staticmethod, classmethod)):
        return [one.__func__, getattr(one, "__self__", None)]
    if isinstance(one, property):
        return [one.fget, one.fset, one.fdel]
    if "__wrapped__" in getattr(one, "__dict__", ()):
        return [type(one), *vars(one).items()]
    if isinstance(one, np.ndarray) and not one.dtype.hasobject or hasattr(one, "detach"):
        array = np.asarray(on_cpu(one))
        return f"{array.dtype} {array.shape} ".encode() + array.tobytes()
    if type(one) in (tuple, list):
        return [*one]
    if type(one) in (dict, MappingProxyType):
        return [*one.items()]
    if isinstance(one, (set, frozenset)):
        return sorted(re.sub(" at 0x[0-9a-fA-F]+", "", repr(part)) for part in one)
    if type(one) in (str, bytes, int, float, complex, bool):
        return repr(one).encode()
    try:  # as it would be saved: its class and its state
        made = one.__reduce_ex__(4)
    except Exception:  # an object that cannot be saved
        made = re.sub(" at 0x[0-9a-fA-F]+", "", repr(one))
    if isinstance(made, str):
        return f"{getattr(one, '__module__', '')}.{made}".encode()
    return [[*part] if isinstance(part, Iterator) else part for part in made]


def _own(name: str | None) -> bool:
    """Whether a module is neither built in nor installed."""
    first = str(name).partition(".")[0]
    module = sys.modules.get(first)
    place = getattr(module, "__file__", None) or "".join([*getattr(module, "__path__", ())][:1])
    known = first in sys.stdlib_module_names or place.startswith(INSTALLED)
    return not known and not PACKAGES.search(place)


def _read(code: CodeType, known: Mapping[str, Any]) -> list[Any]:
    """The values that code, and the code of functions in it, read from their module, and what they import."""
    inner = [_read(one, known) for one in code.co_consts if isinstance(one, CodeType)]
    imported = []
    for step in dis.get_instructions(code):
        with suppress(ImportError, ValueError):
            imported += [import_module(step.argval)] if step.opname == "IMPORT_NAME" else []
    return [*((name, known[name]) for name in code.co_names if name in known), *inner, *imported]


def label_of(name: str) -> str:
    """A method's name as tables and figures print it."""
    return method_named(name).label
