"""`POST /v1/events`: HTTP around the flow.  Nothing a client sends may end as anything but an answer."""

import logging
import random
from datetime import UTC, datetime
from typing import Final

from services.ingest.accept import Flow, accept
from services.ingest.asgi import Answer, AsgiReceive, AsgiSend, ClientGoneError, Header, Scope
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.body_form import form_of
from services.ingest.http import problems
from services.ingest.http.answer import answer
from services.ingest.http.body import Body
from services.ingest.http.cors import Cors
from services.ingest.observe.metrics import Request, Seen
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.request import RequestContext
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from shared.errors import INTERNAL, METHOD_NOT_ALLOWED, InfrastructureError, OnrampError, UserError
from shared.steps import Step

logger = logging.getLogger(__name__)

_CLOSE: Final[Header] = (b"connection", b"close")


class Events:
    """The endpoint, as a plain ASGI application."""

    def __init__(
        self,
        *,
        flow: Flow,
        senders: ApiKeys,
        budget: ByteBudget,
        settings: IngestSettings,
        log: RejectionLog,
        seen: Seen,
    ) -> None:
        self._flow = flow
        self._senders = senders
        self._budget = budget
        self._settings = settings
        self._cors = Cors(settings.origins)
        self._log = log
        self._seen = seen

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request."""
        headers: list[Header] = scope["headers"]
        if scope["method"] != "POST":
            await self._other_method(scope["method"], headers).give(send)
            return
        with Request() as request:
            arrival = arrived(headers)
            body = Body(arrival.headers, receive, self._budget, self._settings.max_body_bytes)
            arrival.expect = body.expect
            with body:
                try:
                    given = await self._judged(arrival, headers, body)
                except ClientGoneError:
                    return
                more = self._cors.headers(arrival.headers)
                if not body.read_whole:
                    # The rest of the body would be read as the next request.
                    more = [*more, _CLOSE]
                request.answered(given.status)
                body.answered(len(given.body))
                await given.plus(more).give(send)

    async def _judged(self, arrival: RequestContext, headers: list[Header], body: Body) -> Answer:
        async def receive(arrival: RequestContext) -> bytes:
            arrival.sender = self._senders.identify(headers)
            arrival.form = form_of(arrival.headers)
            arrival.sender.quota.admit()
            return await body.read()

        retry_after = self._settings.retry_after_seconds
        try:
            items = await accept(self._flow, arrival, receive)
        except OnrampError as refusal:
            refusal.at(arrival.step)
            self._log.refused(arrival, refusal)
            self._seen.refused(arrival, refusal)
            return problems.answer(refusal, arrival.request_id, retry_after)
        except ClientGoneError:
            raise
        except Exception:
            logger.exception("internal error", extra=_where(arrival))
            return problems.answer(_internal(arrival), arrival.request_id, retry_after)
        self._log.judged(arrival, items)
        self._seen.judged(arrival, items)
        return answer(items, arrival, retry_after)

    def _other_method(self, method: str, headers: list[Header]) -> Answer:
        if method == "OPTIONS":
            preflight = self._cors.preflight(dict(headers))
            if preflight is not None:
                return preflight
        refusal = UserError(METHOD_NOT_ALLOWED, "events are sent with POST")
        given = problems.answer(refusal, new_request_id(), 1)
        return given.plus([(b"allow", b"POST, OPTIONS")])


def arrived(headers: list[Header]) -> RequestContext:
    """A new arrival, now."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    return RequestContext(new_request_id(), now, _merged(headers))


def new_request_id() -> str:
    """What an answer and its log lines have in common."""
    return f"{random.getrandbits(64):016x}"


def _merged(headers: list[Header]) -> dict[bytes, bytes]:
    """One value per name; of a repeated header all values, as RFC 9110 joins them."""
    merged = dict(headers)
    if len(merged) < len(headers):
        for name in merged:
            merged[name] = b", ".join(value for other, value in headers if other == name)
    return merged


def _where(arrival: RequestContext) -> dict[str, str]:
    return {"request_id": arrival.request_id, "step": arrival.step}


def _internal(arrival: RequestContext) -> OnrampError:
    if arrival.step is Step.SEND:
        return InfrastructureError(INTERNAL, "the outcome is unknown").at(Step.SEND)
    return InfrastructureError(INTERNAL, "nothing was sent to Kafka").at(arrival.step).surely(accepted=False)
