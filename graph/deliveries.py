"""Deliver hand-offs to the operator's webhook: at least once, never in the way of a run.

A ticket is filed in the ledger by a node and sent from here afterwards. What was taken is noted
after the receiver's yes: killed between the two, the ticket is sent again under the same key.
"""

import asyncio
import logging
import os
from dataclasses import dataclass
from datetime import datetime, timedelta

from connectors.handoffs.webhook import Webhook
from contracts.errors import ConfigError, ConnectorError, UsageError
from contracts.json_types import Json, canonical_json
from memory.handoffs import Ticket
from memory.workspace import Workspace
from nodes.handoff import ticket_text

SCHEMA = "tracemend.handoff/1"
FIRST_AGAIN = timedelta(minutes=1)
LONGEST_AGAIN = timedelta(hours=6)
GROWTH = 4
"""Each wait for the next round of tries is so many times the one before."""

_log = logging.getLogger("tracemend.handoffs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of one ticket. `problem`: why it was not taken; None: it was."""

    finding: str
    problem: str | None


def open_webhook(ws: Workspace) -> Webhook | None:
    """Where this project's tickets go; None: they are only listed.

    Raises:
        ConfigError: the secret is set and empty.
    """
    spec = ws.settings.handoffs
    if spec.webhook is None:
        return None
    secret = os.environ.get(spec.secret_env)
    if secret is not None and not secret.strip():
        raise ConfigError(f"handoffs.secret_env: the variable {spec.secret_env} is empty")
    return Webhook(url=spec.webhook, secret=secret.encode() if secret else None)


def due(ws: Workspace) -> list[Ticket]:
    """Tickets to send now: not taken yet, and their time to be tried again has come."""
    if ws.settings.handoffs.webhook is None:
        return []
    now = ws.ledger.db.clock()
    return [ticket for ticket in ws.ledger.handoffs.unsent() if next_try(ticket) <= now]


def next_try(ticket: Ticket) -> datetime:
    """From when on an unsent ticket is tried again; waits grow from a minute to six hours."""
    if ticket.tried_at is None:
        return datetime.fromisoformat(ticket.at)
    wait = FIRST_AGAIN
    for _ in range(min(ticket.tries - 1, 8)):
        wait *= GROWTH
    return datetime.fromisoformat(ticket.tried_at) + min(wait, LONGEST_AGAIN)


async def deliver_due(ws: Workspace, webhook: Webhook | None = None) -> list[Delivered]:
    """Send what is due; the first that is not taken ends the round, for the others would not be.

    A receiver that is down is noted with its ticket and raises nothing.

    Args:
        ws: the project.
        webhook: where to; None: as the settings say.
    """
    sent: list[Delivered] = []
    for ticket in await asyncio.to_thread(due, ws):
        done = await _deliver(ws, ticket, webhook)
        if done is not None:
            sent.append(done)
            if done.problem is not None:
                break
    return sent


async def deliver(ws: Workspace, finding: str, webhook: Webhook | None = None) -> Delivered:
    """Send one ticket now, because a person asks; also one that was sent before.

    Raises:
        UsageError: there is no such open ticket, no webhook is configured, or another process
            sends it just now.
    """
    ticket = await asyncio.to_thread(ws.ledger.handoffs.get, finding)
    if ticket is None or ticket.state == "closed":
        known = "its hand-off is closed" if ticket is not None else "it has no hand-off"
        raise UsageError(f"{finding}: {known}; `tracemend handoffs` lists them")
    if ws.settings.handoffs.webhook is None and webhook is None:
        raise UsageError("handoffs.webhook: needs an address to send to (tracemend.yaml)")
    done = await _deliver(ws, ticket, webhook)
    if done is None:
        raise UsageError(f"{finding}: another process sends it just now")
    return done


async def _deliver(ws: Workspace, ticket: Ticket, webhook: Webhook | None) -> Delivered | None:
    """Send and note; None: another process does."""
    leases = ws.ledger.leases
    lease = await asyncio.to_thread(leases.take, f"handoff:{ticket.finding}")
    if lease is None:
        return None
    try:
        problem = await _send(ws, ticket, webhook)
        await asyncio.to_thread(_note, ws, ticket, problem)
    finally:
        await asyncio.to_thread(leases.release, lease)
    return Delivered(finding=ticket.finding, problem=problem)


async def _send(ws: Workspace, ticket: Ticket, webhook: Webhook | None) -> str | None:
    """Why it was not taken; None: it was."""
    try:
        to = webhook or open_webhook(ws)
        if to is None:
            return "no webhook is set any more"
        await to.send(body_of(ws.project, ticket), key=key_of(ticket), now=ws.ledger.db.clock)
    except (ConnectorError, ConfigError) as error:
        return str(error)
    return None


def _note(ws: Workspace, ticket: Ticket, problem: str | None) -> None:
    with ws.ledger.db.write() as tx:
        if problem is None:
            ws.ledger.handoffs.sent(tx, ticket)
        else:
            ws.ledger.handoffs.not_sent(tx, ticket, problem)
    fields = {"project": ws.project, "finding": ticket.finding}
    if problem is None:
        _log.info("hand-off delivered", extra=fields)
    else:
        _log.warning("hand-off not delivered", extra={**fields, "problem": problem})


def key_of(ticket: Ticket) -> str:
    """The finding's id; a ticket that was closed and filed again is another one to its receiver."""
    filing = ticket.body.get("filing")
    return ticket.finding if not isinstance(filing, int) or filing < 2 else (
        f"{ticket.finding}.{filing}"
    )  # fmt: skip


def body_of(project: str, ticket: Ticket) -> bytes:
    """What the receiver gets. Its texts were masked when the ticket was filed."""
    body: dict[str, Json] = {
        "schema": SCHEMA, "project": project, "finding": ticket.finding, "key": key_of(ticket),
        "filed_at": ticket.at, "text": ticket_text(ticket.body), "ticket": ticket.body,
    }  # fmt: skip
    return canonical_json(body)
