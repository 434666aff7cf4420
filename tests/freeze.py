"""Write down what a change of the house must not change: `python tests/freeze.py FILE`.

Run it before and after, on the same machine, and compare the two files. One line is one thing: the public
names with their signatures, the options of every command, each number that a page asks for by its name, each
sentence with numbers and the cells of every table of the chapters, as stored, the report, the addresses of
pages and of widgets' states, and, with `--records`, a digest of every kind of number in the records (a
quarter of an hour).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import printed_tables
import record_digests
import yaml
from lrp_book.say import kept_in

import lrp_companion as lrp
from lrp_companion.cli_options import parser

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
CHAPTERS = sorted(ROOT.glob("notebooks/*.ipynb"))
ASKED = re.compile(r"\{finding\}`([^`]+)`")
ADDRESS = re.compile(r'data-address=\\?"([^"\\]*)\\?"|address=\\?"([\w-]+)\\?"')


def digest(value: Any) -> str:
    """A short hash of text, or of anything that JSON holds."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def public_names() -> Iterator[str]:
    """The names of `lrp.*`, with their signatures."""
    for name in lrp.__all__:
        thing = getattr(lrp, name)
        signature = ""
        with contextlib.suppress(TypeError, ValueError):
            signature = str(inspect.signature(thing)) if callable(thing) else ""
        yield f"lrp.{name}{signature}"


def commands() -> Iterator[str]:
    """The options of every command, a line each."""
    (subcommands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in subcommands.choices.items():
        for action in command._actions:
            words = "/".join(action.option_strings) or action.dest
            yield f"command {name} {words} choices={action.choices} default={action.default!r}"


def sources() -> Iterator[tuple[str, str]]:
    """The sources of pages and notebooks, by their path."""
    for file in sorted([*ROOT.glob("book/**/*.md"), *ROOT.glob("notebooks/**/*.ipynb")]):
        yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def kept_numbers() -> dict[str, str]:
    """The numbers that stored notebooks keep for other pages, by name."""
    return {name: text for file in CHAPTERS for name, text in kept_in(file).items()}


def asked_findings() -> Iterator[str]:
    """Every number that a page asks for by its name, and every sentence with numbers of a chapter."""
    known = kept_numbers()
    for name in sorted({name for _, text in sources() for name in ASKED.findall(text)}):
        yield f"finding {name} = {known[name]}"
    for file in CHAPTERS:
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                for line in "".join(output.get("data", {}).get("text/markdown", "")).splitlines():
                    yield f"sentence {file.stem} {line}"


def tables() -> Iterator[str]:
    """The cells of every table of chapters 5 to 8, as stored."""
    for chapter, captions in printed_tables.printed().items():
        for caption, cells in captions.items():
            yield f"table {chapter} {cells} {caption[:90]}"


def report() -> Iterator[str]:
    """The report of all records, part by part."""
    from lrp_companion import cli

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        cli.main(["report", str(RESULTS), "--json"])
    whole = json.loads(said.getvalue())
    for name, part in whole.items() if isinstance(whole, dict) else enumerate(whole):
        yield f"report {name} {digest(part)}"


def addresses() -> Iterator[str]:
    """Pages by the table of contents, and names of widgets in the addresses of pages."""

    def files(part: Any) -> Iterator[str]:
        for item in part if isinstance(part, list) else [part]:
            for key, value in item.items():
                if key in ("file", "root", "url"):
                    yield value
                elif isinstance(value, (list, dict)):
                    yield from files(value)

    for file in files(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))):
        yield f"page {file}"
    for path, text in sources():
        for name in sorted({first or second for first, second in ADDRESS.findall(text)}):
            yield f"state {path} #{name}"


def records() -> Iterator[str]:
    """A digest of every kind of number in the records."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        record_digests.main(str(RESULTS))
    for line in said.getvalue().splitlines():
        yield f"record {line}"


def main() -> None:
    """Run the command."""
    command = argparse.ArgumentParser(description=__doc__, prog="python tests/freeze.py")
    command.add_argument("file", type=Path)
    command.add_argument("--records", action="store_true", help="also a digest of the records")
    given = command.parse_args()
    parts = [public_names, commands, asked_findings, tables, report, addresses]
    lines = [line for part in [*parts, *([records] if given.records else [])] for line in part()]
    given.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} lines")


if __name__ == "__main__":
    main()
