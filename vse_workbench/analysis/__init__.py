"""What a trained model has learnt, beyond its ranks: the analyses of the dual-path papers."""
