"""The layer: hand-computed values and gradients, and every way people train a module."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tell import ClusterLayer
from tell.exceptions import InputError, ParameterError

AXES = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.5),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
}


def axes(**options: object) -> ClusterLayer:
    layer = ClusterLayer(2, 2, **options)  # type: ignore[arg-type]
    layer.set_centers_(AXES.to(layer.weight.dtype))
    return layer


def points(n: int = 40, d: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(n), dtype=dtype)


def layer(d: int = 5, k: int = 4, seed: int = 0, **options: object) -> ClusterLayer:
    torch.manual_seed(seed)
    return ClusterLayer(d, k, **options)  # type: ignore[arg-type]


def train(model: nn.Module, z: Tensor, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(z).loss.mean().backward()
        optimizer.step()


def assert_on_sphere(model: ClusterLayer) -> None:
    lengths = model.centers.detach().norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=1e-6, atol=0)


def assert_normalised_gradient(model: ClusterLayer, ratio: float = 0.1) -> None:
    assert model.weight.grad is not None
    lengths = model.weight.grad.norm(dim=1)
    lengths = lengths[lengths > 0]
    assert len(lengths)
    wanted = torch.full_like(lengths, ratio * 2 * model.alpha)
    torch.testing.assert_close(lengths, wanted, rtol=1e-5, atol=0)


# --- values ------------------------------------------------------------------------------------


def test_values_on_the_sphere_by_hand() -> None:
    out = axes()(torch.tensor([[3.0, 4.0], [0.0, -2.0]]))
    # Unit points (0.6, 0.8) and (0, -1): squared distances 2 - 2 cos.
    torch.testing.assert_close(out.scores, torch.tensor([[-0.8, -0.4], [-2.0, -4.0]]))
    assert out.labels.tolist() == [1, 0]
    assert out.assignment.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    torch.testing.assert_close(out.loss, torch.tensor([0.4, 2.0]))
    torch.testing.assert_close(out.margin, torch.tensor([0.4, 2.0]))


def test_values_in_euclidean_geometry_by_hand() -> None:
    out = axes(geometry="euclidean")(torch.tensor([[3.0, 4.0], [0.0, -2.0]]))
    torch.testing.assert_close(out.scores, torch.tensor([[-20.0, -18.0], [-5.0, -9.0]]))
    assert out.labels.tolist() == [1, 0]
    torch.testing.assert_close(out.loss, torch.tensor([18.0, 5.0]))


def test_soft_assignment_by_hand() -> None:
    out = axes(temperature=0.4, dtype=torch.float64)(torch.tensor([[0.6, 0.8]]))
    weight = 1 / (1 + torch.e**-1)  # scores −0.8 and −0.4 differ by one temperature
    torch.testing.assert_close(
        out.assignment, torch.tensor([[1 - weight, weight]], dtype=torch.float64)
    )
    assert out.loss.item() == pytest.approx(0.8 * (1 - weight) + 0.4 * weight)


def test_gradient_by_hand() -> None:
    model = axes()
    z = torch.tensor([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    model(z).loss.sum().backward()
    # Σ (2 − W_jᵀx) over a cluster's points: minus the sum of its points.
    torch.testing.assert_close(model.weight.grad, torch.tensor([[-1.0, 0.0], [-0.6, -1.8]]))
    # The pull W_j = (0, 2) less its part along the point: (0, 2) − 1.6 · (0.6, 0.8), reversed.
    assert z.grad is not None
    torch.testing.assert_close(z.grad[0], torch.tensor([0.96, -0.72]))


def test_euclidean_gradient_by_hand() -> None:
    model = axes(geometry="euclidean")
    model(torch.tensor([[0.0, 3.0]])).loss.sum().backward()
    # ∂‖x − Ω‖²/∂W = −(x − Ω), because W = 2Ω.
    torch.testing.assert_close(model.weight.grad, torch.tensor([[0.0, 0.0], [0.0, -2.0]]))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_gradients_against_finite_differences(geometry: str) -> None:
    model = layer(geometry=geometry, temperature=0.3, dtype=torch.float64)
    z = points(6, dtype=torch.float64).requires_grad_()

    def losses(z: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(model, {"weight": weight}, (z,)).loss

    weight = model.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(losses, (z, weight))


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_scores_are_minus_squared_distances(seed: int, k: int, d: int) -> None:
    z = torch.randn(9, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for geometry in ("sphere", "euclidean"):
        model = layer(d, k, seed, geometry=geometry, dtype=torch.float64)
        seen = nn.functional.normalize(z, dim=1) if geometry == "sphere" else z
        distances = (seen[:, None] - model.centers[None]).square().sum(dim=2)
        out = model(z)
        torch.testing.assert_close(-out.scores, distances)
        torch.testing.assert_close(out.loss, distances.amin(dim=1))
        torch.testing.assert_close(out.labels, distances.argmin(dim=1))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_low_temperature_is_argmax(geometry: str) -> None:
    soft, hard = (layer(geometry=geometry, temperature=t) for t in (1e-5, 0.0))
    torch.testing.assert_close(soft(points()).assignment, hard(points()).assignment)
    torch.testing.assert_close(soft(points()).loss, hard(points()).loss)


@given(st.floats(1e-4, 1e4))
@settings(max_examples=20, deadline=None)
def test_results_do_not_depend_on_alpha(alpha: float) -> None:
    for geometry in ("sphere", "euclidean"):
        plain = layer(geometry=geometry, dtype=torch.float64)
        scaled = layer(geometry=geometry, alpha=alpha, dtype=torch.float64)
        scaled.set_centers_(plain.centers.detach())
        for ours, theirs in zip(scaled(points()), plain(points()), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_training_does_not_depend_on_alpha() -> None:
    z, centers = points(dtype=torch.float64), layer(dtype=torch.float64).centers.detach()
    ends = []
    for alpha in (1.0, 0.001):
        # A gradient of a tenth of the row, so the same rate is the same turn of the centre.
        model = layer(alpha=alpha, dtype=torch.float64)
        model.set_centers_(centers)
        train(model, z, torch.optim.SGD(model.parameters(), lr=0.3), steps=10)
        ends.append(model.centers.detach())
    torch.testing.assert_close(ends[0], ends[1])
    assert not torch.allclose(ends[0], centers)


def test_euclidean_distances_keep_their_digits_far_from_the_origin() -> None:
    model = layer(2, 2, geometry="euclidean")
    model.set_centers_(torch.tensor([[1e5, 1e5], [1e5 + 1, 1e5]]))
    out = model(torch.tensor([[1e5 + 0.75, 1e5]]))
    torch.testing.assert_close(out.scores, torch.tensor([[-0.5625, -0.0625]]))


def test_one_cluster_has_no_runner_up() -> None:
    out = layer(k=1)(points())
    assert out.margin.isinf().all()
    assert not out.labels.any()


def test_empty_batch() -> None:
    out = layer()(torch.empty(0, 5))
    assert [tuple(part.shape) for part in out] == [(0, 4), (0, 4), (0,), (0,), (0,)]


def test_points_of_zeros_have_no_direction_and_feel_no_force() -> None:
    z = torch.zeros(3, 5, requires_grad=True)
    model = layer()
    out = model(z)
    out.loss.sum().backward()
    assert out.loss.tolist() == [2, 2, 2]
    assert not z.grad.any()  # type: ignore[union-attr]
    assert not model.weight.grad.any()  # type: ignore[union-attr]


# --- figure 2 ----------------------------------------------------------------------------------


def descent(**switches: bool) -> tuple[ClusterLayer, list[float]]:
    torch.manual_seed(0)
    z = nn.functional.normalize(torch.randn(60, 5).abs(), dim=1)  # one bundle of directions
    model = layer(**switches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        out = model(z)
        out.loss.mean().backward()
        optimizer.step()
        losses.append(out.loss.mean().item())
    return model, losses


def test_without_normalisation_the_loss_falls_for_ever() -> None:
    model, losses = descent(normalize_weight=False, normalize_gradient=False)
    assert all(later < earlier for earlier, later in pairwise(losses))
    assert losses[-1] < -50  # no squared distance: figure 2(a)
    assert model.centers.norm(dim=1).max() > 20


def test_with_weights_alone_the_step_depends_on_the_gradient() -> None:
    model, losses = descent(normalize_weight=True, normalize_gradient=False)
    assert_on_sphere(model)
    assert min(losses) >= 0
    lengths = model.weight.grad.norm(dim=1)  # type: ignore[union-attr]
    assert lengths.max() - lengths.min() > 0.1  # as many lengths as clusters have points


def test_with_both_the_loss_settles() -> None:
    model, losses = descent()
    assert_on_sphere(model)
    assert_normalised_gradient(model)
    assert losses[-1] < 0.5 * losses[0]
    assert max(losses[-50:]) < 1.2 * min(losses[-50:])  # within lemma 2's radius of the optimum


# --- any loop ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("alpha", [1.0, 0.001])
def test_every_optimiser_keeps_the_sphere(name: str, alpha: float) -> None:
    model = layer(alpha=alpha)
    before = model.centers.detach().clone()
    train(model, points(), OPTIMIZERS[name](model.parameters()))
    assert_normalised_gradient(model)
    assert_on_sphere(model)
    assert not torch.equal(before, model.centers)


def test_own_gradient_ratio() -> None:
    model = layer(gradient_ratio=0.02)
    train(model, points(), torch.optim.SGD(model.parameters(), lr=1.0), steps=1)
    assert_normalised_gradient(model, ratio=0.02)


def test_one_step_by_hand() -> None:
    model = axes()
    train(model, torch.tensor([[0.6, 0.8]]), torch.optim.SGD(model.parameters(), lr=1.0), steps=1)
    moved = torch.tensor([0.0, 2.0]) + 0.2 * torch.tensor([0.6, 0.8])
    torch.testing.assert_close(model.centers[1], moved / moved.norm())
    torch.testing.assert_close(model.centers[0], AXES[0])  # no rows, no step


def test_accumulated_gradient_equals_that_of_the_whole_batch() -> None:
    z = points(48, dtype=torch.float64)
    whole, parts = (layer(dtype=torch.float64) for _ in range(2))
    train(whole, z, torch.optim.SGD(whole.parameters(), lr=0.7), steps=2)
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.7)
    for _ in range(2):
        optimizer.zero_grad()
        for micro in z.split(12):
            (parts(micro).loss.mean() / 4).backward()
        optimizer.step()
    torch.testing.assert_close(whole.weight, parts.weight)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_closure_is_normalised_too(name: str) -> None:
    plain, closed = layer(), layer()
    train(plain, points(), OPTIMIZERS[name](plain.parameters()), steps=1)
    optimizer = OPTIMIZERS[name](closed.parameters())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = closed(points()).loss.mean()
        loss.backward()
        return loss

    returned = optimizer.step(closure)
    assert isinstance(returned, Tensor)
    assert torch.equal(plain.weight, closed.weight)


@pytest.mark.parametrize("as_keyword", [False, True])
def test_lbfgs_calls_a_normalised_closure(as_keyword: bool) -> None:
    model, lengths = layer(), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(points()).loss.mean()
        loss.backward()
        lengths.append(model.weight.grad.norm(dim=1))  # type: ignore[union-attr]
        return loss

    before = model.centers.detach().clone()
    optimizer.step(closure=closure) if as_keyword else optimizer.step(closure)
    assert len(lengths) > 1
    assert (lengths[-1] - 0.2).abs().max() > 0.01  # it was normalised after the closure
    assert_normalised_gradient(model)
    assert_on_sphere(model)
    assert not torch.equal(before, model.centers)


class Own(torch.optim.Optimizer):
    """An optimiser whose `step` takes what it likes."""

    def __init__(self, params: Iterable[Tensor]) -> None:
        super().__init__(params, {})
        self.got: tuple[object, ...] = ()

    def step(self, first: object = None, *more: object, **named: object) -> None:  # type: ignore[override]
        self.got = (first, *more, *named.items())


def test_other_optimisers_get_the_arguments_they_were_given() -> None:
    near = layer()  # lives, but is not theirs
    optimizer = Own([nn.Parameter(torch.ones(2))])
    for arguments in ((0.1,), (len,), (len, True), (None, 3)):
        optimizer.step(*arguments)
        assert optimizer.got == arguments
    optimizer.step(0.1, closure=len, lr=2)
    assert optimizer.got == (0.1, ("closure", len), ("lr", 2))
    assert near.weight.grad is None


def test_own_arguments_of_a_step_with_the_layer_are_kept() -> None:
    model = layer()
    optimizer = Own(model.parameters())
    model(points()).loss.mean().backward()
    optimizer.step(0.1, "more", lr=2)  # no closure: the gradient is there already
    assert optimizer.got == (0.1, "more", ("lr", 2))
    assert_normalised_gradient(model)
    for call in (lambda c: optimizer.step(c, True), lambda c: optimizer.step(True, closure=c)):
        model.weight.grad = torch.ones_like(model.weight)
        call(lambda: "loss")
        wrapped = next(part for part in _flat(optimizer.got) if callable(part))
        assert True in optimizer.got
        assert wrapped() == "loss"
        assert_normalised_gradient(model)


def _flat(got: tuple[object, ...]) -> list[object]:
    return [part for item in got for part in (item if isinstance(item, tuple) else (item,))]


@pytest.mark.parametrize("name", ["SGD", "fused"])
def test_loss_scaling_changes_nothing(name: str) -> None:
    plain, scaled = layer(), layer()
    train(plain, points(), OPTIMIZERS[name](plain.parameters()), steps=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = OPTIMIZERS[name](scaled.parameters())
    scaler.scale(scaled(points()).loss.mean()).backward()
    scaler.step(optimizer)
    torch.testing.assert_close(plain.weight, scaled.weight)


def test_an_update_by_hand_is_projected_at_the_next_call() -> None:
    model = layer()
    model(points()).loss.mean().backward()
    with torch.no_grad():
        model.weight -= 3 * model.weight.grad  # type: ignore[operator]
    model(points())
    assert_on_sphere(model)


def test_behind_a_network_both_learn() -> None:
    torch.manual_seed(0)
    encoder, model = nn.Linear(5, 3), ClusterLayer(3, 4)
    before = encoder.weight.detach().clone()
    optimizer = torch.optim.Adam([*encoder.parameters(), *model.parameters()], lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model(encoder(points())).loss.mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert not torch.equal(before, encoder.weight)
    assert_on_sphere(model)


def test_a_layer_of_another_optimiser_is_left_alone() -> None:
    mine, other = layer(), layer(seed=1)
    other(points()).loss.mean().backward()
    gradient, weight = other.weight.grad.clone(), other.weight.detach().clone()  # type: ignore[union-attr]
    train(mine, points(), torch.optim.SGD(mine.parameters(), lr=0.5))
    assert torch.equal(other.weight.grad, gradient)  # type: ignore[arg-type]
    assert torch.equal(other.weight, weight)


def copies(model: ClusterLayer) -> dict[str, ClusterLayer]:
    loaded = layer(seed=9)
    loaded.load_state_dict(model.state_dict())
    return {
        "deepcopy": copy.deepcopy(model),
        "pickle": pickle.loads(pickle.dumps(model)),
        "state_dict": loaded,
    }


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "state_dict"])
def test_copies_are_equal_to_the_bit_and_look_after_themselves(way: str) -> None:
    model = layer()
    train(model, points(), torch.optim.SGD(model.parameters(), lr=0.3))
    twin = copies(model)[way]
    for ours, theirs in zip(twin(points()), model(points()), strict=True):
        assert torch.equal(ours, theirs)
    assert list(model.state_dict()) == ["weight"]
    train(model, points(), torch.optim.Adam(model.parameters(), lr=0.3))
    train(twin, points(), torch.optim.Adam(twin.parameters(), lr=0.3))
    assert torch.equal(twin.weight, model.weight)
    assert_normalised_gradient(twin)
    assert_on_sphere(twin)


def test_moved_dtype() -> None:
    model = layer().double()
    train(model, points(dtype=torch.float64), torch.optim.SGD(model.parameters(), lr=0.3))
    assert model(points(dtype=torch.float64)).loss.dtype == torch.float64
    assert_on_sphere(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("d", [1, 2, 5, 64])
def test_half_precision_stays_within_its_rounding(dtype: torch.dtype, alpha: float, d: int) -> None:
    model = layer(d=d, dtype=dtype, alpha=alpha)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(60):
        train(model, points(d=d, dtype=dtype), optimizer, steps=1)
        lengths = model.weight.detach().float().norm(dim=1) / (2 * alpha)
        assert (lengths - 1).abs().max() <= torch.finfo(dtype).eps
        settled = model.weight.detach().clone()
        model.project_()
        assert torch.equal(model.weight, settled)  # what is rounded cannot come closer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_precision_keeps_every_bit(dtype: torch.dtype) -> None:
    model = layer(dtype=dtype)
    train(model, points(dtype=dtype), torch.optim.SGD(model.parameters(), lr=0.3))
    settled = model.weight.detach().clone()
    model.set_centers_(model.centers)
    assert torch.equal(model.weight, settled)
    model.set_centers_(model.centers * (1 + 20 * torch.finfo(dtype).eps))
    torch.testing.assert_close(model.weight, settled)
    assert (model.centers.norm(dim=1) - 1).abs().max() < 4 * torch.finfo(dtype).eps


def test_autocast_keeps_the_precision_of_the_scores() -> None:
    model, encoder = layer(), nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = encoder(points())
        out = model(z)
    assert z.dtype == torch.bfloat16
    assert out.loss.dtype == torch.float32
    torch.testing.assert_close(out.scores, model(z.float()).scores)
    out.loss.mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.3).step()
    assert_normalised_gradient(model)
    assert_on_sphere(model)


def test_compiled_layer_trains_as_the_plain_one() -> None:
    plain, inner = layer(), layer()
    compiled = torch.compile(inner, backend="eager", fullgraph=True)
    train(plain, points(), torch.optim.SGD(plain.parameters(), lr=0.3))
    train(compiled, points(), torch.optim.SGD(compiled.parameters(), lr=0.3))
    torch.testing.assert_close(inner.weight, plain.weight)
    assert_normalised_gradient(inner)


def test_a_borrowed_weight_is_not_written() -> None:
    model, lent = layer(), {"weight": 3 * layer(seed=1).weight.detach()}
    before, own = lent["weight"].clone(), model.weight.detach().clone()
    torch.func.functional_call(model, lent, (points(),))
    assert torch.equal(lent["weight"], before)
    assert torch.equal(model.weight, own)


def test_inference_mode() -> None:
    with torch.inference_mode():
        assert layer()(points()).labels.shape == (40,)


WORKER = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from tell.core.layer import ClusterLayer

    rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    layer = ClusterLayer(5, 4, dtype=torch.float64)
    model = DistributedDataParallel(layer)
    z = torch.randn(40, 5, generator=torch.Generator().manual_seed(40), dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(z[rank * 20 : rank * 20 + 20]).loss.mean().backward()
        optimizer.step()
    torch.save(layer.weight.detach(), f"{out}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    # Gloo's threads may still hold tensors; freeing these while Python ends aborts the process
    # (github.com/pytorch/pytorch/pull/179291). All that is tested has happened by now.
    os._exit(0)
"""


def test_two_processes_equal_one(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(WORKER),
                str(rank),
                tmp_path / "store",
                tmp_path,
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    alone = layer(dtype=torch.float64)
    z = points(40, dtype=torch.float64)
    train(alone, z, torch.optim.SGD(alone.parameters(), lr=0.5))
    weights = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert torch.equal(weights[0], weights[1])
    torch.testing.assert_close(weights[0], alone.weight.detach())


# --- options and bad input ---------------------------------------------------------------------


def test_kaiming_start() -> None:
    model = layer(200, 50, geometry="euclidean")
    assert model.centers.abs().max().item() == pytest.approx(0.5 / 200**0.5, rel=0.05)
    again = layer(200, 50, geometry="euclidean")
    again.reset_parameters()
    assert not torch.equal(model.weight, again.weight)


def test_representation_names_the_options() -> None:
    text = repr(layer(temperature=0.5, alpha=0.001))
    for part in ("in_features=5", "n_clusters=4", "'sphere'", "temperature=0.5", "alpha=0.001"):
        assert part in text


@pytest.mark.parametrize(
    "options",
    [
        {"in_features": 0},
        {"n_clusters": 0},
        {"geometry": "hyperbolic"},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"gradient_ratio": 0.0},
        {"alpha": float("inf")},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        ClusterLayer(**{"in_features": 2, "n_clusters": 2, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 5)])
def test_points_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="shape"):
        layer()(torch.zeros(shape))


def test_centres_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(4, 5\)"):
        layer().set_centers_(torch.zeros(5, 4))


def test_gradients_too_small_to_square_are_taken_for_zero() -> None:
    module = axes()
    module.weight.grad = torch.full((2, 2), 1e-25)
    module.normalize_gradient_()
    assert module.weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_layers_may_be_built_while_another_thread_steps() -> None:
    stop, interval = Event(), sys.getswitchinterval()

    def build() -> None:
        while not stop.is_set():
            ClusterLayer(2, 2)

    sys.setswitchinterval(1e-6)
    builder = Thread(target=build)
    builder.start()
    try:
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        for _ in range(3000):
            optimizer.step()
    finally:
        stop.set()
        builder.join()
        sys.setswitchinterval(interval)


def test_an_array_is_not_a_tensor() -> None:
    with pytest.raises(InputError, match=r"torch\.Tensor, got list"):
        axes()([[1.0, 2.0]])
