"""The text of a run's `error` to type, message and stack.

LangSmith keeps one text: Python tracers write the exception's repr with the traceback right behind
it, JavaScript tracers the stack, other code whatever it likes.
"""

import re
from typing import Final

_HEAD_CHARS = 16_384  # of the text before the stack; more is never shown
_NAME = re.compile(r"((?:[A-Za-z_]\w{0,127}\.){0,16}[A-Za-z_]\w{0,127})(\(|: ?|\Z)")
_STRING = re.compile(r"""'((?:[^'\\]|\\.)*)'?|"((?:[^"\\]|\\.)*)"?""", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4}|[\s\S])")
_PLAIN_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_TRACEBACK: Final = "Traceback (most recent call last)"
_JS_STACK: Final = "\n    at "
_ENDINGS: Final = ("Error", "Exception", "Interrupt", "Command", "Warning", "GraphBubbleUp", "Exit")
"""How names of exceptions end, so that `note: nothing` and `call(x)` stay what they are."""
_KNOWN: Final = ("StopIteration", "StopAsyncIteration", "Timeout", "Cancelled", "TimedOut")


def split_error(text: str) -> tuple[str | None, str, str | None]:
    """(class name, message, stack) of a recorded error; what is not known is None."""
    head, stack = _cut(text)
    head = head.strip()[:_HEAD_CHARS]
    if not head and stack:
        head = _last_line(stack)
    match = _NAME.match(head)
    if match is None or not _is_exception(match[1]):
        return None, head, stack
    rest = head[match.end() :]
    if match[2] == "(":
        return match[1], _argument(match[1], rest.removesuffix(")")), stack
    return match[1], rest.strip() or match[1], stack


def _cut(text: str) -> tuple[str, str | None]:
    here = text.find(_TRACEBACK)
    if here < 0:
        here = text.find(_JS_STACK)
    return (text, None) if here < 0 else (text[:here], text[here:].strip("\n"))


def _last_line(stack: str) -> str:
    """A plain traceback names the exception in its last line that is not indented."""
    lines = stack.splitlines()[1:]
    return next((line.strip() for line in reversed(lines) if line[:1].strip()), "")


def _is_exception(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last[:1].isupper() and (last.endswith(_ENDINGS) or last in _KNOWN)


def _argument(name: str, inside: str) -> str:
    """What `str()` of the exception gave, where its repr holds one plain string."""
    match = _STRING.fullmatch(inside.removesuffix(","))
    if match is None:
        return inside or name
    value = _ESCAPE.sub(_unescaped, match[1] if match[1] is not None else match[2])
    return repr(value) if name == "KeyError" else value


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _PLAIN_ESCAPES.get(code, code)
