"""The papers' evaluations: what the scripts of ``bench/`` found, beside what the papers say."""
