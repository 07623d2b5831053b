"""`tracemend serve`: the embedded server, one process on one installation."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: loopback.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Default 8765; 0 takes a free one.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="The installation; default: TRACEMEND_HOME, or near here.")
    ] = None,
) -> None:
    """Receive alerts, drive runs, take decisions by HTTP, fire schedules; until SIGTERM or Ctrl-C.

    What was in the middle when it stopped, however it stopped, goes on at the next start. Other
    commands may run beside it.
    """
    from configs.server_settings import load_server_settings
    from graph.server.process import serve_forever
    from memory.workspace import find_home

    where = home.resolve() if home is not None else find_home()
    given = {"host": host, "port": port}
    settings = load_server_settings(where).model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    serve_forever(where, settings, say=lambda line: typer.echo(line, err=True))
