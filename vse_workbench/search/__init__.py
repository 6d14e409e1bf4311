"""Asking trained models about the corpus: what the command, the server and programs share."""
