"""The runner of every other model, through transformers."""
