"""Files of cases as plain values: YAML lists and JSON lines, read so that nothing is mistaken."""

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from contracts.errors import ConfigError

if TYPE_CHECKING:
    from yaml import SafeLoader

    PlainLoader = SafeLoader
else:  # libyaml reads ten thousand cases in a quarter of the time, where PyYAML was built with it
    PlainLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PLAIN_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_MOST_VALUES = 10_000_000  # of a file whose aliases are written out
_TRUTH = frozenset({"true", "false"})


def matching_files(root: Path, patterns: Sequence[str]) -> list[Path]:
    """The files that `cases:` names, sorted.

    Raises:
        ConfigError: a pattern leads out of the project's folder.
    """
    found: set[Path] = set()
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ConfigError(f"cases: {pattern!r} must stay inside the project's folder")
        found.update(path for path in root.glob(pattern) if path.is_file())
    return sorted(found)


def read_entries(path: Path, name: str) -> Sequence[object]:
    """The entries of one file, as the parser made them; `name` is how messages call it.

    Raises:
        ConfigError: it cannot be read, or says something else than it seems to.
    """
    return parse_entries(read_text(path, name), name)


def read_text(path: Path, name: str) -> str:
    """The text of a file of cases, its line ends as they are; a byte order mark is left out.

    Raises:
        ConfigError: it is no UTF-8 text, or cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read as UTF-8 text: {error}") from error


def parse_entries(text: str, name: str) -> Sequence[object]:
    """The entries of a file's text; the name's ending says whether it is JSON lines or YAML.

    Raises:
        ConfigError: it is neither, or says something else than it seems to.
    """
    try:
        if name.endswith(".jsonl"):
            return list(_json_lines(text, name))
        value = _yaml(text, name)
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply, or an alias that holds itself") from error
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError(f"{name}: needs a list of cases, got {type(value).__name__}")
    return value


def _json_lines(text: str, name: str) -> Iterator[object]:
    # Not splitlines(): a JSON text may hold U+2028 and its like as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line, object_pairs_hook=_once)
            except ValueError as error:
                raise ConfigError(f"{name}:{number}: not JSON: {error}") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object none of whose keys is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} is there twice")
    return found


def _yaml(text: str, name: str) -> object:
    try:
        # Only the plain types of the safe loader, some of them refused.
        value = yaml.load(text, Loader=_Strict)  # noqa: S506  # a safe loader
    except _Mistaken as error:
        raise ConfigError(f"{name}:{error.line}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise ConfigError(f"{name}{line}: not YAML") from error
    if "*" in text and _weight(value, {}) > _MOST_VALUES:
        raise ConfigError(f"{name}: its aliases stand for more than {_MOST_VALUES} values")
    return value


def _weight(value: object, known: dict[int, int]) -> int:
    """How many values this is with every alias written out; each is looked at once."""
    if not isinstance(value, list | dict):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_weight(one, known) for one in inner)
    return known[id(value)]


class _Mistaken(Exception):
    """A value that YAML reads as something else than it looks like."""

    def __init__(self, node: yaml.Node, sentence: str) -> None:
        super().__init__(sentence)
        self.line = node.start_mark.line + 1


class _Strict(PlainLoader):
    """YAML without its traps: `no` is no text, `12:30` no time, `010` not ten, a date no date."""


def _bool(loader: PlainLoader, node: yaml.ScalarNode) -> bool:
    value = loader.construct_yaml_bool(node)
    if node.value.lower() not in _TRUTH:
        said = "true" if value else "false"
        raise _Mistaken(
            node, f"YAML reads {node.value!r} as {said}: put it in quotes, or write `{said}`"
        )
    return bool(value)


def _int(loader: PlainLoader, node: yaml.ScalarNode) -> int:
    value = int(loader.construct_yaml_int(node))
    if not _PLAIN_INT.fullmatch(node.value):
        raise _Mistaken(
            node, f"YAML reads {node.value!r} as the number {value}: put it in quotes"
        )  # fmt: skip
    return value


def _float(loader: PlainLoader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_yaml_float(node))
    if ":" in node.value or "_" in node.value:
        raise _Mistaken(
            node, f"YAML reads {node.value!r} as the number {value}: put it in quotes"
        )  # fmt: skip
    return value


def _date(loader: PlainLoader, node: yaml.ScalarNode) -> object:
    del loader
    raise _Mistaken(node, f"YAML reads {node.value!r} as a date: put it in quotes")


def _mapping(loader: PlainLoader, node: yaml.MappingNode) -> Iterator[dict[Hashable, object]]:
    seen: set[object] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if (key.tag, key.value) in seen:
                raise _Mistaken(key, f"key {key.value!r} is there twice")
            seen.add((key.tag, key.value))
    made: dict[Hashable, object] = {}
    yield made
    made.update(loader.construct_mapping(node))


_KINDS: Final = "tag:yaml.org,2002:"
_Strict.add_constructor(f"{_KINDS}bool", _bool)
_Strict.add_constructor(f"{_KINDS}int", _int)
_Strict.add_constructor(f"{_KINDS}float", _float)
_Strict.add_constructor(f"{_KINDS}timestamp", _date)
_Strict.add_constructor(f"{_KINDS}map", _mapping)
