"""scikit-learn's own checks, with nothing expected to fail.

Four clusters, because the check on sparse input wants a column of `predict_proba` for each of the
four classes it makes up.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tell import TELL


# Some checks fit eight clusters to four distinct rows, which deserves the warning.
@pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        TELL(4),
        TELL(4, geometry="euclidean"),
        TELL(4, geometry="euclidean", standardize=True, init="random"),
        TELL(4, init="kaiming", half_life=100.0, temperature=0.1),
    ]
)
def test_scikit_learn_contract(estimator, check, threads):
    check(estimator)
