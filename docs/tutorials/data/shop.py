"""Write shop.csv: 5,000 made-up customers of a shop in four segments, as messy as real ones."""

import csv
import datetime
from pathlib import Path

import numpy as np

ROWS = 5000
FIRST = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Karl")
LAST = ("Müller", "Rossi", "Smith", "Novak", "Dubois", "García", "Jensen", "Berg", "Costa", "Engel")
COUNTRIES = ("Germany", "France", "Italy", "Switzerland", "Spain", "Austria", "Poland", "Norway")
PLANS = ("basic", "family", "none", "premium")
WORDS = ("great", "slow", "service", "thanks", "delivery", "late", "friendly", "app", "price", "ok")
HEADER = (
    "id", "name", "age", "income", "country", "signup", "membership", "food", "travel", "media",
    "churned", "comment",
)  # fmt: skip


def amounts(random, segment, middles, spread):
    """Log-normal amounts of money around the middle of each segment."""
    return np.exp(random.normal(np.log(np.array(middles)[segment]), spread))


def main():
    random = np.random.default_rng(7)
    segment = random.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    own = random.random((2, ROWS)) < [[0.6], [0.75]]  # as is usual in the segment
    country = np.where(own[0], segment, random.integers(0, 8, ROWS))
    plan = np.where(own[1], segment, random.integers(0, 4, ROWS))
    age = np.clip(random.normal(np.array([28, 45, 66, 38])[segment], 5), 18, 95).round()
    income = amounts(random, segment, [24e3, 58e3, 31e3, 140e3], 0.25).round(-1)
    food = amounts(random, segment, [120, 420, 180, 300], 0.35)
    travel = amounts(random, segment, [60, 90, 40, 900], 0.5)
    media = amounts(random, segment, [80, 40, 15, 60], 0.4)
    churned = random.random(ROWS) < np.array([0.3, 0.05, 0.1, 0.15])[segment]
    unsaid = random.random(ROWS) < np.array([0.05, 0.1, 0.35, 0.02])[segment]
    nowhere = random.random(ROWS) < 0.03
    days, names = (
        random.integers(0, 2000, ROWS),
        random.integers(0, (len(FIRST), len(LAST), 99), (ROWS, 3)),
    )
    with Path("shop.csv").open("w", newline="", encoding="utf-8") as file:
        write = csv.writer(file, lineterminator="\n").writerow
        write(HEADER)
        for i in range(ROWS):
            words = random.choice(WORDS, 3 + i % 6)
            write(
                [
                    100_000 + 3 * i,
                    f"{FIRST[names[i, 0]]} {chr(65 + names[i, 2] % 26)}. {LAST[names[i, 1]]}",
                    int(age[i]),
                    "n/a" if unsaid[i] else int(income[i]),
                    "" if nowhere[i] else COUNTRIES[country[i]],
                    datetime.date(2019, 1, 1) + datetime.timedelta(int(days[i])),
                    PLANS[plan[i]],
                    *(f"{amount[i]:.2f}" for amount in (food, travel, media)),
                    "yes" if churned[i] else "no",
                    " ".join(words),
                ]
            )


if __name__ == "__main__":
    main()
