"""Which files a notebook's kernel opens. It imports nothing, as it runs before the notebook does."""

from __future__ import annotations

import os
import sys


def watch(folder: str, file: str) -> None:
    """Write the path of each file in a folder that this process opens from now on, once, into a file."""
    noted: set[str] = set()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
            path = os.path.abspath(arguments[0])
            if path.startswith(folder + os.sep) and path not in noted:
                noted.add(path)
                with open(file, "a", encoding="utf-8") as out:
                    print(os.path.relpath(path, folder), file=out)

    sys.addaudithook(note)
