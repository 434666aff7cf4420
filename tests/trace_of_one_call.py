"""The way of one warm call through the package: `python tests/trace_of_one_call.py` prints it; CI keeps its
figures at their bounds (`pytest tests/trace_of_one_call.py`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lrp_companion as lrp

HOME = str(Path(lrp.__file__).parent) + "/"
BOUNDS = {"files": 12, "functions": 97, "calls": 924, "calls outside rules and tape": 63, "tokenizer": 1}
"""None may grow. Rules, tape and wirings are 6 of the files, 55 of the functions, and all but 63 calls."""
ARITHMETIC = ("rules.py", "tape/", "families/wiring.py")


def traced(call: Callable[[], Any]) -> tuple[Counter[str], int]:
    """How often a call enters each function of the package, by file and name, and the tokenizer."""
    entered, tokenizer = Counter[str](), 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal tokenizer
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
            entered[f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}"] += 1
        if event == "call" and code.co_name == "_encode_plus" or code.co_name == "_batch_encode_plus":
            tokenizer += event == "call"

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered, tokenizer


def figures() -> tuple[dict[str, int], Counter[str]]:
    """The figures of a second call of AttnLRP on the embedded model, and the functions that it enters."""
    clf = lrp.load_classifier("companion")

    def call() -> None:
        lrp.attribute(clf, "a film of rare grace", method="attnlrp")

    call()
    entered, tokenizer = traced(call)
    outside = sum(count for name, count in entered.items() if not name.startswith(ARITHMETIC))
    files = len({name.partition(":")[0] for name in entered})
    told = {"files": files, "functions": len(entered), "calls": entered.total()}
    return told | {"calls outside rules and tape": outside, "tokenizer": tokenizer}, entered


def test_the_way_of_one_call_grows_no_longer() -> None:
    told, _ = figures()
    assert {name: value for name, value in told.items() if value > BOUNDS[name]} == {}


if __name__ == "__main__":
    told, entered = figures()
    for name, count in entered.items():
        print(f"{count:5}  {name}")
    print(*(f"{name} {value}" for name, value in told.items()), sep="; ")
