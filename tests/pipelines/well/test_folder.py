"""A folder of the wrong level is told together with the right one."""

from pathlib import Path

import pytest
from fredholm.pipelines.well.folder import WellFolder
from helpers.well import write_set


@pytest.mark.parametrize("given", ["", "set/data", "set/data/train"])
def test_a_folder_of_another_level_is_told_the_right_one(tmp_path: Path, given: str) -> None:
    write_set(tmp_path / "set")
    with pytest.raises(FileNotFoundError, match=f"has no folder data/.*: give {tmp_path / 'set'}$"):
        WellFolder.open(tmp_path / given)


def test_a_split_without_files_is_named(tmp_path: Path) -> None:
    folder = WellFolder.open(write_set(tmp_path))
    (tmp_path / "data/valid/waves.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match="the split valid has no file"):
        folder.files("valid")


def test_a_folder_without_any_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data/train").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="no HDF5 file"):
        WellFolder.open(tmp_path)
