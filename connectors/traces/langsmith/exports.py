"""LangSmith in files: batch bodies, pages of either API generation, webhooks, rows of exports."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connectors.traces.langsmith.rows import records
from connectors.traces.langsmith.values import as_object, as_run_id, steps
from connectors.traces.raw import Raw, as_objects, as_text
from contracts.json_types import Json

_PAGES: Final = ("items", "runs")
_PAGE_KEYS: Final = frozenset({"items", "next_cursor", "runs", "cursors", "search_cursors"})
_HALVES: Final = ("post", "patch")
ID_IN_TEXT: Final = re.compile(
    rb'"(?:trace_id"\s*:\s*"|dotted_order"\s*:\s*"\d{8}T\d{6,15}Z'
    rb'|parent_run_ids"\s*:\s*"?\[\s*\\?")'
    rb'([^"\\]{1,128}?)(?:["\\]|\.\d{8}T)'
)
"""Finds the ids of traces in the text: a run that names none is of the first run in its order."""


def key_of(recorded: str) -> str:
    """The id of a trace as its spans carry it."""
    return as_run_id(recorded) or ""


def is_run(value: Mapping[str, Json]) -> bool:
    """Whether the object is one run, of the API, of a tracer, or of an export's row."""
    named = isinstance(value.get("run_type"), str) or isinstance(value.get("dotted_order"), str)
    return named and any(isinstance(value.get(key), str) for key in ("id", "dotted_order"))


@dataclass(frozen=True, slots=True)
class BatchFormat:
    """Bodies of `POST /runs/batch`: runs in `post`, and what is known of them later in `patch`."""

    NAME: str = "langsmith-batch"

    def takes(self, value: Mapping[str, Json]) -> bool:
        """Whether it is such a body."""
        lists = [value[key] for key in _HALVES if isinstance(value.get(key), list)]
        return bool(lists) and all(
            isinstance(run, dict) and ("dotted_order" in run or "id" in run)
            for runs in lists
            for run in as_objects(runs)[:3]
        )

    def spans(self, value: Mapping[str, Json]) -> Iterator[Raw]:
        """One span a run; the two halves of a run are one."""
        runs: dict[str, Mapping[str, Json]] = {}
        for half in _HALVES:
            for run in as_objects(value.get(half)):
                key = _id_of(run)
                if key is None:
                    yield None
                    continue
                before = runs.get(key)
                runs[key] = run if before is None else merged(before, run)
        for run in runs.values():
            yield from records(run)


@dataclass(frozen=True, slots=True)
class RunsFormat:
    """Runs themselves: one by one, in pages, in recorded answers, or as bodies of rule webhooks."""

    NAME: str = "langsmith-runs"

    def takes(self, value: Mapping[str, Json]) -> bool:
        """Whether it is a run or holds runs."""
        if is_run(value):
            return True
        body = _answer(value)
        if body is not None:
            return is_run(body) or _page(body) is not None
        return _page(value) is not None

    def spans(self, value: Mapping[str, Json]) -> Iterator[Raw]:
        """One span a run, those nested under `child_runs` included."""
        body = value if is_run(value) else _answer(value) or value
        stack = [body] if is_run(body) else list(reversed(_page(body) or []))
        while stack:
            run = stack.pop()
            yield from records(run)
            children = as_objects(run.get("child_runs"))
            stack.extend(_under(run, child) for child in reversed(children))


BATCH: Final = BatchFormat()
RUNS: Final = RunsFormat()


def merged(before: Mapping[str, Json], late: Mapping[str, Json]) -> dict[str, Json]:
    """A run and a later half of it: what the later one set stands, the rest stays.

    `extra` and its metadata are joined key by key, since each half carries some of it.
    """
    out = dict(before)
    for key, value in late.items():
        if value is None or (value in ("", {}, []) and out.get(key)):
            continue
        if key == "extra":
            out[key] = _joined_extra(as_object(out.get(key)), as_object(value))
        else:
            out[key] = value
    return out


def _joined_extra(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    metadata = {**as_object(old.get("metadata")), **as_object(new.get("metadata"))}
    return {**old, **new, **({"metadata": metadata} if metadata else {})}


def _id_of(run: Mapping[str, Json]) -> str | None:
    """The run's id; a patch of the JavaScript tracer carries it in its dotted order only."""
    order = steps(run.get("dotted_order"))
    return as_run_id(run.get("id")) or (as_run_id(order[-1]) if order else None)


def _page(value: Mapping[str, Json]) -> list[Mapping[str, Json]] | None:
    """The runs of a page; None where the object is no page of runs."""
    for key in _PAGES:
        rows = value.get(key)
        if not isinstance(rows, list):
            continue
        runs = as_objects(rows)
        if any(is_run(run) for run in runs[:5]):
            return runs
        if not rows and value.keys() <= _PAGE_KEYS and len(value) > 1:
            return []  # an empty page, of which there are some in the middle
    return None


def _answer(value: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The body of a recorded answer `{method, url, request_body, status, body}` about runs."""
    body = value.get("body")
    if not isinstance(body, dict) or "/runs" not in as_text(value.get("url")):
        return None
    return body


def _under(run: Mapping[str, Json], child: Mapping[str, Json]) -> Mapping[str, Json]:
    """A nested child; its place stands for a parent that it does not name."""
    if child.get("parent_run_id") or child.get("parent_run_ids") or child.get("dotted_order"):
        return child
    place: dict[str, Json] = {"parent_run_id": run.get("id"), **child}
    if not child.get("trace_id"):
        place["trace_id"] = run.get("trace_id") or run.get("id")
    return place
