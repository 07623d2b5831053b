"""Faults of an apply, one after the other: is it done exactly once or not at all, and who says so?

    python -m benchmarks.faults_apply [--faults WORD ...] [--jobs N] [--list]

Each fault has a small installation of its own: a proposal that was approved and accepted, whose
edit touches two files in one folder and one in another. The real node runs in real processes that
are killed (SIGKILL), starved of disk or rights, given another clock, or race each other; a person's
editor writes in between. Then the node runs again until it has an end, and the harness, the ledger
and the audit log are compared with what is promised. Prints a Markdown table; exit 1 when a promise
was broken. `python -m benchmarks.faults` kills the whole server, from the alert to the undo.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.faults_apply_lines import (
    EDIT_AFTER_FIRST_SWITCH,
    clock,
    kill_points,
    rollback_points,
    undo_points,
)
from benchmarks.faults_apply_told import Broken, Ending, Fault, Told, hold, judged
from benchmarks.faults_apply_vendor import vendor_faults
from contracts.json_types import JsonObject
from tests.apply_worlds import REPOSITORY, ApplyWorld, Kill, Said, two_places

BY_HAND = "Written by hand.\n"


def killed(kill: Kill) -> Callable[[Path], Told]:
    """Killed at one line, then run again."""

    def tell(folder: Path) -> Told:
        world = two_places(folder)
        died = world.do(kill=kill)
        hold(died.code == -9, f"not killed: {died}")
        return judged(world, Ending(world).run())

    return tell


def killed_in_undo(kill: Kill) -> Callable[[Path], Told]:
    """Applied, then the undo is killed at one line and run again."""

    def tell(folder: Path) -> Told:
        world = two_places(folder)
        hold(world.do().applied == "done", "not applied")
        world.undo_card()
        died = world.do(kill=kill, thread="t-undo")
        hold(died.code == -9, f"not killed: {died}")
        return judged(world, Ending(world, thread="t-undo").run(), undone=True)

    return tell


def edited_in_the_middle(kill: Kill | None) -> Callable[[Path], Told]:
    """A person writes to the second place right after the first one was switched."""

    def tell(folder: Path) -> Told:
        world = two_places(folder)
        file = world.place("other/invoices.md")
        died = world.do(before=(EDIT_AFTER_FIRST_SWITCH.format(file=str(file), text=BY_HAND),),
                        kill=kill)  # fmt: skip
        hold(kill is None or died.code == -9, f"not killed: {died}")
        last = Ending(world).run() if died.applied is None else died
        return judged(world, last, by_hand={"other/invoices.md": BY_HAND.encode()})

    return tell


def edited_before(path: str) -> Callable[[Path], Told]:
    """A person writes to a file of the edit between the yes and the apply."""

    def tell(folder: Path) -> Told:
        world = two_places(folder)
        world.place(path).write_text(BY_HAND, "utf-8")
        last = Ending(world).run()
        hold(last.next == "evolution", f"a moved base leads to {last.next}")
        return judged(world, last, by_hand={path: BY_HAND.encode()})

    return tell


def edited_elsewhere(folder: Path) -> Told:
    """A file of a place that the edit does not touch is changed: the base moved all the same."""
    world = two_places(folder, one=True)
    world.place("other/invoices.md").write_text(BY_HAND, "utf-8")
    return judged(world, Ending(world).run(), by_hand={"other/invoices.md": BY_HAND.encode()})


def two_at_once(folder: Path) -> Told:
    """Two processes apply at the same time."""
    world = two_places(folder)
    with ThreadPoolExecutor(2) as pool:
        both = [f.result() for f in [pool.submit(world.do) for _ in range(2)]]
    hold({one.applied for one in both} <= {"done", None}, f"{both}")
    return judged(world, Ending(world).run())


def two_approvals(folder: Path) -> Told:
    """Two people press approve at the same instant."""
    world = two_places(folder, approved=False)
    with ThreadPoolExecutor(2) as pool:
        both = [f.result() for f in [pool.submit(world.answer, by) for by in ("mira", "noor")]]
    hold(sum(one["first"] for one in both) == 1, f"not one first answer: {both}")
    hold(len({one["by"] for one in both}) == 1, f"two people were told two things: {both}")
    world.accept()
    told = judged(world, Ending(world).run())
    return Told(result=told.result, ledger=told.ledger, said=f"both: {both[0]['by']} decided")


def old_revision(folder: Path) -> Told:
    """A card of r1 is approved after an edit made r2."""
    world = two_places(folder, approved=False)
    kept = world.after["instructions/main.md"].decode()
    edited: JsonObject = {"type": "edit", "edited_action": {"name": "apply", "args": {
        "proposal_hash": world.proposal.hash, "text:instructions/main.md": f"{kept}- Be brief.\n",
    }}}  # fmt: skip
    first = world.answer("ana", edited)
    hold(first["first"] and first["type"] == "edit", f"{first}")
    late = world.answer("mira", revision=1)
    hold(not late["first"] and late["type"] == "edit", f"r1 was approved after r2: {late}")
    refused = world.do()
    hold(refused.applied is None and bool(refused.error), f"{refused}")
    hold(world.harness() == dict(world.before), "the harness changed without a yes")
    hold(not world.effects() and not world.releases() and world.audit_ok(), "something was kept")
    said = f"{late['by']} decided: edit"
    return Told(result="not at all", ledger=world.state(), said=said)


def skewed(hours: float) -> Callable[[Path], Told]:
    """Killed after the first switch; the next process has another clock."""

    def tell(folder: Path) -> Told:
        world = two_places(folder)
        died = world.do(kill=("after", "connectors.harness.directory:DirectoryHarness.switch", 1))
        hold(died.code == -9, f"not killed: {died}")
        done = world.do(before=(clock(hours),))
        hold(done.applied == "done", f"{done}")
        return judged(world, done)

    return tell


def denied(folder: Path) -> Told:
    """A folder that nobody may write in; then the right is given back."""
    world = two_places(folder)
    place = world.place("other/invoices.md").parent
    place.chmod(0o555)
    try:
        # As root every right is there; in a user namespace it is not.
        refused = world.do(within=(_unshare(), "-U"))
    finally:
        place.chmod(0o755)
    return _until_mended(world, refused)


def full(folder: Path) -> Told:
    """No room on the disk, for staging nor for the ledger; then there is."""
    inside = [sys.executable, "-m", "benchmarks.faults_apply", "--inside", str(folder)]
    done = subprocess.run(  # noqa: S603, our own module
        [_unshare(), "-Urm", *inside], cwd=REPOSITORY, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Broken(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no word")
    result, ledger, said = done.stdout.strip().split("\t")
    return Told(result=result, ledger=ledger, said=said)


def _unshare() -> str:
    """The program that starts another in a namespace of its own.

    Raises:
        Broken: this machine has none.
    """
    found = shutil.which("unshare")
    if found is None:
        raise Broken("`unshare` (util-linux) is not here, so this fault cannot be made")
    return found


def full_inside(folder: Path) -> Told:
    """The same, in a namespace of its own that may mount a small disk."""
    words = ["mount", "-t", "tmpfs", "-o", "size=24m", "small", str(folder)]
    subprocess.run(words, check=True)  # noqa: S603, our own words
    world = two_places(folder)
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(b"x" * 4096)
    refused = world.do()
    ballast.unlink()
    return _until_mended(world, refused)


def _until_mended(world: ApplyWorld, refused: Said) -> Told:
    """What a place that refuses to be written said, and that the next call ends it."""
    hold(refused.applied is None, f"applied where nothing can be written: {refused}")
    hold(bool(refused.error), f"no clear line: {refused.stderr[-300:]}")
    told = judged(world, Ending(world).run())
    return Told(result=told.result, ledger=told.ledger, said=f"first: {refused.error}")


def every() -> Iterable[Fault]:
    """All faults, in the order of the table."""
    for name, kill in kill_points():
        yield Fault(id=f"killed-{name}", what=f"killed {_words(name)}", tell=killed(kill))
    for name, kill in rollback_points():
        what = f"hand edit in the middle, killed {_words(name)}"
        yield Fault(id=f"rollback-{name}", what=what, tell=edited_in_the_middle(kill))
    for name, kill in undo_points():
        what = f"undo killed {_words(name)}"
        yield Fault(id=f"undo-{name}", what=what, tell=killed_in_undo(kill))
    yield Fault(id="two-approvals", what="two people approve at once", tell=two_approvals)
    yield Fault(id="old-revision", what="r1 approved after r2 exists", tell=old_revision)
    yield Fault(id="two-at-once", what="two processes apply at once", tell=two_at_once)
    for path in ("instructions/more.md", "other/invoices.md"):
        what = f"{path} written by hand after the yes"
        yield Fault(id=f"moved-{path}", what=what, tell=edited_before(path))
    yield Fault(id="moved-elsewhere", what="a file that the edit does not touch written by hand",
                tell=edited_elsewhere)  # fmt: skip
    yield Fault(id="moved-in-the-middle", what="hand edit between the two places",
                tell=edited_in_the_middle(None))  # fmt: skip
    for hours in (-3.0, 50.0):
        what = f"killed between the places, the next clock {hours:+.0f} hours"
        yield Fault(id=f"clock{hours:+.0f}", what=what, tell=skewed(hours))
    yield from vendor_faults()
    yield Fault(id="denied", what="the second folder refuses writing", tell=denied)
    yield Fault(id="full", what="disk full, ledger included", tell=full)


def _words(name: str) -> str:
    return name.replace("-", " ")


def tell(fault: Fault, folder: Path) -> Told | str:
    """The fault's story, or the promise that was broken."""
    place = Path(tempfile.mkdtemp(prefix=f"{fault.id.replace('/', '-')}-", dir=folder))
    try:
        told = fault.tell(place)
    except Broken as broken:
        return str(broken)
    except Exception:  # noqa: BLE001, whatever else went wrong is this story's line
        return traceback.format_exc(limit=3).strip().replace("\n", " | ")
    shutil.rmtree(place, ignore_errors=True)
    return told


def main(words: Sequence[str] | None = None) -> int:
    """Tell them all, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--faults", nargs="*", default=[], help="parts of the ids of faults")
    parser.add_argument("--jobs", type=int, default=1, help="stories at the same time")
    parser.add_argument("--list", action="store_true", help="print the ids and stop")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.inside:
        told = full_inside(asked.inside)
        print("\t".join((told.result, told.ledger, told.said)))
        return 0
    which = [f for f in every() if not asked.faults or any(w in f.id for w in asked.faults)]
    if asked.list:
        print("\n".join(fault.id for fault in which))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="faults-apply-"))
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = list(pool.map(lambda fault: tell(fault, folder), which))
    print("| fault | the edit is | proposal | what the ledger or the next command says |")
    print("|---|---|---|---|")
    for fault, end in zip(which, results, strict=True):
        if isinstance(end, str):
            print(f"| {fault.what} | **BROKEN** | | {end} |")
        else:
            print(f"| {fault.what} | {end.result} | {end.ledger} | {_shown(end.said, folder)} |")
    return int(any(isinstance(end, str) for end in results))


def _shown(said: str, folder: Path) -> str:
    """Without the folder that this run happened to get."""
    return re.sub(rf"{re.escape(str(folder))}/[^/ ]+/", "", said)


if __name__ == "__main__":
    sys.exit(main())
