"""A weak, broken or hostile answer is a problem to correct, never a crash."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langsmith import get_tracing_context, tracing_context
from pydantic import BaseModel

from connectors.models.answers import read_text
from connectors.models.chat import Answer, Budget, ask
from connectors.models.scripted import ScriptedAnswer, ScriptedModel

FIELDCASE = Path(__file__).parents[3] / "data" / "fieldcases" / "20-fenced-and-inner-fence"


class Routed(BaseModel):
    """Where a message goes."""

    queue: str
    subject: str = ""


class WithoutTools(ScriptedModel):
    """A model whose package knows no tools."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        del tools, tool_choice, kwargs
        raise NotImplementedError


class BrokenCalls(ScriptedModel):
    """A model whose tool calls hold arguments that are not quite JSON."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        call = invalid_tool_call(
            name="Routed", args=self._next(messages).text, id="1", error="no JSON"
        )
        message = AIMessage(content="", invalid_tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Watched(ScriptedModel):
    """A model that notes whether a tracing backend would be told of the call."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        TRACED.append(get_tracing_context()["enabled"])
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


TRACED: list[object] = []


def budget(tokens: int = 1_000, timeout_s: float = 5.0) -> Budget:
    return Budget(tokens=tokens, count_tokens=len, answer_tokens=100, timeout_s=timeout_s)


async def asked(model: BaseChatModel, limits: Budget | None = None) -> Answer[Routed]:
    return await ask(model, [HumanMessage("route it")], Routed, budget=limits or budget())


async def test_a_tool_call_that_fits_is_the_answer() -> None:
    said = ScriptedAnswer(answer={"queue": "claims"}, tokens=(30, 4))
    answer = await asked(ScriptedModel([said]))
    assert (answer.parsed, answer.problem, answer.tokens) == (Routed(queue="claims"), None, 34)


@pytest.mark.parametrize(
    "text",
    [
        '{"queue": "claims"}',
        '```json\n{"queue": "claims"}\n```',
        'Sure! Here {it} is:\n\n```\n{"queue": "claims"}\n```\nAnything else?',
        '{"queue": "claims"}\n{"queue": "claims"}',
    ],
)
@pytest.mark.parametrize("model", [ScriptedModel, WithoutTools])
async def test_the_object_is_found_in_text_whatever_stands_around_it(
    text: str, model: type[ScriptedModel]
) -> None:
    answer = await asked(model([ScriptedAnswer(text=text)]))
    assert answer.parsed == Routed(queue="claims")
    assert answer.tokens == len("route it") + len(text)  # counted where nothing is reported


def _recorded_answers() -> Iterator[str]:
    for line in (FIELDCASE / "spans.otlp.jsonl").read_text("utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for span in (s for scope in resource["scopeSpans"] for s in scope["spans"]):
                for attribute in span["attributes"]:
                    if attribute["key"] == "llm.output_messages.0.message.content":
                        yield attribute["value"]["stringValue"]


def test_fences_around_and_inside_recorded_answers_are_no_obstacle() -> None:
    class Anything(BaseModel, extra="allow"):
        """Some object."""

    texts = [text for text in _recorded_answers() if "{" in text]
    assert any(text.startswith("```") for text in texts)
    assert any("```" in text and not text.startswith("```") for text in texts)
    for text in texts:
        bare = text.removeprefix("```json\n").removesuffix("\n```")
        found = read_text(text, Anything).value
        assert found is not None
        assert found.model_dump() == json.loads(bare)


def test_line_ends_left_bare_in_a_string_are_read() -> None:
    assert read_text('{"queue": "a\nb"}', Routed).value == Routed(queue="a\nb")


def test_two_answers_are_none_since_one_may_be_a_quote() -> None:
    found = read_text('A user said {"queue": "admin"}. So: {"queue": "claims"}', Routed)
    assert (found.value, found.problem) == (None, "the answer holds 2 objects, not one")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (ScriptedAnswer(text="I would rather not."), "holds no JSON object"),
        (ScriptedAnswer(text=""), "holds no JSON object"),
        (ScriptedAnswer(text='{"queue": 3}'), "queue: Input should be a valid string"),
        (ScriptedAnswer(answer={"subject": "x"}), "queue: Field required"),
        (ScriptedAnswer(text='{"a":' * 50_000), "holds no JSON object"),
        (ScriptedAnswer(text="{" * 500_000), "holds no JSON object"),
        (ScriptedAnswer(text='{"queue": ' + "9" * 10_000 + "}"), "no JSON object"),
    ],
)
async def test_what_does_not_fit_is_said_so_that_it_can_be_corrected(
    said: ScriptedAnswer, problem: str
) -> None:
    answer = await asked(ScriptedModel([said]))
    assert answer.parsed is None
    assert problem in (answer.problem or "")
    assert not answer.failed


async def test_the_misfit_shown_back_has_no_value_of_the_answer_in_its_problem() -> None:
    answer = await asked(ScriptedModel([ScriptedAnswer(answer={"queue": ["secret-value"]})]))
    assert "secret-value" not in (answer.problem or "")
    assert answer.text == '{"queue": ["secret-value"]}'


async def test_arguments_that_are_not_quite_json_are_read_as_text() -> None:
    broken: type[ScriptedModel] = BrokenCalls
    answer = await asked(broken([ScriptedAnswer(text='{"queue": "claims"} }')]))
    assert answer.parsed == Routed(queue="claims")


async def test_a_providers_failure_is_a_problem_without_secrets() -> None:
    secret = "sk-" + "A1b2" * 8
    answer = await asked(ScriptedModel([ScriptedAnswer(error=RuntimeError(f"401 for {secret}"))]))
    assert (answer.parsed, answer.failed) == (None, True)
    assert (answer.problem or "").startswith("the call failed: RuntimeError: 401 for")
    assert secret not in (answer.problem or "")


async def test_a_slow_model_is_left_and_counted_as_if_it_had_written_all_it_may() -> None:
    answer = await asked(ScriptedModel([ScriptedAnswer(seconds=30)]), budget(timeout_s=0.05))
    assert (answer.problem, answer.failed) == ("no answer within 0.05 s", True)
    assert answer.tokens == len("route it") + 100


async def test_no_call_is_made_that_might_go_over_the_budget() -> None:
    model = ScriptedModel([ScriptedAnswer(answer={"queue": "claims"})])
    answer = await asked(model, budget(tokens=107))
    assert answer.tokens == 0
    assert "over the token budget" in (answer.problem or "")
    assert not model.asked
    assert (await asked(model, budget(tokens=108))).parsed == Routed(queue="claims")


@pytest.mark.parametrize("structured", [True, False])
async def test_no_tracing_backend_is_told_of_the_call(structured: bool) -> None:
    TRACED.clear()
    watched: type[ScriptedModel] = Watched
    model = watched([ScriptedAnswer(text='{"queue": "claims"}')])
    with tracing_context(enabled=True):
        answer = await ask(
            model, [HumanMessage("a")], Routed, budget=budget(), structured=structured
        )
    assert (answer.parsed, TRACED) == (Routed(queue="claims"), [False])


async def test_half_a_surrogate_pair_is_not_shown_back() -> None:
    answer = await asked(ScriptedModel([ScriptedAnswer(answer={"queue": 1, "x": "\ud800"})]))
    assert answer.text.encode("utf-8")
