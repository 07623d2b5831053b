"""A figure that nothing in the run accounts for.

Meaning: an agent states an amount (money, a percentage, a number of three digits or more, or one
with decimals) that no instruction, message or tool's answer before it has, and that does not follow
from those by one step of arithmetic (`figures.py`). A hint: a model may know it.
Evidence: the figure with the words around it, at the model call that said it first.

What the agent itself said before counts as said: the figure is reported where it came up. Figures
in code and in a tool's arguments are taken as said, and not reported: they are inputs. A text that
links to its sources is taken to quote them: agents that browse show whole pages. Words with which a
run begins, before anybody was heard, are its task.

Known limits: figures that the model rightly knows (a year is left out, a population is not);
numbers in words; several steps of arithmetic; made-up examples; powers of ten, which are units as
often as amounts; runs whose earlier messages are not recorded.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.figures import Figure, Known, figures
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run, Turn
from nodes.insights.detect.view import View

KIND = "unsupported_numbers"
LEAST = 100
"""Smaller whole numbers are counts, steps and sizes, which everybody makes up rightly."""
YEARS = range(1500, 2101)
MAX_NAMED = 5
MAX_ASKED = 60  # figures of one answer that are asked about, the first
MAX_BESIDE = 100  # figures of one answer that may account for each other
_LINKED = "://"
_RULES = frozenset({"system", "developer"})
AROUND = 60


def unsupported_numbers(view: View, _found: Sequence[Symptom]) -> Iterator[Hit]:
    """Model calls that state such figures, each with the first of them as evidence."""
    seen: dict[str, list[Figure]] = {}
    for run in view.runs:
        yield from _in_run(run, seen)


def _in_run(run: Run, seen: dict[str, list[Figure]]) -> Iterator[Hit]:
    known = Known()
    for turn in run.turns:
        for message in turn.call.messages_in:
            known.add(message.content)
        said = turn.said
        if said not in seen:
            seen[said] = [] if _LINKED in said else list(figures(said))
        stated = seen[said]
        heard = any(message.role not in _RULES for message in turn.call.messages_in)
        strange = [figure for figure in stated if heard and _worth_asking(figure)]
        values = [figure.value for figure in stated[:MAX_BESIDE]]
        news = [
            figure
            for figure in strange[:MAX_ASKED]
            if not known.accounts_for(figure.value, _without(values, figure.value))
        ]
        if news:
            yield _hit(turn, news)
        known.add(said)
        for _, arguments in turn.asked:
            known.add(arguments)
        for call in turn.tools:
            known.add(call.answer.text)


def _hit(turn: Turn, news: Sequence[Figure]) -> Hit:
    first = news[0]
    around = turn.said[max(0, first.start - AROUND) : first.start + len(first.text) + AROUND]
    named = ", ".join(figure.text for figure in news[:MAX_NAMED])
    return Hit(
        kind=KIND,
        span=turn.call,
        message=f"{named}: {' '.join(around.split())}",
        field="output",
        start=first.start,
        template="figures that nothing before accounts for",
        facts={"figures": len(news)},
    )


def _worth_asking(figure: Figure) -> bool:
    whole = figure.value == int(figure.value)
    digits = f"{figure.value:.0f}" if whole else ""
    if digits.strip("0") == "1" or (whole and not figure.money and int(figure.value) in YEARS):
        return False
    return figure.money or figure.value >= LEAST or (not whole and figure.value * 10 % 1 != 0)


def _without(values: Sequence[float], one: float) -> list[float]:
    """The values less one of that value."""
    rest = list(values)
    if one in rest:
        rest.remove(one)
    return rest
