//! Where an acquisition is largest: points anywhere and near the best ones tried, then uphill from the best of them.
//!
//! Numbers climb by L-BFGS in x = ½(1 + sin t), which keeps them in [0, 1]; whole numbers and categories move one at a time in turn with it. A small finite space is gone
//! through whole. Cost: some 1000 predictions and 8 climbs of at most 40 steps.

use super::acquisition::Acquisition;
use super::space::{Dimension, Point, Space};
use super::surrogate::Surrogate;
use crate::optim;
use crate::rng::{Key, Stream};
use rayon::prelude::*;

/// Points tried anywhere, and near each of the best.
const ANYWHERE: usize = 512;
const NEAR: usize = 48;
/// How far near ones lie, in parts of the range.
const DISTANCES: [f64; 4] = [0.1, 0.02, 0.004, 0.0005];
/// Climbs, and steps of each.
const CLIMBS: usize = 8;
const STEPS: usize = 40;
/// A finite space of up to so many points is gone through.
const FINITE: f64 = 4096.0;

/// What is searched.
pub(super) struct Search<'a> {
    pub space: &'a Space,
    pub surrogate: &'a Surrogate,
    pub acquisition: Acquisition,
    pub best: f64,
    /// Points that must not be proposed.
    pub taken: &'a [Point],
    /// Points to look near.
    pub centres: &'a [Point],
}

/// Whether two points are the same for all that anybody could set.
pub(super) fn same(space: &Space, a: &[f64], b: &[f64]) -> bool {
    (0..a.len()).all(|d| (space.unit(d, a[d]) - space.unit(d, b[d])).abs() < 1e-9)
}

/// All points of a small finite space.
pub(super) fn all_points(space: &Space) -> Option<Vec<Point>> {
    let count = space.points().filter(|n| *n <= FINITE)? as usize;
    let sizes = space.dimensions().iter().map(|d| match d {
        Dimension::Category(v) => (0.0, v.len()),
        Dimension::Integer { low, high } => (*low, (high - low) as usize + 1),
        Dimension::Real { .. } => (0.0, 1),
    });
    let sizes: Vec<(f64, usize)> = sizes.collect();
    let point = |mut i: usize| {
        let digit = |(low, size): &(f64, usize)| {
            let v = low + (i % size) as f64;
            i /= size;
            v
        };
        sizes.iter().map(digit).collect()
    };
    Some((0..count).map(point).collect())
}

impl Search<'_> {
    pub(super) fn is_taken(&self, point: &[f64]) -> bool {
        self.taken.iter().any(|t| same(self.space, t, point))
    }

    /// The acquisition at a point.
    pub(super) fn value(&self, point: &[f64]) -> f64 {
        let mut x = Vec::with_capacity(self.space.width());
        self.space.encode(point, &mut x);
        let at = self.surrogate.at(&x, false);
        self.acquisition.at(at.mean, at.std, self.best).0
    }

    /// Points to choose from, none of them taken.
    pub(super) fn candidates(&self, key: Key) -> Vec<Point> {
        let free = |p: &Point| !self.is_taken(p);
        if let Some(all) = all_points(self.space) {
            return all.into_iter().filter(free).collect();
        }
        let mut stream = Stream::new(key);
        let mut points: Vec<Point> = (0..ANYWHERE).map(|_| self.space.random(&mut stream)).collect();
        for centre in self.centres {
            for i in 0..NEAR {
                let near = |d: usize| {
                    let step = DISTANCES[i % DISTANCES.len()];
                    match &self.space.dimensions()[d] {
                        Dimension::Category(v) if stream.uniform() < 0.1 => (stream.uniform() * v.len() as f64).floor(),
                        Dimension::Category(_) => centre[d],
                        Dimension::Integer { low, high } => {
                            let step = (step * (high - low)).max(0.7);
                            (centre[d] + step * stream.normal()).round().clamp(*low, *high)
                        }
                        Dimension::Real { .. } => {
                            let unit = self.space.unit(d, centre[d]) + step * stream.normal();
                            self.space.value(d, unit.clamp(0.0, 1.0))
                        }
                    }
                };
                points.push((0..centre.len()).map(near).collect());
            }
        }
        points.retain(free);
        points
    }

    /// The best points found, the best first, none of them taken.
    pub(super) fn run(&self, key: Key) -> Vec<(f64, Point)> {
        let points = self.candidates(key);
        let mut ranked: Vec<(f64, Point)> = points.into_par_iter().map(|p| (self.value(&p), p)).collect();
        ranked.retain(|r| r.0.is_finite());
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        if self.space.points().is_none_or(|n| n > FINITE) {
            let starts: Vec<Point> = ranked.iter().take(CLIMBS).map(|r| r.1.clone()).collect();
            let climbed: Vec<(f64, Point)> = starts.into_par_iter().map(|p| self.climb(p)).collect();
            ranked.extend(climbed.into_iter().filter(|c| c.0.is_finite() && !self.is_taken(&c.1)));
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        ranked
    }

    /// Numbers uphill, then whole numbers and categories one at a time, until nothing rises.
    fn climb(&self, mut point: Point) -> (f64, Point) {
        let mut value = self.value(&point);
        for _ in 0..3 {
            let before = value;
            (value, point) = self.climb_numbers(point);
            for d in 0..point.len() {
                let others: Vec<f64> = match &self.space.dimensions()[d] {
                    Dimension::Category(v) => (0..v.len()).map(|i| i as f64).collect(),
                    Dimension::Integer { low, high } => {
                        [-4.0, -1.0, 1.0, 4.0].iter().map(|s| (point[d] + s).clamp(*low, *high)).collect()
                    }
                    Dimension::Real { .. } => continue,
                };
                for other in others {
                    let kept = std::mem::replace(&mut point[d], other);
                    let there = if self.is_taken(&point) { f64::NEG_INFINITY } else { self.value(&point) };
                    if there > value {
                        value = there;
                    } else {
                        point[d] = kept;
                    }
                }
            }
            if value <= before + 1e-9 {
                break;
            }
        }
        (value, point)
    }

    fn climb_numbers(&self, point: Point) -> (f64, Point) {
        let dimensions = self.space.dimensions();
        let free: Vec<usize> = (0..point.len()).filter(|d| matches!(dimensions[*d], Dimension::Real { .. })).collect();
        if free.is_empty() {
            let value = self.value(&point);
            return (value, point);
        }
        // Where a number is encoded.
        let mut at = Vec::new();
        let mut from = 0;
        for dimension in dimensions {
            at.push(from);
            from += if let Dimension::Category(v) = dimension { v.len() } else { 1 };
        }
        // At the very bounds sin t is flat, and nothing would move away from them.
        let angle = |d: usize| (2.0 * self.space.unit(d, point[d]).clamp(1e-4, 1.0 - 1e-4) - 1.0).asin();
        let mut t: Vec<f64> = free.iter().map(|d| angle(*d)).collect();
        let mut x = Vec::with_capacity(self.space.width());
        self.space.encode(&point, &mut x);
        optim::climb(&mut t, STEPS, |t, gradient| {
            for (d, t) in free.iter().zip(t) {
                x[at[*d]] = 0.5 * (1.0 + t.sin());
            }
            let p = self.surrogate.at(&x, true);
            let (value, dm, ds) = self.acquisition.at(p.mean, p.std, self.best);
            for ((d, t), g) in free.iter().zip(t).zip(gradient.iter_mut()) {
                *g = (dm * p.mean_gradient[at[*d]] + ds * p.std_gradient[at[*d]]) * 0.5 * t.cos();
            }
            value
        });
        let mut end = point.clone();
        for (d, t) in free.iter().zip(&t) {
            end[*d] = self.space.value(*d, 0.5 * (1.0 + t.sin()));
        }
        let (value, before) = (self.value(&end), self.value(&point));
        if value >= before { (value, end) } else { (before, point) }
    }
}
