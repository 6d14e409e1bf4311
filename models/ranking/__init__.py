"""What the ranking losses of models.losses share, and what models do with them."""
