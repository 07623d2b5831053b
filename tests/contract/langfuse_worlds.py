"""Langfuse projects with a harness in them, and a person who edits there by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from connectors.harness.langfuse_api import LangfuseProject
from connectors.harness.langfuse_prompts import LangfusePromptsHarness
from connectors.harness.langfuse_skills import LangfuseSkillsHarness
from connectors.prompts.text import (
    PromptTextError,
    chat_messages,
    chat_text,
    is_chat,
    prompt_name,
    prompt_path,
)
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.protocols import Harness
from tests.fakes.langfuse_faults import WRITE
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer

LAG_S = 0.3
LABEL = "production"


class Board:
    """An ASGI app that serves many fakes, each under a prefix of its own."""

    def __init__(self) -> None:
        self.apps: list[ASGIApp] = []

    def add(self, app: ASGIApp) -> str:
        """The prefix under which it is served."""
        self.apps.append(app)
        return f"/w{len(self.apps) - 1}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix = scope["path"].split("/")[1]
        inner = dict(scope)
        inner["path"] = scope["path"].removeprefix(f"/{prefix}")
        inner["raw_path"] = scope["raw_path"].removeprefix(f"/{prefix}".encode())
        await self.apps[int(prefix.removeprefix("w"))](inner, receive, send)


def project(url: str, *, timeout_s: float = 10, secret: str = SECRET) -> LangfuseProject:
    return LangfuseProject(
        base_url=url, public_key=SecretStr(PUBLIC), secret_key=SecretStr(secret),
        timeout_s=timeout_s,
    )  # fmt: skip


def chat(*messages: Json) -> HarnessFile:
    return HarnessFile(data=chat_text([m for m in messages if isinstance(m, dict)]).encode())


PROMPTS_BEFORE = HarnessSnapshot(
    files={
        "prompts/desk/main.md": HarnessFile(data=b"Be brief.\r\nOrder: {{order}} \xc3\xa9"),
        "prompts/desk/talk.chat.md": chat(
            {"role": "system", "content": "Be kind.\n=== user ===\n"},
            {"type": "placeholder", "name": "history"},
            {"role": "user", "content": "{{question}}"},
        ),
        "prompts/desk/stays.md": HarnessFile(data=b""),
    }
)
PROMPTS_AFTER = HarnessSnapshot(
    files={
        "prompts/desk/main.md": HarnessFile(data=b"Be brief.\r\nOrder: {{order}} \xc3\xa9\n\nAsk."),
        "prompts/desk/talk.chat.md": chat(
            {"role": "system", "content": "Be kind and brief.\n=== user ===\n"},
            {"type": "placeholder", "name": "history"},
            {"role": "user", "content": "{{question}}"},
        ),
        "prompts/desk/stays.md": HarnessFile(data=b""),
    }
)


def skill(name: str, text: str) -> HarnessFile:
    front = f"---\nname: {name}\ndescription: What it is for.\n---\n"
    return HarnessFile(data=(front + text).encode())


SKILLS_BEFORE = HarnessSnapshot(
    files={
        "skills/ask/SKILL.md": skill("ask", "Ask.\r\n"),
        "skills/ask/notes/same.md": HarnessFile(data=b"Same.\n"),
        "skills/many/SKILL.md": skill("many", "Many.\n"),
        "skills/many/notes/a.md": HarnessFile(data=b"A"),
        "skills/old/SKILL.md": skill("old", "Old.\n"),
        "skills/stays/SKILL.md": skill("stays", "Stays.\n"),
    }
)
SKILLS_AFTER = HarnessSnapshot(
    files={
        "skills/ask/SKILL.md": skill("ask", "Ask twice.\r\n"),
        "skills/ask/notes/same.md": HarnessFile(data=b"Same.\n"),
        "skills/many/SKILL.md": skill("many", "Many more.\n"),
        "skills/many/notes/b.md": HarnessFile(data=b"B\n"),
        "skills/new/SKILL.md": skill("new", "New."),
        "skills/stays/SKILL.md": skill("stays", "Stays.\n"),
    }
)
"""Changes, a file more and one less, a new skill and one that is taken away."""


@dataclass(slots=True)
class LangfuseWorld:
    """What both kinds share."""

    url: str
    fake: FakePromptServer
    harness: Harness = field(init=False)
    keeps_modes: bool = field(init=False, default=False)
    names_states: bool = field(init=False, default=True)
    remembers: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.harness = self.again()

    def again(self) -> Harness:
        raise NotImplementedError

    @contextmanager
    def breaking(self, step: int) -> Iterator[Callable[[], bool]]:
        """Refuse a write, or cut the answer to it off."""
        before = (step - 1) // 2
        if step % 2:
            fault = self.fake.faults.refuse(WRITE, status=503, after=before)
        else:
            fault = self.fake.faults.lose(WRITE, after=before)
        yield lambda: not fault.times
        self.fake.faults.planned.remove(fault)


class PromptsWorld(LangfuseWorld):
    before = PROMPTS_BEFORE
    after = PROMPTS_AFTER
    extra = "prompts/desk/extra.md"
    outside = "prompts/other/system.md"

    def again(self) -> LangfusePromptsHarness:
        return LangfusePromptsHarness(
            project(self.url), names=["desk/*"], label=LABEL, lag_s=LAG_S
        )  # fmt: skip

    def put(self, path: str, data: bytes | None) -> None:
        name = prompt_name(path)
        if data is None:
            del self.fake.prompts.rows[name]
            return
        written: Json = data.decode()
        if is_chat(path):
            try:
                written = [dict(message) for message in chat_messages(data.decode())]
            except PromptTextError:
                written = [{"role": "user", "content": data.decode()}]
        self.fake.prompts.put(name, written, labels=[LABEL])

    async def seen(self) -> HarnessSnapshot:
        files: dict[str, HarnessFile] = {}
        for name in self.fake.prompts.rows:
            row = self.fake.prompts.labelled(name, LABEL)
            if row is None or not name.startswith("desk/"):
                continue
            prompt = row["prompt"]
            text = chat_text(prompt) if isinstance(prompt, list) else str(prompt)
            path = prompt_path(name, chat=isinstance(prompt, list))
            files[path] = HarnessFile(data=text.encode())
        return HarnessSnapshot(files=files)

    def written(self) -> int:
        return sum(len(rows) for rows in self.fake.prompts.rows.values())


class SkillsWorld(LangfuseWorld):
    before = SKILLS_BEFORE
    after = SKILLS_AFTER
    extra = "skills/extra/SKILL.md"
    outside = "instructions/main.md"

    def again(self) -> LangfuseSkillsHarness:
        return LangfuseSkillsHarness(project(self.url), names=["*"], label=LABEL, lag_s=LAG_S)

    def put(self, path: str, data: bytes | None) -> None:
        _, name, inside = path.split("/", 2)
        skills = self.fake.skills
        row = skills.labelled(name, LABEL)
        files = skills.texts(row) if row is not None else {}
        if data is None:
            files.pop(inside)
        else:
            files[inside] = data
        if files:
            skills.put(name, files, labels=[LABEL])
        else:
            del skills.rows[name]

    async def seen(self) -> HarnessSnapshot:
        files: dict[str, HarnessFile] = {}
        for name in self.fake.skills.rows:
            row = self.fake.skills.labelled(name, LABEL)
            for inside, data in (self.fake.skills.texts(row) if row is not None else {}).items():
                files[f"skills/{name}/{inside}"] = HarnessFile(data=data)
        return HarnessSnapshot(files=files)

    def written(self) -> int:
        return sum(len(rows) for rows in self.fake.skills.rows.values())


def prompts_world(board: Board, url: str) -> PromptsWorld:
    """A project whose prompts under the label are `PROMPTS_BEFORE`."""
    fake = FakePromptServer()
    world = PromptsWorld(f"{url}{board.add(fake.faults)}", fake)
    for path, file in PROMPTS_BEFORE.files.items():
        world.put(path, file.data)
    fake.prompts.put("other/system", "Not ours.", labels=[LABEL])
    return world


def skills_world(board: Board, url: str) -> SkillsWorld:
    """A project whose skills under the label are `SKILLS_BEFORE`."""
    fake = FakePromptServer()
    world = SkillsWorld(f"{url}{board.add(fake.faults)}", fake)
    for name in ("ask", "many", "old", "stays"):
        start = f"skills/{name}/"
        mine = {p.removeprefix(start): f.data for p, f in SKILLS_BEFORE.files.items()
                if p.startswith(start)}  # fmt: skip
        fake.skills.put(name, mine, labels=[LABEL])
    return world
