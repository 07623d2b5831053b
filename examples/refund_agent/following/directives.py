"""The rules that the offline model takes from its system text.

The grammar, in words. Everything else is ignored.

- Retry: a sentence that says to do the same call again ("call it again", "retry", "repeat the
  call", "make up to three more attempts"), with an optional tool, status ("504", "5xx", "times
  out", "rate limit") and count ("twice", "at most 3 times", "four attempts in total"). Without a
  count: once. A negated one forbids. What is not named is taken from the sentence, list or
  heading before; with nothing there it means any tool and any failure.
- Before: two tools and an order ("A before B", "B only after A", "for B, call A first").
- Fallback: a failure and a tool to call in its place ("if it still fails, queue it instead").
- Id format: a parameter of a tool ("order_id", "order ids") and an example or a pattern of how it
  has to be written.
- Forbid: "never call tools", "do not use X", without a condition.

A rule about one tool beats a rule about any tool; else the later one wins, except that a retry
without a count does not undo one with a count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from examples.refund_agent.following.id_format import IdFormat, read_formats
from examples.refund_agent.following.prose import Lexicon, Sentence, sentences
from examples.refund_agent.following.retry import Retry, read_count, read_retries
from examples.refund_agent.following.sequence import (
    Before,
    Fallback,
    Forbid,
    read_befores,
    read_fallbacks,
    read_forbidden,
)


@dataclass(frozen=True, slots=True)
class Directives:
    """All rules of one system text, in reading order."""

    retries: tuple[Retry, ...] = ()
    befores: tuple[Before, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    formats: tuple[IdFormat, ...] = ()
    forbidden: tuple[Forbid, ...] = ()

    def retries_of(self, tool: str, statuses: frozenset[int]) -> int:
        """How often a call of the tool that failed with these statuses is repeated."""
        for own in (tool, None):
            best: Retry | None = None
            for rule in self.retries:
                if rule.tool == own and rule.covers(tool, statuses):
                    best = rule if best is None or rule.counted or not best.counted else best
            if best is not None:
                return best.times
        return 0

    def before(self, tool: str) -> tuple[str, ...]:
        """Tools that have to be tried before this one."""
        return tuple(dict.fromkeys(rule.first for rule in self.befores if rule.then == tool))

    def instead_of(self, tool: str) -> str | None:
        """The tool to call where this one failed for good."""
        for own in (tool, None):
            found = [r.instead for r in self.fallbacks if r.tool == own and r.instead != tool]
            if found:
                return found[-1]
        return None

    def write_id(self, parameter: str, given: str) -> str:
        """An id as the instructions want it, or as the customer wrote it."""
        rules = [rule for rule in self.formats if rule.parameter == parameter]
        return rules[-1].write(given) if rules else given

    def forbids(self, tool: str) -> bool:
        """Whether the tool may not be called."""
        return any(rule.tool in {None, tool} for rule in self.forbidden)


def read_directives(text: str, tools: Sequence[str], parameters: Sequence[str]) -> Directives:
    """The rules in a system text for an agent with these tools and tool parameters."""
    lexicon = Lexicon(tools)
    retries: list[Retry] = []
    befores: list[Before] = []
    fallbacks: list[Fallback] = []
    formats: list[IdFormat] = []
    forbidden: list[Forbid] = []
    for sentence in sentences(text):
        _add_retries(retries, sentence, lexicon)
        handed_over = read_fallbacks(sentence, lexicon)
        fallbacks += handed_over
        if not handed_over:
            befores += read_befores(sentence, lexicon)
        formats += read_formats(sentence, parameters)
        forbidden += read_forbidden(sentence, lexicon)
    return Directives(
        tuple(retries), tuple(befores), tuple(fallbacks), tuple(formats), tuple(forbidden)
    )


def _add_retries(rules: list[Retry], sentence: Sentence, lexicon: Lexicon) -> None:
    """Add the rules of a sentence, or let it give the number that the last one left open."""
    new = read_retries(sentence, lexicon)
    if new:
        rules += new
        return
    times = read_count(sentence)
    if times is not None and rules and not rules[-1].counted:
        rules[-1] = replace(rules[-1], times=times, counted=True)
