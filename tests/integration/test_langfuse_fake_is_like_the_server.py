"""The fake Langfuse: the vendor's own SDK reads it, and it answers like the recorded server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from langfuse.api import AsyncLangfuseAPI, LangfuseAPI
from langfuse.api.core.api_error import ApiError

from contracts.json_types import Json
from contracts.traces import Score, Trace
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.trace_worlds import root, shared, span, tool, trace_id, trace_of

ALL_FIELDS = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
OTHER = "sk-lf-other"
NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def recorded(number: int) -> Trace:
    built = trace_of(
        root(f"request {number}", trace=number),
        span(1, "LLM", "model", trace=number, input__value="[]", output__value="words",
             llm__token_count__prompt=4, also={"llm.model_name": "m"}),
        tool(2, "pay", {"n": number}, "no", trace=number, error=("KeyError", "x")),
    )  # fmt: skip
    score = Score(name="right", value=True, source="eval", at=NOON)
    return replace(built, scores=(score,), session_id="s", tags=("a",))


@pytest.fixture
def url() -> Iterator[str]:
    with serve(FakeLangfuse(map(recorded, range(3))).app) as address:
        yield address


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client() as client:
        yield client


@pytest.fixture
def sdk(url: str, http: httpx.Client) -> LangfuseAPI:
    return LangfuseAPI(base_url=url, username=PUBLIC, password=SECRET, httpx_client=http)


def test_the_official_sdk_pages_through_observations(sdk: LangfuseAPI) -> None:
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = sdk.observations.get_many(fields=ALL_FIELDS, limit=2, cursor=cursor)
        found += page.data
        cursor, pages = page.meta.cursor, pages + 1
    assert (len(found), pages) == (9, 5)
    starts = [row.start_time for row in found]
    assert starts == sorted(starts, reverse=True)
    model = next(row for row in found if row.type == "GENERATION")
    assert (model.output, model.usage_details) == (
        '{"role": "assistant", "content": "words"}', {"input": 4, "total": 4},
    )  # fmt: skip
    assert (model.session_id, model.tags, model.is_root_observation) == ("s", ["a"], False)


def test_the_official_sdk_filters_observations(sdk: LangfuseAPI) -> None:
    api = sdk.observations
    one = api.get_many(trace_id=trace_id(1))
    assert {row.trace_id for row in one.data} == {trace_id(1)}
    assert one.data[0].name is not None  # basic comes unasked
    assert one.data[0].input is None  # inputs do not
    assert len(api.get_many(is_root_observation=True).data) == 3
    assert [row.name for row in api.get_many(level="ERROR", type="TOOL").data] == ["pay"] * 3
    later = api.get_many(from_start_time=NOON + timedelta(days=9)).data
    assert later == []
    rule: Json = [{"type": "string", "column": "output", "operator": "matches", "value": "WORDS"}]
    assert {row.type for row in api.get_many(filter=json.dumps(rule)).data} == {"GENERATION"}


async def test_the_official_sdk_reads_scores_projects_and_health(url: str) -> None:
    async with httpx.AsyncClient() as http:
        api = AsyncLangfuseAPI(base_url=url, username=PUBLIC, password=SECRET, httpx_client=http)
        page = await api.scores.get_many(fields="details,subject", trace_id=trace_id(0), limit=100)
        projects = await api.projects.get()
        health = await api.health.health()
    assert [(score.name, score.value, score.source) for score in page.data] == [
        ("right", True, "EVAL")
    ]
    assert [project.id for project in projects.data] == ["proj1"]
    assert health.version == "4.16.0"


def test_the_official_sdk_gets_its_errors(url: str, sdk: LangfuseAPI, http: httpx.Client) -> None:
    other = LangfuseAPI(base_url=url, username=PUBLIC, password=OTHER, httpx_client=http)
    with pytest.raises(ApiError) as refused:
        other.projects.get()
    with pytest.raises(ApiError) as unknown:
        sdk.models.get("x")
    assert (refused.value.status_code, unknown.value.status_code) == (401, 404)


def recording(name: str) -> dict[str, Any]:
    path = shared("specs", "langfuse-recorded", f"{name}.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def asked(url: str, path: str) -> httpx.Response:
    return httpx.get(url + path, auth=(PUBLIC, SECRET))


def shape(value: Any) -> Any:
    """Keys and types, deep; lists by what is in them, metadata by being an object."""
    if isinstance(value, dict):
        return {key: "object" if key in ("metadata", "usageDetails", "costDetails",
                                         "modelParameters") else shape(item)
                for key, item in value.items()}  # fmt: skip
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else (
        type(value).__name__
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("observations_v2_page1_with_cursor", "fields=core,basic,io,metadata,usage,model,"
         "trace_context,metrics&type=TOOL&limit=2"),
        ("observations_v2_filter_level_error", "level=ERROR"),
        ("observations_v2_empty", "traceId=none"),
    ],
)  # fmt: skip
def test_rows_have_the_keys_and_types_of_the_recorded_ones(url: str, name: str, path: str) -> None:
    theirs = recording(name)["body"]
    ours = asked(url, f"/api/public/v2/observations?{path}").json()
    assert set(ours) == set(theirs)
    assert bool(ours["meta"]) == bool(theirs["meta"])
    assert shape(ours["data"]) == shape(theirs["data"])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("observations_v2_400_limit_1001", "/api/public/v2/observations?limit=1001"),
        ("scores_v3_400", "/api/public/v3/scores?limit=101"),
        ("projects_200", "/api/public/projects"),
        ("scores_v3_200", "/api/public/v3/scores?fields=details%2Csubject&traceId=none"),
    ],
)
def test_other_answers_are_the_recorded_ones(url: str, name: str, path: str) -> None:
    theirs = recording(name)
    ours = asked(url, path)
    assert (ours.status_code, ours.json()) == (theirs["status"], theirs["body"])


def test_a_filter_on_text_alone_is_refused_as_recorded(url: str) -> None:
    theirs = recording("observations_v2_400_io_contains")
    ours = asked(url, theirs["url"])
    assert (ours.status_code, ours.json()) == (theirs["status"], theirs["body"])


def test_a_path_that_is_not_known_answers_with_a_page(url: str) -> None:
    theirs = recording("skills_missing_404_html")
    ours = asked(url, theirs["url"])
    assert ours.status_code == theirs["status"]
    assert ours.text.startswith("<!DOCTYPE html>")
    assert theirs["body"].startswith("<!DOCTYPE html>")


def test_the_cursor_says_where_it_goes_on_as_the_recorded_one_does(url: str) -> None:
    import base64

    def keys(cursor: str) -> set[str]:
        return set(json.loads(base64.b64decode(cursor)))

    theirs = recording("observations_v2_page1_with_cursor")["body"]["meta"]["cursor"]
    ours = asked(url, "/api/public/v2/observations?limit=2").json()["meta"]["cursor"]
    assert keys(theirs) <= keys(ours)
