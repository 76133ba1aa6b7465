"""Why one row is where it is, and the smallest change that would move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tell.explanations.counterfactual import Change, Columns, printed_change
from tell.explanations.explained_rows import Block
from tell.explanations.terms import Cell, Terms, cell_text
from tell.explanations.view import AffineInput, EncodedInput, Floats, Ints, ModelView, Reals, assign
from tell.explanations.words import counted, joined, percent

if TYPE_CHECKING:
    from tell.explanations.rejections import Rejection


#: How contributions were found.
EXACT, ATTRIBUTED = "exact", "integrated gradients"
#: Changes that a sentence names; the tables list all.
MOST_TOLD = 4


@dataclass(frozen=True, eq=False)
class Contribution:
    """How much one column adds to the margin: positive speaks for the assigned cluster.

    A category counts as one: its amount is the sum over its features, of which `index` is the
    first. `value` is the cell as the table has it; of a `filled` one, what it was taken as.
    """

    name: str
    index: int
    value: Cell
    amount: float
    filled: bool = False

    def text(self) -> str:
        """The cell as it is printed."""
        return cell_text(self.value, filled=self.filled)

    def words(self) -> str:
        """What it is called in a sentence."""
        if self.filled:
            return f"{self.name} ({self.text()})"
        return f"{self.name} = {self.value}" if isinstance(self.value, str) else self.name


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """What would move a row to another cluster.

    Attributes
    ----------
    cluster : the cluster that is reached: as a rule the one whose boundary is nearest, which need
        not be the one whose centre is
    distance : length of the shortest way to its boundary in the layer's space, and `relative` to
        the row's length
    changes : few columns with values as they are printed, which move the row: the model was asked.
        Empty for images, and where no change of the columns that may change was found
    values : (d,) the row with these changes; None if there are none
    boundary : (d,) the nearest point that belongs to the other cluster, in the data's own units, as
        the decoder draws it where there is one; None if the model cannot draw it
    path : (steps, d) decoded rows from this row over the boundary to the other centre (deep)
    """

    cluster: int
    distance: float
    relative: float
    changes: tuple[Change, ...]
    values: Floats | None
    boundary: Floats | None
    path: Floats | None = None


@dataclass(frozen=True, eq=False)
class Strips:
    """What the decoder draws where one entry of a row's embedding changes and the others follow.

    Attributes
    ----------
    entries : (p, steps) the entry at every step, from the small ones of sampled rows to the large
    rows : (p, steps, d) as the decoder draws them, in the data's own units
    found : (p, steps) the entry that the encoder gives what was drawn
    """

    entries: Floats
    rows: Floats
    found: Floats


@dataclass(frozen=True, eq=False)
class PointFacts:
    """One row: assignment as attention over centres, exact reasons, and the way out.

    Attributes
    ----------
    row, name : its number in the data, counted from 0, and what people call it, where known
    values, cells : (d,) its features, and column → cell as the table has it, where they differ
    filled : columns in which it has a gap: what stands there is the preparation's, not the row's
    assignment : (k,) what the model uses: one-hot at temperature 0
    attention : (k,) softmax of minus the squared distance over `attention_temperature`
    squared_distances : (k,) to every centre
    margin : ‖x − Ω_k‖² − ‖x − Ω_j‖² = (W_j − W_k)ᵀx + b_j − b_k to runner-up k
    clearness : 0 on the boundary with the runner-up, 1 as far from it as the centre (on the
        sphere: the members' mean) and beyond
    contributions : every column, strongest first
    method : "exact" or "integrated gradients"
    baseline_margin : the margin that is not attributed: that of the mean row where reasons start
        there, which they do behind an encoder; else 0
    completeness_error : |margin − baseline_margin − sum of the contributions|
    rejection : why it belongs to no cluster, where it was asked for and does not
    layer_row : (p,) the row as the layer compares it with its centres: embedded, scaled, at unit
        length, as the model has it
    strips : what the decoder draws along the directions of an embedding, from this row
        (`Explanation.directions`); None without a decoder
    """

    row: int
    name: str | None
    values: Reals
    cells: Mapping[str, Cell] | None
    filled: tuple[str, ...]
    label: str | None
    cluster: int
    runner_up: int
    assignment: Floats
    attention: Floats
    attention_temperature: float
    squared_distances: Floats
    margin: float
    clearness: float
    contributions: tuple[Contribution, ...]
    method: str
    baseline_margin: float
    completeness_error: float
    counterfactual: Counterfactual | None
    summary: str
    layer_row: Floats = field(metadata={"json": False})
    rejection: Rejection | None = None
    strips: Strips | None = field(default=None, metadata={"json": False})


def margin_contributions(
    view: ModelView, Z: Floats, j: int | Ints, k: int | Ints, *, from_zero: bool = False
) -> Floats:
    """Share of every feature in the margin between clusters j and k: shape of `Z`, (n, p).

    (z_f − Ω_kf)² − (z_f − Ω_jf)² = (W_jf − W_kf) z_f + (Ω_kf² − Ω_jf²): the bias is split over the
    features it comes from, so that the sum is the whole margin and no constant is left over.

    On the sphere b_j = b_k, and (W_jf − W_kf) z_f alone sums to the margin too: with `from_zero` a
    feature of 0 adds nothing. That is the split for sparse rows, where 0 is a word that is not
    there: about the middle, words of the other cluster that a text lacks would come first.

    Parameters
    ----------
    view : of a model whose columns reach the centres exactly
    Z : (n, p) layer rows
    j, k : cluster numbers, one or (n,)
    from_zero : on the sphere only

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from tell.explanations.view import view_model
    >>> model = KMeans(2, n_init=1, random_state=0).fit([[0.0, 0.0], [2.0, 4.0]])
    >>> view = view_model(model)
    >>> j = int(model.predict([[0.0, 0.0]])[0])
    >>> margin_contributions(view, np.zeros((1, 2)), j, 1 - j).tolist()
    [[4.0, 16.0]]
    """
    return split_margin(Z, view.centers[j], view.centers[k], from_zero=from_zero and view.on_sphere)


def split_margin(Z: Floats, own: Floats, other: Floats, *, from_zero: bool = False) -> Floats:
    """‖z − Ω_k‖² − ‖z − Ω_j‖² by features, about the middle of the two centres or from 0.

    >>> split_margin(np.zeros(2), np.zeros(2), np.array([2.0, 4.0])).tolist()
    [4.0, 16.0]
    """
    middle = 0.0 if from_zero else (own + other) / 2
    return np.asarray(2 * (own - other) * (Z - middle))


def affine_reasons(
    view: ModelView,
    path: AffineInput,
    x: Reals,
    j: int,
    k: int,
    target: int,
    *,
    from_zero: bool = False,
    start: Floats | None = None,
) -> tuple[Floats, float, Counterfactual | None]:
    """Exact contributions (d,) to j against k, what they leave, and the way to cluster `target`.

    They start at the middle of the two centres, at 0, or at the row `start` (d,), whose own margin
    is what they leave.
    """
    Z = view.layer_rows(x[None])
    if start is None:
        amounts, rest = margin_contributions(view, Z, j, k, from_zero=from_zero)[0], 0.0
    else:
        amounts, rest = _from_row(view, Z[0], view.layer_rows(start[None])[0], j, k)
    if j == k:
        return amounts, rest, None
    row = path.apply(x[None])[0]
    length = float(np.linalg.norm(row)) or 1.0
    reached = just_inside(view, path, nearest_in_cell(view, row, target), target, length)
    after = path.undo(reached[None])[0]
    distance = float(np.linalg.norm(reached - row))
    return amounts, rest, Counterfactual(target, distance, distance / length, (), None, after)


def _from_row(view: ModelView, z: Floats, start: Floats, j: int, k: int) -> tuple[Floats, float]:
    """(W_j − W_k)(z − z₀), the Shapley values of the margin (p,), and the margin of z₀ itself."""
    squared = view.squared_distances(start[None])[0]
    return 2 * (view.centers[j] - view.centers[k]) * (z - start), float(squared[k] - squared[j])


def with_changes(
    view: ModelView,
    found: Counterfactual,
    x: Reals,
    own: int,
    names: Sequence[str],
    columns: Columns,
    member: Reals | None,
    filled: NDArray[np.bool_] | None = None,
) -> Counterfactual:
    """Add the change that is printed: for tables, whose columns people can read."""
    row = np.asarray(x, np.float64)
    if view.predict(row[None])[0] != own:  # a label that was given: the model answers otherwise
        return found
    step = None if found.path is None else found.path[len(found.path) // 2] - found.path[0]
    there = None if member is None else np.asarray(member, np.float64)
    change = printed_change(
        view, row, own, found.cluster, names, columns, member=there, step=step, filled=filled
    )
    if change is None:
        return found
    values, cluster, changes = change
    return replace(found, cluster=cluster, changes=changes, values=values)


def contributions(
    terms: Terms,
    x: Reals,
    amounts: Floats,
    filled: NDArray[np.bool_] | None = None,
    *,
    most: int | None = None,
    signed: bool = False,
) -> tuple[Contribution, ...]:
    """Amounts (d,) as facts, one per column, strongest first; `signed`: largest first."""
    firsts = np.array([column.features[0] for column in terms.columns], np.intp)
    sums = np.add.reduceat(amounts, firsts)  # the features of a column stand together
    # What is left of parts that cancel is rounding, not a reason.
    sums = np.where(np.abs(sums) > 1e-12 * np.abs(amounts).max(initial=0.0), sums, 0.0)
    gaps = np.zeros(len(x), bool) if filled is None else filled
    order = np.argsort(-sums if signed else -np.abs(sums), kind="stable")
    return tuple(
        Contribution(
            terms.columns[c].name,
            int(firsts[c]),
            terms.columns[c].cell(x),
            float(sums[c]),
            bool(gaps[firsts[c]]),
        )
        for c in order[:most].tolist()
    )


def describe_point(
    view: ModelView,
    row: int,
    x: Reals,
    names: Sequence[str],
    *,
    typical_loss: float,
    reach: Floats,
    baseline: Floats,
    columns: Columns,
    members: Mapping[int, Reals],
    called: str | None = None,
    label: str | None = None,
    given: int | None = None,
    filled: NDArray[np.bool_] | None = None,
    is_image: bool = False,
    is_sparse: bool = False,
    from_mean: bool = False,
    ends: Floats | None = None,
) -> PointFacts:
    """All facts of one row (d,).

    `typical_loss` is the temperature of the soft view at τ = 0, `reach` (k,) that of `Scan`,
    `baseline` the row at which the attribution of a deep model starts, `columns` what values may
    change, and how, and `members` the most typical row of each cluster. `called` is what people
    call the row, `given` its cluster where that was given, and `filled` (d,) marks values that
    stand for a gap. A row of a matrix that `is_sparse` has no reasons in columns where it is 0.
    With `from_mean` the reasons of a model without an encoder start at the baseline too. `ends`
    (2, p) are the entries between which the directions of an embedding are drawn.
    """
    terms = columns.terms
    own = None if given is None else np.array([given])
    placed = assign(view, Block(x[None], None, np.array([row]), own)).relative_to(reach)
    j, k = int(placed.labels[0]), int(placed.runner_up[0])
    layer_row = view.layer_rows(x[None])[0]
    squared = view.squared_distances(layer_row[None])[0]
    target = nearest_other(view, squared, j, default=k)
    margin, rest, method, strips = float(placed.margin[0]), 0.0, EXACT, None
    if isinstance(view.path, EncodedInput):
        from tell.explanations.attribution import decoded_strips, encoded_reasons

        method = ATTRIBUTED
        amounts, rest, found = encoded_reasons(view, view.path, x, j, k, target, baseline)
        strips = None if ends is None else decoded_strips(view, layer_row, ends)
    else:
        start = baseline if from_mean and not (is_sparse and view.on_sphere) else None
        amounts, rest, found = affine_reasons(
            view, view.path, x, j, k, target, from_zero=is_sparse, start=start
        )
    if found is not None and not is_image:
        found = with_changes(view, found, x, j, names, columns, members.get(target), filled)
    reasons = contributions(terms, x, amounts, filled)
    total = sum(one.amount for one in reasons)
    clearness = float(placed.clearness[0])
    temperature = view.temperature or typical_loss
    return PointFacts(
        row=row,
        name=called,
        values=x,
        cells=terms.cells(x) if terms.prepared else None,
        filled=terms.filled(filled),
        label=label,
        cluster=j,
        runner_up=k,
        assignment=attention(squared, view.temperature),
        attention=attention(squared, temperature),
        attention_temperature=temperature,
        squared_distances=squared,
        margin=margin,
        clearness=clearness,
        contributions=reasons,
        method=method,
        baseline_margin=rest,
        completeness_error=abs(margin - rest - total),
        counterfactual=found,
        summary=_summary(view, called or f"Row {row}", j, k, clearness, reasons, found, is_image),
        layer_row=layer_row,
        strips=strips,
    )


def attention(squared: Floats, temperature: float) -> Floats:
    """Softmax of minus the squared distances (k,) over τ; τ = 0 keeps the largest entry.

    >>> attention(np.array([1.0, 1.0, 3.0]), 0.0).tolist()
    [1.0, 0.0, 0.0]
    >>> attention(np.array([1.0, 1.0]), 0.5).tolist()
    [0.5, 0.5]
    """
    if temperature == 0:
        return np.eye(len(squared))[int(np.argmin(squared))]
    scores = np.exp(-(squared - squared.min()) / temperature)
    return np.asarray(scores / scores.sum())


def _summary(
    view: ModelView,
    who: str,
    j: int,
    k: int,
    clearness: float,
    reasons: Sequence[Contribution],
    found: Counterfactual | None,
    is_image: bool,
) -> str:
    if found is None:
        return f"{who} is in {view.called(j)}, the only one."
    place = f"{who} is in {view.called(j)}, {percent(clearness)} clear of {view.called(k)}"
    if is_image:
        return f"{place}."
    speak = " and ".join(one.words() for one in reasons[:2] if one.amount > 0)
    against = next((one.words() for one in reasons if one.amount < 0), None)
    because = f", because of {speak}" if speak else ""
    despite = f", despite {against}" if against else ""
    return f"{place}{because}{despite}.{_way_out(view, found, k)}"


def _way_out(view: ModelView, found: Counterfactual, k: int) -> str:
    if not found.changes:
        return ""
    moves = [f"{one.name} {' → '.join(one.text())}" for one in found.changes]
    more = counted(len(moves) - MOST_TOLD, "further change")
    rest = "" if len(moves) <= MOST_TOLD else f" and {more}"
    ways = joined(moves) if not rest else ", ".join(moves[:MOST_TOLD]) + rest
    there = "there" if found.cluster == k else f"to {view.called(found.cluster)}"
    return f" It moves {there} with {ways}."


def nearest_other(view: ModelView, squared: Floats, own: int, *, default: int) -> int:
    """The cluster whose boundary with cluster `own` is nearest to a row.

    `squared` (k,) are its squared distances to the centres. The boundary with cluster k is
    (‖x − Ω_k‖² − ‖x − Ω_j‖²) / 2‖Ω_j − Ω_k‖ away. On the way to the nearest of these planes no
    other one is crossed, so that its foot belongs to cluster k. A centre at the very place of the
    own one has no such plane; `default` is for rows that know no other.
    """
    apart = np.linalg.norm(view.centers - view.centers[own], axis=1)
    far = np.full(len(apart), np.inf)
    distance = np.divide(squared - squared[own], apart, out=far, where=apart > 0)
    nearest = int(np.argmin(distance))
    return nearest if np.isfinite(distance[nearest]) else default


def nearest_in_cell(view: ModelView, row: Floats, target: int) -> Floats:
    """The point nearest to a scaled row (p,) that belongs to cluster `target`, on its boundary.

    Projection on the bisecting hyperplane of the two centres; on the sphere that plane goes
    through the origin, so the projection is a rotation towards the other centre. If a third
    cluster lies in between, the projection on the whole cell (Lawson and Hanson's least
    distance programme) takes its place.
    """
    centers = view.centers
    others = np.delete(np.arange(view.n_clusters), target)
    normals = centers[target] - centers[others]  # normals · x ≥ offsets inside the cell
    squares = np.einsum("ij,ij->i", centers, centers)
    offsets = np.zeros(len(others)) if view.on_sphere else (squares[target] - squares[others]) / 2
    shortfall = offsets - normals @ row
    widths = np.einsum("ij,ij->i", normals, normals)
    steps = np.divide(shortfall, widths, out=np.zeros_like(widths), where=widths > 0)
    worst = int(np.argmax(steps * np.sqrt(widths)))
    if steps[worst] <= 0:
        return row
    reached = row + steps[worst] * normals[worst]
    tolerance = 1e-9 * (1 + np.abs(offsets))
    if np.all(normals @ reached >= offsets - tolerance):
        return reached
    return row + _least_distance(normals, shortfall)


def just_inside(
    view: ModelView, path: AffineInput, reached: Floats, target: int, length: float
) -> Floats:
    """Go on from the boundary (p,) towards the centre until the model itself says `target`.

    A point on the boundary belongs to both clusters, and rounding would decide. `length` is that of
    the row, which the centre takes on the sphere.
    """
    center = view.centers[target] * (length if view.on_sphere else 1.0)
    for share in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        inside = reached + share * (center - reached)
        if view.predict(path.undo(inside[None]))[0] == target:
            break
    return np.asarray(inside)


def _least_distance(G: Floats, h: Floats) -> Floats:
    """Shortest u with G u ≥ h, by non-negative least squares."""
    scale = max(float(np.abs(h).max()), 1e-300)
    system = np.vstack([G.T, h / scale])
    goal = np.zeros(len(system))
    goal[-1] = 1.0
    weights, _ = nnls(system, goal)
    residual = system @ weights - goal
    return -scale * residual[:-1] / residual[-1]
