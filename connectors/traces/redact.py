"""Redaction of structures: JSON values and whole traces, for whoever writes them out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from configs.redaction import Redactor, current_redactor
from configs.redaction_values import secret_key
from contracts.json_types import Json, sha256_hex
from contracts.traces import Message, Payload, Score, Span, SpanError, Trace

MAX_DEPTH = 100
TOO_DEEP = "[nested too deep]"
NAMED = "[password]"
MARK = "tracemend.redacted"
"""Attribute of a span: how many masks were set in it (a root counts its trace's own fields too)."""

_LIMITS = frozenset({256, 8192})
"""Where readers cut names and messages."""
_CUT_TAIL = 256
"""A payload that was cut may end in half a secret, which no rule knows: its last word goes."""


def redact_json(value: Json) -> Json:
    """The value with every secret masked: in texts, in keys, and under a key that names one.

    A number that is a secret becomes text. Depth is bounded: what is nested deeper than any real
    document is replaced as a whole, and says so.
    """
    return _Masker(current_redactor()).json(value)


def redact_trace(trace: Trace) -> Trace:
    """The trace with every secret masked; spans say how many under `tracemend.redacted`.

    Ids and times stay, and payloads keep the size and hash of what was recorded. A session or user
    that is a secret itself becomes its mask and a part of its hash, so that units stay apart.
    """
    masker = _Masker(current_redactor())
    own = replace(
        trace,
        session_id=masker.identity(trace.session_id),
        user_id=masker.identity(trace.user_id),
        environment=masker.maybe(trace.environment),
        release=masker.maybe(trace.release),
        name=masker.maybe(trace.name),
        version=masker.maybe(trace.version),
        tags=tuple(masker.text(tag) for tag in trace.tags),
        scores=tuple(_score(masker, score) for score in trace.scores),
        resource=masker.object(trace.resource),
    )
    before, spans = 0, []
    for span in trace.spans:
        spans.append(_span(masker, span, before))
        before = masker.count
    return replace(own, spans=tuple(spans))


class _Masker:
    """Masks texts and counts the masks; a text that comes again is masked once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._known: dict[str, tuple[str, int]] = {}
        self.count = 0

    def text(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._redactor.masked(text)
        self.count += known[1]
        return known[0]

    def maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def identity(self, text: str | None) -> str | None:
        masked = self.maybe(text)
        if masked == text or text is None:
            return masked
        return f"{masked} {sha256_hex(text.encode('utf-8', 'surrogatepass'))[:8]}"

    def object(self, value: Mapping[str, Json]) -> dict[str, Json]:
        masked = self.json(value)
        return dict(masked) if isinstance(masked, Mapping) else {}

    def json(self, value: Json, depth: int = 0) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value)
        if isinstance(value, Mapping | Sequence):
            if depth >= MAX_DEPTH:
                self.count += 1
                return TOO_DEEP
            if isinstance(value, Mapping):
                return self._mapping(value, depth)
            return [self.json(item, depth + 1) for item in value]
        return value

    def _mapping(self, value: Mapping[str, Json], depth: int) -> dict[str, Json]:
        masked: dict[str, Json] = {}
        for key, item in value.items():
            name = self.text(str(key))
            while name in masked:  # two keys that have the same mask are still two
                name += "'"
            masked[name] = self._under(str(key), item, depth + 1)
        return masked

    def _under(self, key: str, item: Json, depth: int) -> Json:
        plain = isinstance(item, str | int) and not isinstance(item, bool)
        if plain and secret_key(key, str(item)):
            self.count += 1
            return NAMED
        return self.json(item, depth)

    def _number(self, value: float) -> Json:
        digits = str(value)
        if len(digits) < 13 or not digits.isdigit():
            return value
        masked = self.text(digits)
        return value if masked == digits else masked


def _span(masker: _Masker, span: Span, before: int) -> Span:
    masked = replace(
        span,
        name=masker.text(_uncut(span.name)),
        tool_name=masker.maybe(span.tool_name),
        error=_error(masker, span.error),
        input=_payload(masker, span.input),
        output=_payload(masker, span.output),
        messages_in=_messages(masker, span.messages_in),
        messages_out=_messages(masker, span.messages_out),
        prompt_name=masker.maybe(span.prompt_name),
        prompt_version=masker.maybe(span.prompt_version),
        attributes=masker.object(span.attributes),
    )
    count = masker.count - before
    if not count:
        return masked
    already = span.attributes.get(MARK)
    total = count + (already if isinstance(already, int) else 0)
    return replace(masked, attributes={**masked.attributes, MARK: total})


def _error(masker: _Masker, error: SpanError | None) -> SpanError | None:
    if error is None:
        return None
    return SpanError(
        type=masker.maybe(error.type),
        message=masker.text(_uncut(error.message)),
        stack=masker.maybe(error.stack and _uncut(error.stack)),
    )


def _payload(masker: _Masker, payload: Payload | None) -> Payload | None:
    if payload is None:
        return None
    text = payload.text
    if payload.truncated:
        text = _without_last_word(text)
    masked = masker.text(text)
    if masked == payload.text:
        return payload
    return Payload(
        text=masked, size_bytes=payload.size_bytes, truncated=payload.truncated,
        sha256=payload.sha256,
    )  # fmt: skip


def _uncut(text: str) -> str:
    """A name or a message; where the reader cut it at its limit, without the last word."""
    return _without_last_word(text) if len(text) in _LIMITS else text


def _without_last_word(text: str) -> str:
    """A cut text up to the last place where a word ended, as far as that is near."""
    end = len(text)
    while (
        end and len(text) - end < _CUT_TAIL and (text[end - 1].isalnum() or text[end - 1] in "_-.")
    ):
        end -= 1
    return text[:end]


def _messages(masker: _Masker, messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(
            message,
            role=masker.text(message.role),
            content=masker.text(message.content),
            tool_calls=tuple(
                (id_, masker.text(name), masker.text(arguments))
                for id_, name, arguments in message.tool_calls
            ),
        )
        for message in messages
    )


def _score(masker: _Masker, score: Score) -> Score:
    value = masker.text(score.value) if isinstance(score.value, str) else score.value
    return replace(
        score, name=masker.text(score.name), value=value, comment=masker.maybe(score.comment)
    )
