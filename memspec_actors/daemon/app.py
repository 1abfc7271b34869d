"""The daemon's endpoints."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from memspec_actors.daemon import completions, dashboard, drafts, monitoring, openapi, status
from memspec_actors.daemon.http.access import AccessControl
from memspec_actors.daemon.http.refusals import respond_to_refusal, respond_to_unexpected
from memspec_actors.daemon.http.unread_bodies import UnreadBodies
from memspec_actors.daemon.service import Service

__all__ = ["create_app"]


def create_app(service: Service) -> ASGIApp:
    """Return the ASGI application that serves ``service``."""
    app = Starlette(
        routes=[
            Route("/v1/completions", completions.completions, methods=["POST"]),
            Route("/v1/chat/completions", completions.chat_completions, methods=["POST"]),
            Route("/", dashboard.page),
            Mount("/dashboard", dashboard.files),
            Route("/openapi.json", openapi.openapi),
            Route("/health", status.health),
            Route("/v1/models", status.models),
            Route("/v1/models/{name:path}", status.model),
            Route("/metrics", monitoring.metrics),
            Route("/events", monitoring.events),
            Route("/drafts", drafts.drafts),
            Route("/drafts/{name}/{wish}", drafts.steer, methods=["POST"]),
        ],
        middleware=[Middleware(AccessControl, service.config)],
        exception_handlers={
            HTTPException: respond_to_refusal,
            ClientDisconnect: _respond_to_nobody,
            500: respond_to_unexpected,
        },
    )
    app.state.service = service
    return UnreadBodies(app)  # around everything, since a failure is a reply too


async def _respond_to_nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
