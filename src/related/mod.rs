//! Related pages: what else is about this? (Haveliwala, Gionis and Indyk, "Scalable Techniques for Clustering the Web",
//! 2000.)

mod bag;

pub use bag::{Bag, Term};
