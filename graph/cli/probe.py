"""`tracemend probe …`: how the agent is run, tried once."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contracts.json_types import Json

app = typer.Typer(help="How the agent is run on a case.")

_CODES = {"pass": 0, "fail": 5, "missing": 6}


@app.callback()
def _probe() -> None:
    """How the agent is run on a case."""


@app.command("check")
def check(
    case: Annotated[
        str | None, typer.Argument(help="Id of a case; default: the first that is not sealed.")
    ] = None,
    given: Annotated[
        str | None, typer.Option("--input", help="JSON to run instead of a case.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For whatever is random around the agent.")] = 1,
    twice: Annotated[bool, typer.Option("--twice", help="Run it with a second seed too.")] = False,
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run one case with the harness as it is now, and show what the probe saw.

    Then what would keep a gate from accepting, a line each. The run is not kept. Exit 0 pass, 5
    fail, 6 when the run could not be observed.
    """
    from contracts.errors import UsageError
    from graph.cli.probe_lines import check_document, check_lines
    from graph.cli.session import print_json, run_async, which_project
    from memory.workspace import open_project
    from nodes.probe_check import case_of_input, check_probe, chosen_case

    if case is not None and given is not None:
        raise UsageError("a case and --input: give one of the two")
    value = None if given is None else _parsed(given)
    home, slug = which_project(project)
    ws = open_project(home, slug)
    try:
        one = chosen_case(ws, case) if given is None else case_of_input(value)
        done = run_async(lambda: check_probe(ws, one, seed=seed, twice=twice))
    finally:
        ws.ledger.close()
    if as_json:
        print_json(check_document(done))
    else:
        for line in check_lines(done):
            typer.echo(line)
    raise typer.Exit(_CODES[done.result])


def _parsed(text: str) -> "Json":
    """The input; text that is no JSON is most often a forgotten pair of quotes."""
    import json

    from contracts.errors import UsageError

    try:
        value: Json = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f'--input: no JSON ({error}); an object is \'{{"message": "hi"}}\', a text \'"hi"\''
        ) from None
    return value
