"""Every typed message: between actors (`messages`), in the event log (`events`), from and to callers
(`requests`, `results`), in trace files (`traces`).
"""
