//! How links make clusters: the policies of reclustering.

use std::str::FromStr;

/// How links make clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclusterPolicy {
    /// Connected components, as in the paper: linked documents belong together, however long the chain.
    Components,
    /// A document and those that resemble it. Each cluster's center is the document with most links to documents that
    /// are in no cluster yet.
    Star,
    /// CENTER (Haveliwala, Gionis and Indyk, "Scalable techniques for clustering the web", 2000, section 5): the links
    /// are scanned by document. A document in no cluster becomes a center, and its neighbours in no cluster join it.
    Center,
    /// By falling resemblance: of a link between two documents in no cluster the earlier becomes a center. A document
    /// in no cluster joins a center that it is linked with.
    CenterByResemblance,
    /// The greedy clustering of Broder, "On the resemblance and containment of documents", section 4.4: a document
    /// joins the cluster whose representative it resembles most, or starts one if it resembles none enough.
    Greedy(Representative),
}

/// What stands for a cluster when [`ReclusterPolicy::Greedy`] compares a document with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representative {
    /// The cluster's first document, as in the stream's policy `star`.
    First,
    /// The most popular shingles of the cluster's members, counted again whenever one joins; see
    /// [`Sketch::popular`](crate::sketch::Sketch::popular).
    Popular,
}

impl ReclusterPolicy {
    /// The policy with this representative, if it has one.
    pub fn with_representative(self, representative: Representative) -> Option<Self> {
        matches!(self, ReclusterPolicy::Greedy(_)).then_some(ReclusterPolicy::Greedy(representative))
    }
}

impl FromStr for ReclusterPolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "components" => Ok(ReclusterPolicy::Components),
            "star" => Ok(ReclusterPolicy::Star),
            "center" => Ok(ReclusterPolicy::Center),
            "center-by-resemblance" => Ok(ReclusterPolicy::CenterByResemblance),
            "greedy" => Ok(ReclusterPolicy::Greedy(Representative::First)),
            _ => Err("a policy is components, star, center, center-by-resemblance or greedy".into()),
        }
    }
}

impl FromStr for Representative {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "first" => Ok(Representative::First),
            "popular" => Ok(Representative::Popular),
            _ => Err("a representative is first or popular".into()),
        }
    }
}
