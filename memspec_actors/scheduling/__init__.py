"""Which drafts should be in memory, and which may be used now: pure decisions, no torch, no asyncio.

Each module imports only from the lines above its own. What is in memory, and what of it may be used:

    memory                          where things lie in one preallocated buffer
    artefacts                       drafts as sets of artefacts that lie there, what they share once
    slot, instructions              one load of a draft, from state to state; what is to be done about drafts
    slots                           the drafts that take up memory
    epochs                          announcements of what may be used, numbered and acknowledged
    backoff, wishes, working_set    failed loads; what people ask for; MemSpec's Algorithm 2
    demand                          which drafts are wanted, by all of these and the newest ranking
    residency_counts                how often drafts came and left
    residency                       the CacheManager's side of it all: a state machine, events in, instructions out
    pick                            which draft to decode with now
    leases                          the Decoder's side: which drafts it may use, and does

Who ranks the drafts, and when:

    policy                          which policies there are, as data
    interval, experience, waits     when to rank; what rankers are yet to be told; what decoding stands still for
    rankers                         the contract of whatever ranks
    evidence, load_prices           what was seen of the drafts, token by token; what a load must promise
    search                          which draft to look at where the predictor is at a loss
    bandits, hedge, overrule        rankers that learn from what drafts did: mab-*, hedge, memspec+
    plans                           rankers that follow a plan, and the files of plans
    plan_choice, ranker_pool        which plan is a request's; the rankers of the requests at hand

What one could reach who knew the text:

    cache_machine                   the cache that a plan reckons with
    oracles, domain_plan            the best plans, by every token's luck or by domains alone
"""
