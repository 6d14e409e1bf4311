"""Runs and qrels as trec_eval reads them."""
