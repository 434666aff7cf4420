"""Grade submitted notebooks, each in a separate process and judged from outside."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.exercises import student_code, wire
from lrp_companion.exercises.catalogue import EXERCISES
from lrp_companion.exercises.checking import Case, Exercise, judged
from lrp_companion.exercises.submission import Answered, Submission, handed_in, submission
from lrp_companion.schema import InputError, number, whole

SECONDS = 60.0
MEMORY = 8 << 30
OWN_NETWORK = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
"""A Linux process without a network, whose children end with it."""
RESULTS = ("passes", "not yet", "missing", "stopped")


@dataclass(frozen=True)
class Mark:
    """One exercise of one student: one of `RESULTS`, and what `check` says."""

    student: str
    notebook: str
    exercise: str
    result: str
    says: str


@dataclass(frozen=True)
class Grades:
    """All marks; `notable`: what a teacher should look at, by student; `network`: how it was closed."""

    marks: tuple[Mark, ...]
    notable: dict[str, tuple[str, ...]]
    network: str
    seconds: float

    @property
    def students(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted({mark.student for mark in self.marks}))

    def of(self, student: str) -> tuple[Mark, ...]:
        """The marks of one student, in the order of the book."""
        return tuple(mark for mark in self.marks if mark.student == student)

    def points(self, student: str) -> tuple[int, int]:
        """How many exercises pass, and how many there are."""
        marks = self.of(student)
        return sum(mark.result == RESULTS[0] for mark in marks), len(marks)


def grade(
    folder: str | os.PathLike, *, seconds: float = SECONDS, processes: int = 2, seed: int | None = None
) -> Grades:
    """Run every notebook of a folder and compare its functions with the exercises' slow forms.

    A notebook runs in a separate process, in an empty folder, with limits of time and memory and without a
    network. It gets inputs and returns arrays, which are judged here, on inputs that are drawn after it has
    run. So what it prints, writes, or changes in this package earns nothing.

    Parameters
    ----------
    folder : one notebook per student (`anna.ipynb`), or one folder per student (`anna/e1.ipynb`).
    seconds : the limit for one notebook.
    processes : notebooks at once.
    seed : seed of the inputs; random by default.

    Raises
    ------
    InputError : no such folder, or no notebooks in it; impossible limits.
    """
    if os.name != "posix":
        expected, hint = "Linux or macOS", "grade in a container, or in WSL"
        raise InputError("grade", got=f"a system of kind {os.name!r}", expected=expected, hint=hint)
    limit = number("grade", "--seconds", seconds, least=1, hint="leave it out for 60")
    at_once = whole("grade", "--processes", processes, least=1, hint="leave it out for 2")
    drawn = secrets.randbits(32) if seed is None else seed
    chosen = whole("grade", "the seed", drawn, least=0, hint="leave it out")
    place = Path(folder)
    notebooks = handed_in(place) if place.is_dir() else []
    if not notebooks:
        what = "without notebooks" if place.is_dir() else "which is not a folder"
        got = f"{place.name or str(place)!r}, {what}"
        expected, hint = "a folder of .ipynb files", "one folder per student, or one notebook each"
        raise InputError("grade", got=got, expected=expected, hint=hint)
    began, own_network = time.monotonic(), _own_network()
    work = [submission(student, path) for student, path in notebooks]

    def marked(handed: Submission) -> list[Mark]:
        return _marked(handed, limit=limit, own_network=own_network, seed=chosen)

    with ThreadPoolExecutor(at_once) as pool:
        marks = [mark for group in pool.map(marked, work) for mark in group]
    notable: dict[str, tuple[str, ...]] = {}
    for handed in work:
        seen = {*notable.get(handed.student, ()), *handed.notable}
        notable[handed.student] = tuple(sorted(seen))
    how = "closed by the system" if own_network else "closed in Python only"
    return Grades(tuple(marks), notable, how, time.monotonic() - began)


def _own_network() -> bool:
    """Whether processes can be had without a network here."""
    if shutil.which(OWN_NETWORK[0]) is None:
        return False
    return subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False).returncode == 0


def _wanted(handed: Submission) -> list[Exercise]:
    """All exercises of the themes of which the notebook checks at least one."""
    known = [EXERCISES[a.exercise] for a in handed.answers if a.exercise in EXERCISES]
    themes = {exercise.theme for exercise in known}
    return [exercise for exercise in EXERCISES.values() if exercise.theme in themes]


def _marked(handed: Submission, *, limit: float, own_network: bool, seed: int) -> list[Mark]:
    """Marks of one notebook."""

    def mark(exercise: str, result: str, says: str) -> Mark:
        return Mark(handed.student, handed.notebook, exercise, result, says)

    wanted, answers = _wanted(handed), {answer.exercise: answer for answer in handed.answers}
    if not wanted:
        return [mark("", "missing", handed.problem or "no exercise is checked in this notebook")]
    marks = []
    with _Process(handed.cells, limit=limit, own_network=own_network) as process:
        for exercise in wanted:
            answer = answers.get(exercise.name)
            if answer is None:
                says = f'no check("{exercise.name}", ...) in the notebook'
                marks.append(mark(exercise.name, "missing", says))
                continue
            cases = exercise.cases(np.random.default_rng(seed))
            given = process.ask(exercise, answer, cases)
            if process.ended:
                marks.append(mark(exercise.name, "stopped", process.ended))
            elif given is None:
                marks.append(mark(exercise.name, "not yet", "The result is not an answer to the exercise."))
            else:
                verdict = judged(exercise, cases, given)
                marks.append(mark(exercise.name, RESULTS[0] if verdict else RESULTS[1], verdict.message))
    return marks


class _Process:
    """A process that runs one student's cells; nothing that comes from it is believed."""

    def __init__(self, cells: tuple[str, ...], *, limit: float, own_network: bool) -> None:
        self.ended = ""
        self._deadline, self._limit = time.monotonic() + limit, limit
        self._rest, self._failed = b"", ""
        self._folder = tempfile.TemporaryDirectory(prefix="graded-", ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [sys.executable, "-I", "-B", str(student_code.__file__), str(to_read), str(to_write)]
        self._child = subprocess.Popen(
            [*OWN_NETWORK, *command] if own_network else command,
            cwd=self._folder.name, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env=_environment(self._folder.name), preexec_fn=_limits(limit),
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        failed = self._exchange({"cells": list(cells), "close network": not own_network})
        if isinstance(failed, list) and failed:
            self._failed = str(failed[0])[:300]

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.kill()
        self._child.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def ask(self, exercise: Exercise, answer: Answered, cases: list[Case]) -> Any:
        """The answers to the cases, or a text; None where what came back is neither."""
        told: dict[str, Any] = {
            "name": exercise.name,
            "signature": exercise.signature,
            "parts": list(exercise.parts),
        }
        told |= {"whole": exercise.whole, "autograd": exercise.autograd}
        inputs = [(case.label, case.inputs) for case in cases]
        asked = {"exercise": told, "function": answer.function, "torch": answer.torch, "cases": inputs}
        given = self._exchange(asked)
        if isinstance(given, str):
            return f"{given} ({self._failed})" if self._failed and "cannot be used" in given else given
        fits = isinstance(given, list) and len(given) == len(cases)
        if fits and all(_is_answer(one, len(exercise.parts)) for one in given):
            return given
        return None

    def _exchange(self, message: Any) -> Any:
        """Send one line, get one back; None where it cannot be read."""
        if self.ended:
            return None
        try:
            self._send((wire.written(message) + "\n").encode())
            line = self._line()
        except TimeoutError:  # an OSError, too
            self.ended = f"The notebook ran into the limit of {self._limit:g} s."
            return None
        except (OSError, EOFError):
            self.ended = "The notebook's process ended itself."
            return None
        try:
            return wire.read(line.decode())
        except ValueError:
            return None

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(self, data: bytes) -> None:
        os.set_blocking(self._write, False)
        while data:
            if not select.select([], [self._write], [], self._left())[1]:
                raise TimeoutError
            data = data[os.write(self._write, data) :]

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            if not select.select([self._read], [], [], self._left())[0]:
                raise TimeoutError
            block = os.read(self._read, 1 << 16)
            if not block:
                raise EOFError
            self._rest += block
            if len(self._rest) > wire.MOST:
                raise OSError
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _is_answer(one: Any, parts: int) -> bool:
    is_tuple = isinstance(one, tuple) and len(one) == parts
    return is_tuple and all(isinstance(part, np.ndarray) and part.dtype.kind in "iuf" for part in one)


def _environment(home: str) -> dict[str, str]:
    """An environment without the teacher's keys, proxies and paths, except those of the programs."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    return {**kept, "HOME": home, "TMPDIR": home, "OMP_NUM_THREADS": "1"}


def _limits(seconds: float) -> Callable[[], None]:
    """Limits that the system holds: time of the processor, memory, size of files."""

    def set_limits() -> None:
        import resource

        pairs = (
            (resource.RLIMIT_CPU, int(seconds) + 5),
            (resource.RLIMIT_AS, MEMORY),
            (resource.RLIMIT_FSIZE, 64 << 20),
            (resource.RLIMIT_CORE, 0),
        )
        for kind, most in pairs:
            _, hard = resource.getrlimit(kind)
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (soft, soft))

    return set_limits
