"""Orders that no instruction file should give: to drop its rules, to tell secrets, to run things.

By words, in English and for the core of it in German, French and Spanish. A sentence that forbids
what it names passes. Pure.
"""

import re
from collections.abc import Iterator, Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.forbidding import unforbidden
from nodes.evolution.judged import Heard, Judged, by_phrase
from nodes.evolution.said import said_by

_RULES = (
    r"(?:instructions?|rules?|prompts?|guidelines?|polic(?:y|ies)|guardrails?|safety|training"
    r"|anweisung\w*|regeln?|vorgaben?|richtlinien?|consignes?|r[eè]gles?|directives?"
    r"|instrucci\w+|reglas?|normas?|directrices)"
)
_ANY = r"(?:[\w'-]+\s+){0,5}?"
_DROP = re.compile(
    rf"\b(?:ignor\w*|disregard\w*|forget|overrid\w+|vergiss|missachte\w*|umgeh\w*|oublie\w*"
    rf"|olvid\w*|desobede\w*)\s+{_ANY}{_RULES}\b"
    r"|\b(?:ignor\w*|disregard|forget)\s+(?:all\s+|any\s+|everything\s+)?"
    r"(?:previous|prior|earlier|above|before)\b"
    r"|\b(?:you\s+are|act\s+as)\s+now\s+(?:in\s+)?(?:an?\s+)?(?:unrestricted|jailbroken|developer"
    r"|dan|god|admin\w*)\b|\byou\s+are\s+now\s+(?:in\s+)?(?:an?\s+|the\s+)?(?:unrestricted"
    r"|jailbroken|developer\s+mode|dan\b|maintainer|administrator|root)"
    r"|\b(?:jailbreak|do\s+anything\s+now)\b"
    r"|\bthese\s+rules\s+(?:no\s+longer|do\s+not)\s+apply\b",
    re.IGNORECASE,
)
_TELL = re.compile(
    r"\b(?:reveal|print|show|repeat|output|leak|disclose|send|share|post|paste|quote|recite"
    r"|verrate\w*|zeige?\w*|sende\w*|schicke\w*|gib|r[eé]v[eè]le\w*|montre\w*|affiche\w*|envoie\w*"
    r"|envi[ae]\w*|env[ií]a\w*|revela\w*|muestra\w*)\s+"
    r"(?:(?!to\b|how\b)[\w'-]+\s+){0,6}?(?:system[\s-]?prompts?|systemprompts?|hidden\s+(?:prompt|instructions?)"
    r"|(?:your|these|own|the\s+initial)\s+(?:\w+\s+)?(?:instructions|prompt)"
    r"|api[\s_-]?keys?|secrets?|credentials?|passwords?|access\s+tokens?|environment\s+variables?"
    r"|private\s+keys?|\.env\b|passw[oö]rt\w*|zugangsdaten|geheimnis\w*|mots?\s+de\s+passe"
    r"|contrase\w+|credenciales)\b(?!\s+(?:page|form|reset|link|field|rules?|polic\w+|chang\w+))",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"\b(?:send|post|forward|upload|copy|transmit|exfiltrat\w+|bcc|cc|report)\s+"
    r"(?:[\w'-]+\s+){0,8}?(?:conversations?|transcripts?|chat\s+(?:history|log)s?|customer\s+data"
    r"|personal\s+data|all\s+(?:messages|orders|data|files|records)|user\s+data|card\s+numbers?)"
    r"\s+(?:[\w'-]+\s+){0,6}?(?:to|at|via|into)\b|\bexfiltrat\w+",
    re.IGNORECASE,
)
_CONCEAL = re.compile(
    r"\b(?:do\s+not|don't|never)\s+(?:tell|mention|inform|show|reveal|report|disclose)\s+"
    r"(?:[\w'-]+\s+){0,6}?(?:this\s+(?:rule|instruction|step|note|change|section)|to\s+the\s+"
    r"(?:reviewer|operator|developer)s?|the\s+(?:reviewer|operator|developer|auditor?)s?)\b"
    r"|\bwithout\s+(?:telling|informing|logging|notifying|the\s+(?:user|customer)\s+(?:knowing"
    r"|noticing))\b|\b(?:secretly|covertly|silently\s+(?:send|forward|copy|approve|refund))\b",
    re.IGNORECASE,
)
_ORDERS = (
    (_DROP, "drops the rules"),
    (_TELL, "gives away what must stay inside"),
    (_AWAY, "sends data away"),
)
_SHELL = re.compile(
    r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^\n]{0,300}\|\s{0,4}(?:sudo\s+)?(?:ba|z|da|c|k)?sh\b"
    r"|\b(?:curl|wget)\b[^\n]{0,300}\|\s{0,4}(?:python\d?|perl|ruby|node|php|iex)\b"
    r"|\b(?:ba|z)?sh\s+-c\b|\b(?:ba|z)?sh\s+<\(|\beval\s+[\"'$(]|\biex\s*\("
    r"|\brm\s+-[a-z]*[rf][a-z]*\s|\brm\s+--recursive|\bmkfs\b|\bdd\s+if=|>\s*/dev/sd[a-z]"
    r"|:\(\)\s*\{|\bchmod\s+(?:-[a-z]+\s+)?(?:[0-7]?777|\+s|u\+s)\b|\bbase64\s+(?:-d|--decode)\b"
    r"|\b(?:nc|ncat|netcat)\s+(?:-[a-z]+\s+)|/dev/tcp/|\bcrontab\s+-|\bsudo\s+\w"
    r"|\bdrop\s+(?:table|database)\b|\btruncate\s+table\b|\bdelete\s+from\s+\w+\s*;"
    r"|\bgit\s+push\s+(?:\S+\s+)?(?:-f\b|--force)|\bos\.system\s*\(|\bsubprocess\.|\b(?:__)?import(?:__)?\s?\("
    r"|\bpowershell\b[^\n]{0,60}-e(?:nc|ncodedcommand)?\b|\bpip3?\s+install\s+(?:git\+|http)",
    re.IGNORECASE,
)
_RUNS = re.compile(
    r"\b(?:run|execute|start|launch|f[uü]hre|ex[eé]cute\w*|lance\w*|ejecuta\w*)\s+"
    r"(?:[\w'-]+\s+){0,4}?(?:commands?|scripts?|binar(?:y|ies)|shell|code|befehle?|skripte?|"
    r"commandes?|comandos?)\b",
    re.IGNORECASE,
)


def order_problems(changes: Sequence[TextChange]) -> Judged:
    """Orders to drop rules, to give secrets away or to send data; hiding things is warned of."""
    removed = "\n".join(c.removed for c in changes).casefold()
    return by_phrase(one for one in _orders(changes) if one.words.casefold() not in removed)


def _orders(changes: Sequence[TextChange]) -> Iterator[Heard]:
    for said in said_by(changes):
        for pattern, what in _ORDERS:
            match, sure = unforbidden(pattern, said.text)
            if match:
                yield said.heard(what, match, sure=sure)
        if hides := _CONCEAL.search(said.text):
            yield said.heard("keeps something from people", hides[0], sure=False)


def command_problems(changes: Sequence[TextChange]) -> Judged:
    """Commands that destroy or fetch and run; any other order to run something is warned of."""
    return by_phrase(_commands(changes))


def _commands(changes: Sequence[TextChange]) -> Iterator[Heard]:
    for said in said_by(changes):
        match, sure = unforbidden(_SHELL, said.text)
        if match:
            what = "a command that destroys, hides or fetches and runs"
            yield said.heard(what, match, sure=sure)
            continue
        runs, _ = unforbidden(_RUNS, said.text)
        if runs:
            yield said.heard("tells the agent to run something", runs, sure=False)
