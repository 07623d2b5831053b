"""LangSmith's hub as a target, when others write there too and the server is not at its best."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from tests.contract.harness_suite import ABOUT, change, effect_of
from tests.fakes.langsmith_hub import FakeHub, Fault
from tests.fakes.langsmith_hub_repos import OTHER, HubRepo
from tests.fakes.serving import serve
from tests.hub_worlds import (
    access_of,
    at_once,
    chat_manifest,
    edited,
    harness_of,
    text_manifest,
    with_model,
)


@pytest.fixture
def hub() -> FakeHub:
    made = FakeHub()
    made.prompt("support", text_manifest("Hi {name}. Be brief."))
    return made


@pytest.fixture
def url(hub: FakeHub) -> Iterator[str]:
    with serve(hub.app()) as url:
        yield url


def once(hub: FakeHub, when: str, method: str, part: str, act: Callable[[], object]) -> None:
    """Do something right before or after the next such request is answered."""

    def during(now: str, asked: str, path: str) -> None:
        if (now, asked) == (when, method) and part in path:
            hub.during = None
            act()

    hub.during = during


def descriptions(hub: FakeHub, name: str = "support") -> list[str]:
    return [c.description for c in hub.repos[name].commits if c.description]


async def test_a_staged_commit_says_whose_it_is_and_moves_no_tag(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    effect = effect_of(harness, before, after)
    first = hub.tagged("support")
    await harness.stage(effect, before, after)
    [written] = hub.writes
    assert written[:2] == ("POST", "/commits/-/support")
    assert (written[2]["parent_commit"], written[2]["skip_webhooks"]) == (first.hash, True)
    [said] = descriptions(hub)
    assert said.splitlines() == [
        "Say so when the payment tool fails", "", "Tracemend-Finding: f-abcdefghij",
        "Tracemend-Proposal: p-abcdefghij r2", "Approved-by: Ada",
        f"Tracemend-Gate-Report: {'9' * 64}",
        f"Tracemend-Effect: {effect.key}", f"Tracemend-Base: {first.hash}",
    ]  # fmt: skip
    assert hub.tagged("support") is first
    await harness.switch(effect, before, after)
    assert hub.writes[1:] == [
        ("PATCH", "/repos/-/support/tags/production",
         {"commit_id": hub.repos["support"].commits[-1].id}),
    ]  # fmt: skip


async def test_an_undo_points_back_to_the_very_commit(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    first = hub.tagged("support")
    await change(harness, before, after)
    await change(harness, after, before, kind="undo")
    assert hub.tagged("support") is first
    assert len(hub.repos["support"].commits) == 2
    assert (await harness.read()).origin == before.origin == f"support@{first.hash[:12]}"


async def test_after_an_undo_the_next_edit_is_taken_by_a_strict_hub(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    first = hub.tagged("support")
    await change(harness, before, after)
    await change(harness, after, before, kind="undo")
    before, other = await edited(harness, "brief", "quick")
    await change(harness, before, other, decision="d-2")
    assert await harness.read() == other
    await change(harness, other, before, kind="undo", decision="d-2")
    assert hub.tagged("support") is first


async def test_a_draft_after_the_tag_is_not_written_over(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    draft = hub.prompt("support", text_manifest("A draft of Ann's"), tag=None)
    with pytest.raises(ConnectorError, match="has commits after the one tagged") as told:
        await change(harness, before, after)
    assert not told.value.retryable
    assert hub.repos["support"].head is draft
    assert await harness.read() == before
    hub.parent_rule = "any"  # a hub that takes commits beside each other
    await change(harness, before, after, decision="d-2")
    assert await harness.read() == after


async def test_a_draft_that_came_in_between_stops_the_change(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")

    def draft() -> None:
        hub.prompt("support", text_manifest("A draft of Ann's"), tag=None)

    once(hub, "before", "POST", "/commits/", draft)
    with pytest.raises(ConnectorError, match="has commits after the one tagged"):
        await change(harness, before, after)
    assert await harness.read() == before


async def test_a_prompt_that_was_tagged_anew_in_between_stops_the_change(
    hub: FakeHub, url: str
) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    once(hub, "before", "POST", "/commits/",
         lambda: hub.prompt("support", text_manifest("Ann's")))  # fmt: skip
    with pytest.raises(ForeignChange) as told:
        await change(harness, before, after)
    assert (told.value.paths, told.value.switched) == (("prompts/support.md",), False)
    assert hub.tagged("support").by == "Ann"


async def test_what_was_switched_is_put_back_where_another_is_refused(
    hub: FakeHub, url: str
) -> None:
    hub.folder("ask", "skill", {"SKILL.md": "Be brief."})
    harness = harness_of(url, hub, prompts=("support",), skills=("ask",))
    before, after = await edited(harness, "brief", "kind")
    hub.faults = [Fault(kind="status", path="/directories/commits", status=422)]
    with pytest.raises(ConnectorError, match=r"directories/commits \(422\)") as told:
        await change(harness, before, after)
    assert not told.value.retryable
    assert await harness.read() == before


async def test_a_commit_on_another_parent_than_was_sent_is_never_pointed_to(
    hub: FakeHub, url: str
) -> None:
    hub.parent_rule = "rebase"
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    hub.prompt("support", text_manifest("A draft of Ann's"), tag=None)
    effect = effect_of(harness, before, after)
    await harness.stage(effect, before, after)
    for _ in range(2):
        with pytest.raises(ForeignChange):
            await harness.switch(effect, before, after)
    assert await harness.read() == before
    assert len(descriptions(hub)) == 1


async def test_the_same_commit_by_somebody_else_is_pointed_to(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    theirs = hub.prompt("support", text_manifest("Hi {name}. Be kind."), tag=None)
    await change(harness, before, after)
    assert hub.tagged("support") is theirs


async def test_a_tag_that_was_moved_meanwhile_stays_where_it_is(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    effect = effect_of(harness, before, after)
    await harness.stage(effect, before, after)

    def move() -> None:
        hub.prompt("support", text_manifest("Ann's"))

    once(hub, "before", "GET", "/tags/production", move)
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, before, after)
    assert (told.value.paths, told.value.switched) == (("prompts/support.md",), False)
    assert hub.tagged("support").by == "Ann"


async def test_what_was_switched_is_put_back_where_another_was_changed_meanwhile(
    hub: FakeHub, url: str
) -> None:
    hub.folder("ask", "skill", {"SKILL.md": "Be brief.", "b.md": "b"})
    harness = harness_of(url, hub, prompts=("support",), skills=("ask",))
    before, after = await edited(harness, "brief", "kind")
    first = hub.tagged("support")
    once(hub, "before", "POST", "/directories/commits",
         lambda: hub.folder("ask", "skill", {"SKILL.md": "Ann's"}))  # fmt: skip
    with pytest.raises(ForeignChange) as told:
        await change(harness, before, after)
    assert (told.value.paths, told.value.switched) == (("skills/ask/SKILL.md",), True)
    assert hub.tagged("support") is first
    now = await harness.read()
    assert now.files["skills/ask/SKILL.md"].data == b"Ann's"


async def test_what_a_person_tagged_stays_where_another_prompt_is_foreign(
    hub: FakeHub, url: str
) -> None:
    hub.prompt("triage", chat_manifest())
    harness = harness_of(url, hub, prompts=("support", "triage"))
    before, after = await edited(harness, "brief", "kind")
    theirs = hub.prompt("support", text_manifest("Hi {name}. Be kind."))  # what we wanted, too
    hub.prompt("triage", chat_manifest("Ann's"))
    with pytest.raises(ForeignChange) as told:
        await change(harness, before, after)
    assert (told.value.paths, told.value.switched) == (("prompts/triage.chat.md",), False)
    assert hub.tagged("support") is theirs


async def test_a_read_by_tag_that_lags_is_waited_for(hub: FakeHub, url: str) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    harness = harness_of(url, hub, prompts=("support",), sleep=sleep)
    before, after = await edited(harness, "brief", "kind")
    once(hub, "after", "PATCH", "/tags/", lambda: setattr(hub, "lag", 3))
    await change(harness, before, after)
    assert len(waits) == 3
    assert await harness.read() == after


async def test_a_lag_that_does_not_end_is_taken_up_later_without_another_write(
    hub: FakeHub, url: str
) -> None:
    harness = harness_of(url, hub, prompts=("support",), sleep=at_once)
    before, after = await edited(harness, "brief", "kind")
    once(hub, "after", "PATCH", "/tags/", lambda: setattr(hub, "lag", 8))
    with pytest.raises(ConnectorError, match="agents still read the old commit") as told:
        await change(harness, before, after)
    assert told.value.retryable
    await change(harness_of(url, hub, prompts=("support",), sleep=at_once), before, after)
    assert await harness.read() == after
    assert [method for method, _, _ in hub.writes] == ["POST", "PATCH"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_write_that_lands_after_we_gave_up_is_found_and_not_repeated(
    hub: FakeHub, url: str, method: str
) -> None:
    quick = harness_of(url, hub, access_of(url, hub, timeout_s=0.5), prompts=("support",))
    before, after = await edited(quick, "brief", "kind")
    hub.faults = [Fault(kind="late", method=method, seconds=1.2)]
    with pytest.raises(ConnectorError, match="it is not known whether it was done") as told:
        await change(quick, before, after)
    assert told.value.retryable
    for _ in range(100):  # until it lands
        if len(hub.repos["support"].commits) == 2 and (
            method == "POST" or hub.tagged("support") is hub.repos["support"].head
        ):
            break
        await harness_of(url, hub, prompts=("support",)).history()
    await change(harness_of(url, hub, prompts=("support",)), before, after)
    assert await quick.read() == after
    assert [asked for asked, _, _ in hub.writes] == ["POST", "PATCH"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_hub_is_asked_again_for_reads_and_never_for_writes(
    hub: FakeHub, url: str, status: int
) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    hub.faults = [Fault(kind="status", method="GET", status=status)]
    assert await harness.read() == before
    hub.faults = [Fault(kind="status", method="PATCH", status=status, times=9)]
    with pytest.raises(ConnectorError, match=rf"PATCH .*\({status}\)") as told:
        await change(harness, before, after)
    assert told.value.retryable
    assert [method for method, _, _ in hub.writes] == ["POST", "PATCH"]


async def test_a_key_that_is_refused_says_what_to_set_and_not_the_key(
    hub: FakeHub, url: str
) -> None:
    hub.workspace = "22222222-2222-4222-8222-222222222222"
    with pytest.raises(ConnectorError) as told:
        await harness_of(url, hub, prompts=("support",)).read()
    said = str(told.value)
    assert "(403): refuses the key; check LANGSMITH_API_KEY" in said
    assert "a key of an organization also needs `workspace`" in said
    assert hub.key not in said
    assert not told.value.retryable
    access = access_of(url, hub, workspace=hub.workspace)
    assert (await harness_of(url, hub, access, prompts=("support",)).read()).files


async def test_a_key_that_may_not_write_is_refused_for_good(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    hub.faults = [Fault(kind="status", method="PATCH", status=403, times=9)]
    with pytest.raises(ConnectorError, match="prompts:tag") as told:
        await change(harness, before, after)
    assert not told.value.retryable
    assert await harness.read() == before


async def test_a_hub_that_does_not_know_tags_moves_nothing(hub: FakeHub, url: str) -> None:
    hub.has_tags = False
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    with pytest.raises(ConnectorError, match="does not say where the tag"):
        await change(harness, before, after)
    assert await harness.read() == before


async def test_a_self_hosted_address_is_found_below_its_prefix(hub: FakeHub) -> None:
    hub.prefixes = ("/api/v1",)
    hub.folder("ask", "skill", {"SKILL.md": "Be brief."})
    with serve(hub.app()) as url:
        for address in (url, f"{url}/api", f"{url}/api/v1/"):
            harness = harness_of(address, hub, prompts=("support",), skills=("ask",))
            assert set((await harness.read()).files) == {
                "prompts/support.md",
                "skills/ask/SKILL.md",
            }


async def test_what_cannot_be_edited_is_left_out_and_named(hub: FakeHub, url: str) -> None:
    image: Json = {
        "lc": 1, "type": "constructor", "kwargs": {"template": {"url": "{u}"}},
        "id": ["langchain", "prompts", "image", "ImagePromptTemplate"],
    }  # fmt: skip
    hub.prompt("seen", _with_prompt(image))
    hub.prompt("draft", text_manifest("x"), tag=None)
    harness = harness_of(url, hub, prompts=("support", "seen", "draft", "absent"))
    assert set((await harness.read()).files) == {"prompts/support.md"}
    assert harness.left_out == {
        "absent": "there is no prompt of this name in the workspace",
        "draft": "no commit of it is tagged 'production'; tag the one that agents read",
        "seen": "it cannot be edited as text: message 1 holds more than text",
    }


def _with_prompt(prompt: Json) -> Json:
    chat: Any = chat_manifest()
    chat["kwargs"]["messages"][0]["kwargs"]["prompt"] = prompt
    return chat  # type: ignore[no-any-return]


async def test_a_pattern_means_the_own_workspace_and_the_right_kind(hub: FakeHub, url: str) -> None:
    hub.folder("ask", "skill", {"SKILL.md": "Ask."})
    hub.folder("desk", "agent", {"AGENTS.md": "Desk."})
    hub.repos["theirs"] = HubRepo(handle="theirs", kind="skill", tenant=OTHER)
    for number in range(150):
        hub.repos[f"empty-{number}"] = HubRepo(handle=f"empty-{number}", kind="agent")
    hub.folder("last", "skill", {"SKILL.md": "Last."})
    harness = harness_of(url, hub, prompts=("sup*",), skills=("*s*",))
    found = await harness.read()
    assert set(found.files) == {"prompts/support.md", "skills/ask/SKILL.md", "skills/last/SKILL.md"}
    assert not [path for _, path, _ in hub.asked if "theirs" in path or "desk" in path]


async def test_an_edit_keeps_all_of_a_prompt_but_its_text(hub: FakeHub, url: str) -> None:
    hub.prompt("triage", with_model(chat_manifest()))
    harness = harness_of(url, hub, prompts=("triage",))
    before, after = await edited(harness, "Be brief.", "Be kind.")
    await change(harness, before, after)
    assert hub.tagged("triage").manifest == with_model(chat_manifest("You help {name}.\nBe kind."))


REFUSED = [
    ("prompts/other.md", b"new", "a prompt is not added, removed"),
    ("prompts/support.md", None, "a prompt is not added, removed"),
    ("prompts/support.chat.md", b"=== user ===\nx\n", "a prompt is not added"),
    ("prompts/support.md", b"\xff", "in UTF-8 alone"),
    ("agents/desk/tools.json", b"{}", "of an agent only its Markdown"),
    ("skills/Ask Me/SKILL.md", b"x", "a name in the hub is of lower-case letters"),
    ("skills/ask/SKILL.md", b"\xff", "in UTF-8 alone"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "data", "why"), REFUSED)
async def test_what_the_hub_cannot_hold_is_refused_for_good(
    hub: FakeHub, url: str, path: str, data: bytes | None, why: str
) -> None:
    harness = harness_of(url, hub, prompts=("*",), skills=("*",), agents=("desk",))
    before, state = await harness.read(), hub.state()
    files = {p: f for p, f in before.files.items() if p != path}
    if data is not None:
        files[path] = HarnessFile(data=data)
    with pytest.raises(PolicyRefused, match=why):
        await change(harness, before, HarnessSnapshot(files=files))
    assert hub.state() == state


@pytest.mark.parametrize("text", ["no chat at all", "=== tool ===\nx\n", "=== user ===\n{q}\n"])
async def test_a_text_that_a_chat_cannot_hold_is_refused_for_good(
    hub: FakeHub, url: str, text: str
) -> None:
    hub.prompt("triage", chat_manifest())
    harness = harness_of(url, hub, prompts=("triage",))
    before, state = await harness.read(), hub.state()
    after = HarnessSnapshot(files={"prompts/triage.chat.md": HarnessFile(data=text.encode())})
    with pytest.raises(ConnectorError, match="cannot be written to the prompt") as told:
        await change(harness, before, after)
    assert not told.value.retryable
    assert hub.state() == state


async def test_a_mode_is_refused(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before = await harness.read()
    files = {p: HarnessFile(data=b"x", mode=0o755) for p in before.files}
    with pytest.raises(PolicyRefused, match="the hub keeps no file modes"):
        await change(harness, before, HarnessSnapshot(files=files))


async def test_a_hostile_path_of_a_skill_is_refused_when_it_is_read(hub: FakeHub, url: str) -> None:
    hub.folder("ask", "skill", {"../../etc/cron.d/x": "boo"})
    with pytest.raises(PolicyRefused, match="skill 'ask': path"):
        await harness_of(url, hub, skills=("ask",)).read()


async def test_commits_behind_many_others_are_found(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    first = hub.tagged("support")
    before, after = await edited(harness, "brief", "kind")
    await change(harness, before, after)
    ours = hub.tagged("support")
    for number in range(230):
        hub.prompt("support", text_manifest(f"Draft {number}"), tag=None)
    await change(harness, after, before, kind="undo")
    assert hub.tagged("support") is first
    told = await harness.history(limit=300)
    assert [entry.origin for entry in told if entry.effect] == [f"support@{ours.hash[:12]}"]


async def test_a_description_stays_within_what_the_hub_takes(hub: FakeHub, url: str) -> None:
    harness = harness_of(url, hub, prompts=("support",))
    before, after = await edited(harness, "brief", "kind")
    name = "A\nTracemend-Effect: x" * 90
    about = replace(ABOUT, title="T" * 900, approver=name, undoes="r-1")
    effect = effect_of(harness, before, after, about=about)
    await harness.stage(effect, before, after)
    [said] = descriptions(hub)
    assert f"Tracemend-Effect: {effect.key}" in said.splitlines()
    assert len(said) <= 1000
