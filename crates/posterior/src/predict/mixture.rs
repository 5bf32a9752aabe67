//! Quantiles and CRPS of a location–scale mixture, F(y) = Σᵢ wᵢ P(mᵢ + σᵢ Z ≤ y) with Z normal or Student's t.
//!
//! A quantile lies between the lowest and the highest of the components' own. From the place that a single component of the mixture's spread would have,
//! Halley's steps within this bracket need two or three evaluations of F and its derivatives; where they leave it, or after [`STEPS`], halving takes over, in the
//! order of the floating-point numbers at last, which ends after 64 more whatever the components. The side of the smaller tail is solved, so that both tails are
//! equally exact: F is met to 1e-12 of the tail, or the answer is one of two neighbouring numbers.
//!
//! CRPS = E|Y − y| − ½ E|Y − Y′| (Gneiting & Raftery 2007), the first in closed form, the second ∫ F (1 − F). Its integrand is analytic, so that the trapezoidal
//! rule converges exponentially (Trefethen & Weideman 2014): for normals with a step of 0.6 of the narrowest σ, about 30 evaluations of F; where that needs
//! more evaluations than there are components, every pair in closed form (Grimit et al. 2006). Under Student's t with y = c + a sinh u, about 70 evaluations;
//! where components are narrower than a thousandth of their distances, adaptive quadrature with an interval for each. Relative error: 1e-10 for normals, 1e-8 for
//! Student's t.

use crate::likelihood::NormalPart;
use crate::math::quadrature::integrate;
use crate::math::special::{Parts, Scratch, Standard, normal_quantile};

/// Narrower components count as this: a point mass, with the cube of 1/σ still a number.
const NARROWEST: f64 = 1e-100;
/// Beyond this a location or a scale is no longer told apart from infinity.
const WIDEST: f64 = 1e100;
/// Steps before nothing but halving is done.
const STEPS: usize = 24;
/// Relative to the smaller tail.
const TOLERANCE: f64 = 1e-12;
/// Places that the trapezoidal rule visits at most.
const NODES: f64 = 4096.0;

/// The components of several rows, in structure-of-arrays form: every row has the same weights.
#[derive(Debug)]
pub(super) struct Components {
    mean: Vec<f64>,
    inverse: Vec<f64>,
    weight: Vec<f64>,
    padded: usize,
}

impl Components {
    /// Of `rows` rows; weights are divided by their sum.
    pub fn new(rows: usize, weights: impl ExactSizeIterator<Item = f64>) -> Components {
        // Padded to whole vectors by components of no weight.
        let padded = weights.len().next_multiple_of(16);
        let mut weight: Vec<f64> = weights.collect();
        let sum: f64 = weight.iter().sum();
        weight.iter_mut().for_each(|w| *w /= sum);
        weight.resize(padded, 0.0);
        Components { mean: vec![0.0; rows * padded], inverse: vec![1.0; rows * padded], weight, padded }
    }

    pub fn of_normals(parts: &[NormalPart]) -> Components {
        let mut all = Components::new(1, parts.iter().map(|p| p.weight));
        parts.iter().enumerate().for_each(|(i, p)| all.set(0, i, p.mean, p.std));
        all
    }

    pub fn set(&mut self, row: usize, i: usize, mean: f64, std: f64) {
        let at = row * self.padded + i;
        self.mean[at] = mean;
        // What is not a number stays so.
        self.inverse[at] = 1.0 / if std < NARROWEST { NARROWEST } else { std };
    }

    /// None where a location or scale is not a number, or beyond what can be told.
    pub fn row(&self, row: usize) -> Option<Parts<'_>> {
        let at = row * self.padded..(row + 1) * self.padded;
        let parts = Parts { mean: &self.mean[at.clone()], inverse: &self.inverse[at], weight: &self.weight };
        let known = |m: &f64, i: &f64| m.abs() <= WIDEST && *i >= 1.0 / WIDEST;
        let all = parts.mean.iter().zip(parts.inverse).zip(parts.weight);
        all.into_iter().all(|((m, i), w)| *w == 0.0 || known(m, i)).then_some(parts)
    }
}

fn counted<'a>(parts: &Parts<'a>) -> impl Iterator<Item = (f64, f64, f64)> + use<'a> {
    let all = parts.mean.iter().zip(parts.inverse).zip(parts.weight);
    all.filter(|(_, w)| **w > 0.0).map(|((m, i), w)| (*m, 1.0 / *i, *w))
}

/// What is common to all searches for a level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Probability of the smaller tail.
    tail: f64,
    /// −1 where the upper tail is the smaller one.
    sign: f64,
    /// Where Z and a normal have this lower tail.
    own: f64,
    normal: f64,
}

impl Level {
    pub fn new(standard: &Standard, level: f64) -> Level {
        let (tail, sign) = if level > 0.5 { (1.0 - level, -1.0) } else { (level, 1.0) };
        let normal = normal_quantile(tail);
        let own = if standard.degrees().is_infinite() || !(tail > 0.0 && tail < 0.5) {
            normal
        } else {
            let mut low = normal.min(-1.0);
            while standard.at(low).0 > tail && low > -WIDEST {
                low *= 2.0;
            }
            let one = Parts { mean: &[0.0], inverse: &[1.0], weight: &[1.0] };
            let problem = Search { standard, parts: one, sign: 1.0, tail };
            problem.solve(low, 0.0, normal, &mut Scratch::default()).0
        };
        Level { tail, sign, own, normal }
    }

    /// The quantile, and how often F was evaluated.
    pub fn quantile(&self, standard: &Standard, parts: Parts<'_>, scratch: &mut Scratch) -> (f64, usize) {
        if !(self.tail > 0.0 && self.tail <= 0.5) {
            // −∞ or ∞ at the ends, not a number outside.
            return (if self.tail == 0.0 { self.sign * self.normal } else { f64::NAN }, 0);
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut mean, mut noise) = (0.0, 0.0);
        for (m, std, w) in counted(&parts) {
            let own = self.sign * m + self.own * std;
            (low, high) = (low.min(own), high.max(own));
            mean += w * self.sign * m;
            noise += w * std * std;
        }
        let spread: f64 = counted(&parts).map(|(m, _, w)| w * (self.sign * m - mean).powi(2)).sum();
        let start = mean - (self.own * self.own * noise + self.normal * self.normal * spread).sqrt();
        let search = Search { standard, parts, sign: self.sign, tail: self.tail };
        let (u, steps) = search.solve(low, high, start, scratch);
        (self.sign * u, steps)
    }
}

/// A number's place in the order of all of them.
fn place(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn at_place(place: i64) -> f64 {
    f64::from_bits((place ^ (((place >> 63) as u64) >> 1) as i64) as u64)
}

/// Whether no number lies between.
fn neighbours(low: f64, high: f64) -> bool {
    i128::from(place(high)) - i128::from(place(low)) <= 1
}

/// The number halfway between in the order of all numbers.
fn halfway(low: f64, high: f64) -> f64 {
    let (a, b) = (place(low), place(high));
    at_place((a & b) + ((a ^ b) >> 1))
}

struct Search<'a> {
    standard: &'a Standard,
    parts: Parts<'a>,
    sign: f64,
    tail: f64,
}

impl Search<'_> {
    /// Where F of the mixture (of its mirror image, if sign is −1) is `tail`, and the evaluations it took.
    fn solve(&self, mut low: f64, mut high: f64, start: f64, scratch: &mut Scratch) -> (f64, usize) {
        let mut u = start.clamp(low, high);
        let mut steps = 0;
        while !neighbours(low, high) {
            steps += 1;
            let at = self.standard.sums(self.parts, self.sign * u, self.sign, scratch);
            let gap = at.cdf - self.tail;
            if gap.abs() <= 4.0 * f64::EPSILON * self.tail {
                return (u, steps);
            }
            if gap < 0.0 {
                low = low.max(u)
            } else {
                high = high.min(u)
            }
            let newton = gap / at.density;
            let halley = newton / (1.0 - 0.5 * newton * at.slope / at.density);
            let next = u - halley;
            if steps > STEPS || !(next > low && next < high) {
                // Halving by size first; where sizes differ beyond measure, by place.
                u = if steps > STEPS { halfway(low, high) } else { 0.5 * low + 0.5 * high };
                continue;
            }
            // Halley's error is at most ½|F‴|/F′ of the step's cube, where the two steps are about the same.
            let cubed = halley.abs().powi(3) * 0.5 * at.curvature;
            if cubed <= TOLERANCE * self.tail && (newton - halley).abs() <= 0.5 * newton.abs() {
                return (next, steps);
            }
            u = next;
        }
        (high, steps)
    }
}

/// The score of a row, with the [`reach`] of its distribution.
pub(super) fn crps(standard: &Standard, parts: Parts<'_>, y: f64, reach: f64, scratch: &mut Scratch) -> f64 {
    let to_y = standard.mean_distance(parts, y, scratch);
    let apart = if standard.degrees().is_infinite() {
        normals_apart(parts, scratch)
    } else {
        apart(standard, parts, reach, scratch)
    };
    // Rounding is kept from making it negative; what is not a number stays so.
    let score = to_y - apart;
    if score < 0.0 { 0.0 } else { score }
}

/// Where ∫ P(Z > t) from there on is 1e-8 at most, for [`crps`].
pub(super) fn reach(standard: &Standard) -> f64 {
    let degrees = standard.degrees();
    if degrees.is_infinite() {
        return 6.5;
    }
    let mut z = 4.0;
    let beyond = |z: f64| {
        let (tail, density) = standard.at(-z);
        density * (degrees + z * z) / (degrees - 1.0) - z * tail
    };
    while beyond(z) > 1e-8 && z < WIDEST {
        z *= 2.0;
    }
    z
}

/// ½ E|Y − Y′| of normals.
fn normals_apart(parts: Parts<'_>, scratch: &mut Scratch) -> f64 {
    let standard = Standard::normal();
    let (mut low, mut high, mut narrowest) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
    for (m, std, _) in counted(&parts) {
        (low, high) = (low.min(m - 6.5 * std), high.max(m + 6.5 * std));
        narrowest = narrowest.min(std);
    }
    let step = 0.6 * narrowest;
    let nodes = ((high - low) / step).ceil();
    if nodes <= parts.mean.len() as f64 {
        let at = |i: usize| low + step * i as f64;
        return step
            * (0..=nodes as usize)
                .map(|i| {
                    let p = standard.cdf(parts, at(i), scratch);
                    p * (1.0 - p)
                })
                .sum::<f64>();
    }
    let n = parts.mean.len();
    let mut both = vec![0.0; n];
    let variance: Vec<f64> = parts.inverse.iter().map(|i| i.powi(-2)).collect();
    let mut sum = 0.0;
    for i in (0..n).filter(|i| parts.weight[*i] > 0.0) {
        both.iter_mut().zip(&variance[..i]).for_each(|(b, v)| *b = 1.0 / (v + variance[i]).sqrt());
        let before = Parts { mean: &parts.mean[..i], inverse: &both[..i], weight: &parts.weight[..i] };
        let own = 0.5 * parts.weight[i] * (2.0 * variance[i]).sqrt() * (2.0 / std::f64::consts::PI).sqrt();
        sum += parts.weight[i] * (own + standard.mean_distance(before, parts.mean[i], scratch));
    }
    sum
}

/// ½ E|Y − Y′| under Student's t, ∫ F (1 − F) dy with y = centre + a sinh u.
fn apart(standard: &Standard, parts: Parts<'_>, reach: f64, scratch: &mut Scratch) -> f64 {
    let root = standard.degrees().sqrt();
    let (mut low, mut high, mut narrowest) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
    let (mut centre, mut far) = (0.0, 0.0f64);
    for (m, std, w) in counted(&parts) {
        (low, high) = (low.min(m - reach * std), high.max(m + reach * std));
        narrowest = narrowest.min(std);
        centre += w * m;
    }
    counted(&parts).for_each(|(m, _, _)| far = far.max((m - centre).abs()));
    let a = (root * narrowest).max(0.5 * far);
    // F has its singularities at mᵢ ± i√ν σᵢ: how far from the real line that is in u.
    let strip = |(m, std, _): (f64, f64, f64)| {
        let (x, y) = ((m - centre) / a, root * std / a);
        y / (1.0 + x * x + y * y).sqrt()
    };
    let strip = counted(&parts).map(strip).fold(f64::INFINITY, f64::min);
    // The rule's error is e^{−2π strip/step}. With many degrees of freedom F grows within its strip as that of a normal does, and the step is the same.
    let step = strip * (std::f64::consts::TAU / 19.0).min(0.65 / root);
    let (low, high) = (((low - centre) / a).asinh(), ((high - centre) / a).asinh());
    let mut of = |u: f64| {
        let p = standard.cdf(parts, centre + a * u.sinh(), scratch);
        p * (1.0 - p) * a * u.cosh()
    };
    let nodes = ((high - low) / step).ceil();
    if nodes <= NODES {
        return step * (0..=nodes as usize).map(|i| of(low + step * i as f64)).sum::<f64>();
    }
    // Components much narrower than their distances: an interval for the peak of each, and for what lies between.
    let ends = |(m, std, _): (f64, f64, f64)| [-30.0, 30.0].map(|z| ((m + z * std - centre) / a).asinh());
    let mut edges: Vec<f64> = counted(&parts).flat_map(ends).chain([low, high]).collect();
    edges.sort_by(f64::total_cmp);
    integrate(&mut of, &edges, 1e-9)
}

#[cfg(test)]
#[allow(clippy::excessive_precision)] // reference values keep their digits
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standard(degrees: f64) -> Standard {
        if degrees.is_infinite() { Standard::normal().clone() } else { Standard::student(degrees) }
    }

    fn components(parts: &[(f64, f64, f64)]) -> Components {
        let mut all = Components::new(1, parts.iter().map(|p| p.0));
        parts.iter().enumerate().for_each(|(i, p)| all.set(0, i, p.1, p.2));
        all
    }

    fn quantile(s: &Standard, parts: Parts<'_>, level: f64) -> (f64, usize) {
        Level::new(s, level).quantile(s, parts, &mut Scratch::default())
    }

    const THREE: [(f64, f64, f64); 3] = [(0.2, -1.0, 0.3), (0.5, 0.4, 1.2), (0.3, 4.0, 0.05)];

    // mpmath 1.3 with 30 digits: F = Σ w P(Z ≤ (y − m)/s) of THREE from `betainc(nu/2, 0.5, 0, nu/(nu + z*z), regularized=True)/2` and `erfc`; quantiles by 110
    // halvings of [−1e4, 1e4], scores by `quad` of F² below y and (1 − F)² above.

    #[test]
    fn quantiles_of_known_value() {
        const INF: f64 = f64::INFINITY;
        for (degrees, level, q) in [
            (INF, 0.001, -3.053794087202094),
            (INF, 0.3, -0.51929234894397745),
            (INF, 0.5, 0.70401653212764175),
            (INF, 0.72, 3.9259924858228241),
            (INF, 0.975, 4.0697601453621858),
            (2.5, 0.001, -12.210346239865494),
            (2.5, 0.3, -0.54668364086367801),
            (2.5, 0.5, 0.74918546236984752),
            (2.5, 0.72, 3.9275819085223972),
            (2.5, 0.975, 4.1695985637314881),
            (4.0, 0.001, -6.7501895270214961),
            (4.0, 0.3, -0.53630404999688195),
            (4.0, 0.5, 0.72788672633680944),
            (4.0, 0.72, 3.9242314437558557),
            (4.0, 0.975, 4.1042284436711174),
            (11.0, 0.001, -3.9485834858694805),
            (11.0, 0.3, -0.52549200561845891),
            (11.0, 0.5, 0.71155457691238231),
            (11.0, 0.72, 3.923831800109458),
            (11.0, 0.975, 4.077644139234905),
        ] {
            let (s, all) = (standard(degrees), components(&THREE));
            let (got, steps) = quantile(&s, all.row(0).unwrap(), level);
            // 1e-12 of the tail over a density of at least 0.002 of it, and as much for the distribution function itself.
            assert!((got - q).abs() < 1e-10, "{degrees} {level}: {got} {q}");
            assert!(steps <= 12, "{steps}");
        }
    }

    #[test]
    fn scores_of_known_value() {
        const INF: f64 = f64::INFINITY;
        for (degrees, y, score) in [
            (INF, -3.0, 3.026177103276),
            (INF, 0.3, 0.67575310902437),
            (INF, 4.01, 1.6450129968121),
            (2.5, -3.0, 2.947725662416),
            (2.5, 0.3, 0.73820973682835),
            (2.5, 4.01, 1.5625372131184),
            (4.0, -3.0, 2.9760582344323),
            (4.0, 0.3, 0.71360592585776),
            (4.0, 4.01, 1.5933927752878),
            (11.0, -3.0, 3.0081692023134),
            (11.0, 0.3, 0.6890511694993),
            (11.0, 4.01, 1.6268030644035),
        ] {
            let (s, all) = (standard(degrees), components(&THREE));
            let got = crps(&s, all.row(0).unwrap(), y, reach(&s), &mut Scratch::default());
            // The trapezoidal rule's error and what is cut off at either end are 1e-8 of σ each.
            assert!((got - score).abs() < if degrees == INF { 1e-9 } else { 3e-8 }, "{degrees} {y}: {got} {score}");
        }
    }

    /// The rule for few components that lie apart and the one for many that do not, on the same mixture: every component in 50 equal parts.
    #[test]
    fn pairs_and_trapezoids_agree() {
        let few = [(0.5, 0.0, 1.0), (0.3, 0.7, 0.8), (0.2, -1.0, 1.5)];
        let many: Vec<_> = few.iter().flat_map(|(w, m, s)| (0..50).map(move |_| (w / 50.0, *m, *s))).collect();
        let (few, many) = (components(&few), components(&many));
        for y in [-2.0, 0.1, 3.0] {
            let score = |c: &Components| crps(Standard::normal(), c.row(0).unwrap(), y, 0.0, &mut Scratch::default());
            assert!((score(&few) / score(&many) - 1.0).abs() < 1e-9, "{y}"); // the rule's 1e-10 of σ
        }
    }

    /// Two far groups under Student's t, where the rule gives way to halving: ½E|Y − Y′| is ¼ of the distance and ½ of what one group has alone (the rest falls with the
    /// cube of the distance).
    #[test]
    fn groups_far_apart() {
        for distance in [1e4, 1e8, 1e20] {
            let (s, mut scratch) = (Standard::student(4.0), Scratch::default());
            let (one, two) = (components(&[(1.0, 0.0, 1.0)]), components(&[(0.5, 0.0, 1.0), (0.5, distance, 1.0)]));
            let mut half = |c: &Components| apart(&s, c.row(0).unwrap(), reach(&s), &mut scratch);
            let exact = 0.25 * distance + 0.5 * half(&one);
            let got = half(&two);
            assert!((got / exact - 1.0).abs() < 1e-7, "{distance}: {got} {exact}");
        }
    }

    /// What a prediction asks for usually: draws about as far apart as the noise.
    #[test]
    fn ordinary_mixtures_need_few_evaluations() {
        let parts: Vec<_> = (0..100)
            .map(|i| (1.0, 0.3 * normal_quantile((f64::from(i) + 0.5) / 100.0), 0.3 + 0.001 * f64::from(i % 7)))
            .collect();
        for degrees in [3.0, 4.0, 30.0, f64::INFINITY] {
            let (s, all) = (standard(degrees), components(&parts));
            for level in [0.025, 0.05, 0.5, 0.95] {
                let (_, steps) = quantile(&s, all.row(0).unwrap(), level);
                assert!(steps <= 4, "{degrees} {level}: {steps}");
            }
        }
    }

    fn wild() -> impl Strategy<Value = f64> {
        let size = prop_oneof![-45.0..38.0f64, -3.0..3.0f64].prop_map(|e| 10f64.powf(e));
        (size, any::<bool>()).prop_map(|(v, negative)| if negative { -v } else { v })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Components of any size: at most STEPS + 65 evaluations, and F jumps over the level at the answer, within rounding of the sum and of y.
        #[test]
        fn any_components(
            parts in prop::collection::vec((0.001..1.0f64, wild(), wild().prop_map(f64::abs)), 1..12),
            degrees in prop_oneof![Just(f64::INFINITY), Just(4.0), (1e-3..1e6f64).prop_map(|d| 2.0 + d)],
            level in prop_oneof![1e-9..1.0f64, (-14.0..-1.0f64).prop_map(|e| 10f64.powf(e))],
        ) {
            let (s, all, mut scratch) = (standard(degrees), components(&parts), Scratch::default());
            let row = all.row(0).unwrap();
            let (q, steps) = quantile(&s, row, level);
            prop_assert!(steps <= STEPS + 65, "{steps}");
            prop_assert!(q.is_finite());
            let near = 1e-14 * q.abs();
            let (below, above) = (s.cdf(row, q - near, &mut scratch), s.cdf(row, q + near, &mut scratch));
            let room = 1e-11 * level.min(1.0 - level) + 1e-15;
            prop_assert!(below - room <= level && level <= above + room, "{q}: {below} {level} {above}");
            let score = crps(&s, row, q, reach(&s), &mut scratch);
            prop_assert!(score >= 0.0 && score.is_finite(), "{score}");
        }
    }
}
