"""Tab-separated values: quotes are text, unless the file was clearly quoted by a writer of CSV. No torch.

A .tsv file can be read in two ways. As text (GLUE and most corpora), a line is a row, a tab ends a cell, and
a quote is a character like any other. As quoted CSV (pandas, spreadsheets), a cell may begin and end with
quotes, which stand for none, "" is one quote, and a cell may hold tabs and line ends. Where only one of the
two gives rows of one length, it is right. Where both do, the file is quoted if its quotes follow a writer's
rule throughout: around every cell with a quote in it and no other (pandas), or around the names and whole
columns. Where only a cell with a tab and a line end divides the two, a column tells them apart: text is what
the other cells of the column are like, such as a number among numbers.
"""

from __future__ import annotations

import math
import re
from collections import Counter

Rows = list[list[str]]
_CELL = re.compile(r'("[^"]*+(?:""[^"]*+)*+"|(?:[^"\t\r\n]|\r(?!\n))*+)(\t|\r?\n|\Z)')


class Unclear(ValueError):
    """A file that cannot be read as tab-separated values, or in two ways."""


def parsed(content: str) -> Rows:
    """The rows of a file, its head among them; blank lines are left out.

    Raises
    ------
    Unclear : rows of different lengths, or quotes that may or may not be text.

    >>> parsed('text\\tlabel\\n"Fine", he said.\\t1\\n')
    [['text', 'label'], ['"Fine", he said.', '1']]
    >>> parsed('text\\tlabel\\n"He said ""no""."\\t1\\n')
    [['text', 'label'], ['He said "no".', '1']]
    """
    plain = [line.removesuffix("\r").split("\t") for line in content.split("\n") if line.strip("\r")]
    odd = next((k for k, row in enumerate(plain) if len(row) != len(plain[0])), None)
    quoted = _quoted(content) if '"' in content else None
    if quoted is None or any(len(row) != len(quoted[0]) for row in quoted):
        if odd is None:
            return plain
        got = f"line {odd + 1} has {len(plain[odd])} cells, the first {len(plain[0])}"
        raise Unclear(f"{got}; a tab inside a text needs a .csv file")
    if odd is None and len(quoted) != len(plain):
        if len(plain[0]) == 1:
            raise Unclear("its quotes may be text, or around texts of several lines")
        by_writer = _by_pandas(quoted) or _by_spreadsheet(quoted)
        if not _by_kind(quoted) and (not by_writer or _are_rows(plain, quoted)):
            return plain  # two quotes far apart join lines by chance
        return [[_inside(cell) for cell in row] for row in quoted]
    if odd is not None or _by_pandas(quoted) or _by_kind(quoted):
        return [[_inside(cell) for cell in row] for row in quoted]
    if _by_spreadsheet(quoted):
        raise Unclear("its quotes may be text, or a spreadsheet's around cells with a comma")
    return plain


def _quoted(content: str) -> Rows | None:
    """The rows as quoted CSV, cells with their quotes; None if a quote is out of place in it."""
    rows: Rows = [[]]
    place = 0
    while place < len(content):
        match = _CELL.match(content, place)
        if match is None:
            return None
        cell, end = match.groups()
        rows[-1].append(cell)
        place = match.end()
        if end != "\t":
            rows.append([])
        elif place == len(content):
            rows[-1].append("")
    return [row for row in rows if row and row != [""]]


def _inside(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if _has_quotes(cell) else cell


def _has_quotes(cell: str) -> bool:
    return cell.startswith('"')


def _by_pandas(rows: Rows) -> bool:
    """Whether quotes are only around cells that need them: no other cell has a quote in it."""
    return all(cell == '""' or _needs_quotes(cell) for row in rows for cell in row if _has_quotes(cell))


def _needs_quotes(cell: str) -> bool:
    return any(mark in cell[1:-1] for mark in '"\t\r\n')


def _by_kind(rows: Rows) -> bool:
    """Whether all names are in quotes, and of each column all cells that are not empty, or none."""
    columns = zip(*rows[1:], strict=True)
    return all(map(_has_quotes, rows[0])) and all(
        len({_has_quotes(cell) for cell in column if cell not in ("", '""')}) < 2 for column in columns
    )


def _by_spreadsheet(rows: Rows) -> bool:
    """Whether quotes are around exactly the cells with a comma, or that need them."""
    return all(_has_quotes(cell) == ("," in cell or _needs_quotes(cell)) for row in rows for cell in row)


def _are_rows(plain: Rows, quoted: Rows) -> bool:
    """Whether the lines that quotes may join are rows: what the joined cells take out of a column is like
    what remains in it.

    Raises
    ------
    Unclear : no column tells.
    """
    like = False
    for column in range(len(plain[0])):
        lines, cells = (Counter(row[column] for row in rows[1:]) for rows in (plain, quoted))
        taken, kept = set(lines - cells), set(lines & cells)
        if not taken or any(cell not in lines for cell in cells):
            continue  # the joined texts themselves
        if all(map(_is_number, kept)):
            if all(map(_is_number, taken)):
                like = True
            elif any(kept):
                return False
        like = like or taken <= kept
    if like:
        return True
    raise Unclear("its quotes may be text, or around texts with tabs and line ends")


def _is_number(cell: str) -> bool:
    try:
        return not cell or math.isfinite(float(cell))
    except ValueError:
        return False
