"""scikit-learn's own checks; of the closed-form steps nothing is expected to fail.

Four clusters, because the check on sparse input wants a column of `predict_proba` for each of the
four classes it makes up.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tell import TELL


def batches_see_other_rows(estimator: TELL) -> dict[str, str]:
    """A row of weight 2 is in one batch, two equal rows may be in two; k may not be four."""
    if estimator.n_clusters == "auto":
        why = "predict_proba has a column per cluster that was found, not per class of the check"
        return {f"check_estimator_sparse_{kind}": why for kind in ("array", "matrix")}
    if estimator.solver == "lloyd":
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "batches are drawn by row"}


# Some checks fit eight clusters to four distinct rows, which deserves the warning.
@pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        TELL(4),
        TELL(4, geometry="euclidean"),
        TELL(4, geometry="euclidean", standardize=True, init="random"),
        TELL(4, init="kaiming", half_life=100.0, temperature=0.1),
        TELL(4, solver="sgd", n_init=1, max_iter=5),
        TELL("auto", max_clusters=4),
    ],
    expected_failed_checks=batches_see_other_rows,
)
def test_scikit_learn_contract(estimator, check, threads):
    check(estimator)
