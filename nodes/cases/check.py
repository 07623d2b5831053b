"""What is wrong with a project's cases: files, copies, families, leaks, judges, soundness."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.errors import ConfigError
from contracts.gate import Case
from contracts.harness import HarnessSnapshot
from contracts.json_types import canonical_json
from memory.case_files import matching_files, read_entries
from memory.cases import fingerprint, read_case
from memory.workspace import Workspace
from nodes.casebook import Casebook, read_casebook
from nodes.cases.recorded import Checked as Recorded
from nodes.gate.leaks import leaked
from nodes.gate.outside import judge_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend, or to know. A sealed case is named by its fingerprint."""

    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Everything that was found."""

    cases: int
    problems: tuple[Problem, ...]
    """What makes a case prove nothing, or something wrong."""
    remarks: tuple[Problem, ...]


def file_problems(ws: Workspace) -> tuple[Problem, ...]:
    """Every entry that cannot be read, not the first alone."""
    found: list[Problem] = []
    places: dict[str, str] = {}
    try:
        files = matching_files(ws.root, ws.settings.cases)
    except ConfigError as error:
        return (_problem(error),)
    for path in files:
        name = path.relative_to(ws.root).as_posix()
        try:
            entries = read_entries(path, name)
        except ConfigError as error:
            found.append(_problem(error))
            continue
        for index, value in enumerate(entries):
            place = f"{name}[{index}]"
            try:
                case = read_case(value, place, name)
            except ConfigError as error:
                found.append(_problem(error))
                continue
            if case.id in places:
                what = f"{case.id!r} is taken by {places[case.id]}"
                found.append(Problem(where=f"{place}.id", what=what))
            places.setdefault(case.id, place)
    return tuple(found)


def _problem(error: ConfigError) -> Problem:
    where, _, what = str(error).partition(": ")
    return Problem(where=where, what=what)


def check_cases(
    ws: Workspace, harness: HarnessSnapshot, recorded: Recorded | None = None
) -> Checked:
    """Look at every case as it stands now. Runs no agent, writes nothing.

    Args:
        ws: the project.
        harness: as it is now; no sealed case may stand in it.
        recorded: the same cases held against recorded runs; None: that is left out.
    """
    broken = file_problems(ws)
    if broken:
        return Checked(cases=0, problems=broken, remarks=())
    book = read_casebook(ws)
    problems = [*_copies(book.cases), *_leaks(book, harness), *_judges(ws, book.cases)]
    remarks = [*_remarks(ws, book)]
    if recorded is not None:
        bad, said = _sound(recorded)
        problems += bad
        remarks += said
    return Checked(cases=len(book.cases), problems=tuple(problems), remarks=_grouped(remarks))


def _grouped(remarks: Sequence[Problem]) -> tuple[Problem, ...]:
    """What is said of many cases in one line, in the order in which it was said first."""
    by: dict[str, list[str]] = defaultdict(list)
    for one in remarks:
        by[one.what].append(one.where)
    return tuple(
        Problem(where=first if not more else f"{first} and {len(more)} more", what=what)
        for what, (first, *more) in by.items()
    )


def _name(case: Case) -> str:
    return f"sealed {fingerprint(case)[:12]}" if "sealed" in case.tags else case.id


def _copies(cases: Sequence[Case]) -> Iterator[Problem]:
    """One input under several ids counts once, and only one of its sets of assertions."""
    asked: dict[bytes, list[Case]] = defaultdict(list)
    for case in cases:
        asked[canonical_json(case.input)].append(case)
    for first, *others in asked.values():
        for other in others:
            same = fingerprint(first) == fingerprint(other)
            what = (
                f"the same case as {_name(first)}; take one out"
                if same
                else f"asks the same as {_name(first)}; put the assertions into one case"
            )
            yield Problem(where=_name(other), what=what)


def _leaks(book: Casebook, harness: HarnessSnapshot) -> Iterator[Problem]:
    """Sealed cases whose text the agent is told already: they pass whatever an edit does."""
    text = "\n".join(file.data.decode("utf-8", "replace") for file in harness.files.values())
    for case in leaked(book.tagged("sealed"), text):
        yield Problem(
            where=_name(case),
            what="its input stands in the harness, so it proves nothing; open it "
            f"(`tracemend cases list --open {fingerprint(case)[:12]}`) and seal another one",
        )


def _judges(ws: Workspace, cases: Sequence[Case]) -> Iterator[Problem]:
    for case in cases:
        for place, assertion in enumerate(case.assertions, start=1):
            if "judge" in assertion and judge_model(ws, assertion["judge"]) is None:
                what = f"judge (assertion {place}): no model; set gate.judge.model, or name one"
                yield Problem(where=_name(case), what=what)


def _remarks(ws: Workspace, book: Casebook) -> Iterator[Problem]:
    for note in book.notes:
        yield Problem(where="sealed set", what=note)
    for case in book.cases:
        if case.weak:
            what = "weak: an agent that does nothing could pass it; assert what it must do"
            yield Problem(where=_name(case), what=what)
    known = {case.id for case in book.cases}
    for key, names in (
        ("gate.exempt", [one.case for one in ws.settings.gate.exempt]),
        ("gate.quarantine", [one.case for one in ws.settings.gate.quarantine]),
    ):
        for name in names:
            if name not in known:
                yield Problem(where=key, what=f"{name!r} is no case")


def _sound(recorded: Recorded) -> tuple[list[Problem], list[Problem]]:
    """(what recorded runs say against the cases, what they could not decide)."""
    bad: list[Problem] = []
    said: list[Problem] = []
    for one in recorded.cases:
        where = _name(one.case)
        bad += [Problem(where=where, what=why) for _, why in one.refused]
        if one.why_not is not None:
            bad.append(Problem(where=where, what=one.why_not))
        said += [Problem(where=where, what=what) for what in one.said]
    if recorded.read.status == "partial":
        why = f"the window was read in part: {recorded.read.why or 'no reason is known'}"
        said.append(Problem(where="traces", what=why))
    return bad, said
