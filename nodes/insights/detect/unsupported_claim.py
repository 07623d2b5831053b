"""The answer reports what the failed step would have given.

Meaning: a tool failed and did not work later, and the final answer says, without a word of the
failure, that its work was done, or gives figures although every tool of the run failed, or gave
nothing but the stack traces of the code that it ran.
Evidence: the sentence of the answer, what the tool said, and whether the instructions already ask
to report failures. A claim is tied to the failed call by what its name calls (`post_message`:
"posted") or by names and ids of its arguments, and not where another call that worked fits as well.
Known limits: an answer that admits any trouble is believed; ties by verbs work in English; a claim
about a tool that was never called is `claimed_without_call`.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect import claims, shell, words
from nodes.insights.detect.final import Final, final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.system_text import about_reporting, asked_for
from nodes.insights.detect.view import ToolCall, View

KIND = "unsupported_claim"
FAILURES = frozenset(
    {"tool_error", "tool_timeout", "rate_limit", "auth", "malformed_output", "invented_tool"}
)
_FIGURE = re.compile(r"(?<![\w.,#-])\d[\d.,]*\d|(?<![\w.,#-])\d(?![\w.,-])")
_YES_NO = re.compile(
    r"\A\W{0,4}(?:yes|no|ja|nein|oui|non|s\u00ed)\b(?=\s*[,.;:!\u2013-])", re.IGNORECASE
)
QUOTE = 160
MIN_WORDS = 3
READ = 4_000  # characters of an output that are looked at
MAX_FAILED = 8  # signatures of failures that are compared with the answer, last first
MAX_WORKED = 100  # calls that worked, last first
MAX_FIGURES = 40


def unsupported_claim(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit a trace: the first failed tool whose success the answer claims."""
    failed = [s for s in symptoms if s.kind in FAILURES]
    broken = None if failed else _only_code(view)
    if not failed and broken is None:
        return
    final = final_of(view)
    if final is None or claims.admits(final.text) or _mere_status(final):
        return
    if broken is not None:
        sentence = _figures(view, final)
        if sentence is not None:
            yield _hit(final, broken, _last_line(broken.answer.text), sentence)
        return
    seen: set[str] = set()
    for symptom in reversed(failed):
        if symptom.signature in seen or len(seen) >= MAX_FAILED:
            continue
        seen.add(symptom.signature)
        call = view.calls.get(symptom.span_id)
        if call is None or (symptom.recovered and not _shell_still_failed(view, call)):
            continue
        sentence = _claim(view, final, call)
        if sentence is not None:
            yield _hit(final, call, symptom.evidence.quote, sentence)
            return


def _only_code(view: View) -> ToolCall | None:
    """The last run of code, where no tool of the run gave anything but a stack trace of its code.

    A stack trace may be what was asked for, so that such a call is no failure by itself.
    """
    calls = [call for call in view.calls.values() if call.span.output is not None]
    if not calls or not all(shell.command_of(c.arguments) and _raised(c) for c in calls):
        return None
    return calls[-1]


def _raised(call: ToolCall) -> bool:
    text = call.answer.text
    return "Traceback (most recent call last)" in text[:READ] and (
        words.error_class(_last_line(text)) is not None
    )


def _last_line(text: str) -> str:
    return text.strip()[-READ:].rpartition("\n")[2]


def _mere_status(final: Final) -> bool:
    """Whether it is a word that the program gives back, such as `done`, and nobody said it."""
    return final.span.kind != "llm" and len(final.text.split()) < MIN_WORDS


def _hit(final: Final, call: ToolCall, failure: str, sentence: str) -> Hit:
    asked = asked_for(final.span, about_reporting) if final.span.kind == "llm" else None
    facts = {"tool": call.tool, "claim": sentence[:QUOTE], "failure": failure}
    return Hit(
        kind=KIND,
        span=final.span,
        message=f'"{sentence[:QUOTE]}" is said after {call.tool} failed: {failure}',
        field="output",
        start=max(0, final.text.find(sentence[:40])),
        place=call.tool,
        template="claims what a failed tool would have given",
        shown_at=None,
        facts=facts | ({"rule": asked.text, "rule_line": asked.line} if asked else {}),
    )


def _claim(view: View, final: Final, failed: ToolCall) -> str | None:
    """The sentence that claims what the failed call was for."""
    worked = [
        call
        for call in view.calls.values()
        if call.span.id not in view.failed and call.span.output is not None
    ]
    others = [(call.tool, _names(call)) for call in worked[-MAX_WORKED:]]
    answer = claims.tokens(final.text)
    mine = _names(failed)
    best: tuple[int, str] = (0, "")
    for sentence in claims.sentences(final.text):
        said = claims.tokens(sentence)
        tie = _tie(sentence, said, answer, failed.tool, mine)
        if tie <= best[0]:
            continue
        other = (_tie(sentence, said, answer, tool, names) for tool, names in others)
        if tie > max(other, default=0):
            best = (tie, sentence)
    return best[1] or (None if worked else _invented(view, final))


def _tie(
    sentence: str, said: frozenset[str], answer: frozenset[str], tool: str, names: frozenset[str]
) -> int:
    """How much of a call the sentence claims as done; 0: nothing."""
    shared = len(names & said)
    if claims.writes(tool) and claims.says_past_of(sentence, tool):
        return 2 + shared
    if not claims.says_done(sentence):
        return 0
    return shared or (1 if names & answer else 0)


def _names(call: ToolCall) -> frozenset[str]:
    """Words of the call that a claim about it would use: ids, files, and parts of its name."""
    values = claims.argument_tokens((call.arguments or {}).values())
    marked = {t for t in values if any(c.isdigit() or c in "._-#" for c in t) or len(t) >= 6}
    return frozenset(marked) | frozenset(p for p in claims.name_parts(call.tool) if len(p) >= 4)


def _invented(view: View, final: Final) -> str | None:
    """Where no tool worked: a sentence with figures that nobody gave, a yes or no, or "done"."""
    for sentence in claims.sentences(final.text):
        if claims.says_done(sentence) or _YES_NO.match(sentence):
            return sentence
    return _figures(view, final)


def _figures(view: View, final: Final) -> str | None:
    """A sentence with figures none of which the run was told."""
    told = _told(view, final)
    looked = 0
    for sentence in claims.sentences(final.text):
        figures = {match[0].rstrip(".,") for match in _FIGURE.finditer(sentence)}
        looked += len(figures)
        if looked > MAX_FIGURES:
            return None
        if figures and not any(figure in told for figure in figures):
            return sentence
    return None


def _told(view: View, final: Final) -> str:
    """Everything that the run was told before it answered."""
    texts = [view.trace.root.input.text if view.trace.root.input else ""]
    texts += [message.content for message in final.span.messages_in]
    return "\n".join(texts)


def _shell_still_failed(view: View, call: ToolCall) -> bool:
    """Of a shell, whether nothing like the failed command worked later."""
    command = shell.command_of(call.arguments)
    if command is None:
        return False
    wanted = claims.tokens(command)
    later = (
        shell.command_of(other.arguments) or ""
        for other in view.calls.values()
        if other.span.started_at > call.span.started_at and other.span.id not in view.failed
    )
    return bool(wanted) and not any(
        len(wanted & claims.tokens(one)) * 2 >= len(wanted) for one in later
    )
