"""What the Decoder is made of.

Each module imports only from the lines above its own:

    setup             what it works with, and whom it talks to
    requests          who waits for it, and how each request ends
    run               the request at hand: where it stands, and what other actors learn of it
    drafts_in_use     its word in the residency protocol
    standing_still    what it waits for, where waiting is asked for
"""
