"""Which recording a run lives in."""

import json
from pathlib import Path

import pytest

from connectors.probe.replay_recording import Recording, record
from connectors.probe.replay_shelf import Shelf, input_id, request_of
from connectors.probe.replay_sources import FetchTrace, KnownRecordings
from contracts.errors import ConfigError, SourceError
from contracts.json_types import Json
from contracts.traces import Trace, TraceId
from tests.trace_worlds import line, root, tool, trace_id, trace_of


def recording(number: int, asked: Json) -> Recording:
    trace = trace_of(root(trace=number), tool(1, "t", {}, "yes", trace=number))
    return record(trace, asked, ())


def chosen(shelf: Shelf, asked: Json) -> str | None:
    found = shelf.choose(asked)
    return None if found is None else found.source


def test_the_trace_that_a_case_was_made_from_comes_before_an_equal_input() -> None:
    asked = {"message": "where is order A-1042"}
    shelf = Shelf()
    for number in (1, 2, 3):
        shelf.add(recording(number, asked))
    found = shelf.choose(asked, TraceId(trace_id(2)))
    assert found is not None
    assert found.source == trace_id(2)
    assert chosen(shelf, asked) == trace_id(1)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_the_choice_does_not_hang_on_the_order_of_reading(order: tuple[int, ...]) -> None:
    shelf = Shelf()
    for number in order:
        shelf.add(recording(number, {"message": "where is order A-1042"}))
    assert chosen(shelf, {"message": "where is order A-1042"}) == trace_id(1)
    assert chosen(shelf, {"message": "where is the order A-1042"}) == trace_id(1)


def test_an_equal_input_comes_before_a_near_one_and_the_nearest_before_others() -> None:
    shelf = Shelf()
    shelf.add(recording(1, {"message": "where is order A-1042 today"}))
    shelf.add(recording(2, {"message": "please refund order A-1042"}))
    shelf.add(recording(3, {"message": "where is order A-1042"}))
    assert chosen(shelf, {"message": "where is order A-1042"}) == trace_id(3)
    assert chosen(shelf, {"message": "please refund my order A-1042"}) == trace_id(2)


def test_an_input_like_no_other_has_no_recording() -> None:
    shelf = Shelf()
    shelf.add(recording(1, {"message": "where is order A-1042"}))
    assert chosen(shelf, {"message": "how many loyalty points do I have by now"}) is None
    assert chosen(Shelf(), {"message": "where is order A-1042"}) is None


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        (json.dumps({"message": "hi", "customer": "c"}), {"message": "hi", "customer": "c"}),
        ("hi", {"message": "hi"}),
        (json.dumps({"messages": [{"role": "user", "content": "hi"}]}), {"message": "hi"}),
        (
            json.dumps([
                {"role": "user", "content": "no"}, {"role": "assistant", "content": "?"},
                {"type": "human", "data": {"content": "hi"}},
            ]),
            {"message": "hi"},
        ),
        (json.dumps({"messages": [{"role": "system", "content": "hi"}]}), None),
        ("  ", None),
    ],
)  # fmt: skip
def test_a_request_is_read_as_the_input_of_a_case(recorded: str, asked: Json) -> None:
    assert request_of(trace_of(root(recorded))) == asked


def known(tmp_path: Path, *, origins: dict[str, TraceId], fetch: FetchTrace) -> KnownRecordings:
    return KnownRecordings(
        root=tmp_path, traces=["*.jsonl"] if list(tmp_path.glob("*.jsonl")) else [], writes=[],
        origins=origins, fetch=fetch,
    )  # fmt: skip


async def no_source(trace_id: TraceId) -> Trace:
    raise SourceError(f"no trace {trace_id!r}", backend="test", operation="trace")


async def test_files_are_read_again_when_they_change_and_traces_without_a_request_are_left_out(
    tmp_path: Path,
) -> None:
    def write(*numbers: int) -> None:
        lines = [line([root(f"order {n}", trace=n)]) for n in numbers]
        (tmp_path / "a.jsonl").write_bytes(b"".join([*lines, line([root(" ", trace=99)])]))

    async def source_of(asked: str) -> str | None:
        found = await known(tmp_path, origins={}, fetch=no_source).choose({"message": asked})
        return None if found is None else found.source

    write(1, 2)
    assert await source_of("order 2") == trace_id(2)
    assert await source_of(" ") is None
    write(1, 2, 3)
    assert await source_of("order 3") == trace_id(3)


async def test_a_trace_that_no_file_holds_is_read_from_the_source_once() -> None:
    asked: Json = {"message": "only the source knows"}
    fetched: list[str] = []

    async def fetch(wanted: TraceId) -> Trace:
        fetched.append(wanted)
        return trace_of(root("masked", trace=7), tool(1, "t", {}, "yes", trace=7))

    for _ in range(2):  # a gate opens its probe every minute
        recordings = known(
            Path("/nowhere"), origins={input_id(asked): TraceId(trace_id(7))}, fetch=fetch
        )
        found = await recordings.choose(asked)
        assert found is not None
        assert (found.source, set(found.tools)) == (trace_id(7), {"t"})
    assert fetched == [trace_id(7)]


async def test_a_source_that_is_down_has_no_recording_and_is_asked_again() -> None:
    asked: Json = {"message": "the source is down"}
    origins = {input_id(asked): TraceId(trace_id(8))}
    recordings = known(Path("/nowhere"), origins=origins, fetch=no_source)
    assert await recordings.choose(asked) is None


async def test_recordings_that_cannot_be_read_are_an_error_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("no trace at all")
    with pytest.raises(ConfigError, match=r"^probe\.replay\.traces: "):
        await known(tmp_path, origins={}, fetch=no_source).choose({"message": "x"})
