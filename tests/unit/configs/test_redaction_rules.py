"""Promise 8: secrets and personal data are masked; ordinary text is left alone.

Every key is made up here and joined at run time, so that no file holds one.
"""

import asyncio
import json

import pytest

from configs.redaction import (
    current_redactor,
    find_secrets,
    names_in_use,
    redact,
    redact_head,
    redaction_rules,
    redactor,
    use_names,
)
from contracts.errors import ConfigError

B62 = "a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZa1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ"
HEX = "0123456789abcdef" * 4
UUID = "d5c1e2f3-0a1b-4c2d-8e3f-001122334455"

VENDOR_KEYS = {
    "openai": ("sk-" + B62[:48], "api key"),
    "openai letters only": ("sk-" + "abcdefghijklmnopqrstuvwx", "api key"),
    "openai project": ("sk-" + "proj-" + B62[:40] + "_" + B62[3:20], "api key"),
    "anthropic": ("sk-" + "ant-api03-" + B62[:60] + "-AA", "api key"),
    "openrouter": ("sk-" + "or-v1-" + HEX, "api key"),
    "langfuse public": ("pk-" + "lf-" + UUID, "api key"),
    "langfuse secret": ("sk-" + "lf-" + UUID, "api key"),
    "langfuse webhook": ("lf-" + "whsec_" + HEX, "access token"),
    "langsmith": ("lsv2" + "_pt_" + HEX[:32] + "_" + HEX[:10], "access token"),
    "langsmith old": ("ls_" + "_" + HEX[:32], "access token"),
    "groq": ("gsk" + "_" + B62[:52], "api key"),
    "github": ("gh" + "p_" + B62[:36], "access token"),
    "github server": ("gh" + "s_" + B62[:36], "access token"),
    "github fine": ("github" + "_pat_" + B62[:22] + "_" + B62[:59], "access token"),
    "gitlab": ("gl" + "pat-" + B62[:20], "access token"),
    "slack bot": ("xox" + "b-" + "123456789012-123456789012-" + B62[:24], "access token"),
    "slack app": ("xapp" + "-1-A0123ABC-123456789-" + HEX[:40], "access token"),
    "slack webhook": ("hooks.slack" + ".com/services/T01234567/B01234567/" + B62[:24], "webhook"),
    "discord webhook": ("discord" + ".com/api/webhooks/123456789012345678/" + B62[:60], "webhook"),
    "discord bot": ("M" + B62[:23] + "." + B62[:6] + "." + B62[:38], "access token"),
    "aws": ("AKIA" + "ABCDEFGH12345678", "aws key"),
    "aws session": ("ASIA" + "ABCDEFGH12345678", "aws key"),
    "google": ("AIza" + B62[:35], "google key"),
    "google oauth": ("ya29" + "." + B62[:60], "google key"),
    "google client": ("GOCSPX" + "-" + B62[:28], "google key"),
    "azure client": ("abc" + "8Q~" + B62[:34], "access token"),
    "stripe": ("sk" + "_live_" + B62[:24], "api key"),
    "stripe restricted": ("rk" + "_test_" + B62[:24], "api key"),
    "stripe webhook": ("wh" + "sec_" + B62[:32], "access token"),
    "twilio": ("SK" + HEX[:32], "access token"),
    "sendgrid": ("SG" + "." + B62[:22] + "." + B62[:43], "access token"),
    "hugging face": ("hf" + "_" + B62[:34], "access token"),
    "npm": ("npm" + "_" + B62[:36], "access token"),
    "pypi": ("pypi" + "-AgEIcHlwaS5vcmc" + B62[:60], "access token"),
    "telegram": ("1234567890" + ":AA" + B62[:33], "access token"),
    "digitalocean": ("dop" + "_v1_" + HEX, "access token"),
    "databricks": ("dapi" + HEX[:32], "access token"),
    "supabase": ("sbp" + "_" + HEX[:40], "access token"),
    "vault": ("hvs" + "." + B62[:24], "access token"),
    "jwt": ("eyJ" + B62[:20] + ".eyJ" + B62[:30] + "." + B62[:43], "token"),
    "mailgun": ("key" + "-" + HEX[:32], "access token"),
    "shopify": ("shp" + "at_" + HEX[:32], "access token"),
    "atlassian": ("ATATT3" + "xFfGF0" + B62[:60], "access token"),
    "doppler": ("dp" + ".pt." + B62[:43], "access token"),
    "pem": (
        "-----BEGIN RSA " + "PRIVATE KEY-----\n" + (B62[:64] + "\n") * 3
        + "-----END RSA " + "PRIVATE KEY-----",
        "private key",
    ),
}  # fmt: skip

ADDRESS = ("ann" + "@example.com", "email")
PERSONAL = {
    "email": ADDRESS,
    "email with plus": ("jo.ann+x" + "@mail.example.co.uk", "email"),
    "email of another script": ("jürgen" + "@müller.example", "email"),
    "email in a url": ("ann" + "%40example.com", "email"),
    "card": ("4111 " + "1111 1111 1111", "card number"),
    "card with hyphens": ("5555-" + "5555-5555-4444", "card number"),
    "card without blanks": ("3782" + "82246310005", "card number"),
    "card of amex": ("3782 " + "822463 10005", "card number"),
    "iban": ("DE89 " + "3704 0044 0532 0130 00", "iban"),
    "iban without blanks": ("GB82" + "WEST12345698765432", "iban"),
    "phone abroad": ("+49 " + "30 901820", "phone"),
    "phone of films": ("+1 " + "555 010 9999", "phone"),
    "phone without blanks": ("+" + "14155552671", "phone"),
    "phone with area": ("(415) " + "555-2671", "phone"),
}
ALL = {**VENDOR_KEYS, **PERSONAL}
ROUND_IT = {
    "alone": "{}",
    "in a sentence": "use {}, please.",
    "at the end of a sentence": "It is {}.",
    "in quotes": 'the "{}" one',
    "assigned": "X={}",
    "in a list": "a,{},b",
    "in brackets": "({})",
    "on a line": "one\n{}\ntwo",
}


@pytest.mark.parametrize("around", ROUND_IT)
@pytest.mark.parametrize("kind", ALL)
def test_a_secret_is_masked_wherever_it_stands(kind: str, around: str) -> None:
    secret, name = ALL[kind]
    assert redact(ROUND_IT[around].format(secret)) == ROUND_IT[around].format(f"[{name}]")


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("kind", ALL)
def test_a_secret_is_masked_behind_escapes_of_json(kind: str, depth: int) -> None:
    secret, name = ALL[kind]
    text, wanted = f"one\n{secret}\ttwo", f"one\n[{name}]\ttwo"
    for _ in range(depth):
        text, wanted = json.dumps({"a": text}), json.dumps({"a": wanted})
    assert redact(text) == wanted


NAMED = [
    ('{"password": "hunter2222"}', '{"password": "[password]"}'),
    ('{"password": "two words, and: more;"}', '{"password": "[password]"}'),
    ('{"api_key": "abcdefgh"}', '{"api_key": "[password]"}'),
    ('{"a": "{\\"api_key\\": \\"a b\\\\\\"c12345\\", \\"n\\": 1}"}', None),
    ('{"a": "{\\"password\\": \\"a b\\\\\\"c12345\\", \\"n\\": 1}"}',
     '{"a": "{\\"password\\": \\"[password]\\", \\"n\\": 1}"}'),
    ("{'password': 'it is long'}", "{'password': '[password]'}"),
    ("{'secret': None, 'n': 1}", None),
    ('"password":12345678}', '"password":"[password]"}'),
    ("password=hunter22&x=1", "password=[password]&x=1"),
    ("DB_PASSWORD=P@ss(w)rd!", "DB_PASSWORD=[password]"),
    ("db.password: swordfish", "db.password: [password]"),
    ("my password is hunter22", "my password is [password]"),
    ("your password is incorrect", None),
    ("AWS_SECRET_ACCESS_KEY=" + B62[:20] + "/" + B62[:19], "AWS_SECRET_ACCESS_KEY=[password]"),
    ("AccountName=x;AccountKey=" + B62[:60] + "==;EndpointSuffix=y",
     "AccountName=x;AccountKey=[password];EndpointSuffix=y"),
    ("<password>hunter2222</password>", "<password>[password]</password>"),
    ("deploy --token a1b2c3d4e5", "deploy --token [password]"),
    ("Authorization: Bearer " + "abc.DEF-123_" * 2, "Authorization: [authorization]"),
    ('"Authorization": "Basic ' + "dXNlcjpwYXNzd29yZA==" + '"',
     '"Authorization": "[authorization]"'),
    ("-H 'X-Api-Key: " + B62[:20] + "'", "-H 'X-Api-Key: [password]'"),
    ("Cookie: sid=abc123; theme=dark\nHost: x", "Cookie: [authorization]\nHost: x"),
    ('"set-cookie": "sid=abc123; Path=/"', '"set-cookie": "[authorization]"'),
    ("https://ann:s3cret@host/x", "https://[url password]@host/x"),
    ("redis://:s3cret@cache:6379", "redis://[url password]@cache:6379"),
    ("https://x.blob/y?sv=1&sig=" + B62[:40] + "%3D", "https://x.blob/y?sv=1&sig=[signature]"),
    ('"phone_number": "030 901820-11"', '"phone_number": "[phone]"'),
    ('"phone": 4155552671, "n": 2', '"phone": "[phone]", "n": 2'),
    ("call me at 415 555 2671", "call me at [phone]"),
    ('{\\"card\\": 4111111111111111}', '{\\"card\\": \\"[card number]\\"}'),
    ("AKIA" + "ABCDEFGH12345678" + ":" + B62[:40], "[aws key]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "masked"), NAMED)
def test_a_value_with_a_name_is_masked_whole(text: str, masked: str | None) -> None:
    wanted = text if masked is None else masked
    assert redact(text) == wanted
    assert bool(find_secrets(text)) == (wanted != text)


@pytest.mark.parametrize(
    "text",
    [
        "order A-1042 of 2026-11-30 10:00:00, 12,345.67 EUR",
        "trace 4bf92f3577b34da6a3ce929d0e0e4736 span 00f067aa0ba902b7",
        f"run {UUID}",
        "1234567890123456",
        "4111 1111 1111 1112 has no check digit, nor has GB82 WEST 1234 5698 7654 33",
        "1795510800000000000 and 1795510800000 and 1795510800",
        '{"input_tokens": 123456, "max_tokens": 4096, "token": "Hello", "key": "order"}',
        '"usage": {"prompt_tokens": 1234567, "cost": 0.1234567890123456}',
        "the task-management-of-the-backend is sk-learn based",
        "api_key=os.environ['OPENAI_API_KEY'], password=getpass()",
        '{"api_key": "YOUR_API_KEY"}'.replace("YOUR_API_KEY", "<your key>"),
        'password: str = Field(...), "password": null, "secret": "${SECRET}"',
        '{"password": {"type": "string"}, "required": ["password"]}',
        "basic understanding, bearer authentication, cookie: yes",
        "Authorization: required for all calls",
        "git@github.com:org/repo.git and @pytest.fixture and a @ b",
        "x = y + 1294.678 and (3(-5) + 4097 - 150)",
        'def f():\\n@pytest.mark.parametrize("x")',
        "+@pytest.mark.skipif(True)",
        'the pattern "PASSWORD=" in these files, the "PASSWORD=" prefix',
        "version 1.2.3.4 on 192.168.100.200:8080",
        "toolu_01A09q90qw90lq917835lq9 call_d5c1e2f30a1b4c2d",
        "phone support is open; order 12345678",
        "chatcmpl-" + B62[:29] + " req_" + B62[:24],
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text
    assert not find_secrets(text)


@pytest.mark.parametrize("kind", ["openai project", "anthropic", "github", "slack bot", "google"])
def test_a_key_that_was_cut_at_the_end_leaves_nothing(kind: str) -> None:
    secret, _ = VENDOR_KEYS[kind]
    prefix = len(secret) if kind == "google" else 13
    assert secret[:prefix] not in redact(f"the key is {secret[: prefix + 2]}")


@pytest.mark.parametrize("kind", VENDOR_KEYS)
def test_a_cut_leaves_no_part_of_a_secret(kind: str) -> None:
    secret, _ = VENDOR_KEYS[kind]
    text = "word " * 8 + secret + " more" * 400
    whole = redact(text)
    for limit in range(40, 40 + len(secret), 3):
        head = redact_head(text, limit)
        assert len(head) <= limit
        assert whole.startswith(head.rstrip()) or head.endswith("]")


def test_hostile_text_is_masked_in_bounded_rounds() -> None:
    for text in ("sk-" * 30_000, "eyJ-" * 30_000, "password:'" * 9_000, "-----BEGIN " * 9_000,
                 "cookie:a=" * 9_000, "+1" * 40_000, "4 " * 40_000, "a@b." * 20_000):  # fmt: skip
        assert redact(redact(text)) == redact(text)


def test_names_are_whole_words_of_any_case_and_the_longest_wins() -> None:
    masks = redactor(("Ann", "Ann Lee", "José", "Müller GmbH", "a.b*"))
    assert masks.redact("ANN LEE and ann, Anna; Ann's") == "[name] and [name], Anna; [name]'s"
    assert masks.redact("JOSÉ, Jose\u0301, josé") == "[name], [name], [name]"
    assert masks.redact(json.dumps({"said": "to\nAnn of müller  gmbh, José"})) == (
        json.dumps({"said": "to\n[name] of [name], [name]"})
    )
    assert masks.redact("a.b* but not axb*") == "[name] but not axb*"


def test_a_name_is_found_under_every_case_of_its_letters() -> None:
    masks = redactor(("Ilkin", "Strauß"))
    assert masks.redact("ILKİN, \u0131lk\u0131n, \u017ftrauß, STRAU\u1e9e") == ", ".join(
        ["[name]"] * 4
    )


def test_a_name_of_a_script_without_blanks_is_found_inside_words() -> None:
    assert redactor(("张伟",)).redact("客户张伟先生") == "客户[name]先生"


def test_a_name_that_is_part_of_a_mask_leaves_masks_alone() -> None:
    masks = redactor(("name", "key", "api key"))
    assert (
        masks.redact("my name, my key, [api key] [name]")
        == "my [name], my [name], [api key] [name]"
    )


@pytest.mark.parametrize("name", ["", " ", "A"])
def test_a_name_too_short_to_mean_anybody_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"redaction.names: got '.*', needs two letters"):
        redactor((name,))


async def test_one_projects_names_never_apply_to_anothers_text() -> None:
    text = "Ann met Bob"

    async def project(name: str, other: asyncio.Event, mine: asyncio.Event) -> list[str]:
        use_names([name])
        mine.set()
        await other.wait()
        return [redact(text), await asyncio.to_thread(redact, text)]

    one, two = asyncio.Event(), asyncio.Event()
    ann, bob = await asyncio.gather(project("Ann", two, one), project("Bob", one, two))
    assert ann == ["[name] met Bob"] * 2
    assert bob == ["Ann met [name]"] * 2
    assert redact(text) == text


def test_names_end_with_their_block() -> None:
    with names_in_use(["Ann"]):
        assert redact("Ann") == "[name]"
        assert current_redactor() is redactor(("Ann",))
    assert redact("Ann") == "Ann"


def test_every_rule_has_a_prefilter() -> None:
    assert all(rule.prefilter for rule in redaction_rules())
