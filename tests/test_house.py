"""The house's words and measures: names that say something, lines of 110 characters, a map without gaps."""

from __future__ import annotations

import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lrp_companion"
FOLDERS = ("lrp_companion", "book", "tests", "benchmarks", "training")
FILLER = {"own", "found"}
LENGTH = 110


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def names(text: str) -> list[str]:
    """Every name in a source text; words in comments and strings are prose."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.NAME]


def test_names_are_told_from_prose() -> None:
    assert names('own = "found"  # found\n') == ["own"]


@pytest.mark.parametrize("folder", ["lrp_companion", "tests"])
def test_a_name_says_what_it_holds(folder: str) -> None:
    fillers = {}
    for path in sources(folder):
        if used := FILLER & set(names(path.read_text(encoding="utf-8"))):
            fillers[str(path.relative_to(ROOT))] = used
    assert not fillers


def test_lines_have_110_characters_at_most() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources(*FOLDERS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LENGTH
    ]
    assert not long


def test_the_map_of_the_code_names_every_module_and_package() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mapped = set(re.findall(r"^\| `lrp_companion/(\w+)(?:\.py|/)` \|", page, re.MULTILINE))
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert mapped == modules | packages


TRANSLATED = (  # phrases that a native speaker stumbles over, and what to write instead
    ("proves the mathematics", "checks the mathematics against ..."),
    ("tries to tell the same", "aims to recover the same information"),
    ("what part of a limit", "a fraction of a limit"),
    ("do not know each other", "may not import one another"),
    ("Who knows ", "If you already know"),
    ("Some figures answer", "Some figures are interactive"),
    ("written for and not tried", "supported but untested"),
    ("Held is", "We fix ..."),
    ("does not come again", "does not replicate"),
    ("come nearly as near", "come almost as close"),
    ("stop to rise", "stop rising"),
    ("stands beside", "is shown next to"),
    ("protocol order", "reading order"),
)


STILTED = (  # patterns of the same kind, and what to write instead
    (r"\bby the clock\b", "minute by minute"),
    (r"\b(?:stands?|lies|lie) (?:beside|next to)\b", "is shown next to"),
    (r"\bbeside (?:a|an|each|every|it|its|ours|that|the|them|this|which)\b", "next to; besides"),
    (r"\bof one's own\b|\bin a process of its own\b", "your own; in a separate process"),
    (r"\banew\b", "again"),
    (r"\bat most so many\b|\bwith so many\b|\bfrom so many\b|\bso many (?:examples|layers)\b", "this many"),
    (r"\bturn(?:s|ed|ing)? (?:the sign|the order|round)\b|\border turns\b", "reverses"),
    (r"\bta(?:kes?|ken) (?:it )?off\b", "subtract from"),
    (r"\bgoes on (?:from|there|where)\b|\bcommand goes on\b", "resumes"),
    (r"\breach(?:es)? across\b", "includes"),
    (r"\bone after the other\b", "one after another"),
    (r"\bsays? (?:little|much|nothing) of\b|\bto say of\b", "say about"),
    (r"\bmend (?:the|[a-z_]+\.(?:json|yml))\b", "correct, repair"),
    (r"\banother (?:method|model|question|thing) than\b", "a different ... from; other than"),
    (r"\b(?:that|which) (?:is|are) no (?!better|less|longer|more)[a-z]", "is not a"),
    (r"\bin the place of\b", "in place of"),
    (r"\b(?:for who|Who) (?:wants|knows|asks)\b", "for more; if you want"),
    (r"\b(?:what|which|What|Which) part of\b", "what fraction of"),
    (r"\bthat is meant\b", "the right"),
    (r"\bA half too\b|\bas a half\b", "one half too many; half"),
)
ELSEWHERE = (
    "book/performance.md",
    "notebooks/08_wirings.ipynb",
    "lrp_companion/show/",
    "lrp_book/views/",
    "book/lrp_book/worth.py",
)
PROSE = {
    "book": ("*.md", "*.toml", "*.py"), "notebooks": ("*.ipynb",), "lrp_companion": ("*.py", "*.js"),
    "training": ("*.md",),
}  # fmt: skip


def prose(path: Path) -> str:
    """What a file says: of a notebook its Markdown, of a program all of it, with lines of one text joined."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r'"?\s*\n\s*(?:\* |// |f?")?', " ", text)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    paths = [
        path for folder, kinds in PROSE.items() for kind in kinds for path in (ROOT / folder).rglob(kind)
    ]
    names = {
        str(path.relative_to(ROOT)): path for path in [*paths, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    }
    return {name: prose(path) for name, path in names.items() if not any(part in name for part in ELSEWHERE)}


@pytest.mark.parametrize(("pattern", "better"), STILTED)
def test_stilted_words_do_not_come_back(pattern: str, better: str, written: dict[str, str]) -> None:
    said = {name: match[0] for name, text in written.items() if (match := re.search(pattern, text))}
    assert not said, f"write {better!r}"


def test_a_pattern_finds_what_it_is_for() -> None:
    old = (
        "by the clock; it stands beside the table; beside the table; data of one's own; computed anew; "
        "with so many; turns the sign; taken off the words; goes on from there; reaches across 0; "
        "one after the other; says nothing of it; mend the file; another model than this; "
        "which is no folder; in the place of it; for who wants more; what part of it; "
        "the state that is meant; A half too many"
    )
    assert [pattern for pattern, _ in STILTED if not re.search(pattern, old)] == []


@pytest.mark.parametrize(("phrase", "better"), TRANSLATED)
def test_phrases_that_read_as_translated_do_not_come_back(phrase: str, better: str) -> None:
    folders = {"book": "*.md", "notebooks": "*.ipynb", "lrp_companion": "*.py"}
    paths = [path for folder, kind in folders.items() for path in sorted((ROOT / folder).rglob(kind))]
    for path in [*paths, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        assert phrase not in text, f"{path.relative_to(ROOT)}: write {better!r}"
