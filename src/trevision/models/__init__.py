"""Which model learns a user's rows: scikit-learn models beside the network, compared by noisy labels."""
