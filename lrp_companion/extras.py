"""Optional packages: which extra installs each, and the one-line error when one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lrp_companion.checks import SourceError

EXTRAS = {
    "accelerate": "lab",
    "anywidget": "widgets",
    "captum": "ig",
    "datasets": "data",
    "docutils": "book",
    "gguf": "gguf",
    "ipywidgets": "widgets",
    "jupyter_book": "book",
    "matplotlib": "lab",
    "mlxtend": "data",
    "nbformat": "book",
    "papermill": "book",
    "PIL": "lab",
    "pooch": "lab",
    "pyarrow": "data",
    "rjsmin": "widgets",
    "scipy": "lab",
    "sphinx": "book",
    "traitlets": "widgets",
    "wasmtime": "page",
    "xarray": "lab",
}
"""Importable names and the extra of `pyproject.toml` that installs each."""


@contextmanager
def extra(operation: str) -> Iterator[None]:
    """Turn a missing optional package into a one-line error that says how to install it.

    Raises
    ------
    SourceError : a package of `EXTRAS` is not installed.

    >>> with extra("attribute"):
    ...     raise ModuleNotFoundError("No module named 'captum'", name="captum.attr")
    Traceback (most recent call last):
    ...
    lrp_companion.checks.SourceError: attribute: got no package captum; expected the extra [ig]. ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        name = EXTRAS[package]
        hint = f'install it: pip install "lrp-companion[{name}]"'
        raise SourceError(
            operation, got=f"no package {package}", expected=f"the extra [{name}]", hint=hint
        ) from None
