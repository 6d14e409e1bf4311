"""DP-RNN: multi-attention and recurrent visual embedding (Chen et al. 2020)."""
