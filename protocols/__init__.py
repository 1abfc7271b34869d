"""Every typed message.

Each module imports only from the lines above its own:

    traces                        what trace and plan files hold
    requests, results             what a caller asks for, and what a caller gets back
    feedback                      what decoding tells the rankers
    messages                      what actors say to each other, by who receives it
    events                        what the event log holds
    http_requests, http_replies   what the daemon takes and gives over HTTP
"""
