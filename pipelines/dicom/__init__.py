"""DICOM in and out: segmentations on the slices of their series."""
