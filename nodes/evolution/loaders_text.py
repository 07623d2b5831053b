"""What a source file of any other language says of prompts, line by line. Pure.

A search, no parser: it finds the usual forms, and a comment that looks like code counts as code.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from nodes.evolution.loaders_found import (
    HINT,
    MOST_OF_FILE,
    OPENING,
    CodeText,
    FoundInFile,
    PathNamed,
    PromptFetched,
    Vendor,
    long_enough,
    prompt_of_hub,
)

LINE_CHARS: Final = 4_000
"""Of a longer line the beginning is searched: it was written by a tool."""
TEXT_LINES: Final = 600
"""Lines of one long text."""
_QUOTED: Final = re.compile(
    r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`"
)  # fmt: skip
_OPENER: Final = re.compile(
    r"\b(readFile(?:Sync)?|ReadFile|read_to_string|read_file|File\.read|file_get_contents|open|"
    r"loadPrompt|load_prompt|load|fromFile|import|require|include_str|embed|readText|getResource\w*|"
    r"cat|glob|readdir(?:Sync)?|join|resolve|new URL)\b"
)  # fmt: skip
_FETCH: Final = re.compile(
    r"\b(getPrompt|get_prompt|prompts?\.get|pullPrompt\w*|pull_prompt|hub\.pull)\s*\(\s*"
    r"(?:\{[^{}\n]{0,80}?name\s*:\s*)?[\"'`]([^\"'`\n]{1,200})[\"'`]"
)
_UNQUOTED: Final = re.compile(r"(?<![\w./-])[\w./-]+/[\w.-]+\.(?:md|txt|prompt|j2|jinja2?|tmpl)\b")
_BLOCK: Final = re.compile(r"(\s*(?:- )?)[\"']?([\w.-]{1,60})[\"']?\s*:\s*[|>][+-]?\d?\s*\Z")
_OPENS: Final = re.compile(r"`|\"\"\"|'''")
_HOLES: Final = re.compile(r"\$\{[^{}\n]{0,80}\}|#\{[^{}\n]{0,80}\}")
_NAME: Final = re.compile(
    r"([A-Za-z_][\w.-]{0,60})[\"']?\s*(?::\s*\w+(?:<\w+>)?\s*)?(?:=|:|\()\s*\Z"
)
_ESCAPES: Final = re.compile(r"\\[nrt]")


def found_in_text(text: str, path: str) -> FoundInFile:
    """What the file says."""
    lines = [line[:LINE_CHARS] for line in text.split("\n")]
    yaml = path.endswith((".yaml", ".yml"))
    paths: list[PathNamed] = []
    prompts: list[PromptFetched] = []
    texts = list(_blocks(lines) if yaml else _spanning(lines))
    inside = {number for one in texts for number in range(one.line, one.end_line)}
    for number, line in enumerate(lines, 1):
        if len(paths) >= MOST_OF_FILE or len(texts) >= MOST_OF_FILE:
            break
        prompts += _fetched(line, number)
        paths += _named(line, number)
        if number not in inside:
            texts += _on_one_line(line, number)
    texts.sort(key=lambda one: (one.line, one.end_line))
    return FoundInFile(
        paths=tuple(paths), prompts=tuple(prompts[:MOST_OF_FILE]), texts=tuple(texts)
    )


def _fetched(line: str, number: int) -> Iterator[PromptFetched]:
    for match in _FETCH.finditer(line) if "rompt" in line or "hub." in line else ():
        called, name = match[1], _HOLES.sub("*", match[2])
        hub = called.startswith(("pull", "hub"))
        vendor: Vendor = "langsmith" if hub else "langfuse" if "." not in called else "unknown"
        held = prompt_of_hub(name) if hub else name
        yield PromptFetched(name=held, line=number, how=called, vendor=vendor)


def _named(line: str, number: int) -> Iterator[PathNamed]:
    opener = _OPENER.search(line)
    how = opener[1] if opener else "named"
    seen: set[str] = set()
    for match in _QUOTED.finditer(line):
        value = _HOLES.sub("*", next((part for part in match.groups() if part), ""))
        if _like_a_path(value):
            seen.add(value)
            yield PathNamed(pattern=value, line=number, how=how)
    for match in _UNQUOTED.finditer(line):
        if match[0] not in seen and not any(match[0] in one for one in seen):
            yield PathNamed(pattern=match[0], line=number, how=how)


def _like_a_path(value: str) -> bool:
    if not 3 < len(value) <= 300 or "://" in value or any(c.isspace() for c in value):
        return False
    return "/" in value or "." in value.strip(".")


def _on_one_line(line: str, number: int) -> Iterator[CodeText]:
    for match in _QUOTED.finditer(line) if len(line) > 60 else ():
        value = next((part for part in match.groups() if part), "")
        if len(value) > 60:
            text = _ESCAPES.sub(" ", _HOLES.sub("{}", value))
            yield from _text(_before(line[: match.start()]), number, number, text)


def _spanning(lines: Sequence[str]) -> Iterator[CodeText]:
    """Texts over several lines, between backticks or three quotes."""
    number = 0
    while number < len(lines):
        line = lines[number]
        opened = _open_mark(line)
        if opened is None:
            number += 1
            continue
        mark, start = opened
        parts = [line[start + len(mark) :]]
        stop = min(len(lines), number + TEXT_LINES)
        end = next((at for at in range(number + 1, stop) if mark in lines[at]), None)
        if end is None:
            number += 1
            continue
        parts += [*lines[number + 1 : end], lines[end].partition(mark)[0]]
        text = _HOLES.sub("{}", "\n".join(parts))
        yield from _text(_before(line[:start]), number + 1, end + 1, text)
        number = end + 1


def _open_mark(line: str) -> tuple[str, int] | None:
    """The mark that begins a text which does not end in its line, and where it stands."""
    at = 0
    while (match := _OPENS.search(line, at)) is not None:
        close = line.find(match[0], match.end())
        if close < 0:
            return match[0], match.start()
        at = close + len(match[0])
    return None


def _blocks(lines: Sequence[str]) -> Iterator[CodeText]:
    """Block texts of YAML under their keys."""
    for number, line in enumerate(lines):
        head = _BLOCK.match(line)
        if head is None:
            continue
        indent, end = len(head[1]), number + 1
        while end < min(len(lines), number + TEXT_LINES):
            inner = lines[end]
            if inner.strip() and len(inner) - len(inner.lstrip()) <= indent:
                break
            end += 1
        yield from _text(head[2], number + 1, end, "\n".join(lines[number + 1 : end]))


def _text(name: str, line: int, end_line: int, text: str) -> Iterator[CodeText]:
    if long_enough(text):
        instructs = bool(HINT.search(name)) or bool(OPENING.match(text))
        yield CodeText(name=name, line=line, end_line=end_line, text=text, instructs=instructs)


def _before(head: str) -> str:
    """What a text is assigned to or passed as, by the words in front of it."""
    match = _NAME.search(head[-120:])
    if match is None:
        return ""
    if match[1] == "content" and re.search(r"[\"']?role[\"']?\s*:\s*[\"']system", head):
        return "system message"
    return match[1]
