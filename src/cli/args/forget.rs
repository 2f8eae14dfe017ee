//! The words of `forget`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Forget these URLs
    #[arg(value_name = "URL")]
    pub named_urls: Vec<String>,
    /// Forget the URLs in this file, one a line; `-` is standard input
    #[arg(long, alias = "urls", value_name = "FILE")]
    pub urls_from: Option<PathBuf>,
    /// Forget all URLs of this host, as URLs write it; may be given several times
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Forget only what was fetched before this time: 2020-01-01, or 2020-01-01T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
    /// Forget only what this sweep saw
    #[arg(long, value_name = "SWEEP")]
    pub sweep: Option<String>,
    /// Only say what would be forgotten
    #[arg(long)]
    pub dry_run: bool,
    /// Memory for comparing what is left of clusters [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}
