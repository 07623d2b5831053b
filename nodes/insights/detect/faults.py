"""Whether one step failed by itself, and what it says about it. The kinds are told apart later."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from contracts.json_types import Json
from contracts.traces import Span, SpanId
from nodes.insights.detect import shell, words
from nodes.insights.detect.answers import Answer
from nodes.insights.detect.login_words import reports_auth
from nodes.insights.detect.view import ToolCall, View

_GENERIC = frozenset({"Exception", "Error", "ToolError", "ToolException", "BaseException"})
_BROKEN_START = re.compile(r'\A\s*(?:\{\s*"|\[\s*[{"\[])')
_MAX_MESSAGE = 4000
_NOTE_KEYS = ("message", "detail", "reason", "text", "msg", "description", "error_description")
_FAULT_CLASS = re.compile(
    r"(?:\A|[_\s.-]|(?<=[a-z]))(?:fault|error|failure|exception|unauthori[sz]ed|forbidden)\Z",
    re.IGNORECASE,
)
MAX_NOTE_KEYS = 6
MAX_NOTE = 300  # characters of a tool's whole answer that may be a mere refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A step that failed: where, and in which words."""

    span: Span
    place: str
    on_tool: bool
    message: str
    field: str
    """Where the message stands: `error.message`, `output`, or `input` of a later step."""
    start: int = 0
    type: str | None = None
    """Exception class without its module."""
    status: int | None = None
    exit_code: int | None = None
    broken: bool = False
    """The output is broken JSON."""
    explicit: bool = True
    """The recorder or the framework marked the step as failed; else only its words say so."""
    shown_at: SpanId | None = None
    """Where it became visible, when that is another span."""
    facts: Mapping[str, Json] = dataclass_field(default_factory=dict)
    """What the diagnosis may use: `Evidence.facts`."""

    @property
    def code(self) -> str | None:
        """What tells apart failures of one kind and place."""
        if self.status is not None:
            return str(self.status)
        if self.exit_code is not None:
            return f"exit{self.exit_code}"
        return self.type


class Scans:
    """Verdicts on silent answers by content hash, so that a text is scanned once. Bounded."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._seen: OrderedDict[str, bool] = OrderedDict()

    def says_error(self, key: str, text: str) -> bool:
        """Whether the text begins like an error."""
        known = self._seen.get(key)
        if known is None:
            known = self._seen[key] = words.says_error(text)
            if len(self._seen) > self._limit:
                self._seen.popitem(last=False)
        return known


def fault_of(view: View, span: Span, scans: Scans) -> Fault | None:
    """The step's own failure, if it failed."""
    if span.virtual or span.status == "interrupted":
        return None
    call = view.calls.get(span.id)
    if span.status == "error" or (span.status == "unset" and span.error is not None):
        return _explicit(view, span, call)
    if call is not None:
        return _silent(view, call, scans)
    return None


def make_fault(
    view: View,
    span: Span,
    message: str,
    field: str,
    *,
    place: str | None = None,
    on_tool: bool | None = None,
    kind: str | None = None,
    start: int = 0,
    explicit: bool = True,
    broken: bool = False,
) -> Fault:
    """A fault with its code read out of the message."""
    text = message[:_MAX_MESSAGE]
    named = words.inner_class(text) or (kind or "").rpartition(".")[2] or None
    if named is None or named in _GENERIC:
        named = words.error_class(text) or words.code_word(text) or named
    return Fault(
        span=span,
        place=view.place(span) if place is None else place,
        on_tool=span.kind == "tool" if on_tool is None else on_tool,
        message=text,
        field=field,
        start=start,
        type=named,
        status=words.http_status(text),
        exit_code=words.exit_code(text),
        explicit=explicit,
        broken=broken,
    )


def _explicit(view: View, span: Span, call: ToolCall | None) -> Fault | None:
    error = span.error
    message, field = (error.message, "error.message") if error else ("", "status")
    if not message.strip() and call is not None and call.answer.text:
        message, field = call.answer.text, "output"
    if not message.strip() and error is not None and error.type:
        message = error.type
    if call is not None:
        command = shell.command_of(call.arguments)
        output = call.answer.text.strip()
        if command and shell.is_answer(command, output or message):
            return None
    return make_fault(view, span, message, field, kind=error.type if error else None)


def _silent(view: View, call: ToolCall, scans: Scans) -> Fault | None:
    """A failure that only the answer tells of: most failures of tools are recorded as success."""
    answer = call.answer
    if answer.marked:
        return make_fault(view, call.span, answer.text, "output")
    said = error_in(answer.value)
    if said is not None:
        named = _code_in(answer.value)
        return make_fault(view, call.span, said, "output", explicit=False, kind=named)
    if broken_json(answer):
        return make_fault(view, call.span, answer.text, "output", explicit=False, broken=True)
    if answer.value is not None:
        return None
    if shell.command_of(call.arguments) is not None:
        failed = shell.silently_failed(answer.text)
    else:
        failed = scans.says_error(call.answer_key, answer.text) or (
            len(answer.text) <= MAX_NOTE and reports_auth(answer.text)
        )
    return make_fault(view, call.span, answer.text, "output", explicit=False) if failed else None


def error_in(value: Json) -> str | None:
    """What an object says of its own failure: `ok: false`, `error: ...`, an HTTP error status."""
    if not isinstance(value, dict):
        return None
    status = next(
        (s for s in map(_status, _some(value, "status", "status_code", "statusCode", "http_status"))
         if s is not None),
        None,
    )  # fmt: skip
    denied = any(value.get(key) is False for key in ("ok", "success", "succeeded"))
    marked = any(value.get(key) is True for key in ("is_error", "isError", "failed"))
    named = str(value.get("status", "")).lower() in ("error", "failed", "failure", "timeout")
    said = next((x for x in _some(value, "error", "errors", "exception") if x), None) or _numbered(
        value
    )
    if isinstance(said, bool):
        marked, said = True, None
    if isinstance(said, dict | list) and not said:
        said = None
    named = named or _names_a_fault(value)
    if status is None and not (denied or marked or named) and said is None:
        return _refused_login(value)
    code = status if status is not None else _status(value.get("code"))
    words_of = _some(value, "message", "detail", "reason", "code", "error_code", "errorCode")
    detail = said or next((x for x in words_of if x), None)
    text = _flat(detail)
    if code is not None and str(code) not in text:
        text = f"status {code} {text}"
    return text.strip() or "the answer says that it failed"


def _numbered(value: Mapping[str, Json]) -> str | None:
    """`errcode: 40003, errmsg: ...`: some interfaces number their failures, and 0 is none."""
    number = next((n for n in _some(value, "errcode", "errno", "error_code") if n), None)
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    told = next((m for m in _some(value, "errmsg", "error_msg", "message", "msg") if m), None)
    return f"error {number}: {told}" if isinstance(told, str) else None


def _code_in(value: Json) -> str | None:
    """The bare name of the failure, such as `channel_not_found`, wherever the object has it."""
    if not isinstance(value, dict):
        return None
    inner = value.get("error")
    holders = [inner, value] if isinstance(inner, dict) else [value]
    for holder in holders:
        for word in _some(holder, "code", "error_code", "errorCode", "error", "reason", "type"):
            if isinstance(word, str) and words.code_word(word) is not None:
                return word.strip()
    return None


def _names_a_fault(value: Mapping[str, Json]) -> bool:
    """A small object that is a message with the class of a failure, under whatever key."""
    if len(value) > MAX_NOTE_KEYS or not any(isinstance(value.get(k), str) for k in _NOTE_KEYS):
        return False
    classes = _some(value, "category", "type", "code", "kind", "class", "errorType", "error_type",
                    "errorCode", "error_code", "name")  # fmt: skip
    return any(isinstance(c, str) and _FAULT_CLASS.search(c[:80]) is not None for c in classes)


def _refused_login(value: Mapping[str, Json]) -> str | None:
    """The message of a small object that holds nothing else and tells of a refused login."""
    if len(value) > MAX_NOTE_KEYS:
        return None
    if any(isinstance(item, list | dict) and item for item in value.values()):
        return None
    notes = [note for note in _some(value, *_NOTE_KEYS) if isinstance(note, str)]
    return next((note for note in notes if len(note) <= MAX_NOTE and reports_auth(note)), None)


def broken_json(answer: Answer) -> bool:
    """Whether the answer starts like JSON and is none, though it was recorded whole."""
    text = answer.text
    if answer.cut or answer.value is not None or not _BROKEN_START.match(text[:40]):
        return False
    first_line, _, rest = text.strip().partition("\n")
    lines_of_json = bool(rest) and first_line.rstrip().endswith(("}", "]"))
    return not lines_of_json and not text.rstrip().endswith(("...", "\u2026"))


def _some(value: Mapping[str, Json], *keys: str) -> list[Json]:
    return [value[key] for key in keys if key in value]


def _status(value: Json) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    known = isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599
    return value if known and isinstance(value, int) else None


def _flat(value: Json) -> str:
    """Short text of an error field: its message where it is an object."""
    if isinstance(value, dict):
        parts = [str(x) for x in _some(value, "type", "code", "message", "detail") if x]
        return " ".join(parts) or str(value)
    if isinstance(value, list):
        return "; ".join(_flat(item) for item in value[:3])
    return "" if value is None else str(value)
