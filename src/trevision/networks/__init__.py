"""The classifiers' networks: LeNet-5, ResNets and a small fully connected one."""
