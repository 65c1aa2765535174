"""Which extra brings a package that is not installed.

The core (`pip install trevision`) estimates T from probabilities, finds wrong labels and writes reports. What
trains networks, reads images or uses many machines comes with extras, so that nobody installs torch in vain.
"""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {
    "torch": ("torch", "lightning_fabric"),
    "images": ("PIL", "matplotlib"),
    "ray": ("ray",),
}
"""The packages that each extra brings, by the names they are imported by; pyproject.toml lists them too."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported to find out."""
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def missing_extra(error: ImportError) -> str | None:
    """One line that says which extra to install, or None if the error is about something else.

    >>> missing_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
    "this needs torch, which is not installed: pip install 'trevision[torch]'"
    """
    package = (error.name or "").partition(".")[0]
    for extra, packages in PACKAGES.items():
        if package in packages:
            return f"this needs {package}, which is not installed: pip install 'trevision[{extra}]'"
    return None
