"""The research desk: three agents in one LangGraph graph, handing over by `transfer_to_...`."""

import json
from dataclasses import dataclass
from typing import Annotated, cast

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from opentelemetry.trace import Status, StatusCode, Tracer

from examples.research_desk.library import Library, LibraryError
from examples.research_desk.offline_model import DeskModel

MAX_STEPS = 40
PROMPTS = {
    "13": "Write years as the library prints them.",
    "14": "Write years with two digits, to save room.",
}
"""The two versions of the managed prompt, of which the newer one is a mistake."""
_ROLES = {
    "coordinator": "You are the coordinator. Hand the question to the researcher, then answer it.",
    "researcher": "You are the researcher. Find an article, read it, cite it, hand to the writer.",
    "writer": "You are the writer. Keep a note of what was found, and hand back.",
}


class Desk(MessagesState):
    """The conversation, and whose turn it is."""

    active: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """One agent's turn: it reads the conversation and says or calls one thing."""

    model: Runnable[LanguageModelInput, AIMessage]
    system: SystemMessage

    def __call__(self, state: Desk) -> dict[str, list[AnyMessage]]:
        return {"messages": [self.model.invoke([self.system, *state["messages"]])]}


def _tools(library: Library) -> list[BaseTool]:
    @tool
    def search(topic: str) -> str:
        """Find articles about a topic."""
        return json.dumps(library.search(topic))

    @tool
    def read_article(article_id: str) -> str:
        """Read an article."""
        return json.dumps(library.read_article(article_id))

    @tool
    def cite(article_id: str, year: str) -> str:
        """Make the line that names an article as a source."""
        return json.dumps(library.cite(article_id, year))

    @tool
    def save_note(text: str) -> str:
        """Keep a note for the reader."""
        return json.dumps(library.save_note(text))

    return [search, read_article, cite, save_note]


def _transfer(to: str) -> BaseTool:
    @tool(f"transfer_to_{to}", description=f"Hand over to the {to}.")
    def transfer(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[str]:
        said = ToolMessage(
            f"Successfully transferred to {to}", name=f"transfer_to_{to}", tool_call_id=tool_call_id
        )
        return Command(update={"messages": [said], "active": to})

    return transfer


def _error_text(error: LibraryError) -> str:
    return f"Error: {error}"


def answer(
    question: str, *, library: Library, prompt_version: str, session: str, tracer: Tracer
) -> str:
    """Answer one question under one AGENT span; what goes wrong inside is in the answer."""
    tools = [*_tools(library), *(_transfer(role) for role in _ROLES)]
    bound = DeskModel(prompt_version=prompt_version).bind_tools(tools)

    builder = StateGraph(Desk)
    for role, task in _ROLES.items():
        system = SystemMessage(f"{task} {PROMPTS[prompt_version]}")
        builder.add_node(role, _Turn(model=bound, system=system))
        builder.add_conditional_edges(role, tools_condition, ["tools", END])
    builder.add_node("tools", ToolNode(tools, handle_tool_errors=_error_text))
    builder.add_edge(START, "coordinator")
    builder.add_conditional_edges("tools", lambda state: state["active"], list(_ROLES))
    team = builder.compile(name="research")
    with tracer.start_as_current_span("research_desk") as span:
        span.set_attributes(
            {
                "openinference.span.kind": "AGENT",
                "input.value": json.dumps({"message": question}),
                "input.mime_type": "application/json",
                "session.id": session,
            }
        )
        asked: Desk = {"messages": [HumanMessage(question)], "active": "coordinator"}
        state = team.invoke(asked, {"recursion_limit": MAX_STEPS})
        said = str(cast("list[AnyMessage]", state["messages"])[-1].text)
        span.set_attributes({"output.value": said, "output.mime_type": "text/plain"})
        span.set_status(Status(StatusCode.OK))
        return said
