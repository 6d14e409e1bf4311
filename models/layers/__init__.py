"""Parts of networks that several models use."""
