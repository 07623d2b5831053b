"""Traces at a backend: the same card as from files, and what is said when reading goes wrong."""

import asyncio
import base64
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from contracts.json_types import Json
from graph.cli.listing import status_json, status_lines
from graph.cli.session import open_session
from memory.workspace import HOME_VARIABLE, Workspace, open_project, register
from nodes.showing import PARTIAL, newest_card
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.phoenix import FakePhoenix, push
from tests.fakes.serving import Mishaps, serve
from tests.langsmith_worlds import fake_of
from tests.story.backends import (
    CLOSED_PORT,
    KEYS,
    Corpus,
    again,
    command,
    configure,
    corpus_of,
    holders,
    reading,
    said_once,
)
from tests.story.worlds import PROJECT, Finished, Waiting, World, copy_world

pytestmark = [pytest.mark.story, pytest.mark.servers]

DESK = "desk"
LANGSMITH_KEY = {"LANGSMITH_API_KEY": "lsv2_pt_fake"}
TOKEN = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
SOURCES = [
    ("langfuse-v2", "langfuse", "langfuse-v2; Langfuse 4.16.0, read by observations v2", "warn"),
    ("langfuse-v1", "langfuse", "langfuse-v1; Langfuse 3.99.0, read by traces v1", "warn"),
    ("langsmith-v2", "langsmith", "langsmith-v2; project 'refunds'; server 0.18.2 has v2", "ok"),
    ("langsmith-v1", "langsmith", "langsmith-v1; project 'refunds'; server 0.12.7", "ok"),
    ("phoenix", "phoenix", "phoenix-rest; rate limit: none stated", "ok"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """One server of each kind and generation with the same traces."""

    langfuse: FakeLangfuse
    phoenix: Mishaps
    urls: dict[str, str]

    @property
    def entry(self) -> dict[str, Json]:
        """The Langfuse server in tracemend.yaml."""
        return {
            "kind": "langfuse", "base_url": self.urls["langfuse-v2"], "environment": "production",
        }  # fmt: skip


@pytest.fixture(scope="module")
def corpus(recorded: World) -> Corpus:
    return corpus_of(recorded)


@pytest.fixture(scope="module")
def served(corpus: Corpus) -> Iterator[Servers]:
    staging = [replace(t, environment="staging") for t in again(corpus.traces, 2, apart=HOUR)]
    langfuse = FakeLangfuse([*corpus.traces, *staging[len(corpus.traces) :]])
    phoenix = Mishaps(FakePhoenix().app())
    few = corpus.traces[-5:]  # what v1 allows is 15 calls in 10 s
    smiths = {"langsmith-v2": fake_of(corpus.traces), "langsmith-v1": fake_of(few, "v1")}
    with ExitStack() as stack:
        urls = {
            "langfuse-v2": stack.enter_context(serve(langfuse.app)),
            "langfuse-v1": stack.enter_context(
                serve(FakeLangfuse(corpus.traces, generation="v1").app)
            ),
            "phoenix": stack.enter_context(serve(phoenix)),
        }
        for name, fake in smiths.items():
            urls[name] = fake.base_url = stack.enter_context(serve(fake.app()))
        for file in corpus.files:
            push(urls["phoenix"], file.read_bytes().splitlines(), project=DESK)
        yield Servers(langfuse=langfuse, phoenix=phoenix, urls=urls)


HOUR = timedelta(hours=1)


@pytest.fixture
def servers(served: Servers) -> Servers:
    """The servers without what earlier tests planned and saw."""
    served.langfuse.app.forget()
    served.phoenix.forget()
    return served


def test_improve_over_langfuse_ends_with_the_card_that_files_give(
    recorded: World, made_waiting: Waiting, servers: Servers, tmp_path: Path
) -> None:
    world = reading(recorded, tmp_path / "agent", servers.entry)
    started = command(world, "improve", "--json")
    assert started.code == 0, started.err
    assert started.json["runs"][0]["state"] == "waiting"
    here, there = opened(world), opened(made_waiting.world)
    assert status_json(here)["findings"] == status_json(there)["findings"]
    proposal = started.json["runs"][0]["proposal"]
    finding = here.ledger.proposals.latest(proposal).proposal.finding_id
    assert finding == there.ledger.proposals.latest(made_waiting.proposal).proposal.finding_id
    assert newest_card(here, proposal).view["warnings"] == []
    assert holders(world.root, [SECRET, PUBLIC, TOKEN]) == []


def opened(world: World) -> Workspace:
    """The world's project as its commands left it."""
    return open_project(world.root / ".tracemend", PROJECT)


def findings(done: Finished) -> list[tuple[str, int, str, str]]:
    return [(f["signature"], f["units"], f["change"], f["cause"]) for f in done.json["findings"]]


@pytest.mark.parametrize(
    ("kind", "server", "project", "reader"),
    [
        ("langsmith", "langsmith-v2", "refunds", "langsmith-v2"),
        ("phoenix", "phoenix", DESK, "phoenix-rest"),
    ],
)
def test_analyze_over_a_backend_finds_what_files_show(  # noqa: PLR0917  (a table's columns)
    kind: str, server: str, project: str, reader: str, recorded: World, servers: Servers
) -> None:
    done = command(
        recorded, "analyze", "--source", kind, "--base-url", servers.urls[server],
        "--tracing-project", project, "--since", "24h", "--compare", "8d", "--json",
        keys=LANGSMITH_KEY,
    )  # fmt: skip
    assert done.code == 0, done.err
    files = recorded.run(
        "analyze", "--traces", "traces/this-week.otlp.jsonl",
        "--baseline", "traces/last-week.otlp.jsonl", "--json",
    )  # fmt: skip
    assert findings(done) == findings(files)
    read = done.json["read"]
    assert (read["format"], read["traces"], read["status"]) == (reader, 100, "complete")
    assert done.json["baseline"]["read"] == {"traces": 100, "status": "complete"}


def phoenix_entry(servers: Servers) -> dict[str, Json]:
    return {"kind": "phoenix", "base_url": servers.urls["phoenix"], "project": DESK}


def test_a_server_that_fails_from_the_middle_on_is_read_in_part_and_that_is_printed(
    recorded: World, servers: Servers
) -> None:
    servers.phoenix.status(500, path="/spans", after=3, times=10**6)
    done = command(
        recorded, "analyze", "--source", "phoenix", "--base-url", servers.urls["phoenix"],
        "--tracing-project", DESK, "--within", "20s",
    )  # fmt: skip
    assert done.code == 6
    assert done.err == ""
    lines = done.out.splitlines()
    read = int(lines[0].removeprefix("read ").partition(" ")[0])
    assert 0 < read < 100
    assert " (phoenix-rest): partial;" in lines[0]
    assert any("what starts after 20" in line and "was not read" in line for line in lines)
    assert f" of {read} sessions, " in done.out


def test_a_card_says_that_its_finding_rests_on_a_partial_read(
    recorded: World, servers: Servers, tmp_path: Path
) -> None:
    world = reading(recorded, tmp_path / "agent", phoenix_entry(servers))
    servers.phoenix.status(403, path="/spans", after=3, times=1)
    started = command(world, "improve", "--json")
    assert started.code == 0, started.err
    ws = opened(world)
    assert newest_card(ws, started.json["runs"][0]["proposal"]).view["warnings"] == [PARTIAL]
    assert any(line.endswith("  (read in part)") for line in status_lines(ws))


def test_a_server_that_cannot_be_reached_is_one_line_and_changes_nothing(
    recorded: World, tmp_path: Path
) -> None:
    entry: dict[str, Json] = {"kind": "langfuse", "base_url": CLOSED_PORT}
    world = reading(recorded, tmp_path / "agent", entry)
    before = world.harness()
    done = command(world, "improve", "--json")
    assert (done.code, done.out) == (6, "")
    assert "cannot be reached at http://127.0.0.1:9" in said_once(done)
    assert world.harness() == before
    with world.looking() as ledger:
        assert ledger.knowledge.findings() == []
        assert ledger.audit.verify().ok


def test_a_refused_key_names_its_variables_and_is_shown_nowhere(
    recorded: World, servers: Servers, tmp_path: Path
) -> None:
    world = reading(recorded, tmp_path / "agent", servers.entry)
    wrong = {"LANGFUSE_PUBLIC_KEY": "pk-lf-0a1b2c3d", "LANGFUSE_SECRET_KEY": "sk-lf-4e5f6a7b"}
    done = command(world, "improve", keys=wrong)
    assert done.code == 6
    line = said_once(done)
    assert "(401): refuses the key; check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY" in line
    token = base64.b64encode(":".join(wrong.values()).encode()).decode()
    secrets = [*wrong.values(), token]
    assert not any(secret in done.out + done.err for secret in secrets)
    assert (world.root / ".tracemend" / "ledger.sqlite").exists()
    assert holders(world.root, secrets) == []


def test_doctor_says_of_each_source_how_it_is_read_and_how_ready_the_project_is(
    recorded: World, servers: Servers, tmp_path: Path
) -> None:
    entries: list[dict[str, Json]] = [
        {"kind": kind, "base_url": servers.urls[server], "project": PROJECTS.get(kind)}
        for server, kind, _, _ in SOURCES
    ]
    unread: dict[str, Json] = {"kind": "langfuse", "env_prefix": "OTHER_"}
    world = reading(recorded, tmp_path / "agent", *entries, unread)
    done = command(world, "doctor", "--json", keys={**KEYS, **LANGSMITH_KEY})
    assert done.code == 2
    checks = [one for one in done.json["checks"] if one["name"].startswith("traces")]
    assert [one["state"] for one in checks] == [*(state for *_, state in SOURCES), "bad"]
    for check, (_, kind, said, state) in zip(checks, SOURCES, strict=False):
        assert check["detail"].startswith(f"{kind}:")
        assert f" by {said}" in check["detail"]
        assert all(part in check["detail"] for part in ("; rate limit: ", "; newest trace 20"))
        assert "; clock 0." in check["detail"] or "; clock 1." in check["detail"]
        assert ("make a key that only reads" in check["advice"]) == (state == "warn")
    assert checks[-1]["detail"].endswith("set OTHER_LANGFUSE_PUBLIC_KEY in the environment")
    assert len(done.json["readiness"]) == 8


PROJECTS = {"langsmith": "refunds", "phoenix": DESK}


def test_a_name_of_the_operator_is_masked_in_one_project_and_not_in_the_next(
    recorded: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both run at the same time in one process."""
    home = tmp_path / "home"
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    for slug, names in (("masked", ["Payment Shard"]), ("plain", [])):
        world = copy_world(recorded, tmp_path / slug)
        configure(world, project=slug, redaction={"names": names})
        register(home, slug, world.root)

    async def improve(slug: str) -> str:
        async with open_session(slug, quiet=True) as session:
            ran = await session.service.start({"kind": "improve", "finding": None})
            assert ran.state == "waiting"
            assert ran.proposal is not None
            return str(newest_card(session.ws, ran.proposal).view)

    async def both() -> tuple[str, str]:
        masked, plain = await asyncio.gather(improve("masked"), improve("plain"))
        return masked, plain

    masked, plain = asyncio.run(both())
    assert "payment shard" in plain
    assert "payment shard" not in masked.lower()
    assert "the [name] did not answer in time" in masked
    rows = ledger_text(home)
    assert "payment shard" in rows["plain"]
    assert "payment shard" not in rows["masked"].lower()


def ledger_text(home: Path) -> dict[str, str]:
    """Everything that the ledger holds, by project."""
    texts: dict[str, str] = {}
    db = sqlite3.connect(home / "ledger.sqlite")
    for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
        rows = db.execute(f'select * from "{table}"')  # noqa: S608  (a name of the schema's own)
        columns = [column[0] for column in rows.description]
        for row in rows.fetchall():
            project = str(dict(zip(columns, row, strict=True)).get("project"))
            texts[project] = texts.get(project, "") + repr(row)
    db.close()
    return texts
