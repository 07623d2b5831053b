"""The `tracemend` command: every subcommand, and how an error becomes one line and a code."""

import sys

import typer

from contracts.errors import TracemendError
from graph.cli import (
    ask,
    audit,
    cases,
    decisions,
    demo,
    findings,
    gate,
    handoffs,
    history,
    memory,
    playbooks,
    probe,
    profile,
    project,
    prompts,
    publish,
    runs,
    serve,
    show,
    tokens,
)

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
app.command("ask")(ask.ask)
app.command("profile")(profile.profile)
app.command("improve")(runs.improve)
app.command("resume")(runs.resume)
app.command("retry")(runs.retry)
app.command("status")(runs.status)
app.command("card")(runs.card)
app.command("approve")(decisions.approve)
app.command("pick")(decisions.pick)
app.command("reject")(decisions.reject)
app.command("undo")(decisions.undo)
app.command("history")(history.history)
app.command("show")(show.show)
app.command("serve")(serve.serve)
app.add_typer(audit.app, name="audit")
app.add_typer(cases.app, name="cases")
app.add_typer(findings.app, name="findings")
app.add_typer(gate.app, name="gate")
app.add_typer(handoffs.app, name="handoffs")
app.add_typer(memory.app, name="memory")
app.add_typer(playbooks.app, name="playbooks")
app.add_typer(probe.app, name="probe")
app.add_typer(project.app, name="project")
app.add_typer(prompts.app, name="prompts")
app.add_typer(publish.app, name="publish")
app.add_typer(tokens.app, name="token")


def run() -> None:
    """Entry point: errors of ours are one line on stderr and their exit code, never a traceback."""
    try:
        app()
    except TracemendError as error:
        from graph.cli.session import one_line

        typer.echo(f"tracemend: {one_line(str(error))}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        said = _from_the_disk(error)
        if said is None:
            raise
        typer.echo(f"tracemend: {said}", err=True)
        sys.exit(1)


def _from_the_disk(error: Exception) -> str | None:
    """One line for what the disk or the database refuses; None for an error of our own."""
    from graph.cli.session import one_line

    home = type(error).__module__.partition(".")[0]
    if not isinstance(error, OSError) and home not in ("sqlalchemy", "sqlite3"):
        return None
    cause = getattr(error, "orig", None) or error
    return (
        f"the disk or the database said: {one_line(str(cause))}; nothing is lost: make room or "
        "mend it, then `tracemend resume` goes on"
    )


if __name__ == "__main__":
    run()
