"""Causes of failures that nothing marks: claims, lost rules, hand-overs, scores."""

from contracts.findings import Diagnosis
from contracts.json_types import Json
from nodes.insights.diagnosis.made import already, made
from nodes.insights.facts import Facts


def claim(facts: Facts) -> Diagnosis:
    """A claim after a failed tool, or about an empty part of the instructions."""
    if facts.code == "empty_slot":
        line = facts.number("slot_line")
        return made(
            "empty_slot", 0.75,
            f"The instructions of {facts.place} ask for something that was not filled in"
            f" (line {line}): an instruction that cannot be followed makes the model invent. Leave"
            " the sentence out, or say what to do, when there is nothing.",
            "The same made-up facts come where that part is filled in.",
            {"agent": facts.place, "line": line},
        )  # fmt: skip
    said, more = already(facts)
    return made(
        "unsupported_claim", 0.8,
        f"{facts.place} failed, and the answer reports its work as done, or what it would have"
        f" given, without a word of the failure.{said}",
        f"{facts.place} had its effect in spite of what it said.",
        {"tool": facts.place, **more},
    )  # fmt: skip


def contradiction(facts: Facts) -> Diagnosis:
    """The answer against the tool's last words."""
    field = facts.word("field")
    return made(
        "contradicted_output", 0.7,
        f"The last answer of {facts.place}{f' (`{field}`)' if field else ''} says one thing, and"
        " the final answer the opposite.",
        "A later step, not in the trace, made the answer true.",
        {"tool": facts.place, "field": field, "value": facts.word("value")},
    )  # fmt: skip


def lost(facts: Facts) -> Diagnosis:
    """A rule that went with the history."""
    before, after = facts.number("tokens_before"), facts.number("tokens_after")
    fell = f" (prompt tokens {before} to {after})" if before is not None else ""
    line = facts.number("rule_line")
    parameters: dict[str, Json] = {
        "place": facts.place, "line": line, "tokens_before": before, "tokens_after": after,
        "step": facts.word("step"), "already": f"line-{line}" if line is not None else None,
    }  # fmt: skip
    return made(
        "lost_context", 0.8,
        f"A rule (line {line} of what the agent was told) is absent from the messages of the"
        f" failing call: it went when the conversation was shortened{fell}. The rule itself is"
        " there, so that adding it to the same text again will not help; the shortening has to keep"
        " it.",
        "The rule stands in the messages of a call that breaks it.",
        parameters,
    )  # fmt: skip


def handoff(facts: Facts) -> Diagnosis:
    """Nobody's case, or an agent that never answers."""
    if facts.code == "no_answer":
        return made(
            "handoff_unanswered", 0.7,
            f"The conversation is handed over to {facts.place}, which never answers.",
            f"A run of {facts.place} after the hand-over, in another trace.",
            {"agent": facts.place},
        )  # fmt: skip
    number = facts.number("transfers")
    agents = facts.place.replace("-", " and ")
    return made(
        "handoff_without_owner", 0.8,
        f"{agents} hand the conversation to each other ({number} times) and nobody works on it:"
        " the instructions of each name the other for this case. Say in one of them whose it is.",
        "An agent got it, worked on it, and the trace does not show it.",
        {"agents": facts.place, "transfers": number},
    )  # fmt: skip


def ignored_rule(facts: Facts) -> Diagnosis:
    """A rule that is there and is not kept."""
    said, more = already(facts)
    return made(
        "ignored_instruction", 0.75,
        f"{facts.place} leaves out a fixed text that every answer must hold.{said}",
        "The text is added after the recorded answer.",
        {"place": facts.place, "line": facts.number("rule_line"), **more},
    )  # fmt: skip


def loop(facts: Facts) -> Diagnosis:
    """The same call again and again."""
    said, more = already(facts)
    return made(
        "repeated_call", 0.7 if facts.number("calls") else 0.5,
        f"The agent calls {facts.place} again with the same arguments and gets the same answer"
        f" each time.{said}",
        "The answers differ where the record does not show it.",
        {"tool": facts.place, "calls": facts.number("calls"), **more},
    )  # fmt: skip
