"""A generation's result in which nothing happened, for tests to say what did: `msgspec.structs.replace`."""

from memspec_actors.protocols.results import (
    GenerationResult,
    Metrics,
    Scheduling,
    Share,
    SpeculativeMetrics,
    Timing,
    Usage,
)

NOTHING = GenerationResult(
    request_id="r",
    text="",
    token_ids=(),
    finish_reason="stop",
    lossless=True,
    usage=Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
    timing=Timing(
        queue_s=0.0, prefill_s=0.0, time_to_first_token_s=0.0, decode_s=0.0, total_s=0.0, tokens_per_second=0.0
    ),
    metrics=Metrics(
        speculative_decoding=SpeculativeMetrics(
            mean_acceptance_length=0.0,
            draft_acceptance_rate=0.0,
            acceptance_histogram=(),
            num_spec_steps=0,
            num_accepted_draft_tokens=0,
            num_draft_tokens=0,
            num_spec_tokens=0,
        )
    ),
    scheduling=Scheduling(
        policy="memspec",
        interval=4,
        capacity=2,
        switches=0,
        loads=0,
        evictions=0,
        wasted_loads=0,
        predictions=0,
        prediction_busy_share=0.0,
        emulated_storage=False,
        share=Share(),
        drafts={},
    ),
)
