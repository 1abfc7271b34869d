"""Will drafts work with a target, and how well; and how to make a better one.

Each module imports only from the lines above its own. To check drafts:

    predictor_size, sample_prompts    the ranking model's memory; prompts for a first look
    memory_plan                       how much memory decoding will take
    report                            what a check tells
    measure                           loads, costs and acceptance beside the target
    check                             all of it, draft by draft

To make one:

    settings                          what a distillation is asked for, and what it tells
    answers                           what the target answers
    student                           the draft in training
    model_card                        what is said of the new draft
    distillation                      from a general draft to a domain's
    quantisation                      4-bit checkpoints, through auto-gptq
"""
