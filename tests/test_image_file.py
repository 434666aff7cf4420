"""Image files on the command line and as pixels."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pngs import png as png_bytes
from transformers.image_utils import load_image

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.cli import main
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


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.png", None, "which is not a file"),
        ("text.png", b"no picture", "cannot be read as an image"),
        ("broken.png", png_bytes(28, 28), "cannot be read as an image"),
        ("large.png", png_bytes(LARGEST_SIDE + 1, 2), f"of {LARGEST_SIDE + 1} x 2 pixels"),
        ("bomb.png", png_bytes(60_000, 60_000), "pixels"),
        ("none.npy", b"no array", "which holds no array"),
        ("empty.npy", b"", "which holds no array"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_not_an_image_is_refused(tmp_path, name, content, words, refused):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_image(tmp_path / name, channels=1)
    assert words in refused(["explain", str(tmp_path / name), "--model", VIT])


def saved(image: Image.Image, path: Path, **options: Any) -> Path:
    image.save(path, **options)
    return path


COLOURS = np.random.default_rng(1).integers(0, 256, (6, 9, 3), dtype=np.uint8)
GREY_16 = np.linspace(0, 65_535, 16).astype(np.uint16).reshape(4, 4)


@pytest.mark.parametrize(
    ("mode", "ending"),
    [("I;16", "png"), ("I;16", "tif"), ("I;16B", "png"), ("I;16B", "tif"), ("I;16L", "tif"), ("I;16", "jp2")],
)
def test_65535_of_16_bits_is_white(tmp_path: Path, mode: str, ending: str) -> None:
    bytes_of = GREY_16.astype(">u2" if mode.endswith("B") else "<u2").tobytes()
    path = saved(Image.frombytes(mode, (4, 4), bytes_of), tmp_path / f"grey.{ending}")
    expected = np.rint(GREY_16 / 65_535 * 255)
    assert (read_image(path, channels=1) == expected[None]).all()
    assert (read_image(path, channels=3) == expected[None]).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "PA"])
def test_other_modes_are_read_as_transformers_reads_them(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(COLOURS)
    image = Image.new("LAB", (9, 6), (128, 100, 90)) if mode == "LAB" else image.convert(mode)
    path = saved(image, tmp_path / "image.tif")
    expected = np.asarray(load_image(str(path)))
    assert (read_image(path, channels=3) == expected.transpose(2, 0, 1)).all()
    grey = read_image(path, channels=1)
    assert grey.shape == (1, 6, 9)
    assert abs(grey[0] - np.asarray(Image.fromarray(expected).convert("L"))).max() < 2


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_whose_white_is_not_known_are_refused(tmp_path: Path, mode: str) -> None:
    path = saved(Image.fromarray(GREY_16.astype(np.int32 if mode == "I" else np.float32)), tmp_path / "a.tif")
    with pytest.raises(InputError, match=f"mode {mode}"):
        read_image(path, channels=1)


@pytest.mark.parametrize(("tag", "value"), [(262, 0), (258, 12)], ids=["white is 0", "12 bits"])
def test_a_tiff_of_16_bits_whose_white_is_not_65535_is_refused(tmp_path: Path, tag: int, value: int) -> None:
    path = saved(Image.fromarray(GREY_16), tmp_path / "a.tif")
    entry = struct.pack("<HHI", tag, 3, 1)
    at = path.read_bytes().index(entry) + len(entry)
    content = bytearray(path.read_bytes())
    content[at : at + 2] = struct.pack("<H", value)
    path.write_bytes(content)
    with pytest.raises(InputError, match="whose white is 0"):
        read_image(path, channels=1)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tif"])
def test_a_photograph_is_turned_as_transformers_turns_it(tmp_path, orientation: int, ending: str) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    path = saved(Image.fromarray(COLOURS), tmp_path / f"turned.{ending}", exif=exif)
    expected = np.asarray(load_image(str(path)))
    assert (read_image(path, channels=3) == expected.transpose(2, 0, 1)).all()


@pytest.mark.parametrize(
    ("mode", "ending"),
    [
        ("LA", "png"),
        ("LA", "tif"),
        ("RGBA", "png"),
        ("RGBA", "webp"),
        ("RGBA", "tif"),
        ("P", "png"),
        ("RGB", "png"),
        ("L", "png"),
        ("P", "gif"),
    ],
)
def test_a_pixel_that_is_not_opaque_is_refused(tmp_path: Path, mode: str, ending: str) -> None:
    for clear in (False, True):
        image, options = Image.fromarray(COLOURS).convert(mode), {}
        if mode.endswith("A"):
            image.putalpha(254 if clear else 255)
        elif clear:
            hidden = np.asarray(image)[2, 3]
            options["transparency"] = tuple(map(int, hidden)) if mode == "RGB" else int(hidden)
        path = saved(image, tmp_path / f"{clear}.{ending}", **options)
        if not clear:
            assert read_image(path, channels=3).shape == (3, 6, 9)
            continue
        for channels in (1, 3):
            with pytest.raises(InputError, match="not opaque"):
                read_image(path, channels=channels)


RGB16 = (0, 65_535, 32_768, 256, 255, 128)
COLOURS_16 = b"\0" + struct.pack(">6H", *RGB16)


@pytest.mark.parametrize(
    "content",
    [
        png_bytes(2, bits=4, rows=b"\0\x0f", clear=struct.pack(">H", 15)),
        png_bytes(4, bits=2, rows=b"\0\x1b", clear=struct.pack(">H", 2)),
        png_bytes(2, bits=16, colour=2, rows=COLOURS_16, clear=struct.pack(">3H", *RGB16[:3])),
        png_bytes(2, bits=16, colour=4, rows=b"\0" + struct.pack(">4H", 9, 65_400, 9, 65_535)),
        png_bytes(1, bits=16, colour=6, rows=b"\0" + struct.pack(">4H", 9, 9, 9, 65_300)),
    ],
    ids=["grey of 4", "grey of 2", "RGB of 16", "grey and alpha of 16", "RGB and alpha of 16"],
)
def test_transparency_that_pillow_rounds_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    for channels in (1, 3):
        with pytest.raises(InputError, match="with transparency, and not of 8 bits"):
            read_image(tmp_path / "a.png", channels=channels)


def test_few_and_many_bits_without_transparency_are_read(tmp_path: Path) -> None:
    for bits, row, width, expected in ((4, b"\x0f", 2, [0, 255]), (2, b"\x1b", 4, [0, 85, 170, 255])):
        (tmp_path / "a.png").write_bytes(png_bytes(width, bits=bits, rows=b"\0" + row))
        assert read_image(tmp_path / "a.png", channels=1)[0, 0].tolist() == expected
    (tmp_path / "a.png").write_bytes(png_bytes(2, bits=16, colour=2, rows=COLOURS_16))
    assert read_image(tmp_path / "a.png", channels=3)[:, 0, 0].tolist() == [0, 255, 128]
    for clear in (0, 1):
        (tmp_path / "a.png").write_bytes(png_bytes(8, bits=1, rows=b"\0\xff", clear=struct.pack(">H", clear)))
        if clear:
            with pytest.raises(InputError, match="not opaque"):
                read_image(tmp_path / "a.png", channels=1)
        else:
            assert (read_image(tmp_path / "a.png", channels=1) == 255).all()


@pytest.mark.parametrize("mode", ["L", "I;16", "RGB", "RGBA", "CMYK", "P"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_a_tiff_on_its_side_is_turned(tmp_path: Path, mode: str, compression: str | None) -> None:
    """All eight orientations, with what turns the upright picture into what the file stores."""
    grey = np.arange(6).reshape(2, 3) * 40
    stored = {
        1: grey,
        2: grey[:, ::-1],
        3: grey[::-1, ::-1],
        4: grey[::-1],
        5: grey.T,
        6: np.rot90(grey),
        7: grey[::-1, ::-1].T,
        8: np.rot90(grey, -1),
    }
    for orientation, pixels in stored.items():
        if mode == "I;16":
            image = Image.fromarray((pixels * 257).astype(np.uint16))
        else:
            image = Image.fromarray(pixels.astype(np.uint8)).convert(mode)
        options = {"compression": compression} if compression else {}
        path = saved(image, tmp_path / "a.tif", tiffinfo={274: orientation}, **options)
        for channels in (1, 3):
            assert read_image(path, channels=channels)[0].tolist() == grey.tolist(), orientation


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_every_version_are_read(tmp_path: Path, version: tuple[int, int]) -> None:
    for array in (COLOURS[..., 0] / 255, COLOURS, np.asfortranarray(COLOURS.astype(">f4"))):
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version=version)
        assert (read_image(tmp_path / "a.npy", channels=1) == array).all()
        (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
        with pytest.raises(InputError, match="holds no array of numbers"):
            read_image(tmp_path / "a.npy", channels=1)


@pytest.mark.parametrize("white", [1023, 4095, 65_535])
def test_a_pgm_of_more_than_8_bits_is_named(tmp_path: Path, white: int) -> None:
    (tmp_path / "a.pgm").write_bytes(b"P5 2 1 %d\n" % white + struct.pack(">2H", 0, white))
    with pytest.raises(InputError, match="a PGM of more than 8 bits"):
        read_image(tmp_path / "a.pgm", channels=1)


@pytest.mark.parametrize("ending", ["gif", "png", "webp", "tif"])
def test_several_frames_are_refused(tmp_path: Path, ending: str) -> None:
    frames = [Image.new("RGB", (4, 4), (k * 50, 0, 0)) for k in range(3)]
    path = saved(frames[0], tmp_path / f"moving.{ending}", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="of 3 frames"):
        read_image(path, channels=3)


def test_a_photograph_with_a_preview_is_one_image(tmp_path: Path) -> None:
    frames = [Image.fromarray(COLOURS), Image.new("RGB", (4, 4))]
    path = saved(frames[0], tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=frames[1:])
    assert read_image(path, channels=3).shape == (3, 6, 9)


def head(text: str, data: bytes = bytes(32), version: bytes = b"\x01\x00") -> bytes:
    """A `.npy` file with this head."""
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) + 1) + text.encode() + b"\n" + data


def of(shape: str, kind: str = "<f8", fortran: bool = False) -> bytes:
    return head(f"{{'descr': {kind!r}, 'fortran_order': {fortran}, 'shape': {shape}}}")


@pytest.mark.parametrize(
    "content",
    [
        of("(1000000, 1000000, 1000000)"), of("(-4,)"), of("(-2, -2)"), of("(True, 4)"), of("(3,)"),
        of("(10**9,)"), of("(0, 999999999999)"), of("(2, 2)", "|O"), of("(4,)", "<c8"), of("(4,)", "<M8[s]"),
        of("(2,)", "<U4"), of("(4,)", "|V8"), of("4"), of("'x'"), head("[]"), head("("), head("(" * 5000),
        head("__import__('os').abort()"), of("(4,)")[:12], b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x09\x00", b"PK\x03\x04", b"\x80\x04.",
    ],
)  # fmt: skip
def test_the_head_of_an_array_is_read_before_its_data(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(InputError, match="holds no array of numbers"):
        read_image(tmp_path / "a.npy", channels=1)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_an_array_in_fortrans_order_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(COLOURS[..., 0] / 255))
    assert (read_image(tmp_path / "a.npy", channels=1) == COLOURS[..., 0] / 255).all()


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (np.full((1, 28, 28), 65_535, np.uint16), "from 65535 to 65535"),
        (np.full((1, 28, 28), 300), "from 300 to 300"),
        (np.full((1, 28, 28), -1), "from -1 to -1"),
        (np.ma.array(np.zeros((1, 28, 28)), mask=True), "784 entries are masked"),
        ([np.ma.array(np.zeros((28, 28)), mask=np.eye(28))], "28 entries are masked"),
        (np.full((1, 28, 28), np.nan), "not finite"),
        (np.full((1, 28, 28), 256.0), "from 256 to 256"),
        (np.zeros((1, 28, 28), complex), "type ndarray"),
        (np.zeros((1, 28, 28), bool), "type ndarray"),
        (np.full((1, 28, 28), "0"), "type ndarray"),
        (Image.new("P", (28, 28)), "mode P"),
        (Image.new("LA", (28, 28)), "mode LA"),
    ],
)
def test_arrays_that_are_no_pixels_are_refused(pixels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        lrp.attribute(lrp.load_classifier(VIT), pixels, method="attnlrp")


def test_pickles_are_not_loaded(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds no array"):
        read_image(tmp_path / "objects.npy", channels=1)


def test_what_else_is_refused(png, refused):
    with pytest.raises(InputError, match="of 4 channels"):
        read_image(png, channels=4)
    line = refused(["explain", str(png), "--pair", "x", "--model", VIT])
    assert "--pair with a model that reads images" in line
