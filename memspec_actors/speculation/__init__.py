"""The maths of one speculative-decoding iteration: pure functions and small classes, no models, no asyncio.

Each module imports only from the lines above its own. From logits to tokens that stand:

    adjustment, sampling, logprobs    what is added to logits; what is drawn from them; what is told of them
    divergence, density               how uncertain one is and how far two are apart; how likely a distance is
    maxima                            the largest logits
    own_rules                         rules of a user's own
    accept                            how many of the drafted tokens stand: the lossless rules
    odds                              how probable it is that a token is accepted: AdaSD's Bayes rule
    lossy                             rules that let other tokens stand than the target's choice
    rules                             all of them by name
    proposing                         the draft's tokens, drawn from its logits
    stop_strings                      the strings that a caller wants the text to end at
    commit                            where the text ends

How long to draft:

    signals, criterion                what stop rules go by; a stop rule as data
    stop                              the stop rules, by name
    gain, roc                         what `gain` and AssistedGen's rule learn
    adaptation                        whatever rules learn from verified tokens

And what came of it:

    statistics                        counts of what iterations did
"""
