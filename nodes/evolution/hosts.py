"""Addresses that the agent's text does not name yet. Pure."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from nodes.evolution.change import TextChange
from nodes.evolution.judged import Judged, judged, quoted
from nodes.evolution.letters import plain

_LABEL = r"[^\W_](?:[\w-]{0,62})"
_NAME = rf"{_LABEL}(?:\.{_LABEL}){{1,8}}"
_REST = r"[^\s<>\"'`|\\^{}()\[\]]{1,2000}"
_URL = re.compile(rf"\b[a-zA-Z][a-zA-Z0-9+.-]{{0,20}}://(?:\[[0-9a-fA-F:.]{{2,60}}\])?{_REST}")
_RELATIVE = re.compile(rf"(?<![\w:/.*-])//{_REST}")
_MAIL = re.compile(rf"(?<=[\w+])@({_NAME})")
_ENDINGS = (
    "com|net|org|info|biz|io|dev|app|ai|co|xyz|top|site|online|club|shop|store|live|link|click|cloud"
    "|tv|cc|ru|cn|de|fr|es|nl|uk|eu|br|jp|tk|ml|ga|cf|ly|gg|ws"
)
_BARE = re.compile(
    rf"(?<![\w@/.-])(www\.{_NAME}|{_NAME}(?=/\S|:\d)|{_LABEL}(?:\.{_LABEL}){{0,4}}\.(?:com|net|org))\b"
)
_ENDING = re.compile(rf".*\.(?:{_ENDINGS}|xn--[\w-]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\.\d)(?=[:/]\S)")


def new_hosts(changes: Sequence[TextChange], known: str, *, person: bool) -> Judged:
    """Hosts that an edit names first, and addresses that carry data away.

    A person may name a host, which is warned of; nobody may send a variable in an address.
    """
    there = hosts(known)
    refused: list[str] = []
    named: list[str] = []
    for change in changes:
        text = f"{change.added}\n{plain(change.added)}"  # as written, and without markup
        for host in sorted(hosts(text) - there):
            kind = " (letters of another alphabet)" if _foreign(host) else ""
            named.append(
                f"{change.path}: names the host {quoted(host)}{kind}, which the agent's text does "
                "not name so far"
            )
        refused += [
            f"{change.path}: an address that carries data or a login: {quoted(url)}"
            for url in _carrying(text)
            if url not in known
        ]
    return judged([*refused, *([] if person else named)], named if person else ())


def hosts(text: str) -> frozenset[str]:
    """Every host that a text names, lower case, without port."""
    found = {_host(m[0]) for m in _URL.finditer(text)}
    found |= {h for m in _RELATIVE.finditer(text) if _ENDING.fullmatch(h := _host(m[0]))}
    found |= {m[1].casefold() for m in _MAIL.finditer(text)}
    found |= {m[1].casefold() for m in _BARE.finditer(text) if _ENDING.fullmatch(m[1])}
    found |= {m[0] for m in _ADDRESS.finditer(text)}
    return frozenset(host for host in found if host)


def _host(url: str) -> str:
    """The host as written; an address that no parser reads is its own host."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".,;:!?").casefold()
    except ValueError:
        return url.casefold()


def _foreign(host: str) -> bool:
    return "xn--" in host or not host.isascii()


def _carrying(text: str) -> Iterator[str]:
    """Addresses with a login, or with a query that is filled in when they are called."""
    for found in _QUERY.finditer(text):
        yield found[0]
    for found in _LOGIN.finditer(text):
        yield found[0]


_QUERY = re.compile(
    r"//[^\s<>\"'`?#]{1,400}[?#&][^\s\"'`]{0,400}?=(?:\{|<|%7B|\$|\[|[A-Z_]{4,}\b)[^\s\"'`]{0,100}"
)
_LOGIN = re.compile(r"//[^\s/@<>\"'`]{1,100}:[^\s/@<>\"'`]{1,100}@[^\s<>\"'`]{1,200}")
