"""Search as a page in the browser and as JSON; needs FastAPI (extra `serve`)."""
