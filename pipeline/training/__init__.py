"""The training loop: phases, curve, resumable state."""
