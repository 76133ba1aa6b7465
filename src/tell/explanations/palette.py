"""Colours that stay apart for colour-blind readers, on light and on dark ground."""

from __future__ import annotations

import colorsys

# Matthew Petroff's ten-colour sequence, tuned for colour-vision deficiency and lightness.
_TEN = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)
_LIGHTNESS = (1.0, 0.62, 1.35, 0.8, 1.18)


def cluster_colors(k: int) -> list[str]:
    """Colours of k clusters as hex texts; from the eleventh on, darker and lighter turns.

    Beyond ten no set of colours stays apart for everyone: figures also number the clusters.

    >>> cluster_colors(2)
    ['#3f90da', '#ffa90e']
    >>> len(set(cluster_colors(50)))
    50
    """
    return [_shade(_TEN[j % 10], _LIGHTNESS[j // 10 % 5]) for j in range(k)]


def _shade(color: str, factor: float) -> str:
    if factor == 1.0:
        return color
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    light = min(0.88, light * factor) if factor > 1 else light * factor
    return "#" + "".join(
        f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, light, saturation)
    )


def ink_on(color: str) -> str:
    """Black or white, whichever reads better on a colour (relative luminance of WCAG).

    >>> ink_on("#ffa90e"), ink_on("#832db6")
    ('#000000', '#ffffff')
    """
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
