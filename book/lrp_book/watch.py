"""What a notebook reads of the records. It runs before the notebook: it imports nothing of ours."""

from __future__ import annotations

import json
import os
import sys


def watch(folder: str, file: str) -> None:
    """Write into a file, a line each and once, the path of each file in a folder that this process opens from
    now on, and each audit event of a record that is read, as JSON.
    """
    noted: set[str] = set()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "lrp_companion.read":
            line = json.dumps(arguments)
        elif event == "open" and isinstance(arguments[0], (str, os.PathLike)):
            line = os.path.relpath(os.path.abspath(arguments[0]), folder)
        else:
            return
        if line not in noted and not line.startswith(os.pardir):
            noted.add(line)
            with open(file, "a", encoding="utf-8") as out:
                print(line, file=out)

    sys.addaudithook(note)
