"""Secrets told by their name: `password: ...`, `"api_key": "..."`, headers.

Each finder yields the (start, end) of what is to be masked, and is called only for texts in which
its rule's prefilter occurs.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

Span = tuple[int, int]
Finder = Callable[[str], Iterator[Span]]

MAX_VALUE = 8192
"""Longest quoted value that is looked for the end of."""
MAX_DEPTH = 12
"""Of JSON inside JSON: a quote that asks for more backslashes is taken for plain text."""

_STRONG = r"passw(?:or)?d|passwd|pass[_ -]?phrase|passcode|pwd"
_WEAK = (
    r"(?:api|access|account|auth|client|encryption|master|private|secret|service[_-]?role|"
    r"shared[_-]?access|signing|subscription|storage|license)[_ -]?(?:access[_-]?)?key|"
    r"(?:access|api|app|auth|bearer|bot|id|jwt|oauth|personal[_-]?access|refresh|secret|security|"
    r"service|session|user|verification|webhook)[_ -]?token|secret|credentials?"
)
_BEHIND = (
    r"(?:(?P<close>\\{0,7}[\"'`])?[ \t]{0,4}(?P<sep>=>|:=|[:=>])|"
    r"(?P<said> is(?: ?:)?))[ \t\r\n]{0,4}(?P<quote>\\{0,7}[\"'`])?"
)
_KEYED = re.compile(
    rf"(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK})|(?P<bare>(?<![\w-])token))[0-9]{{0,2}}{_BEHIND}",
    re.IGNORECASE | re.ASCII,
)
_SEPARATOR = re.compile(r":|=|>| is[ :]")
_WORD_BEFORE = re.compile(r"[\w.-]{1,40}\Z")
_NAME_ENDS = (
    "password", "passwd", "phrase", "passcode", "pwd", "secret", "credential", "credentials",
    "token", "key",
)  # fmt: skip
_HEADER = re.compile(rf"(?:(?P<cookie>cookie)|authorization){_BEHIND}", re.IGNORECASE | re.ASCII)
_LINE = re.compile(r"[^\r\n]*")
_QUOTES = re.compile(r"(\\*)([\"'`])")
_STRUCTURE = re.compile(r"\s*(?:[,}\]:]|\Z)")
_UNQUOTED = re.compile(r"[^\s\"'`\\<>,;&|]{4,512}")
_SCHEME = r"(?:bearer|basic|token|digest|negotiate|apikey|api-key|key|splunk|hmac)\s+"
_AUTHORIZATION = re.compile(
    rf"(?:AWS4-HMAC-SHA256|digest\s)[^\r\n\"'\\]{{8,2000}}|(?:{_SCHEME})?[^\s\"'`\\,;<>]{{8,4096}}",
    re.IGNORECASE,
)
_HAS_SCHEME = re.compile(_SCHEME + r"(?P<rest>\S.*)\Z", re.IGNORECASE | re.DOTALL)
_COOKIES = re.compile(r"[^\r\n\"'`\\]{4,4096}")
_PAIR = re.compile(r"[\w.-]+=[^\s;]{4}")
_NOTHING = re.compile(
    r"(?:[*xX.#_•-]+|n/?a|none|null|nil|true|false|undefined|optional|required|str|string|integer|"
    r"include|same-origin|omit|number|bool(?:ean)?|object|bytes|secretstr|any|unknown|invalid|incorrect|missing|expired|"
    r"wrong|empty|redacted|hidden|changeme|your[_ -].*|<.*|\[.*|\{.*|\(.*|\$.*|%[({s].*)",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|"
    r"(?:os|self|settings|config|cfg|conf|process|env|args|opts|request|getpass|st|this)\."
)


_DIGIT = re.compile(r"\d")
_CAPITAL = re.compile(r"[A-Z]")
_BLANK = re.compile(r"\s")
_SMALL = re.compile(r"[a-z]")
_NO_WORD = re.compile(r"[0-9A-Z]|[a-z]{16}")


def looks_random(text: str) -> bool:
    """Whether a value is no word or phrase: a digit, capitals inside, or very long."""
    if _DIGIT.search(text) or (_CAPITAL.search(text, 1) and _SMALL.search(text)):
        return True
    return len(text) >= 24 and text.isalnum()


def is_token(text: str) -> bool:
    """Whether a prefixed word is a key: a digit or a capital, or a part too long for a word."""
    return _NO_WORD.search(text) is not None


def is_scheme(text: str) -> bool:
    """Whether what follows `Bearer` or `Basic` is a credential and not the next word."""
    value = text.split(None, 1)[1]
    return looks_random(value) or any(c in value for c in "=+/~")


def keyed(text: str) -> Iterator[Span]:
    """Values behind a name that says what they are: `password: ...`, `"api_key": "..."`.

    The value may be quoted, with the quotes escaped any number of times (JSON inside JSON).
    """
    for match in _named(text):
        if _closes_string(text, match):
            continue
        begin = match.end()
        value = _quoted(text, match) if match["quote"] else _unquoted(text, begin)
        if value and _is_secret(match, value):
            yield begin, begin + len(value)


def _named(text: str) -> Iterator[re.Match[str]]:
    """Where a name of secrets stands before a separator.

    Separators are rarer than letters, and what is before one is told by its end: a tenth of the
    time of a search for the names.
    """
    after = 0
    for mark in _SEPARATOR.finditer(text):
        at, before = mark.start(), after
        after = mark.end()
        name = text[max(0, at - 40) : at].rstrip("0123456789 \t\"'`\\").lower()
        if name.endswith(_NAME_ENDS):
            around = _KEYED.finditer(text, max(before, at - 64), at + 32)
            yield from (m for m in around if at in (m.start("sep"), m.start("said")))


def _closes_string(text: str, match: re.Match[str]) -> bool:
    """Whether the quote behind the name ends a text that begins with it, as in `"PASSWORD="`."""
    if not match["quote"] or match["close"]:
        return False
    word = _WORD_BEFORE.search(text, max(0, match.start() - 40), match.start())
    begin = word.start() if word else match.start()
    return text[max(0, begin - 1) : begin] == match["quote"][-1]


def header(text: str) -> Iterator[Span]:
    """Values of `Authorization` and `Cookie` headers, in a request, a mapping or a command."""
    for match in _HEADER.finditer(text):
        if match["said"] or match["sep"] not in (":", "="):
            continue
        begin = match.end()
        if match["quote"]:
            value = _quoted(text, match)
        else:
            found = (_COOKIES if match["cookie"] else _AUTHORIZATION).match(text, begin)
            value = found[0].rstrip(")]}. \t") if found else ""
        if value and _is_header(value, cookie=match["cookie"] is not None):
            yield begin, begin + len(value)


def _quoted(text: str, match: re.Match[str]) -> str:
    """The value up to the quote that closes it, or up to where the text was cut.

    At depth n of JSON inside JSON a quote stands behind 2^n - 1 backslashes; quotes inside the
    value stand behind more of them, and quotes of an outer text behind fewer.
    """
    quote, begin = match["quote"], match.end()
    mark, deepest = quote[-1], len(quote).bit_length()
    line = _LINE.match(text, begin, begin + MAX_VALUE)
    value = line[0] if line else ""
    for spot in _QUOTES.finditer(value):
        slashes = len(spot[1])
        depth = depth_of_quote(slashes, deepest)
        outer = spot[2] == '"' and slashes % 2 == 0 and _STRUCTURE.match(value, spot.end())
        if (spot[2] == mark and depth is not None) or outer:
            end = spot.end() - 1 - (2**depth - 1 if depth is not None else 0)
            value = value[:end]
            break
    # A quote behind `password:` may as well close the text that ends with these words.
    return "" if value.lstrip()[:1] in (*",:}])", "") else value


def depth_of_quote(slashes: int, deepest: int) -> int | None:
    """How deep in JSON inside JSON a quote behind so many backslashes opens or closes a string."""
    return next((d for d in range(deepest) if slashes % 2 ** (d + 1) == 2**d - 1), None)


def _unquoted(text: str, begin: int) -> str:
    found = _UNQUOTED.match(text, begin)
    return found[0].rstrip(")]}.") if found else ""


def _is_secret(match: re.Match[str], value: str) -> bool:
    """Whether the value is one: no placeholder, no code, no plain word where words are usual."""
    if _NOTHING.fullmatch(value) or (not match["quote"] and _CODE.match(value)):
        return False
    if match["said"]:
        return bool(match["strong"]) and len(value) >= 4 and looks_random(value)
    if match["sep"] == ">" and (not match["strong"] or match["quote"]):
        return False  # `<password>...</password>`; elsewhere `>` compares
    if match["strong"]:
        path = match["strong"].lower() == "pwd" and value.startswith(("/", "~"))
        return not path and (len(value) >= 6 or (len(value) >= 4 and looks_random(value)))
    return _is_weak_secret(match, value)


def _is_weak_secret(match: re.Match[str], value: str) -> bool:
    if _BLANK.search(value):
        return False
    if match["bare"]:
        return len(value) >= 16 and looks_random(value)
    if match["quote"]:
        return len(value) >= 6
    return len(value) >= 8 and looks_random(value) and not value.isdigit()


def _is_header(value: str, *, cookie: bool) -> bool:
    if cookie:
        return _PAIR.search(value) is not None
    scheme = _HAS_SCHEME.match(value)
    if scheme:
        return not _NOTHING.fullmatch(scheme["rest"]) and looks_random(scheme["rest"])
    return len(value) >= 8 and looks_random(value) and " " not in value.strip()


def secret_key(key: str, value: str) -> bool:
    """Whether a value that stands under this key in a structure is a secret."""
    named, sent = _under_key(key[-64:])
    if named is not None and _is_secret(named, value):
        return True
    return sent is not None and _is_header(value, cookie=sent["cookie"] is not None)


@lru_cache(maxsize=4096)
def _under_key(key: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    """What the key says of a value, as a name of secrets and as a header."""
    told = f'"{key}": "'
    named, sent = _KEYED.search(told), _HEADER.search(told)
    return (
        named if named is not None and named["quote"] else None,
        sent if sent is not None and sent["quote"] else None,
    )
