//! How well similarity follows a hierarchy of classes that people made (section 3 of the paper, whose directory of pages
//! was Yahoo!).
//!
//! Two URLs are the farther apart the more levels one must climb from the class of one to a class that holds both, their
//! familial distance. URLs that are nearer should be more similar.

use rustc_hash::FxHashMap;

/// Classes of URLs, cut at a depth.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    depth: usize,
    of_url: FxHashMap<String, Vec<String>>,
    /// URLs in each class and in all below it.
    sizes: FxHashMap<Vec<String>, u64>,
}

/// The scores of some answers: means over the queries for which each is defined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// Queries that have a class; only these are scored.
    pub queries: usize,
    /// The share of them that got an answer.
    pub coverage: f64,
    /// Of the first ten answers that have a class, those of the query's class, by ten.
    pub precision_at_10: Option<f64>,
    /// (C - D) by all pairs of a URL of the query's class and one of another class. In C of them the first is more similar
    /// to the query, in D the second one.
    pub sibling_d: Option<f64>,
    /// (C - D) / (C + D) over all pairs at different distances from the query.
    pub gamma: Option<f64>,
}

/// Adds up the scores of queries.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    classes: &'a Classes,
    n_queries: usize,
    n_covered: usize,
    precision: Mean,
    sibling_d: Mean,
    gamma: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    n: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1;
    }

    fn value(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

/// Pairs that similarity orders as the classes do, and pairs that it orders the other way.
#[derive(Clone, Copy, Debug, Default)]
struct Concordance {
    agreeing: f64,
    opposed: f64,
}

/// Answers that count for precision.
const FIRST: usize = 10;

impl Classes {
    /// Creates the classes of URLs, paths such as `sql/ddl`, of which `depth` levels count. A shorter path is a class of its
    /// own.
    pub fn new(classes: impl Iterator<Item = (String, String)>, depth: usize) -> Self {
        let cut = |path: String| {
            let mut levels: Vec<String> = path.split('/').take(depth).map(String::from).collect();
            levels.resize(depth, "-".into());
            levels
        };
        let of_url: FxHashMap<String, Vec<String>> = classes.map(|(url, path)| (url, cut(path))).collect();
        let mut sizes: FxHashMap<Vec<String>, u64> = FxHashMap::default();
        for class in of_url.values() {
            for n in 0..=depth {
                *sizes.entry(class[..n].to_vec()).or_default() += 1;
            }
        }
        Classes { depth, of_url, sizes }
    }

    /// The URLs that have a class.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.of_url.keys().map(String::as_str)
    }

    /// URLs by their distance from a class of a URL, without that URL.
    fn at_distances(&self, class: &[String]) -> Vec<u64> {
        let n_in = |n_levels: usize| self.sizes.get(&class[..n_levels]).copied().unwrap_or(0);
        let at = |distance: usize| match distance {
            0 => n_in(self.depth).saturating_sub(1),
            _ => n_in(self.depth - distance) - n_in(self.depth - distance + 1),
        };
        (0..=self.depth).map(at).collect()
    }
}

/// Levels from a class up to the lowest one that holds another class, too.
fn distance(of: &[String], other: &[String]) -> usize {
    of.len() - of.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl<'a> Evaluation<'a> {
    /// Starts with no query.
    pub fn new(classes: &'a Classes) -> Self {
        let (precision, sibling_d, gamma) = Default::default();
        Evaluation { classes, n_queries: 0, n_covered: 0, precision, sibling_d, gamma }
    }

    /// Adds a query with its answers, the best first. What is not among them has similarity 0. Queries and answers without
    /// a class do not count.
    pub fn add(&mut self, query: &str, answers: &[(String, f64)]) {
        let Some(class) = self.classes.of_url.get(query) else { return };
        self.n_queries += 1;
        self.n_covered += usize::from(answers.iter().any(|(url, _)| url != query));
        let labelled = answers.iter().filter(|(url, _)| url != query).filter_map(|(url, similarity)| {
            let of_answer = self.classes.of_url.get(url)?;
            Some((distance(class, of_answer), *similarity))
        });
        let labelled: Vec<(usize, f64)> = labelled.collect();
        let n_at = self.classes.at_distances(class);
        let (siblings, all) = concordances(&labelled, &n_at);
        if all.agreeing + all.opposed > 0.0 {
            self.gamma.add((all.agreeing - all.opposed) / (all.agreeing + all.opposed));
        }
        let n_pairs = n_at[0] as f64 * n_at[1..].iter().sum::<u64>() as f64;
        if n_pairs > 0.0 {
            self.sibling_d.add((siblings.agreeing - siblings.opposed) / n_pairs);
            let n_right = labelled.iter().take(FIRST).filter(|(distance, _)| *distance == 0).count();
            self.precision.add(n_right as f64 / FIRST as f64);
        }
    }

    /// The scores of all queries.
    pub fn scores(&self) -> Scores {
        Scores {
            queries: self.n_queries,
            coverage: self.n_covered as f64 / self.n_queries.max(1) as f64,
            precision_at_10: self.precision.value(),
            sibling_d: self.sibling_d.value(),
            gamma: self.gamma.value(),
        }
    }
}

/// The pairs with a sibling, and all pairs. `answers` are distances and similarities, `n_at` all URLs by distance.
fn concordances(answers: &[(usize, f64)], n_at: &[u64]) -> (Concordance, Concordance) {
    let mut ranked: Vec<&(usize, f64)> = answers.iter().filter(|(_, similarity)| *similarity > 0.0).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut rest: Vec<f64> = n_at.iter().map(|n| *n as f64).collect();
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for equals in ranked.chunk_by(|a, b| a.1 == b.1) {
        let mut group = vec![0.0; n_at.len()];
        equals.iter().for_each(|(distance, _)| group[*distance] += 1.0);
        rest.iter_mut().zip(&group).for_each(|(left, n)| *left -= n);
        groups.push(group);
    }
    groups.push(rest);
    let (mut siblings, mut all) = (Concordance::default(), Concordance::default());
    let mut above = vec![0.0; n_at.len()];
    for group in &groups {
        for far in 1..n_at.len() {
            for near in 0..far {
                let (agreeing, opposed) = (above[near] * group[far], above[far] * group[near]);
                for sum in [Some(&mut all), Some(&mut siblings).filter(|_| near == 0)].into_iter().flatten() {
                    sum.agreeing += agreeing;
                    sum.opposed += opposed;
                }
            }
        }
        above.iter_mut().zip(group).for_each(|(above, n)| *above += n);
    }
    (siblings, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a, b, c are in x/1, d in x/2, e and f in y/1; z has no class.
    ///
    /// Query a: of its siblings, b is above d, e and f (3 pairs), and c, not answered, under d and e (2) and level with f:
    /// (3 - 2) / 6. Between distances 1 and 2, d is level with e and above f: (4 - 2) / 6. One of ten is right.
    /// Query d has no sibling; a is above e and f, b and c are level with them: 2 / 2. Query e has no answer: 0 of its
    /// pairs, and nothing to compare.
    #[test]
    fn scores_are_those_counted_by_hand() {
        let classes = [("a", "x/1"), ("b", "x/1"), ("c", "x/1/deep"), ("d", "x/2"), ("e", "y/1"), ("f", "y/1")];
        let classes = Classes::new(classes.into_iter().map(|(url, class)| (url.into(), class.into())), 2);
        assert_eq!(classes.urls().count(), 6);
        let mut evaluation = Evaluation::new(&classes);
        let answers: &[(&str, &[(&str, f64)])] = &[
            ("a", &[("b", 0.5), ("z", 0.4), ("d", 0.3), ("e", 0.3), ("a", 0.9)]),
            ("d", &[("a", 0.2)]),
            ("e", &[]),
            ("z", &[("a", 0.4)]),
        ];
        for (query, answers) in answers {
            let answers: Vec<(String, f64)> = answers.iter().map(|(url, s)| ((*url).to_string(), *s)).collect();
            evaluation.add(query, &answers);
        }
        let scores = evaluation.scores();
        let is_near = |score: Option<f64>, expected: f64| score.is_some_and(|score| (score - expected).abs() < 1e-9);
        assert_eq!(scores.queries, 3);
        assert!((scores.coverage - 2.0 / 3.0).abs() < 1e-9);
        assert!(is_near(scores.precision_at_10, 0.05), "{scores:?}");
        assert!(is_near(scores.sibling_d, 1.0 / 12.0), "{scores:?}");
        assert!(is_near(scores.gamma, (2.0 / 6.0 + 1.0) / 2.0), "{scores:?}");
    }

    #[test]
    fn without_queries_nothing_is_scored() {
        let classes = Classes::new(std::iter::empty(), 2);
        let scores = Evaluation::new(&classes).scores();
        assert_eq!((scores.queries, scores.coverage, scores.gamma), (0, 0.0, None));
    }
}
