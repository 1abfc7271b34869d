"""``/health`` and ``/v1/models``."""

from starlette.requests import Request
from starlette.responses import Response

from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.daemon.service import Service
from memspec_actors.protocols.http_replies import Health, Model, ModelList

__all__ = ["health", "model", "models"]


async def health(request: Request) -> Response:
    """Say whether requests are served: 200 and ``ok``, or 503 and ``loading`` or ``stopping``."""
    phase = Service.of(request).phase
    return json_response(Health(status=phase), status=200 if phase == "ok" else 503)


async def models(request: Request) -> Response:
    """List the one model that is served."""
    return json_response(ModelList(data=(_model(Service.of(request)),)))


async def model(request: Request) -> Response:
    """Describe the model that is served."""
    service = Service.of(request)
    service.check_model(request.path_params["name"])
    return json_response(_model(service))


def _model(service: Service) -> Model:
    return Model(id=service.model_name, created=service.created)
