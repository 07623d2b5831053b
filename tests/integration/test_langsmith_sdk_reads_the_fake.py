"""The official SDK reads the fake of LangSmith in both generations, and meets its traps."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.langsmith_worlds import BEGIN, Served, fake_of, minutes, serving

WINDOW = {"min_start_time": BEGIN, "max_start_time": BEGIN + timedelta(days=1)}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name in ("LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT", "LANGSMITH_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        yield serving(fake_of(minutes(5)), stack)


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    from langsmith import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Client(api_url=served.url, api_key="lsv2_pt_fake", auto_batch_tracing=False)
        yield made
        made.close()


async def test_v2_pages_hold_what_was_selected(client: Any) -> None:
    project = client.read_project(project_name="refunds")
    query = client.runs.query(
        project_ids=[str(project.id)], selects=["ID", "NAME", "INPUTS", "STATUS"], page_size=3,
        **WINDOW,
    )  # fmt: skip
    runs = [run async for run in query]
    assert len(runs) == 10
    assert {run.name for run in runs} == {"agent", "pay"}
    assert all(run.status == "SUCCESS" and run.trace_id is None for run in runs)
    roots = [run async for run in client.runs.query(
        project_ids=[str(project.id)], is_root=True, **WINDOW)]  # fmt: skip
    assert len(roots) == 5
    assert all(run.name is None for run in roots)  # without selects there are ids only
    await client.runs._client.close()


async def test_the_sdks_own_pager_ends_at_an_empty_page(client: Any, served: Served) -> None:
    served.fake.empty_pages = True
    project = client.read_project(project_name="refunds")
    query = client.runs.query(project_ids=[str(project.id)], page_size=3, **WINDOW)
    assert [run async for run in query] == []  # which is why pages are read by hand
    await client.runs._client.close()


async def test_without_a_window_only_the_last_day_is_answered(client: Any) -> None:
    project = client.read_project(project_name="refunds")
    old = BEGIN - timedelta(days=30)
    query = client.runs.query(project_ids=[str(project.id)], max_start_time=old)
    assert [run async for run in query] == []
    await client.runs._client.close()


def test_v1_lists_runs_and_refuses_a_limit_above_100(client: Any) -> None:
    from langsmith.utils import LangSmithError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still what older servers need
        runs = list(client.list_runs(project_name="refunds", filter='eq(run_type, "tool")'))
        assert [run.name for run in runs] == ["pay"] * 5
        assert {run.parent_run_id for run in runs} == {run.trace_id for run in runs}
        with pytest.raises(LangSmithError, match="limit"):
            list(client.list_runs(project_name="refunds", limit=101))
        one = client.read_run(runs[0].id)
        assert one.dotted_order == runs[0].dotted_order
