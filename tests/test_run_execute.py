"""A run that is stopped and given again ends with the rows of an undisturbed one; so do two processes."""

from __future__ import annotations

import io
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import lrp_companion
from lrp_companion.cli import main
from lrp_companion.lab import execute, review_jobs
from lrp_companion.lab.folder import DEFAULT_METHODS, read_folder
from lrp_companion.lab.load import load_run
from lrp_companion.sources import VARIABLE, load_dataset

PACKAGE = Path(lrp_companion.__file__).resolve().parents[1]
COMMAND = ("-m", "lrp_companion")
LIMIT = 8
PATIENCE = 300  # seconds after which a child is given up


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One thread in every process, this package in every child, and no data folder by chance."""
    for name, value in (
        ("OMP_NUM_THREADS", "1"),
        ("PYTHONPATH", str(PACKAGE)),
        (VARIABLE, str(tmp_path / "nowhere")),
    ):
        monkeypatch.setenv(name, value)
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def model(model_folder) -> Path:
    return model_folder("bert", layers=3, labels=3)


def arguments(model: Path, out: Path, *more: str, task: str = "sst2", limit: int = LIMIT) -> list[str]:
    common = shlex.split("--source embedded --dtype float64 --n-steps 2")
    return ["run", task, "--out", str(out), "--model", str(model), "--limit", str(limit), *common, *more]


ALL = ("--masks", "all", "--quiet")


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory) -> Path:
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(arguments(model, out, *ALL)) == 0
    return out


def rows(out: Path) -> dict[str, str]:
    """All rows of a run to the last bit, but for the seconds that they took."""
    return {
        name: repr(table.drop_columns([c for c in table.column_names if c == "seconds"]).to_pylist())
        for name, table in read_folder(out)[1].items()
    }


def same(out: Path, whole: Path) -> None:
    manifest, known = (read_folder(path)[0] for path in (out, whole))
    assert manifest["finished"] and manifest["key"] == known["key"]
    assert manifest["examples"] == known["examples"]
    assert rows(out) == rows(whole)
    assert {file.name for file in out.iterdir()} == {file.name for file in whole.iterdir()}


def shards(out: Path, since: int = 0) -> int:
    """How many shards there are, of which a part, or the whole folder, may be gone in a moment."""
    count = 0
    with suppress(FileNotFoundError):
        for name in os.listdir(out / "shards"):
            with suppress(FileNotFoundError):
                count += name.endswith(".parquet") and (out / "shards" / name).stat().st_mtime_ns >= since
    return count


class TestStopped:
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
    def test_ctrl_c_says_what_is_kept_and_the_run_goes_on(self, model, whole, tmp_path, how):
        out = tmp_path / "run"

        def heed() -> None:  # what runs in a shell's background is started deaf to Ctrl-C
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        command = [sys.executable, *COMMAND, *arguments(model, out, *ALL)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as child:
            end = time.monotonic() + PATIENCE
            while not shards(out):
                assert child.poll() is None and time.monotonic() < end
                time.sleep(0.002)
            child.send_signal(how)
            _, said = child.communicate(timeout=PATIENCE)
        assert child.returncode == 130
        assert said.splitlines() == [
            f"run: stopped; finished jobs are kept in {out}; the same command resumes the run",
            "interrupted",
        ]
        manifest = read_folder(out)[0]
        assert manifest["sessions"][0]["stopped by"] == "KeyboardInterrupt" and not manifest["finished"]
        assert manifest["sessions"][0]["end"] >= manifest["sessions"][0]["start"]
        assert main(arguments(model, out, *ALL, "--resume")) == 0
        same(out, whole)

    def test_a_larger_limit_adds_to_a_run_and_more_tables_too(self, model, whole, tmp_path):
        for limit, masks in ((3, "none"), (5, "all"), (2, "paths"), (LIMIT, "all")):
            assert main(arguments(model, tmp_path, "--masks", masks, "--quiet", limit=limit)) == 0
            manifest, tables = read_folder(tmp_path)
            assert manifest["examples"] == max(limit, 5 if masks == "paths" else 0) and manifest["finished"]
        same(tmp_path, whole)
        again = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.parquet") if "_" not in file.name}
        assert main(arguments(model, tmp_path, *ALL)) == 0  # nothing left to do
        assert again == {file: file.stat().st_mtime_ns for file in again}
        same(tmp_path, whole)


class TestProcesses:
    @pytest.mark.skipif(torch.cuda.is_available(), reason="--multi_gpu wants one GPU for each process")
    def test_accelerate_launch_is_the_same_run(self, model, whole, tmp_path):
        """`--cpu` would start one process only, for want of MPI; without a GPU `--multi_gpu` means gloo."""
        few = shlex.split("--num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no")
        few += ["--main_process_port", "0"]
        launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", *few]
        done = subprocess.run(
            [*launch, *COMMAND, *arguments(model, tmp_path / "run", *ALL)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # one process speaks for both
        assert done.stdout.count("run ") == 1 and f"{LIMIT} examples" in done.stdout
        same(tmp_path / "run", whole)
        assert read_folder(tmp_path / "run")[0]["sessions"][0]["processes"] == 2

    def test_each_job_has_one_owner_and_every_process_its_device(self, monkeypatch):
        class State:
            local_process_index = 3

        assert execute.device_of("cuda", State) == "cuda:3" and execute.device_of("cuda:1", State) == "cuda:1"
        assert execute.device_of("cuda", None) == "cuda" and execute.device_of("cpu", State) == "cpu"
        assert execute.world("cpu") is None
        asked = []
        monkeypatch.setattr("accelerate.PartialState", lambda **options: asked.append(options["cpu"]))
        monkeypatch.setenv("WORLD_SIZE", "2")
        here = ((True, "cuda", ""), (True, "cuda", "true"), (True, "cpu", ""), (False, "cpu", ""))
        for gpu, device, flag in here:
            monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
            monkeypatch.setenv("ACCELERATE_USE_CPU", flag)
            execute.world(device)
        assert asked == [False, True, True, True]


class TestTelling:
    def test_loo_of_another_run_is_taken_where_it_is_there(self, model, whole, tmp_path, monkeypatch, capsys):
        methods = ",".join(DEFAULT_METHODS[:0:-1])
        given = [*arguments(model, tmp_path / "run"), "--methods", methods, "--masks", "none", "--quiet"]
        assert main([*given, "--limit", str(LIMIT + 1)]) == 0
        asked: list[str] = []
        real = review_jobs.kept_logits

        def counting(clf, jobs, **more):
            asked.extend(text.text for text, _ in jobs[1:])  # one whole text alone is a comparison, no LOO
            return real(clf, jobs, **more)

        monkeypatch.setattr(review_jobs, "kept_logits", counting)
        given[3] = str(tmp_path / "other")
        assert main([*given, "--limit", str(LIMIT + 1), "--loo-from", str(whole)]) == 0
        data = load_dataset("sst2", source="embedded")
        # the one text that the other run does not hold
        assert set(asked) == {data.texts[data.order(LIMIT + 1, seed=0)[LIMIT]]}
        assert rows(tmp_path / "other") == rows(tmp_path / "run")
        manifest, tables = read_folder(tmp_path / "other")
        known, known_tables = read_folder(whole)
        assert manifest["loo from"] == known["key"] and "loo from" not in known
        taken = set(known_tables["examples"]["job"].to_pylist())
        for row in tables["examples"].to_pylist():  # how long it took elsewhere is not told
            assert all((second > 0) != (row["job"] in taken) for second in row["seconds"])

    def test_fewer_removals_and_targets_are_a_part_of_the_whole(self, model, whole, tmp_path):
        fewer = "--quiet --removals mask-token,attention-mask --targets probability,logit"
        given = [*arguments(model, tmp_path / "run"), *shlex.split(fewer)]
        assert main(given) == 0
        given[3] = str(tmp_path / "taken")
        assert main([*given, "--loo-from", str(whole)]) == 0
        assert rows(tmp_path / "taken") == rows(tmp_path / "run")
        full, part = load_run(whole), load_run(tmp_path / "run")
        assert part.manifest["config"]["removals"] == ["attention-mask", "mask-token"]
        assert part.manifest["config"]["targets"] == ["logit", "probability"]
        for explanation in ("loo", "ig", "attnlrp", "gradient-x-input", [1], [2, 3]):
            for removal, target in itertools.product(
                ("attention-mask", "mask-token"), ("logit", "margin", "probability")
            ):
                protocol = lrp_companion.Protocol(removal=removal, target=target, tokens="all")
                wanted = full.r(explanation, protocol)
                if (
                    target == "margin" and explanation != "loo"
                ):  # LOO's own comes from logits, whatever is explained
                    wanted = np.full_like(wanted, np.nan)
                np.testing.assert_array_equal(part.r(explanation, protocol), wanted)
        with pytest.raises(KeyError, match="removal"):
            part.r("attnlrp", lrp_companion.Protocol(removal="delete"))

    @pytest.mark.parametrize("more", [("--dtype", "float32"), ("--source", "folder"), ("--model", "other")])
    def test_loo_of_another_run_of_something_else_is_refused(
        self, model_folder, model, whole, tmp_path, monkeypatch, refused, more
    ):
        (tmp_path / "data" / "sst2").mkdir(parents=True)
        pq.write_table(
            pa.table({"sentence": ["a warm film"] * LIMIT, "label": [1] * LIMIT}),
            tmp_path / "data/sst2/validation.parquet",
        )
        monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
        if more[0] == "--model":
            more = ("--model", str(model_folder("bert", layers=2, labels=3)))
        line = refused([*arguments(model, tmp_path / "run"), *more, "--quiet", "--loo-from", str(whole)])
        name = {
            "--dtype": "dtype float64; expected dtype float32",
            "--source": "data ",
            "--model": "weights ",
        }[more[0]]
        assert f"LOO from {whole} with " + name in line and not (tmp_path / "run").exists()


@pytest.fixture
def digits(tmp_path: Path) -> Iterator[Path]:
    """A few drawn digits as the hub holds MNIST: 28 x 28 PNG under image.bytes."""
    rng = np.random.default_rng(0)
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    for split, count in (("train", 20), ("test", 4)):
        images = []
        for k in range(count):
            pixels = (40 * rng.random((28, 28))).astype(np.uint8)
            pixels[2 * (k % 10) : 2 * (k % 10) + 6, 4:24] = 230
            raw = io.BytesIO()
            Image.fromarray(pixels).save(raw, "png")
            images.append({"bytes": raw.getvalue(), "path": None})
        pq.write_table(
            pa.table({"image": images, "label": [k % 10 for k in range(count)]}),
            tmp_path / "data" / "mnist" / f"{split}.parquet",
        )
    yield tmp_path / "data"


def test_mnist_from_a_folder_by_the_same_command(digits, tmp_path, capsys):
    call = ["run", "mnist", "--source", "folder", "--data-dir", str(digits), "--quiet", "--out"]
    assert main([*call, str(tmp_path / "grown"), "--nets", "1", "--limit", "1"]) == 0
    for out in ("grown", "whole"):
        assert main([*call, str(tmp_path / out), "--nets", "2", "--limit", "2"]) == 0
    same(tmp_path / "grown", tmp_path / "whole")
    assert "2 examples of mnist/test from folder: 4 images" in capsys.readouterr().out


@pytest.mark.skipif(not (PACKAGE / ".git").exists(), reason="no checkout")
def test_a_run_from_a_checkout_has_its_commit() -> None:
    told = subprocess.check_output(["git", "-C", str(PACKAGE), "rev-parse", "HEAD"], text=True)
    assert told.startswith(str(execute._commit()).removesuffix("+"))
