"""Refusals that several routes share, for their description."""

from bots_service.errors import (
    BusyError,
    DeadlinePassedError,
    InvalidInputError,
    KeyReusedError,
    MalformedBodyError,
    OverloadedError,
    PayloadTooLargeError,
    SlowSenderError,
    StorageUnavailableError,
    UnknownDatasetError,
    UnknownRunError,
    UnsupportedMediaTypeError,
)

EVERY = (InvalidInputError, StorageUnavailableError, DeadlinePassedError)
BODY = (MalformedBodyError, PayloadTooLargeError, UnsupportedMediaTypeError, SlowSenderError, OverloadedError)
ONCE = (KeyReusedError, BusyError)
DATASET = (UnknownDatasetError,)
RUN = (UnknownDatasetError, UnknownRunError)
