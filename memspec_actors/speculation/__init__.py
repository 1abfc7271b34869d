"""The maths of one speculative-decoding iteration: pure functions and small classes, no models, no asyncio."""
