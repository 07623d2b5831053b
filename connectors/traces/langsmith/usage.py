"""Which model a run called, with which tools, and what it used: from wherever a tracer put it."""

from collections.abc import Iterator, Mapping

import orjson

from connectors.traces.langsmith.values import as_list, as_object, within
from connectors.traces.raw import as_float, as_int
from contracts.json_types import Json

MAX_TOOLS = 64  # schemas of one call that are kept
_MODEL_KEYS = ("model_name", "model", "model_id", "deployment_name", "azure_deployment")
_IN = ("input_tokens", "prompt_tokens")
_OUT = ("output_tokens", "completion_tokens")


def model_attributes(
    run: Mapping[str, Json], metadata: Mapping[str, Json], inputs: Json, outputs: Json
) -> dict[str, Json]:
    """OpenInference attributes of a model call; what was not recorded is left out."""
    params = as_object(as_object(run.get("extra")).get("invocation_params"))
    found: dict[str, Json] = {}
    model = _model(metadata, params, inputs, outputs)
    if model:
        found["llm.model_name"] = model
    sent, said = _tokens(run, metadata, outputs)
    if sent is not None:
        found["llm.token_count.prompt"] = sent
    if said is not None:
        found["llm.token_count.completion"] = said
    cost = _cost(run)
    if cost is not None:
        found["llm.cost.total"] = cost
    reason = _finish_reason(outputs)
    if reason:
        found["llm.finish_reason"] = reason
    tools = as_list(params.get("tools")) or as_list(within(inputs, "tools"))
    for place, tool in enumerate(tools[:MAX_TOOLS]):
        found[f"llm.tools.{place}.tool.json_schema"] = _text(tool)
    return found


def _model(
    metadata: Mapping[str, Json], params: Mapping[str, Json], inputs: Json, outputs: Json
) -> str:
    message = _message(outputs)
    places: tuple[Json, ...] = (
        metadata.get("ls_model_name"),
        *(params.get(key) for key in _MODEL_KEYS),
        within(outputs, "llm_output", "model_name"),
        within(message, "response_metadata", "model_name"),
        within(message, "response_metadata", "model"),
        within(outputs, "model"),
        within(inputs, "model"),
    )
    return next((one for one in places if isinstance(one, str) and one), "")


def _tokens(
    run: Mapping[str, Json], metadata: Mapping[str, Json], outputs: Json
) -> tuple[int | None, int | None]:
    """(input, output) tokens. The API writes 0 and 0 where nothing was counted: unknown."""
    counted = (as_int(run.get("prompt_tokens")), as_int(run.get("completion_tokens")))
    if any(counted):
        return counted
    for usage in _usages(metadata, outputs):
        sent = next((n for key in _IN if (n := as_int(usage.get(key))) is not None), None)
        said = next((n for key in _OUT if (n := as_int(usage.get(key))) is not None), None)
        if sent or said:
            return sent, said
    return None, None


def _usages(metadata: Mapping[str, Json], outputs: Json) -> Iterator[Mapping[str, Json]]:
    message = _message(outputs)
    for place in (
        within(outputs, "usage_metadata"),
        within(message, "usage_metadata"),
        metadata.get("usage_metadata"),
        within(outputs, "llm_output", "token_usage"),
        within(outputs, "llm_output", "usage"),
        within(message, "response_metadata", "token_usage"),
        within(message, "response_metadata", "usage"),
        within(outputs, "usage"),
    ):
        if isinstance(place, dict):
            yield place


def _message(outputs: Json) -> Json:
    """The fields of the first message that the model gave, serialised in either way."""
    message = within(outputs, "generations", 0, 0, "message")
    if message is None:
        message = within(outputs, "generations", 0, "message")
    if message is None:
        message = within(outputs, "output") or within(outputs, "message")
    inner = within(message, "kwargs")
    return inner if isinstance(inner, dict) else message


def _cost(run: Mapping[str, Json]) -> float | None:
    """US dollars. The API writes 0 for a model that has no price: unknown."""
    total = as_float(run.get("total_cost"))
    if total is None:
        parts = [as_float(run.get(key)) for key in ("prompt_cost", "completion_cost")]
        known = [part for part in parts if part is not None]
        total = sum(known) if known else None
    return total if total is not None and total > 0 else None


def _finish_reason(outputs: Json) -> str:
    message = _message(outputs)
    for place in (
        within(outputs, "generations", 0, 0, "generation_info", "finish_reason"),
        within(message, "response_metadata", "finish_reason"),
        within(message, "response_metadata", "stop_reason"),
        within(outputs, "choices", 0, "finish_reason"),
        within(outputs, "choices", 0, "finish_reason", "finish_reason"),  # of a joined JS stream
        within(outputs, "stop_reason"),
    ):
        if isinstance(place, str) and place:
            return place
    return ""


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # numbers beyond 64 bits
        return str(value)
