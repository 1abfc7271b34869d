"""A ``memspec.toml`` to start from: every key at its default, with what it means."""

__all__ = ["TEMPLATE"]

TEMPLATE = """\
# What memspec runs. Every key may be left out; relative paths are relative to this file.

[target]
model = "zoo"               # a Hugging Face model directory, or "zoo": the small embedded models
dtype = "float32"           # "float32", "bfloat16" or "auto" (what the checkpoint is stored in)
device = "cpu"              # models run on the CPU only
threads = 1                 # threads of the decoding computations

# One table per draft. A model is a directory or "zoo:NAME".
[[drafts]]
name = "general"
model = "zoo:general"

[[drafts]]
name = "code"
model = "zoo:code"

[[drafts]]
name = "math"
model = "zoo:math"

[[drafts]]
name = "law"
model = "zoo:law"

[[drafts]]
name = "medical"
model = "zoo:medical"

[memory]
capacity = 2                # drafts held in memory beside the target (K)
# budget = "1.2GiB"         # bytes for drafts; wins over capacity

[schedule]
policy = "memspec"          # how drafts are scheduled; the README lists the policies
interval = 4                # iterations between scheduling points (N)
recent_tokens = 64          # generated tokens that the predictor sees beside the prompt (T)
prediction = "overlapped"   # "overlapped" with decoding, or "inline": decoding waits for it

[speculation]
stop = "fixed:5"            # when to stop drafting: after 5 tokens
accept = "auto"             # "auto", "exact", "match" or "rejection"; "auto" is exact when greedy, else match

[predictor]
path = "zoo"                # a directory with encoder and head, "zoo" for the embedded one, "none" for none

[storage]
# bandwidth = "200MB/s"     # emulate slow storage: a throttle on loading drafts

[events]
# path = "events.jsonl"     # write an event log
level = "debug"             # "debug" is complete, "info" leaves out what is written per iteration
# rotate = "100MB"          # set the log aside as path.1, path.2, … before it outgrows this
"""
