"""Attention between regions and words, for SCAN and DP-RNN."""
