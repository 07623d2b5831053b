"""Personal data that a pattern alone cannot tell: e-mail, cards, IBANs, telephone numbers.

Each finder yields the (start, end) of what is to be masked, and is called only for texts in which
its rule's prefilter occurs.
"""

import re
from collections.abc import Iterator
from typing import Final

from configs.redaction_values import Span

_CODED = r"\\{1,7}u(?!00[0-7])[0-9a-fA-F]{4}"
"""A letter as JSON writes it in ASCII."""
_AT = (re.compile("@"), re.compile("%40"))
_DOMAIN = re.compile(
    rf"(?:[\w-]|{_CODED}){{1,63}}(?:\.(?:[\w-]|{_CODED}){{1,63}}){{0,6}}?"
    rf"\.(?:xn--[\w-]{{1,59}}|(?:[^\W\d_]|{_CODED}){{2,24}})(?![\w-]|\.[^\W\d_]{{2}})"
)
_LOCAL = re.compile(rf"(?:[\w.+%-]|{_CODED}){{1,64}}\Z")


def email(text: str) -> Iterator[Span]:
    """Addresses, also percent-encoded; the clone address `git@` is none."""
    for sign in _AT:
        for at in sign.finditer(text):
            domain = _DOMAIN.match(text, at.end())
            local = _LOCAL.search(text, max(0, at.start() - 64), at.start()) if domain else None
            if domain and local and _is_local(text, local):
                yield local.start(), domain.end()


def _is_local(text: str, local: re.Match[str]) -> bool:
    """Whether a mailbox stands before the sign, and not just an escape of a line break."""
    name = local[0]
    if text[local.start() - 1 : local.start()] == "\\" and name[0] in "bfnrt":
        name = name[1:]
    return any(c.isalnum() for c in name) and name.lower() != "git"


_DIGIT_RUN = re.compile(r"[0-9](?:[ -]?[0-9]){12,}")
_GROUP = re.compile(r"[0-9]+")
_BRANDS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|"
    r"3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|6(?:011|5\d\d|4[4-9]\d)\d{12,15}|35\d{14}|62\d{14,17}|"
    r"(?:50(?:18|20|38)|5893|6304|6759|676[1-3])\d{9,15}"
)


def card(text: str) -> Iterator[Span]:
    """Card numbers: a known issuer, its length, the check digit, and groups as cards print them."""
    for run in _DIGIT_RUN.finditer(text):
        groups = [(g.start(), g.end()) for g in _GROUP.finditer(text, run.start(), run.end())]
        at = 0
        while at < len(groups):
            taken = next((n for n in _card_groups(text, groups, at)), 0)
            if taken:
                yield groups[at][0], groups[at + taken - 1][1]
            at += taken or 1


def _card_groups(text: str, groups: list[Span], at: int) -> Iterator[int]:
    begin = groups[at][0]
    if begin and not _free_before(text, begin):
        return
    digits = ""
    for taken, (start, end) in enumerate(groups[at : at + 5], 1):
        if taken > 1 and not 1 <= end - start <= 6:
            return
        digits += text[start:end]
        if len(digits) > 19:
            return
        if _free_behind(text, end) and _BRANDS.fullmatch(digits) and luhn(digits):
            yield taken


def _free_before(text: str, at: int) -> bool:
    """Whether a number may begin here: behind no letter, digit, decimal point or hyphen."""
    if _ESCAPED.search(text, max(0, at - 6), at):
        return True
    before = text[at - 1]
    behind = text[at - 2 : at - 1]
    if (before in ".," and behind.isdigit()) or (before == "-" and behind.isalnum()):
        return False
    return not (before.isalnum() or before == "_")


def _free_behind(text: str, at: int) -> bool:
    behind = text[at : at + 2]
    if behind[:1].isalnum() or behind[:1] == "_":
        return False
    return not (behind[:1] == "." and behind[1:].isdigit()) and not (
        behind[:1] == "-" and behind[1:].isalnum()
    )


_ESCAPED = re.compile(r"\\(?:[bfnrt]|u[0-9a-fA-F]{4})\Z")


def luhn(digits: str) -> bool:
    """The check digit of a card number; all digits the same is none."""
    numbers = [int(c) for c in digits if c.isdigit()]
    doubled = [d * 2 - 9 * (d > 4) if i % 2 else d for i, d in enumerate(reversed(numbers))]
    return sum(doubled) % 10 == 0 and len(set(numbers)) > 1


_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}")
_IBAN_LENGTHS: Final = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD FK", 19: "MK SI", 20: "AT BA EE KZ LT LU XK MN",
        21: "CH CR HR LI LV", 22: "BG BH DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ DZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST",
        26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def iban(text: str) -> Iterator[Span]:
    """Account numbers: a country's own length and the check number."""
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[0][:2])
        begin = match.start()
        if length is None or (begin and not _free_before(text, begin)):
            continue
        end, compact = begin, ""
        while end < match.end() and len(compact) < length:
            compact += text[end].strip(" -")
            end += 1
        if len(compact) == length and _free_behind(text, end) and _iban_holds(compact):
            yield begin, end


def _iban_holds(compact: str) -> bool:
    rotated = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1


_ABROAD = re.compile(r"\+\(?[1-9][0-9 ().\-/]{6,24}")
_AT_PHONE = re.compile(
    r"(?:(?<![A-Za-z])|(?<=[a-z_])(?=[PTMCFW][a-z]))"
    r"(?i:tele?phone|phone|tel(?:efon[eo]?)?|mobile|cell(?:ular|phone)?|fax|whatsapp|handy|celular|"
    r"m[óo]vil|(?:call|text|reach) (?:me|us|him|her|them))"
    r"(?i:s|[_ -]?(?:numbers?|num|no|nr|home|work|office|primary))?"
    r"(?:[\"'\\:=#. -]|(?i:is|at|on)){1,7}?"
    r"(?P<number>[+(]?[0-9][0-9 ().\-/]{5,20}[0-9])(?![0-9A-Za-z_])",
    re.ASCII,
)
_DATE = re.compile(r"\(?(?:19|20)\d\d[-/.]?(?:0\d|1[0-2])[-/.]?[0-3]\d")
_UNLIKE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9]+\.[0-9]+")


def phone_abroad(text: str) -> Iterator[Span]:
    """Numbers in international form."""
    for match in _ABROAD.finditer(text):
        begin = match.start()
        glued = begin and (text[begin - 1].isalnum() or text[begin - 1] in "+_%")
        if not glued or _ESCAPED.search(text, max(0, begin - 6), begin):
            yield from _abroad(text, begin, match.end())


def phone_named(text: str) -> Iterator[Span]:
    """Numbers behind a word for a telephone, or under such a key."""
    for match in _AT_PHONE.finditer(text):
        number = match["number"]
        digits = sum(c.isdigit() for c in number)
        if 7 <= digits <= 15 and not _DATE.match(number) and not _UNLIKE.fullmatch(number):
            yield match.span("number")


def _abroad(text: str, begin: int, end: int) -> Iterator[Span]:
    """What the library of telephone numbers takes for one at `begin`, without what follows it."""
    from phonenumbers import Leniency, PhoneNumberMatcher  # noqa: PLC0415  # loads its tables

    window = text[begin:end]
    for _ in range(4):
        for found in PhoneNumberMatcher(window, None, leniency=Leniency.POSSIBLE, max_tries=3):
            yield begin + found.start, begin + found.end
            return
        window = window.rpartition(" ")[0]
