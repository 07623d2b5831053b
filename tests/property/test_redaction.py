"""Redaction for any text: idempotent, no match hidden by a prefilter, valid JSON stays valid."""

import json
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from configs.redaction import Redactor, find_secrets, redact, redaction_rules, redactor
from configs.redaction_rules import RedactionRule
from contracts.json_types import Json
from tests.unit.configs.test_redaction_rules import ALL, NAMED

MASKS = sorted({f"[{rule.name}]" for rule in redaction_rules()} | {"[name]", "[redacted]"})
NAMES = ("Ann", "Müller", "key", "İlkin", "name", "Kß", "\u017fis")
PIECES = st.one_of(
    st.sampled_from([secret for secret, _ in ALL.values()]),
    st.sampled_from([text for text, _ in NAMED]),
    st.sampled_from(MASKS),
    st.sampled_from(
        ["password: ", '"api_key": "', "Bearer ", "://", "Cookie: a=", "phone ", "is "]
    ),
    st.sampled_from(
        ["\\", '"', "'", "[", "]", "@", "-", "_", ".", " ", "\n", "\\n", "\\u0041", "4"]
    ),
    st.sampled_from(
        [*NAMES, "ANN", "mÜLLER", "ilkin", "\u0131LKİN", "K", "\x1c", "\xa0", "\ud800"]
    ),
    st.text(max_size=6),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


class Unfiltered(Redactor):
    """The same rules, each tried on every text."""

    def _tried(self, text: str) -> Iterator[tuple[int, RedactionRule]]:
        del text
        return iter(enumerate(self.rules))


def unfiltered(names: tuple[str, ...]) -> Redactor:
    made = Unfiltered(names)
    made._may = lambda text: True  # type: ignore[misc]
    return made


OPEN = {names: unfiltered(names) for names in ((), NAMES)}


@given(TEXTS)
@example("password='\ud800\\")
def test_redaction_is_idempotent(text: str) -> None:
    for names in ((), NAMES):
        once = redactor(names).redact(text)
        assert redactor(names).redact(once) == once
        assert not redactor(names).find(once)


@given(TEXTS)
def test_a_prefilter_never_hides_a_match(text: str) -> None:
    for names, opened in OPEN.items():
        assert redactor(names).redact(text) == opened.redact(text)


@given(st.text(max_size=20), st.sampled_from(sorted(ALL)), st.text(max_size=20))
def test_a_secret_between_blanks_never_stays(before: str, kind: str, behind: str) -> None:
    secret, _ = ALL[kind]
    assert secret not in redact(f"{before} {secret} {behind}")


@given(st.sampled_from(MASKS), st.sampled_from(MASKS))
def test_masks_are_no_secrets(one: str, other: str) -> None:
    for text in (one, f"{one}{other}", f"password: {one}", f'"api_key": "{one}", {other}'):
        assert redact(text) == text
        assert not find_secrets(text)


KEYS = st.one_of(st.sampled_from(["password", "api_key", "phone", "a", "Authorization"]), TEXTS)
NUMBERS = st.sampled_from([4111111111111111, 12345678, 4155552671, 1.5, -3])
DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, st.one_of(inner, NUMBERS, inner.map(json.dumps)), max_size=3),
    ),
    max_leaves=6,
)


@given(DOCUMENTS, st.booleans(), st.integers(0, 2))
def test_valid_json_stays_valid(document: Json, ascii_only: bool, depth: int) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only)
    for _ in range(depth):
        text = json.dumps({"inside": text}, ensure_ascii=ascii_only)
    masked = redact(text)
    inner = json.loads(masked)
    assert type(inner) is type(json.loads(text))


@given(TEXTS, st.integers(0, 200))
def test_a_head_is_clean_and_no_longer_than_asked(text: str, limit: int) -> None:
    masks = redactor(NAMES)
    head = masks.head(text, limit)
    assert len(head) <= limit
    assert not masks.find(head)
