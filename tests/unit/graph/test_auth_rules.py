"""The rules that a LangGraph server asks us for, called as langgraph-api and Aegra call them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import Auth

from graph.server.auth import auth, authenticate, authorize, permissions_of
from memory.database import open_engine
from memory.ledger import open_ledger
from memory.tokens import Tokens
from memory.workspace import register

THREAD = "11111111-1111-4111-8111-111111111111"


class User:
    """A user as servers hand it to handlers."""

    def __init__(self, identity: str, permissions: list[str]) -> None:
        self.identity = identity
        self.permissions = permissions
        self.display_name = identity
        self.is_authenticated = True


@pytest.fixture
def home(home: Path, tmp_path: Path) -> Path:
    for slug in ("refunds", "billing"):
        register(home, slug, tmp_path / slug)
    ledger = open_ledger(home / "ledger.sqlite", "billing")
    ledger.incidents.open(THREAD, kind="alert", key="k", request={}, driver="local")
    ledger.close()
    return home


async def signed_in(home: Path, *roles: Any, projects: list[str] | None = None) -> User:
    engine = open_engine(home / "ledger.sqlite")
    _, text = Tokens(engine).create("ann", roles, projects=projects, expires_at=None)
    engine.dispose()
    user = await authenticate({b"authorization": f"Bearer {text}".encode()})
    assert user["identity"] == "ann"
    return User(user["identity"], list(user["permissions"]))


async def ask(user: User, resource: Any, action: Any, value: dict[str, Any]) -> Any:
    ctx = Auth.types.AuthContext(
        user=user,  # type: ignore[arg-type]  # servers hand over classes of their own
        permissions=user.permissions, resource=resource, action=action,
    )  # fmt: skip
    return await authorize(ctx=ctx, value=value)


async def refusal(user: User, resource: Any, action: Any, value: dict[str, Any]) -> int:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await ask(user, resource, action, value)
    return refused.value.status_code


def run(kwargs: Mapping[str, Any], thread: str | None = None) -> dict[str, Any]:
    return {"thread_id": thread, "assistant_id": "a", "metadata": {}, "kwargs": dict(kwargs)}


@pytest.mark.parametrize(
    "headers",
    [
        {}, {b"authorization": b"Bearer tm_000000000000_x"}, {"Authorization": "Bearer"},
        {"authorization": "Basic tm_x"}, {b"authorization": b"Bearer \xff\xfe"},
    ],
)  # fmt: skip
async def test_without_a_valid_token_nobody_is_signed_in(home: Path, headers: Any) -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await authenticate(headers)
    assert refused.value.status_code == 401


async def test_headers_may_be_text_or_bytes(home: Path) -> None:
    engine = open_engine(home / "ledger.sqlite")
    _, token = Tokens(engine).create("ann", ["viewer"], projects=["refunds"], expires_at=None)
    engine.dispose()
    for headers in (
        {"Authorization": f"Bearer {token}"}, {b"authorization": f"bearer {token}".encode()},
        {b"x-api-key": token.encode()},
    ):  # fmt: skip
        user = await authenticate(headers)  # type: ignore[arg-type]  # keys of either kind
        assert user["permissions"] == ["role:viewer", "project:refunds"]


async def test_a_run_may_only_be_started_in_a_project_of_the_caller(home: Path) -> None:
    ann = await signed_in(home, "operator", projects=["refunds"])
    value = run({"input": {}, "context": {"project": "refunds"}})
    assert await ask(ann, "threads", "create_run", value) == {"project": "refunds"}
    assert value["metadata"]["project"] == "refunds"
    for theirs in (
        {"context": {"project": "billing"}}, {"context": {"project": "../../etc"}},
        {"config": {"configurable": {"project": "billing"}}}, {"context": {"project": ["refunds"]}},
    ):  # fmt: skip
        assert await refusal(ann, "threads", "create_run", run({"input": {}, **theirs})) == 404
    both = {"context": {"project": "refunds"}, "config": {"configurable": {"project": "billing"}}}
    assert await refusal(ann, "threads", "create_run", run({"input": {}, **both})) == 422


async def test_the_callers_only_project_is_put_into_a_run_that_names_none(home: Path) -> None:
    ann = await signed_in(home, "operator", projects=["refunds"])
    nested = run({"input": {}})
    flat: dict[str, Any] = {"thread_id": None, "input": {}, "context": None}
    await ask(ann, "threads", "create_run", nested)
    await ask(ann, "threads", "create_run", flat)
    assert nested["kwargs"]["context"] == {"project": "refunds"}
    assert flat["context"] == {"project": "refunds"}
    ben = await signed_in(home, "operator", projects=["refunds", "billing"])
    assert await refusal(ben, "threads", "create_run", run({"input": {}})) == 422


async def test_the_ledger_says_whose_a_thread_is(home: Path) -> None:
    ann = await signed_in(home, "admin", projects=["refunds"])
    claimed = run({"command": {"resume": {"i": 1}}, "context": {"project": "refunds"}}, THREAD)
    assert await refusal(ann, "threads", "create_run", claimed) == 404
    root = await signed_in(home, "admin")
    assert await refusal(root, "threads", "create_run", claimed) == 409
    assert await ask(root, "threads", "create_run", run({"input": {}}, THREAD)) is None


async def test_input_needs_the_operator_and_an_answer_the_reviewer(home: Path) -> None:
    operator = await signed_in(home, "operator", projects=["billing"])
    reviewer = await signed_in(home, "reviewer", projects=["billing"])
    start, answer = run({"input": {}}), run({"command": {"resume": {"i": {}}}}, THREAD)
    assert await refusal(reviewer, "threads", "create_run", start) == 403
    assert await refusal(operator, "threads", "create_run", answer) == 403
    both = run({"command": {"resume": {"i": {}}}, "input": {}}, THREAD)
    assert await refusal(reviewer, "threads", "create_run", both) == 403
    assert await ask(operator, "threads", "create_run", start) == {"project": "billing"}
    assert await ask(reviewer, "threads", "create_run", answer) == {"project": "billing"}


@pytest.mark.parametrize(
    "kwargs",
    [
        {"command": {"goto": "apply"}}, {"command": {"resume": {}, "update": {"answer": {}}}},
        {"input": {}, "webhook": "http://127.0.0.1/"},
    ],
)  # fmt: skip
async def test_nothing_that_could_pass_a_person_by_is_taken(
    home: Path, kwargs: dict[str, Any]
) -> None:
    root = await signed_in(home, "admin")
    assert await refusal(root, "threads", "create_run", run(kwargs)) == 403


async def test_state_is_not_written_by_hand(home: Path) -> None:
    root = await signed_in(home, "admin")
    for value in ({"thread_id": THREAD}, {"metadata": {}, "values": {}, "as_node": "decide"}):
        assert await refusal(root, "threads", "update", dict(value)) == 403
    assert await ask(root, "threads", "update", {"thread_id": THREAD, "metadata": {"a": 1}}) is None
    moved = {"thread_id": THREAD, "metadata": {"project": "refunds"}}
    assert await refusal(root, "threads", "update", moved) == 409


async def test_reads_are_filtered_by_project(home: Path) -> None:
    ann = await signed_in(home, "viewer", projects=["refunds"])
    ben = await signed_in(home, "viewer", projects=["refunds", "billing"])
    root = await signed_in(home, "viewer")
    none = await signed_in(home, "viewer", projects=[])
    for action in ("read", "search"):
        assert await ask(ann, "threads", action, {}) == {"project": "refunds"}
        assert await ask(ben, "threads", action, {}) == {
            "$or": [{"project": "billing"}, {"project": "refunds"}]
        }
        assert await ask(root, "threads", action, {}) is None
        assert await refusal(none, "threads", action, {}) == 403
    assert await ask(ann, "assistants", "search", {}) == {
        "$or": [{"project": "refunds"}, {"created_by": "system"}]
    }


async def test_an_assistant_holds_no_project_of_others(home: Path) -> None:
    ann = await signed_in(home, "admin", projects=["refunds"])
    for action in ("create", "update"):
        value: dict[str, Any] = {"context": {"project": "billing"}}
        assert await refusal(ann, "assistants", action, value) == 404
        mine: dict[str, Any] = {"context": {"project": "refunds"}, "metadata": None}
        assert await ask(ann, "assistants", action, mine) == {"project": "refunds"}
        assert mine["metadata"] == {"project": "refunds"}
    vic = await signed_in(home, "viewer", projects=["refunds"])
    assert await refusal(vic, "assistants", "create", {"context": {"project": "refunds"}}) == 403


@pytest.mark.parametrize(
    ("resource", "action"),
    [
        ("store", "put"), ("store", "get"), ("store", "search"), ("store", "delete"),
        ("store", "list_namespaces"), ("crons", "create"), ("crons", "search"),
        ("crons", "delete"), ("runs", "create"), ("threads", "anything new"),
    ],
)  # fmt: skip
async def test_what_has_no_rule_is_refused_to_everybody(
    home: Path, resource: str, action: str
) -> None:
    assert await refusal(await signed_in(home, "admin"), resource, action, {}) == 403


async def test_a_studio_user_or_an_unknown_role_may_nothing(home: Path) -> None:
    for permissions in ([], ["authenticated"], ["role:root", "project:*"], ["read", "admin"]):
        assert await refusal(User("studio", permissions), "threads", "read", {}) == 403


def test_the_object_is_one_that_servers_load() -> None:
    assert auth._authenticate_handler is authenticate
    assert auth._global_handlers == [authorize]


def test_permissions_name_every_role_and_project() -> None:
    from contracts.people import Principal

    one = Principal(name="a", roles=frozenset({"viewer"}), projects=frozenset({"b", "a"}))
    assert permissions_of(one) == ["role:viewer", "project:a", "project:b"]
