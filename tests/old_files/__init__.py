"""Files as each version wrote them, which later versions read or refuse: `write.py` makes them."""
