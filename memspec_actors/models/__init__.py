"""Models: their files, weights, runners, caches and text. Import the modules: some need torch.

A package imports only from those above it here; `dtypes` and `runner` (what every runner offers) are known to all:

    checkpoints   what lies in a model directory, as its config.json and headers tell; no weights, no torch
    kernels       products with a weight of floats, or of codes of 8 or 4 bits
    devices       CPU, CUDA, MPS: their memory, threads, and copies to them
    lean          the runner of Llama-like models, and its key/value cache
    generic       the runner of all other models, through transformers
    weights       from files into memory: layout, conversion, quantisation, loading, binding to a runner
    drafting      a draft's place in the arena, its caches within a request, its steps on a device
    text          tokenizers, chat templates, vocabularies

On these stands `session`, which decodes one request, by the request's `token_rules`, into a `StepOutcome` a call.
`testing` has toy runners.
"""
