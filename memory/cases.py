"""The operator's cases: read from files, grouped into families, sealed ones kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast, get_args

from contracts.errors import ConfigError
from contracts.gate import Case, CaseId, CaseTag
from contracts.json_types import Json, JsonObject, canonical_json, content_id, sha256_hex
from memory.assertions import assertion_problem, is_weak, unknown_key
from memory.case_files import matching_files, read_entries
from memory.families import assign_families, family_key

__all__ = [
    "Placed", "assign_families", "case_id", "family_key", "fingerprint", "keep_apart",
    "load_cases", "placed_cases", "read_case", "read_cases",
]  # fmt: skip

_KEYS: Final = ("id", "input", "tags", "family", "assert", "issue")
_TAGS: Final[tuple[str, ...]] = get_args(CaseTag)
_DEFAULT_TAG: Final[CaseTag] = "training"
_DEEPEST: Final = 100  # levels of an input; what is deeper was not written by hand
_EDITORS_SEE: Final[frozenset[CaseTag]] = frozenset({"target", "training"})


def case_id(case_input: Json) -> CaseId:
    """The id of a case that carries none: made of its canonical input."""
    return CaseId(content_id("c-", canonical_json(case_input).decode("utf-8", "surrogatepass")))


def fingerprint(case: Case) -> str:
    """SHA-256 of what the case asks and asserts; its id, tags and family may change."""
    value: Json = {"input": case.input, "assert": list(case.assertions)}
    return sha256_hex(canonical_json(value))


def load_cases(root: Path, patterns: Sequence[str]) -> tuple[Case, ...]:
    """All cases of the files that match, by file name and place, each with its family.

    Raises:
        ConfigError: a file cannot be read, a key is unknown, or an id is taken twice.
    """
    return assign_families(read_cases(root, patterns))


def read_cases(root: Path, patterns: Sequence[str]) -> tuple[Case, ...]:
    """The same without families but those that a file names; for who draws them over more cases.

    Raises:
        ConfigError: as `load_cases`.
    """
    return tuple(one.case for one in placed_cases(root, patterns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A case and where it is written."""

    case: Case
    path: Path
    index: int
    """Place in its file, from 0."""


def placed_cases(root: Path, patterns: Sequence[str]) -> tuple[Placed, ...]:
    """What `read_cases` reads, each with its place.

    Raises:
        ConfigError: as `load_cases`.
    """
    found: list[Placed] = []
    places: dict[CaseId, str] = {}
    for path in matching_files(root, patterns):
        name = path.relative_to(root).as_posix()
        for index, value in enumerate(read_entries(path, name)):
            case = read_case(value, f"{name}[{index}]", name)
            if case.id in places:
                raise ConfigError(f"{name}[{index}].id: {case.id!r} is taken by {places[case.id]}")
            places[case.id] = f"{name}[{index}]"
            found.append(Placed(case=case, path=path, index=index))
    return tuple(found)


def read_case(value: object, place: str, name: str) -> Case:
    """One entry of a case file. Its family is empty unless the entry names one.

    Args:
        value: as the parser made it.
        place: how messages call the entry, such as `cases/a.yaml[3]`.
        name: of the file, for the case's origin.

    Raises:
        ConfigError: a key is unknown or absent, or a value is not what it must be.
    """
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: needs an object with `input` and `assert`")
    for key in value:
        if key not in _KEYS:
            raise ConfigError(f"{place}: {unknown_key(str(key), _KEYS)}")
    for key in ("input", "assert"):
        if key not in value:
            raise ConfigError(f"{place}.{key}: missing")
    case_input = _json(value["input"], f"{place}.input")
    assertions = _assertions(value["assert"], f"{place}.assert")
    return Case(
        id=CaseId(_name(value, "id", place) or case_id(case_input)),
        input=case_input,
        assertions=assertions,
        tags=_tags(value.get("tags"), f"{place}.tags"),
        family=_name(value, "family", place),
        origin=f"file:{name}",
        weak=is_weak(assertions),
        issue=_name(value, "issue", place) or None,
    )


def _json(value: object, place: str, depth: int = 0) -> Json:
    """YAML knows more than JSON: dates, sets, keys that are no text, numbers that are none."""
    if depth > _DEEPEST:
        raise ConfigError(f"{place.partition('[0][0]')[0]}: nested too deeply")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{place}: key {key!r} is not a text; put it in quotes")
        return {key: _json(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item, f"{place}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):  # noqa: PLR0124  # NaN
        raise ConfigError(f"{place}: {value!r} is not a JSON number")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"{place}: {type(value).__name__} is not a JSON value; put it in quotes")


def _assertions(value: object, place: str) -> tuple[JsonObject, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{place}: needs a list with at least one assertion")
    for index, item in enumerate(value):
        problem = assertion_problem(_json(item, f"{place}[{index}]"))
        if problem is not None:
            raise ConfigError(f"{place}[{index}]: {problem}")
    return tuple(cast("JsonObject", item) for item in value)


def _tags(value: object, place: str) -> frozenset[CaseTag]:
    if value is None:
        return frozenset({_DEFAULT_TAG})
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{place}: needs a list of tags out of {', '.join(_TAGS)}")
    for tag in value:
        if tag not in _TAGS:
            raise ConfigError(f"{place}: {unknown_key(str(tag), _TAGS)}")
    return frozenset(cast("list[CaseTag]", value))


def _name(value: Mapping[str, object], key: str, place: str) -> str:
    name = value.get(key)
    if name is None:
        return ""
    if not isinstance(name, str) or not name.strip() or len(name) > 120:
        raise ConfigError(f"{place}.{key}: needs a text of 1 to 120 characters, got {name!r}")
    return name


def keep_apart(cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Retire every sealed case whose family the editor sees; the cases, and a note for each.

    A family with a target or training case has leaked: its sealed siblings become training cases.
    """
    seen: dict[str, CaseId] = {}
    for case in cases:
        if case.tags & _EDITORS_SEE:
            seen.setdefault(case.family, case.id)
    kept, notes = [], []
    for case in cases:
        sibling = seen.get(case.family)
        if "sealed" not in case.tags or sibling is None:
            kept.append(case)
            continue
        kept.append(replace(case, tags=(case.tags - {"sealed"}) | {_DEFAULT_TAG}))
        why = "it is itself" if sibling == case.id else f"its near duplicate {sibling} is"
        notes.append(f"{case.id} is no longer sealed: {why} a target or training case")
    return tuple(kept), tuple(notes)
