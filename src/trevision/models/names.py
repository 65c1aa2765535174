"""Names of models that are said without importing any."""

NETWORK, AUTO = "network", "auto"
MODELS = (AUTO, NETWORK, "boosting", "forest", "linear")
"""What `fit --model` may be."""
