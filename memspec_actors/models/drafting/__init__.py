"""A draft at work: its place in the arena, its caches within a request, its steps on a device."""
