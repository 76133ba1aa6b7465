"""Every error and warning that `tell` raises on purpose.

    TellError
    ├── InputError             (ValueError)    rows, columns or values that cannot be used
    ├── ParameterError         (ValueError)    an option outside its range
    ├── ModelFileError         (ValueError)    a model folder that is damaged, foreign or newer
    │   ├── ModelChangedError                  a folder that somebody else wrote to meanwhile
    │   └── UntrustedModelError                a folder that names code of its own
    ├── DataUnavailableError   (OSError)       a data set or file that is not there
    ├── MissingDependencyError (ImportError)   an optional package that is not installed
    ├── DivergedError          (RuntimeError)  training that left the finite numbers
    ├── WorkerError            (RuntimeError)  a process that died in the middle of its work
    └── NotFittedError         (sklearn's)     a model that was never fitted: see `tell.estimators`

One wording everywhere: name, rule, value, remedy.
"""


class TellError(Exception):
    """Base of all errors of `tell`: catch it to catch them all."""


class InputError(TellError, ValueError):
    """Rows, columns or values that cannot be clustered as they are."""


class ParameterError(TellError, ValueError):
    """An option that is outside its range or contradicts another one."""


class ModelFileError(TellError, ValueError):
    """A model folder that is damaged, not ours, or written by a newer version."""


class ModelChangedError(ModelFileError):
    """A model folder that has another model than the one this model was read from or saved as."""


class UntrustedModelError(ModelFileError):
    """A model folder that names code to import, which was not allowed by `trust=True`."""


class DataUnavailableError(TellError, OSError):
    """A file or named data set that cannot be found or fetched."""


class MissingDependencyError(TellError, ImportError):
    """An optional package that this feature needs; the message names the extra to install."""


class DivergedError(TellError, RuntimeError):
    """Training produced a loss that is not finite; the last good state was kept."""


class WorkerError(TellError, RuntimeError):
    """A process that worked for this one is dead: killed, or out of memory."""


class TellWarning(UserWarning):
    """Base of all warnings of `tell`."""


class ConvergenceWarning(TellWarning):
    """The fit stopped at its limit of iterations before it converged."""


class CompilerWarning(TellWarning):
    """What was to be compiled could not be, and runs as it is."""


class DriftWarning(TellWarning):
    """New rows do not look like the rows the model learned from."""


class GrowthWarning(TellWarning):
    """A cluster was born of streamed rows, or retired because none came to it any more."""
