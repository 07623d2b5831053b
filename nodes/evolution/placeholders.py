"""Variables that some program fills in before the model sees a text.

Which program that is, the harness does not say; so a form that was there must stay as it was, and
no new one may come into a text that has some.
"""

import re

_INNER = r"[A-Za-z_#/^&!>][\w.\-\[\]#/ ]{0,80}"
_PLACEHOLDER = re.compile(
    r"@@@[^@\n]{1,300}@@@"
    r"|<%(?:(?!<%|%>)[\s\S]){1,300}%>"
    r"|\{%(?:(?!\{%|%\})[\s\S]){1,300}%\}"
    r"|\{#(?:(?!\{#|#\})[\s\S]){1,300}#\}"
    r"|\{\{\{\s{0,8}" + _INNER + r"\}\}\}"
    r"|\{\{\s{0,8}" + _INNER + r"(?:\|[^{}\n]{1,80})?\}\}"
    r"|\$\{[A-Za-z_]\w{0,80}\}"
    r"|%\([A-Za-z_]\w{0,80}\)[sdifr]"
    r"|\[\[\s{0,8}[A-Za-z_][\w.\- ]{0,80}\]\]"
    r"|\{[A-Za-z_][\w.\-\[\]]{0,80}(?:![rsa])?(?::[^{}\n]{0,20})?\}"
)
_BY_PLACE = re.compile(r"(?<![\w%])%[sdif](?![\w%])")
"""Filled by order, as by `%`: one more or less, and the wrong value is filled in or none."""
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_PROGRAMS = ("@@@", "<%", "{%", "{{")
"""Forms that only programs write; in a text without variables a new one may be left unfilled."""
_CODE = re.compile(r"```[\s\S]*?```|`[^`\n]{0,400}`")


def placeholders(text: str) -> frozenset[str]:
    """All forms that occur, as written."""
    return frozenset(_PLACEHOLDER.findall(text))


def placeholder_problems(before: str, after: str, *, strict: bool = False) -> tuple[str, ...]:
    """What an edit does to the placeholders and braces of one text, in sentences.

    Strict where a program is known to fill the text in: then a text without variables gets none.
    """
    old, new = placeholders(before), placeholders(after)
    lost, gained = sorted(old - new), sorted(new - old)
    problems: list[str] = []
    for form in lost:
        became = [other for other in gained if _name(other) == _name(form)]
        if became:
            gained.remove(became[0])
            problems.append(f"placeholder changed: `{form}` became `{became[0]}`")
        else:
            problems.append(f"placeholder lost: `{form}`")
    if old or strict:
        problems += [f"placeholder added that nothing fills: `{form}`" for form in gained]
    else:
        problems += [f"another prompt is pulled in: `{f}`" for f in gained if f.startswith("@@@")]
    by_place = len(_BY_PLACE.findall(before)), len(_BY_PLACE.findall(after))
    if by_place[0] and by_place[0] != by_place[1]:
        problems.append(f"{by_place[0]} values are filled in by place (%s), now {by_place[1]}")
    if _balance(before) == 0 != _balance(after):
        problems.append("braces no longer balance")
    if _formatted(old) and _loose(after) > _loose(before):
        problems.append("a single brace was added to a text whose variables are in single braces")
    return tuple(problems)


def placeholder_warnings(before: str, after: str) -> tuple[str, ...]:
    """Variables that come into a text without any, where perhaps no program fills them."""
    if placeholders(before):
        return ()
    new = placeholders(_CODE.sub("", after)) - placeholders(before)
    return tuple(
        f"a placeholder that perhaps nothing fills: `{form}`"
        for form in sorted(new)
        if form.startswith(_PROGRAMS)
    )


def _name(form: str) -> str:
    found = _NAME.search(form)
    return found[0] if found else form


def _balance(text: str) -> int:
    return text.count("{") - text.count("}")


def _formatted(forms: frozenset[str]) -> bool:
    """Whether the text looks like one for `str.format`, where any other brace is an error."""
    single = [f for f in forms if f.startswith("{") and not f.startswith(("{{", "{%"))]
    return bool(single) and len(single) == len([f for f in forms if f.startswith("{")])


def _loose(text: str) -> int:
    """Braces that belong neither to a placeholder nor to a doubled brace."""
    rest = _PLACEHOLDER.sub("", text).replace("{{", "").replace("}}", "")
    return rest.count("{") + rest.count("}")
