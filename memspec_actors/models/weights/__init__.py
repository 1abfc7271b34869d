"""From files into memory: what goes where and becomes what, the load, and the runner bound to it.

Each module imports only from the lines above its own:

    segments, typed_memory           where stored tensors go; bytes as matrices of a number format
    layout, source                   where each tensor of a checkpoint goes; tensors as they are read
    gptq_tensors                     what the tensors of a GPTQ weight stand for
    code_memory, coding              a linear map in codes; which maps become codes
    filling, views                   from storage into a segment's place; that seen as a model's weights
    plan                             how one checkpoint is brought into memory
    loading, device_room             the load; whether a device has room for it
    opening                          a model in memory of its own
    page_cache                       storage measured without what the operating system remembers of it
"""
