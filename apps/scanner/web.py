"""DICOMweb, as `dicomweb-client` speaks it."""

from pathlib import Path

from dicomweb_client.api import DICOMwebClient
from requests import RequestException, Session

from .config import Web

WebError = RequestException
"""What a request raises that came to nothing."""


def client(target: Web, timeout_s: float = 60.0) -> DICOMwebClient:
    """A client that asks once: whoever calls knows when to try again.

    Args:
        target: Whom to ask.
        timeout_s: How long it may take to connect, and between two pieces of an answer.

    Raises:
        OSError: The file with the authorization cannot be read.
    """
    session = Session()
    if target.tls:
        session.verify = target.tls.authorities
        session.cert = (target.tls.certificate, target.tls.key)
    headers = {}
    if target.authorization:
        headers["Authorization"] = Path(target.authorization).read_text(encoding="utf-8").splitlines()[0].strip()
    made = DICOMwebClient(target.url, session=session, headers=headers, timeout=timeout_s)
    made.set_http_retry_params(retry=False)
    return made


def refusal(error: WebError) -> str:
    """Why a request came to nothing, without its URL and without what the answer says."""
    if error.response is None:
        return f"nobody answers ({type(error).__name__})"
    return f"refused with HTTP status {error.response.status_code}"
