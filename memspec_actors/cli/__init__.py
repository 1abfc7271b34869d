"""The ``memspec`` command.

Each module imports only from the lines above its own; parts of one command alone are named after it:

    output, exit_codes                                           what commands print, and how they end
    config_check, config_template                                what is checked of a configuration, and how one begins
    config                                                       `memspec config`
    display                                                      how a generation looks
    generation                                                   one generation, to its end or an interrupt
    run, serve, predictor, zoo                                   the commands of these names
    drafts_distill, drafts_quantize, drafts_tables
    drafts                                                       `memspec drafts`
    events_audit, events_compare, events_summary, events_tail
    events                                                       `memspec events`
    policy_table, method_table                                   how comparisons look
    simulate                                                     `memspec simulate`
    study                                                        what the scripts of ``bench/`` share with each other
    decode_study, replay_study                                   those of real runs, those of replayed texts
    bench_policies, bench_adasd
    bench                                                        `memspec bench`
    doctor_line
    doctor_speed
    doctor_checks
    doctor                                                       `memspec doctor`
    app                                                          the tree of commands
    main                                                         the way in
"""

from memspec_actors.cli.main import main

__all__ = ["main"]
