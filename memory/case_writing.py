"""Write into files of cases that people keep: only what is meant changes, every other byte stays.

Each function takes a file's text and gives the new one. It reads its own result back, and refuses
where that is not the old cases with exactly the change that was asked for.
"""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import yaml

from contracts.errors import ConfigError, UsageError
from contracts.gate import Case
from contracts.json_types import Json, JsonObject
from memory.case_files import PlainLoader, parse_entries

_HALVES = re.compile("[\ud800-\udfff]")  # no file of UTF-8 holds one
_OWN_ID = re.compile(r"c-[a-z0-9]{10}")
_MARK = "\ufeff"
# What YAML takes for a line break or refuses inside quotes, beside what JSON escapes already.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def entry_of(case: Case, *, named: bool = True) -> JsonObject:
    """A case as its file holds it. A family that was drawn is left out: it is drawn again.

    Args:
        case: what to write.
        named: whether its family is one that somebody named.
    """
    entry: dict[str, Json] = {
        "id": case.id, "input": case.input, "tags": [*sorted(case.tags)],
        "assert": [*case.assertions],
    }  # fmt: skip
    if named and case.family and not case.family.startswith("fam-"):
        entry["family"] = case.family
    if case.issue is not None:
        entry["issue"] = case.issue
    return entry


def appended(text: str, name: str, entries: Sequence[JsonObject]) -> str:
    """The text with these entries at its end.

    Raises:
        UsageError: the file is written so that none can be added without changing the rest.
        ConfigError: the file cannot be used as it is.
    """
    before = parse_entries(text.removeprefix(_MARK), name)
    if not entries:
        return text
    made = _more_lines(text, entries) if name.endswith(".jsonl") else _more_yaml(text, entries)
    _must_be(made, name, [*before, *entries])
    return made


def retagged(text: str, name: str, tags: Mapping[int, Collection[str]]) -> str:
    """The text with other tags for the entries at these places (from 0).

    Raises:
        UsageError: the file is written so that this would change more.
        ConfigError: the file cannot be used as it is.
    """
    expected: list[object] = []
    for place, entry in enumerate(parse_entries(text.removeprefix(_MARK), name)):
        changed = isinstance(entry, dict) and place in tags
        expected.append({**entry, "tags": sorted(tags[place])} if changed else entry)  # type: ignore[dict-item]  # a mapping, as checked
    made = _tag_lines(text, tags) if name.endswith(".jsonl") else _tag_yaml(text, tags)
    _must_be(made, name, expected)
    return made


def write_text(path: Path, before: bytes | None, text: str) -> None:
    """Put a file in its place in one step, if it is still what `before` says (None: not there).

    Raises:
        UsageError: somebody changed it in the meantime.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if before is not None else 0o644
    with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as to:
        part = Path(to.name)
        try:
            to.write(text.encode("utf-8"))
            to.flush()
            os.fsync(to.fileno())
            part.chmod(mode)
            now = target.read_bytes() if target.exists() else None
            if now != before:
                raise UsageError(f"{path.name}: somebody wrote it just now; run this again")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def _must_be(text: str, name: str, expected: Sequence[object]) -> None:
    try:
        found = parse_entries(text.removeprefix(_MARK), name)
    except ConfigError:
        found = None
    if found is None or _said(found) != _said(expected):
        raise UsageError(
            f"{name}: written in a way that this cannot change safely; edit it by hand, or name "
            "another file with --file"
        )


def _said(values: Sequence[object]) -> str:
    """Texts that differ where values do: `==` takes true for 1."""
    return json.dumps(list(values), sort_keys=True, default=repr)


def _more_lines(text: str, entries: Sequence[JsonObject]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    lines = "".join(_line(entry) + end for entry in entries)
    return text + ("" if not text or text.endswith("\n") else end) + lines


def _line(entry: object, separators: tuple[str, str] = (", ", ": ")) -> str:
    made = json.dumps(entry, ensure_ascii=False, separators=separators)
    return _HALVES.sub(lambda found: f"\\u{ord(found.group()):04x}", made)


def _more_yaml(text: str, entries: Sequence[JsonObject]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    node = yaml.compose(text.removeprefix(_MARK), Loader=PlainLoader)
    indent, flow = 0, False
    if isinstance(node, yaml.SequenceNode):
        indent, flow = node.start_mark.column, bool(node.flow_style)
    if flow and node is not None:
        shift = len(text) - len(text.removeprefix(_MARK))
        start, close = node.start_mark.index + shift, node.end_mark.index - 1 + shift
        inside = text[start + 1 : close].strip()
        comma = "" if not inside or inside.endswith(",") else ", "
        listed = f",{end} ".join(_flow(entry) for entry in entries)
        return f"{text[:close]}{end}{comma or ' '}{listed}{end}{text[close:]}"
    lines = "".join(_block(entry, indent, end) for entry in entries)
    return text + ("" if not text or text.endswith("\n") else end) + lines


def _block(entry: JsonObject, indent: int, end: str) -> str:
    lines: list[str] = []
    for key, value in entry.items():
        if key == "assert" and isinstance(value, Sequence) and not isinstance(value, str):
            lines += ["assert:", *(f"  - {_assertion(one)}" for one in value)]
        else:
            lines.append(f"{key}: {_plain(key, value)}")
    first, *rest = lines
    return "".join(
        f"{' ' * indent}{line}{end}" for line in (f"- {first}", *(f"  {r}" for r in rest))
    )


def _plain(key: str, value: Json) -> str:
    """Ids and tags as people write them; everything else in quotes."""
    if key == "tags" and isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(str(one) for one in value)}]"
    return str(value) if key == "id" and _OWN_ID.fullmatch(str(value)) else _flow(value)


def _assertion(value: Json) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        kind, argument = next(iter(value.items()))
        return f"{kind}: {_flow(argument)}"
    return _flow(value)


def _flow(value: Json) -> str:
    """JSON that a YAML reader takes for the same value."""
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):  # YAML 1.1 takes 1e+22 for a text
        head, exponent, rest = repr(value).partition("e")
        sign = rest if rest[:1] in ("-", "") else f"+{rest.lstrip('+')}"
        return (head if "." in head else f"{head}.0") + exponent + sign
    return json.dumps(value)


def _tag_lines(text: str, tags: Mapping[int, Collection[str]]) -> str:
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    for place, wanted in tags.items():
        line = lines[filled[place]]
        entry = {**json.loads(line.removeprefix(_MARK)), "tags": sorted(wanted)}
        tight = '":' in line and '": ' not in line
        separators = (",", ":") if tight else (", ", ": ")
        made = _line(entry, separators)
        mark = _MARK if line.startswith(_MARK) else ""
        lines[filled[place]] = mark + made + ("\r" if line.endswith("\r") else "")
    return "\n".join(lines)


def _tag_yaml(text: str, tags: Mapping[int, Collection[str]]) -> str:
    bare = text.removeprefix(_MARK)
    node = yaml.compose(bare, Loader=PlainLoader)
    edits: list[tuple[int, int, str]] = []
    if isinstance(node, yaml.SequenceNode):
        edits = [
            _tag_edit(node.value[place], wanted, "\r\n" if "\r\n" in text else "\n")
            for place, wanted in tags.items()
            if place < len(node.value) and isinstance(node.value[place], yaml.MappingNode)
        ]
    for start, stop, new in sorted(edits, reverse=True):
        bare = bare[:start] + new + bare[stop:]
    return text[: len(text) - len(text.removeprefix(_MARK))] + bare


def _tag_edit(entry: yaml.MappingNode, wanted: Collection[str], end: str) -> tuple[int, int, str]:
    """(start, stop, text) that gives the entry these tags."""
    said = f"[{', '.join(sorted(wanted))}]"
    keys = {key.value: (key, value) for key, value in entry.value}
    if "tags" not in keys:
        before = keys["assert"][0].start_mark.index if "assert" in keys else entry.start_mark.index
        gap = ", " if entry.flow_style else end + " " * entry.start_mark.column
        return before, before, f"tags: {said}{gap}"
    key, value = keys["tags"]
    if value.start_mark.index == value.end_mark.index:  # `tags:` and nothing after it
        return key.end_mark.index + 1, key.end_mark.index + 1, f" {said}"
    last = value.end_mark.index
    if isinstance(value, yaml.SequenceNode) and not value.flow_style and value.value:
        last = value.value[-1].end_mark.index  # a block ends where the next one begins
    return value.start_mark.index, last, said
