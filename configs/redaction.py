"""Mask secrets and personal data where text leaves memory."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionRule:
    """One pattern; `prefilter` literals make the common miss cheap."""

    name: str
    prefilter: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[str], bool]
    """A check of the matched text, such as a check digit, that keeps false alarms out."""

    def mask(self, match: re.Match[str]) -> str:
        """What stands in the text in place of the match."""
        if not self.holds(match[0]):
            return match[0]
        return f"{match.groupdict().get('keep') or ''}[{self.name}]"


def _luhn(text: str) -> bool:
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [d * 2 - 9 * (d > 4) if i % 2 else d for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _iban(text: str) -> bool:
    compact = text.replace(" ", "")
    rotated = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1


_CHECKS: dict[str | None, Callable[[str], bool]] = {
    None: lambda _: True,
    "luhn": _luhn,
    "iban": _iban,
}


@lru_cache(maxsize=1)
def redaction_rules() -> tuple[RedactionRule, ...]:
    """The packaged rules, in the order in which they apply."""
    text = resources.files("configs").joinpath("redaction.yaml").read_text("utf-8")
    return tuple(
        RedactionRule(
            name=rule["name"],
            prefilter=tuple(rule["prefilter"]),
            pattern=re.compile(rule["pattern"]),
            holds=_CHECKS[rule.get("check")],
        )
        for rule in yaml.safe_load(text)
    )


def redact(text: str) -> str:
    """The text with every secret replaced by `[name of the rule]`. Idempotent."""
    for rule in redaction_rules():
        if rule.prefilter and not any(literal in text for literal in rule.prefilter):
            continue
        text = rule.pattern.sub(rule.mask, text)
    return text


def find_secrets(text: str) -> list[str]:
    """Names of the rules that match, in their order; empty for clean text."""
    return [
        rule.name
        for rule in redaction_rules()
        if (not rule.prefilter or any(literal in text for literal in rule.prefilter))
        and any(rule.holds(m[0]) for m in rule.pattern.finditer(text))
    ]
