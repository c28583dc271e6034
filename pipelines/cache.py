"""What was made of cases kept on disk, so that the next training need neither look at them nor resample them again.

A folder holds a file for each case's look and for each way of preparing it, `NAME-DIGEST.safetensors`; the digest is of
where the case's files lie, of the preparation and of the classes. Inside stands what else it was made of: size and time
of change of each file, and the code that prepares. If one of these is another now, or the file is damaged, the case is
made anew and takes its place; so what is stale is never used, and does not pile up. Files are there whole or not at
all, so any number of processes may share a folder, and any file of it may be deleted at any time.

The tensors of a kept case are mapped from the file, privately: processes share the memory, and what one of them did to
a tensor would not reach the disk.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from .dataset import DataSet
from .images import files_of
from .layouts import Case
from .ledger import fingerprint
from .plan import Preparation
from .sampling import PreparedCase
from .survey import Look
from .tensors import save_tensors

PLACES = "places."  # begins the names of tensors that hold a class's places


class Keep(Protocol):
    """Gives what it kept of a case, or what is made of it now."""

    def look(self, case: Case, make: Callable[[], Look]) -> Look:
        """What the case is like."""
        ...

    def case(self, case: Case, preparation: Preparation, make: Callable[[], PreparedCase]) -> PreparedCase:
        """The case, prepared."""
        ...


class Anew:
    """Keeps nothing: makes it each time."""

    def look(self, case: Case, make: Callable[[], Look]) -> Look:
        """What is made."""
        return make()

    def case(self, case: Case, preparation: Preparation, make: Callable[[], PreparedCase]) -> PreparedCase:
        """What is made."""
        return make()


ANEW = Anew()


class Cache:
    """A folder of looks and of prepared cases.

    Args:
        folder: Where they are kept, made if need be.
        dataset: Whose cases; their files are looked at now, so that what changes while it is read counts as changed.

    Raises:
        OSError: The folder cannot be made, or a file of the data set is gone.
    """

    def __init__(self, folder: Path, dataset: DataSet) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.classes = folder, asdict(dataset.classes)
        self.stamps = {case.name: _stamps(case) for case in dataset.labelled}

    def look(self, case: Case, make: Callable[[], Look]) -> Look:
        """The look as it was kept, or taken and kept now.

        Raises:
            OSError: It cannot be written, as on a full disk.
        """
        return _look(self._of(case, {"look": True}, lambda: _facts(make())))

    def case(self, case: Case, preparation: Preparation, make: Callable[[], PreparedCase]) -> PreparedCase:
        """The case as it was kept, or made and kept now.

        Raises:
            OSError: It cannot be written, as on a full disk.
        """
        tensors = self._of(case, {"preparation": asdict(preparation)}, lambda: _tensors(make()))
        places = {int(name.removeprefix(PLACES)): one for name, one in tensors.items() if name.startswith(PLACES)}
        return PreparedCase(case.name, tensors["image"], tensors["labels"], places)

    def _of(self, case: Case, what: Mapping[str, object], make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Tensors as they were kept, or made and kept now."""
        stamps = self.stamps[case.name]
        digest = _digest({"files": [*stamps], "classes": self.classes, **what})
        file = self.folder / f"{case.name}-{digest[:16]}.safetensors"
        made_of = {"made of": json.dumps([[*stamps.values()], _code()])}
        return _load(file, made_of) or self._kept(file, made_of, make())

    @staticmethod
    def _kept(file: Path, made_of: Mapping[str, str], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors as the file has them, so that memory need not hold them all."""
        save_tensors(file, tensors, {**made_of, "sha256": _sha256(tensors)})
        return _load(file, made_of) or tensors


def _stamps(case: Case) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of change in ns of each file that a case is read from."""
    given = [*case.images, *([case.label] if case.label else []), *case.masks]
    states = {file.resolve(): file.stat() for one in given for file in files_of(one)}
    return {str(file): (state.st_size, state.st_mtime_ns) for file, state in states.items()}


@cache
def _code() -> str:
    """The sha256 of all modules of this folder, for each of them may have a part in how a case is prepared."""
    return fingerprint(Path(__file__).parent.glob("*.py"))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _load(file: Path, made_of: Mapping[str, str]) -> dict[str, Tensor] | None:
    """The tensors of a file that is there, whole, and made of the same."""
    try:
        with safe_open(file, "pt") as opened:
            said = opened.metadata() or {}
        tensors = load_file(file)
    except (FileNotFoundError, SafetensorError):
        return None
    return tensors if said == {**made_of, "sha256": _sha256(tensors)} else None


def _facts(look: Look) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.asarray(fact)) for name, fact in vars(look).items()}


def _look(facts: Mapping[str, Tensor]) -> Look:
    i, j, k = facts["shape"].tolist()
    x, y, z = facts["spacing_mm"].tolist()
    return Look(
        shape=(i, j, k),
        spacing_mm=(x, y, z),
        voxel_ml=facts["voxel_ml"].item(),
        values=facts["values"].numpy(),
        voxels=facts["voxels"].numpy(),
        read_bytes=int(facts["read_bytes"]),
        label_bytes=int(facts["label_bytes"]),
    )


def _tensors(prepared: PreparedCase) -> dict[str, Tensor]:
    places = {f"{PLACES}{index}": one for index, one in prepared.places.items()}
    return {"image": prepared.image, "labels": prepared.labels, **places}


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()
