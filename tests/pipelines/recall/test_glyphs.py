"""Glyphs are there without a download, and somebody's own images are read or refused."""

import gzip

import pytest
import torch
from fredholm.pipelines.recall.glyphs import CHARACTERS, drawn, fitted, read_idx


def test_characters_are_drawn_large_and_each_time_alike() -> None:
    images = drawn()
    drawn.cache_clear()
    assert torch.equal(drawn(), images)
    assert images.shape[1:] == (28, 28)
    assert images.amin() == 0
    assert images.flatten(1).amax(1).min() > 0.9
    assert images[:, 0].mean() < 0.1 < images[:, 10:18, 10:18].mean()  # ink in the middle
    assert torch.unique(images[: len(CHARACTERS)], dim=0).shape[0] == len(CHARACTERS)


def test_fitted_they_reach_from_minus_one_to_one() -> None:
    images = torch.stack([torch.zeros(28, 28), torch.ones(28, 28)])
    assert torch.equal(fitted(images, 8), torch.tensor([-1.0, 1.0])[:, None, None].expand(2, 8, 8))


def idx(shape: tuple[int, ...]) -> bytes:
    head = b"".join(n.to_bytes(4, "big") for n in (2051, *shape))
    return head + bytes(range(torch.Size(shape).numel()))


def test_images_are_read_packed_or_not(tmp_path) -> None:
    plain, packed = tmp_path / "images-idx3-ubyte", tmp_path / "images-idx3-ubyte.gz"
    plain.write_bytes(idx((2, 3, 4)))
    packed.write_bytes(gzip.compress(idx((2, 3, 4)), mtime=0))
    expected = torch.arange(24.0).reshape(2, 3, 4) / 255
    assert torch.equal(read_idx(plain), expected)
    assert torch.equal(read_idx(packed), expected)


@pytest.mark.parametrize("content", [b"", b"no images at all, not one of them", idx((2, 3, 4))[:-1]])
def test_other_files_are_refused(content, tmp_path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="expected an IDX file of images"):
        read_idx(tmp_path / "file")


def test_a_damaged_packed_file_is_refused(tmp_path) -> None:
    (tmp_path / "images.gz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"images\.gz is damaged"):
        read_idx(tmp_path / "images.gz")
