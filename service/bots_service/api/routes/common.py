"""Refusals that several routes share, for their description."""

from bots_service.errors import (
    BusyError,
    InvalidInputError,
    KeyReusedError,
    MalformedBodyError,
    PayloadTooLargeError,
    StorageUnavailableError,
    UnknownDatasetError,
    UnknownRunError,
    UnsupportedMediaTypeError,
)

EVERY = (InvalidInputError, StorageUnavailableError)
BODY = (MalformedBodyError, PayloadTooLargeError, UnsupportedMediaTypeError)
ONCE = (KeyReusedError, BusyError)
DATASET = (UnknownDatasetError,)
RUN = (UnknownDatasetError, UnknownRunError)
