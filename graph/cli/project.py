"""`tracemend init`, `tracemend doctor` and `tracemend project …`."""

import re
import sys
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated

import typer

app = typer.Typer(help="The projects of this installation.")

_NO_PROBE = """\
# probe:
#   kind: worker
#   command: [python, -m, agent.worker]
#   concurrency: 2
#   timeout_s: 30
#   env: []"""


def settings_text(
    project: str, *, traces: str = "traces/", probe: str = _NO_PROBE, uses: int = 5
) -> str:
    """A commented `tracemend.yaml`."""
    text = resources.files("configs").joinpath("tracemend.template.yaml").read_text("utf-8")
    return Template(text).substitute(project=project, traces=traces, probe=probe, uses=uses)


def init(
    folder: Annotated[Path, typer.Argument(help="The agent's repository.")] = Path(),
    project: Annotated[
        str | None, typer.Option(help="Slug; the folder's name when it is not given.")
    ] = None,
) -> None:
    """Write a commented tracemend.yaml and enter the project in projects.yaml.

    An existing tracemend.yaml is kept as it is and only entered.
    """
    from configs.settings import FILE_NAME, load_settings
    from contracts.errors import UsageError
    from memory.workspace import find_home, register

    root = folder.resolve()
    if not root.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    file = root / FILE_NAME
    kept = file.exists()
    if not kept:
        slug = project or re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:40] or "agent"
        file.write_text(settings_text(slug), "utf-8")
    settings = load_settings(file)
    if project is not None and settings.project != project:
        raise UsageError(f"{file} is for project {settings.project!r} already")
    home = find_home(root)
    register(home, settings.project, root)
    typer.echo(f"{'kept' if kept else 'wrote'} {file}")
    typer.echo(f"entered {settings.project} in {home / 'projects.yaml'}")
    typer.echo("next: `tracemend doctor`, then `tracemend improve`")


def doctor(
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Check the installation, each trace source, and how ready this project is, one line each.

    Exit 2 when something must be mended; warnings and what is not known yet are 0.
    """
    from graph.cli.checks import checks_json, run_checks
    from graph.cli.session import print_json

    checks = []
    for check in run_checks(project):
        checks.append(check)
        if not as_json:
            typer.echo(check.line)
    if as_json:
        print_json(checks_json(checks))
    bad = sum(not check.ok for check in checks)
    if bad:
        typer.echo(f"tracemend: {bad} of the checks above must be mended first", err=True)
        sys.exit(2)


@app.callback()
def _project() -> None:
    """Keep `list` a subcommand while it is the only one."""


@app.command("list")
def list_projects(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """List the projects of this installation and whether each can be opened. Drives nothing.

    Exit 2 when one cannot.
    """
    from configs.settings import FILE_NAME, load_settings
    from contracts.errors import TracemendError
    from contracts.json_types import Json
    from graph.cli.session import one_line, print_json
    from memory.workspace import find_home, read_registry

    rows: list[dict[str, Json]] = []
    for slug, root in sorted(read_registry(find_home()).items()):
        problem = None
        try:
            load_settings(root / FILE_NAME)
        except TracemendError as error:
            problem = one_line(str(error))
        rows.append({"project": slug, "root": str(root), "problem": problem})
        if not as_json:
            typer.echo(f"{'BAD ' if problem else 'ok  '}  {slug}: {problem or root}")
    if as_json:
        print_json({"schema": "tracemend.project-list/1", "projects": [*rows]})
    if any(row["problem"] for row in rows):
        raise typer.Exit(2)
