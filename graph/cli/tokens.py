"""`tracemend token …`: who may call the server."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from contracts.json_types import Json
    from memory.tokens import TokenRow, Tokens

app = typer.Typer(help="Who may call the server.", no_args_is_help=True)

_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_UNITS = {"m": 60, "h": 3600, "d": 86400}


@app.command("create")
def create(
    name: Annotated[
        str, typer.Option(help="Of the person or pipeline; it stands in decisions and the audit.")
    ],
    role: Annotated[
        list[str],
        typer.Option(help="viewer, reviewer, operator or admin; give it again for another one."),
    ],
    project: Annotated[
        list[str] | None,
        typer.Option(help="Slug that it may see; again for another one. Without: all projects."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it ends, such as 12h or 30d. Without: never.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Make a token. Its text is shown once, here; only a hash of it is kept."""
    from typing import cast

    from contracts.people import Role
    from graph.cli.session import print_json
    from memory.database import utc_now
    from memory.workspace import find_home, read_registry

    known = read_registry(find_home())
    _check(name, role, project, known)
    lasts = None if expires is None else _duration(expires)
    with _open() as tokens:
        ends_at = None if lasts is None else utc_now() + lasts
        row, text = tokens.create(
            name.strip(), cast("list[Role]", role), projects=project, expires_at=ends_at
        )
    if as_json:
        print_json({"schema": "tracemend.token/1", "token": text, **_document(row)})
        return
    typer.echo(f"{row.id}  {_line(row)}", err=True)
    typer.echo("the token, shown this once (send it as `Authorization: Bearer …`):", err=True)
    typer.echo(text)


@app.command("list")
def list_tokens(as_json: _Json = False) -> None:
    """All tokens, oldest first, without their text."""
    from graph.cli.session import print_json

    with _open() as tokens:
        rows = tokens.listed()
    if as_json:
        print_json({"schema": "tracemend.tokens/1", "tokens": [_document(row) for row in rows]})
        return
    for row in rows:
        typer.echo(f"{row.id}  {_line(row)}")
    if not rows:
        typer.echo("no token yet: `tracemend token create --name NAME --role reviewer`")


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="Id, as `tracemend token list` shows it.")],
    as_json: _Json = False,
) -> None:
    """End a token now, for every running server."""
    from graph.cli.session import print_json

    with _open() as tokens:
        row = tokens.revoke(token.removeprefix("tm_").partition("_")[0])
    if as_json:
        print_json({"schema": "tracemend.token/1", **_document(row)})
    else:
        typer.echo(f"{row.id}  {_line(row)}")


def _open() -> "AbstractContextManager[Tokens]":
    """The tokens of the installation, for one command."""
    from contextlib import contextmanager

    from memory.database import open_engine
    from memory.tokens import Tokens
    from memory.workspace import find_home, ledger_place

    @contextmanager
    def opened() -> "Iterator[Tokens]":
        home = find_home()
        home.mkdir(parents=True, exist_ok=True)
        engine = open_engine(ledger_place(home))
        try:
            yield Tokens(engine)
        finally:
            engine.dispose()

    return opened()


def _check(name: str, roles: list[str], projects: list[str] | None, known: object) -> None:
    """Refuse what would make a token that nobody meant.

    Raises:
        UsageError: an unknown role or project, or no name to decide under.
    """
    from collections.abc import Mapping

    from contracts.errors import UsageError
    from contracts.people import ROLES, is_name

    if not is_name(name):
        raise UsageError("--name: needs 1 to 200 printable characters, and not `tracemend`")
    for role in roles:
        if role not in ROLES:
            raise UsageError(f"--role: got {role!r}, needs one of {', '.join(ROLES)}")
    for slug in projects or ():
        if isinstance(known, Mapping) and slug not in known:
            there = ", ".join(sorted(known)) or "none yet"
            raise UsageError(f"--project: no project {slug!r} here (known: {there})")


def _duration(text: str) -> "timedelta":
    """`30d`, `12h` or `45m`.

    Raises:
        UsageError: it is none of these.
    """
    from datetime import timedelta

    from contracts.errors import UsageError

    count, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (count.isascii() and count.isdigit()) or not 0 < len(count) < 6:
        raise UsageError(f"--expires: got {text!r}, needs a time such as 12h or 30d")
    if int(count) == 0:
        raise UsageError("--expires: a token that ends at once is of no use")
    return timedelta(seconds=int(count) * _UNITS[unit])


def _document(row: "TokenRow") -> "dict[str, Json]":
    projects: list[Json] | None = None if row.projects is None else list(row.projects)
    return {
        "id": row.id, "name": row.name, "roles": list(row.roles), "projects": projects,
        "created_at": row.created_at, "expires_at": row.expires_at,
        "revoked_at": row.revoked_at, "last_used_at": row.last_used_at,
    }  # fmt: skip


def _line(row: "TokenRow") -> str:
    from graph.cli.session import one_line

    where = "all projects" if row.projects is None else ", ".join(row.projects)
    ends = f"revoked {row.revoked_at}" if row.revoked_at else (
        f"until {row.expires_at}" if row.expires_at else "never expires"
    )  # fmt: skip
    used = f"last used {row.last_used_at}" if row.last_used_at else "never used"
    return one_line(f"{row.name}  {', '.join(row.roles)}  {where}  {ends}; {used}")
