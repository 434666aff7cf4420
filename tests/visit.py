"""The visit of a researcher with a model and data of their own: `python tests/visit.py`, in CI in two parts.

The wheels are built, checked by twine, and installed in an empty environment ("own"); what follows
("chapters", such as a third of them: `visit.py chapters FOLDER 2/3`) uses nothing of the checkout but the
built book's zips and the exercises' notebooks, which run on these wheels. Each step prints its time, and the
first that fails ends the visit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWINE = "twine==6.2.0"
SCRIPT = '''"""A model of three classes in memory, explained by words; typed."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

import lrp_companion as lrp

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] the film plot is not very quick but warm dull a of grace ##s ."
WORDS = PIECES.split()


def model() -> tuple[BertForSequenceClassification, BertTokenizerFast]:
    """Return a random classifier and its tokenizer."""
    torch.manual_seed(0)
    labels = dict(enumerate(("bad", "mixed", "good")))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(WORDS), id2label=labels, max_position_embeddings=64, **sizes)
    tokenizer = BertTokenizerFast(vocab={word: k for k, word in enumerate(WORDS)}, model_max_length=64)
    return BertForSequenceClassification(config).eval(), tokenizer


def main(out: Path) -> None:
    """Explain a text and a pair, save what came out, and leave the model in a folder."""
    network, tokenizer = model()
    clf = lrp.load_classifier(network, tokenizer)
    text = "the films is not very quick but warm ."
    methods = ("loo", "attnlrp", "cp-lrp")
    records = {name: lrp.attribute(clf, text, method=name, target="good")[0] for name in methods}
    (pair,) = lrp.attribute(clf, ("the plot is dull", "a film of grace"), method="loo")
    assert len(pair.scores) == len(pair.tokens) == 11
    words = records["attnlrp"].words()
    assert "films" in words.tokens and abs(words.scores.sum() - records["attnlrp"].scores.sum()) < 1e-4
    (whole,) = lrp.attribute(clf, text, method="loo", unit="word", target="good")
    assert whole.tokens == words.tokens
    assert len(records["attnlrp"].top(3)) == 3
    r = lrp.agreement(records["attnlrp"], records["loo"])
    print(f"r with LOO {r:.3f}; " + ", ".join(records["loo"].tokens))
    for ending in (".html", ".svg", ".png", ".pdf", ".json"):
        records["attnlrp"].save(out / f"map{ending}")
    lrp.token_heatmap(list(records.values())).save(out / "methods.html")
    lattice = lrp.layer_lattice(clf, text)
    (loo,) = lrp.attribute(clf, text, method="loo", target=lattice.target)
    lrp.LayerToggles(lattice, loo).save(out / "layers.html")
    network.save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")


if __name__ == "__main__":
    main(Path("out"))
'''
TYPES = """[mypy]
[mypy-torch.*,transformers.*]
follow_imports = skip
"""
REVIEWS = """review,stars
the film is warm,good
the plot is dull,bad
"a film, not quick",mixed
the grace of the film,good
not very warm but quick,mixed
dull plot,bad
"""


class Visit:
    """A folder with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.began = folder, time.perf_counter()
        self.bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")

    def step(self, name: str, *command: str | Path, code: int = 0, says: str = "") -> str:
        """Run a command in the folder; it must end with this code and say this."""
        start = time.perf_counter()
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LRP_"))}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env={**clean, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        print(f"{time.perf_counter() - start:6.1f} s  {name}", flush=True)
        if done.returncode != code or says not in said or (code and "Traceback" in said):
            raise SystemExit(f"{name}: exit {done.returncode}, expected {code} and {says!r}\n{said}")
        return said

    def wheel(self, name: str) -> Path:
        """The wheel of a project."""
        return next((self.folder / "dist").glob(f"{name}-*.whl"))

    def pip(self, name: str, *wanted: str | Path) -> None:
        """Install something through the constraints."""
        quiet = ("--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt")
        self.step(name, self.bin / "python", "-m", "pip", "install", *quiet, *wanted)


def with_numpy_alone(visit: Visit, wheel: Path) -> None:
    """Run the exercises where there is neither torch nor the rest of the project."""
    visit.bin = visit.folder / "bare" / visit.bin.name
    venv.create(visit.folder / "bare", with_pip=True)
    visit.pip("the exercises", wheel, "papermill", "ipykernel")
    alone = "from importlib.util import find_spec as f; assert not f('torch') and not f('lrp_companion')"
    visit.step("NumPy alone", visit.bin / "python", "-c", alone)
    for notebook in sorted((ROOT / "notebooks" / "exercises").glob("*.ipynb")):
        words = ("--no-progress-bar", "--log-level", "CRITICAL")
        command = visit.bin / "papermill"
        visit.step(notebook.stem, command, "-k", "python3", notebook, f"{notebook.stem}.out.ipynb", *words)


def own(visit: Visit) -> None:
    """A model and data of one's own in an environment made from wheels."""
    folder = visit.folder
    venv.create(folder / "env", with_pip=True)
    visit.step("wheels", visit.bin / "python", ROOT / "packaging" / "build.py", "dist")
    code, model = (visit.wheel(name) for name in ("lrp_companion", "lrp_companion_model"))
    assert code.stat().st_size < 2e6, "a release of the code stays under 2 MB"
    held = {file.partition("/")[0] for file in zipfile.ZipFile(code).namelist()}
    assert {part.partition("-")[0] for part in held} == {"lrp_companion"}, "nothing of the book is in it"
    visit.pip("twine", TWINE)
    visit.step("twine check", visit.bin / "twine", "check", "--strict", *sorted((folder / "dist").iterdir()))
    visit.pip("the code alone", code)
    command = visit.bin / "lrp-companion"
    explain = (command, "explain", "a film of rare grace")
    visit.step("no weights", *explain, code=2, says="pip install lrp-companion-model")
    visit.pip("the weights", "--no-deps", model)
    visit.step("the embedded model", *explain, "--method", "cp-lrp", says="positive")
    visit.step("no captum", *explain, "--method", "ig", code=2, says='pip install "lrp-companion[ig]"')
    visit.step("no matplotlib", *explain, "--out", "x.png", code=2, says="[lab]")
    visit.pip("the extras", f"{code}[ig,lab,page]", "mypy")
    (folder / "own.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "out").mkdir()
    (folder / "mypy.ini").write_text(TYPES, encoding="utf-8")
    visit.step("types", visit.bin / "mypy", "--strict", "own.py")
    visit.step("own model in memory", visit.bin / "python", "own.py", says="r with LOO")
    (folder / "reviews.csv").write_text(REVIEWS, encoding="utf-8")
    run = (command, "run", "reviews.csv", "--text", "review", "--label", "stars", "--model", "out/model")
    visit.step("own data", *run, "--out", "runs/own", "--masks", "all", "--quiet", says="6 examples")
    visit.step("report", command, "report", "runs/own", "--out", "report", says="report")
    pieces = {path.suffix for path in (folder / "report").iterdir()}
    assert {".txt", ".csv", ".tex"} <= pieces, pieces


def main(part: str = "", place: str = "", which: str = "1/1") -> None:
    """Make the visit."""
    with tempfile.TemporaryDirectory() as name:
        visit = Visit(Path(place or name))
        if part != "chapters":
            own(visit)
        if part != "own":
            from travel import chapters  # "own" needs nothing that is not in Python

            visit.pip("the book's tools", f"{visit.wheel('lrp_companion')}[book]")
            chapters(visit.bin / "python", visit.folder, which=which)
            with_numpy_alone(visit, visit.wheel("lrp_exercises"))
        print(f"{time.perf_counter() - visit.began:6.1f} s  in all")


if __name__ == "__main__":
    main(*sys.argv[1:])
