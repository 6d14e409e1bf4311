"""Tables of figures for the plots that DVC draws."""
