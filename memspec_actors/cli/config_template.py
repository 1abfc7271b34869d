"""A ``memspec.toml`` to start from: every key at its default, with what it means."""

__all__ = ["TEMPLATE"]

TEMPLATE = """\
# What memspec runs. Every key may be left out; relative paths are relative to this file.

[target]
model = "zoo"               # a Hugging Face model directory, an id on the hub ("org/name" or "org/name@revision"),
                            # or "zoo": the small embedded models
dtype = "float32"           # "float32", "bfloat16", "float16", or "auto": as it is stored; "int8" and "int4" quantise
                            # on loading. GPTQ weights stay in 4 bits whatever this says of the rest
device = "cpu"              # "cpu", "cuda", "cuda:N" or "mps": target and drafts live and run there
threads = 1                 # threads of decoding; "auto" leaves one core to the rest
background_threads = 1      # of ranking, loading and warming drafts each, beside decoding

# One table per draft. A model is a directory, an id on the hub, or "zoo:NAME"; dtype is the target's if it has none.
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
interval = 4                # iterations between scheduling points (N); fewer if they give 6 N tokens
recent_tokens = 64          # generated tokens that the predictor sees beside the prompt (T)
# plan = "plans.jsonl"      # the plans that an oracle's policy follows
prediction = "overlapped"   # "overlapped" with decoding, or "inline": decoding waits for it

[speculation]
stop = "gain"               # when to stop drafting: "gain", "fixed:K", "entropy", "confidence", "heuristic", "adaedl"
accept = "auto"             # "auto", "exact", "match" or "rejection"; "auto" is exact when greedy, else match;
                            # lossy: "bayes", "typical", "fsd:THRESHOLD", "bild:THRESHOLD"
# method = "adasd"          # both at once: "vanilla", "assistedgen", "gen-only", "verify-only", "adasd",
                            # "adasd+assistedgen", "gain-only", "adasd+gain", "typical"; or
                            # "target", "draft:NAME": that model alone.
                            # "module:Class" in the place of a rule is one of your own
thresholds = "auto"         # rules that learn: "sync" waits for them, "async" never, "auto" where the text depends
share_thresholds = false    # what they learn belongs to one text, or to all

[predictor]
path = "zoo"                # a directory with encoder and head, "zoo" for the embedded one, "none" for none

[storage]
# bandwidth = "200MB/s"     # emulate slow storage: a throttle on loading drafts

[events]
# path = "events.jsonl"     # write an event log
level = "debug"             # "debug" is complete, "info" leaves out what is written per iteration
# rotate = "100MB"          # set the log aside as path.1, path.2, … before it outgrows this

[serve]
host = "127.0.0.1"          # other addresses than this machine's own need api_key
port = 8000                 # 0 takes a free one
# uds = "memspec.sock"      # a Unix socket instead of host and port
# api_key = "secret"        # asked of every caller; better given as the environment's MEMSPEC_API_KEY
# model_name = "my-model"   # what callers ask for; without it the name of the target
queue = 64                  # requests that may wait beside the one that runs
queue_timeout_s = 60.0      # each waits so long for its first token,
request_timeout_s = 600.0   # and may take so long in all
drain_timeout_s = 3.0       # told to stop, the daemon lets running requests go on so long
max_body = "1MiB"           # larger requests are refused
allowed_hosts = []          # names under which the daemon is reached beside its own
"""
