//! Ask and tell: which experiments to try next, given those tried and those pending.
//!
//! A Gaussian process is fitted to what was told, the acquisition is maximised, and the point counts as tried with its expected value while further points of a batch are
//! sought (Ginsbourger et al. 2010); Thompson takes a draw a point instead. With fewer values than dimensions and one, points fill the space. Nothing is proposed twice unless
//! values scatter by chance. Jones, Schonlau & Welch (1998); Ament et al. (2023). Cost: n³ for each of some 50 steps, then milliseconds a point.

use super::acquisition::{Acquisition, expected_improvement};
use super::search::{Search, all_points, same};
use super::space::{Point, Space};
use super::stop::Stop;
use super::surrogate::Surrogate;
use crate::error::{Error, Result};
use crate::rng::{Key, Purpose, Stream};

/// Which way is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Large values are good.
    Max,
    /// Small values are good.
    Min,
}

/// Fewest values that a Gaussian process is fitted to, and the most that a first design has; between them one more than there are dimensions.
const FEWEST: usize = 2;
const DESIGN: usize = 10;
/// Up to so many values parameters are always sought anew, and every so many afterwards.
const ANEW: usize = 20;
const EVERY: usize = 5;
/// Candidates that a draw of f is taken at.
const DRAWN: usize = 400;
/// ε as a part of the range of the values.
const EPSILON: f64 = 0.01;

/// A point to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// Its number in the pool, where there is one.
    pub row: Option<usize>,
    /// Where.
    pub point: Point,
    /// What it was chosen by; none in a first design.
    pub acquisition: Option<f64>,
    /// What is expected there, and how uncertain it is; none in a first design.
    pub expected: Option<(f64, f64)>,
}

/// Points to try, and whether it is worth it.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestions {
    /// The points.
    pub rows: Vec<Suggestion>,
    /// None in a first design.
    pub stop: Option<Stop>,
}

/// The state of an optimisation.
#[derive(Debug, Clone)]
pub struct Optimiser {
    space: Space,
    sign: f64,
    acquisition: Acquisition,
    epsilon: Option<f64>,
    tried: Vec<Point>,
    values: Vec<f64>,
    pending: Vec<Point>,
    parameters: Option<Vec<f64>>,
    key: Key,
}

impl Optimiser {
    /// Nothing tried yet.
    pub fn new(space: Space, goal: Goal, acquisition: Acquisition, seed: u64) -> Optimiser {
        let sign = if goal == Goal::Max { 1.0 } else { -1.0 };
        Optimiser {
            space,
            sign,
            acquisition,
            epsilon: None,
            tried: Vec::new(),
            values: Vec::new(),
            pending: Vec::new(),
            parameters: None,
            key: Key::new(seed),
        }
    }

    /// How near to the optimum is near enough, in the units of the values; without this, 1 % of their range.
    pub fn within(mut self, epsilon: f64) -> Optimiser {
        self.epsilon = Some(epsilon);
        self
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// A point was tried, with this value; it is pending no longer.
    pub fn tell(&mut self, point: Point, value: f64) -> Result<()> {
        if !value.is_finite() {
            return Err(Error::setting(format!("the value of a point is {value}"), "tell a number"));
        }
        self.check(&point)?;
        if let Some(i) = self.pending.iter().position(|p| same(&self.space, p, &point)) {
            self.pending.remove(i);
        }
        self.tried.push(point);
        self.values.push(self.sign * value);
        Ok(())
    }

    /// A point is being tried.
    pub fn pend(&mut self, point: Point) -> Result<()> {
        self.check(&point)?;
        self.pending.push(point);
        Ok(())
    }

    fn check(&self, point: &[f64]) -> Result<()> {
        let fits = point.len() == self.space.names().len() && point.iter().all(|v| v.is_finite());
        let what = format!("a point of {} numbers does not suit {} dimensions", point.len(), self.space.names().len());
        if fits { Ok(()) } else { Err(Error::setting(what, "give a finite number for every dimension")) }
    }

    /// The best value told, with its point.
    pub fn best(&self) -> Option<(&Point, f64)> {
        let best = (0..self.values.len()).max_by(|a, b| self.values[*a].total_cmp(&self.values[*b]))?;
        Some((&self.tried[best], self.sign * self.values[best]))
    }

    /// Points of the space to try next.
    pub fn ask(&mut self, n: usize) -> Result<Suggestions> {
        self.suggest(n, None)
    }

    /// Points of a pool to try next; those that were tried or are pending are left out.
    pub fn ask_of(&mut self, pool: &[Point], n: usize) -> Result<Suggestions> {
        pool.iter().try_for_each(|p| self.check(p))?;
        self.suggest(n, Some(pool))
    }

    /// A Gaussian process under what was told; parameters from the last one where that is enough.
    fn surrogate(&mut self) -> Result<Surrogate> {
        let n = self.values.len();
        let anew = n <= ANEW || n.is_multiple_of(EVERY);
        let from = self.parameters.as_deref().filter(|_| !anew);
        let fitted = Surrogate::fit(&self.space, &self.tried, &self.values, from)?;
        self.parameters = Some(fitted.log.clone());
        Ok(fitted)
    }

    fn suggest(&mut self, n: usize, pool: Option<&[Point]>) -> Result<Suggestions> {
        let key = self.key.step(self.values.len() as u64);
        if self.values.len() < (self.space.names().len() + 1).clamp(FEWEST, DESIGN) {
            return self.design(n, pool, key);
        }
        let fitted = self.surrogate()?;
        let mut believing = fitted.clone();
        for point in &self.pending {
            believing = believing.believing(&self.encoded(point))?;
        }
        let best = fitted.best_mean();
        let mut taken = self.pending.clone();
        if !fitted.is_noisy() {
            taken.extend_from_slice(&self.tried);
        }
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| self.values[*b].total_cmp(&self.values[*a]));
        let centres: Vec<Point> = order.iter().take(4).map(|i| self.tried[*i].clone()).collect();
        let (mut rows, mut stop) = (Vec::new(), None);
        for i in 0..n {
            let key = key.block(i as u64).purpose(Purpose::Init);
            let search = Search {
                space: &self.space,
                surrogate: &believing,
                acquisition: self.acquisition,
                // What is believed of pending points counts too: they would be improvements for sure, again and again.
                best: believing.best_mean(),
                taken: &taken,
                centres: &centres,
            };
            let ranked = match pool {
                Some(pool) => {
                    let free = pool.iter().filter(|p| !search.is_taken(p));
                    let mut all: Vec<(f64, Point)> = free.map(|p| (search.value(p), p.clone())).collect();
                    all.sort_by(|a, b| b.0.total_cmp(&a.0));
                    all
                }
                None if self.acquisition == Acquisition::Thompson => {
                    search.candidates(key).into_iter().map(|p| (0.0, p)).collect()
                }
                None => search.run(key),
            };
            if ranked.is_empty() {
                if rows.is_empty() {
                    return Err(Error::setting("every point there is has been tried or is pending", "widen the space"));
                }
                break;
            }
            let (value, point) = match self.acquisition {
                Acquisition::Thompson => self.thompson(&believing, &ranked, key)?,
                _ => ranked[0].clone(),
            };
            let at = fitted.at(&self.encoded(&point), false);
            if stop.is_none() {
                stop = Some(self.judge(&fitted, &ranked, best, expected_improvement(at.mean, at.std, best), key)?);
            }
            let value = if self.acquisition == Acquisition::Ucb { self.sign * value } else { value };
            rows.push(Suggestion {
                row: pool.and_then(|pool| pool.iter().position(|p| same(&self.space, p, &point))),
                point: point.clone(),
                acquisition: Some(value),
                expected: Some((self.sign * at.mean, at.std)),
            });
            if self.acquisition != Acquisition::Thompson {
                believing = believing.believing(&self.encoded(&point))?;
            }
            taken.push(point);
        }
        Ok(Suggestions { rows, stop })
    }

    fn encoded(&self, point: &[f64]) -> Vec<f64> {
        let mut x = Vec::with_capacity(self.space.width());
        self.space.encode(point, &mut x);
        x
    }

    /// The best of some candidates under one draw of f.
    fn thompson(&self, surrogate: &Surrogate, ranked: &[(f64, Point)], key: Key) -> Result<(f64, Point)> {
        let part = &ranked[..ranked.len().min(DRAWN)];
        let mut x = Vec::new();
        part.iter().for_each(|r| self.space.encode(&r.1, &mut x));
        let (mean, root) = surrogate.joint(&x)?;
        let mut stream = Stream::new(key.purpose(Purpose::Draw));
        let mut z: Vec<f64> = mean.iter().map(|_| stream.normal()).collect();
        root.multiply_lower(&mut z);
        z.iter_mut().zip(&mean).for_each(|(z, m)| *z += m);
        let best = (1..z.len()).fold(0, |best, i| if z[i] > z[best] { i } else { best });
        Ok((self.sign * z[best], part[best].1.clone()))
    }

    fn judge(&self, fitted: &Surrogate, ranked: &[(f64, Point)], best: f64, gain: f64, key: Key) -> Result<Stop> {
        let (low, high) =
            self.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        let epsilon = self.epsilon.unwrap_or(EPSILON * (high - low));
        // The tried point of the best mean: noise may have made the best value.
        let mean = |p: &Point| fitted.at(&self.encoded(p), false).mean;
        let means: Vec<f64> = self.tried.iter().map(mean).collect();
        let at = (1..means.len()).fold(0, |b, i| if means[i] > means[b] { i } else { b });
        let mut hopeful: Vec<(f64, &Point)> = ranked
            .iter()
            .map(|r| {
                let p = fitted.at(&self.encoded(&r.1), false);
                ((p.mean - best) / p.std.max(1e-300), &r.1)
            })
            .collect();
        hopeful.sort_by(|a, b| b.0.total_cmp(&a.0));
        let few: Vec<Point> = hopeful.into_iter().take(100).map(|h| h.1.clone()).collect();
        Stop::judge(&self.space, fitted, &self.tried[at], &few, gain, epsilon, key)
    }

    /// Points that fill the space: a shifted Halton sequence, or rows of the pool at random.
    fn design(&self, n: usize, pool: Option<&[Point]>, key: Key) -> Result<Suggestions> {
        let mut stream = Stream::new(self.key.purpose(Purpose::Init));
        let mut taken: Vec<Point> = self.tried.iter().chain(&self.pending).cloned().collect();
        let candidates: Vec<Point> = match pool.map(<[Point]>::to_vec).or_else(|| all_points(&self.space)) {
            Some(mut all) => {
                Stream::new(key.purpose(Purpose::Init)).shuffle(&mut all);
                all
            }
            None => {
                let shifts: Vec<f64> = self.space.names().iter().map(|_| stream.uniform()).collect();
                let at = |i: usize| {
                    let u = |(d, shift): (usize, &f64)| (halton(i + 1, d) + shift).fract();
                    self.space.at(&shifts.iter().enumerate().map(u).collect::<Vec<f64>>())
                };
                (0..n + 2 * taken.len() + 64).map(at).collect()
            }
        };
        let mut rows = Vec::new();
        for point in candidates {
            if rows.len() == n {
                break;
            }
            if taken.iter().any(|t| same(&self.space, t, &point)) {
                continue;
            }
            taken.push(point.clone());
            let row = pool.and_then(|pool| pool.iter().position(|p| same(&self.space, p, &point)));
            rows.push(Suggestion { row, point, acquisition: None, expected: None });
        }
        if rows.is_empty() {
            return Err(Error::setting("every point there is has been tried or is pending", "widen the space"));
        }
        Ok(Suggestions { rows, stop: None })
    }
}

/// The radical inverse of i in the d-th prime: evenly spread in [0, 1).
fn halton(mut i: usize, d: usize) -> f64 {
    let base =
        (2..).filter(|n: &usize| (2..*n).take_while(|k| k * k <= *n).all(|k| !n.is_multiple_of(k))).nth(d).unwrap_or(2);
    let (mut value, mut part) = (0.0, 1.0);
    while i > 0 {
        part /= base as f64;
        value += part * (i % base) as f64;
        i /= base;
    }
    value
}
