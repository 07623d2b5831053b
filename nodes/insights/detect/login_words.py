"""The words of a login, token or key that was not accepted, in a few languages.

A message is often wrapped: the class blames the back end, and the word that matters is deep in it.
"""

import re

_LOGIN = (
    r"(?:authori[sz]ation|authentication|auth|log-?in|sign-?in|credentials?|(?:\w{1,12}[ _-])?token"
    r"|session|api[ _-]?key|password|access[ _-]key|anmeldung|zugang|jeton|identifiants?"
    r"|credenciales?|contrase\u00f1a)"
)
_REFUSED = (
    r"(?:refused|rejected|expired|has run out|ran out|invalid|not valid"
    r"|no longer (?:valid|accepted)"
    r"|revoked|denied|missing|required|failed|incorrect|not recogni[sz]ed|not accepted"
    r"|abgelaufen|abgelehnt|ung\u00fcltig|expir\u00e9e?|refus\u00e9e?|invalide|caducad[oa]"
    r"|expirad[oa]|inv\u00e1lid[oa]|rechazad[oa])"
)
_AUTH = re.compile(
    rf"\b{_LOGIN}\b[^.\n;]{{0,40}}?\b{_REFUSED}\b"
    rf"|\b{_LOGIN}\b[^\n;]{{0,24}}?\b(?:expired|no longer valid|revoked)\b"
    rf"|\b{_REFUSED}\b[^.\n;]{{0,24}}?\b{_LOGIN}\b"
    r"|\bunauthori[sz]ed\b|\bunauthenticated\b|\bnot (?:logged|signed) in\b"
    r"|\b(?:log|sign) in (?:again|first)\b|\blog-?in required\b"
    r"|\bnicht (?:angemeldet|autorisiert)\b|\bnon autoris\u00e9e?\b|\bno autorizad[oa]\b",
    re.IGNORECASE,
)
_HINTS = (
    "auth", "token", "login", "log in", "log-in", "logged", "sign in", "signed in", "sign-in",
    "credential", "session", "api key", "api_key", "api-key", "apikey", "password", "access key",
    "access_key", "access-key", "anmeldung", "angemeldet", "autoris", "zugang", "jeton",
    "identifiant", "contrase", "autoriz",
)  # fmt: skip
_READ = 2000
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|until|in case|how to|wenn|falls|sobald|si|cuando|quand"
    r"|lorsque)\b[^.;!?\n]*\Z",
    re.IGNORECASE,
)
_BEFORE = 120


def says_auth(text: str) -> bool:
    """Whether the text says that a login, token or key was not accepted."""
    head = text[:_READ]
    low = head.lower()
    return any(hint in low for hint in _HINTS) and _AUTH.search(head) is not None


def reports_auth(text: str) -> bool:
    """Whether the text says so of what just happened, and not of what to do in such a case.

    For answers that nobody marked as failed: pages and manuals speak of logins too.
    """
    head = text[:_READ]
    low = head.lower()
    if not any(hint in low for hint in _HINTS):
        return False
    return any(
        _CONDITION.search(head[max(0, match.start() - _BEFORE) : match.start()]) is None
        for match in _AUTH.finditer(head)
    )
