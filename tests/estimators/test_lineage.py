"""The same numbers for the same clusters after another fit, and their fates."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from tell import TELL, InputError, load
from tell.estimators.lineage import fates, numbers


def blobs(centers: np.ndarray, n: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return centers[random.integers(0, len(centers), n)] + random.normal(size=(n, centers.shape[1]))


CENTERS = 12 * np.random.default_rng(3).normal(size=(6, 4))
SETS = {
    "blobs": (6, {"geometry": "euclidean"}, lambda: blobs(CENTERS, 1000, 0)),
    "wine": (3, {"geometry": "euclidean", "standardize": True}, lambda: load_wine().data),
    "digits": (10, {}, lambda: load_digits().data),
}


@pytest.mark.parametrize("name", SETS)
def test_one_percent_more_rows_change_no_number(name):
    k, options, make = SETS[name]
    X = make()
    for seed in range(20):
        random = np.random.default_rng(seed)
        fewer = np.sort(random.permutation(len(X))[: int(len(X) / 1.01)])
        old = TELL(k, random_state=seed, n_init=1, **options).fit(X[fewer])
        new = TELL(k, random_state=seed + 1, n_init=1, **options).fit(X, like=old)
        same = new.predict(X[fewer]) == old.labels_
        assert same.mean() > 0.97
        # The tenth cluster of the digits has no place of its own: a boundary of it may move.
        allowed = {"kept", "moved"} if name == "digits" else {"kept"}
        assert {entry["fate"] for entry in new.lineage_} <= allowed
        assert [entry["was"] for entry in new.lineage_] == list(range(k))
        assert [entry["cluster"] for entry in new.lineage_] == list(range(k))


def test_a_new_group_gets_a_new_number_and_the_others_keep_theirs(tmp_path):
    old = TELL(5, geometry="euclidean", random_state=0).fit(blobs(CENTERS[:5], 800, 0))
    X = blobs(CENTERS, 1000, 1)
    new = TELL(6, geometry="euclidean", random_state=5).fit(X, like=old)
    gap = np.linalg.norm(new.cluster_centers_[:5] - old.cluster_centers_, axis=1)
    assert (gap < 0.5).all()
    assert [entry["fate"] for entry in new.lineage_] != []
    assert new.lineage_[-1]["fate"] == "born"
    assert new.lineage_[-1]["cluster"] == 5
    assert np.array_equal(new.labels_, new.predict(X))
    new.save(tmp_path / "model")
    assert load(tmp_path / "model").lineage_ == new.lineage_
    assert not hasattr(new.fit(X), "lineage_")


def test_fewer_clusters_say_who_was_merged():
    X = blobs(CENTERS, 1000, 0)
    old = TELL(6, geometry="euclidean", random_state=0).fit(X)
    new = TELL(5, geometry="euclidean", random_state=1).fit(X, like=old)
    merged = [entry for entry in new.lineage_ if entry["fate"] == "merged"]
    assert len(merged) == 1
    assert merged[0]["shared"] > 0.99
    assert sorted(entry["fate"] for entry in new.lineage_)[0] == "kept"


def test_fates_of_known_tables():
    apart, widths = np.zeros((2, 3)), np.ones(2)
    found = fates(np.array([[50.0, 0.0, 50.0], [0.0, 99.0, 1.0]]), apart, widths)
    assert [entry["fate"] for entry in found] == ["split", "kept", "born"]
    assert found[0]["into"] == [0, 2]
    far = np.array([[1.0, 9.0], [9.0, 0.1]])
    found = fates(np.diag([10.0, 10.0]), far, widths)
    assert [entry["fate"] for entry in found] == ["moved", "kept"]


def test_numbers_are_matched_as_a_whole():
    """Greedy matching would give old 0 to new 0 and leave old 1 with nothing."""
    assert numbers(np.array([[10.0, 9.0], [10.0, 0.0]])).tolist() == [1, 0]
    assert numbers(np.array([[0.0, 5.0, 0.0]])).tolist() == [1, 0, 2]


def test_what_cannot_be_followed_is_named():
    X = blobs(CENTERS, 100, 0)
    old = TELL(3, geometry="euclidean").fit(X)
    with pytest.raises(InputError, match="geometry='sphere' as this model, got 'euclidean'"):
        TELL(3).fit(X, like=old)
    with pytest.raises(InputError, match="fitted TELL, got str"):
        TELL(3).fit(X, like="old")
    with pytest.raises(InputError, match="3 columns"):
        TELL(3, geometry="euclidean").fit(X[:, :3], like=old)
