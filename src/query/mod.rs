//! Questions about a store, answered from one read-only view of it.

mod answers;
mod clusters;
mod similar;

pub use answers::{ClusterAnswer, LostAnswer, Standing, UrlAnswer, cluster, lost, url};
pub use clusters::{ExportRow, Status, export, status};
pub use similar::{Comparison, Likeness, compare_sketches, similar, sketch_of_url};
