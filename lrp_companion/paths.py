"""Paths in any form: `~` is expanded, and an impossible path is refused in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lrp_companion.checks import InputError, shown


def as_path(operation: str, name: str, given: object) -> Path:
    """Return a possible path, with `~` expanded; it need not exist.

    Raises
    ------
    InputError : no path; an empty one; one with a NUL or a lone surrogate; a name that is too long; or the
        home of an unknown user.

    >>> as_path("run", "--out", "runs/first").name
    'first'
    """

    def refuse(got: str, hint: str) -> InputError:
        return InputError(operation, got=f"{name} {shown(given)}, {got}", expected="a path", hint=hint)

    if not isinstance(given, (str, os.PathLike)) or isinstance(os.fspath(given), bytes):
        raise refuse(f"a {type(given).__name__}", "pass a string or a path")
    text = os.fspath(given)
    if not text.strip():
        raise refuse("which is empty", "name a file or a folder")
    try:
        path = Path(text).expanduser()
        os.lstat(path)
    except RuntimeError:
        raise refuse("the home of a user who is not known", "write the path out") from None
    except ValueError:  # a NUL, or what the file system's encoding cannot hold
        raise refuse("with a character that no path can hold", "write it again") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise refuse(f"which no system can hold ({error.strerror})", "take a shorter one") from None
    return path
