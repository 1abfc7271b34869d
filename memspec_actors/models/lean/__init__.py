"""The runner of Llama-like models: a pass over raw tensors, and the key/value cache that it appends to."""
