"""One thin module per DVC stage: read params, call pipeline and models, write."""
