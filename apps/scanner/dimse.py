"""Associations that we ask others for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.pdu_primitives import SCP_SCU_RoleSelectionNegotiation
from pynetdicom.presentation import PresentationContext

from .config import Store
from .faults import PeerError


@contextmanager
def associated(
    target: Store,
    own_title: str,
    contexts: Sequence[PresentationContext],
    *,
    timeout_s: float,
    roles: Sequence[SCP_SCU_RoleSelectionNegotiation] = (),
    handlers: Sequence[tuple] = (),
) -> Iterator[Association]:
    """An association with an archive; released at the end.

    Args:
        target: The archive.
        own_title: By which we call.
        contexts: What is to be agreed on.
        timeout_s: How long the archive may take for an answer.
        roles: Who provides which service, where that is not they.
        handlers: pynetdicom's events and what to do at them.

    Raises:
        PeerError: It did not come about.
    """
    entity = AE(own_title)
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = entity.connection_timeout = timeout_s
    association = entity.associate(
        target.host,
        target.port,
        contexts=list(contexts),
        ae_title=target.ae_title,
        ext_neg=list(roles),  # pyright: ignore[reportArgumentType]
        evt_handlers=list(handlers),
        tls_args=(target.tls.client(), target.host) if target.tls else None,  # pyright: ignore[reportArgumentType]
    )
    if not association.is_established:
        raise PeerError(_unmade(association))
    try:
        yield association
    finally:
        if association.is_established:
            association.release()


def _unmade(association: Association) -> str:
    if association.is_rejected:
        return "the association was refused"
    if association.rejected_contexts:
        return "this SOP class and transfer syntax are not taken there"
    return "nobody answers"
