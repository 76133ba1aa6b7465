"""A request that is refused, with the code of HTTP that says why."""

from __future__ import annotations

from tell.exceptions import TellError


class RequestError(TellError, ValueError):
    """A request that the service refuses; `status` is the code of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def busy(message: str) -> RequestError:
    """The service cannot do it now."""
    return RequestError(503, message)
