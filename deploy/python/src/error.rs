//! Errors of the program as Python exceptions.

use pyo3::{PyErr, import_exception};
use std::fmt::Display;

import_exception!(lookalike.errors, LookalikeError);
import_exception!(lookalike.errors, NotFoundError);
import_exception!(lookalike.errors, UsageError);

/// Something failed; the message says why and what to do.
pub(crate) fn failed(error: impl Display) -> PyErr {
    LookalikeError::new_err(error.to_string())
}

/// An argument is wrong.
pub(crate) fn usage(error: impl Display) -> PyErr {
    UsageError::new_err(error.to_string())
}

/// What was asked for is not there.
pub(crate) fn not_found(error: impl Display) -> PyErr {
    NotFoundError::new_err(error.to_string())
}
