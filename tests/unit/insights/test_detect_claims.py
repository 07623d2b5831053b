"""Answers that say what did not happen, in several wordings, and near misses that stay silent."""

import pytest

from contracts.json_types import Json
from tests.silent_worlds import at, call, kinds, symptoms, the
from tests.trace_worlds import OtlpSpan, root, tool

REFUSED: Json = {"ok": False, "error": "channel_not_found"}


def claimed(said: str, *before: OtlpSpan, system: str = "You help.") -> tuple[OtlpSpan, ...]:
    """A run that ends with these words of the model."""
    return (root("go", said), *before, call(9, said, system=system, user="go"))


@pytest.mark.parametrize(
    ("tool_name", "arguments", "answer", "said"),
    [
        ("post_message", {"channel": "#eu", "text": "hi"}, REFUSED, "Posted it in #eu."),
        ("send_email", {"to": "ana"}, {"status": "error", "message": "mailbox full"},
         "I've sent the email to Ana, she should see it in a minute."),
        ("create_ticket", {"title": "Lamp"}, "Error: project is archived",
         "The ticket has been created."),
        ("refundOrder", {"order": "A-77"}, {"success": False, "message": "order not paid"},
         "Your order A-77 was refunded."),
        ("exec", {"cmd": "python report.py"}, "sh: 1: python: not found\nexit status 127",
         "report.py ran through: 18 rows, 3 columns."),
        ("bash", {"command": "make deploy"}, "make: *** [deploy] Error 2\nexit status 2",
         "Done! The deploy is finished."),
        ("lookup_weather", {"city": "Oslo"}, {"error": "upstream 500"},
         "It is 14 degrees in Oslo with light wind."),
        ("save_file", {"path": "notes.md"}, {"error": "disk full"},
         "Die Datei notes.md ist gespeichert."),
        ("enviar_correo", {"a": "luis"}, {"error": "buzon lleno"}, "El correo fue enviado a luis."),
        ("book_table", {"restaurant": "Lido", "people": 4}, "Request timed out after 30 s",
         "Your table at Lido is booked for 4 people."),
    ],
)  # fmt: skip
def test_a_claim_after_a_failed_tool_counts_at_the_answer(
    tool_name: str, arguments: Json, answer: Json, said: str
) -> None:
    steps = claimed(said, tool(1, tool_name, arguments, answer))
    assert at("unsupported_claim", *steps) == [9]
    assert the("unsupported_claim", *steps).signature == f"unsupported_claim:{tool_name}"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"ok": False, "error": "channel_not_found"}, "channel_not_found"),
        ({"success": False, "error": {"code": "CARD_DECLINED", "message": "Card 12 declined"}},
         "CARD_DECLINED"),
        ({"ok": False, "code": "not-in-stock"}, "not-in-stock"),
        ({"isError": True, "content": [{"type": "text", "text": "quota_reached_today"}]},
         "quota_reached_today"),
    ],
)  # fmt: skip
def test_the_bare_name_of_a_failure_is_in_its_signature(answer: Json, code: str) -> None:
    (found,) = [s for s in symptoms(root("go", "I could not."), tool(1, "act", {}, answer))
                if s.counts]  # fmt: skip
    assert found.signature == f"tool_error:act:{code}"


@pytest.mark.parametrize(
    "said",
    [
        "I could not post the message: the channel was not found.",
        "Posting failed, the channel #eu does not exist.",
        "Unfortunately nothing was posted. Shall I try another channel?",
        "The message has not been posted yet.",
        "Leider konnte ich die Nachricht nicht senden.",
        "D\u00e9sol\u00e9, le message n'a pas pu \u00eatre envoy\u00e9.",
        "No se pudo enviar el mensaje.",
        "Which channel shall I use?",
        "I will have it posted once the channel exists.",
        "Hello! What can I do for you?",
    ],
)
def test_an_answer_that_admits_the_failure_or_claims_nothing_is_no_claim(said: str) -> None:
    failed = tool(1, "post_message", {"channel": "#eu"}, REFUSED)
    assert "unsupported_claim" not in kinds(*claimed(said, failed))


def test_a_claim_is_none_where_the_tool_worked_in_the_end() -> None:
    failed = tool(1, "post_message", {"channel": "#eu"}, REFUSED)
    worked = tool(2, "post_message", {"channel": "#europe"}, {"ok": True})
    assert kinds(*claimed("Posted the note.", failed, worked)) == set()


def test_a_claim_belongs_to_the_call_that_fits_best() -> None:
    failed = tool(1, "refund_payment", {"order": "A-9"}, {"error": "gateway down"})
    queued = tool(2, "queue_refund", {"order": "A-9"}, {"queued": "A-9"})
    other = "The refund of A-9 was queued; you get a mail."
    assert "unsupported_claim" not in kinds(*claimed(other, failed, queued))
    told = tool(2, "log_note", {"text": "x"}, {"ok": True})
    assert "unsupported_claim" in kinds(*claimed("A-9 is refunded.", failed, told))


def test_a_word_that_a_program_gives_back_is_no_claim() -> None:
    assert kinds(root("go", "done"), tool(1, "pay", {}, {"error": "x"})) == {"tool_error"}


def test_a_claim_says_whether_the_instructions_ask_for_honesty_already() -> None:
    failed = tool(1, "post_message", {"channel": "#eu"}, REFUSED)
    steps = claimed("Posted.", failed, system="Be brief.\nIf a tool fails, tell the user so.")
    facts = the("unsupported_claim", *steps).evidence.facts
    assert facts["rule_line"] == 2
    silent = claimed("Posted.", failed, system="Be brief.")
    assert "rule_line" not in the("unsupported_claim", *silent).evidence.facts


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("Write reports. Use the lessons below.\n\nPast lessons:\n\n",
         "As I learned in 2019, frost comes late."),
        ("You advise.\n## Memory\n\n## Rules\nBe kind.",
         "Last time you bought 40 shares, so buy fewer."),
        ("Answer from the documents.\n<documents></documents>",
         "According to the documents, 62 % of users agree."),
        ("Answer from the notes.\nNotes: none\nBe brief.",
         "The notes say that 12 people came."),
        ("Du schreibst Berichte.\n\nFr\u00fchere Berichte:\n\n## Stil\nKurz.",
         "Wie damals im Jahr 2018 gilt: vorsichtig sein."),
        ("Use what you know of the guest.\n\nMemory: {{memory}}\n",
         "As you told me, a window seat is best."),
        ("Past trips:\n\n## Style\nShort.", "I remember that you liked the sea."),
        ("Context:\n[]\n\nUse it.", "Based on the context, revenue was 4.2 million."),
    ],
)  # fmt: skip
def test_a_made_up_memory_counts_where_its_place_in_the_prompt_is_empty(
    system: str, said: str
) -> None:
    steps = (root("report", said), call(1, said, system=system, user="report"))
    found = the("unsupported_claim", *steps)
    assert found.signature == "unsupported_claim:agent:empty_slot"
    assert found.counts


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("Use the lessons.\n\nPast lessons:\n- 2019: frost came late\n",
         "As I learned in 2019, frost comes late."),
        ("Use the lessons.\n\nPast lessons:\n\n", "There are no lessons yet; wheat looks fine."),
        ("Use the lessons.\n\nPast lessons:\n\n", "Wheat looks stable this May."),
        ("You count.\n\nAnswer:\n", "Last year it was 40."),
        ("Rules:\n\nBe kind.", "Last time you bought 40 shares."),
        ("Past lessons:\n\n", "12 apples and 4 pears."),
        ("Past lessons:\n\n", "I do not remember any report of 2019."),
        ("Memory:\n- likes the sea\n", "I remember that you liked the sea."),
    ],
)  # fmt: skip
def test_a_filled_place_or_a_plain_answer_is_no_made_up_memory(system: str, said: str) -> None:
    steps = (root("report", said), call(1, said, system=system, user="report"))
    assert "unsupported_claim" not in kinds(*steps)


@pytest.mark.parametrize(
    ("answer", "said", "code"),
    [
        ({"order": "A-1", "refunded": False}, "Order A-1 was refunded today.", "refunded"),
        ({"message_sent": False}, "The message is sent.", "message_sent"),
        ({"status": "pending"}, "Your parcel was delivered yesterday.", "status"),
        ({"state": "declined", "id": 3}, "The payment is approved.", "state"),
        ({"total": 12}, "There are 17 open bugs.", "total"),
        ({"exists": False}, "Yes, the account exists.", "exists"),
    ],
)
def test_an_answer_that_says_the_opposite_of_the_last_tool_counts(
    answer: Json, said: str, code: str
) -> None:
    steps = claimed(said, tool(1, "check", {"id": "7"}, answer))
    found = the("contradicted_output", *steps)
    assert (found.counts, found.signature) == (True, f"contradicted_output:check:{code}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"order": "A-1", "refunded": False}, "Order A-1 was not refunded."),
        ({"order": "A-1", "refunded": False}, "Order A-1 will be refunded tomorrow."),
        ({"status": "pending"}, "It is still pending; it will be delivered on Friday."),
        ({"status": "shipped"}, "Your parcel was shipped."),
        ({"total": 12}, "There are 12 open bugs."),
        ({"total": 12, "page": 5}, "I looked at page 5."),
        ({"exists": False}, "No, there is no such account."),
        ({"unavailable": False}, "Yes, it can be had."),
        ({"status": "pending"}, "I told you that, once it is approved, it is delivered."),
    ],
)
def test_an_answer_that_agrees_or_looks_ahead_is_no_contradiction(answer: Json, said: str) -> None:
    steps = claimed(said, tool(1, "check", {"id": "7"}, answer))
    assert "contradicted_output" not in kinds(*steps)


@pytest.mark.parametrize(
    ("system", "said", "missing"),
    [
        ("# Mail\n- End every mail with the line: Reply STOP to end.", "Hi,\nwe open at 8.", True),
        ('Always start each answer with "Dear guest,".', "Hello, we open at 8.", True),
        ("Close all replies with 'Have a calm day!'", "We open at 8.", True),
        ("- End every mail with the line: Reply STOP to end.", "We open at 8.\nReply STOP to end.",
         False),
        ("End every mail with a friendly greeting.", "We open at 8.", False),
        ("If you are asked for prices, always end the answer with 'No warranty.'", "At 8.", False),
        ("Always end with a question.", "We open at 8.", False),
    ],
)  # fmt: skip
def test_a_fixed_text_that_every_answer_must_hold(system: str, said: str, missing: bool) -> None:
    steps = (root("hours?", said), call(1, said, system=system, user="hours?"))
    assert ("ignored_instruction" in kinds(*steps)) is missing


def test_giving_up_ignoring_and_cuts_are_hints_that_never_count() -> None:
    gave_up = (root("?", "x"), call(1, "I was unable to find it.", user="?", offers=["search"]))
    looked = tool(1, "search", {"q": "a"}, "The museum opens at nine and closes at noon on Mondays")
    ignored = claimed("Please write another question, and add details of your request.", looked)
    cut = (
        root("?", "It says a."),
        tool(1, "read", {}, "a b c ... [output truncated]"),
        call(2, "It says a.", user="?"),
    )
    for kind, steps in (("gave_up", gave_up), ("ignored_output", ignored), ("cut_context", cut)):
        assert not the(kind, *steps).counts
        assert kinds(*steps) == set()


def test_an_answer_that_uses_the_tool_is_not_ignored() -> None:
    looked = tool(1, "search", {"q": "a"}, "The museum opens at nine and closes at noon on Mondays")
    steps = claimed("The museum opens at nine every day of the week.", looked)
    assert "ignored_output" not in {symptom.kind for symptom in symptoms(*steps)}
