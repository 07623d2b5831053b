"""Rules that say what probably causes a finding, where a fix belongs, and what would refute it."""

from configs.taxonomy import taxonomy
from contracts.findings import Diagnosis
from nodes.insights.diagnosis import endings, haste, silent, tools
from nodes.insights.diagnosis.made import Rule, made
from nodes.insights.diagnosis.observed import with_observed
from nodes.insights.facts import Facts


def diagnose(facts: Facts) -> Diagnosis:
    """The first rule of the kind that holds; the kind's default cause where none does.

    What runs that work do is added as parameters, for edits.
    """
    for rule in _RULES.get(facts.kind, ()):
        found = rule(facts)
        if found is not None:
            return with_observed(found, facts)
    return with_observed(_default(facts), facts)


def _default(facts: Facts) -> Diagnosis:
    known = taxonomy().kinds.get(facts.kind)
    cause = known.cause if known else "tool_failure"
    summary, falsifier = _DEFAULTS.get(
        cause,
        ("{place} fails: {cause}.", "A run in which {place} works under the same conditions."),
    )
    words = {
        "place": facts.place,
        "cause": cause.replace("_", " "),
        "code": facts.code or "an error",
    }
    return made(
        cause, 0.5, summary.format(**words), falsifier.format(**words),
        {"tool": facts.place, "status": facts.code or None},
    )  # fmt: skip


_DEFAULTS = {
    "exception_in_code": (
        "{place} raises {code}; the program has to be changed, not the text.",
        "The exception goes away under other instructions with the same code.",
    ),
    "empty_answer": (
        "The run ends without words for the one who asked.",
        "The answer reached the user by a way that the traces do not show.",
    ),
    "swallowed_error": (
        "{place} gives back an error as if it were a result: the program caught it and went on.",
        "What {place} gives back is the text of somebody else's error that was asked for.",
    ),
    "invented_result": (
        "The model at {place} writes a tool's result itself: the call lacks the stop sequence, or"
        " its tools are not offered as such.",
        "The result stands in the messages that the call was given.",
    ),
    "judged_bad": (
        "{place} judges these runs as failures; why is in its comments, not in the traces.",
        "The same runs are judged well when {place} judges again.",
    ),
    "no_consent": (
        "{place} is called before the person said yes, which the instructions ask for.",
        "The yes was given in a way that the traces do not show.",
    ),
    "false_report": (
        "{place} reports something as done, and no tool that could do it was called.",
        "It was done by a tool or a person that the traces do not show.",
    ),
    "unknown_tool": (
        "The model calls {place}, a tool that does not exist.",
        "A run in which {place} is offered to the model.",
    ),
}

_RULES: dict[str, tuple[Rule, ...]] = {
    "tool_timeout": (tools.timeout,),
    "rate_limit": (haste.retry_storm, haste.hasty_model, haste.too_many),
    "auth": (tools.access,),
    "invented_tool": (tools.no_such_tool,),
    "tool_error": (
        tools.argument, tools.prerequisite, tools.setting, tools.missing_resource, tools.tool,
    ),
    "malformed_output": (endings.malformed,),
    "unfinished": (endings.unfinished,),
    "context_overflow": (endings.overflow,),
    "repeated_call": (silent.loop,),
    "unsupported_claim": (silent.claim,),
    "contradicted_output": (silent.contradiction,),
    "lost_context": (silent.lost,),
    "handoff_error": (silent.handoff,),
    "ignored_instruction": (silent.ignored_rule,),
}  # fmt: skip
