//! Sketch files: the records of one input with their sketches, as Parquet, so that any machine can sketch them and one
//! loads them all.
//!
//! ```text
//! columns: SketchedRecord ⇄ a row of columns
//! writer:  records of one input ─▶ a file with a footer
//! reader:  a folder of files    ─▶ records, input by input
//! ```

mod columns;
mod footer;
mod reader;
mod writer;

pub use columns::{ContentColumns, sketch_schema};
pub use footer::{InputNumber, SketchFooter};
pub use reader::{SketchFileError, SketchFiles};
pub use writer::SketchFileWriter;
