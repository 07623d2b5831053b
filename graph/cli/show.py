"""`tracemend show RELEASE`: the whole story from the alert to the outcome, on one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from connectors.review.story import Story

SCHEMA = "tracemend.show/1"

Form = Literal["terminal", "markdown", "json"]


def show(
    which: Annotated[
        str, typer.Argument(metavar="RELEASE", help="Id of a release, or of a proposal.")
    ],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="For a pull request, a chat or a mail.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write it there; .md and .json say which form.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """From alert to outcome: finding, evidence, drafts, decisions, gate, diff, what came of it.

    A proposal that was not applied is told as well, and why it was not.
    """
    from contracts.errors import UsageError

    if markdown and as_json:
        raise UsageError("--markdown and --json: choose one")
    story = _story(project, which)
    form = _form(markdown, as_json, output)
    if output is not None:
        _write(output, _text(story, form))
        typer.echo(f"{story.id} is told in {output}", err=True)
    elif form == "terminal":
        from rich.console import Console

        from connectors.review.story_terminal import print_story

        print_story(story, Console(highlight=False))
    else:
        typer.echo(_text(story, form), nl=False)


def _story(project: str | None, which: str) -> "Story":
    from graph.cli.session import which_project
    from memory.workspace import open_project
    from nodes.attribution.story import story_of

    home, slug = which_project(project)
    ws = open_project(home, slug)
    try:
        return story_of(ws, which)
    finally:
        ws.ledger.close()


def _form(markdown: bool, as_json: bool, output: Path | None) -> Form:
    if markdown or as_json:
        return "markdown" if markdown else "json"
    suffix = output.suffix.lower() if output is not None else ""
    named: dict[str, Form] = {".md": "markdown", ".markdown": "markdown", ".json": "json"}
    return named.get(suffix, "terminal")


def _text(story: "Story", form: Form) -> str:
    if form == "json":
        import orjson

        from contracts.codec import to_json

        document = {"schema": SCHEMA, **to_json(story)}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "markdown":
        from connectors.review.story_markdown import story_markdown

        return story_markdown(story)
    import io

    from rich.console import Console

    from connectors.review.story_terminal import WIDTH, print_story

    page = io.StringIO()
    print_story(story, Console(file=page, width=WIDTH, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def _write(output: Path, text: str) -> None:
    from contracts.errors import UsageError

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}") from error
