"""Grades as files: `grades.csv`, `students.csv`, a page per student and one of all. Texts are escaped."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lrp_companion.exercises.grading import Grades, Mark
from lrp_companion.schema import InputError

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1c2128; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem; border-bottom: 1px solid #d0d7de;
  overflow-wrap: anywhere; }
.passes { color: #1a7f37; } .other { color: #9a4a00; }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117; } th, td { border-color: #30363d; } a { color: #79b8ff; }
  .passes { color: #56d364; } .other { color: #f0a860; }
}
"""


def write_grades(grades: Grades, out: Path) -> list[Path]:
    """Write all files into a folder that is new or empty; what was written.

    Raises
    ------
    InputError : a folder that holds files, or cannot be made.
    """
    check_free(out)
    names = {student: f"{k:03d}-{_plain(student)}.html" for k, student in enumerate(grades.students, 1)}
    files = {
        "grades.csv": _table(
            ("student", "notebook", "exercise", "result", "says"),
            ((m.student, m.notebook, m.exercise, m.result, m.says) for m in grades.marks),
        ),
        "students.csv": _table(
            ("student", "passes", "of", "look at"),
            ((s, *map(str, grades.points(s)), ", ".join(grades.notable.get(s, ()))) for s in grades.students),
        ),
        "index.html": _index(grades, names),
    }
    files |= {name: _page(grades, student) for student, name in names.items()}
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in files]


def check_free(out: Path) -> None:
    """Make the folder; refuse one that holds files or cannot be made.

    Raises
    ------
    InputError : see above.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = any(out.iterdir())
    except OSError as error:
        got = f"--out {out.name!r}, which cannot be made ({type(error).__name__})"
        raise InputError("grade", got=got, expected="a folder", hint="name another one") from error
    if taken:
        got = f"--out {out.name!r}, which holds files"
        raise InputError("grade", got=got, expected="a new or an empty folder", hint="name another one")


def shown(text: str, most: int = 600) -> str:
    """A text without control characters or marks that reverse the reading order, cut at `most`."""
    clean = "".join(ch if ch.isprintable() else " " for ch in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        # A spreadsheet would run what begins like a formula.
        writer.writerow([f"'{cell}" if cell[:1] in "=+-@" and cell else cell for cell in map(shown, row)])
    return out.getvalue()


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "student"


def _e(text: str) -> str:
    return html.escape(shown(text))


def _document(title: str, body: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>{_e(title)}</title><style>{STYLE}</style></head>'
        f"<body><main><h1>{_e(title)}</h1>{body}</main></body></html>\n"
    )


def _index(grades: Grades, names: dict[str, str]) -> str:
    rows = []
    for student, name in names.items():
        passed, of = grades.points(student)
        look = _e(", ".join(grades.notable.get(student, ())) or "–")
        link = f'<a href="{name}">{_e(student)}</a>'
        rows.append(f'<tr><th scope="row">{link}</th><td>{passed} of {of}</td><td>{look}</td></tr>')
    heads = "".join(f'<th scope="col">{title}</th>' for title in ("student", "passes", "to look at"))
    about = f"{len(names)} students, {grades.seconds:.0f} s; the network was {grades.network}."
    return _document(
        "Grades",
        f"<p>{_e(about)}</p><table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
    )


def _row(mark: Mark) -> str:
    kind = "passes" if mark.result == "passes" else "other"
    return (
        f'<tr><th scope="row">{_e(mark.exercise or mark.notebook)}</th>'
        f'<td class="{kind}">{_e(mark.result)}</td><td>{_e(mark.says)}</td></tr>'
    )


def _page(grades: Grades, student: str) -> str:
    passed, of = grades.points(student)
    heads = "".join(f'<th scope="col">{title}</th>' for title in ("exercise", "result", "what check says"))
    rows = "".join(map(_row, grades.of(student)))
    body = f"<p>{passed} of {of} exercises pass.</p>"
    return _document(student, f"{body}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
