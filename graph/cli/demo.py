"""`tracemend demo`: the whole loop on an example agent, in a folder of its own."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[
        Path, typer.Option("--dir", help="Where to work; nothing outside is touched.")
    ] = Path("tracemend-demo"),
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject without asking.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why, with --reject.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="Who decides; default: the OS user.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the customers and the weather.")] = 7,
    model: Annotated[
        str | None,
        typer.Option(help="A LangChain chat model, such as openai:gpt-5; default: offline."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run the main job end to end: traces, finding, edit, your yes, gate, apply, undo.

    Works without any key, service or network on an example agent. A folder that a demo made is
    reset; any other non-empty folder is refused. Exit 5 when the gate does not accept.
    """
    from contracts.errors import UsageError
    from graph.cli.demo_run import Demo, DemoOptions, run_demo
    from graph.cli.session import print_json, run_async

    if yes and reject:
        raise UsageError("--yes and --reject: choose one")
    if reject and not (reason or "").strip():
        raise UsageError("--reject: needs --reason, such as --reason wrong_fix")
    options = DemoOptions(
        folder=folder, answer="approve" if yes else "reject" if reject else None, reason=reason,
        name=name, seed=seed, model=model, quiet=as_json,
    )  # fmt: skip

    async def work() -> Demo:
        return await run_demo(options)

    told = run_async(work)
    if as_json:
        print_json(told.document)
    raise typer.Exit(told.code)
