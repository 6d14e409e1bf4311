"""Networks and losses: tensors in, tensors out; they know neither paths nor params.yaml."""
