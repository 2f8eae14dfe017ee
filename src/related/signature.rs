//! Min-hash signatures of bags: the share of values that two of them agree in estimates the similarity of the bags
//! (Haveliwala, Gionis and Indyk 2000, section 4).
//!
//! A bag {(w, f)} stands for the set {w·1, …, w·f}. The similarity of two bags is then the resemblance of their sets.
//! An element is mixed to a number x below P = 2^31 - 1; for each of m random pairs (a, b), h(x) = ax + b mod P orders
//! the elements anew, and a value of the signature is the smallest h(x). With random elements, linear functions are as
//! good as random permutations here. P is the largest prime for which several h(x) fit into one vector instruction;
//! that it gives two elements one x, once in 2^31 pairs, hardly adds to what the 32 bits of a term already do.
//!
//! Of a value its low 24 bits are kept, as many bytes as in the paper. In a bag of 100 the smallest of 100 numbers below
//! 2^31 is some 2^24 and seldom above 2^27, so that its high bits would tell little apart; its low 24 bits take nearly all
//! their values. Two values agree by accident less than once in 10 million times, which adds 10^-7 to an estimate.

use super::bag::Bag;
use crate::document::Seed;

/// How bags are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureRule {
    /// Values in a signature. An estimate of similarity s has standard error √(s(1 - s)/m).
    pub m: usize,
}

impl Default for SignatureRule {
    /// The paper's 80 values.
    fn default() -> Self {
        SignatureRule { m: 80 }
    }
}

impl SignatureRule {
    /// The most values in a signature: enough for a standard error below 0.01.
    pub const VALUES_MAX: usize = 4096;

    /// Bytes of a signature.
    pub fn n_bytes(&self) -> usize {
        self.m * VALUE_BYTES
    }

    /// Returns what is wrong with the rule, if anything.
    pub fn problem(&self) -> Option<String> {
        let is_wrong = !(1..=Self::VALUES_MAX).contains(&self.m);
        is_wrong.then(|| format!("m is {}, must be 1 to {} values", self.m, Self::VALUES_MAX))
    }
}

/// Bytes of a value.
const VALUE_BYTES: usize = 3;

/// A signature of m values of three bytes, in bytes of its own or in those of a larger buffer.
///
/// The first m bytes are the low bytes of the values, the next m the middle bytes, the last m the high bytes: so
/// signatures are compared sixteen values at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<B = Box<[u8]>>(B);

impl<B: AsRef<[u8]>> Signature<B> {
    /// Reads a signature from the bytes of one.
    pub fn from_bytes(bytes: B) -> Self {
        Signature(bytes)
    }

    /// The bytes: three a value.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// The number of values, m.
    pub fn n_values(&self) -> usize {
        self.as_bytes().len() / VALUE_BYTES
    }

    /// The value at a position below m, of 24 bits.
    pub fn value(&self, position: usize) -> u32 {
        let (bytes, m) = (self.as_bytes(), self.n_values());
        u32::from_le_bytes([bytes[position], bytes[m + position], bytes[2 * m + position], 0])
    }

    /// In how many values two signatures of one rule agree.
    pub fn n_agreeing<C: AsRef<[u8]>>(&self, other: &Signature<C>) -> usize {
        let [low, middle, high] = planes(self.as_bytes());
        let [other_low, other_middle, other_high] = planes(other.as_bytes());
        let bytes = low.iter().zip(other_low).zip(middle.iter().zip(other_middle)).zip(high.iter().zip(other_high));
        // Two bytes hold the sum, because a signature has at most [`SignatureRule::VALUES_MAX`] values; a wider sum is slower.
        let agreeing = bytes.map(|((l, m), h)| u16::from((l.0 ^ l.1) | (m.0 ^ m.1) | (h.0 ^ h.1) == 0));
        usize::from(agreeing.sum::<u16>())
    }

    /// The share of values in which two signatures of one rule agree: an estimate of the similarity of the bags.
    pub fn agreement<C: AsRef<[u8]>>(&self, other: &Signature<C>) -> f64 {
        self.n_agreeing(other) as f64 / self.n_values() as f64
    }
}

/// The low, middle and high bytes of the values.
fn planes(signature: &[u8]) -> [&[u8]; VALUE_BYTES] {
    let (low, rest) = signature.split_at(signature.len() / VALUE_BYTES);
    let (middle, high) = rest.split_at(low.len());
    [low, middle, high]
}

/// The prime P that hashes are taken modulo.
const P: u64 = (1 << 31) - 1;

/// Functions whose minima are found together: as many as fit into the registers of a core without AVX.
const BLOCK: usize = 8;

/// `BLOCK` hash functions h(x) = ax + b mod P.
#[derive(Clone)]
struct HashBlock {
    a: [u64; BLOCK],
    b: [u64; BLOCK],
}

impl HashBlock {
    /// The smallest h(x) of each function.
    fn minima(&self, elements: &[u32]) -> [u32; BLOCK] {
        // Signed numbers, because the smallest instruction sets compare no others.
        let mut minima = [i32::MAX; BLOCK];
        for x in elements {
            for (i, least) in minima.iter_mut().enumerate() {
                let product = self.a[i] * u64::from(*x) + self.b[i];
                // 2^31 is 1 modulo P. The sum is below 2P, so that at most one P remains to be taken off.
                let sum = ((product & P) + (product >> 31)) as u32;
                *least = (*least).min(sum.min(sum.wrapping_sub(P as u32)) as i32);
            }
        }
        minima.map(i32::cast_unsigned)
    }
}

/// Signs bags under a store's secret.
#[derive(Clone)]
pub struct Signer {
    m: usize,
    key: u64,
    blocks: Vec<HashBlock>,
    elements: Vec<u32>,
}

impl Signer {
    /// Creates a signer whose hash functions derive from the seed.
    pub fn new(rule: &SignatureRule, seed: &Seed) -> Self {
        let number = |n: usize| seed.derive("related-signature", n as u64);
        let block = |first: usize| HashBlock {
            a: std::array::from_fn(|i| 1 + number(1 + 2 * (first + i)) % (P - 1)),
            b: std::array::from_fn(|i| number(2 + 2 * (first + i)) % P),
        };
        Signer {
            m: rule.m,
            key: number(0),
            blocks: (0..rule.m).step_by(BLOCK).map(block).collect(),
            elements: Vec::new(),
        }
    }

    /// The signature of a bag. An empty bag has none: it is similar to no other.
    pub fn sign(&mut self, bag: &Bag) -> Option<Signature> {
        let mut bytes = vec![0; self.m * VALUE_BYTES];
        self.sign_into(bag, &mut bytes).then(|| Signature(bytes.into()))
    }

    /// Writes the signature of a bag to `bytes`, which has the bytes of one. Returns false, and writes nothing, if the
    /// bag is empty.
    pub fn sign_into(&mut self, bag: &Bag, bytes: &mut [u8]) -> bool {
        self.fill_elements(bag);
        if self.elements.is_empty() {
            return false;
        }
        let (low, rest) = bytes.split_at_mut(self.m);
        let (middle, high) = rest.split_at_mut(self.m);
        let places = low.iter_mut().zip(middle).zip(high);
        let minima = self.blocks.iter().flat_map(|block| block.minima(&self.elements));
        for (((low, middle), high), value) in places.zip(minima) {
            [*low, *middle, *high, _] = value.to_le_bytes();
        }
        true
    }

    /// Fills `elements` with the elements of a bag, mixed and reduced modulo P.
    fn fill_elements(&mut self, bag: &Bag) {
        self.elements.clear();
        for (term, weight) in bag.weights() {
            let occurrence = |n: u8| (mix(self.key ^ (u64::from(term.0) << 8 | u64::from(n))) % P) as u32;
            self.elements.extend((1..=*weight).map(occurrence));
        }
    }
}

/// Mixes 64 bits one to one (the finaliser of SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
pub(super) fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::super::bag::Term;
    use super::super::test_bags::pair;
    use super::*;

    fn seed(n: u64) -> Seed {
        Seed([n, 2, 3, 4])
    }

    fn signer(n: u64) -> Signer {
        Signer::new(&SignatureRule::default(), &seed(n))
    }

    /// The remainder that the vector code computes, against the plain definition.
    #[test]
    fn minima_are_of_ax_plus_b_modulo_p() {
        let signer = signer(1);
        let edges = [0, 1, P as u32 - 1, 1 << 30];
        for x in edges.into_iter().chain((0..1000).map(|n| (mix(n) % P) as u32)) {
            for block in &signer.blocks {
                let expected: [u32; BLOCK] =
                    std::array::from_fn(|i| ((block.a[i] * u64::from(x) + block.b[i]) % P) as u32);
                assert_eq!(block.minima(&[x]), expected);
            }
        }
        let extreme = HashBlock { a: [P - 1; BLOCK], b: [P - 1; BLOCK] };
        assert_eq!(extreme.minima(&[P as u32 - 1]), [0; BLOCK]);
        assert_eq!(extreme.minima(&[5, 7]), [P as u32 - 8; BLOCK]);
    }

    #[test]
    fn an_empty_bag_has_no_signature() {
        assert_eq!(signer(1).sign(&Bag::default()), None);
    }

    #[test]
    fn agreement_counts_equal_values() {
        for m in [1, 7, 80, 241, 1000] {
            // One byte of three tells two values apart, whichever it is.
            let change = |bytes: &mut [u8], n: usize| (0..n).for_each(|i| bytes[(i % 3) * m + i] ^= 0x10);
            let bytes: Vec<u8> = (0..3 * m).map(|n| mix(n as u64) as u8).collect();
            for n_different in [0, 1, m / 2, m] {
                let mut changed = bytes.clone();
                change(&mut changed, n_different);
                let (a, b) = (Signature::from_bytes(&bytes), Signature::from_bytes(changed));
                let n_equal = (0..m).filter(|at| a.value(*at) == b.value(*at)).count();
                assert_eq!((a.n_agreeing(&b), n_equal), (m - n_different, m - n_different), "{m}");
                assert_eq!(b.agreement(&a), (m - n_different) as f64 / m as f64);
            }
        }
    }

    #[test]
    fn any_number_of_values_is_a_prefix_of_more() {
        let bag = Bag::new(vec![(Term(1), 60), (Term(2), 40)]);
        let full = signer(1).sign(&bag).unwrap();
        for m in [1, 7, 8, 79] {
            let short = Signer::new(&SignatureRule { m }, &seed(1)).sign(&bag).unwrap();
            assert_eq!(short.as_bytes().len(), SignatureRule { m }.n_bytes());
            assert!((0..m).all(|at| short.value(at) == full.value(at)));
        }
    }

    /// The signature of a bag does not change from one release to the next.
    #[test]
    fn golden_signature() {
        let bag = Bag::new(vec![(Term(1), 60), (Term(0xffff_ffff), 39), (Term(7), 1)]);
        let signature = signer(1).sign(&bag).unwrap();
        let first: Vec<u32> = (0..5).map(|at| signature.value(at)).collect();
        assert_eq!(first, GOLDEN);
    }

    const GOLDEN: [u32; 5] = [3_831_272, 2_850_870, 3_160_514, 4_968_421, 5_647_535];

    /// Pairs of bags of every seed and similarity.
    const N_PAIRS: u64 = 500;

    #[test]
    fn estimates_are_unbiased_and_as_accurate_as_80_values_can_be() {
        for (shared, either) in [(30, 150), (40, 160), (45, 150), (56, 140), (120, 140)] {
            let similarity = f64::from(shared) / f64::from(either);
            let (mut sum, mut squares) = (0.0, 0.0);
            for n in 0..8 {
                let mut signer = signer(n);
                for id in 0..N_PAIRS {
                    let (a, b) = pair(n * N_PAIRS + id, shared, either);
                    let (ours, theirs) = (signer.sign(&a).unwrap(), signer.sign(&b).unwrap());
                    let error = ours.agreement(&theirs) - similarity;
                    sum += error;
                    squares += error * error;
                }
            }
            let n = 8.0 * N_PAIRS as f64;
            let (bias, rmse) = (sum / n, (squares / n).sqrt());
            let expected = (similarity * (1.0 - similarity) / 80.0).sqrt();
            println!("s {similarity:.3}: bias {bias:+.4}, rmse {rmse:.4} = {:.3} x expected", rmse / expected);
            assert!(bias.abs() <= 0.005 && rmse <= 1.1 * expected, "{similarity}: bias {bias}, rmse {rmse}");
        }
    }
}
