"""Tables of `shallow.py`: what each method does without options, and its time to reach a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Table = Callable[[list[str], list[list[str]]], list[str]]
Point = dict[str, Any]

OURS = "TELL"
QUICK = {"tol": 0.01}  # a second setting of ours, shown beside the default
TARGETS = (0.001, 0.01, 0.03, 0.1)  # above the lowest loss that anybody has reached
AHEAD = 1.5  # times as fast as the next one: the goal for half of the cases


def point(found: dict[str, Any], options: dict[str, Any] | None = None) -> Point | None:
    """Return the point of a curve with these options, or the one without any."""
    for one in found["curve"]:
        if one["options"] == options if options else one["default"]:
            return one
    return None


def default_cell(found: dict[str, Any], patience: float, options: Any = None) -> str:
    """Return seconds and loss, or why there are none."""
    one = point(found, options)
    if one is not None:
        return f"{one['seconds']:.3g} s, {one['loss']:.4f}"
    if found["refused"]:
        return "not installed" if found["refused"] == "not installed" else "refuses"
    return f"over {patience:.0f} s"


def least_time(found: dict[str, Any], loss: float) -> float | None:
    """Return the shortest time in which a method reached this loss."""
    return min((one["seconds"] for one in found["curve"] if one["loss"] <= loss), default=None)


def targets(methods: dict[str, Any]) -> Iterator[tuple[float, float, dict[str, float | None]]]:
    """Give each target (above the lowest loss, and as a loss) and everybody's time to reach it."""
    lowest = min(one["loss"] for found in methods.values() for one in found["curve"])
    for above in TARGETS:
        loss = lowest * (1 + above)
        yield above, loss, {who: least_time(found, loss) for who, found in methods.items()}


def ahead(times: dict[str, float | None]) -> float | None:
    """Return how many times as fast as the fastest other method we are; None: nobody else came."""
    ours = times[OURS]
    others = [time for who, time in times.items() if who != OURS and time is not None]
    if ours is None:
        return 0.0
    return min(others) / ours if others else None


def defaults(results: dict[str, Any], table: Table) -> list[str]:
    """Return the table of methods without options."""
    names = list(next(iter(results.values()))["methods"])
    rows = []
    for case, result in results.items():
        methods, patience = result["methods"], result["patience"]
        cells = [default_cell(methods[who], patience) for who in names]
        quick = default_cell(methods[OURS], patience, QUICK)
        rows.append([case, cells[0], quick, *cells[1:], f"{result['predict_over_bare']:.2f}"])
    header = ["data", OURS, "TELL(tol=0.01)", *names[1:], "predict / bare product and argmax"]
    return table(header, rows)


def reached(results: dict[str, Any], table: Table) -> list[str]:
    """Return the table of times to reach a loss."""
    names = list(next(iter(results.values()))["methods"])
    rows = []
    for case, result in results.items():
        for above, loss, times in targets(result["methods"]):
            fastest = min((time for time in times.values() if time is not None), default=None)
            cells = []
            for who in names:
                time = times[who]
                text = "–" if time is None else f"{time:.3g} s"
                cells.append(f"**{text}**" if time is not None and time == fastest else text)
            factor = ahead(times)
            lead = "alone" if factor is None else f"{factor:.1f}×" if factor else "not reached"
            rows.append([case, f"{100 * above:g} %: {loss:.4f}", *cells, lead])
    return table(["data", "lowest loss plus", *names, "`TELL` against the next"], rows)


def goals(results: dict[str, Any], table: Table) -> list[str]:
    """Return what was to be reached beside what was measured."""
    cases = {case: [ahead(t) for *_, t in targets(r["methods"])] for case, r in results.items()}
    leads = [lead for found in cases.values() for lead in found]
    worst = {
        case: min((x for x in found if x is not None), default=None)
        for case, found in cases.items()
    }
    first = sum(low is None or low >= 1 for low in worst.values())
    clear = sum(low is None or low >= AHEAD for low in worst.values())
    behind = [f"{case} ({low:.2f}×)" for case, low in worst.items() if low is not None and low < 1]
    won = sum(lead is None or lead >= 1 for lead in leads)
    rows = [
        [
            "fastest of all at every loss of the table, in every case",
            f"{len(cases)} of {len(cases)} cases",
            f"{first} of {len(cases)}; {won} of {len(leads)} lines"
            + (f"; behind in {', '.join(behind)}" if behind else ""),
        ],
        [f"by {AHEAD}× or more", "half of the cases", f"{clear} of {len(cases)}"],
        *below_others(results),
        *against_onedal(results),
    ]
    return table(["goal", "wanted", "measured"], rows)


def below_others(results: dict[str, Any]) -> list[list[str]]:
    """Return for many clusters: at how many of the others' points we had a lower loss by then."""
    rows = []
    for case, result in results.items():
        if "k=1000" not in case:
            continue
        ours = result["methods"][OURS]["curve"]
        others = [
            one for who, found in result["methods"].items() if who != OURS for one in found["curve"]
        ]
        beaten = [
            any(mine["seconds"] <= one["seconds"] and mine["loss"] <= one["loss"] for mine in ours)
            for one in others
        ]
        rows.append(
            [
                f"{case}: a lower loss than each of the others has by then",
                f"{len(others)} of {len(others)} points",
                f"{sum(beaten)} of {len(others)}",
            ]
        )
    return rows


def against_onedal(results: dict[str, Any]) -> list[list[str]]:
    """Return our time to reach the loss at which oneDAL stops, for few clusters and columns."""
    rows = []
    for case, result in results.items():
        peer = point(result["methods"]["oneDAL"])
        if not case.startswith("1M x 10") or peer is None:
            continue
        ours = least_time(result["methods"][OURS], peer["loss"] * (1 + 1e-5))
        measured = "not reached" if ours is None else f"{peer['seconds'] / ours:.1f}×"
        rows.append([f"{case}: ahead of oneDAL at its loss", "above 1×", measured])
    return rows


def tables(found: dict[str, Any], table: Table) -> list[str]:
    """Return all of them, with what must be known to read them."""
    results = found["results"]
    refused = sorted(
        {
            f"{who} ({one['refused']})"
            for result in results.values()
            for who, one in result["methods"].items()
            if one["refused"]
        }
    )
    return [
        "## Arrays: the time to reach a loss",
        "",
        "Every method stops at another loss, so each was asked with budgets that grow: `TELL` with "
        "`tol` from 0.1 to its default, the others with more iterations or rows "
        "(`benchmarks/shallow_methods.py`). A cell is the shortest time, labels of all rows "
        "included, in which any of a method's settings reached the loss; – says that none did.",
        "",
        *reached(results, table),
        "",
        *goals(results, table),
        "",
        "What they do without options (median seconds of a fit with labels, and mean loss):",
        "",
        *defaults(results, table),
        "",
        f"`n_init=1` for all; {found['settings']['rounds']} interleaved rounds, fits above "
        f"{found['settings']['repeated_below']} s once; each method in a process of its own. On "
        "the sphere rows are unit vectors and everybody is judged by unit centres."
        + (f" Left out: {'; '.join(refused)}." if refused else ""),
        *busy(found),
    ]


def busy(found: dict[str, Any]) -> list[str]:
    """Return a warning if other work ran beside the measurement."""
    load = found["machine"].get("load_at_start", 0.0)
    if load < 0.5:
        return []
    return [
        "",
        f"**The machine was not idle when this began** (load {load:.1f}): times may be shorter.",
    ]
