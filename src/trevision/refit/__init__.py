"""Any scikit-learn classifier, fitted again on what its noisy labels probably were."""
