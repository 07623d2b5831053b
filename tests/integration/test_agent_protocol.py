"""`langgraph_sdk`, unchanged, drives our server; what could go around a person is refused."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from langgraph_sdk.schema import Command

from configs.server_settings import LimitSettings, ServerSettings
from contracts.people import Role
from memory.ledger import open_ledger
from memory.workspace import register
from tests.services import replica
from tests.serving_app import Served, serve_app
from tests.story.conftest import made_waiting, recorded, waiting, world  # noqa: F401
from tests.story.worlds import PROJECT, Waiting, World

pytestmark = pytest.mark.servers

OTHER = "orders"
IMPROVE: dict[str, Any] = {"request": {"kind": "improve", "finding": None}}
YES: dict[str, Any] = {"decisions": [{"type": "approve"}]}


@asynccontextmanager
async def client_of(
    served: Served, name: str = "ann", roles: tuple[Role, ...] = ("admin",),
    projects: tuple[str, ...] | None = None,
) -> AsyncIterator[Any]:  # fmt: skip
    """The SDK's client with a token of its own; untyped, since its types hide what is sent."""
    headers = served.headers(name, roles, projects)
    async with get_client(url=served.url, headers=headers) as client:
        yield client


def refusal(error: pytest.ExceptionInfo[Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of a refused call; `wait` and `stream` raise httpx's own error."""
    raised = error.value
    response = raised.response
    if isinstance(raised, APIStatusError):
        return response.status_code, response.json()
    return response.status_code, {}


REFUSED = (APIStatusError, httpx.HTTPStatusError)


def add_project(served_home: Path, root: Path, made: World, slug: str = OTHER) -> World:
    """A second project in the same installation, with the same traces."""
    shutil.copytree(made.root, root, ignore=shutil.ignore_patterns(".tracemend"))
    file = root / "tracemend.yaml"
    file.write_text(file.read_text("utf-8").replace(f"project: {PROJECT}", f"project: {slug}"))
    register(served_home, slug, root)
    return World(root=root)


@pytest.fixture
def served(waiting: Waiting) -> Iterator[Served]:  # noqa: F811
    """A server on an installation in which a card waits."""
    with serve_app(waiting.world.root / ".tracemend") as running:
        yield running


@pytest.fixture
def fresh(world: World) -> Iterator[Served]:  # noqa: F811
    """A server on an installation in which nothing ran."""
    with serve_app(world.root / ".tracemend") as running:
        yield running


async def waiting_thread(client: Any) -> tuple[str, dict[str, Any]]:
    """The thread that waits for a person, and its one interrupt."""
    found = await client.threads.search(status="interrupted")
    assert len(found) == 1
    thread = found[0]["thread_id"]
    interrupts = (await client.threads.get_state(thread))["interrupts"]
    assert len(interrupts) == 1
    return thread, interrupts[0]


async def test_an_input_pauses_at_a_card_and_a_resume_applies_it(
    fresh: Served,
    world: World,  # noqa: F811
) -> None:
    before = world.harness()
    async with client_of(fresh) as client:
        thread = (await client.threads.create())["thread_id"]
        paused = await client.runs.wait(thread, PROJECT, input=IMPROVE)
        card = paused["__interrupt__"][0]
        assert world.harness() == before
        first = (await client.runs.list(thread))[0]
        assert first["status"] == "interrupted"
        got = await client.threads.get(thread)
        assert got["status"] == "interrupted"
        assert [list(i) for i in got["interrupts"].values()] == [[card]]

        state = await client.threads.get_state(thread)
        assert state["interrupts"] == [card]
        assert card["response_schema"]["required"] == ["decisions"]
        args = card["value"]["action_requests"][0]["args"]

        done = await client.runs.wait(
            thread, PROJECT, command=Command(resume={card["id"]: {**YES, "by": "somebody else"}})
        )
        assert "__interrupt__" not in done
        assert done["applied"]
        runs = await client.runs.list(thread)
        assert [run["status"] for run in runs] == ["success", "interrupted"]
        assert (await client.threads.get(thread))["status"] == "idle"
    assert world.harness() != before
    with world.looking() as ledger:
        said = ledger.proposals.decision(args["proposal_id"], 1, "approve")
        assert said is not None
        assert (said.by, said.via, said.type) == ("ann", "langgraph", "approve")
        assert said.proposal_hash == args["proposal_hash"]
        assert len(ledger.effects.releases()) == 1
        assert ledger.audit.verify().ok


BAD: dict[str, tuple[int, Callable[[str], dict[str, Any]]]] = {
    "a plain value": (422, lambda _: {"resume": YES}),
    "nothing": (422, lambda _: {"resume": None}),
    "an empty map": (422, lambda _: {"resume": {}}),
    "text": (422, lambda _: {"resume": "approve"}),
    "several ids": (422, lambda one: {"resume": {one: YES, "0" * 32: YES}}),
    "an id that is none": (422, lambda _: {"resume": {"approve": YES}}),
    "an unknown id": (409, lambda _: {"resume": {"0" * 32: YES}}),
    "no decision": (422, lambda one: {"resume": {one: {"decisions": []}}}),
    "two decisions": (422, lambda one: {"resume": {one: {"decisions": [*YES["decisions"]] * 2}}}),
    "an unknown type": (422, lambda one: {"resume": {one: {"decisions": [{"type": "yes"}]}}}),
    "a reject without a reason": (
        422, lambda one: {"resume": {one: {"decisions": [{"type": "reject"}]}}}
    ),
    "an edit without texts": (
        422, lambda one: {"resume": {one: {"decisions": [{"type": "edit"}]}}}
    ),
    "an answer and a jump": (501, lambda one: {"resume": {one: YES}, "goto": "apply"}),
    "an answer and an update": (501, lambda one: {"resume": {one: YES}, "update": {"card": "x"}}),
    "a jump": (501, lambda _: {"goto": "apply"}),
}  # fmt: skip


async def test_a_bad_resume_leaves_the_thread_as_it_was(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    before = waiting.world.harness()
    headers = served.headers()
    async with client_of(served) as client, httpx.AsyncClient(headers=headers) as plain:
        thread, card = await waiting_thread(client)
        stood = await client.threads.get_state(thread)
        for name, (status, command) in BAD.items():
            answer = await plain.post(
                f"{served.url}/threads/{thread}/runs/wait",
                json={"assistant_id": PROJECT, "command": command(card["id"])},
            )
            assert (name, answer.status_code) == (name, status), answer.text
            assert answer.json()["detail"]
        assert await client.threads.get_state(thread) == stood
        assert await client.runs.list(thread) == []
        with waiting.world.looking() as ledger:
            assert ledger.proposals.decisions(waiting.proposal, 1, "approve") == []
        assert waiting.world.harness() == before
        done = await client.runs.wait(thread, PROJECT, command=Command(resume={card["id"]: YES}))
        assert done["applied"]


async def test_of_two_resumes_at_once_one_is_a_decision(served: Served) -> None:
    async with client_of(served) as ann, client_of(served, "bob") as bob:
        thread, card = await waiting_thread(ann)
        resume = Command(resume={card["id"]: YES})

        async def answer(client: Any) -> tuple[int, dict[str, Any]]:
            try:
                return 200, await client.runs.create(thread, PROJECT, command=resume)
            except APIStatusError as error:
                return error.response.status_code, error.response.json()

        said = await asyncio.gather(*(answer(one) for one in (ann, bob, ann, bob)))
        taken = [body for status, body in said if status == 200]
        assert len(taken) == 1
        assert {status for status, _ in said} == {200, 409}
        for status, body in said:
            if status == 409:
                assert body["decision"]["by"] == taken[0]["kwargs"]["by"]
        await ann.runs.join(thread, taken[0]["run_id"])
        # And long after: the id waits for nothing any more, the decision that stands is told.
        with pytest.raises(REFUSED) as late:
            await bob.runs.create(thread, PROJECT, command=resume)
        status, body = refusal(late)
        assert (status, body["decision"]["by"]) == (409, taken[0]["kwargs"]["by"])


async def test_a_decision_beside_the_server_is_the_first_one(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    async with client_of(served, "bob") as client:
        thread, card = await waiting_thread(client)
        done = await asyncio.to_thread(
            waiting.world.run, "reject", waiting.proposal, "--as", "ann", "--reason", "wrong_cause"
        )
        assert done.code == 0, done.err
        with pytest.raises(REFUSED) as refused:
            await client.runs.create(thread, PROJECT, command=Command(resume={card["id"]: YES}))
        status, body = refusal(refused)
        assert status == 409
        assert (body["decision"]["by"], body["decision"]["type"]) == ("ann", "reject")


async def test_a_new_input_never_runs_over_a_card(served: Served) -> None:
    async with client_of(served) as client:
        thread, card = await waiting_thread(client)
        for strategy in ("reject", "interrupt", "rollback", "enqueue"):
            with pytest.raises(REFUSED) as refused:
                await client.runs.create(
                    thread, PROJECT, input=IMPROVE, multitask_strategy=strategy
                )
            assert refusal(refused)[0] == 409
        assert (await client.threads.get_state(thread))["interrupts"] == [card]
        rejected = {"decisions": [{"type": "reject", "message": "wrong_cause: not this"}]}
        await client.runs.wait(thread, PROJECT, command=Command(resume={card["id"]: rejected}))
        with pytest.raises(REFUSED) as finished:
            await client.runs.create(thread, PROJECT, input=IMPROVE)
        assert refusal(finished)[1]["state"] == "closed"


async def test_equal_alerts_have_the_thread_of_the_first_one(fresh: Served) -> None:
    alert = {"request": {"kind": "alert", "alert": {"source": "pager", "key": "k1", "body": {}}}}
    async with client_of(fresh) as client:
        first = await client.threads.create()
        await client.runs.wait(first["thread_id"], PROJECT, input=alert)
        second = await client.threads.create()
        with pytest.raises(REFUSED) as refused:
            await client.runs.create(second["thread_id"], PROJECT, input=alert)
        assert refusal(refused)[1]["thread_id"] == first["thread_id"]
        assert (await client.threads.get(second["thread_id"]))["status"] == "idle"
        again = await client.runs.create(None, PROJECT, input=alert)
        assert again["thread_id"] == first["thread_id"]
        assert (await client.runs.join(again["thread_id"], again["run_id"]))["__interrupt__"]


async def test_inputs_that_could_forge_a_step_or_name_nothing_are_refused(fresh: Served) -> None:
    bad: list[tuple[int, dict[str, Any]]] = [
        (422, {"input": {"request": IMPROVE["request"], "answer": YES}}),
        (422, {"input": {}}),
        (422, {"input": {"request": {"kind": "improve", "proposal": "p-1"}}}),
        (422, {"input": {"request": {"kind": "improve", "finding": 3}}}),
        (422, {"input": {"request": {"kind": "alert", "alert": {"source": 1}}}}),
        (422, {"input": {"request": {"kind": "alert", "alert": {"source": "a", "window": {}}}}}),
        (404, {"input": {"request": {"kind": "improve", "finding": "f-none"}}}),
        (404, {"input": {"request": {"kind": "watch", "release": "r-none"}}}),
        (422, {}),
        (422, {"input": IMPROVE, "command": {"resume": {}}}),
        (422, {"input": IMPROVE, "context": {"project": PROJECT, "role": "admin"}}),
        (422, {"input": IMPROVE, "context": {"project": 3}}),
        (404, {"input": IMPROVE, "context": {"project": "../../etc"}}),
        (422, {"input": IMPROVE, "metadata": {"a": "\0"}}),
        (501, {"input": IMPROVE, "interrupt_before": ["decide"]}),
        (501, {"input": IMPROVE, "interrupt_after": "*"}),
        (501, {"input": IMPROVE, "checkpoint_id": "1"}),
        (501, {"input": IMPROVE, "checkpoint": {"checkpoint_id": "1"}}),
        (501, {"input": IMPROVE, "config": {"configurable": {"checkpoint_id": "1"}}}),
        (501, {"input": IMPROVE, "webhook": "http://127.0.0.1/x"}),
        (501, {"input": IMPROVE, "on_completion": "delete"}),
    ]
    headers = fresh.headers()
    async with client_of(fresh) as client, httpx.AsyncClient(headers=headers) as plain:
        thread = (await client.threads.create())["thread_id"]
        for status, body in bad:
            answer = await plain.post(
                f"{fresh.url}/threads/{thread}/runs", json={"assistant_id": PROJECT, **body}
            )
            assert (answer.status_code, body) == (status, body), answer.text
        deep = '{"assistant_id": "refunds", "input": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}"
        answer = await plain.post(
            f"{fresh.url}/threads/{thread}/runs", content=deep,
            headers={"content-type": "application/json"},
        )  # fmt: skip
        assert answer.status_code in (400, 422)
        assert await client.runs.list(thread) == []
        assert (await client.threads.get(thread))["status"] == "idle"


async def test_threads_are_made_once_and_found_by_what_was_said_of_them(served: Served) -> None:
    async with client_of(served) as client:
        new = str(uuid4())
        made = await client.threads.create(thread_id=new, metadata={"team": {"name": "a"}})
        assert made["status"] == "idle"
        assert made["metadata"]["project"] == PROJECT
        with pytest.raises(REFUSED) as twice:
            await client.threads.create(thread_id=new)
        assert refusal(twice)[0] == 409
        again = await client.threads.create(
            thread_id=new, if_exists="do_nothing", metadata={"b": 1}
        )
        assert again["metadata"] == made["metadata"]
        with pytest.raises(REFUSED) as no_uuid:
            await client.threads.create(thread_id="not-a-uuid")
        assert refusal(no_uuid)[0] == 422

        patched = await client.threads.update(new, metadata={"kept": True})
        assert patched["metadata"] == {**made["metadata"], "kept": True}
        with pytest.raises(REFUSED) as moved:
            await client.threads.update(new, metadata={"project": OTHER})
        assert refusal(moved)[0] == 422

        found = await client.threads.search(metadata={"team": {"name": "a"}})
        assert [one["thread_id"] for one in found] == [new]
        assert await client.threads.search(metadata={"team": {"name": "b"}}) == []
        assert [t["thread_id"] for t in await client.threads.search(ids=[new])] == [new]
        idle = await client.threads.search(status="idle", select=["thread_id", "status"])
        assert idle == [{"thread_id": new, "status": "idle"}]
        assert await client.threads.count() == 2
        assert await client.threads.count(status="interrupted") == 1
        assert await client.threads.count(metadata={"kept": True}) == 1
        by_age = await client.threads.search(sort_by="created_at", sort_order="asc", limit=1)
        assert by_age[0]["status"] == "interrupted"
        rest = await client.threads.search(sort_by="created_at", sort_order="asc", offset=1)
        assert [one["thread_id"] for one in rest] == [new]


async def test_only_a_finished_thread_can_be_deleted_and_its_decisions_stay(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    async with client_of(served) as client, client_of(served, "eve", ("operator",)) as operator:
        thread, card = await waiting_thread(client)
        with pytest.raises(REFUSED) as waits:
            await client.threads.delete(thread)
        assert refusal(waits)[0] == 409
        no = {"decisions": [{"type": "reject", "message": "wrong_cause: not this"}]}
        await client.runs.wait(thread, PROJECT, command=Command(resume={card["id"]: no}))
        with pytest.raises(REFUSED) as allowed:
            await operator.threads.delete(thread)
        assert refusal(allowed)[0] == 403
        await client.threads.delete(thread)
        with pytest.raises(REFUSED) as gone:
            await client.threads.get(thread)
        assert refusal(gone)[0] == 404
        # The id is not free for another run: its incident, and so its decisions, are still there.
        await client.threads.create(thread_id=thread)
        assert (await client.threads.get_state(thread))["values"] == {}
        with pytest.raises(REFUSED) as used:
            await client.runs.create(thread, PROJECT, input=IMPROVE)
        assert refusal(used)[0] == 409
    with waiting.world.looking() as ledger:
        assert ledger.incidents.get(thread).state == "closed"
        assert len(ledger.proposals.decisions(waiting.proposal, 1, "approve")) == 1
        assert ledger.audit.verify().ok


async def test_the_state_is_read_at_every_checkpoint_and_written_by_nobody(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    async with client_of(served) as client:
        thread, card = await waiting_thread(client)
        states = await client.threads.get_history(thread, limit=100)
        assert states[0]["interrupts"] == [card]
        assert [one["next"] for one in states] == [
            ["review"], ["plan"], ["evolution"], ["insights"], ["router"], ["__start__"]
        ]  # fmt: skip
        older = await client.threads.get_history(thread, before=states[1]["checkpoint"])
        assert [one["next"] for one in older] == [one["next"] for one in states[2:]]
        which = states[3]["checkpoint"]
        at = await client.threads.get_state(thread, checkpoint_id=which["checkpoint_id"])
        assert (at["next"], at["checkpoint"]) == (["insights"], which)
        assert await client.threads.get_state(thread, checkpoint=which) == at
        # A checkpoint is looked up on the thread of the path, whichever thread the body names.
        empty = (await client.threads.create())["thread_id"]
        with pytest.raises(REFUSED) as elsewhere:
            await client.threads.get_state(empty, checkpoint=which)
        assert refusal(elsewhere)[0] == 404
        with pytest.raises(REFUSED) as written:
            await client.threads.update_state(thread, {"answer": YES}, as_node="review")
        status, body = refusal(written)
        assert status == 501
        assert "cannot be written" in body["detail"]
        assert (await client.threads.get_state(thread))["interrupts"] == [card]


async def test_assistants_are_the_projects(
    served: Served, waiting: Waiting, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    async with client_of(served) as client:
        only = await client.assistants.get("tracemend")
        assert (only["name"], only["context"]) == (PROJECT, {"project": PROJECT})
        add_project(served.home, tmp_path / "orders", waiting.world)
        found = await client.assistants.search(graph_id="tracemend")
        assert [one["name"] for one in found] == [OTHER, PROJECT]
        assert await client.assistants.count(name="ord") == 1
        assert await client.assistants.get(only["assistant_id"]) == only
        assert await client.assistants.get(PROJECT) == only
        with pytest.raises(REFUSED) as which:
            await client.assistants.get("tracemend")
        assert refusal(which)[0] == 422
        drawing = await client.assistants.get_graph(PROJECT, xray=True)
        nodes = {node["id"] for node in drawing["nodes"]}
        assert {"router", "review", "decide", "gate", "apply"} <= nodes
        schemas = await client.assistants.get_schemas(PROJECT)
        assert schemas["input_schema"]["required"] == ["request"]
        assert "project" in schemas["context_schema"]["properties"]
        assert await client.assistants.get_subgraphs(PROJECT) == {}
        assert len(await client.assistants.get_versions(PROJECT)) == 1


async def test_another_project_is_as_if_it_were_not_there(
    served: Served,
    waiting: Waiting,  # noqa: F811
    tmp_path: Path,
) -> None:
    add_project(served.home, tmp_path / "orders", waiting.world)
    async with client_of(served) as admin, client_of(served, "o", projects=(OTHER,)) as other:
        thread, card = await waiting_thread(admin)
        run = (await admin.runs.create(None, PROJECT, input=IMPROVE))["run_id"]
        assert await other.threads.search() == []
        assert await other.threads.search(ids=[thread]) == []
        assert await other.threads.count() == 0
        assert [one["name"] for one in await other.assistants.search()] == [OTHER]
        calls: list[Callable[[], Any]] = [
            lambda: other.threads.get(thread),
            lambda: other.threads.get_state(thread),
            lambda: other.threads.get_history(thread),
            lambda: other.threads.update(thread, metadata={"a": 1}),
            lambda: other.threads.update_state(thread, {}),
            lambda: other.threads.delete(thread),
            lambda: other.runs.list(thread),
            lambda: other.runs.get(thread, run),
            lambda: other.runs.join(thread, run),
            lambda: other.runs.cancel(thread, run),
            lambda: other.runs.delete(thread, run),
            lambda: other.runs.create(thread, OTHER, input=IMPROVE),
            lambda: other.runs.create(thread, OTHER, command=Command(resume={card["id"]: YES})),
            lambda: other.runs.create(None, PROJECT, input=IMPROVE),
            lambda: other.runs.create(
                None, "tracemend", input=IMPROVE, context={"project": PROJECT}
            ),
            lambda: other.assistants.get(PROJECT),
            lambda: other.assistants.get_schemas(PROJECT),
        ]
        for number, call in enumerate(calls):
            with pytest.raises(REFUSED) as refused:
                await call()
            assert (number, refused.value.response.status_code) == (number, 404)
        with pytest.raises(REFUSED) as streamed:
            async for _ in other.runs.join_stream(thread, run):
                pass
        assert streamed.value.response.status_code == 404
        for if_exists in ("raise", "do_nothing"):
            with pytest.raises(REFUSED) as taken:
                await other.threads.create(thread_id=thread, if_exists=if_exists)
            assert refusal(taken) == (409, {"detail": "thread_id: taken; choose another"})
        # A thread keeps its project, also for who may use both.
        with pytest.raises(REFUSED) as crossed:
            await admin.runs.create(thread, OTHER, command=Command(resume={card["id"]: YES}))
        assert refusal(crossed)[0] == 409
        # A checkpoint of theirs is not found on a thread of ours.
        ours = (await other.threads.create())["thread_id"]
        theirs = (await admin.threads.get_state(thread))["checkpoint"]
        with pytest.raises(REFUSED) as looked:
            await other.threads.get_state(ours, checkpoint=theirs)
        assert refusal(looked)[0] == 404
        assert (await other.threads.get_history(ours, before=theirs)) == []


async def test_a_thread_gets_its_project_from_its_first_input(
    served: Served,
    waiting: Waiting,  # noqa: F811
    tmp_path: Path,
) -> None:
    add_project(served.home, tmp_path / "orders", waiting.world)
    async with client_of(served) as client, client_of(served, "eve") as eve:
        thread = (await client.threads.create(metadata={"mine": 1}))["thread_id"]
        assert "project" not in (await client.threads.get(thread))["metadata"]
        assert len(await client.threads.search(metadata={"mine": 1})) == 1
        # Nobody else sees it before it belongs to a project.
        assert await eve.threads.search(metadata={"mine": 1}) == []
        assert await eve.threads.count(metadata={"mine": 1}) == 0
        with pytest.raises(REFUSED) as unseen:
            await eve.threads.get(thread)
        assert refusal(unseen)[0] == 404
        with pytest.raises(REFUSED) as unnamed:
            await client.runs.create(thread, "tracemend", input=IMPROVE)
        assert refusal(unnamed)[0] == 422
        run = await client.runs.create(
            thread, "tracemend", input=IMPROVE, context={"project": OTHER}
        )
        assert (await client.threads.get(thread))["metadata"]["project"] == OTHER
        assert (await eve.threads.get(thread))["metadata"]["mine"] == 1
        values = await client.runs.join(thread, run["run_id"])
        assert values["__interrupt__"][0]["value"]["card"]["kind"] == "approve"
        with pytest.raises(REFUSED) as moved:
            await client.runs.create(thread, PROJECT, input=IMPROVE)
        assert refusal(moved)[0] == 409
    ledger = open_ledger(served.home / "ledger.sqlite", OTHER)
    try:
        assert ledger.incidents.get(thread).state == "waiting"
    finally:
        ledger.close()


async def test_each_role_does_its_own_and_no_more(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    async with (
        client_of(served, "v", ("viewer",)) as viewer,
        client_of(served, "o", ("operator",)) as operator,
        client_of(served, "r", ("reviewer",)) as reviewer,
    ):
        thread, card = await waiting_thread(viewer)
        resume = Command(resume={card["id"]: YES})
        for client in (viewer, operator):
            with pytest.raises(REFUSED) as decides:
                await client.runs.create(thread, PROJECT, command=resume)
            assert refusal(decides)[0] == 403
        with waiting.world.looking() as ledger:
            assert ledger.proposals.decisions(waiting.proposal, 1, "approve") == []
        for client in (viewer, reviewer):
            with pytest.raises(REFUSED) as starts:
                await client.runs.create(None, PROJECT, input=IMPROVE)
            assert refusal(starts)[0] == 403
            with pytest.raises(REFUSED) as makes:
                await client.threads.create()
            assert refusal(makes)[0] == 403
        done = await reviewer.runs.wait(thread, PROJECT, command=resume)
        assert done["applied"]


async def test_nothing_of_the_protocol_answers_who_has_no_token(
    waiting: Waiting,  # noqa: F811
) -> None:
    home = waiting.world.root / ".tracemend"
    patient = ServerSettings(limits=LimitSettings(failed_auth="10000/minute"))
    with serve_app(home, settings=patient) as served:
        await _ask_without_a_token(served)


async def _ask_without_a_token(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.url) as nobody:
        described = await nobody.get("/openapi.json", headers=served.headers())
        paths = described.json()["paths"]
        asked = 0
        for path, methods in paths.items():
            if not path.startswith(("/threads", "/runs", "/assistants", "/info")):
                continue
            for method in methods:
                filled = path.format(
                    thread_id=uuid4(), run_id=uuid4(), assistant="a", checkpoint="c", namespace="n"
                )
                answer = await nobody.request(method.upper(), filled, json={})
                assert (answer.status_code, path, method) == (401, path, method)
                asked += 1
        assert asked > 25
        assert (await nobody.post("/store/items", json={})).status_code == 401
        assert (await nobody.get("/ok")).json() == {"ok": True}


async def test_what_is_not_supported_says_what_to_use_instead(served: Served) -> None:
    async with client_of(served) as client:
        thread, _ = await waiting_thread(client)
        calls: list[Callable[[], Any]] = [
            lambda: client.assistants.create("tracemend"),
            lambda: client.assistants.update(PROJECT, metadata={}),
            lambda: client.assistants.delete(PROJECT),
            lambda: client.assistants.set_latest(PROJECT, 1),
            lambda: client.threads.copy(thread),
            lambda: client.threads.prune([thread]),
            lambda: client.threads.search(values={"finding": "f-1"}),
            lambda: client.threads.create(ttl=5),
            lambda: client.crons.create(PROJECT, schedule="* * * * *"),
            client.crons.search,
            lambda: client.store.put_item(["a"], "k", {}),
            lambda: client.store.search_items(["a"]),
            lambda: client.runs.create_batch([]),
            lambda: client.runs.cancel_many(status="all"),
        ]
        for number, call in enumerate(calls):
            with pytest.raises(REFUSED) as refused:
                await call()
            status, body = refusal(refused)
            assert (number, status) == (number, 501)
            assert len(body["detail"]) > 20
        async with httpx.AsyncClient(headers=served.headers()) as plain:
            assert (await plain.get(f"{served.url}/threads/x/unheard-of")).status_code == 404
            assert (await plain.get(f"{served.url}/threads/../etc/passwd")).status_code == 404


async def test_a_card_cannot_be_cancelled_and_an_analysis_can(
    served: Served,
    waiting: Waiting,  # noqa: F811
) -> None:
    async with client_of(served) as client:
        thread, card = await waiting_thread(client)
        later = await client.runs.create(None, PROJECT, input=IMPROVE, after_seconds=3600)
        assert (await client.runs.get(later["thread_id"], later["run_id"]))["status"] == "pending"
        with pytest.raises(REFUSED) as busy:
            await client.runs.delete(later["thread_id"], later["run_id"])
        assert refusal(busy)[0] == 409
        with pytest.raises(REFUSED) as works:
            await client.threads.delete(later["thread_id"])
        assert refusal(works)[0] == 409
        with pytest.raises(REFUSED) as rolled:
            await client.runs.cancel(later["thread_id"], later["run_id"], action="rollback")
        assert refusal(rolled)[0] == 501
        await client.runs.cancel(later["thread_id"], later["run_id"])
        row = await client.runs.get(later["thread_id"], later["run_id"])
        assert (row["status"], row["cancel_reason"]) == ("interrupted", "cancelled by ann")
        with waiting.world.looking() as ledger:
            stopped = ledger.incidents.get(later["thread_id"])
            assert (stopped.state, stopped.problem) == ("closed", "cancelled by ann")
            assert ledger.audit.verify().ok
        await client.runs.delete(later["thread_id"], later["run_id"])
        assert await client.runs.list(later["thread_id"]) == []

        partly = await client.runs.create(
            thread, PROJECT,
            command=Command(resume={card["id"]: {"decisions": [
                {"type": "edit", "edited_action": {"args": {
                    key: value + "\nAsk before you retry.\n"
                    for key, value in card["value"]["action_requests"][0]["args"].items()
                    if key.startswith("text:")
                }}}
            ]}}),
        )  # fmt: skip
        paused = await client.runs.join(thread, partly["run_id"])
        assert paused["revision"] == 2
        with pytest.raises(REFUSED) as waits:
            await client.runs.cancel(thread, partly["run_id"])
        status, body = refusal(waits)
        assert status == 409
        assert "reject it instead" in body["detail"]
        assert (await client.threads.get(thread))["status"] == "interrupted"


async def test_a_running_analysis_stops_where_it_is(
    fresh: Served,
    world: World,  # noqa: F811
) -> None:
    traces = world.root / "traces"
    for number in range(20):  # many times over, so that it reads long after the cancel came
        shutil.copy(traces / "this-week.otlp.jsonl", traces / f"copy-{number}.otlp.jsonl")
    async with client_of(fresh) as client:
        thread = (await client.threads.create())["thread_id"]
        run, seen = "", []
        stream = client.runs.stream(thread, PROJECT, input=IMPROVE, stream_mode="tasks")
        async for part in stream:
            seen.append(part.event)
            if part.event == "metadata":
                run = part.data["run_id"]
            if part.event == "tasks" and part.data["name"] == "insights":
                await client.runs.cancel(thread, run, wait=True)
                break
        row = await client.runs.get(thread, run)
        assert (row["status"], row["cancel_reason"]) == ("interrupted", "cancelled by ann")
        assert await client.runs.join(thread, run) is not None
    with world.looking() as ledger:
        assert ledger.incidents.get(thread).state == "closed"
        assert ledger.proposals.all_latest() == []


async def test_a_quarantined_run_ends_whoever_waits_for_it(
    fresh: Served,
    world: World,  # noqa: F811
) -> None:
    async with client_of(fresh) as client:
        thread = (await client.threads.create())["thread_id"]
        waited = asyncio.create_task(
            client.runs.wait(thread, PROJECT, input=IMPROVE, after_seconds=3600)
        )
        for _ in range(600):
            runs = await client.runs.list(thread)
            if runs:
                break
            await asyncio.sleep(0.05)
        with world.looking() as ledger:
            ledger.incidents.set_state(thread, "quarantined", problem="the source is gone")
        with pytest.raises(Exception, match="the source is gone"):
            await asyncio.wait_for(waited, 60)
        row = await client.runs.get(thread, runs[0]["run_id"])
        assert (row["status"], row["error"]) == ("error", "the source is gone")
        assert (await client.threads.get(thread))["status"] == "error"
        joined = await client.runs.join(thread, runs[0]["run_id"])
        assert joined["__error__"]["message"] == "the source is gone"


async def test_a_run_is_joined_across_sigkill(world: World, tmp_path: Path) -> None:  # noqa: F811
    """The run's row is in the ledger before the call is answered; the next life drives it on."""
    log = tmp_path / "server.log"
    served = Served(url="", home=world.root / ".tracemend", server=None)  # type: ignore[arg-type]
    headers = served.headers()
    with replica(world.environ, cwd=world.root, log=log) as server:
        async with get_client(url=server.url, headers=headers) as client:
            thread = (await client.threads.create())["thread_id"]
            run = (await client.runs.create(thread, PROJECT, input=IMPROVE))["run_id"]
        server.kill()
    with world.looking() as ledger:
        left = ledger.protocol.run(run)
        assert left is not None
    with replica(world.environ, cwd=world.root, log=log) as server:
        # It comes to its end without being asked for.
        for _ in range(1200):
            with world.looking() as ledger:
                left = ledger.protocol.run(run)
            if left is not None and left.status == "interrupted":
                break
            await asyncio.sleep(0.1)
        assert left is not None
        assert left.status == "interrupted"
        async with get_client(url=server.url, headers=headers) as client:
            values: Any = await asyncio.wait_for(client.runs.join(thread, run), 120)
            assert values["__interrupt__"][0]["value"]["card"]["kind"] == "approve"
            assert (await client.runs.get(thread, run))["status"] == "interrupted"
