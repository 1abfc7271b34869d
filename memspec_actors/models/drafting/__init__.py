"""A draft at work: its place in the arena, its caches within a request, its steps on a device.

Each module imports only from the lines above its own:

    draft_cache                      one draft's cache within one request
    draft_caches                     those of all drafts
    fixed_step                       a step that can be recorded and replayed
    device_draft                     tokens drafted without the host looking at any
    arena, device_slots              the memory of all drafts; places in it that drafts are bound to
    reader                           a draft read into its place
"""
