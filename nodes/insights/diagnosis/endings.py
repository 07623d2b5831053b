"""Causes of an answer that cannot be read, of an end that came too soon, and of a full window."""

from contracts.findings import Diagnosis
from nodes.insights.diagnosis.made import made
from nodes.insights.facts import Facts


def malformed(facts: Facts) -> Diagnosis:
    """A tool's output that does not parse, or a model's."""
    if facts.bad or any(call.tool == facts.place for s in facts.failing for call in s.calls):
        return made(
            "malformed_tool_output", 0.8,
            f"{facts.place} answers with what should be JSON and cannot be parsed.",
            f"The whole answer of {facts.place} parses, and only the record of it is cut.",
            {"tool": facts.place},
        )  # fmt: skip
    return made(
        "malformed_answer", 0.6,
        f"The model at {facts.place} does not keep to the output format that the host parses.",
        "The host parses the same text without complaint.",
        {"tool": facts.place},
    )  # fmt: skip


def unfinished(facts: Facts) -> Diagnosis:
    """No end, an end by the output limit, or by the limit on steps."""
    if facts.code == "unclosed":
        return made(
            "unfinished", 0.5,
            f"{facts.place} has no end: the process died, hung, or its last spans were lost.",
            "A late export that brings the missing end.",
            {"tool": facts.place},
        )  # fmt: skip
    if facts.code == "length":
        return made(
            "answer_cut_off", 0.7,
            f"The last answer at {facts.place} is cut off by the model's output limit.",
            "The same answer fits when the limit is higher, and is complete.",
            {"tool": facts.place},
        )  # fmt: skip
    return made(
        "step_limit", 0.6,
        f"{facts.place} uses up its steps before it is done.",
        "The same request succeeds with a slightly higher limit.",
        {"tool": facts.place},
    )  # fmt: skip


def overflow(facts: Facts) -> Diagnosis:
    """One answer of a tool that fills the window, or a history that grew over it."""
    window, asked = facts.number("window"), facts.number("asked")
    limits = (
        f" (window {window:,} tokens" + (f", asked for {asked:,})" if asked else ")")
        if window
        else ""
    )
    size, tokens = facts.number("bytes"), facts.number("tokens")
    before = facts.number("tokens_before")
    if size is None or tokens is None:
        return made(
            "context_overflow", 0.6,
            f"The history of {facts.place} grows over the model's window{limits}.",
            "A single message of the refused call makes up most of it.",
            {"place": facts.place, "window": window, "asked": asked},
        )  # fmt: skip
    grew = f"; the call before took {before:,} tokens" if before is not None else ""
    return made(
        "large_tool_answer", 0.85,
        f"One answer of {facts.place} has {size:,} bytes (about {tokens:,} tokens){grew}, and the"
        f" next model call is refused{limits}. Shortening older history does not help: the answer"
        " alone is too large.",
        f"The call fits when older messages are left out and {facts.place}'s answer stays whole.",
        {"tool": facts.place, "bytes": size, "tokens": tokens, "window": window},
    )  # fmt: skip
