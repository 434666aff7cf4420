"""How the commands read standard input, print to a terminal, and end.

Text from outside is printed with its control characters spelled out, so that no label, manifest
or file name steers a terminal. A command ends with one of five exit codes, and never with a traceback unless
LRP_COMPANION_TRACEBACK is set.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lrp_companion.checks import CompanionError, extra

DONE, READER_GONE, BAD_INPUT, FAULT, STOPPED = 0, 1, 2, 3, 130
BROKEN = 1
"""Exit code of `check` for a broken figure. A pipe whose reader goes away gives the same code."""
EXIT_CODES = (
    "exit codes: 0 done; 2 bad input; 3 any other fault (a full disk, a process that "
    "died, an error in the program); 130 stopped by Ctrl-C or SIGTERM; 1 the reader of a pipe went away, or "
    "check found a broken figure"
)
TRACEBACK = "LRP_COMPANION_TRACEBACK"
_PLAIN = str.maketrans("█▌▐│◀▶…Δ−", "###|<>~D-")


class Fault(CompanionError):
    """An error that ends the work although the input was good: exit code 3."""


def standard_input() -> str:
    """Return the text from standard input without what shells add: a mark at the start, a line end at the
    end.
    """
    return sys.stdin.read().removeprefix("\ufeff").removesuffix("\n")


def visible(text: str) -> str:
    """Return the text with control and direction marks spelled out, so that it steers no terminal or page."""
    if text.isprintable():  # then it holds none of them
        return text
    keep = "\u200c\u200d"  # joiners, which some scripts and emoji need
    return "".join(
        c if c in keep or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else ascii(c)[1:-1]
        for c in text
    )


def quoted(label: Any) -> str:
    """A label or another choice in a line; in quotes where it begins or ends with a space, as tokens do.

    >>> quoted("positive"), quoted(" Paris")
    ('positive', "' Paris'")
    """
    text = str(label)
    return text if text and text == text.strip() else repr(text)


def printable(text: str) -> str:
    r"""Return lines of text in which all control characters but the line ends are spelled out.

    >>> print(printable("one\x1b[2J" + chr(10) + "two"))
    one\x1b[2J
    two
    """
    return "\n".join(map(visible, text.split("\n")))


def harmless_json(text: str) -> str:
    r"""Return JSON in which no character steers a terminal and which reads back as the same values.

    >>> print(harmless_json('"\x9b2J"'))
    "\u009b2J"
    """
    return "".join(f"\\u{ord(c):04x}" if 0x7F <= ord(c) <= 0x9F else c for c in text)


def say(text: str, *, end: str = "\n") -> None:
    """Print to standard output, in the characters that it can hold."""
    out = sys.stdout
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    out.write(text + end)
    out.flush()


def check_output() -> None:
    """Refuse to work if standard output is closed."""
    say("", end="")


def complain(text: str) -> None:
    """Print one line to standard error, if there is one."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(visible(" ".join(text.split())), file=sys.stderr, flush=True)


def ended(work: Callable[[], Any]) -> int:
    """Do the work and return the exit code, with one line on standard error unless it is 0."""
    code = DONE
    try:
        with _terminated_like_ctrl_c():
            with extra("lrp-companion"):
                code = work() or DONE
            if sys.stdout is not None:
                sys.stdout.flush()
    except Fault as error:
        complain(str(error))
        code = FAULT
    except (CompanionError, FileNotFoundError) as error:
        complain(str(error))
        code = BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say
        code = READER_GONE
    except KeyboardInterrupt:
        complain("interrupted")
        code = STOPPED
    except SystemExit:
        raise
    except BaseException as error:  # a tokenizer in Rust panics with what is no Exception
        if os.environ.get(TRACEBACK):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        complain(f"lrp-companion: stopped by {what}; {TRACEBACK}=1 shows where")
        code = FAULT
    if code in (READER_GONE, FAULT):
        _drop_what_is_left()
    return code


@contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM stop the work as Ctrl-C does: finished jobs are kept, and one line says so."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _drop_what_is_left() -> None:
    """Drop unwritten output, so that Python does not complain about it when it ends."""
    with suppress(OSError, ValueError, AttributeError, io.UnsupportedOperation):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
