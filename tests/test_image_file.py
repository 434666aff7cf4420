"""Image files on the command line and as pixels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers.image_utils import load_image

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.cli import main
from lrp_companion.loading.images import read_image

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


def saved(image: Image.Image, path: Path, **options: Any) -> Path:
    image.save(path, **options)
    return path


COLOURS = np.random.default_rng(1).integers(0, 256, (6, 9, 3), dtype=np.uint8)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("ending", ["jpg", "tif"])
def test_a_photograph_is_turned_as_transformers_turns_it(tmp_path, orientation: int, ending: str) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    path = saved(Image.fromarray(COLOURS), tmp_path / f"turned.{ending}", exif=exif)
    expected = np.asarray(load_image(str(path)))
    assert (read_image(path, channels=3) == expected.transpose(2, 0, 1)).all()


@pytest.mark.parametrize(
    ("mode", "ending"), [("LA", "png"), ("RGBA", "webp"), ("P", "png"), ("RGB", "png"), ("P", "gif")]
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


@pytest.mark.parametrize("ending", ["gif", "png", "webp", "tif"])
def test_frames_and_deep_grey_are_refused_and_a_palette_is_read(tmp_path: Path, ending: str) -> None:
    """Pillow would take the first frame, and cut 16 bits to the largest 8."""
    frames = [Image.new("RGB", (4, 4), (k * 50, 0, 0)) for k in range(3)]
    path = saved(frames[0], tmp_path / f"moving.{ending}", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="3 frames"):
        read_image(path, channels=3)
    for mode, kind in (("I", "<i4"), ("F", "<f4"), ("I;16", "<u2"), ("I;16B", ">u2")):
        deep = Image.frombytes(mode, (4, 4), np.linspace(0, 65_535, 16).astype(kind).tobytes())
        with pytest.raises(InputError, match="of mode"):
            read_image(deep, channels=1)
    colours = Image.fromarray(COLOURS).convert("P")
    assert (read_image(colours, channels=3) == np.asarray(colours.convert("RGB")).transpose(2, 0, 1)).all()
    (image,) = lrp.load_classifier(VIT).encode(Image.new("P", (28, 28), 7))
    assert np.ptp(image.values) == 0


def test_what_is_no_image_is_one_line_and_no_pickle_is_loaded(tmp_path, capsys):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.png").write_bytes(b"no picture")
    for name in ("objects.npy", "text.png"):
        assert main(["explain", str(tmp_path / name), "--model", VIT]) in (2, 3)
        assert capsys.readouterr().err.count("\n") == 1
