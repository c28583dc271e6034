"""Glyphs: letters and digits in the fonts that come with matplotlib, or images that somebody has, such as EMNIST's."""

import gzip
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 28  # pixels of an image's side, as EMNIST has it
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FONTS = tuple(f"DejaVu{name}.ttf" for name in ("Sans", "Sans-Bold", "Sans-Oblique", "SansMono", "Serif", "Serif-Bold"))
COPIES = 8  # of each character in each font, turned, sheared, moved and scaled
IMAGES = 2051  # how an IDX file of images of bytes begins


@lru_cache(maxsize=1)
def drawn() -> Tensor:
    """Images `(count, 28, 28)` of characters as hands might write them, from 0 to 1, the same each time."""
    generator = torch.Generator().manual_seed(0)
    printed = torch.stack([_printed(font, one) for font in FONTS for one in CHARACTERS]).repeat(COPIES, 1, 1)
    varied = torch.eye(2) * torch.empty(len(printed), 1, 1).uniform_(0.6, 0.9, generator=generator)
    varied = varied + torch.empty(len(printed), 2, 2).uniform_(-0.2, 0.2, generator=generator)
    moved = torch.empty(len(printed), 2, 1).uniform_(-0.1, 0.1, generator=generator)
    places = F.affine_grid(torch.cat([varied, moved], -1), [len(printed), 1, SIDE, SIDE], align_corners=False)
    return F.grid_sample(printed[:, None], places, align_corners=False)[:, 0]


def read_idx(path: Path) -> Tensor:
    """Images `(count, height, width)` of an IDX file such as EMNIST's and MNIST's, packed or not, from 0 to 1.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is another file.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except gzip.BadGzipFile as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    kind, *shape = np.frombuffer(content[:16], ">u4").tolist() if len(content) >= 16 else [0]
    if kind != IMAGES or len(content) != 16 + int(np.prod(shape)):
        raise ValueError(f"{path}: expected an IDX file of images, such as emnist-byclass-train-images-idx3-ubyte.gz")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=16).reshape(shape).copy()) / 255.0


def fitted(images: Tensor, side: int) -> Tensor:
    """Glyphs `(count, side, side)` from -1 to 1, from images from 0 to 1."""
    return F.interpolate(2 * images[:, None] - 1, (side, side), mode="bilinear", align_corners=False)[:, 0]


def _printed(font: str, character: str) -> Tensor:
    """A character in the middle of an image, 18 pixels high if it is as high as most."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    face = FT2Font(str(Path(get_data_path(), "fonts/ttf", font)))
    face.set_size(24, 72)
    face.set_text(character)
    face.draw_glyphs_to_bitmap()
    ink = torch.from_numpy(np.array(face.get_image(), dtype=np.float32) / 255)[:SIDE, :SIDE]
    room = [SIDE - n for n in ink.shape]
    return F.pad(ink, (room[1] // 2, room[1] - room[1] // 2, room[0] // 2, room[0] - room[0] // 2))
