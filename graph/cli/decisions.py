"""`tracemend approve`, `pick`, `reject` and `undo`: a named person's word on one exact revision."""

from typing import Annotated

import typer

from contracts.json_types import Json

_Proposal = Annotated[str, typer.Argument(help="Proposal id, such as p-4k7q2m6xza.")]
_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_As = Annotated[str | None, typer.Option("--as", help="Who decides; default: the OS user.")]
_Hash = Annotated[
    str | None, typer.Option("--hash", help="Refuse unless this is still the proposal's hash.")
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def approve(
    proposal: _Proposal,
    name: _As = None,
    expected: _Hash = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Approve the newest revision: the gate runs, and on accept the edit is applied.

    Exit 3: the harness changed since; r+1 waits for its own approval. 4: somebody decided before.
    5: the gate did not accept. On an inconclusive gate the same command approves the override card.
    """
    _decide(proposal, {"type": "approve"}, name, expected, project, as_json=as_json)


def reject(
    proposal: _Proposal,
    reason: Annotated[
        str,
        typer.Option(
            help="wrong_cause, wrong_fix, not_worth_it, risky, duplicate or other, "
            "with `: note` after it if you like."
        ),
    ],
    name: _As = None,
    expected: _Hash = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Reject the newest revision with a reason, which is kept as a lesson."""
    said: dict[str, Json] = {"type": "reject", "message": reason}
    _decide(proposal, said, name, expected, project, as_json=as_json)


def pick(
    proposal: _Proposal,
    label: Annotated[str, typer.Argument(help="The alternative's label on the card: b or c.")],
    name: _As = None,
    expected: _Hash = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Pick an alternative of the newest revision: it becomes the next one, with its own card.

    This approves nothing: the next revision waits for its own answer, and the other drafts stay
    beside it. Exit 7: the policy refuses it, or there is no such alternative.
    """
    args: dict[str, Json] = {"alternative": label}
    said: dict[str, Json] = {"type": "edit", "edited_action": {"args": args}}
    _decide(proposal, said, name, expected, project, as_json=as_json, command="pick")


def _decide(
    proposal: str,
    said: dict[str, Json],
    name: str | None,
    expected: str | None,
    project: str | None,
    *,
    as_json: bool,
    command: str | None = None,
) -> None:
    from graph.cli.outcome import exit_code, outcome_json, outcome_lines
    from graph.cli.session import first_resume, open_session, person, print_json, run_async
    from graph.service import Outcome

    async def work() -> Outcome:
        async with open_session(project, quiet=as_json) as session:
            who = person(name)
            await first_resume(session)
            return await session.service.decide(proposal, said, who, expected_hash=expected)

    outcome = run_async(work)
    if as_json:
        print_json(outcome_json(f"tracemend.{command or said['type']}/1", outcome))
    else:
        for line in outcome_lines(outcome):
            typer.echo(line)
    raise typer.Exit(exit_code(outcome))


def undo(
    release: Annotated[str, typer.Argument(help="Release id, such as r-2mzq6tq3da.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Restore the exact bytes from before a release.

    Exit 3 when somebody changed the files since: nothing is written, and what changed is said.
    """
    from contracts.errors import StaleBase
    from graph.cli.session import (
        first_resume,
        open_session,
        person,
        print_json,
        release_json,
        run_async,
    )
    from graph.service import Undone

    async def work() -> Undone:
        async with open_session(project, quiet=as_json) as session:
            who = person(name)
            await first_resume(session)
            return await session.service.undo(release, who)

    try:
        undone = run_async(work)
    except StaleBase as stale:
        if as_json:
            changed: list[Json] = list(stale.changed)
            print_json({"schema": "tracemend.undo/1", "release": None, "changed_since": changed})
        raise
    taken = undone.release
    if as_json:
        document = {**(release_json(taken) or {}), "undoes": taken.undoes}
        print_json({"schema": "tracemend.undo/1", "release": document, "changed_since": []})
    else:
        again = "" if undone.first else " (it was taken back before; nothing to do)"
        typer.echo(f"{taken.undoes} is undone by {taken.id}{again}")
        typer.echo(f"harness is back at revision {taken.after[:12]}")
