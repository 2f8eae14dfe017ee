//! probe
fn main() {}
