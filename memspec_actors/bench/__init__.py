"""Measure on real runs what the papers claim: data sets, quality, comparisons. The command line shows the results.

Each module imports only from the lines above its own. What `memspec bench` and the scripts of ``bench/`` compare:

    datasets                          prompts of the embedded models' world by domain, or of a file
    policies                          policies, by real runs
    methods_report                    what a comparison of methods found
    quality                           how good a text is
    adasd, adasd_figure               methods, by real runs; their picture
    configured_weights                whether a trace is of the models at hand
    replays                           policies, by traced texts
    paper                             what was found, beside what the papers say

What other scripts measure:

    zoo_quality, domain_knowledge     the embedded models; what a text's domain alone tells of its drafts
    rounds, wide_models               things measured in turns; random models as large as a GPU is made for
    device_figures                    what a device is good for
    http_clients                      the daemon's clients, in a process of their own
"""
