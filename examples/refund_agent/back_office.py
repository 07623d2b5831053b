"""A fake back office over HTTP on loopback that misbehaves on purpose, the same way every time.

What goes wrong depends on the order or customer, on the weather, and on a draw made of the run's
seed, the tool and the attempt, all three sent with the call. So two runs with one seed and one
input see one world, whatever else the agent does in between. Nothing here sleeps: a time-out
answers at once with the status that a gateway would send after its wait.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from examples.refund_agent.orders import Order, order_of, points_of, wholesale

SEED_HEADER = "X-Run-Seed"
RUN_HEADER = "X-Run-Id"
ATTEMPT_HEADER = "X-Attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What goes wrong, and how often. All shares are 0..1."""

    hot_shards: frozenset[int] = frozenset()
    """Payment shards under load: three of eleven are 27 % of the orders."""
    first_payment_fails: float = 0.9
    """On a hot shard."""
    later_payment_fails: float = 0.3
    """On a hot shard, each further attempt of the same run."""
    cut_carriers: frozenset[str] = frozenset()
    """Carriers whose tracking answers arrive cut off, whatever one does: one of seven is 14 %."""
    quota_used_up: float = 0.95
    """Loyalty calls of wholesale accounts that are refused."""
    address_check: bool = True
    """Return labels of moved customers need the address verified in the same run."""


CALM = Weather()
"""An ordinary week: loose order ids, unverified addresses and a few 429, but no outage."""

STORMY = Weather(hot_shards=frozenset({2, 5, 9}), cut_carriers=frozenset({"Parvo"}))
"""This week: payments under load, and one carrier's feed is cut off."""

WEATHERS: Mapping[str, Weather] = {"calm": CALM, "stormy": STORMY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as it reaches the back office."""

    tool: str
    arguments: Mapping[str, object]
    seed: int
    run_id: str
    attempt: int
    """Which call of this tool in the run, from 1."""

    def text(self, name: str) -> str:
        """An argument as text; absent is empty."""
        return str(self.arguments.get(name, ""))

    @property
    def draw(self) -> float:
        """In [0, 1), the same for the same seed, tool and attempt."""
        key = f"{self.seed}|{self.tool}|{self.attempt}".encode()
        return int.from_bytes(hashlib.sha256(key).digest()[:8]) / 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Status and raw body of an answer."""

    status: HTTPStatus
    body: bytes


def _ok(**fields: object) -> Reply:
    return Reply(status=HTTPStatus.OK, body=json.dumps(fields).encode())


def _error(status: HTTPStatus, message: str) -> Reply:
    return Reply(status=status, body=json.dumps({"error": message}).encode())


@dataclass(slots=True)
class BackOffice:
    """The rules of the shop under one weather."""

    weather: Weather
    _verified: dict[str, set[str]] = field(default_factory=dict, init=False)
    """Orders whose address was verified, by run."""

    def answer(self, call: Call) -> Reply:
        """What the back office says to one call."""
        if call.tool == "loyalty_points":
            return self._loyalty(call)
        rule = _ORDER_RULES.get(call.tool)
        if rule is None:
            return _error(HTTPStatus.NOT_FOUND, f"no such endpoint: {call.tool}")
        given = call.text("order_id")
        order = order_of(given)
        if order is None:
            return _error(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"malformed order_id {given!r}: expected a capital letter, a hyphen and four "
                "digits, such as A-1042",
            )
        return rule(self, call, order)

    def forget(self, run_id: str) -> None:
        """A run is over: what it verified counts no longer."""
        self._verified.pop(run_id, None)

    def _loyalty(self, call: Call) -> Reply:
        customer = call.text("customer")
        if wholesale(customer) and call.draw < self.weather.quota_used_up:
            return _error(HTTPStatus.TOO_MANY_REQUESTS, "rate limit exceeded, quota used up")
        return _ok(customer=customer, points=points_of(customer))

    def _order(self, _call: Call, order: Order) -> Reply:
        return _ok(order_id=order.id, item=order.item, amount_eur=order.amount_eur, paid=True)

    def _payment(self, call: Call, order: Order) -> Reply:
        weather = self.weather
        fails = weather.first_payment_fails if call.attempt == 1 else weather.later_payment_fails
        if order.shard in weather.hot_shards and call.draw < fails:
            return _error(HTTPStatus.GATEWAY_TIMEOUT, "the payment shard did not answer in time")
        return _ok(order_id=order.id, refunded_eur=call.text("amount_eur"), status="paid")

    def _queue(self, _call: Call, order: Order) -> Reply:
        return _ok(order_id=order.id, status="queued")

    def _notify(self, _call: Call, order: Order) -> Reply:
        return _ok(order_id=order.id, sent=True)

    def _shipping(self, _call: Call, order: Order) -> Reply:
        whole = json.dumps(
            {
                "order_id": order.id,
                "carrier": order.carrier,
                "events": [
                    {"at": "depot", "town": "Essen"},
                    {"at": "on the road", "town": order.town},
                ],
            }
        ).encode()
        cut = order.carrier in self.weather.cut_carriers
        return Reply(status=HTTPStatus.OK, body=whole[: len(whole) * 2 // 3] if cut else whole)

    def _verify(self, call: Call, order: Order) -> Reply:
        self._verified.setdefault(call.run_id, set()).add(order.id)
        return _ok(order_id=order.id, verified=True)

    def _label(self, call: Call, order: Order) -> Reply:
        needed = self.weather.address_check and order.moved
        if needed and order.id not in self._verified.get(call.run_id, set()):
            return _error(
                HTTPStatus.CONFLICT,
                f"address of order {order.id} is not verified, verify_address has to come first",
            )
        return _ok(order_id=order.id, label=order.label)


_ORDER_RULES: Mapping[str, Callable[[BackOffice, Call, Order], Reply]] = {
    "get_order": BackOffice._order,  # noqa: SLF001 -- the table belongs to the class above
    "payment_api": BackOffice._payment,  # noqa: SLF001
    "queue_refund": BackOffice._queue,  # noqa: SLF001
    "notify_customer": BackOffice._notify,  # noqa: SLF001
    "shipping_status": BackOffice._shipping,  # noqa: SLF001
    "verify_address": BackOffice._verify,  # noqa: SLF001
    "create_return_label": BackOffice._label,  # noqa: SLF001
}


def _handler(office: BackOffice) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """POST /<tool> with the arguments as a JSON object."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a delayed ACK costs 40 ms a call

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            arguments = json.loads(self.rfile.read(length) or b"{}")
            reply = office.answer(
                Call(
                    tool=self.path.strip("/"),
                    arguments=arguments,
                    seed=int(self.headers.get(SEED_HEADER, "0")),
                    run_id=self.headers.get(RUN_HEADER, ""),
                    attempt=int(self.headers.get(ATTEMPT_HEADER, "1")),
                )
            )
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Stay silent: the worker's stdout and stderr are not ours."""

    return Handler


@contextmanager
def open_back_office(weather: Weather) -> Iterator[tuple[str, BackOffice]]:
    """Serve a back office on a free port of 127.0.0.1; yields its base URL and the office."""
    office = BackOffice(weather)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(office))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", office
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
