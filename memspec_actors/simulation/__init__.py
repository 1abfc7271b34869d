"""The engine in virtual time: its own actors, on models that are played from traces, at a device's pace.

Each module imports only from the lines above its own:

    profile          what decoding costs on a device
    measure          the profile of this machine
    texts, traced    traced texts, shortened or cut anew; models that say what those of a trace said
    setting          in what setting texts are replayed
    pace             worker threads that let a profile's times pass instead of working
    replay           one text under one policy
    planning         the plans of those who know the texts
    simulate         texts under policies
"""
