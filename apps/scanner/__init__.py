"""`fredholm scanner`: DICOM in, DICOM out."""
