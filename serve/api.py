"""The HTTP API: OpenAI's routes, scores, debates, runs, the page, and what operators ask for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from rldf_ray.apps.serve import debates, debias, evince, reward, runs
from rldf_ray.apps.serve.bodies import (
    ChatBody,
    CompletionBody,
    DebateBody,
    DebiasBody,
    EvinceBody,
    engine_body,
    prompt_of,
)
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.engines import (
    EngineFailedError,
    EngineGoneError,
    EngineRefusedError,
    Kind,
    UnknownModelError,
)
from rldf_ray.apps.serve.guard import Guard, RefusedError, error_content
from rldf_ray.apps.serve.keys import KeyRing
from rldf_ray.apps.serve.limits import Allowances
from rldf_ray.apps.serve.limits import Limits as KeyLimits
from rldf_ray.apps.serve.metrics import CONTENT_TYPE
from rldf_ray.apps.serve.referees import TRAINED
from rldf_ray.apps.serve.responses import (
    DetokenizeBody,
    ResponsesBody,
    TokenizeBody,
    responses_engine_body,
    tokenize_body,
)
from rldf_ray.apps.serve.service import VERSION_HEADER, Service, caller_of
from rldf_ray.apps.serve.settings import Settings
from rldf_ray.apps.serve.store import StoreError
from rldf_ray.prompts import render
from rldf_ray.protocols.evince.scale import load_scale, scale_names
from rldf_ray.topics.bias_type import bias_type, shipped_bias_types

PAGE = Path(__file__).parent / "page"
# The page loads nothing from elsewhere and runs no script but its own files. Styles may be inline:
# a report that it shows in a frame brings its own, and the frame inherits this policy.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
SSE = "text/event-stream"

log = logging.getLogger("rldf.serve")


def build_guarded(service: Service, keys: KeyRing | None, limits: KeyLimits | None = None) -> Guard:
    """The guard, and the routes behind it; `limits` are those of several replicas together."""
    settings = service.settings
    return Guard(
        app=build_api(service),
        limits=settings.limits,
        keys=keys,
        allowances=limits or Allowances(),
        metrics=service.metrics,
        serves_host=settings.serves_host,
    )


def with_cors(guard: Guard, settings: Settings) -> ASGIApp:
    """The whole ASGI application: pages of the named origins may call it.

    In front of the guard: a browser asks first without a key whether it may (preflight), and a
    page reads a refusal only if that says so, too.
    """
    if not settings.cors_origins:
        return guard
    return CORSMiddleware(
        guard,
        allow_origins=list(settings.cors_origins),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=[VERSION_HEADER, "retry-after"],
    )


def build_api(service: Service) -> FastAPI:
    """The routes alone; its OpenAPI description is at /openapi.json."""
    api = FastAPI(title="RLDF", version="1", docs_url=None, redoc_url=None)
    _add_errors(api)
    _add_openai(api, service)
    _add_debates(api, service)
    api.include_router(reward.router(service))
    api.include_router(runs.router(service.settings.runs))
    _add_operations(api, service)
    _add_page(api, service)
    return api


def _add_openai(api: FastAPI, service: Service) -> None:
    @api.post("/v1/chat/completions", tags=["openai"], responses=ERRORS)
    async def chat_completions(body: ChatBody, request: Request) -> Response:
        return await _generated(service, body, request)

    @api.post("/v1/completions", tags=["openai"], responses=ERRORS)
    async def completions(body: CompletionBody, request: Request) -> Response:
        return await _generated(service, body, request)

    @api.post("/v1/responses", tags=["openai"], responses=ERRORS)
    async def answer(body: ResponsesBody, request: Request) -> Response:
        told = responses_engine_body(body, service.settings)
        if service.settings.log_prompts:
            log.info("prompt: %r", told["input"])
        return await _answered(service, request, body.model, "responses", told, body.stream)

    @api.post("/tokenize", tags=["openai"], responses=ERRORS)
    async def tokenized(body: TokenizeBody, request: Request) -> Response:
        told = tokenize_body(body, service.settings)
        return await _answered(service, request, body.model, "tokenize", told)

    @api.post("/detokenize", tags=["openai"], responses=ERRORS)
    async def detokenized(body: DetokenizeBody, request: Request) -> Response:
        told = {"tokens": body.tokens}
        return await _answered(service, request, body.model, "detokenize", told)

    @api.get("/v1/models", tags=["openai"])
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [_card(service, n) for n in service.settings.models]}

    @api.get("/v1/models/{model}", tags=["openai"], responses=ERRORS)
    def model(model: str) -> dict[str, Any]:
        if model not in service.settings.models:
            raise UnknownModelError(f"the model {model!r} does not exist")
        return _card(service, model)


async def _generated(
    service: Service, body: ChatBody | CompletionBody, request: Request
) -> Response:
    told = engine_body(body, service.settings)
    if service.settings.log_prompts:
        log.info("prompt: %r", prompt_of(body))
    kind: Kind = "chat" if isinstance(body, ChatBody) else "completion"
    return await _answered(
        service, request, body.model, kind, told, body.wants_stream, body.wants_usage
    )


async def _answered(
    service: Service,
    request: Request,
    model: str | None,
    kind: Kind,
    told: dict[str, Any],
    streams: bool | None = False,
    wants_usage: bool = False,
) -> Response:
    """An answer, whole or streamed; errors before its first piece have their own status."""
    caller = caller_of(request)
    if not streams:
        target, found = await service.answer(caller, model, kind, told)
        return JSONResponse(found, headers={VERSION_HEADER: target.version})
    target, events = await service.stream(caller, model, kind, told, wants_usage)
    return _sse(events, {VERSION_HEADER: target.version})


def _card(service: Service, name: str) -> dict[str, Any]:
    source = service.settings.models[name]
    card: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "rldf"}
    if source.on is not None:
        card["adapter_on"] = source.on
    traffic = service.routes.traffic(name) if source.store else None
    if traffic is not None:
        card |= {"current": traffic.current, "next": traffic.next, "percent": traffic.percent}
    return card


def _add_debates(api: FastAPI, service: Service) -> None:
    corpora = debias.Corpora(service.settings.corpora)

    @api.post("/v1/debate", tags=["rldf"], responses=ERRORS)
    async def debate(body: DebateBody, request: Request) -> StreamingResponse:
        found = debates.checked(body, service)
        return _sse(debates.events(body, found, service, caller_of(request)), {})

    @api.post("/v1/debias", tags=["rldf"], responses=ERRORS)
    async def debiased(body: DebiasBody, request: Request) -> StreamingResponse:
        """A question answered, judged, rewritten and answered again; the steps as they come."""
        found = await debias.checked(body, service, corpora)
        return _sse(debias.events(body, found, service, caller_of(request)), {})

    @api.post("/v1/evince", tags=["rldf"], responses=ERRORS)
    async def dispute(body: EvinceBody, request: Request) -> StreamingResponse:
        """Two models argue over a text's label; the dialogue as it unfolds."""
        settings = evince.checked(body, service)
        return _sse(evince.events(body, settings, service, caller_of(request)), {})


def _add_operations(api: FastAPI, service: Service) -> None:
    @api.get("/health", tags=["operations"])
    def health() -> dict[str, str]:
        """This process answers."""
        return {"status": "ok"}

    @api.get("/ready", tags=["operations"], responses={503: {"description": "not ready"}})
    async def ready(request: Request) -> JSONResponse:
        """Every model answers, and no shutdown has begun."""
        generating, waiting_for = await _state(service)
        draining = bool(getattr(request.state, "draining", False))
        ready = not (waiting_for or draining)
        found = {"ready": ready, "draining": draining, "waiting_for": waiting_for}
        return JSONResponse({**found, "generating": generating}, 200 if ready else 503)

    @api.get("/metrics", tags=["operations"])
    def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


async def _state(service: Service) -> tuple[dict[str, int | None], list[str]]:
    """Generations under way by engine, and the models that no engine answers for."""
    try:
        engines = {name: list(service.routes.engines(name)) for name in service.settings.models}
    except (OSError, StoreError) as error:
        log.error("%s", error)
        return {}, ["the store of models; the server's log has it"]
    names = sorted({engine for found in engines.values() for engine in found})
    generating = dict(zip(names, await service.engines.generating(names), strict=True))
    silent = [
        model
        for model, found in engines.items()
        if all(generating[engine] is None for engine in found)
    ]
    return generating, silent


def _add_page(api: FastAPI, service: Service) -> None:
    @api.get("/", include_in_schema=False)
    def page() -> FileResponse:
        headers = {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)

    @api.get("/v1/about", tags=["rldf"])
    def about() -> dict[str, Any]:
        """What the page offers: models, bias types, and the prompt of training."""
        settings = service.settings
        return {
            "models": list(settings.models),
            "default": settings.default_model,
            "referee": TRAINED if service.trained else settings.referee_model,
            "reward": service.scorer is not None,
            "runs": [Path(folder).name for folder in settings.runs],
            "debate_rounds": settings.limits.debate_rounds,
            "corpora": sorted(settings.corpora),
            "scales": {name: load_scale(name).names for name in scale_names()},
            "bias_types": {
                name: [identity.name for identity in bias_type(name).identities]
                for name in shipped_bias_types()
            },
            "answer_prompt": render(
                "answer", text="{topic}", question=None, clue=None, identity=None
            ),
        }

    api.mount("/page", StaticFiles(directory=PAGE), name="page")


def _sse(events: AsyncIterator[str], headers: dict[str, str]) -> StreamingResponse:
    fixed = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type=SSE, headers=fixed | headers)


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": what}
    for status, what in {
        400: "the request is wrong",
        401: "no valid key",
        403: "no name of this server",
        404: "no such model",
        408: "the body came too slowly",
        413: "the body is too large",
        429: "a limit is used up",
        503: "no engine to answer",
        504: "the answer took too long and was cancelled",
    }.items()
}


def _add_errors(api: FastAPI) -> None:
    """Every refusal in OpenAI's error format, and nothing of the request repeated in it."""

    def error(status: int, message: str, kind: str, **rest: Any) -> JSONResponse:
        return JSONResponse(error_content(_ascii(message), kind, **rest), status)

    @api.exception_handler(RequestValidationError)
    async def invalid(request: Request, found: RequestValidationError) -> JSONResponse:
        first = found.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        message = f"{where}: {first['msg']}" if where else str(first["msg"])
        return error(400, message[:500], INVALID, param=_ascii(where)[:200] or None)

    @api.exception_handler(BodyError)
    async def beyond(request: Request, found: BodyError) -> JSONResponse:
        return error(400, str(found), INVALID, param=found.param)

    @api.exception_handler(UnknownModelError)
    async def unknown(request: Request, found: UnknownModelError) -> JSONResponse:
        return error(404, str(found)[:500], INVALID, code="model_not_found", param="model")

    @api.exception_handler(EngineRefusedError)
    async def refused(request: Request, found: EngineRefusedError) -> JSONResponse:
        return error(found.status, str(found), INVALID, param=found.param)

    @api.exception_handler(EngineGoneError)
    async def gone(request: Request, found: EngineGoneError) -> JSONResponse:
        return error(503, str(found), SERVER, code="engine_lost")

    @api.exception_handler(EngineFailedError)
    async def failing(request: Request, found: EngineFailedError) -> JSONResponse:
        log.error("%s", found)
        message = "the engine failed on this request; the server's log has it"
        return error(500, message, SERVER, code="engine_failed")

    @api.exception_handler(debias.CorpusGoneError)
    async def no_corpus(request: Request, found: debias.CorpusGoneError) -> JSONResponse:
        return error(503, str(found), SERVER)

    @api.exception_handler(StoreError)
    async def no_store(request: Request, found: StoreError) -> JSONResponse:
        log.error("%s", found)
        return error(503, "the store of models cannot be read; the server's log has it", SERVER)

    @api.exception_handler(TimeoutError)
    async def too_long(request: Request, found: TimeoutError) -> JSONResponse:
        return error(504, "the answer took too long and was cancelled", SERVER)

    @api.exception_handler(RefusedError)
    async def turned_away(request: Request, found: RefusedError) -> JSONResponse:
        return JSONResponse(found.content, found.status, headers=found.headers())

    @api.exception_handler(HTTPException)
    async def http(request: Request, found: HTTPException) -> JSONResponse:
        return error(found.status_code, str(found.detail), INVALID)

    @api.exception_handler(Exception)
    async def failed(request: Request, found: Exception) -> JSONResponse:
        return error(500, "internal error; the server's log has it", SERVER)


INVALID = "invalid_request_error"
SERVER = "server_error"


def _ascii(text: str) -> str:
    """What a client sent may not be text that can be sent back."""
    return text.encode("ascii", "backslashreplace").decode("ascii")
