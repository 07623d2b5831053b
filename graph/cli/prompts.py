"""`tracemend prompts …`: who loads which prompt, as far as the repository says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contracts.json_types import Json
    from nodes.evolution.loaders import Loaded, Loader, PromptMap

app = typer.Typer(help="Where the texts that steer the agent are, and who loads them.")

SCHEMA = "tracemend.prompts-map/1"
SHOWN = 4
"""Places printed of one file; the document of --json has more."""

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.callback()
def _prompts() -> None:
    """Where the texts that steer the agent are, and who loads them."""


@app.command("map")
def show_map(project: _Project = None, as_json: _Json = False) -> None:
    """Harness files, managed prompts and texts in code, and the lines that load them. Read only."""
    from graph.cli.session import print_json, run_async, which_project
    from memory.workspace import open_project
    from nodes.evolution.outside import map_of
    from nodes.ports import open_harness

    ws = open_project(*which_project(project))
    snapshot = run_async(lambda: open_harness(ws).read())
    mapped = map_of(ws, snapshot)
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, **map_json(mapped)})
        return
    for line in map_lines(mapped):
        typer.echo(line)


def map_json(mapped: "PromptMap") -> "dict[str, Json]":
    """The document: paths, lines and names, cleaned; no text of a file."""
    return {
        "loaded": [_loaded_json(one) for one in mapped.loaded],
        "not_loaded": [_plain(path) for path in mapped.not_loaded],
        "not_in_harness": [_loaded_json(one) for one in mapped.outside],
        "managed": [{**_loaded_json(one), "vendor": one.vendor} for one in mapped.managed],
        "in_code": [
            {
                "path": _plain(one.path), "line": one.text.line, "end_line": one.text.end_line,
                "name": _plain(one.text.name),
            }
            for one in mapped.instructions_in_code
        ],
        "read": mapped.read,
        "skipped": [_plain(why) for why in mapped.skipped],
    }  # fmt: skip


def map_lines(mapped: "PromptMap") -> Iterator[str]:
    """The map as lines for a terminal."""
    yield f"harness files ({len(mapped.loaded) + len(mapped.not_loaded)})"
    for one in mapped.loaded:
        yield f"  {_plain(one.name)}  <- {_places(one.by)}"
    for path in mapped.not_loaded:
        yield f"  {_plain(path)}  not loaded by anything found"
    if mapped.managed:
        yield "managed prompts that code fetches"
    for one in mapped.managed:
        place = f"in the harness as {_plain(one.path)}" if one.path else "not in the harness"
        yield f"  {_plain(one.name)} ({one.vendor}, {place})  <- {_places(one.by)}"
    if mapped.outside:
        yield "loaded, and not in the harness"
    for one in mapped.outside:
        yield f"  {_plain(one.name)}  <- {_places(one.by)}"
    if mapped.instructions_in_code:
        yield "instructions in strings of code"
    for text in mapped.instructions_in_code:
        name = f"  {_plain(text.text.name)}" if text.text.name else ""
        yield f"  {_plain(text.path)}:{text.lines}{name}"
    yield f"{mapped.read} source files read"
    for why in mapped.skipped:
        yield f"  not read: {_plain(why)}"


def loading_line(mapped: "PromptMap") -> str:
    """The line of `doctor`: harness files that nothing loads, as far as was looked."""
    left = [_plain(path) for path in mapped.not_loaded]
    files = f"{len(mapped.loaded) + len(left)} harness files"
    where = f"{mapped.read} source files" + ("" if mapped.complete else ", not all of them")
    if not left:
        return f"{files}, all named by code ({where} read)"
    listed = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
    return f"{files}, {len(left)} not loaded by anything found ({where} read): {listed}"


def _places(by: "tuple[Loader, ...]") -> str:
    said = [f"{_plain(one.path)}:{one.line} ({_how(one)})" for one in by[:SHOWN]]
    more = f" and {len(by) - SHOWN} more" if len(by) > SHOWN else ""
    return ", ".join(said) + more


def _how(one: "Loader") -> str:
    return f"{_plain(one.how)}, in part" if one.in_part else _plain(one.how)


def _loaded_json(one: "Loaded") -> "dict[str, Json]":
    by: list[Json] = [
        {"path": _plain(at.path), "line": at.line, "how": _plain(at.how), "in_part": at.in_part}
        for at in one.by
    ]
    path = _plain(one.path) if one.path is not None else None
    return {"name": _plain(one.name), "harness_path": path, "by": by}


def _plain(text: str) -> str:
    """A name out of the repository, fit for a terminal."""
    from connectors.review.clean import one_line

    return one_line(text, 200)
