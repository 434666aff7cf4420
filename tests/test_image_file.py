"""Image files on the command line and as pixels."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lrp_companion as lrp
from lrp_companion.cli import main
from lrp_companion.schema import InputError
from lrp_companion.sources.image_file import LARGEST_SIDE, read_image

VIT = str(Path(__file__).resolve().parent.parent / "training" / "vit")


@pytest.fixture(scope="module")
def stroke() -> np.ndarray:
    """A drawn stroke, 28 x 28."""
    pixels = np.zeros((28, 28), np.uint8)
    pixels[4:24, 12:16] = 255
    pixels[4:8, 8:16] = 180
    return pixels


@pytest.fixture
def png(stroke: np.ndarray, tmp_path: Path) -> Path:
    Image.fromarray(stroke).save(tmp_path / "stroke.png")
    return tmp_path / "stroke.png"


def test_pixels_are_those_of_the_file(stroke, png, tmp_path):
    assert (read_image(png, channels=1) == stroke[None]).all()
    assert read_image(str(png), channels=3).shape == (3, 28, 28)
    colours = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    Image.fromarray(colours).save(tmp_path / "colours.png")
    assert (read_image(tmp_path / "colours.png", channels=3) == colours.transpose(2, 0, 1)).all()
    np.save(tmp_path / "floats.npy", stroke / 255)
    read = read_image(tmp_path / "floats.npy", channels=1)
    assert read.dtype == np.float64 and (read == stroke / 255).all()


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
def test_explain_reads_an_image_as_attribute_reads_its_pixels(stroke, png, capsys, method):
    assert main(["explain", str(png), "--model", VIT, "--method", method, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (record,) = lrp.attribute(lrp.load_classifier(VIT), stroke[None], method=method)
    assert told["scores"] == pytest.approx(record.scores.tolist(), abs=1e-5)
    assert told["tokens"][:2] == ["[CLS]", "patch 0,0"]


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.json", "map.html"])
def test_a_map_of_an_image_is_saved(png, tmp_path, name, capsys):
    out = tmp_path / name
    assert main(["explain", str(png), "--model", VIT, "--no-colour", "--out", str(out)]) == 0
    assert "patch 6,6" in capsys.readouterr().out
    content = out.read_bytes()
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".json": b"{", ".html": b"<!"}
    assert content.startswith(starts[out.suffix])


def test_check_reads_image_files(png, capsys):
    assert main(["check", str(png), str(png), "--model", VIT]) == 0
    assert "checks right on 2 images" in capsys.readouterr().out


def claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims this size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.png", None, "which is not a file"),
        ("text.png", b"no picture", "cannot be read as an image"),
        ("broken.png", claims(28, 28), "cannot be read as an image"),
        ("large.png", claims(LARGEST_SIDE + 1, 2), f"of {LARGEST_SIDE + 1} x 2 pixels"),
        ("bomb.png", claims(60_000, 60_000), "pixels"),
        ("none.npy", b"no array", "which holds no array"),
        ("empty.npy", b"", "which holds no array"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_not_an_image_is_refused(tmp_path, name, content, words, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_image(tmp_path / name, channels=1)
    assert main(["explain", str(tmp_path / name), "--model", VIT]) == 2
    told = capsys.readouterr()
    assert words in told.err and told.err.count("\n") == 1 and not told.out


def test_pickles_are_not_loaded(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds no array"):
        read_image(tmp_path / "objects.npy", channels=1)


def test_what_else_is_refused(png, capsys):
    with pytest.raises(InputError, match="of 4 channels"):
        read_image(png, channels=4)
    assert main(["explain", str(png), "--pair", "x", "--model", VIT]) == 2
    assert "--pair with a model that reads images" in capsys.readouterr().err
