"""A timeline as one HTML file that needs nothing else."""

from importlib.resources import files

import msgspec

from memspec_actors.telemetry.story import Story

__all__ = ["timeline_page"]

_PLACE = "{{story}}"


def timeline_page(story: Story) -> str:
    """Return a page with the story in it, and the program that draws it."""
    page = files("memspec_actors.telemetry.timeline").joinpath("page.html").read_text(encoding="utf-8")
    # Whatever a log holds, it must not end the script element that it is put into.
    return page.replace(_PLACE, msgspec.json.encode(story).decode().replace("<", "\\u003c"))
