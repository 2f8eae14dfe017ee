//! Objects as inputs and outputs: in a store (`s3://`, `gs://`, `az://`) or on the web (`https://`, `http://`).
//!
//! The environment says how a store is reached, with the names that its own tools use: `AWS_ACCESS_KEY_ID`,
//! `AWS_REGION`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME`.

mod connections;
mod location;
mod new_object;
mod object;
mod object_file;

pub use new_object::NewObject;
pub use object::{Object, below};
pub use object_file::ObjectFile;
