"""Runs and judgements as trec_eval reads them."""
