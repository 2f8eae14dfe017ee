//! The store at a glance, to explore it from: its counts, largest clusters and hosts, and what moved last.

use super::lost::{LostSearch, lost_many};
use super::moves::MoveRow;
use super::present::present;
use super::report::preference;
use crate::document::{ClusterId, DocumentId, FetchTime, host_of};
use crate::ports::{Present, Snapshot, StoreError};
use crate::sweep::UrlState;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Clusters that are listed of each kind: the largest.
const CLUSTERS_MAX: usize = 100_000;

/// Hosts that are counted: the first ones in the order of the store.
const HOSTS_MAX: usize = 100_000;

/// URLs gone last whose content is looked for.
const DEAD_MAX: usize = 100;

/// A host and its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRow {
    /// The host.
    pub name: String,
    /// URLs at which a page stands.
    pub n_pages: u64,
}

/// A cluster with two standing pages or more, or with one whose content has left another URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its standing pages.
    pub n_pages: u32,
    /// Its different texts that stand somewhere; one: its pages are identical.
    pub n_documents: u32,
    /// URLs that its content has left: they are gone, lost or redirected, and a page of it stood there last.
    pub n_left: u32,
    /// The URL that could stand for all, as in a [report](super::StandingCluster).
    pub canonical: String,
    /// Its pages, by host and by the sweep that saw them last, ascending by host.
    places: Vec<PlacePages>,
}

/// The pages of a cluster on one host that one sweep saw last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlacePages {
    /// The host's place in [`Overview::hosts`]; none where there are too many.
    host: Option<u32>,
    /// The sweep's place in [`Overview::sweeps`]; none for pages of no sweep.
    sweep: Option<u32>,
    n_pages: u32,
}

impl ListedCluster {
    /// Hosts that it has pages on.
    pub fn n_hosts(&self) -> usize {
        self.places.chunk_by(|a, b| a.host == b.host).filter(|places| places[0].host.is_some()).count()
    }

    /// Its pages on a host that a sweep saw last, given by their places in [`Overview::hosts`] and [`Overview::sweeps`]; without
    /// one of them, on any host or of any sweep.
    pub fn n_pages_at(&self, host: Option<usize>, sweep: Option<usize>) -> u32 {
        let is_at = |wanted: Option<usize>, place: Option<u32>| {
            wanted.is_none_or(|wanted| place.is_some_and(|place| place as usize == wanted))
        };
        let places = self.places.iter().filter(|place| is_at(host, place.host) && is_at(sweep, place.sweep));
        places.map(|place| place.n_pages).sum()
    }
}

/// A store at a glance. Pages are URLs at which a page stands now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// The number of the next event of the store that it describes.
    pub seq: u64,
    /// URLs that were seen.
    pub n_urls: u64,
    /// URLs at which a page stands.
    pub n_pages: u64,
    /// Those that another URL of their cluster could stand for: each page but one of every cluster.
    pub n_duplicates: u64,
    /// Clusters of two standing pages or more.
    pub n_clusters: u64,
    /// Clusters of one standing page whose content has left another URL.
    pub n_moved_singles: u64,
    /// The largest clusters of two pages or more, at most 100,000, and then at most 100,000 of one page that left another URL.
    pub clusters: Vec<ListedCluster>,
    /// The sweeps that saw standing pages last, the newest first.
    pub sweeps: Vec<String>,
    /// Hosts: at most 100,000.
    pub hosts: Vec<HostRow>,
    /// The URLs gone last whose content stands elsewhere, the latest first.
    pub moves: Vec<MoveRow>,
}

/// Reads what stands at every URL, twice. Takes some bytes of memory for each document and page, and a few hundred for
/// each listed cluster. None where `goes_on` says stop (false) meanwhile.
///
/// # Errors
/// [`StoreError`]
pub fn overview(
    snapshot: &impl Snapshot,
    search: &LostSearch,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Overview>, StoreError> {
    let mut overview = Overview { seq: snapshot.next_seq(), ..Overview::default() };
    let mut sizes = Sizes::new(snapshot.n_documents());
    let mut newest_dead = NewestDead::default();
    let mut clusters = snapshot.clusters()?;
    snapshot.each_url(&mut |url, UrlState { newest, copy, .. }| {
        overview.n_urls += 1;
        if let Some(document) = newest.seen.document() {
            sizes.count(clusters.cluster_of(document), document);
        } else {
            copy.iter().for_each(|copy| sizes.count_left(clusters.cluster_of(copy.document)));
            newest_dead.add(newest.fetched_at, url);
        }
        goes_on()
    })?;
    drop(clusters);
    overview.n_pages = sizes.n_pages.iter().map(|n| u64::from(*n)).sum();
    overview.clusters = sizes.clusters();
    let n_of_several = overview.clusters.partition_point(|cluster| cluster.n_pages > 1);
    overview.n_clusters = n_of_several as u64;
    overview.n_moved_singles = (overview.clusters.len() - n_of_several) as u64;
    let mut singles = overview.clusters.split_off(n_of_several);
    overview.clusters.truncate(CLUSTERS_MAX);
    singles.truncate(CLUSTERS_MAX);
    overview.clusters.append(&mut singles);
    overview.n_duplicates = sizes.n_pages.iter().map(|n| u64::from(n.saturating_sub(1))).sum();
    drop(sizes);
    add_places(snapshot, &mut overview, goes_on)?;
    lost_many(snapshot, &newest_dead.urls(), &LostSearch { limit: 1, ..search.clone() }, |answer| {
        overview.moves.extend(MoveRow::from_answer(answer).filter(|row| row.to.is_some()));
        goes_on()
    })?;
    Ok(goes_on().then_some(overview))
}

/// Finds the hosts and sweeps, and for each listed cluster its own and the URL that could stand for it.
fn add_places(snapshot: &impl Snapshot, overview: &mut Overview, goes_on: &dyn Fn() -> bool) -> Result<(), StoreError> {
    let Overview { clusters, hosts, sweeps, .. } = overview;
    let mut known_sweeps: HashMap<String, u32> = HashMap::new();
    let mut by_time = snapshot.sweeps()?;
    by_time.sort_by(|(a_name, a), (b_name, b)| (b.first, a_name).cmp(&(a.first, b_name)));
    for (name, _) in by_time {
        known_sweeps.insert(name.clone(), sweeps.len() as u32);
        sweeps.push(name);
    }
    let places: HashMap<ClusterId, usize> = clusters.iter().enumerate().map(|(at, row)| (row.cluster, at)).collect();
    let mut known: HashMap<String, usize> = HashMap::new();
    // A row for each page: the places of its cluster, host and sweep.
    let mut pages = Vec::<(u32, Option<u32>, Option<u32>)>::new();
    present(snapshot, |url, Present { cluster, newest }| {
        let Some(cluster) = cluster else { return goes_on() };
        let name = host_of(&url);
        let host = known.get(name).copied().or_else(|| {
            (hosts.len() < HOSTS_MAX).then(|| {
                known.insert(name.to_string(), hosts.len());
                hosts.push(HostRow { name: name.to_string(), n_pages: 0 });
                hosts.len() - 1
            })
        });
        if let Some(host) = host {
            hosts[host].n_pages += 1;
        }
        if let Some(at) = places.get(&cluster).copied() {
            let sweep = newest.sweep.and_then(|name| known_sweeps.get(&name).copied());
            pages.push((at as u32, host.map(|host| host as u32), sweep));
            let canonical = &mut clusters[at].canonical;
            if canonical.is_empty() || preference(&url) < preference(canonical) {
                *canonical = url;
            }
        }
        goes_on()
    })?;
    pages.sort_unstable();
    for same in pages.chunk_by(|a, b| a == b) {
        let (at, host, sweep) = same[0];
        clusters[at as usize].places.push(PlacePages { host, sweep, n_pages: same.len() as u32 });
    }
    Ok(())
}

/// How large each cluster is, by the smallest number of its documents.
struct Sizes {
    n_pages: Vec<u32>,
    n_documents: Vec<u32>,
    n_left: Vec<u32>,
    is_counted: Vec<bool>,
}

impl Sizes {
    fn new(n_documents: u32) -> Self {
        let n = n_documents as usize + 1;
        Sizes { n_pages: vec![0; n], n_documents: vec![0; n], n_left: vec![0; n], is_counted: vec![false; n] }
    }

    fn count_left(&mut self, cluster: ClusterId) {
        self.n_left[cluster.0 as usize] += 1;
    }

    fn count(&mut self, cluster: ClusterId, document: DocumentId) {
        self.n_pages[cluster.0 as usize] += 1;
        let is_counted = std::mem::replace(&mut self.is_counted[document.0 as usize], true);
        self.n_documents[cluster.0 as usize] += u32::from(!is_counted);
    }

    /// The clusters of two pages or more, or of one that left another URL; the largest first.
    fn clusters(&self) -> Vec<ListedCluster> {
        let is_listed = |id: &usize| self.n_pages[*id] > 1 || (self.n_pages[*id] == 1 && self.n_left[*id] > 0);
        let mut clusters: Vec<ListedCluster> = (0..self.n_pages.len())
            .filter(is_listed)
            .map(|id| ListedCluster {
                cluster: ClusterId(id as u32),
                n_pages: self.n_pages[id],
                n_documents: self.n_documents[id],
                n_left: self.n_left[id],
                canonical: String::new(),
                places: Vec::new(),
            })
            .collect();
        clusters.sort_by_key(|row| (Reverse(row.n_pages), row.cluster));
        clusters
    }
}

/// The URLs that went last.
#[derive(Default)]
struct NewestDead(BTreeSet<(FetchTime, String)>);

impl NewestDead {
    fn add(&mut self, at: FetchTime, url: String) {
        if self.0.len() >= DEAD_MAX {
            if self.0.first().is_some_and(|(first, _)| at < *first) {
                return;
            }
            self.0.pop_first();
        }
        self.0.insert((at, url));
    }

    /// The latest first.
    fn urls(self) -> Vec<String> {
        self.0.into_iter().rev().map(|(_, url)| url).collect()
    }
}
