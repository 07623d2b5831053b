"""Runs by the first generation of LangSmith's API, by plain HTTP.

Source: `POST /runs/query`; limit at most 100 (101 is a 400), next page under `cursors.next`, 15
calls in 10 s for a workspace. The SDK's own reader of it is deprecated (removal after 31 Jan 2027)
and raises the limit by itself, so that it is not used. Questions are scarce here: a listing takes
the payloads along.
"""

from typing import Final

from connectors.traces.calls import Calls
from connectors.traces.langsmith.asking import Ask, Page, What, in_traces, iso, page_of
from contracts.json_types import Json

KLASS: Final = "runs-v1"

_STEPS: Final = (
    "id", "trace_id", "parent_run_id", "parent_run_ids", "dotted_order", "name", "run_type",
    "status", "start_time", "end_time", "error", "session_id", "tags", "extra", "prompt_tokens",
    "completion_tokens", "total_cost", "feedback_stats",
)  # fmt: skip
_PAYLOADS: Final = ("inputs", "outputs", "inputs_s3_urls", "outputs_s3_urls")
_SELECTS: Final[dict[What, tuple[str, ...]]] = {
    "steps": _STEPS,
    "payloads": ("id", "start_time", "extra", *_PAYLOADS),
    "all": (*_STEPS, *_PAYLOADS),
}


class ReaderV1:
    """Runs of one project."""

    name = "langsmith-v1"
    page_size = 100
    most_ids = 100
    listed: What = "all"

    def __init__(self, calls: Calls, prefix: str, project_id: str) -> None:
        self._calls = calls
        self._prefix = prefix
        self._project_id = project_id

    async def page(self, ask: Ask, *, size: int, cursor: str | None = None) -> Page:
        """One page; never more than 100 runs are asked for."""
        body: dict[str, Json] = {
            "session": [self._project_id],
            "select": list(_SELECTS[ask.what]),
            "limit": min(size, self.page_size),
        }
        if ask.ids:
            body["id"] = list(ask.ids)  # everything else is ignored beside it
        else:
            body["start_time"] = iso(ask.start_ns)
            body["filter"] = self._filter(ask)
        if len(ask.trace_ids) == 1:
            body["trace"] = ask.trace_ids[0]
        if ask.roots_only:
            body["is_root"] = True
        if cursor is not None:
            body["cursor"] = cursor
        answer = await self._calls.post(f"{self._prefix}/runs/query", body, klass=KLASS)
        cursors = answer.get("cursors") if isinstance(answer, dict) else None
        following = cursors.get("next") if isinstance(cursors, dict) else None
        return page_of(answer, "runs", following or None, self.name)

    @staticmethod
    def _filter(ask: Ask) -> str:
        before = f'lt(start_time, "{iso(ask.end_ns)}")'
        if len(ask.trace_ids) < 2:
            return before
        return f"and({before}, {in_traces(ask.trace_ids)})"
