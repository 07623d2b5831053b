"""What a vendor does while one of its prompts is changed beside a folder."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.faults_apply_told import Ending, Fault, Told, hold
from tests.apply_vendor_worlds import PROMPT, vendor_world
from tests.fakes.langfuse_prompts import FakePromptServer

Plan = Callable[[FakePromptServer], None]
"""What the vendor is told to do badly."""


def vendor(plan: Plan, *, timeout_s: float = 30) -> Callable[[Path], Told]:
    """The second place is a prompt of a Langfuse with a fault; then it is well again."""

    def tell(folder: Path) -> Told:
        with vendor_world(folder, approved=True, timeout_s=timeout_s) as placed:
            plan(placed.fake)
            first = placed.world.do()
            if first.applied is None:
                hold(bool(first.retryable), f"not to be tried again: {first}")
            placed.fake.faults.give_up.set()
            last = first if first.applied else Ending(placed.world).run()
            hold(last.applied == "done", f"{last}")
            after = placed.world.after
            hold(placed.live() == (2, after[PROMPT].decode()), f"the label is at {placed.live()}")
            hold(placed.versions() == 2, f"{placed.versions()} versions")
            file = placed.world.place("instructions/main.md").read_bytes()
            hold(file == after["instructions/main.md"], "the folder is not what was approved")
            hold(len(placed.world.releases()) == 1, "not one release")
            hold(placed.world.audit_ok(), "the audit log does not verify")
            said = f"first: {first.error}" if first.error else ""
            return Told(result="applied once", ledger=placed.world.state(), said=said)

    return tell


def vendor_faults() -> Iterable[Fault]:
    """What a vendor does while it is written to."""
    kinds: tuple[tuple[str, str, Plan, float], ...] = (
        ("down", "a vendor that is down at the first write", _down("POST"), 30),
        ("down-at-the-label", "a vendor that is down when the label is moved, after the folder was "
         "switched", _down("PATCH"), 30),
        ("slow", "a vendor that takes three seconds for each write", _slow, 30),
        ("lost", "a vendor whose answer to the new version is lost", _lost("POST"), 30),
        ("lost-label", "a vendor whose answer to the label's move is lost", _lost("PATCH"), 30),
        ("late", "a vendor that makes the version after we gave up", _late("POST"), 1),
        ("late-label", "a vendor that moves the label after we gave up", _late("PATCH"), 1),
    )  # fmt: skip
    for name, what, plan, timeout_s in kinds:
        yield Fault(id=f"vendor-{name}", what=what, tell=vendor(plan, timeout_s=timeout_s))


def _down(method: str) -> Plan:
    return lambda fake: _void(fake.faults.refuse(method, status=503, times=1))


def _slow(fake: FakePromptServer) -> None:
    for method in ("POST", "PATCH"):
        fake.faults.meanwhile(method, "", lambda: time.sleep(3))


def _lost(method: str) -> Plan:
    return lambda fake: _void(fake.faults.lose(method))


def _late(method: str) -> Plan:
    return lambda fake: fake.faults.delay(method)


def _void(_: object) -> None:
    """Nothing of it is wanted."""
