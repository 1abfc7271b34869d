"""Checkpoints, runners, key/value caches, the weight arena and vocabularies. Import the modules: some need torch."""
