"""The words by which errors say what they are. A literal is looked for before any pattern."""

import re
from functools import lru_cache

HEAD = 600
"""Characters of a silent answer that are read: an error says so at its beginning."""
MAX_CODE_WORD = 40

_STATUS_WORDS = (
    r"(?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not|Request Time|"
    r"Conflict|Gone|Unprocessable|Too Many|Internal Server|Not Implemented|Bad Gateway|"
    r"Service (?:Temporarily )?Unavailable|Gateway Time)"
)
_STATUS = re.compile(
    r"\b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _-]?code)?|code|answered|returned|got)['\"]?"
    r"(?:\s+(?:error|status))?(?:\s*[:=(]\s*|\s+)['\"]?([45]\d\d)\b"
    rf"|\b([45]\d\d)\b(?=\W{{1,3}}(?i:{_STATUS_WORDS}))"
    r"|^\W{0,2}([45]\d\d)\b(?=\s*[:\-]|\s*$|\s+[A-Z])"
    r"|\b([45]\d\d) (?:Client|Server) Error\b",
    re.IGNORECASE,
)
_EXIT = re.compile(
    r"\bexit(?:ed)?(?:\s+with)?(?:\s+(?:status|code))?\s*[:=]?\s*(\d{1,3})\b", re.IGNORECASE
)
_SILENT = re.compile(
    r"\A\s*(?:"
    r"\[?(?:error|exception|fatal|failure)\]?\s*(?:[:(]|$|\bin\b|\bwhile\b|\bwhen\b|\bcalling\b)"
    r"|(?:[A-Za-z_][\w.]*)?[A-Z]\w*(?:Error|Exception)\b\s*[:(]"
    r"|Traceback \(most recent call last\)"
    r"|(?:tool|request|call|operation|query|connection)\b"
    r"[^.\n]{0,60}\b(?:failed|timed out|refused)\b"
    r"|(?:failed|unable) to \w+"
    r"|(?:timeout|timed out|deadline exceeded|rate limit\w*|too many requests)\b"
    rf"|(?:HTTP(?:/\d(?:\.\d)?)?\s+)?[45]\d\d\W{{1,3}}{_STATUS_WORDS}"
    r"|(?:status|status_code|http_status)\s*[=:]\s*[45]\d\d\b"
    r")",
    re.IGNORECASE,
)
_SILENT_HINTS = (
    "error", "exception", "fatal", "failure", "traceback", "failed", "timed out", "refused",
    "unable", "timeout", "deadline", "rate limit", "too many", "http", "status", "unauthorized",
    "forbidden", "not found", "unavailable", "gateway", "bad request", "conflict",
)  # fmt: skip
_CLASS = re.compile(r"\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))\b(?=\s*[:(]|\s*$)")
_INNER = re.compile(r"\b(?:due to|caused by)\b:?\s*(?:\w+\.)*([A-Z]\w*(?:Error|Exception))\b")
_TIMEOUT = ("timed out", "timeout", "time-out", "time out", "deadline exceeded", "took too long")
_RATE = (
    "rate limit", "ratelimit", "rate_limit", "too many requests", "quota exceeded",
    "throttl", "insufficient_quota", "overloaded_error", "resource_exhausted",
)  # fmt: skip
_MALFORMED = (
    "jsondecodeerror", "not valid json", "invalid json", "malformed json", "expecting value",
    "expecting property name", "unterminated string", "could not parse", "unparseable",
    "unexpected end of json", "parsing failed", "code parsing", "output parser", "outputparser",
)  # fmt: skip
_CODE_WORD = re.compile(r"\A[A-Za-z]+(?:[_-][A-Za-z]+){1,7}\Z|\A[A-Z][a-z]+(?:[A-Z][a-z]+)+\Z")
_STEP_LIMIT = re.compile(
    r"\b(?:recursion|step|iteration|turn)s? limit\b|\bmax(?:imum)?[ _](?:number of )?"
    r"(?:steps|iterations|turns|recursion)\b|\breached max\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def http_status(text: str) -> int | None:
    """The HTTP error status that the text names, if it names one."""
    match = _STATUS.search(text[:2000])
    return next((int(g) for g in match.groups() if g), None) if match else None


def exit_code(text: str) -> int | None:
    """The exit code of a command that the text names at its end or its beginning."""
    low = text if len(text) <= 2 * HEAD else f"{text[:HEAD]}\n{text[-HEAD:]}"
    if "exit" not in low.lower():
        return None
    found = _EXIT.findall(low)
    return int(found[-1]) if found else None


def says_error(text: str) -> bool:
    """Whether an answer without error status begins like an error."""
    head = text[:HEAD]
    low = head.lower()
    return any(hint in low for hint in _SILENT_HINTS) and _SILENT.match(head) is not None


def error_class(text: str) -> str | None:
    """The exception class that the text names; the innermost where one wraps another."""
    found = _CLASS.findall(text[:2000].partition("Traceback (most recent")[0] or text[-2000:])
    return found[-1].rpartition(".")[2] if found else None


def inner_class(text: str) -> str | None:
    """The class that a wrapping error gives as its reason: `... due to: KeyError: ...`."""
    match = _INNER.search(text[:4000])
    return match[1] if match else None


def says_timeout(text: str) -> bool:
    """Whether the text speaks of a time limit that ran out."""
    low = text[:2000].lower()
    return any(word in low for word in _TIMEOUT)


def says_rate_limit(text: str) -> bool:
    """Whether the text speaks of too many requests."""
    low = text[:2000].lower()
    return any(word in low for word in _RATE)


def says_malformed(text: str) -> bool:
    """Whether the text speaks of something that could not be parsed."""
    low = text[:2000].lower()
    return any(word in low for word in _MALFORMED)


def says_step_limit(text: str) -> bool:
    """Whether the text speaks of a limit on steps, turns or recursion."""
    return _STEP_LIMIT.search(text[:2000]) is not None


def code_word(text: str) -> str | None:
    """The text as the name of a failure, where it is a bare one such as `channel_not_found`."""
    word = text.strip()
    return word if len(word) <= MAX_CODE_WORD and _CODE_WORD.match(word) else None
