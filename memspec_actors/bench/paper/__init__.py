"""The MemSpec paper's evaluation: what the scripts of ``bench/`` found, beside what the paper says."""
