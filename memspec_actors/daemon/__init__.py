"""The daemon: the engine behind HTTP, speaking the protocols that clients, scrapers and browsers speak already.

`server` runs it and `app` names its endpoints, which share a `service`. `http` has what any endpoint needs.
"""
