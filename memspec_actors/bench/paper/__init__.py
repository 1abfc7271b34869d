"""The papers' evaluations: what the scripts of ``bench/`` found, beside what the papers say.

Each module imports only from the lines above its own:

    finding, table                       what one script found, and its file; tables as text
    figures                              single figures, read off a finding
    claims                               what the papers say of a figure, and how ours stands to it
    policy_claims, method_claims         such claims: of policies, as several studies make them; AdaSD's, of methods
    study                                one script, what it answers, and what the papers claim of that
    decoded_studies, replayed_studies    the MemSpec paper's: of real runs, of replayed texts
    evaluation                           all studies in the order of the page
    method_tables, pictures              findings as tables, and as the papers' figures
    report                               every study with its verdicts, tables and pictures
    page                                 that as one page of HTML or Markdown
"""
