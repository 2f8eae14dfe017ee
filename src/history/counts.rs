//! What the histories of all URLs add up to.

/// What the histories of all URLs add up to. A sighting that comes twice counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Distinct URLs.
    pub n_urls: u64,
    /// Sightings of pages: (URL, time, sweep, document).
    pub n_sightings: u64,
    /// Sightings that a URL is gone, lost or redirected.
    pub n_gone: u64,
}
