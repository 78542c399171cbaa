"""`POST /v1/events`: HTTP around the flow. Every request gets an answer."""

import logging
import random
from collections import Counter
from collections.abc import Collection
from typing import Final

from services.ingest.accept import Flow, accept
from services.ingest.asgi import Answer, AsgiReceive, AsgiSend, ClientGoneError, Header, Scope
from services.ingest.auth.api_keys import ApiKeys
from services.ingest.body_form import form_of
from services.ingest.http import problems
from services.ingest.http.answer import answer
from services.ingest.http.body import Body
from services.ingest.http.cors import Cors
from services.ingest.now import now
from services.ingest.observe.metrics import RequestMetrics, RequestTimer
from services.ingest.observe.rejection_log import RejectionLog
from services.ingest.request import RequestContext
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from shared.errors import INTERNAL, METHOD_NOT_ALLOWED, InfrastructureError, OnrampError, UserError
from shared.path_steps import Step

logger = logging.getLogger(__name__)

_CLOSE: Final[Header] = (b"connection", b"close")


class Events:
    """The endpoint, as a plain ASGI application."""

    def __init__(
        self,
        *,
        flow: Flow,
        api_keys: ApiKeys,
        budget: ByteBudget,
        settings: IngestSettings,
        log: RejectionLog,
        metrics: RequestMetrics,
    ) -> None:
        self._flow = flow
        self._api_keys = api_keys
        self._budget = budget
        self._settings = settings
        self._cors = Cors(settings.origins)
        self._log = log
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request."""
        headers: list[Header] = scope["headers"]
        if scope["method"] != "POST":
            await self._other_method(scope["method"], headers).send(send)
            return
        with RequestTimer() as timer:
            request = new_request(headers, scope.get("client"))
            body = Body(request.headers, receive, self._budget, self._settings.max_body_bytes)
            request.reserve_answer = body.reserve_answer
            with body:
                try:
                    response = await self._run_flow(request, headers, body)
                except ClientGoneError:
                    return
                more = self._cors.headers(request.headers)
                if not body.read_whole:
                    # The rest of the body would be parsed as the next request.
                    more = [*more, _CLOSE]
                timer.set_status(response.status)
                body.hold_answer(len(response.body))
                await response.with_headers(more).send(send)

    async def _run_flow(self, request: RequestContext, headers: list[Header], body: Body) -> Answer:
        async def receive(request: RequestContext) -> bytes:
            request.sender = self._api_keys.authenticate(headers)
            request.form = form_of(request.headers)
            request.sender.quota.admit()
            return await body.read()

        retry_after = self._settings.retry_after_seconds
        try:
            items = await accept(self._flow, request, receive)
        except OnrampError as error:
            error.at(request.step).without_frames()
            self._log.log_request(request, error)
            self._metrics.count_request(request, error)
            return problems.answer(error, request.request_id, retry_after)
        except ClientGoneError:
            raise
        except Exception:
            logger.exception("internal error", extra=_log_fields(request))
            return problems.answer(_internal(request), request.request_id, retry_after)
        self._log.log_items(request, items)
        self._metrics.count_items(request, items)
        return answer(items, request, retry_after)

    def _other_method(self, method: str, headers: list[Header]) -> Answer:
        if method == "OPTIONS":
            preflight = self._cors.preflight(dict(headers))
            if preflight is not None:
                return preflight
        error = UserError(METHOD_NOT_ALLOWED, "events are sent with POST")
        response = problems.answer(error, new_request_id(), self._settings.retry_after_seconds)
        return response.with_headers([(b"allow", b"POST, OPTIONS")])


def new_request(headers: list[Header], client: tuple[str, int] | None) -> RequestContext:
    """Return the context of a request received now."""
    merged = dict(headers)
    repeated = _repeated(headers) if len(merged) < len(headers) else ()
    for name in repeated:
        merged[name] = b", ".join(value for other, value in headers if other == name)
    request = RequestContext(new_request_id(), now(), merged, client[0] if client else "")
    request.repeated = repeated
    return request


def new_request_id() -> str:
    """Return a random id, shared by an answer and its log lines."""
    return f"{random.getrandbits(64):016x}"


def _repeated(headers: list[Header]) -> Collection[bytes]:
    """Return the repeated names; their values are joined as RFC 9110 says."""
    counts = Counter(name for name, _ in headers)
    return {name for name, times in counts.items() if times > 1}


def _log_fields(request: RequestContext) -> dict[str, str]:
    return {"request_id": request.request_id, "step": request.step}


def _internal(request: RequestContext) -> OnrampError:
    if request.step is Step.SEND:
        return InfrastructureError(INTERNAL, "the outcome is unknown").at(Step.SEND)
    return InfrastructureError(INTERNAL, "nothing was sent to Kafka").at(request.step).surely(accepted=False)
