"""Pictures for the report: many small ones on one sheet, and heat maps."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tell.contract import Reals
from tell.exceptions import MissingDependencyError
from tell.explanations.pictures import as_pictures

if TYPE_CHECKING:
    from PIL.Image import Image

#: One sheet holds at most this many pixels; pictures shrink until they fit.
MAX_PIXELS = 4_200_000
#: Sheets larger than this as PNG are stored lossily.
MAX_LOSSLESS = 1_800_000
_FOR, _AGAINST = (231, 99, 0), (63, 144, 218)


@dataclass(frozen=True)
class Sheet:
    """Pictures side by side in one image; `places` are CSS background positions in percent."""

    uri: str
    columns: int
    places: Mapping[Hashable, str]
    ratio: float


def make_sheet(rows: Mapping[Hashable, Reals], shape: tuple[int, ...]) -> Sheet:
    """Put flat images, by name, on one sheet.

    >>> sheet = make_sheet({"a": np.zeros(4), "b": np.ones(4), "c": np.ones(4)}, (2, 2))
    >>> sheet.columns, sheet.places["b"], sheet.uri[:22]
    (2, '100% 0%', 'data:image/png;base64,')
    """
    pictures = as_pictures(np.stack([np.ravel(row) for row in rows.values()]), shape)
    n, height, width = pictures.shape[:3]
    factor = min(1.0, math.sqrt(MAX_PIXELS / (n * height * width)))
    small = max(1, int(height * factor)), max(1, int(width * factor))
    columns = math.ceil(math.sqrt(n))
    lines = math.ceil(n / columns)
    sheet = _paste(pictures, small, columns, lines)
    places = {
        name: f"{_percent(i % columns, columns)} {_percent(i // columns, lines)}"
        for i, name in enumerate(rows)
    }
    return Sheet(_encode(sheet), columns, places, width / height)


def _percent(place: int, count: int) -> str:
    return f"{100 * place / max(count - 1, 1):.6g}%"


def _paste(
    pictures: NDArray[np.uint8], size: tuple[int, int], columns: int, lines: int
) -> NDArray[np.uint8]:
    sheet = np.zeros((lines * size[0], columns * size[1], *pictures.shape[3:]), np.uint8)
    for i, picture in enumerate(pictures):
        if picture.shape[:2] != size:
            picture = np.asarray(_image(picture).resize(size[::-1]))
        top, left = i // columns * size[0], i % columns * size[1]
        sheet[top : top + size[0], left : left + size[1]] = picture
    return sheet


def heat_map(amounts: Reals, shape: tuple[int, ...]) -> str:
    """Signed amounts (d,) as a transparent picture: orange speaks for, blue against."""
    strength = heat_strength(amounts, shape)
    color = np.where((strength > 0)[:, :, None], np.array(_FOR), np.array(_AGAINST))
    lifted = np.abs(strength) ** 0.7  # so that weak ones are seen
    alpha = np.round(255 * lifted)[:, :, None]
    return _encode(np.concatenate([color, alpha], axis=2).astype(np.uint8))


def heat_strength(amounts: Reals, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Amounts (d,) summed over the channels, (h, w), between −1 and 1.

    The largest single amount sets the scale too: where channels cancel, what is left is noise.

    >>> heat_strength(np.array([4.0, 1.0, -3.0, 1.0]), (2, 1, 2)).tolist()
    [[0.25, 0.5]]
    """
    single = np.asarray(amounts, np.float64).reshape(shape)
    flat = single.sum(axis=0) if single.ndim == 3 else single
    return np.asarray(flat / (max(np.abs(single).max(), np.abs(flat).max()) or 1.0))


def _image(pixels: NDArray[np.uint8]) -> Image:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "pictures in a report need pillow, which is not installed; "
            'install it with pip install "tell-clustering[report]"'
        ) from error
    return Image.fromarray(pixels)


def _encode(pixels: NDArray[np.uint8]) -> str:
    image, kind = _image(pixels), "png"
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    if buffer.tell() > MAX_LOSSLESS:
        buffer, kind = io.BytesIO(), "webp"
        image.save(buffer, "WEBP", quality=75)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
