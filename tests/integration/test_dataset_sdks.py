"""The vendors' own SDKs and our connectors read what the other wrote, in the same dataset."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pydantic
import pytest

from configs.settings import TraceSettings
from connectors.datasets.opening import open_dataset
from contracts.datasets import Dataset, DatasetItem
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.langfuse_datasets import LangfuseDatasets
from tests.fakes.serving import serve
from tests.langsmith_worlds import fake_of, serving
from tests.trace_worlds import shared

NAME = "regressions"
RUN = "0b5c9a52-3f0e-4d1c-9a51-9d2f5f2b7a11"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield stack


async def read(dataset: Dataset) -> list[DatasetItem]:
    return [one async for one in dataset.read()]


def langfuse_worlds(stack: ExitStack, tmp_path: Path) -> tuple[FakeLangfuse, Any, Dataset]:
    from langfuse.api.client import LangfuseAPI

    fake = FakeLangfuse()
    url = stack.enter_context(serve(fake.app))
    http = stack.enter_context(httpx.Client())
    sdk = LangfuseAPI(base_url=url, username=PUBLIC, password=SECRET, httpx_client=http)
    environ = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
    spec = TraceSettings(kind="langfuse", base_url=url)
    ours = open_dataset(f"langfuse:{NAME}", tmp_path, [spec], environ=environ)
    return fake, sdk, ours


async def test_langfuse_reads_ours_and_we_read_langfuses(stack: ExitStack, tmp_path: Path) -> None:
    _, sdk, ours = langfuse_worlds(stack, tmp_path)
    sdk.datasets.create(name=NAME)
    sdk.dataset_items.create(
        dataset_name=NAME, id="theirs", input={"q": "1"}, expected_output="one two",
        metadata={"by": "ann"}, source_trace_id="t1",
    )  # fmt: skip
    mine = DatasetItem(id="c-1", input={"q": [None]}, expected=2, metadata={"a": None})
    assert await ours.add([mine]) == 1
    by_id = {one.id: one for one in await read(ours)}
    assert by_id["theirs"] == DatasetItem(
        id="theirs", input={"q": "1"}, expected="one two", metadata={"by": "ann"}, source_trace="t1"
    )
    listed = sdk.dataset_items.list(dataset_name=NAME, limit=50)
    (found,) = [one for one in listed.data if one.id != "theirs"]
    assert (found.input, found.expected_output) == ({"q": [None]}, 2)
    assert sdk.dataset_items.get(found.id).metadata["a"] is None


async def test_the_sdk_cannot_read_servers_without_media_references(
    stack: ExitStack, tmp_path: Path
) -> None:
    fake, sdk, ours = langfuse_worlds(stack, tmp_path)
    fake.datasets.media = False
    await ours.add([DatasetItem(id="c-1", input={"q": 1})])
    with pytest.raises(pydantic.ValidationError):
        sdk.dataset_items.list(dataset_name=NAME)  # which is why its models are not asked
    assert [one.id for one in await read(ours)] == ["c-1"]


async def test_one_item_lives_in_two_datasets_of_a_project(
    stack: ExitStack, tmp_path: Path
) -> None:
    fake, sdk, ours = langfuse_worlds(stack, tmp_path)
    sdk.datasets.create(name="other")
    url = str(sdk._client_wrapper.get_base_url())
    environ = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
    spec = TraceSettings(kind="langfuse", base_url=url)
    other = open_dataset("langfuse:other", tmp_path, [spec], environ=environ)
    one = DatasetItem(id="c-1", input={"q": 1})
    assert (await ours.add([one]), await other.add([one])) == (1, 1)
    assert await read(ours) == await read(other) == [one]
    assert len(fake.datasets.items) == 2


def test_the_fake_answers_like_the_recorded_server() -> None:
    held = LangfuseDatasets("proj1")
    made = orjson.loads(
        shared("specs", "langfuse-recorded", "dataset_create_200.json").read_bytes()
    )
    assert held.make("reg").keys() == made["body"].keys()
    row = held.put("reg", "i1", input={"q": 1}, expectedOutput="x", sourceTraceId="4f")
    item = shared("specs", "langfuse-recorded", "dataset_item_upsert_200.json")
    assert {*row, "mediaReferences"} == orjson.loads(item.read_bytes())["body"].keys()


async def test_langsmith_reads_ours_and_we_read_langsmiths(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langsmith import Client

    for name in ("LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT", "LANGSMITH_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    served = serving(fake_of([]), stack)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sdk = Client(api_url=served.url, api_key=served.fake.key, auto_batch_tracing=False)
        stack.callback(sdk.close)
        sdk.create_dataset(NAME)
        sdk.create_examples(
            dataset_name=NAME,
            examples=[{
                "inputs": {"q": "1"}, "outputs": {"a": "one"}, "metadata": {"by": "ann"},
                "source_run_id": RUN,
            }],
        )  # fmt: skip
    spec = TraceSettings(kind="langsmith", base_url=served.url)
    environ = {"LANGSMITH_API_KEY": served.fake.key}
    ours = open_dataset(f"langsmith:{NAME}", tmp_path, [spec], environ=environ)
    (theirs,) = await read(ours)
    assert (theirs.input, theirs.expected, theirs.metadata, theirs.source_trace) == (
        {"q": "1"}, {"a": "one"}, {"by": "ann"}, RUN,
    )  # fmt: skip
    assert await ours.add([theirs, DatasetItem(id="c-1", input="words", expected="short")]) == 1
    listed = {str(one.id): one for one in sdk.list_examples(dataset_name=NAME)}
    assert len(listed) == 2
    (found,) = [one for key, one in listed.items() if key != theirs.id]
    assert (found.inputs, found.outputs) == ({"value": "words"}, {"value": "short"})
