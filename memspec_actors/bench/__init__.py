"""Measure on real runs what the papers claim: data sets, quality, comparisons. The command line shows the results."""
