"""Which compressed pixels can be read here.

What pydicom itself reads: uncompressed, deflated and RLE. What the extra `scanner` adds: JPEG, JPEG Lossless, JPEG-LS
and JPEG 2000, High-Throughput included. Lossy JPEG of 12 bits asks for `pylibjpeg-libjpeg`, which is GPL.
"""

from pydicom.pixels import get_decoder
from pydicom.uid import UID, JPEGExtended12Bit

from .refusal import Code, SeriesError

EXTRA = "pip install 'fredholm[scanner]'"
EXTENDED = "pip install pylibjpeg-libjpeg (GPL)"


def check_decoder(transfer_syntax: str) -> None:
    """Refuse a compression that nothing installed here reads, with the line that installs it.

    Raises:
        SeriesError: There is no decoder.
    """
    uid = UID(transfer_syntax)
    try:
        known = get_decoder(uid)
    except NotImplementedError:
        raise SeriesError(Code.NO_DECODER, f"compressed as {uid.name}, which no decoder reads") from None
    # of lossy JPEG most plug-ins read 8 bits only, and CT has more
    if not known.is_available or (uid == JPEGExtended12Bit and "pylibjpeg" not in known.available_plugins):
        raise SeriesError(Code.NO_DECODER, f"compressed as {uid.name}: {install_line(uid)}")


def install_line(transfer_syntax: str) -> str:
    """What to install for a compression."""
    return EXTENDED if transfer_syntax == JPEGExtended12Bit else EXTRA
