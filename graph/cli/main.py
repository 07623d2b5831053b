"""The `tracemend` command: every subcommand, and how an error becomes one line and a code."""

import sys

import typer

from contracts.errors import TracemendError
from graph.cli import audit, decisions, demo, project, runs

app = typer.Typer(
    name="tracemend",
    help="Find what keeps failing in an agent's traces, draft an edit of its instructions, "
    "and apply it after a person's yes and an honest test.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("init")(project.init)
app.command("doctor")(project.doctor)
app.command("demo")(demo.demo)
app.command("analyze")(runs.analyze)
app.command("improve")(runs.improve)
app.command("resume")(runs.resume)
app.command("status")(runs.status)
app.command("card")(runs.card)
app.command("approve")(decisions.approve)
app.command("reject")(decisions.reject)
app.command("undo")(decisions.undo)
app.add_typer(audit.app, name="audit")


def run() -> None:
    """Entry point: errors of ours are one line on stderr and their exit code, never a traceback."""
    try:
        app()
    except TracemendError as error:
        from graph.cli.session import one_line

        typer.echo(f"tracemend: {one_line(str(error))}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run()
