"""Cases as items of a dataset, and back. Pure.

Our own items carry the whole case under the metadata key `tracemend`. Of an item that others made,
the expected output becomes the assertion: what is short or a structure has to be equal, a sentence
has to be contained, and a longer text is refused, since no second run repeats it word for word.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from connectors.traces.redact import redact_json
from contracts.datasets import DatasetItem
from contracts.gate import Case, CaseId, CaseTag
from contracts.json_types import Json, JsonObject, canonical_json
from memory.assertions import assertion_problem, is_number, is_weak
from memory.cases import case_id, fingerprint

OURS: Final = "tracemend"
"""Key of an item's metadata that holds the case."""
TRAINING: Final[frozenset[CaseTag]] = frozenset({"training"})
WORD: Final = 40
"""Characters of a single word that an answer has to equal."""
SENTENCE: Final = 300
"""Characters of a text that an answer can be asked to contain."""
STRUCTURE: Final = 2_000
"""Bytes of a structure that an answer has to equal."""
_TAGS: Final[Collection[str]] = get_args(CaseTag)
_LONGEST_NAME: Final = 120
DRAWN: Final = "fam-"
_MOST: Final = 50
"""Assertions of one item."""


class Unusable(ValueError):
    """An item is no case; `str(error)` is why, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What the items of a dataset came to."""

    cases: tuple[Case, ...]
    """In the order of the dataset; of two with one id the first."""
    refused: tuple[tuple[str, str], ...]
    """(id of an item, why it is no case)."""
    changed: tuple[CaseId, ...]
    """Cases of ours that were changed there since they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What of some cases may leave, masked."""

    items: tuple[DatasetItem, ...]
    sealed: int
    """Sealed cases that were held back."""
    masked: int
    """Items in which something secret or personal was masked; they are not quite the case."""


def cases_of(
    items: Iterable[DatasetItem], address: str, *, tags: frozenset[CaseTag] | None = None
) -> Imported:
    """The items of a dataset as cases.

    Args:
        items: as they were read.
        address: of the dataset, such as `langfuse:regressions`; goes into `Case.origin`.
        tags: what all of them are for; None: what they say themselves, else `training`.
    """
    cases: dict[CaseId, Case] = {}
    refused: list[tuple[str, str]] = []
    changed: list[CaseId] = []
    for item in items:
        try:
            case = case_of(item, address, tags=tags)
        except Unusable as why:
            refused.append((item.id, str(why)))
            continue
        if case.id in cases:
            if fingerprint(cases[case.id]) != fingerprint(case):
                refused.append((item.id, f"another item is the case {case.id} too"))
            continue
        cases[case.id] = case
        if _changed(item, case):
            changed.append(case.id)
    return Imported(cases=tuple(cases.values()), refused=tuple(refused), changed=tuple(changed))


def _changed(item: DatasetItem, case: Case) -> bool:
    ours = item.metadata.get(OURS)
    said = ours.get("fingerprint") if isinstance(ours, Mapping) else None
    return said is not None and said != fingerprint(case)


def case_of(item: DatasetItem, address: str, *, tags: frozenset[CaseTag] | None = None) -> Case:
    """One item as a case. Its family is left open.

    Raises:
        Unusable: it asks nothing, expects nothing that could be checked, or says what it may not.
    """
    if item.input is None or item.input in ("", {}, []):
        raise Unusable("it has no input")
    ours = item.metadata.get(OURS)
    said: Mapping[str, Json] = ours if isinstance(ours, Mapping) else {}
    assertions = _assertions(said["assert"]) if "assert" in said else (_expected(item.expected),)
    trace = f"trace:{item.source_trace}" if item.source_trace else ""
    return Case(
        id=CaseId(_name(said, "id") or case_id(item.input)),
        input=item.input,
        assertions=assertions,
        tags=_tags(said.get("tags")) if tags is None else tags,
        family=_family(said),
        origin=trace or f"dataset:{address}",
        weak=is_weak(assertions),
        issue=_name(said, "issue") or None,
    )


def items_of(cases: Iterable[Case], *, sealed: bool = False) -> Exported:
    """The cases as items, each with its id, masked by the project's rules for secrets.

    Sealed ones are held back unless `sealed`: whoever reads the dataset may draft edits.
    """
    items: list[DatasetItem] = []
    held = masked = 0
    for case in cases:
        if "sealed" in case.tags and not sealed:
            held += 1
            continue
        item = item_of(case)
        masked += (item.input, item.metadata[OURS]) != (case.input, _whole(case))
        items.append(item)
    return Exported(items=tuple(items), sealed=held, masked=masked)


def item_of(case: Case) -> DatasetItem:
    """One case as an item, masked."""
    whole = redact_json(_whole(case))
    kind, _, name = case.origin.partition(":")
    return DatasetItem(
        id=case.id,
        input=redact_json(case.input),
        expected=redact_json(_told(case.assertions)),
        metadata={OURS: whole},
        source_trace=name if kind == "trace" and name else None,
    )


def _whole(case: Case) -> dict[str, Json]:
    """What of a case an item has no place for."""
    whole: dict[str, Json] = {
        "id": case.id,
        "tags": sorted(case.tags),
        "assert": [dict(one) for one in case.assertions],
        "fingerprint": fingerprint(case),
    }
    if case.family:
        whole["family"] = case.family
    if case.issue is not None:
        whole["issue"] = case.issue
    return whole


def _told(assertions: Sequence[JsonObject]) -> Json:
    """An expected output for people and other tools, where one assertion says what it is."""
    for kind in ("equals", "contains"):
        values = [one[kind] for one in assertions if kind in one]
        if len(values) == 1:
            return values[0]
    return None


def _expected(expected: Json) -> JsonObject:
    """The assertion that an expected output makes.

    Raises:
        Unusable: nothing that a second run could be held to.
    """
    if expected is None or expected in ("", {}, []):
        raise Unusable("it has no expected output, so nothing could fail; give it assertions")
    if is_number(expected):
        return {"number": expected}
    only = _only_text(expected)
    if only is None:
        return _structure(expected)
    text = only.strip()
    if not text:
        raise Unusable("its expected output is blank; give it assertions")
    if len(text) <= WORD and len(text.split()) == 1:
        return {"equals": expected}
    if len(text) <= SENTENCE and "\n" not in text:
        return {"contains": text}
    raise Unusable(
        f"its expected output is a text of {len(text)} characters, which no second run repeats;"
        " give it assertions, such as `contains` or `judge`"
    )


def _structure(expected: Json) -> JsonObject:
    size = len(canonical_json(expected))
    if size > STRUCTURE or _longest(expected) > SENTENCE:
        raise Unusable(
            f"its expected output is a structure of {size} bytes with whole texts in it, which no"
            " second run repeats; give it assertions, such as `json_schema`"
        )
    return {"equals": expected}


def _only_text(expected: Json) -> str | None:
    """The only text of an output: itself, or the only entry of an object."""
    if isinstance(expected, str):
        return expected
    if isinstance(expected, Mapping) and len(expected) == 1:
        only = next(iter(expected.values()))
        return only if isinstance(only, str) else None
    return None


def _longest(value: Json) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return max((_longest(one) for one in value.values()), default=0)
    if isinstance(value, Sequence):
        return max(map(_longest, value), default=0)
    return 0


def _assertions(value: Json) -> tuple[JsonObject, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Unusable("its `assert` is no list of assertions")
    if len(value) > _MOST:
        raise Unusable(f"it has {len(value)} assertions, at most {_MOST} are taken")
    for one in value:
        if isinstance(one, Mapping) and "python" in one:
            # Whoever can write to the dataset would name the code that runs here.
            raise Unusable("a `python` assertion is taken from files only; write it there")
        problem = assertion_problem(one)
        if problem is not None:
            raise Unusable(f"one of its assertions {problem}")
    return tuple(cast("Sequence[JsonObject]", value))


def _tags(value: Json) -> frozenset[CaseTag]:
    said = [one for one in value if one in _TAGS] if isinstance(value, list | tuple) else []
    return frozenset(cast("list[CaseTag]", said)) or TRAINING


def _family(said: Mapping[str, Json]) -> str:
    """A family that a person named; one that was drawn is drawn anew, over the cases here."""
    name = _name(said, "family")
    return "" if name.startswith(DRAWN) else name


def _name(said: Mapping[str, Json], key: str) -> str:
    name = said.get(key)
    good = isinstance(name, str) and name.strip() and len(name) <= _LONGEST_NAME
    return str(name) if good and str(name).isprintable() else ""
