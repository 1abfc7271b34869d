"""What tests of the whole engine decode, and how they have it logged."""

import random
from pathlib import Path

from memspec_actors import Config
from memspec_actors.config import EventsConfig, ScheduleConfig
from memspec_actors.zoo.world import sample_request

__all__ = ["MIXED", "with_events", "zoo_prompt"]


def zoo_prompt(*phases: str, seed: object = 1) -> str:
    """Write a held-out request of the embedded models' world, of items of these domains."""
    return sample_request(random.Random(f"eval:{seed}"), phases, split="eval").prompt_text


MIXED = zoo_prompt("medical", "code", "law", "math")


def with_events(path: Path, **schedule: object) -> Config:
    """Configure the embedded models to log into a file."""
    return Config(events=EventsConfig(path=str(path)), schedule=ScheduleConfig(**schedule))  # type: ignore[arg-type]
