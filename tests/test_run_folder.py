"""The folder of a run: whole rows or none, each job once, one clear line for all that is wrong with it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lrp_companion import lab
from lrp_companion.checks import CompanionError, InputError, SourceError
from lrp_companion.lab import folder as folder_module
from lrp_companion.lab.folder import FORMAT, JOB, RunError, RunFolder, key_of, open_folder, read_folder

CONFIG = {"task": "sst2", "seed": 0, "methods": ["loo", "ig"], "dtype": "float64"}
SHAPE = re.compile(r"^\w+: got .+; expected .+\. Next step: .+\.$")


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


def refused(kind: type[CompanionError], path: Path, config: dict = CONFIG) -> str:
    with pytest.raises(kind) as caught, open_folder(path, config):
        pass
    assert SHAPE.match(str(caught.value)), caught.value
    return str(caught.value)


def told(path: Path) -> tuple[str, str]:
    """What is said to those who would go on with a run, and to those who read it."""
    return refused(SourceError, path), str(pytest.raises(SourceError, read_folder, path).value)


def names(path: Path) -> set[str]:
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}


class TestRows:
    def test_what_goes_in_comes_out_whatever_the_order_and_the_stage(self, tmp_path):
        jobs = [4, 0, 1_000_007, 12]
        with open_folder(tmp_path / "new" / "run", CONFIG) as folder:
            folder.write_manifest({"format": FORMAT, "key": folder.key, "config": CONFIG})
            for job in jobs:
                folder.add("methods", job, some(job))
            assert folder.done == {"methods": set(jobs)}
            by_job = {job: folder.rows("methods", job) for job in jobs}
            before = read_folder(folder.path)[1]["methods"]
            folder.gather()
            for job in jobs:
                assert folder.rows("methods", job).equals(by_job[job])
        place = tmp_path / "new" / "run"
        with open_folder(place, CONFIG) as folder:
            assert folder.rows("methods", 4).to_pylist() == expected([4])
            folder.add("methods", 3, some(3))
            assert folder.rows("methods", 3).to_pylist() == expected([3])
            folder.gather()
            assert folder.rows("methods", 3).to_pylist() == expected([3])
        assert before.to_pylist() == expected(sorted(jobs)) and content(place) == expected(sorted([*jobs, 3]))
        assert names(place) == {"manifest.json", "methods.parquet"}
        with open_folder(place, CONFIG) as folder:
            assert folder.done == {"methods": {*jobs, 3}}
            assert folder.rows("methods", 12).to_pylist() == expected([12])

    def test_shards_are_read_as_they_are(self, tmp_path):
        assert content(filled(tmp_path, range(3), gather=False)) == expected(range(3))
        assert {"shards/methods-000000000.parquet", "manifest.json"} < names(tmp_path)

    def test_a_job_in_shard_and_gathered_file_counts_once(self, tmp_path):
        """The machine goes down after the gathered file stands and before the shards are gone."""
        filled(tmp_path, range(4), gather=False)
        kept = {file: file.read_bytes() for file in (tmp_path / "shards").glob("*.parquet")}
        with open_folder(tmp_path, CONFIG):
            pass
        (tmp_path / "shards").mkdir(exist_ok=True)
        for file, raw in kept.items():
            file.write_bytes(raw)
        assert content(tmp_path) == expected(range(4))
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done == {"methods": set(range(4))}
            folder.add("methods", 9, some(9))
            folder.gather()
        assert content(tmp_path) == expected([*range(4), 9])
        assert names(tmp_path) == {"manifest.json", "methods.parquet"}

    def test_a_shard_is_gone_only_when_its_rows_stand_elsewhere(self, tmp_path, monkeypatch):
        filled(tmp_path, range(3), gather=False)
        monkeypatch.setattr(
            lab.folder,
            "_write_table",
            lambda *_: (_ for _ in ()).throw(SourceError("run", got="", expected="", hint="")),
        )
        with pytest.raises(SourceError), open_folder(tmp_path, CONFIG):
            pass
        assert content(tmp_path) == expected(range(3))

    def test_summaries_stand_beside_the_rows_and_are_no_jobs(self, tmp_path):
        with open_folder(filled(tmp_path, range(2)), CONFIG) as folder:
            folder.summarise("lattice_means", pa.table({"mean": [0.5]}))
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done == {"methods": {0, 1}}
        assert read_folder(tmp_path)[1]["lattice_means"].to_pylist() == [{"mean": 0.5}]

    def test_weights_are_kept_to_the_last_bit(self, tmp_path):
        import torch

        weights = {"a": torch.randn(3, 4, dtype=torch.float64).mT, "b": torch.zeros(2)}
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.weights("net.safetensors") is None
            folder.add_weights("net.safetensors", weights)
            kept = folder.weights("net.safetensors")
        assert kept is not None and all(kept[name].equal(weights[name]) for name in weights)

    def test_weights_that_are_not_those_that_were_kept_are_refused(self, tmp_path):
        """Every bit of the file: flipped in an exponent, a number would be another and look as good."""
        import torch
        from safetensors.torch import save_file

        net = tmp_path / "nets" / "net.safetensors"
        with open_folder(tmp_path, CONFIG) as folder:
            folder.add_weights(net.name, {"a": torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)})
            good = net.read_bytes()
            for place in range(len(good)):
                net.write_bytes(good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :])
                with pytest.raises(
                    SourceError, match="remove net.safetensors and repeat the same run command"
                ):
                    folder.weights(net.name)
            net.write_bytes(good[:-8])
            with pytest.raises(SourceError, match="which cannot be used"):
                folder.weights(net.name)
            save_file({"a": torch.zeros(2)}, net)  # weights without a checksum
            with pytest.raises(SourceError, match="its checksum does not fit"):
                folder.weights(net.name)
            net.write_bytes(good)
            assert folder.weights(net.name) is not None


class TestWrites:
    @pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "folder"])
    def test_a_full_disk_leaves_what_was_there_and_nothing_else(self, tmp_path, monkeypatch, step):
        filled(tmp_path, range(2), gather=False)
        before = names(tmp_path)

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

        with open_folder(tmp_path, CONFIG) as folder:
            folder.add("methods", 2, some(2))
            with monkeypatch.context() as patch:
                if step in ("open", "write"):
                    patch.setattr(lab.folder, "open", full if step == "open" else Half, raising=False)
                elif step == "folder":
                    patch.setattr(os, "open", full)
                else:
                    patch.setattr(os, step, full)
                for write in (
                    lambda: folder.add("methods", 3, some(3)),
                    folder.gather,
                    lambda: folder.write_manifest({}),
                ):
                    if step == "folder":
                        continue  # by then the file stands: see below
                    with pytest.raises(RunError) as caught:
                        write()
                    assert SHAPE.match(str(caught.value))
                    assert (
                        f"cannot be written ({os.strerror(errno.ENOSPC)}); expected room and permission in"
                        in str(caught.value)
                    )
                    assert "finished jobs are kept" in str(caught.value)
                if step == "folder":
                    with pytest.raises(RunError, match="which cannot be written"):
                        folder.add("methods", 3, some(3))
            assert folder.done == {"methods": {0, 1, 2}}
        assert not [name for name in names(tmp_path) if name.endswith(".part")]
        assert content(tmp_path)[:6] == expected(range(3))
        if step != "folder":
            assert names(tmp_path) == {"manifest.json", "methods.parquet", "shards/methods-000000002.parquet"}
            assert len(before) == 3
        with open_folder(tmp_path, CONFIG) as folder:
            folder.add("methods", 3, some(3))
        assert content(tmp_path) == expected(range(4))

    def test_what_a_killed_run_left_half_written_is_removed(self, tmp_path):
        filled(tmp_path, range(2), gather=False)
        for name in (
            "manifest.json.77.part",
            "methods.parquet.77.part",
            "shards/methods-000000002.parquet.77.part",
        ):
            (tmp_path / name).write_bytes(b"PAR1 half")
        assert content(tmp_path) == expected(range(2))
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done == {"methods": {0, 1}}
        assert names(tmp_path) == {"manifest.json", "methods.parquet"}

    @pytest.mark.parametrize(
        "left", [[], ["shards"], ["shards", "manifest.json.77.part"], ["shards", ".lock", ".probe.part"]]
    )
    def test_a_run_killed_before_its_manifest_stood_begins_anew(self, tmp_path, left):
        for name in left:
            (tmp_path / name).mkdir() if name == "shards" else (tmp_path / name).write_bytes(b"")
        assert content(filled(tmp_path, range(2))) == expected(range(2))

    def test_a_file_in_the_way_and_a_folder_that_takes_nothing(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("here first")
        for path in (tmp_path / "file", tmp_path / "file" / "run"):
            assert f"--out {path}, which cannot be written (" in refused(InputError, path)
        assert (tmp_path / "file").read_text() == "here first"

        def denied(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "touch", denied)
        assert (
            "cannot be written (Permission denied); expected a folder that can be made and written"
            in refused(InputError, tmp_path)
        )

    def test_a_link_in_the_folder_empties_no_file(self, tmp_path, monkeypatch):
        precious, run = tmp_path / "precious", tmp_path / "run"
        precious.write_text("here first")
        run.mkdir()
        for name in (".probe.part", "manifest.json", f"methods.parquet.{os.getpid()}.part", ".probe"):
            (run / name).symlink_to(precious)
            if name == "manifest.json":
                (run / name).unlink()
        filled(run, range(2))
        (run / "manifest.json").unlink()
        (run / "manifest.json").symlink_to(precious)
        folder_module._write_bytes(run / "manifest.json", b"{}")
        assert precious.read_text() == "here first" and not (run / "manifest.json").is_symlink()
        monkeypatch.setattr(folder_module.secrets, "token_hex", lambda _: "foreseen")
        (run / "other.foreseen.part").symlink_to(precious)
        with pytest.raises(RunError, match="cannot be written"):
            folder_module._write_bytes(run / "other", b"gone")
        assert precious.read_text() == "here first"

    def test_a_lock_that_is_a_link_empties_no_file(self, tmp_path):
        precious, run = tmp_path / "precious", tmp_path / "run"
        precious.write_text("here first")
        run.mkdir()
        (run / ".lock").symlink_to(precious)
        with pytest.raises(OSError), open_folder(run, CONFIG):
            pass
        assert precious.read_text() == "here first"


class TestOwners:
    def test_a_second_run_at_once_is_refused_and_the_first_goes_on(self, tmp_path):
        with open_folder(tmp_path, CONFIG) as folder:
            folder.write_manifest({"format": FORMAT, "key": folder.key, "config": CONFIG})
            for _ in range(2):
                assert f"{tmp_path}, where a run is at work; expected a folder of its own" in refused(
                    InputError, tmp_path
                )
            with open_folder(tmp_path, CONFIG, first=False) as second:  # another process of the same run
                second.add("methods", 1, some(1))
            folder.add("methods", 0, some(0))
        assert content(tmp_path) == expected(range(2))
        with open_folder(tmp_path, CONFIG):
            pass  # and when it is done, the next may begin

    def test_the_lock_of_a_killed_run_keeps_nobody_out(self, tmp_path):
        (filled(tmp_path, range(1)) / ".lock").write_bytes(b"")
        with open_folder(tmp_path, CONFIG) as folder, open(tmp_path / ".lock") as other:
            assert folder.done == {"methods": {0}}
            with pytest.raises(OSError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_another_configuration_is_refused_by_its_fields(self, tmp_path):
        filled(tmp_path, range(2))
        text = refused(InputError, tmp_path, CONFIG | {"seed": 7, "methods": ["ig", "loo"]})
        assert (
            "holds another run (seed: 0 there, 7 now; methods: ['loo', 'ig'] there, ['ig', 'loo'] now)"
            in text
            and "dtype" not in text
        )
        assert "chunk: not recorded there, 16 now" in refused(InputError, tmp_path, CONFIG | {"chunk": 16})
        without = {name: value for name, value in CONFIG.items() if name != "dtype"}
        assert "dtype: 'float64' there, not recorded now" in refused(InputError, tmp_path, without)
        assert content(tmp_path) == expected(range(2))

    @pytest.mark.parametrize("name", ["thesis.tex", "methods.parquet", "shards/methods-000000000.parquet"])
    def test_a_folder_with_other_files_is_refused_and_left_alone(self, tmp_path, name):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("years of work")
        assert f"which holds {name.partition('/')[0]} and no manifest.json" in refused(InputError, tmp_path)
        assert (tmp_path / name).read_text() == "years of work" and names(tmp_path) == {name}

    def test_rows_of_another_run_are_refused(self, tmp_path):
        folder, other = (
            filled(tmp_path / "own", range(2)),
            filled(tmp_path / "other", range(2, 4), gather=False, config=CONFIG | {"seed": 1}),
        )
        stray = folder / "shards" / "methods-000000002.parquet"
        stray.parent.mkdir()
        (other / "shards" / stray.name).rename(stray)
        for text in told(folder):
            assert (
                f"{stray} with rows of run {key_of(CONFIG | {'seed': 1})}; "
                f"expected rows of run {key_of(CONFIG)}" in text
            )
            assert f"take {stray.name} out of this folder" in text
        stray.unlink()
        assert content(folder) == expected(range(2))
        pq.write_table(pa.table({"x": [1]}), folder / "figures.parquet")
        assert "figures.parquet with rows of run unknown" in refused(SourceError, folder)

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            (lambda rows: pa.concat_tables([rows, rows.slice(1, 1)]), "where a row is there twice (2, ig)"),
            (lambda rows: rows.slice(0, 1), "whose rows are not of the methods loo, ig"),
            (lambda rows: rows.slice(0, 0), "whose rows are not of the methods"),
            (lambda rows: rows.drop_columns([JOB]), "without the column job"),
            (lambda rows: rows.drop_columns(["method"]), "without the column method"),
            (lambda rows: rows.drop_columns(["seconds"]), "with other columns"),
            (lambda rows: rows.set_column(4, JOB, pa.array([3, 3])), "with rows of another job"),
        ],
    )
    def test_rows_are_those_of_each_job_once_or_refused_by_name(self, tmp_path, how, words):
        """Doubled rows passed a run, and no report could be made of it."""
        file = filled(tmp_path, range(3), gather=False) / "shards" / "methods-000000002.parquet"
        pq.write_table(how(pq.read_table(file)), file)
        for text in told(tmp_path):
            assert SHAPE.match(text) and f"{file}, {words}" in text
            assert f"remove {file.name} and repeat the same run command" in text

    def test_a_job_of_a_gathered_table_without_some_of_its_rows(self, tmp_path):
        with open_folder(tmp_path, CONFIG) as folder:
            folder.write_manifest({"format": FORMAT, "key": folder.key, "config": CONFIG})
            for job in range(3):
                folder.add("methods", job, some(job))
        with open_folder(tmp_path, CONFIG):
            file = tmp_path / "methods.parquet"
        pq.write_table(pq.read_table(file).slice(0, 5), file)
        for text in told(tmp_path):
            assert f"{file}, where a job has not 1 rows" in text

    def test_a_file_among_the_shards_that_no_run_has_made(self, tmp_path):
        filled(tmp_path, range(2), gather=False)
        for name in ("notes.parquet", "methods-two.parquet", "-000000001.parquet"):
            (tmp_path / "shards" / name).write_bytes(b"?")
            for text in told(tmp_path):
                assert SHAPE.match(text) and f"{name}, which no run has made" in text
            (tmp_path / "shards" / name).unlink()
        assert content(tmp_path) == expected(range(2))


def manifest(format: int = FORMAT, **config: int) -> bytes:
    return json.dumps({"format": format, "key": key_of({}), "config": config}).encode()


def spoil(file: Path, how: str) -> None:
    raw = file.read_bytes()
    file.write_bytes(
        {"empty": b"", "cut": raw[: len(raw) // 2], "text": b"no parquet here", "tail": raw[:-4] + b"XXXX"}[
            how
        ]
    )


class TestSpoilt:
    @pytest.mark.parametrize("how", ["empty", "cut", "text", "tail"])
    @pytest.mark.parametrize("name", ["shards/methods-000000001.parquet", "methods.parquet"])
    def test_a_spoilt_table_is_named_and_without_it_the_rest_is_there(self, tmp_path, name, how):
        filled(tmp_path, range(3), gather="shards" not in name)
        spoil(tmp_path / name, how)
        for text in told(tmp_path):
            assert SHAPE.match(text) and f"{tmp_path / name}, which cannot be read (" in text
            assert f"remove {Path(name).name} and repeat the same run command" in text
        (tmp_path / name).unlink()
        rest = [0, 2] if "shards" in name else []
        with open_folder(tmp_path, CONFIG) as folder:
            assert folder.done.get("methods", set()) == set(rest)
            for job in {0, 1, 2} - set(rest):
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
            except SourceError as error:
                assert SHAPE.match(str(error)) and "methods.parquet" in str(error)
                outcomes.append("told")
        # pages have checksums, the few bytes about them have not
        assert outcomes.count("wrong") <= 3 and outcomes.count("told") > 50, outcomes

    @pytest.mark.parametrize(
        "raw",
        [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"format": 1}', manifest(FORMAT + 1), manifest(seed=3)],
    )
    def test_a_spoilt_manifest_is_named_and_the_rows_stay(self, tmp_path, raw):
        file = filled(tmp_path, range(2)) / "manifest.json"
        good = file.read_bytes()
        file.write_bytes(raw)
        for text in told(tmp_path):
            assert f"{file}, which cannot be read (" in text and "the rows are untouched" in text
        file.write_bytes(good)
        assert content(tmp_path) == expected(range(2))

    def test_folders_without_a_run(self, tmp_path):
        assert f"{tmp_path / 'no'}, which is not a folder" in str(
            pytest.raises(SourceError, read_folder, tmp_path / "no").value
        )
        assert f"{tmp_path}, an empty folder" in str(pytest.raises(SourceError, read_folder, tmp_path).value)
        (tmp_path / "thesis.tex").write_text("")
        assert "a folder without a manifest" in str(pytest.raises(SourceError, read_folder, tmp_path).value)
        (tmp_path / "thesis.tex").unlink()
        assert "a run without rows" in str(
            pytest.raises(SourceError, read_folder, filled(tmp_path, range(0))).value
        )


def test_a_key_depends_on_what_is_said_not_on_its_order():
    assert key_of(CONFIG) == key_of(dict(reversed(CONFIG.items()))) == RunFolder(Path("x"), CONFIG).key
    assert len({key_of(CONFIG | {name: 99}) for name in CONFIG} | {key_of(CONFIG)}) == len(CONFIG) + 1
