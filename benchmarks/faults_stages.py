"""Make the worlds that stories begin in, by the server itself and with nobody killed."""

import random
from collections.abc import Set
from pathlib import Path

from benchmarks.faults_check import Harness
from benchmarks.faults_points import QUIET, Stage
from benchmarks.faults_server import Deadline, Servers
from benchmarks.faults_story import Story, alert, approve
from benchmarks.faults_world import Mode, Site, Stages, record_site

MADE_WITHIN_S = 300.0


def make_stages(mode: Mode, folder: Path, needed: Set[Stage]) -> tuple[Stages, Harness]:
    """The worlds of some stages, each a copy of the one before after its next step."""
    recorded = mode.first(record_site(folder))
    before = recorded.world.harness()
    waiting = applied = recorded
    if needed - {"alert", "whole"}:
        waiting = mode.copy(recorded, folder / "waiting" / "agent")
        _step(mode, waiting, before, applied=False)
    if "undo" in needed:
        applied = mode.copy(waiting, folder / "applied" / "agent")
        _step(mode, applied, before, applied=True)
    return Stages(recorded=recorded, waiting=waiting, applied=applied), before


def _step(mode: Mode, site: Site, before: Harness, *, applied: bool) -> None:
    nobody = random.Random(0)  # noqa: S311  # no kill is drawn
    servers = Servers(mode.starts(site), QUIET, Deadline(MADE_WITHIN_S), nobody)
    try:
        servers.ready()
        with site.looking() as ledger:
            story = Story(
                site=site,
                servers=servers,
                before=before,
                ledger=ledger,
                own_protocol=mode.own_protocol,
            )
            (approve if applied else alert)(story)
        servers.stop()
    finally:
        servers.sweep()
