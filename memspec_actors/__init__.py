"""Speculative decoding with more drafts than fast memory holds."""
