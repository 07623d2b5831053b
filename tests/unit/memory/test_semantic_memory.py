"""The memory recalls by meaning; the index is only an index, and what it lacks is made again."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.embed.hashed import HashEmbedder
from contracts.errors import TracemendError, UsageError
from memory import semantic, semantic_index
from memory.ledger import Ledger, open_ledger
from memory.semantic import Searched, SemanticMemory
from tests.semantic_worlds import about, kill, learned, memory_of, opened, other_process, seen

ASKED = "the payment api gives no answer"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = opened(tmp_path)
    yield made
    made.close()
    semantic._seen.clear()
    semantic_index.disown(tmp_path / "chroma" / "refunds")


def _ids(found: Searched) -> list[str]:
    return [one.id for one in found.near]


def _folder(home: Path) -> Path:
    return home / "chroma" / "refunds"


def _forget_process() -> None:
    """What a new process would not know."""
    semantic._seen.clear()


def test_the_nearest_lessons_are_those_of_the_failure_that_was_asked_for(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 30)
    found = memory_of(ledger, tmp_path).search(ASKED, kind="lesson", limit=5)
    assert set(_ids(found)) == {f"l-{number:05d}" for number in range(0, 30, 6)}
    assert found.how == "exact, over 30 lessons (hash-3-5-512)"
    assert found.near[0].likeness > 0.3
    assert not (tmp_path / "chroma").exists()  # few are compared one by one; nothing is opened


def test_a_text_without_words_finds_nothing(ledger: Ledger, tmp_path: Path) -> None:
    learned(ledger, 3)
    assert memory_of(ledger, tmp_path).search("…", kind="lesson").near == ()


def test_from_some_number_on_the_index_answers_and_says_the_same(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 120)
    exact = memory_of(ledger, tmp_path, index_from=1_000).search(ASKED, kind="lesson", limit=20)
    found = memory_of(ledger, tmp_path).search(ASKED, kind="lesson", limit=20)
    assert found.how == "Chroma, over 120 lessons (hash-3-5-512)"
    assert set(_ids(found)) == set(_ids(exact))
    for one, other in zip(found.near, exact.near, strict=True):
        assert one.likeness == pytest.approx(other.likeness, abs=1e-4)


def test_a_project_recalls_nothing_of_another_one(ledger: Ledger, tmp_path: Path) -> None:
    learned(ledger, 120)
    other = open_ledger(tmp_path / "ledger.sqlite", "billing")
    learned(other, 60, start=500)
    ours = memory_of(ledger, tmp_path).search(ASKED, kind="lesson", limit=200)
    theirs = memory_of(other, tmp_path).search(ASKED, kind="lesson", limit=200)
    semantic_index.disown(tmp_path / "chroma" / "billing")
    other.close()
    assert theirs.how == "Chroma, over 60 lessons (hash-3-5-512)"
    assert {*_ids(ours)} & {*_ids(theirs)} == set()
    assert len(_ids(theirs)) <= 60
    assert all(int(one.removeprefix("l-")) >= 500 for one in _ids(theirs))


def test_nothing_is_sent_anywhere_and_no_text_is_in_the_index(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    learned(ledger, 60)
    assert memory_of(ledger, tmp_path).search(ASKED, kind="lesson").how.startswith("Chroma")
    for file in (path for path in _folder(tmp_path).rglob("*") if path.is_file()):
        assert b"payment" not in file.read_bytes(), file


def test_what_the_ledger_has_more_is_noticed_and_found(ledger: Ledger, tmp_path: Path) -> None:
    memory = memory_of(ledger, tmp_path)
    learned(ledger, 60)
    memory.search(ASKED, kind="lesson")
    with ledger.db.write() as tx:
        ledger.knowledge.put_lesson(tx, about(900, reason="zebra quagga okapi"))
    assert _ids(memory.search("zebra quagga okapi", kind="lesson", limit=1)) == ["l-00900"]


@pytest.mark.parametrize("index_from", [50, 1_000])
def test_a_finding_whose_text_changed_is_found_by_its_new_text(
    ledger: Ledger, tmp_path: Path, index_from: int
) -> None:
    with ledger.db.write() as tx:
        for number in range(60):
            ledger.knowledge.put_finding(tx, seen(f"tool{chr(97 + number % 26)}{number}"))
        ledger.knowledge.put_finding(tx, seen("payment_api"))
    memory_of(ledger, tmp_path, index_from=index_from).search(ASKED, kind="finding")
    changed = seen("payment_api")
    told = replace(changed.diagnosis, summary="a certificate has expired at midnight")
    with ledger.db.write() as tx:
        ledger.knowledge.put_finding(tx, replace(changed, diagnosis=told))
    _forget_process()
    memory = memory_of(ledger, tmp_path, index_from=index_from)
    found = memory.search("expired certificate at midnight", kind="finding", limit=1)
    assert _ids(found) == ["f-payment_api"]
    assert found.near[0].likeness > 0.3


def test_vectors_of_another_embedder_are_not_compared(ledger: Ledger, tmp_path: Path) -> None:
    class Other(HashEmbedder):
        name = "other-512"

    learned(ledger, 5)
    memory_of(ledger, tmp_path).search(ASKED, kind="lesson")
    found = SemanticMemory(ledger, Other(), tmp_path).search(ASKED, kind="lesson", mend=False)
    assert (found.near, found.missing) == ((), 5)


def test_looking_without_mending_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    learned(ledger, 5)
    found = memory_of(ledger, tmp_path).search(ASKED, kind="lesson", mend=False)
    assert (found.near, found.missing) == ((), 5)
    assert ledger.vectors.listed("lesson", "hash-3-5-512") == []


def test_an_index_far_behind_is_not_waited_for_and_catches_up_by_and_by(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.semantic_chroma.MEND_ROWS", 50)
    learned(ledger, 120)
    memory = memory_of(ledger, tmp_path)
    hows = [memory.search(ASKED, kind="lesson").how for _ in range(4)]
    assert [how.startswith("Chroma") for how in hows] == [False, False, True, True]
    assert "`tracemend memory reindex` brings it up to date" in hows[0]


def test_the_index_is_one_process_s_and_others_compare_exactly_and_say_so(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 60)
    code = (
        "import sys, time; from pathlib import Path; from memory.semantic_index import own; "
        "print(own(Path(sys.argv[1])), flush=True); time.sleep(120)"
    )
    owner = other_process(code, str(_folder(tmp_path)))
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline().strip() == "True"
        found = memory_of(ledger, tmp_path).search(ASKED, kind="lesson", limit=3)
        assert found.how == (
            "exact, over 60 lessons (hash-3-5-512); another process owns the index"
        )
        assert len(found.near) == 3
        with pytest.raises(UsageError, match="the index is another process's"):
            memory_of(ledger, tmp_path, index_from=1).reindex()
    finally:
        kill(owner)
    assert memory_of(ledger, tmp_path).search(ASKED, kind="lesson").how.startswith("Chroma")


def test_a_broken_index_is_said_and_costs_no_result(ledger: Ledger, tmp_path: Path) -> None:
    learned(ledger, 60)
    memory = memory_of(ledger, tmp_path)
    memory.search(ASKED, kind="lesson")
    index = memory.index.open()
    assert index is not None
    index.drop(memory.index.name("lesson"))
    found = memory.search(ASKED, kind="lesson", limit=3)
    assert found.how.endswith("the index cannot be used: NotFoundError")
    assert len(found.near) == 3
    assert memory.search(ASKED, kind="lesson").how.startswith("Chroma")  # made again


def test_reindex_makes_all_anew_in_another_folder_and_leaves_one(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 60)
    memory = memory_of(ledger, tmp_path)
    memory.search(ASKED, kind="lesson")
    before = {path.name for path in _folder(tmp_path).glob("g-*")}
    standing = {one.kind: one for one in memory.reindex()}
    after = {path.name for path in _folder(tmp_path).glob("g-*")}
    assert (len(before), len(after)) == (1, 1)
    assert before != after
    assert (standing["lesson"].indexed, standing["lesson"].stale) == (60, 0)
    assert memory.search(ASKED, kind="lesson").how.startswith("Chroma")


def test_what_a_killed_reindex_left_is_removed_and_the_old_index_still_answers(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 60)
    memory = memory_of(ledger, tmp_path)
    memory.search(ASKED, kind="lesson")
    (_folder(tmp_path) / "g-0123456789ab").mkdir()
    _forget_process()
    assert memory_of(ledger, tmp_path).search(ASKED, kind="lesson").how.startswith("Chroma")
    assert len(list(_folder(tmp_path).glob("g-*"))) == 1


def test_a_forgotten_lesson_is_in_no_table_no_search_and_no_file_of_the_index(
    ledger: Ledger, tmp_path: Path
) -> None:
    learned(ledger, 60)
    memory = memory_of(ledger, tmp_path)
    memory.search(ASKED, kind="lesson")
    data = next(
        one.data for one in ledger.vectors.listed("lesson", "hash-3-5-512") if one.id == "l-00006"
    )
    needle = data[:64]
    files = [path for path in _folder(tmp_path).rglob("*") if path.is_file()]
    assert any(needle in path.read_bytes() for path in files)  # it was there
    assert memory.forget("l-00006", by="ann")
    assert "l-00006" not in _ids(memory.search(ASKED, kind="lesson", limit=60))
    assert "l-00006" not in {one.id for one in ledger.knowledge.lessons()}
    files = [path for path in _folder(tmp_path).rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if needle in path.read_bytes()] == []
    with pytest.raises(UsageError, match="l-00006: no such lesson"):
        memory.forget("l-00006", by="ann")


def test_a_vector_is_kept_under_a_later_time_than_all_before_it(ledger: Ledger) -> None:
    ledger.db.clock = lambda: about(0).at  # a clock that stands
    learned(ledger, 3)
    memory = SemanticMemory(ledger, HashEmbedder(), Path("/nowhere"))
    memory.search(ASKED, kind="lesson")
    times = [at for at, _ in ledger.vectors.since("lesson", "hash-3-5-512", "", 10)]
    assert len(set(times)) == 3
    assert times == sorted(times)


INDEXING = """
import os, signal, sys
from pathlib import Path
from memory.ledger import open_ledger
from memory import semantic_index
from connectors.embed.hashed import HashEmbedder
from memory.semantic import SemanticMemory

home, step, after = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
seen = 0

def killing(inner):
    def run(*words, **more):
        global seen
        done = inner(*words, **more)
        seen += 1
        if seen == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return run

semantic_index.BATCH = 40
from chromadb.api.models.Collection import Collection
if step == "upsert":
    Collection.upsert = killing(Collection.upsert)
elif step == "modify":
    Collection.modify = killing(Collection.modify)
elif step == "point":
    semantic_index.point = killing(semantic_index.point)
else:
    from memory.vectors import Vectors
    Vectors.put = killing(Vectors.put)
ledger = open_ledger(home / "ledger.sqlite", "refunds")
memory = SemanticMemory(ledger, HashEmbedder(), home, index_from=50)
memory.reindex()
print("not killed")
"""


@pytest.mark.kill
@pytest.mark.parametrize(
    ("step", "after"), [("vectors", 1), ("upsert", 2), ("modify", 2), ("point", 1), ("point", 2)]
)
def test_killed_while_it_indexes_nothing_is_lost_and_nothing_is_there_twice(
    ledger: Ledger, tmp_path: Path, step: str, after: int
) -> None:
    learned(ledger, 200)
    if step == "point" and after == 2:  # an index is in use, and another takes its place
        memory_of(ledger, tmp_path).reindex()
        semantic_index.disown(_folder(tmp_path))
        after = 1
    victim = other_process(INDEXING, str(tmp_path), step, str(after))
    out, err = victim.communicate(timeout=120)
    assert victim.returncode == -9, (out, err)
    _forget_process()
    memory = memory_of(ledger, tmp_path)
    assert len(ledger.knowledge.lessons()) == 200
    for _ in range(3):
        found = memory.search(ASKED, kind="lesson", limit=300)
    assert found.how == "Chroma, over 200 lessons (hash-3-5-512)"
    assert found.missing == 0
    assert len(_ids(found)) == len(set(_ids(found)))
    standing = {one.kind: one for one in memory.reindex()}["lesson"]
    assert (standing.documents, standing.vectors, standing.indexed, standing.stale) == (
        200, 200, 200, 0,
    )  # fmt: skip


SERVER = """
import sys
from chromadb.cli.cli import app
sys.argv = ["chroma", *sys.argv[1:]]
app()
"""


@pytest.mark.servers
def test_several_processes_share_a_chroma_server(ledger: Ledger, tmp_path: Path) -> None:
    import time

    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ("run", "--path", str(tmp_path / "server"), "--host", "127.0.0.1", "--port", str(port))
    server = other_process(SERVER, *where, quiet=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                if httpx.get(f"{url}/api/v2/heartbeat").is_success:
                    break
            except httpx.TransportError:
                time.sleep(0.25)
        learned(ledger, 60)
        here = SemanticMemory(ledger, HashEmbedder(), tmp_path, chroma_url=url, index_from=50)
        assert here.search(ASKED, kind="lesson").how.startswith("Chroma, over 60")
        code = (
            "import sys; from pathlib import Path; from memory.ledger import open_ledger; "
            "from connectors.embed.hashed import HashEmbedder as H; "
            "from memory.semantic import SemanticMemory as M; h = Path(sys.argv[1]); "
            "l = open_ledger(h / 'ledger.sqlite', 'refunds'); "
            "m = M(l, H(), h, chroma_url=sys.argv[2], index_from=50); "
            "print(m.search('payment api', kind='lesson', limit=1).how); m.reindex()"
        )
        there = other_process(code, str(tmp_path), url)
        out, err = there.communicate(timeout=120)
        assert out.startswith("Chroma, over 60"), (out, err)
        learned(ledger, 5, start=60)
        assert here.search(ASKED, kind="lesson").how.startswith("Chroma, over 65")
        assert here.forget("l-00006", by="ann")
        assert "l-00006" not in _ids(here.search(ASKED, kind="lesson", limit=65))
        os.kill(server.pid, signal.SIGSTOP)  # it takes connections and answers none
        learned(ledger, 1, start=70)
        found = here.search(ASKED, kind="lesson", limit=3)
        assert "the index cannot be used: it does not answer within" in found.how
        assert len(found.near) == 3
    finally:
        kill(server)
    found = here.search(ASKED, kind="lesson", limit=3)
    assert "the index cannot be used" in found.how
    assert len(found.near) == 3


def test_a_folder_into_which_somebody_still_writes_is_removed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma's threads end a moment after it was closed; what they write meanwhile goes as well."""
    folder, real = tmp_path / "g-old", shutil.rmtree
    calls: list[Path] = []
    folder.mkdir()

    def removing(path: Path, *, ignore_errors: bool) -> None:
        real(path, ignore_errors=ignore_errors)
        calls.append(path)
        if len(calls) < 3:
            path.mkdir()
            (path / "written-meanwhile").write_text("x", "utf-8")

    monkeypatch.setattr("memory.semantic_index.shutil.rmtree", removing)
    semantic_index.remove(folder)
    assert len(calls) == 3
    assert not folder.exists()


def test_an_old_index_that_cannot_be_removed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "g-old"
    folder.mkdir()
    monkeypatch.setattr("memory.semantic_index.REMOVE_S", 0.05)
    monkeypatch.setattr("memory.semantic_index.shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(TracemendError, match="could not be removed"):
        semantic_index.remove(folder)
