"""Draw a story: as a page to zoom in, or as a picture."""

from memspec_actors.telemetry.timeline.page import timeline_page
from memspec_actors.telemetry.timeline.picture import timeline_picture

__all__ = ["timeline_page", "timeline_picture"]
