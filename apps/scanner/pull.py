"""Asks an archive for CT series: by QIDO-RS and WADO-RS, by C-GET, or by C-MOVE to the gateway itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dicomweb_client.api import DICOMwebClient
from pydicom import Dataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_dataset
from pydicom.uid import UID, ImplicitVRLittleEndian
from pynetdicom import build_context, build_role, evt
from pynetdicom.association import Association
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.presentation import PresentationContext
from pynetdicom.sop_class import (
    StudyRootQueryRetrieveInformationModelFind,  # pyright: ignore[reportAttributeAccessIssue]
    StudyRootQueryRetrieveInformationModelGet,  # pyright: ignore[reportAttributeAccessIssue]
    StudyRootQueryRetrieveInformationModelMove,  # pyright: ignore[reportAttributeAccessIssue]
)

from ...pipelines.gateway.arrival import SOP_CLASS, SOP_INSTANCE, SYNTAXES, Arrival
from .config import Store, Web
from .dimse import associated
from .faults import PeerError
from .receiver import NOT_UNDERSTOOD, SUCCESS
from .stores import Sent
from .web import WebError, client, refusal

TIMEOUT_S = 60.0
PENDING = (0xFF00, 0xFF01)

Take = Callable[[Arrival], object]
"""Keeps an object that came, or raises an exception, which ends the fetching."""


@dataclass(frozen=True)
class Asked:
    """What is to be fetched.

    Args:
        study: Study instance UID.
        series: Series instance UID; None for all CT series of the study.
    """

    study: str
    series: str | None = None


def by_web(source: Web, asked: Asked, sop_classes: tuple[str, ...], take: Take) -> int:
    """Fetch one object after the other, as each is stored there.

    Args:
        source: The archive.
        asked: What to fetch.
        sop_classes: Objects of other classes are left there.
        take: Keeps each.

    Returns:
        How many were taken.

    Raises:
        PeerError: The archive did not give all that it has.
    """
    try:
        speaker, count = client(source, TIMEOUT_S), 0
        for series in [asked.series] if asked.series else _series_by_web(speaker, asked.study):
            for one in speaker.search_for_instances(asked.study, series, get_remaining=True):
                sop_class, uid = _value(one, SOP_CLASS), _value(one, SOP_INSTANCE)
                if sop_class in sop_classes:
                    take(_arrival(speaker.retrieve_instance(asked.study, series, uid), sop_class, uid))
                    count += 1
    except WebError as error:
        raise PeerError(refusal(error)) from None
    return count


def by_get(source: Store, own_title: str, asked: Asked, sop_classes: tuple[str, ...], take: Take) -> int:
    """Fetch within one association, which we open; see `by_web`.

    Args:
        source: The archive.
        own_title: By which we call.
        asked: What to fetch.
        sop_classes: Objects of other classes are left there.
        take: Keeps each.
    """
    errors: list[Exception] = []

    def keep(event: evt.Event) -> int:
        if not errors:
            try:
                take(_sent(event).arrival())
            except Exception as error:  # pynetdicom would swallow it
                errors.append(error)
        return NOT_UNDERSTOOD if errors else SUCCESS

    # A context for each syntax: an archive that may choose one for all would have to recode the others.
    contexts = [build_context(uid, syntax) for uid in sop_classes for syntax in SYNTAXES]
    contexts += _services(StudyRootQueryRetrieveInformationModelGet)
    roles = [build_role(uid, scp_role=True) for uid in sop_classes]
    handlers = [(evt.EVT_C_STORE, keep)]
    try:
        with associated(source, own_title, contexts, timeout_s=TIMEOUT_S, roles=roles, handlers=handlers) as made:
            _must_speak(made, "C-GET", StudyRootQueryRetrieveInformationModelGet)
            return sum(
                _moved(made.send_c_get(query, StudyRootQueryRetrieveInformationModelGet))
                for query in _queries(made, asked)
            )
    except PeerError:
        if errors:
            raise errors[0] from None
        raise


def _sent(event: evt.Event) -> Sent:
    request, context = event.request, event.context
    assert isinstance(request, C_STORE)
    agreed = (str(context.abstract_syntax), str(context.transfer_syntax))
    data = request.DataSet.getbuffer() if request.DataSet else memoryview(b"")
    return Sent(event.assoc, agreed, str(request.AffectedSOPClassUID), str(request.AffectedSOPInstanceUID), data)


def by_move(source: Store, own_title: str, asked: Asked) -> int:
    """Let an archive send to the gateway, which must be serving and must be known there; see `by_web`.

    Args:
        source: The archive.
        own_title: By which we call, and by which the archive knows the gateway.
        asked: What to fetch.
    """
    with associated(
        source, own_title, _services(StudyRootQueryRetrieveInformationModelMove), timeout_s=TIMEOUT_S
    ) as made:
        _must_speak(made, "C-MOVE", StudyRootQueryRetrieveInformationModelMove)
        return sum(
            _moved(made.send_c_move(query, own_title, StudyRootQueryRetrieveInformationModelMove))
            for query in _queries(made, asked)
        )


def _series_by_web(speaker: DICOMwebClient, study: str) -> list[str]:
    found = speaker.search_for_series(study, search_filters={"Modality": "CT"}, get_remaining=True)
    return [_value(one, 0x0020_000E) for one in found]


def _value(found: dict[str, dict], tag: int) -> str:
    return found.get(f"{tag:08X}", {}).get("Value", [""])[0]


def _arrival(dataset: Dataset, sop_class: str, uid: str) -> Arrival:
    syntax = UID(dataset.file_meta.TransferSyntaxUID)
    if syntax not in SYNTAXES:
        raise PeerError(f"object {uid} is stored there in transfer syntax {syntax}, which is not taken here")
    file = DicomBytesIO()
    file.is_little_endian, file.is_implicit_VR = True, syntax == ImplicitVRLittleEndian
    write_dataset(file, dataset)
    return Arrival.read(sop_class, uid, syntax, file.getvalue())


def _services(model: UID) -> list[PresentationContext]:
    return [build_context(model), build_context(StudyRootQueryRetrieveInformationModelFind)]


def _must_speak(association: Association, name: str, model: UID) -> None:
    if model not in {context.abstract_syntax for context in association.accepted_contexts}:
        raise PeerError(f"{name} is not spoken there")


def _queries(association: Association, asked: Asked) -> Iterator[Dataset]:
    """What to ask for each series."""
    if asked.series:
        yield _query(asked.study, asked.series)
        return
    pattern = _query(asked.study, "")
    pattern.Modality = "CT"
    found = list(association.send_c_find(pattern, StudyRootQueryRetrieveInformationModelFind))
    if found[-1][0].get("Status") != SUCCESS:
        raise PeerError(f"the search came to nothing, {_words(found[-1][0])}")
    for status, series in found:
        if status.Status in PENDING and series is not None:
            yield _query(asked.study, series.SeriesInstanceUID)


def _query(study: str, series: str) -> Dataset:
    query = Dataset()
    query.QueryRetrieveLevel, query.StudyInstanceUID, query.SeriesInstanceUID = "SERIES", study, series
    return query


def _moved(answers: Iterator[tuple[Dataset, Dataset | None]]) -> int:
    last = [status for status, _ in answers][-1]
    if last.get("Status") != SUCCESS:
        failed = last.get("NumberOfFailedSuboperations", 0)
        raise PeerError(f"{failed} objects did not come, {_words(last)}")
    return last.get("NumberOfCompletedSuboperations", 0)


def _words(status: Dataset) -> str:
    return f"status 0x{status.Status:04X}" if "Status" in status else "the archive broke off"
