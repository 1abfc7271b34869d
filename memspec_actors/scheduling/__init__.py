"""Which drafts should be in memory, and which may be used now: pure decisions, no torch, no asyncio."""
