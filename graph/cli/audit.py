"""`tracemend audit …`."""

from typing import Annotated

import typer

app = typer.Typer(help="The append-only, hash-chained log of what was decided and done.")


@app.callback()
def _audit() -> None:
    """Keep `verify` a subcommand while it is the only one."""


@app.command("verify")
def verify(
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Check that no entry of the audit log was changed, removed, reordered or cut off.

    Exit 0 when the chain is whole, 1 when it is not.
    """
    from graph.cli.session import print_json, which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    state = open_project(home, slug).ledger.audit.verify()
    if as_json:
        print_json(
            {
                "schema": "tracemend.audit-verify/1", "entries": state.entries,
                "head": state.head, "ok": state.ok, "first_bad": state.first_bad,
            }
        )  # fmt: skip
    elif state.ok:
        typer.echo(f"audit log of {slug}: {state.entries} entries, whole; head {state.head[:16]}")
    else:
        typer.echo(f"audit log of {slug}: BROKEN at entry {state.first_bad}: {state.why}")
    if not state.ok:
        raise typer.Exit(1)
