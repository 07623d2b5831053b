"""What `demo` does, step by step. Everything it shows was done just now, by the real parts."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from rich.console import Console

from connectors.review.terminal import gate_lines, plain, render
from contracts.codec import from_json
from contracts.errors import ConfigError, TracemendError, UsageError
from contracts.findings import Finding
from contracts.gate import GatePlan
from contracts.json_types import Json, JsonObject
from contracts.proposals import Proposal, Release
from graph.cli.outcome import exit_code, outcome_lines
from graph.cli.project import settings_text
from graph.cli.session import (
    Session,
    decision_json,
    first_resume,
    gate_json,
    open_session,
    person,
    release_json,
)
from graph.service import Outcome, Ran
from memory.workspace import HOME_VARIABLE, register
from nodes.insights.report import finding_json
from nodes.showing import stored_view

MARKER = ".tracemend-demo"
PROJECT = "refunds"
REQUESTS = 150
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The command's options."""

    folder: Path
    answer: Literal["approve", "reject"] | None
    reason: str | None
    name: str | None
    seed: int
    model: str | None
    quiet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What to print as JSON, and the exit code."""

    document: dict[str, Json]
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every step of the demo needs."""

    options: DemoOptions
    root: Path
    out: Console

    def title(self, number: int, text: str) -> None:
        """The heading of a step."""
        self.out.print(f"\n[bold]{number}  {text}[/bold]")

    def say(self, text: str) -> None:
        """One line of the story."""
        self.out.print(f"   {text}", markup=False, highlight=False, soft_wrap=True)


async def run_demo(options: DemoOptions) -> Demo:
    """Tell the story from an empty folder to a release that can be undone.

    Raises:
        UsageError: the folder holds something that no demo made.
    """
    stage = Stage(options=options, root=options.folder.resolve(), out=Console(quiet=options.quiet))
    _check_folder(stage)
    _check_model(options.model)
    stage.title(1, f"An example agent's repository in {options.folder}")
    _set_up(stage)
    os.environ[HOME_VARIABLE] = str(stage.root / ".tracemend")
    async with open_session(PROJECT, quiet=options.quiet) as session:
        stage.title(2, f"{2 * REQUESTS} customer requests, recorded as OpenTelemetry traces")
        _record(stage, session, "last-week", weather="calm", shift=-WEEK, seed=options.seed)
        _record(stage, session, "this-week", weather="stormy", seed=options.seed + 1000)
        stage.title(3, "An alert: the loop runs and pauses for a person")
        ran = await session.service.start(_alert())
        return await _from_card(stage, session, ran)


async def _from_card(stage: Stage, session: Session, ran: Ran) -> Demo:
    ledger = session.ws.ledger
    if ran.proposal is None:
        raise TracemendError("the alert led to no proposal; see `tracemend improve`")
    stored = ledger.proposals.latest(ran.proposal)
    finding = ledger.knowledge.finding(stored.proposal.finding_id).finding
    _others(stage, session, finding)
    stage.say("State is on disk now: whatever happens to this process, `resume` goes on.")
    before = stored.proposal.base_revision
    stage.title(4, "The card")
    view = stored_view(session.ws, stored.proposal, "approve")
    if stage.out.is_terminal:
        render(view, stage.out)
    else:
        stage.out.print(plain(view), markup=False, highlight=False, soft_wrap=True)
    answer = stage.options.answer or _ask(stage)
    if answer is None:
        _how_to(stage, stored.proposal)
        return Demo(document=_document(finding, stored.proposal, None, None, before), code=0)
    stage.title(5, "The gate: the agent with and without the edit, on the same cases")
    said: dict[str, Json] = {"type": answer}
    if answer == "reject":
        said["message"] = stage.options.reason or _ask_reason(stage)
    who = person(stage.options.name)
    outcome = await session.service.decide(
        stored.proposal.id, said, who, expected_hash=stored.proposal.hash
    )
    _tell(stage, session, outcome)
    watch = None
    if outcome.release is not None:
        watch = await _watch(stage, session, outcome.release)
    await first_resume(session)
    document = _document(finding, stored.proposal, outcome, watch, before)
    return Demo(document=document, code=exit_code(outcome))


def _check_folder(stage: Stage) -> None:
    """Only an empty folder, a new one, or one with our marker is worked in."""
    root, named = stage.root, stage.options.folder
    if root.exists() and not root.is_dir():
        raise UsageError(f"{named}: is a file; choose another --dir")
    if root.exists() and any(root.iterdir()) and not (root / MARKER).is_file():
        raise UsageError(f"{named}: not empty and not made by a demo; choose another --dir")


def _check_model(name: str | None) -> None:
    """A model that cannot be opened is said before anything is written.

    Raises:
        UsageError: which one, and why.
    """
    _template()
    from examples.refund_agent.agent import build_model

    try:
        build_model(name)
    except ValueError as error:
        raise UsageError(f"--model: {error}") from None


def _set_up(stage: Stage) -> None:
    """Empty a folder of an earlier demo and copy the example's repository into it."""
    template = _template()
    root = stage.root
    root.mkdir(parents=True, exist_ok=True)
    for inside in root.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside)
        else:
            inside.unlink()
    (root / MARKER).write_text("Made by `tracemend demo`, which resets this folder.\n", "utf-8")
    shutil.copytree(template, root, dirs_exist_ok=True)
    (root / "tracemend.yaml").write_text(
        settings_text(PROJECT, traces="traces/*.jsonl", probe=_probe(stage.options), uses=1),
        "utf-8",
    )
    register(root / ".tracemend", PROJECT, root)
    listed = sorted(p.name for p in root.iterdir() if not p.name.startswith("."))
    stage.say(", ".join(listed))


def _template() -> Path:
    """The example's repository beside this checkout.

    Raises:
        UsageError: this is an installed wheel, which does not carry the examples.
    """
    template = Path(__file__).resolve().parents[2] / "examples" / "refund_agent" / "repo"
    if not template.is_dir():
        raise UsageError("demo: runs from a checkout of the repository, which has examples/")
    return template


def _probe(options: DemoOptions) -> str:
    """The probe of the example; a real model's key is passed on by name."""
    command = [sys.executable, "-m", "examples.refund_agent.worker"]
    if options.model is not None:
        command += ["--model", options.model]
    listed = ", ".join(f'"{part}"' for part in command)
    keys = [name for name in os.environ if name.endswith("_API_KEY")] if options.model else []
    return (
        f"probe:\n  kind: worker\n  command: [{listed}]\n  concurrency: 2\n  timeout_s: 30\n"
        f"  env: [{', '.join(keys)}]"
    )


def _record(
    stage: Stage,
    session: Session,
    name: str,
    *,
    weather: str,
    seed: int,
    shift: timedelta = timedelta(0),
) -> None:
    from examples.refund_agent.back_office import WEATHERS
    from examples.refund_agent.record import record
    from examples.refund_agent.requests import generate

    out = stage.root / "traces" / f"{name}.otlp.jsonl"
    out.parent.mkdir(exist_ok=True)
    summary = record(
        generate(REQUESTS, seed), stage.root, out, weather=WEATHERS[weather], seed=seed,
        model=stage.options.model, time_shift_s=shift.total_seconds(),
        progress=lambda done, of: session.progress.count(f"recording {name}", done, of),
    )  # fmt: skip
    moved = f", times moved by {shift.days} days as the file declares" if shift else ""
    stage.say(f"{name}: {summary.runs} runs in {summary.seconds:.1f} s{moved}")


def _alert() -> JsonObject:
    now = datetime.now(UTC)
    body: dict[str, Json] = {"rule": "refund failures above usual", "at": now.isoformat()}
    window: dict[str, Json] = {
        "start": (now - timedelta(hours=24)).isoformat(), "end": now.isoformat(),
    }  # fmt: skip
    alert: dict[str, Json] = {
        "source": "demo", "key": f"demo-{now.isoformat()}", "window": window, "body": body,
    }  # fmt: skip
    return {"kind": "alert", "alert": alert}


def _others(stage: Stage, session: Session, top: Finding) -> None:
    """What else was found, and what became of it."""
    handed = {ticket.finding for ticket in session.ws.ledger.handoffs.listed()}
    for stored in session.ws.ledger.knowledge.findings():
        finding = stored.finding
        if finding.id == top.id:
            state = "worked on now"
        elif finding.id in handed:
            state = f"handed off: a fix belongs to the {finding.remedy}, not into text"
        elif finding.actionable:
            state = f"open: tracemend improve --finding {finding.id}"
        else:
            state = f"left alone, {finding.why_not}"
        seen = f"{finding.units:>3} of {finding.units_total} {finding.change:<7}"
        stage.say(f"{seen} {finding.signature}")
        stage.say(f"{'':<19}{state}")


def _ask(stage: Stage) -> Literal["approve", "reject"] | None:
    """The person's answer; None without a terminal or a clear word. Enter never approves."""
    if stage.options.quiet or not sys.stdin.isatty():
        return None
    for _ in range(3):
        said = stage.out.input("   Type approve, reject, or later: ").strip().lower()
        if said in ("approve", "reject"):
            return "approve" if said == "approve" else "reject"
        if said in ("later", "q", "quit"):
            return None
        stage.say("Nothing is decided by that.")
    return None


def _ask_reason(stage: Stage) -> str:
    return stage.out.input("   Reason (wrong_cause, wrong_fix, not_worth_it, risky, other): ")


def _how_to(stage: Stage, proposal: Proposal) -> None:
    stage.title(5, "Waiting")
    stage.say("Nothing was applied. The proposal waits, also after a restart. To decide:")
    stage.say(f"  cd {stage.options.folder}")
    stage.say(f"  uv run tracemend approve {proposal.id}")
    stage.say(f"  uv run tracemend reject {proposal.id} --reason wrong_fix")


def _tell(stage: Stage, session: Session, outcome: Outcome) -> None:
    """The gate's table and what followed."""
    if outcome.report is not None:
        gate_lines(from_json(GatePlan, outcome.proposal.plan), outcome.report[0], stage.out)
    for line in outcome_lines(outcome):
        stage.say(line)
    del session


async def _watch(stage: Stage, session: Session, release: Release) -> JsonObject:
    stage.title(6, f"Live: {REQUESTS} fresh requests after the release")
    _record(stage, session, "after", weather="stormy", seed=stage.options.seed + 5000)
    ran = await session.service.start({"kind": "watch", "release": release.id})
    seen = session.ws.ledger.steps.get(ran.thread, f"watch:{release.id}")
    if seen is None:
        raise ConfigError(f"the watch of {release.id} left no counts")
    for side in ("before", "after"):
        stage.say(_rate_line(side, seen[side]))
    stage.say(str(seen["note"]))
    stage.say(f"Undo: cd {stage.options.folder} && uv run tracemend undo {release.id}")
    return {key: seen[key] for key in ("unit", "before", "after", "p")}


def _rate_line(side: str, counts: Json) -> str:
    if not isinstance(counts, Mapping):
        raise TypeError(f"watch.{side}: not an object")
    low, high = counts["low"], counts["high"]
    share = f"{counts['failures']} of {counts['runs']}"
    if counts["rate"] is None:
        return f"{side:<7}{share:<11} no run, so no rate"
    return f"{side:<7}{share:<11} rate {counts['rate']:.3f} [{low:.3f}, {high:.3f}] (95 %)"


def _document(
    finding: Finding,
    proposal: Proposal,
    outcome: Outcome | None,
    watch: JsonObject | None,
    before: str,
) -> dict[str, Json]:
    release = outcome.release if outcome is not None else None
    return {
        "schema": "tracemend.demo/1",
        "finding": finding_json(finding),
        "proposal": {
            "id": proposal.id, "revision": proposal.revision, "hash": proposal.hash,
            "lines_added": proposal.lines_added, "lines_removed": proposal.lines_removed,
        },
        "decision": decision_json(outcome.decision if outcome is not None else None),
        "gate": gate_json(outcome.report if outcome is not None else None),
        "release": release_json(release),
        "harness": {"before": before, "after": release.after if release else before},
        "watch": watch,
    }  # fmt: skip
