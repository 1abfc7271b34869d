"""The dashboard: a static page that lives on `/events` and the API, and asks nothing of anybody else."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

__all__ = ["files", "page"]

FOLDER = Path(__file__).parent / "dashboard"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

files = StaticFiles(directory=FOLDER)


async def page(request: Request) -> Response:
    """Give the page; it may load its own files, talk to this daemon, and nothing else."""
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return FileResponse(FOLDER / "index.html", headers=headers)
