"""Networks: LeNet-5, ResNets and a small fully connected network."""
