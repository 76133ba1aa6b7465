"""The one table of comparison methods: name, how to build it, where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tell.baselines.base import LimitedClusterer
from tell.exceptions import ParameterError


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes
    ----------
    home : str
        The class as "module:name"; it is imported on first use, so that k-means needs no torch.
    source : str
        The paper to cite.
    defaults : dict
        Parameters that the class is called with.
    count : str
        What the class calls the number of clusters.
    """

    home: str
    source: str
    defaults: dict[str, Any] = field(default_factory=dict)
    count: str = "n_clusters"

    @property
    def build(self) -> type[Any]:
        """The class."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)

    @property
    def limited(self) -> bool:
        """Whether memory grows as n², so that the class takes `sample` and `memory_limit`."""
        return issubclass(self.build, LimitedClusterer)


METHODS: dict[str, Method] = {
    "kmeans": Method("sklearn.cluster:KMeans", "Lloyd 1982", {"n_init": 10}),
    # Features that are constant within a cluster need a floor under their variance.
    "gmm": Method(
        "sklearn.mixture:GaussianMixture",
        "Dempster et al. 1977",
        {"reg_covar": 1e-3},
        count="n_components",
    ),
    "fcm": Method("tell.baselines.fuzzy:FuzzyCMeans", "Bezdek 1981"),
    # A nearest-neighbour graph needs no bandwidth to tune and memory linear in n; LOBPCG does not
    # factorise it, which at 20,000 rows is five times as fast and takes less than half the memory.
    "sc": Method(
        "sklearn.cluster:SpectralClustering",
        "Ng et al. 2002",
        {"affinity": "nearest_neighbors", "eigen_solver": "lobpcg"},
    ),
    "lrr": Method("tell.baselines.subspace:LRR", "Liu et al. 2013"),
    "lsr1": Method(
        "tell.baselines.subspace:LSR", "Lu et al. 2012", {"zero_diagonal": True, "ridge": 0.4}
    ),
    "lsr2": Method(
        "tell.baselines.subspace:LSR", "Lu et al. 2012", {"zero_diagonal": False, "ridge": 0.1}
    ),
    "slrr": Method("tell.baselines.slrr:SLRR", "Peng et al. 2016"),
    "lsc-r": Method("tell.baselines.lsc:LSC", "Cai & Chen 2015", {"landmarks": "random"}),
    "lsc-k": Method("tell.baselines.lsc:LSC", "Cai & Chen 2015", {"landmarks": "k-means"}),
    "nmf": Method("tell.baselines.nmf:GraphNMF", "Cai et al. 2011"),
    "zac": Method("tell.baselines.zac:ZAC", "Zhao & Tang 2008"),
    "dec": Method("tell.baselines.dec:DEC", "Xie et al. 2016"),
    "vade": Method("tell.baselines.vade:VaDE", "Jiang et al. 2017"),
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
