"""k-means as a neural layer whose weights are the cluster centres (section 3.2 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from tell.exceptions import InputError, ParameterError

Geometry = Literal["sphere", "euclidean"]


class ClusterOutput(NamedTuple):
    """What the layer says about a batch of n points and k clusters."""

    scores: Tensor  # (n, k) minus the squared distance to every centre
    assignment: Tensor  # (n, k) rows sum to one: the attention a point pays to each centre
    labels: Tensor  # (n,) index of the nearest centre
    loss: Tensor  # (n,) one value per point; the objective weighs and averages
    margin: Tensor  # (n,) score of the nearest centre minus that of the runner-up


class ClusterLayer(nn.Module):
    r"""Cluster a batch of points; the weight is the centres, the loss is k-means'.

    With centres Ω the layer holds W = 2Ω, so that ‖x − Ω_j‖² = β − W_jᵀx − b_j (Eq. 4-6).
    On the sphere (the paper) points and centres have unit length, β and b are constant and the
    loss is Σ_j I_j (2 − W_jᵀx). In the euclidean geometry b stays coupled to W, so the layer is
    mini-batch k-means for data whose magnitudes matter.

    Put it behind any network and train it with any `torch.optim` optimiser: around every
    `optimizer.step()` the layer scales its own gradient to a tenth of each centre's length and
    then puts the centres back on the sphere, the paper's figure 2(c).

    Parameters
    ----------
    in_features : int
        Length d of a point.
    n_clusters : int
        Number k of centres.
    geometry : {"sphere", "euclidean"}
        Whether directions or positions are clustered.
    temperature : float
        τ of Eq. 7: above 0 the assignment is a softmax of the scores over τ; 0 keeps the largest.
    normalize_weight, normalize_gradient : bool
        The three cases of the paper's figure 2: (False, False) diverges, (True, False) is
        unstable, (True, True) is the method. They act on the sphere only.
    gradient_ratio : float
        Length of each row's normalised gradient, as a part of the row's length.
    alpha : float
        Scale of the stored weight, W = 2αΩ. Results do not depend on it; optimisers whose step
        depends on the gradient's size do (the authors use 0.001 with Adadelta).

    Examples
    --------
    >>> import torch
    >>> from tell import ClusterLayer
    >>> layer = ClusterLayer(2, 2)
    >>> layer.set_centers_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> out = layer(torch.tensor([[3.0, 0.0], [0.0, 0.5], [0.6, 0.8]]))
    >>> out.labels
    tensor([0, 1, 1])
    >>> round(out.loss.sum().item(), 4)
    0.4
    """

    def __init__(
        self,
        in_features: int,
        n_clusters: int,
        *,
        geometry: Geometry = "sphere",
        temperature: float = 0.0,
        normalize_weight: bool = True,
        normalize_gradient: bool = True,
        gradient_ratio: float = 0.1,
        alpha: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_options(in_features, n_clusters, geometry, temperature, gradient_ratio, alpha)
        self.in_features = in_features
        self.n_clusters = n_clusters
        self.geometry = geometry
        self.temperature = float(temperature)
        self.normalize_weight = normalize_weight
        self.normalize_gradient = normalize_gradient
        self.gradient_ratio = float(gradient_ratio)
        self.alpha = float(alpha)
        self.weight = nn.Parameter(torch.empty(n_clusters, in_features, device=device, dtype=dtype))
        self.reset_parameters()
        _register(self)

    def reset_parameters(self) -> None:
        """Draw new centres by Kaiming's uniform rule, as the paper does."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.project_()

    @property
    def centers(self) -> Tensor:
        """The cluster centres Ω, of shape (k, d); a differentiable view of the weight."""
        return self.weight / (2 * self.alpha)

    @torch.no_grad()
    def set_centers_(self, centers: Tensor) -> None:
        """Overwrite the centres with a tensor of shape (k, d)."""
        if centers.shape != self.weight.shape:
            raise InputError(
                f"centers need the shape {tuple(self.weight.shape)}, got {tuple(centers.shape)}"
            )
        self.weight.copy_(centers * (2 * self.alpha))
        self.project_()

    def forward(self, z: Tensor) -> ClusterOutput:
        """Score, assign and judge points z of shape (n, d)."""
        if not isinstance(z, Tensor):
            raise InputError(
                f"points need to be a torch.Tensor, got {type(z).__name__}; use torch.as_tensor"
            )
        if z.ndim != 2 or z.shape[1] != self.in_features:
            raise InputError(
                f"points need the shape (n, {self.in_features}), got {tuple(z.shape)}; "
                "flatten or reshape them before the layer"
            )
        if not torch.compiler.is_compiling() and self._was_written():
            self.project_()
        scores = self._scores(z)
        best, labels = scores.max(dim=1)
        if self.temperature > 0:
            assignment = torch.softmax(scores / self.temperature, dim=1)  # Eq. 7
            loss = -(assignment * scores).sum(dim=1)
        else:  # τ → 0: only the nearest centre counts, as in k-means
            assignment = F.one_hot(labels, self.n_clusters).to(scores.dtype)
            loss = -best
        return ClusterOutput(scores, assignment, labels, loss, _margin(scores))

    def _scores(self, z: Tensor) -> Tensor:
        # Mixed precision would round cosines that differ in the third digit: stay in W's dtype.
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(self.weight.dtype)
            if self.geometry == "sphere":
                # Eq. 12: with β = 1 and b = −1 the squared distance is 2 − Wᵀx.
                return unit(z) @ self.weight.T / self.alpha - 2
            # Distances stay when all moves along: near the origin float32 keeps their digits.
            middle = self.centers.detach().mean(dim=0)
            z, centers = z - middle, self.centers - middle
            beta = z.square().sum(dim=1, keepdim=True)
            bias = -centers.square().sum(dim=1)  # Eq. 5, coupled to W
            return 2 * (z @ centers.T) + bias - beta

    @torch.no_grad()
    def project_(self) -> None:
        """Put the centres back on the sphere (figure 2b and 2c); those on it keep every bit."""
        if self.geometry == "sphere" and self.normalize_weight:
            precise = torch.promote_types(self.weight.dtype, torch.float32)
            length = torch.linalg.vector_norm(self.weight, dim=1, keepdim=True, dtype=precise)
            ratio = length / (2 * self.alpha)
            off = (ratio - 1).abs() > _tolerance(self.weight.dtype)
            self.weight.div_(torch.where(off & (ratio > 0), ratio, 1))
        self._projected_version = self._writes()

    def _writes(self) -> int:
        """How often the weight was written; 0 where torch does not count (inference mode)."""
        return 0 if self.weight.is_inference() else self.weight._version

    def _was_written(self) -> bool:
        """Whether somebody wrote the weight without an optimiser.

        What `torch.func.functional_call` lends the layer for one call is not the layer's to change.
        """
        return isinstance(self.weight, nn.Parameter) and self._writes() != self._projected_version

    @torch.no_grad()
    def normalize_gradient_(self, scale: float = 1.0) -> None:
        """Give each row's gradient a tenth of the row's length (figure 2c); zero stays zero."""
        if self.geometry != "sphere" or not self.normalize_gradient or self.weight.grad is None:
            return
        gradient = self.weight.grad
        length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        # A length that is too small for its square to be a number counts as zero.
        gradient.div_(torch.where(length > 0, length, torch.inf))
        gradient.mul_(2 * self.alpha * self.gradient_ratio * scale)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._projected_version = self._writes()  # a copy counts its versions anew
        _register(self)  # copies and unpickled layers look after themselves too

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, n_clusters={self.n_clusters}, "
        text += f"geometry={self.geometry!r}, temperature={self.temperature:g}"
        return text if self.alpha == 1 else f"{text}, alpha={self.alpha:g}"


def unit(z: Tensor) -> Tensor:
    """Rows of unit length; a row of zeros has no direction, stays as it is and feels no force."""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / torch.where(length > 0, length, torch.inf)


def _tolerance(dtype: torch.dtype) -> float:
    """How far off the sphere a centre may be: rounding alone must not make it move again.

    In half precision 16 roundings would be a drift that scores feel; one is what it can keep.
    """
    eps = torch.finfo(dtype).eps
    return max(eps, min(16 * eps, 1e-3))


def _margin(scores: Tensor) -> Tensor:
    if scores.shape[1] == 1:  # no runner-up
        return torch.full_like(scores[:, 0], torch.inf)
    best, runner_up = scores.topk(2, dim=1).values.unbind(dim=1)
    return best - runner_up


def _check_options(
    in_features: int,
    n_clusters: int,
    geometry: str,
    temperature: float,
    gradient_ratio: float,
    alpha: float,
) -> None:
    for name, count in (("in_features", in_features), ("n_clusters", n_clusters)):
        if count < 1:
            raise ParameterError(f"{name} must be at least 1, got {count}")
    if geometry not in ("sphere", "euclidean"):
        raise ParameterError(f"geometry must be 'sphere' or 'euclidean', got {geometry!r}")
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise ParameterError(f"temperature must be at least 0 (0 = hard), got {temperature}")
    for name, value in (("gradient_ratio", gradient_ratio), ("alpha", alpha)):
        if not (value > 0 and math.isfinite(value)):
            raise ParameterError(f"{name} must be a positive number, got {value}")


# --- Every optimiser step in the process -------------------------------------------------------
# Hooks around `step` see the gradient as the optimiser will use it: after accumulation over
# micro-batches, after DistributedDataParallel's all-reduce and after GradScaler's unscaling. Hooks
# on the tensor itself would fire too early for all three.

_LAYERS: WeakSet[ClusterLayer] = WeakSet()
_LAYERS_LOCK = Lock()  # layers are built in one thread while another one steps


def _register(layer: ClusterLayer) -> None:
    with _LAYERS_LOCK:
        _LAYERS.add(layer)


def _layers_of(optimizer: Optimizer) -> list[ClusterLayer]:
    if not _LAYERS:
        return []
    with _LAYERS_LOCK:
        layers = list(_LAYERS)
    stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [layer for layer in layers if id(layer.weight) in stepped]


def _before_step(
    optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Normalise gradients; `step(closure)` computes them only when it calls the closure."""
    layers = _layers_of(optimizer)
    if not layers:  # the step is none of our business
        return None
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):  # some optimisers take a number or a flag there
        _normalize_gradients(optimizer, layers)
        return None
    normalized = _with_normalized_gradients(closure, optimizer, layers)
    if "closure" in kwargs:
        return args, {**kwargs, "closure": normalized}
    return (args[0], normalized, *args[2:]), kwargs


def _with_normalized_gradients(
    closure: Callable[..., Any], optimizer: Optimizer, layers: list[ClusterLayer]
) -> Callable[..., Any]:
    def normalized(*args: Any, **kwargs: Any) -> Any:
        loss = closure(*args, **kwargs)
        _normalize_gradients(optimizer, layers)
        return loss

    return normalized


def _normalize_gradients(optimizer: Optimizer, layers: list[ClusterLayer]) -> None:
    scale = getattr(optimizer, "grad_scale", None)  # fused optimisers unscale in their kernel
    for layer in layers:
        layer.normalize_gradient_(1.0 if scale is None else float(scale))


def _after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    for layer in _layers_of(optimizer):
        layer.project_()


register_optimizer_step_pre_hook(_before_step)
register_optimizer_step_post_hook(_after_step)
