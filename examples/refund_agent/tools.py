"""The agent's tools: each is one call of the back office over HTTP."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

import httpx
from langchain_core.tools import BaseTool, tool

from examples.refund_agent.back_office import (
    ATTEMPT_HEADER,
    RUN_HEADER,
    SEED_HEADER,
    Weather,
    open_back_office,
)


class OfficeError(Exception):
    """The back office refused a call or could not be understood; `str(error)` goes to the model."""


class Forgets(Protocol):
    """Whatever keeps something per run."""

    def forget(self, run_id: str) -> None:
        """The run is over."""
        ...


@dataclass(slots=True)
class _Run:
    """The run a call belongs to, and how often it called each tool."""

    seed: int
    run_id: str
    attempts: Counter[str] = field(default_factory=Counter)


# A context variable, since LangGraph runs tools in other threads and copies the context there.
_RUN: ContextVar[_Run] = ContextVar("_RUN")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeClient:
    """Calls the back office on behalf of the run that is under way."""

    http: httpx.Client
    office: Forgets

    @contextmanager
    def run(self, *, seed: int, run_id: str) -> Iterator[None]:
        """Mark every call made inside as belonging to this run."""
        token = _RUN.set(_Run(seed=seed, run_id=run_id))
        try:
            yield
        finally:
            _RUN.reset(token)
            self.office.forget(run_id)

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """The body of a good answer.

        Raises:
            OfficeError: any HTTP error, or a body that is not JSON.
        """
        run = _RUN.get()
        run.attempts[name] += 1
        headers = {
            SEED_HEADER: str(run.seed),
            RUN_HEADER: run.run_id,
            ATTEMPT_HEADER: str(run.attempts[name]),
        }
        answer = self.http.post(f"/{name}", json=dict(arguments), headers=headers)
        try:
            body = json.loads(answer.content)
        except json.JSONDecodeError as error:
            raise OfficeError(
                f"{name}: the body of the answer is not valid JSON (JSONDecodeError: {error})"
            ) from error
        if answer.is_success:
            return answer.text
        status = HTTPStatus(answer.status_code)
        why = body.get("error") if isinstance(body, dict) else None
        raise OfficeError(f"{name}: HTTP {status.value} {status.phrase}: {why}")


@contextmanager
def open_office(weather: Weather) -> Iterator[OfficeClient]:
    """A back office under this weather and a client of it."""
    with (
        open_back_office(weather) as (url, office),
        # trust_env off: a proxy of the environment must not see loopback calls.
        httpx.Client(base_url=url, timeout=10.0, trust_env=False) as http,
    ):
        yield OfficeClient(http=http, office=office)


def build_tools(client: OfficeClient) -> list[BaseTool]:
    """The eight tools.

    All but one raise `OfficeError`, which the graph turns into an error message.
    `create_return_label` swallows its error and returns it as text, as many real tools do.
    """

    @tool
    def get_order(order_id: str) -> str:
        """Look up an order: its item, amount and payment."""
        return client.call("get_order", {"order_id": order_id})

    @tool
    def payment_api(order_id: str, amount_eur: str) -> str:
        """Pay the amount of an order back to the customer."""
        return client.call("payment_api", {"order_id": order_id, "amount_eur": amount_eur})

    @tool
    def queue_refund(order_id: str, reason: str) -> str:
        """Put a refund in the queue that a colleague works through by hand."""
        return client.call("queue_refund", {"order_id": order_id, "reason": reason})

    @tool
    def notify_customer(order_id: str, message: str) -> str:
        """Send the customer the confirmation of a refund."""
        return client.call("notify_customer", {"order_id": order_id, "message": message})

    @tool
    def shipping_status(order_id: str) -> str:
        """Where the parcel of an order is."""
        return client.call("shipping_status", {"order_id": order_id})

    @tool
    def verify_address(order_id: str) -> str:
        """Verify the address of the customer of an order."""
        return client.call("verify_address", {"order_id": order_id})

    @tool
    def create_return_label(order_id: str) -> str:
        """Create the label with which the customer sends an order back."""
        try:
            return client.call("create_return_label", {"order_id": order_id})
        except OfficeError as error:
            return f"Error: {error}"

    @tool
    def loyalty_points(customer: str) -> str:
        """How many loyalty points a customer has."""
        return client.call("loyalty_points", {"customer": customer})

    return [
        get_order,
        payment_api,
        queue_refund,
        notify_customer,
        shipping_status,
        verify_address,
        create_return_label,
        loyalty_points,
    ]
