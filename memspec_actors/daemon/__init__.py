"""The daemon: the engine behind HTTP, speaking the protocols that clients, scrapers and browsers speak already.

Each module imports only from the lines above its own:

    http                                        what any endpoint needs of HTTP; knows no engine
    feed, metrics, generations                  events as they happen; metrics drawn from them; who is let in
    service                                     what endpoints share: the engine, and where the daemon stands
    options, logprobs                           a request's fields as the engine takes them; OpenAI's words for tokens
    replies                                     OpenAI's words for a generation
    completions, drafts, monitoring, status     the endpoints
    dashboard, openapi                          the page; the description of the API
    app                                         all endpoints under their paths
    server                                      from the first connection to the last
"""
