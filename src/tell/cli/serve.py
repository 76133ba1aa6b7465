"""`tell serve`: a model over HTTP."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import say

if TYPE_CHECKING:
    from types import FrameType

    from tell.serving.app import Settings

_ACCESS, _LIMITS = "Access", "Limits"
LEAST_TOKEN = 16
KEEP_ALIVE = 75


def command(
    model: options.Model,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    learn: Annotated[
        bool, typer.Option("--learn", help="Let callers teach the model: POST /update.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a token that every call but /healthz has to bring.",
            rich_help_panel=_ACCESS,
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name by which callers may ask for the service, where it listens on "
            "this machine alone; may be given several times.",
            rich_help_panel=_ACCESS,
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[
        str, typer.Option(metavar="SIZE", help="Largest body.", rich_help_panel=_LIMITS)
    ] = "16MiB",
    max_rows: Annotated[
        int, typer.Option(min=1, help="Most rows of one request.", rich_help_panel=_LIMITS)
    ] = 100_000,
    max_columns: Annotated[
        int, typer.Option(min=1, help="Most columns of a row.", rich_help_panel=_LIMITS)
    ] = 10_000,
    max_seconds: Annotated[
        float,
        typer.Option(min=0.1, help="Longest time for one request.", rich_help_panel=_LIMITS),
    ] = 30.0,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests at a time.", rich_help_panel=_LIMITS)
    ] = 64,
    trust: options.Trust = False,
) -> None:
    """Answer questions about rows over HTTP: POST /predict, /explain and /update.

    Rows come as JSON, CSV, JSON lines or an Arrow stream, in the columns and units of your data.
    /docs describes every call, / shows a stream live, /metrics is for Prometheus. An answer to
    /update means that the rows are learned and on the disk. Only one service at a time may learn
    into a folder; any number may serve it, and follow what is saved there.

    \b
    [bold]Examples[/]
      tell serve model
      tell serve model --learn --token-file token.txt
      curl localhost:8000/predict --json '{"rows": [{"age": 31, "city": "Ulm"}]}'
    """
    need("fastapi", "uvicorn", "prometheus_client")
    settings = read_settings(
        host, token_file, allow_host, (max_body, max_seconds, max_requests), learn=learn
    )
    from tell.serving.app import make_app
    from tell.serving.bodies import RowLimits
    from tell.serving.service import Service

    service = Service(model, RowLimits(max_rows, max_columns), trust=trust)
    listener = listen(host, port)
    with listener:
        app = make_app(service, settings, learn=learn)
        say(f"{model} is served at {address(listener)}" + (", and learns" if learn else ""))
        run(app, listener)


def need(*packages: str) -> None:
    """Say which extra is missing."""
    from importlib.util import find_spec

    from tell.exceptions import MissingDependencyError

    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise MissingDependencyError(
            f'serving needs {", ".join(missing)}; install it: pip install "tell-clustering[serve]"'
        )


def read_settings(
    host: str,
    token_file: Path | None,
    allowed: list[str] | None,
    limits: tuple[str, float, int],
    *,
    learn: bool,
) -> Settings:
    """The options as the service takes them."""
    from tell.data.limits import as_bytes
    from tell.serving.app import Settings
    from tell.serving.gate import RequestLimits, local_hosts

    body, seconds, requests = limits
    token = None if token_file is None else read_token(token_file)
    alone = is_loopback(host)
    if not alone and token is None:
        say(
            f"anybody who reaches {host} may ask{' and teach' if learn else ''} this model; "
            "--token-file asks for a token"
        )
    return Settings(
        RequestLimits(as_bytes(body), seconds, requests),
        token,
        local_hosts(tuple(allowed or ())) if alone else None,
    )


def read_token(file: Path) -> str:
    """The token in a file: one line, long enough not to be guessed."""
    from tell.exceptions import ParameterError

    token = file.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or any(map(str.isspace, token)):
        raise ParameterError(
            f"{file}: a token must be one line of at least {LEAST_TOKEN} letters and digits; make "
            f"one: head -c 24 /dev/urandom | base64 > {file}"
        )
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that is listened on, before the model is claimed."""
    from tell.exceptions import ParameterError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            f"cannot listen on {host}, port {port}: {reason.lower()}; choose another --port or "
            "--host"
        ) from None


def address(listener: socket.socket) -> str:
    """The address to type into a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(app: Any, listener: socket.socket) -> None:
    """Serve until somebody stops it."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=5,
        lifespan="on",
        ws="none",
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.viewers.ended = True  # open pages would keep it waiting
            super().handle_exit(sig, frame)

    with suppress(KeyboardInterrupt):  # how it is meant to end
        Server(config).run(sockets=[listener])
