"""`tracemend ask "why did refunds fail since Monday?"`: counts first, then the analyst's words."""

from typing import TYPE_CHECKING, Annotated

import typer

from contracts.json_types import Json

if TYPE_CHECKING:
    from nodes.ask.analyst import Answered
    from nodes.ask.gather import Ground


def ask(
    question: Annotated[str, typer.Argument(help="In your own words; a time in it is the window.")],
    stored: Annotated[
        bool, typer.Option("--stored", help="Read no traces; answer from earlier analyses.")
    ] = False,
    facts_only: Annotated[
        bool, typer.Option("--facts", help="Ask no model, also where one is set.")
    ] = False,
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Answer a question about what fails, with counts and trace ids. Changes nothing.

    Reads the traces of the window that the question names (`since Monday`, `yesterday`, `last
    24h`), else of the usual one. With `models.analyst`, that model answers over the same counts,
    and what it says that no count supports is marked. Exit 6 when traces were read in part, or
    not at all.
    """
    from graph.cli.session import print_json, run_async, which_project
    from memory.workspace import open_project
    from nodes.ask.analyst import answer_with, answered_json
    from nodes.ask.facts import facts_json, facts_lines
    from nodes.ask.gather import gather

    home, slug = which_project(project)
    ws = open_project(home, slug)
    name = None if facts_only else ws.settings.models.analyst

    async def work() -> "tuple[Ground, Answered | None]":
        now = ws.ledger.db.clock().astimezone()
        ground = await gather(ws, question, now=now, stored=stored)
        if not as_json:
            for line in (*_unread(ground), *facts_lines(ground.facts)):
                typer.echo(line)
        if name is None:
            return ground, None
        if not as_json:
            typer.echo(f"\n{name}:")
        said = await answer_with(ground, name, on_line=None if as_json else typer.echo)
        return ground, said

    try:
        ground, said = run_async(work)
    finally:
        ws.ledger.close()
    if as_json:
        document: dict[str, Json] = {"schema": "tracemend.ask/1", "project": slug}
        document |= facts_json(ground.facts)
        document["problem"] = _problem(ground)
        document["answer"] = answered_json(said) if said is not None else None
        print_json(document)
    elif said is not None:
        for line in _checked(said):
            typer.echo(line)
    if ground.problem is not None or ground.facts.read.status == "partial":
        raise typer.Exit(6)


def _problem(ground: "Ground") -> str | None:
    from graph.cli.session import one_line

    return one_line(str(ground.problem)) if ground.problem is not None else None


def _unread(ground: "Ground") -> list[str]:
    problem = _problem(ground)
    return [f"the traces cannot be read: {problem}"] if problem is not None else []


def _checked(said: "Answered") -> list[str]:
    """What the person should know of the model's words."""
    lines = []
    if said.problem is not None:
        lines.append(f"no whole answer: {said.problem}; the counts above hold all the same")
    if said.unsupported:
        listed = ", ".join(f"{one.kind} {one.text}" for one in said.unsupported)
        lines.append(f"NOT in anything that was counted: {listed}")
    elif said.text:
        lines.append("every number and id in it was counted; whether it follows is yours to judge")
    lines.append(f"{said.tokens} of {said.limit} tokens ({said.prompt})")
    return lines
