"""Have we seen this: what is like a finding, why, what it did, and what of it still counts."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import Lesson
from memory import semantic
from memory.semantic_texts import finding_document, lesson_document
from memory.workspace import Workspace
from nodes.insights.recall import alike, kept, lesson_vectors, prepare, recall
from nodes.insights.tried import OLD, WEIGHT, tries, weight
from tests.ledger_worlds import NOW
from tests.run_worlds import Clock, make_project
from tests.semantic_worlds import about, seen

CANARY = "sk-ant-api03-" + "Zq9" * 16


def _ws(tmp_path: Path, **sections: object) -> Workspace:
    made = make_project(tmp_path / "home", tmp_path / "agent", **sections)  # type: ignore[arg-type]
    made.ledger.db.clock = Clock(NOW + timedelta(days=1))
    return made


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    made = _ws(tmp_path)
    yield made
    made.ledger.close()
    semantic._seen.clear()


def _learn(ws: Workspace, *lessons: Lesson) -> None:
    with ws.ledger.db.write() as tx:
        for one in lessons:
            ws.ledger.knowledge.put_lesson(tx, one)


def _try(name: str, outcome: str, *, days: float = 0, edit: str = "a", **more: object) -> Lesson:
    return about(
        0, id=f"l-{name}", edit=f"playbook:{edit}: {edit}.md", outcome=outcome, reason=None,
        at=NOW - timedelta(days=days), facts={"files": [{"path": f"{edit}.md"}]}, **more,
    )  # fmt: skip


def test_the_same_failure_comes_first_and_each_says_why(ws: Workspace) -> None:
    with ws.ledger.db.write() as tx:
        for tool in ("payment_api", "search_docs", "payments_v2"):
            ws.ledger.knowledge.put_finding(tx, seen(tool))
        ws.ledger.knowledge.put_finding(tx, seen("payment_api", "408", id="f-other"))
    _learn(ws, *(about(number) for number in range(6)))
    found = recall(ws, seen("payment_api"))
    assert found.findings[0].id == "f-other"
    assert found.findings[0].why[:2] == ("same kind at the same place", "same cause")
    assert "f-payment_api" not in {one.id for one in found.findings}  # not itself
    first = found.tries[0]
    assert first.tried.signature == "tool_timeout:payment_api:504"
    assert first.why[:2] == ("same signature", "same cause")
    assert first.why[2].endswith("alike")
    assert found.how.startswith("exact, over 6 lessons (hash-3-5-512); exact, over 4 findings")


def test_what_looks_alike_elsewhere_ranks_below_what_is_built_alike() -> None:
    finding = seen("payment_api")
    same = alike(finding, "tool_timeout:payment_api:504", "other", 0.0)
    reworded = alike(finding, "tool_timeout:payment_api:408", "tool_timeout", 0.2)
    look_alike = alike(finding, "tool_error:search_docs:403", "access_refused", 0.9)
    assert same is not None
    assert reworded is not None
    assert look_alike is not None
    assert same[0] > reworded[0] > look_alike[0]
    assert alike(finding, "tool_error:search_docs:403", "access_refused", 0.3) is None


def test_lessons_of_one_proposal_are_one_try_and_its_newest_word_holds() -> None:
    told = tries([_try("1", "applied", days=9), _try("2", "fell", days=5), _try("3", "undone")])
    assert [(one.outcomes, one.worth) for one in told] == [
        (("applied", "fell", "undone"), "refuted")
    ]
    assert "applied, fell, undone; refuted" in told[0].sentence


@pytest.mark.parametrize(
    ("outcomes", "worth"),
    [
        (("applied",), "open"), (("applied", "fell"), "helped"), (("rejected",), "refused"),
        (("applied", "not_fallen"), "refuted"), (("gate: not accepted",), "refused"),
        (("applied", "too_few"), "open"), (("applied", "not_fallen", "fell"), "helped"),
    ],
)  # fmt: skip
def test_what_became_of_a_try(outcomes: tuple[str, ...], worth: str) -> None:
    lessons = [_try(str(n), one, days=9 - n) for n, one in enumerate(outcomes)]
    assert [one.worth for one in tries(lessons)] == [worth]


def test_a_release_that_a_later_one_had_to_follow_is_refuted_and_ranks_below(
    ws: Workspace,
) -> None:
    first = [_try("1", "applied", days=30), _try("2", "fell", days=29)]
    assert tries(first)[0].worth == "helped"
    later = _try("3", "applied", days=1, edit="b")
    _learn(ws, *first, later)
    found = recall(ws, seen("payment_api"))
    assert [(one.tried.edit, one.tried.worth) for one in found.tries] == [
        ("playbook:b: b.md", "open"), ("playbook:a: a.md", "refuted"),
    ]  # fmt: skip
    assert found.tries[0].score > found.tries[1].score


def test_a_later_no_refutes_nothing() -> None:
    told = tries([_try("1", "applied", days=9), _try("2", "rejected", days=1, edit="b")])
    assert {one.edit: one.worth for one in told} == {
        "playbook:a: a.md": "open", "playbook:b: b.md": "refused",
    }  # fmt: skip


def test_the_same_try_again_is_one_with_its_count() -> None:
    twice = [
        _try(str(n), "rejected", days=n, finding_id=f"f-{n}", decision="reject") for n in range(3)
    ]
    told = tries(twice)
    assert [(one.times, one.lesson) for one in told] == [(3, "l-0")]
    assert told[0].sentence.endswith("outcome: rejected, 3 times")


def test_what_is_old_weighs_less_but_never_nothing() -> None:
    new, old, ancient = (tries([_try("1", "applied", days=d)])[0] for d in (0, 180, 5000))
    assert weight(new, NOW) == pytest.approx(WEIGHT["open"])
    assert weight(old, NOW) == pytest.approx(WEIGHT["open"] / 2)
    assert weight(ancient, NOW) == pytest.approx(WEIGHT["open"] * OLD)


SEVERAL = [
    _try("1", "applied", days=30), _try("2", "fell", days=29),
    _try("3", "applied", days=3, edit="b"), _try("4", "rejected", days=2, edit="c"),
    _try("5", "undone", days=1, edit="b"),
]  # fmt: skip


@given(st.permutations(SEVERAL))
def test_the_order_of_lessons_changes_nothing(lessons: list[Lesson]) -> None:
    assert tries(lessons) == tries(sorted(lessons, key=lambda one: one.id))


def test_what_is_kept_with_evidence_is_what_was_recalled(ws: Workspace) -> None:
    _learn(ws, about(0), about(1))
    finding = seen("payment_api")
    prepared = prepare(ws, [finding], {finding.id})
    body = {"recalled": prepared.json_of(finding.id)}
    assert kept(body) == prepared.recalled[finding.id]
    assert kept({}) is None
    assert [one.id for one in prepared.vectors] == [finding.id]
    with ws.ledger.db.write() as tx:
        ws.ledger.vectors.put(tx, prepared.vectors)
    assert prepare(ws, [finding], ()).vectors == ()  # its text is the same: nothing to keep


def test_a_secret_in_a_finding_is_in_no_text_vector_or_file_of_memory(
    ws: Workspace, tmp_path: Path
) -> None:
    finding = seen("payment_api", title=f"payment_api refuses key {CANARY}")
    lesson = about(0, reason=f"the key {CANARY} had expired")
    texts = [finding_document(finding).text, lesson_document(lesson).text]
    assert all(re.search(r"key \[[a-z_ ]+\]", text) for text in texts)
    prepared = prepare(ws, [finding], {finding.id})
    assert CANARY not in f"{texts} {prepared} {lesson_vectors(ws, lesson)}"
    with ws.ledger.db.write() as tx:
        ws.ledger.vectors.put(tx, prepared.vectors)
    for file in (path for path in (tmp_path / "home").rglob("*") if path.is_file()):
        assert CANARY.encode() not in file.read_bytes(), file


def test_memory_turned_off_recalls_by_signature_and_says_so(tmp_path: Path) -> None:
    made = _ws(tmp_path, memory={"embedder": "off"})
    _learn(made, *(about(number) for number in range(6)))
    found = recall(made, seen("payment_api"))
    assert [one.tried.signature for one in found.tries] == ["tool_timeout:payment_api:504"]
    assert found.how == "by signature alone"
    assert prepare(made, [seen("payment_api")], ()).vectors == ()
    assert lesson_vectors(made, about(0)) == []
    made.ledger.close()


def test_an_embedder_that_is_not_installed_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from connectors.embed import minilm, opening

    opening.open_embedder.cache_clear()
    minilm._loaded.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    made = _ws(tmp_path, memory={"embedder": "minilm"})
    _learn(made, about(0))
    found = recall(made, seen("payment_api"))
    assert len(found.tries) == 1
    assert found.how.startswith("by signature alone: memory.embedder: minilm needs the extra")
    made.ledger.close()
