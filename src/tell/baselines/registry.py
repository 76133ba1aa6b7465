"""The one table of comparison methods: name, how to build it, where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.cluster import KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture

from tell.baselines._base import LimitedClusterer
from tell.baselines.dec import DEC
from tell.baselines.fuzzy import FuzzyCMeans
from tell.baselines.lsc import LSC
from tell.baselines.nmf import GraphNMF
from tell.baselines.slrr import SLRR
from tell.baselines.subspace import LRR, LSR
from tell.baselines.vade import VaDE
from tell.baselines.zac import ZAC
from tell.exceptions import ParameterError


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes
    ----------
    build : callable
        The class; `defaults` are the parameters that it is called with.
    source : str
        The paper to cite.
    count : str
        What the class calls the number of clusters.
    """

    build: Callable[..., Any]
    source: str
    defaults: dict[str, Any]
    count: str = "n_clusters"

    @property
    def limited(self) -> bool:
        """Whether memory grows as n², so that the class takes `sample` and `memory_limit`."""
        return isinstance(self.build, type) and issubclass(self.build, LimitedClusterer)


METHODS: dict[str, Method] = {
    "kmeans": Method(KMeans, "Lloyd 1982", {"n_init": 10}),
    # Features that are constant within a cluster need a floor under their variance.
    "gmm": Method(GaussianMixture, "Dempster et al. 1977", {"reg_covar": 1e-3}, "n_components"),
    "fcm": Method(FuzzyCMeans, "Bezdek 1981", {}),
    # A nearest-neighbour graph needs no bandwidth to tune and memory linear in n; LOBPCG does not
    # factorise it, which at 20,000 rows is five times as fast and takes less than half the memory.
    "sc": Method(
        SpectralClustering,
        "Ng et al. 2002",
        {"affinity": "nearest_neighbors", "eigen_solver": "lobpcg"},
    ),
    "lrr": Method(LRR, "Liu et al. 2013", {}),
    "lsr1": Method(LSR, "Lu et al. 2012", {"zero_diagonal": True, "ridge": 0.4}),
    "lsr2": Method(LSR, "Lu et al. 2012", {"zero_diagonal": False, "ridge": 0.1}),
    "slrr": Method(SLRR, "Peng et al. 2016", {}),
    "lsc-r": Method(LSC, "Cai & Chen 2015", {"landmarks": "random"}),
    "lsc-k": Method(LSC, "Cai & Chen 2015", {"landmarks": "k-means"}),
    "nmf": Method(GraphNMF, "Cai et al. 2011", {}),
    "zac": Method(ZAC, "Zhao & Tang 2008", {}),
    "dec": Method(DEC, "Xie et al. 2016", {}),
    "vade": Method(VaDE, "Jiang et al. 2017", {}),
}


def names() -> list[str]:
    """The methods in the order of the paper's first table.

    >>> names()[:3]
    ['kmeans', 'gmm', 'fcm']
    """
    return list(METHODS)


def make(name: str, n_clusters: int, random_state: int = 0, **parameters: Any) -> Any:
    """Build a comparison method, an unfitted scikit-learn clusterer with `fit_predict`.

    Parameters
    ----------
    name : str
        One of `names()`.
    n_clusters : int
    random_state : int
    **parameters
        Passed to the method's class over the defaults of the table.

    Examples
    --------
    >>> make("lsc-k", 3).fit_predict([[0.0], [0.1], [4.0], [4.1], [9.0], [9.1]]).shape
    (6,)
    """
    if name not in METHODS:
        raise ParameterError(f"name must be one of {', '.join(METHODS)}; got {name!r}")
    method = METHODS[name]
    settings = {**method.defaults, **parameters, method.count: n_clusters}
    try:
        return method.build(random_state=random_state, **settings)
    except TypeError as error:
        raise ParameterError(
            f"{name} has no such parameter: {error}; see help(tell.baselines.METHODS[{name!r}])"
        ) from error
