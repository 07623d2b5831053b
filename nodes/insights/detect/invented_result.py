"""The model writes a tool's result itself.

Meaning: in one and the same answer the model asks for a step in text and goes on with its result,
which no tool gave: the stop sequence was missing or ignored. Evidence: the request and the result
as they stand in the answer. Known limits: only the documented forms of ReAct prompts (`Action:` ..
`Observation:`) and of tagged calls (`<tool_call>` .. `<tool_response>`) are known.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.traces import Span
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "invented_result"
_REACT = re.compile(
    r"^[ \t]*(?:\*\*)?Action(?: Input)?:.{0,2000}?"
    r"^[ \t]*(?:\*\*)?(Observation:[ \t*]*\S[^\n]{0,200})",
    re.MULTILINE | re.DOTALL,
)
_TAGGED = re.compile(
    r"</?(?:tool_call|function_calls?|tool_use)>.{0,4000}?"
    r"(<(?:tool_response|tool_result|function_results?|function_response)>\s*[^\s<][^<]{0,200})",
    re.DOTALL,
)
_MARK = re.compile(r"\A(?:Observation:[ \t*]*|<[^>]{1,40}>\s*)")
_HINTS = (
    "observation:",
    "<tool_response>",
    "<tool_result>",
    "<function_result",
    "<function_response>",
)


def invented_result(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """Model answers that hold a request and its result."""
    del symptoms
    for span in view.trace.spans:
        if span.kind != "llm" or span.status == "error":
            continue
        said = "\n".join(message.content for message in span.messages_out)
        low = said[:20_000].lower()
        if not any(hint in low for hint in _HINTS):
            continue
        match = _REACT.search(said[:20_000]) or _TAGGED.search(said[:20_000])
        if match is not None and not _quoted(span, match[1]):
            yield Hit(
                kind=KIND,
                span=span,
                message=f"the model's own answer goes on with a result: {match[1]}",
                field="output",
                start=match.start(1),
                template="the model writes a tool's result itself",
            )


def _quoted(span: Span, result: str) -> bool:
    """Whether it only repeats what it was shown."""
    core = _MARK.sub("", result)[:60].strip()
    return any(core in message.content for message in span.messages_in)
