"""The runner of Llama-like models: a pass over raw tensors, and the key/value cache that it appends to.

Each module imports only from the lines above its own:

    rope, weights, memory            rotary tables; what a pass runs on; what it reads and writes of a sequence
    cache, forward_pass              the key/value cache; one pass
    drafting_pass                    as many tokens as a stop rule wants, in one call
    runner                           what the rest of the project sees of it
"""
