"""The front matter of skills and instruction files, read as the strictest loader reads it.

Source: the Agent Skills format, https://agentskills.io/specification (name, description, lengths).
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import cast

import yaml

from nodes.evolution.edits import BOM

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_FRONT = 16 * 1024
"""Characters of front matter; a skill has two keys, and a longer block is read by nobody."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = re.compile(r"---[ \t]*\n([\s\S]*?)(?:^|\n)---[ \t]*(?:\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """Keys of the YAML block at the start of a file, or why there are none.

    `problem` is None for a text without any front matter; `present` tells the two apart.
    """

    values: Mapping[str, object]
    present: bool
    raw: str = ""
    problem: str | None = None


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice; YAML itself would silently keep the last."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, object]:
    keys = [str(loader.construct_object(key)) for key, _ in node.value]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise yaml.MarkedYAMLError(
            problem=f"key {twice[0]!r} is there twice", problem_mark=node.start_mark
        )
    return dict(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_front_matter(text: str) -> FrontMatter:
    """The front matter of a file's text; a byte order mark before it is tolerated."""
    body = text.removeprefix(BOM).replace("\r\n", "\n")
    if not body.startswith("---"):
        return FrontMatter(values={}, present=False)
    fenced = _FENCE.match(body)
    if not fenced:
        return FrontMatter(values={}, present=True, problem="front matter has no closing ---")
    raw = fenced[1]
    loaded = _loaded(raw)
    if isinstance(loaded, str):
        return FrontMatter(values={}, present=True, raw=raw, problem=loaded)
    return FrontMatter(values=loaded, present=True, raw=raw)


def _loaded(raw: str) -> dict[str, object] | str:
    """The keys of a block, or why it has none."""
    if problem := _unread(raw):
        return problem
    try:
        # bandit's rule wants SafeLoader by name; _StrictLoader is one that refuses more.
        loaded = yaml.load(raw, Loader=_StrictLoader)  # noqa: S506
    except yaml.YAMLError as error:
        return _yaml_problem(error)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        # PyYAML makes values such as dates by Python's own constructors, and reads by recursion.
        return "a value that cannot be read"
    if not isinstance(loaded, dict):
        return "front matter is no list of keys"
    return {str(key): value for key, value in cast("dict[object, object]", loaded).items()}


def _unread(raw: str) -> str | None:
    """Why a block is not even parsed: it is too long, too deep, or made of references."""
    if len(raw) > MAX_FRONT:
        return f"longer than {MAX_FRONT} characters"
    if raw.count("[") + raw.count("{") > 200:
        return "more than 200 brackets"
    if re.search(r"(?:^|[\s:\[{,-])[&*][\w-]", raw):
        return "YAML anchors and references (& and *); write the value out"
    return None


def body_of(text: str) -> str:
    """The text after the front matter, with its line count kept (front matter lines are blank)."""
    plain = text.removeprefix(BOM).replace("\r\n", "\n")
    fenced = _FENCE.match(plain)
    if not fenced:
        return plain
    return "\n" * fenced[0].count("\n") + plain[fenced.end() :]


def skill_problems(path: str, text: str) -> dict[str, str]:
    """What a strict loader would not accept in a SKILL.md: a stable key and a sentence each."""
    front = read_front_matter(text)
    if not front.present:
        return {"front": "no front matter: a skill starts with --- and has a name and description"}
    if front.problem:
        return {"parse": f"front matter does not parse: {front.problem}"}
    problems = _name_problems(path, front.values.get("name"))
    description = front.values.get("description")
    if not isinstance(description, str) or not description.strip():
        problems["description"] = "description is missing, empty or no text"
    elif len(description) > MAX_DESCRIPTION:
        problems["length"] = (
            f"description longer than {MAX_DESCRIPTION} characters ({len(description)})"
        )
    if cut := _cut_by_comment(front.raw):
        problems["comment"] = f"{cut}: text after ` #` is a comment in YAML and is lost; quote it"
    return problems


def _name_problems(path: str, name: object) -> dict[str, str]:
    if not isinstance(name, str) or not name:
        return {"name": "name is missing, empty or no text"}
    problems: dict[str, str] = {}
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        problems["name-form"] = (
            f"name {name!r} is not 1 to {MAX_NAME} of a-z, 0-9 and single hyphens"
        )
    folder = path.split("/")[-2] if "/" in path else ""
    if name != folder:
        problems["folder"] = f"name {name!r} differs from its folder {folder!r}"
    return problems


def _cut_by_comment(raw: str) -> str | None:
    """The key whose unquoted one-line value YAML cuts at a ` #`."""
    for line in raw.split("\n"):
        found = re.match(r"(name|description):[ \t]+([^\"'|>\s].*)", line)
        if found and re.search(r"\s#", found[2]):
            return found[1]
    return None


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark
        where = f" (line {mark.line + 2})" if mark else ""
        return f"{error.problem}{where}"
    return "not YAML"
