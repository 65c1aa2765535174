"""Data sets as plain tensors: named ones, anyone's arrays, and their split for learning from noisy labels."""

from trevision.data.anchors import check_share, drop_highest
from trevision.data.arrays import codes_in, encode_labels, features, from_arrays, read_npz
from trevision.data.augment import augment, crop_at, random_affine, random_crop, random_flip, warp
from trevision.data.corrections import row_fields, write_labels
from trevision.data.dataset import AUGMENTATIONS, DataError, Dataset
from trevision.data.download import Progress, fetch
from trevision.data.image_files import ImageFiles
from trevision.data.load import SOURCES, Availability, available, load, load_rows
from trevision.data.locations import cache_folder, search_folders
from trevision.data.noisy import NoisyData, Truth, split, split_rows
from trevision.data.preprocessing import PREPROCESSING_FILE, Preprocessing, load_preprocessing
from trevision.data.reading import Reading, kind_of
from trevision.data.rows import (
    Rows,
    SourceRows,
    augmented_batches,
    batches_of,
    keep_rows,
    places_of,
    select_rows,
    take_rows,
)

__all__ = [
    "AUGMENTATIONS",
    "PREPROCESSING_FILE",
    "SOURCES",
    "Availability",
    "DataError",
    "Dataset",
    "ImageFiles",
    "NoisyData",
    "Preprocessing",
    "Progress",
    "Reading",
    "Rows",
    "SourceRows",
    "Truth",
    "augment",
    "augmented_batches",
    "available",
    "batches_of",
    "cache_folder",
    "check_share",
    "codes_in",
    "crop_at",
    "drop_highest",
    "encode_labels",
    "features",
    "fetch",
    "from_arrays",
    "keep_rows",
    "kind_of",
    "load",
    "load_preprocessing",
    "load_rows",
    "places_of",
    "random_affine",
    "random_crop",
    "random_flip",
    "read_npz",
    "row_fields",
    "search_folders",
    "select_rows",
    "split",
    "split_rows",
    "take_rows",
    "warp",
    "write_labels",
]
