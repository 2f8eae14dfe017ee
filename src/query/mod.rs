//! Questions about a store, each answered from one read-only snapshot.

mod answers;
mod audit;
mod changes;
mod clusters;
mod compared_texts;
mod content;
mod differences;
mod explain;
mod group;
mod lost;
mod moves;
mod near_urls;
mod overview;
mod passages;
mod present;
mod redirects;
mod related;
mod related_clusters;
mod report;
mod reuse;
mod similar;
mod sweeps;
mod target_names;
mod text;
mod url_search;

pub use answers::{
    ClusterAnswer, ClusterPage, UrlAnswer, UrlSighting, cluster, cluster_glance, cluster_page, named_cluster, url,
};
pub use audit::{AuditRow, Finding, Remedy, audit};
pub use changes::{By, ChangeRow, Changes, N_TENTHS, changes, changes_within};
pub use clusters::{ExportRow, Status, export, export_page, n_documents_left, status};
pub use compared_texts::{ComparedTexts, PassageRow, TextOrigin};
pub use content::{BlockRow, ContentExplanation, explain_content};
pub use differences::{Piece, differences};
pub use explain::{
    ChainLink, Connection, ExplainedPage, Explanation, LinkKind, NamedDocument, explain, has_document, named_document,
};
pub use group::{Group, group};
pub use lost::{FormerPlace, FoundPlace, LostAnswer, LostSearch, lost, lost_many};
pub use moves::{MoveRow, export_moves};
pub use near_urls::{near_urls, never_seen};
pub use overview::{HostRow, ListedCluster, Overview, overview};
pub use passages::{Passage, SharedPassages, shared_passages};
pub use present::{PresentRow, export_present, present};
pub use redirects::RedirectWay;
pub use related::{
    NO_RELATED, RelatedAnswer, RelatedPage, RelatedQuestion, RelatedTo, SharedWord, bags_of_urls, related,
};
pub use related_clusters::{
    NO_RELATED_CLUSTERS, NearUrl, RelatedCenter, RelatedCluster, RelatedPair, export_centers, export_related,
    has_related_clusters, related_cluster,
};
pub use report::{PlaceRow, Report, ReportQuestion, StandingCluster, report};
pub use reuse::{HostReuse, ReusedPage, reuse_of_content, reuse_of_document};
pub use similar::{Comparison, SimilarDocument, compare_sketches, document_at, nothing_to_compare, similar};
pub use sweeps::{Sweep, sweeps};
pub use text::{MissingText, TextAnswer, is_page_of, named_version, sought_page, text, text_of_page};
pub use url_search::{SearchPosition, UrlMatch, UrlMatches, find_urls};
