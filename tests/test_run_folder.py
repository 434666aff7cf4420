"""The folder of a run: whole rows or none, each job once, rows of one configuration alone."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lrp_companion import lab
from lrp_companion.checks import InputError, SourceError
from lrp_companion.lab.folder import FORMAT, JOB, RunFolder, key_of, open_folder, read_folder

CONFIG = {"task": "sst2", "seed": 0, "methods": ["loo", "ig"], "dtype": "float64"}


def some(job: int) -> pa.Table:
    """Rows of a job: a text column, a number, and lists of one length and of several."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array([job + 0.25, -1.5, 0.1, 1e-9], pa.float32()), 2)
    return pa.table(
        {
            "method": ["loo", "ig"],
            "seconds": [0.5, job / 3],
            "r": lists,
            "after": pa.array([[0.1] * job, [job / 7]], pa.list_(pa.float64())),
        }
    )


def filled(path: Path, jobs: range, *, gather: bool = True, config: dict = CONFIG) -> Path:
    with open_folder(path, config) as folder:
        folder.write_manifest({"format": FORMAT, "key": key_of(config), "config": config, "sessions": []})
        for job in jobs:
            folder.add("methods", job, some(job))
        if gather:
            folder.gather()
    return path


def content(path: Path) -> list[dict]:
    return read_folder(path)[1]["methods"].to_pylist()


def expected(jobs) -> list[dict]:
    return [row | {JOB: job} for job in jobs for row in some(job).to_pylist()]


def refused(path: Path, words: str, config: dict = CONFIG, *, read: bool = True) -> None:
    """Neither a run goes on there, nor is it read."""
    with pytest.raises((InputError, SourceError), match=words), open_folder(path, config):
        pass
    if read:
        with pytest.raises(SourceError, match=words):
            read_folder(path)


def names(path: Path) -> set[str]:
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}


class TestRows:
    def test_what_goes_in_comes_out_whatever_the_order_and_the_stage(self, tmp_path):
        jobs, place = [4, 0, 1_000_007, 12], tmp_path / "new" / "run"
        with open_folder(place, CONFIG) as folder:
            folder.write_manifest({"format": FORMAT, "key": folder.key, "config": CONFIG})
            for job in jobs:
                folder.add("methods", job, some(job))
            assert folder.done == {"methods": set(jobs)}
            by_job = {job: folder.rows("methods", job) for job in jobs}
            before = content(place)
            folder.gather()
            assert all(folder.rows("methods", job).equals(rows) for job, rows in by_job.items())
        with open_folder(place, CONFIG) as folder:
            folder.add("methods", 3, some(3))
            for _ in range(2):
                assert folder.rows("methods", 3).to_pylist() == expected([3])
                assert folder.rows("methods", 4).to_pylist() == expected([4])
                folder.gather()
            folder.summarise("lattice_means", pa.table({"mean": [0.5]}))
        assert before == expected(sorted(jobs)) and content(place) == expected(sorted([*jobs, 3]))
        assert names(place) == {"manifest.json", "methods.parquet", "lattice_means.parquet"}
        with open_folder(place, CONFIG) as folder:
            assert folder.done == {"methods": {*jobs, 3}}  # a summary is no table of jobs
        assert read_folder(place)[1]["lattice_means"].to_pylist() == [{"mean": 0.5}]

    def test_a_job_in_shard_and_gathered_file_counts_once(self, tmp_path):
        """The machine goes down after the gathered file stands and before the shards are gone."""
        filled(tmp_path, range(4), gather=False)
        assert content(tmp_path) == expected(range(4))
        kept = {file: file.read_bytes() for file in (tmp_path / "shards").glob("*.parquet")}
        with open_folder(tmp_path, CONFIG) as folder:
            folder.gather()
        (tmp_path / "shards").mkdir()
        for file, raw in kept.items():
            file.write_bytes(raw)
        assert content(tmp_path) == expected(range(4))
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done == {"methods": set(range(4))}
            folder.add("methods", 9, some(9))
            folder.gather()
        assert content(tmp_path) == expected([*range(4), 9])
        assert names(tmp_path) == {"manifest.json", "methods.parquet"}


class TestWrites:
    @pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
    def test_a_full_disk_leaves_what_was_there(self, tmp_path, monkeypatch, step):
        filled(tmp_path, range(2), gather=False)

        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        class Half:
            """A file that takes the first bytes only."""

            def __init__(self, *given: object, **more: object) -> None:
                self.file = open(*given, **more)  # noqa: SIM115

            def __enter__(self) -> Half:
                return self

            def __exit__(self, *_: object) -> None:
                self.file.close()

            def write(self, raw: object) -> None:
                self.file.write(bytes(raw)[:10])
                full()

        for write in (
            lambda folder: folder.add("methods", 3, some(3)),
            RunFolder.gather,
            lambda folder: folder.write_manifest({}),
        ):
            with open_folder(tmp_path, CONFIG) as folder, monkeypatch.context() as patch:
                if step in ("open", "write"):
                    patch.setattr(lab.folder, "open", full if step == "open" else Half, raising=False)
                else:
                    patch.setattr(os, step, full)
                with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                    write(folder)
                assert folder.done == {"methods": {0, 1}}
            assert content(tmp_path) == expected(range(2))
        with open_folder(tmp_path, CONFIG) as folder:
            folder.add("methods", 3, some(3))
        assert content(tmp_path) == expected([0, 1, 3])
        assert not [name for name in names(tmp_path) if name.endswith(".part")]

    @pytest.mark.parametrize("left", [[], ["shards"], ["shards", "manifest.json.part"], ["shards", ".lock"]])
    def test_a_run_killed_before_its_manifest_stood_begins_anew(self, tmp_path, left):
        for name in left:
            (tmp_path / name).mkdir() if name == "shards" else (tmp_path / name).write_bytes(b"")
        assert content(filled(tmp_path, range(2))) == expected(range(2))

    def test_what_a_killed_run_left_half_written_is_removed(self, tmp_path):
        filled(tmp_path, range(2), gather=False)
        for name in ("manifest.json.part", "methods.parquet.part", "shards/methods-000000002.parquet.part"):
            (tmp_path / name).write_bytes(b"PAR1 half")
        assert content(tmp_path) == expected(range(2))
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done == {"methods": {0, 1}}
        assert not [name for name in names(tmp_path) if name.endswith(".part")]

    def test_a_link_in_the_folder_empties_no_file(self, tmp_path):
        precious, run = tmp_path / "precious", tmp_path / "run"
        precious.write_text("here first")
        filled(run, range(2)).joinpath("manifest.json").unlink()
        for name in ("manifest.json", "other.part"):
            (run / name).symlink_to(precious)
        lab.folder._write_bytes(run / "manifest.json", b"{}")
        with pytest.raises(OSError):
            lab.folder._write_bytes(run / "other", b"gone")
        assert precious.read_text() == "here first" and not (run / "manifest.json").is_symlink()
        (run / ".lock").symlink_to(precious)
        with pytest.raises(OSError), open_folder(run, CONFIG):
            pass
        assert precious.read_text() == "here first"


class TestOwners:
    def test_a_second_run_at_once_is_refused_and_the_first_goes_on(self, tmp_path):
        with open_folder(tmp_path, CONFIG) as folder:
            folder.write_manifest({"format": FORMAT, "key": folder.key, "config": CONFIG})
            refused(tmp_path, "where a run is at work", read=False)
            with open_folder(tmp_path, CONFIG, first=False) as second:  # another process of the same run
                second.add("methods", 1, some(1))
            folder.add("methods", 0, some(0))
        assert content(tmp_path) == expected(range(2))
        (tmp_path / ".lock").write_bytes(b"")  # of a killed run: it keeps nobody out
        with open_folder(tmp_path, CONFIG) as folder, open(tmp_path / ".lock") as other:
            assert folder.done == {"methods": {0, 1}}
            with pytest.raises(OSError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_another_configuration_is_refused_by_its_fields(self, tmp_path):
        filled(tmp_path, range(2))
        words = r"another run \(seed: 0 there, 7 now; model: None there, 'x' now\)"
        refused(tmp_path, words, CONFIG | {"seed": 7, "model": "x"}, read=False)
        assert content(tmp_path) == expected(range(2))
        file = tmp_path / "manifest.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"whole in": "commit abc"}))
        refused(tmp_path, "a record without all of its columns, whole in commit abc", read=False)

    def test_files_of_others_are_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("")
        refused(tmp_path, "thesis.tex and no manifest.json", read=False)
        filled(tmp_path / "run", range(2), gather=False)
        (tmp_path / "run" / "manifest.json").unlink()
        refused(tmp_path / "run", "shards and no manifest.json", read=False)

    def test_rows_of_another_run_are_refused_wherever_they_are(self, tmp_path):
        folder = filled(tmp_path / "one", range(2))
        other = filled(tmp_path / "two", range(2, 3), gather=False, config=CONFIG | {"seed": 1})
        stray = folder / "shards" / "methods-000000002.parquet"
        stray.parent.mkdir()
        (other / "shards" / stray.name).rename(stray)
        refused(folder, f"with rows of run {key_of(CONFIG | {'seed': 1})}")
        stray.unlink()
        assert content(folder) == expected(range(2))
        pq.write_table(pa.table({"x": [1]}), folder / "figures.parquet")
        refused(folder, "figures.parquet with rows of run unknown")


class TestSpoilt:
    @pytest.mark.parametrize("raw", [b"", b"no parquet here", None])
    @pytest.mark.parametrize("name", ["shards/methods-000000001.parquet", "methods.parquet"])
    def test_a_spoilt_table_is_named_and_without_it_the_rest_is_there(self, tmp_path, name, raw):
        file = filled(tmp_path, range(3), gather="shards" not in name) / name
        file.write_bytes(file.read_bytes()[:-40] if raw is None else raw)
        refused(tmp_path, f"{file}, which cannot be read .*remove {file.name} and repeat the same run")
        file.unlink()
        rest = {0, 2} if "shards" in name else set()
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done.get("methods", set()) == rest
            for job in {0, 1, 2} - rest:
                folder.add("methods", job, some(job))
        assert content(tmp_path) == expected(range(3))

    def test_a_bit_that_turned_is_told_and_not_read_as_a_number(self, tmp_path):
        file = filled(tmp_path, range(40)) / "methods.parquet"
        raw, good, draw = file.read_bytes(), repr(content(tmp_path)), np.random.default_rng(0)
        outcomes = []
        for place in draw.integers(4, len(raw) - 8, 100):
            file.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << draw.integers(8)]) + raw[place + 1 :])
            try:
                outcomes.append("same" if repr(content(tmp_path)) == good else "wrong")
            except Exception:
                outcomes.append("told")
        # pages have checksums, the few bytes about them have not
        assert outcomes.count("wrong") <= 3 and outcomes.count("told") > 50, outcomes

    def test_a_manifest_that_was_edited_is_refused(self, tmp_path):
        file = filled(tmp_path, range(2)) / "manifest.json"
        file.write_text(file.read_text().replace('"seed": 0', '"seed": 3'))
        refused(tmp_path, "whose key or format does not fit", CONFIG | {"seed": 3})
        (tmp_path / "empty").mkdir()
        with pytest.raises(SourceError, match="which has no manifest.json"):
            read_folder(tmp_path / "empty")


def test_a_key_depends_on_what_is_said_not_on_its_order():
    assert key_of(CONFIG) == key_of(dict(reversed(CONFIG.items()))) == RunFolder(Path("x"), CONFIG).key
    assert len({key_of(CONFIG | {name: 99}) for name in CONFIG} | {key_of(CONFIG)}) == len(CONFIG) + 1
