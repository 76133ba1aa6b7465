"""A folder of images becomes rows; sub-folders become labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tell.data.sources import open_source
from tell.exceptions import InputError, ParameterError

DIGITS = load_digits()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, (image, label) in enumerate(zip(DIGITS.images[:30], DIGITS.target, strict=False)):
        place = tmp_path / "digits" / f"{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{number:02}.png")
    return tmp_path / "digits"


def test_rows_labels_and_blocks(folder: Path) -> None:
    source = open_source(folder, chunk_rows=7)
    assert (source.shape, source.n_rows, source.rereadable) == ((1, 8, 8), 30, True)
    whole = source.read()
    order = np.lexsort((np.arange(30), DIGITS.target[:30]))
    np.testing.assert_allclose(whole.X, DIGITS.data[:30][order] * 15 / 255, rtol=1e-6)
    np.testing.assert_array_equal(whole.y, DIGITS.target[:30][order].astype(str))
    starts = [chunk.start for block in source.blocks() for chunk in block()]
    assert starts == [0, 7, 14, 21, 28]


def test_sizes_must_agree_or_be_made_to(folder: Path) -> None:
    Image.new("L", (30, 10), 128).save(folder / "9" / "wide.jpg")
    with pytest.raises(InputError, match=r"wide\.jpg: .* 8 × 8, got 30 × 10; pass image_size"):
        open_source(folder).read()
    source = open_source(folder, image_size=4)
    assert source.shape == (1, 4, 4)
    np.testing.assert_allclose(source.read().X[-1], 128 / 255, atol=0.02)
    with pytest.raises(ParameterError, match="image_size"):
        open_source(folder, image_size=0)


def test_colours_come_channel_by_channel(tmp_path: Path) -> None:
    Image.new("RGBA", (3, 2), (255, 0, 51, 255)).save(tmp_path / "a.png")
    source = open_source(tmp_path)
    assert source.shape == (3, 2, 3)
    whole = source.read()
    np.testing.assert_allclose(whole.X.reshape(3, 6), [[1.0] * 6, [0.0] * 6, [0.2] * 6])
    assert whole.y is None


def test_damaged_images_are_named(folder: Path) -> None:
    victim = next(iter(sorted((folder / "5").iterdir())))
    victim.write_bytes(victim.read_bytes()[:60])
    with pytest.raises(InputError, match=f"{victim.name} is not a whole image"):
        open_source(folder).read()
    with pytest.raises(InputError, match="images have no columns"):
        open_source(folder, label="digit")


def test_tables_in_a_folder_come_first(folder: Path) -> None:
    (folder / "rows.csv").write_text("a\n1\n")
    assert open_source(folder).feature_names == ["a"]
