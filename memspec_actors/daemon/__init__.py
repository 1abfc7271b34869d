"""The daemon: the engine behind HTTP, speaking the protocols that clients, scrapers and browsers speak already."""
