"""One script of SDK calls and what each comes to; it runs unchanged against every server.

Made for a server on an installation of two projects in which nothing ran: what could destroy a card
is done to the second one's. What an outcome does not
say (ids, times, texts) may differ; what it says is compared.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from langgraph_sdk.errors import APIStatusError
from langgraph_sdk.schema import Command

GRAPH = "tracemend"
IMPROVE: dict[str, Any] = {"request": {"kind": "improve", "finding": None}}
YES: dict[str, Any] = {"decisions": [{"type": "approve"}], "by": "ann"}
NO_REASON: dict[str, Any] = {"decisions": [{"type": "reject"}], "by": "ann"}
NOBODY = "0" * 32


async def tried(call: Callable[[], Awaitable[Any]], said: Callable[[Any], str]) -> str:
    """The outcome of one call: what is said of its answer, or how it was refused."""
    try:
        return said(await call())
    except (APIStatusError, httpx.HTTPStatusError) as error:
        return str(error.response.status_code)
    except Exception as error:  # noqa: BLE001  # the SDK raises a run's failure as a bare Exception
        return f"raised {str(error).partition(':')[0]}"


def taken(_answer: Any) -> str:
    """The call was taken."""
    return "taken"


@dataclass(slots=True)
class Script:
    """The calls, in their order, on one client."""

    client: Any
    project: str
    second: str
    outcomes: dict[str, str] = field(default_factory=dict)
    thread: str = ""

    async def note(
        self, name: str, call: Callable[[], Awaitable[Any]], said: Callable[[Any], str] = taken
    ) -> None:
        """Do one call and keep its outcome."""
        self.outcomes[name] = await tried(call, said)

    async def run(self) -> dict[str, str]:
        """Everything."""
        await self.assistants()
        await self.threads()
        await self.pause()
        await self.refusals()
        await self.resume()
        await self.afterwards()
        await self.input_over_a_card()
        return self.outcomes

    async def assistants(self) -> None:
        """What can be run."""
        c = self.client.assistants
        await self.note("assistants.search", c.search, lambda a: f"{len(a)} found")
        await self.note("assistants.get(graph id)", lambda: c.get(GRAPH))
        one = (await c.search())[0]["assistant_id"]
        await self.note("assistants.get", lambda: c.get(one), lambda a: a["graph_id"])
        await self.note(
            "assistants.get_schemas", lambda: c.get_schemas(one), lambda s: ", ".join(sorted(s))
        )
        await self.note(
            "assistants.get_graph", lambda: c.get_graph(one), lambda g: f"{len(g['nodes'])} nodes"
        )
        await self.note("assistants.create", lambda: c.create(GRAPH))

    async def threads(self) -> None:
        """Threads before anything ran."""
        c = self.client.threads
        new = str(uuid4())
        self.thread = new
        await self.note("threads.create", lambda: c.create(thread_id=new), lambda t: t["status"])
        await self.note("threads.create, same id", lambda: c.create(thread_id=new))
        await self.note(
            "threads.create, do_nothing", lambda: c.create(thread_id=new, if_exists="do_nothing")
        )
        await self.note("threads.create, no UUID", lambda: c.create(thread_id="t-1"))
        await self.note("threads.get, unknown", lambda: c.get(str(uuid4())))

    def start(self, **more: Any) -> Awaitable[Any]:
        """The input, on the script's thread."""
        asked = {"input": IMPROVE, "context": {"project": self.project}, **more}
        answer: Awaitable[Any] = self.client.runs.create(self.thread, GRAPH, **asked)
        return answer

    async def pause(self) -> None:
        """Up to the card."""
        c = self.client
        await self.note(
            "runs.create, a project that is none",
            lambda: c.runs.wait(
                None, GRAPH, input=IMPROVE, context={"project": "../../etc/passwd"}
            ),
        )
        events: list[str] = []
        stream = c.runs.stream(
            self.thread, GRAPH, input=IMPROVE, context={"project": self.project},
            stream_mode=["values", "updates"],
        )  # fmt: skip
        events += [part.event async for part in stream]
        self.outcomes["runs.stream, first and last event"] = f"{events[0]}, {events[-1]}"
        run = (await c.runs.list(self.thread))[0]
        await self.note(
            "status of the run at the card", lambda: c.runs.get(self.thread, run["run_id"]),
            lambda r: r["status"],
        )  # fmt: skip
        await self.note(
            "status of the thread at the card", lambda: c.threads.get(self.thread),
            lambda t: f"{t['status']}, {sum(map(len, t['interrupts'].values()))} interrupt",
        )  # fmt: skip
        await self.note(
            "runs.join at the card", lambda: c.runs.join(self.thread, run["run_id"]),
            lambda v: "values and the interrupt" if "finding" in v else ", ".join(v),
        )  # fmt: skip
        await self.note(
            "threads.search(status)", lambda: c.threads.search(status="interrupted"),
            lambda found: f"{len(found)} found",
        )  # fmt: skip
        await self.note(
            "threads.get_history", lambda: c.threads.get_history(self.thread, limit=50),
            lambda states: f"{len(states)} states",
        )  # fmt: skip
        await self.note(
            "runs.cancel at the card", lambda: c.runs.cancel(self.thread, run["run_id"])
        )

    async def card(self) -> str:
        """The interrupt that waits now."""
        interrupts = (await self.client.threads.get_state(self.thread))["interrupts"]
        return str(interrupts[0]["id"]) if interrupts else ""

    async def answer(self, name: str, resume: Any) -> None:
        """Resume, and say whether the same card still waits."""
        before = await self.card()
        command = Command(resume=resume)
        outcome = await tried(
            lambda: self.client.runs.wait(self.thread, GRAPH, command=command), taken
        )
        same = await self.card() == before
        self.outcomes[name] = outcome + (", the card waits" if same else ", asked anew")

    async def refusals(self) -> None:
        """What must not move a thread that waits."""
        await self.answer("resume, unknown interrupt id", {NOBODY: YES})
        await self.answer("resume, an empty map", {})
        await self.answer("resume, no decision in it", {await self.card(): {"decisions": []}})
        await self.answer("resume by a plain value", NO_REASON)

    async def rest(self) -> None:
        """Until nothing works on the thread."""
        for _ in range(1200):
            if (await self.client.threads.get(self.thread))["status"] != "busy":
                return
            await asyncio.sleep(0.1)

    async def resume(self) -> None:
        """Three times yes at once, then what a late click does."""
        card = await self.card()
        command = Command(resume={card: YES})

        async def click() -> str:
            return await tried(
                lambda: self.client.runs.create(
                    self.thread, GRAPH, command=command, multitask_strategy="reject"
                ),
                taken,
            )

        said = await asyncio.gather(click(), click(), click())
        self.outcomes["three resumes at once"] = ", ".join(sorted(said))
        await self.rest()
        await self.note(
            "status of the thread after the yes", lambda: self.client.threads.get(self.thread),
            lambda t: t["status"],
        )  # fmt: skip
        await self.note(
            "resume again, long after",
            lambda: self.client.runs.create(self.thread, GRAPH, command=command),
        )
        await self.rest()

    async def afterwards(self) -> None:
        """What is left, and what is not supported."""
        c, thread = self.client, self.thread
        run = (await c.runs.list(thread))[-1]["run_id"]
        joined = [part.event async for part in c.runs.join_stream(thread, run)]
        self.outcomes["runs.join_stream of a finished run"] = ", ".join(joined) or "nothing"
        await self.note("new input on a finished thread", self.start)
        await self.rest()
        await self.note("threads.update_state", lambda: c.threads.update_state(thread, {"why": ""}))
        await self.note("threads.copy", lambda: c.threads.copy(thread))
        await self.note(
            "runs.stream(events)",
            lambda: anext(aiter(c.runs.stream(
                None, GRAPH, input=IMPROVE, context={"project": self.project},
                stream_mode="events",
            ))),
        )  # fmt: skip
        await self.note("crons.search", c.crons.search)
        await self.note("store.put_item", lambda: c.store.put_item(["a"], "k", {"a": 1}))
        again = {"assistant_id": GRAPH, "input": IMPROVE, "context": {"project": self.project}}
        await self.note("runs.create_batch", lambda: c.runs.create_batch([again]))
        await self.note("runs.delete", lambda: c.runs.delete(thread, run))
        await self.note("threads.delete", self.delete)
        await self.note("threads.get, deleted", lambda: c.threads.get(thread))

    async def input_over_a_card(self) -> None:
        """A second input on a thread that waits, which must not cost its card."""
        self.thread = (await self.client.threads.create())["thread_id"]
        self.project = self.second
        await self.client.runs.wait(
            self.thread, GRAPH, input=IMPROVE, context={"project": self.second}
        )
        before = await self.card()
        outcome = await tried(lambda: self.start(multitask_strategy="reject"), taken)
        await self.rest()
        after = await self.card()
        said = "the card waits" if after and after == before else "the card is gone"
        self.outcomes["new input on a thread that waits (reject)"] = f"{outcome}, {said}"
        await self.note("threads.delete while a card waits", self.delete)

    def delete(self) -> Awaitable[Any]:
        """Delete the script's thread."""
        answer: Awaitable[Any] = self.client.threads.delete(self.thread)
        return answer


async def outcomes(client: Any, project: str, second: str) -> dict[str, str]:
    """Run the script against the client's server."""
    return await Script(client, project, second).run()
