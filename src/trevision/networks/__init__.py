"""The classifiers' networks: LeNet-5, ResNets and a small fully connected one."""

from .choose import NETWORKS, build, choose
from .lenet import LeNet5
from .mlp import MLP
from .pretrained import load_torchvision_weights
from .resnet import ResNet, resnet8, resnet18, resnet34, resnet50
from .standardise import Standardise

__all__ = [
    "MLP",
    "NETWORKS",
    "LeNet5",
    "ResNet",
    "Standardise",
    "build",
    "choose",
    "load_torchvision_weights",
    "resnet8",
    "resnet18",
    "resnet34",
    "resnet50",
]
