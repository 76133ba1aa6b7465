"""Numbers as people write them."""

from __future__ import annotations

from collections.abc import Sequence

#: A share that is this close to none or to all differs from it by the rounding of sums.
ROUNDING = 1e-12


def percent(share: float) -> str:
    """A share as people write it: whole percent, but never 0 or 100 when it is neither.

    >>> percent(0.338), percent(0.001), percent(0.9999), percent(1 - 1e-15)
    ('34 %', '< 1 %', '> 99 %', '100 %')
    >>> percent(-0.021), percent(-0.001)  # a margin can grow
    ('−2 %', '≈ 0 %')
    """
    if share < 0:
        return "≈ 0 %" if share > -0.005 else f"−{percent(-share)}"
    if ROUNDING < share < 0.005:
        return "< 1 %"
    if 0.995 < share < 1 - ROUNDING:
        return "> 99 %"
    return f"{share:.0%}".replace("%", " %")


def short(value: float) -> str:
    """A number with four digits that matter; thousands are set apart.

    >>> short(13.71234), short(0.00012345), short(1120.4), short(-3.0), short(-0.0)
    ('13.71', '0.0001234', '1,120', '−3', '0')
    """
    value += 0.0  # zero has no sign
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def decimal_text(value: float, decimals: int) -> str:
    """A number with this many digits behind the point; thousands are set apart.

    >>> decimal_text(1120.0, 0), decimal_text(-0.25, 2), decimal_text(3.14159, 3)
    ('1,120', '−0.25', '3.142')
    """
    return f"{value + 0.0:,.{decimals}f}".replace("-", "−")


def signed_short(value: float) -> str:
    """A number with three digits and its sign.

    >>> signed_short(1.234), signed_short(-0.5), signed_short(-0.0), signed_short(70438.2)
    ('+1.23', '−0.5', '0', '+70,438')
    """
    if not value:
        return "0"
    text = f"{value:+,.0f}" if abs(value) >= 1000 else f"{value:+.3g}"
    return text.replace("-", "−")


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "cluster"), counted(1797, "image")
    ('1 cluster', '1,797 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def joined(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> joined(["age"]), joined(["age", "income", "city"])
    ('age', 'age, income and city')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
