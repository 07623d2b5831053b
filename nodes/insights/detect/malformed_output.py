"""Output that should have been machine-readable and is not, of a tool or of a model."""

import re
from collections.abc import Iterator

from contracts.traces import Span
from nodes.insights.detect import words
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.faults import Fault, make_fault
from nodes.insights.detect.view import View

KIND = "malformed_output"
_FENCED = re.compile(r"\A\s*```[a-zA-Z0-9]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_BARE_JSON = re.compile(
    r"(?:answer|respond|reply|return|output)[^.\n]{0,80}\bJSON\b[^.\n]{0,80}"
    r"(?:nothing (?:around|else|more)|no(?:thing)? other|only|without|no code|no markdown|bare)"
    r"|(?:only|just|bare|nothing but)[^.\n]{0,40}\bJSON\b",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"pars(?:e|ing)[ _-]?(?:failed|failure|error)|fallback|fall(?:ing|s)? back|invalid json"
    r"|(?:could|can)(?: ?not|n't) (?:be )?pars",
    re.IGNORECASE,
)


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    if fault.broken or (fault.type or "") in ("JSONDecodeError", "OutputParserException"):
        return True
    return fault.status is None and words.says_malformed(fault.message)


def model_faults(view: View) -> Iterator[Fault]:
    """Model answers that were to be bare JSON, are not, and threw the host off.

    A fence around the JSON alone is no failure: many hosts take it off. It counts where a later
    step says that parsing failed, or where the inside is no JSON either.
    """
    for index, span in enumerate(view.trace.spans):
        if span.kind != "llm" or span.status == "error" or not span.messages_out:
            continue
        said = span.messages_out[-1]
        text = said.content.strip()
        if said.tool_calls or not text or text[0] not in "`{[" or not _asked_for_json(span):
            continue
        if parsed(text) is not None or span.finish_reason in ("length", "max_tokens"):
            continue
        fenced = _FENCED.match(text)
        inside = fenced[1].strip() if fenced else text
        whole = fenced is not None and parsed(inside) is not None
        if not whole and inside[:1] not in ("{", "["):
            continue
        if not whole or _thrown_off(view, index):
            yield make_fault(view, span, text, "output", explicit=False, broken=True)


def _asked_for_json(span: Span) -> bool:
    return any(
        "JSON" in message.content and _BARE_JSON.search(message.content) is not None
        for message in span.messages_in
        if message.role in ("system", "developer")
    )


def _thrown_off(view: View, index: int) -> bool:
    """Whether the next steps before another model call tell of failed parsing."""
    for span in view.trace.spans[index + 1 : index + 4]:
        if span.kind == "llm":
            return False
        texts = [span.name, span.input.text[:300] if span.input else "",
                 span.output.text[:300] if span.output else ""]  # fmt: skip
        if any(_GAVE_UP.search(text) for text in texts):
            return True
    return False
