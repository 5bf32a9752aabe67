//! Outlines of the places where a function on a grid is above a level, by marching squares.
//!
//! Around each square of the grid, counter-clockwise, the outline goes from where one leaves the region to where one enters
//! it again; with the region to its left, it ends where the neighbour's begins. Reference: Maple (2003), Geometric design and
//! space planning using the marching squares and marching cube algorithms. Cost: one look at each square.

use std::collections::{BTreeMap, BTreeSet};

/// An edge of the grid: whether it runs along x, and its lower left point.
type Edge = (bool, usize, usize);

/// The outlines of `value > level` on a grid with `columns` points in a row, lowest row first; in steps of the grid, from
/// its first point on. A region that touches the border has outlines that end there.
pub fn outlines(values: &[f64], columns: usize, level: f64) -> Vec<Vec<[f64; 2]>> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    let value = |i: usize, j: usize| values[j * columns + i];
    let mut next: BTreeMap<Edge, Edge> = BTreeMap::new();
    for (i, j) in (1..rows).flat_map(|j| (1..columns).map(move |i| (i - 1, j - 1))) {
        let corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)].map(|(i, j)| value(i, j));
        let edges = [(true, i, j), (false, i + 1, j), (true, i, j + 1), (false, i, j)];
        let above = corners.map(|v| v > level);
        let crossed: Vec<usize> = (0..4).filter(|k| above[*k] != above[(k + 1) % 4]).collect();
        // Where opposite corners are above, the middle decides whether they are one region.
        let joined = corners.iter().sum::<f64>() / 4.0 > level;
        for (c, &k) in crossed.iter().enumerate().filter(|(_, k)| above[**k]) {
            let to = if crossed.len() == 2 || joined { c + 1 } else { c + crossed.len() - 1 };
            next.insert(edges[k], edges[crossed[to % crossed.len()]]);
        }
    }
    let place = |(along, i, j): Edge| {
        let (a, b) = (value(i, j), if along { value(i + 1, j) } else { value(i, j + 1) });
        let t = (level - a) / (b - a);
        if along { [i as f64 + t, j as f64] } else { [i as f64, j as f64 + t] }
    };
    // First from where nothing leads to, then around what is left.
    let reached: BTreeSet<Edge> = next.values().copied().collect();
    let (later, first): (Vec<Edge>, Vec<Edge>) = next.keys().partition(|e| reached.contains(*e));
    let mut found = Vec::new();
    for start in first.into_iter().chain(later) {
        let (mut edge, mut outline) = (start, Vec::new());
        while let Some(to) = next.remove(&edge) {
            outline.push(place(edge));
            edge = to;
        }
        if edge != start {
            outline.push(place(edge));
        }
        found.extend((!outline.is_empty()).then_some(outline));
    }
    found
}

/// The levels above which the given shares of the mass lie, for a density on an even grid.
pub fn levels(density: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut sorted = density.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let total: f64 = sorted.iter().sum();
    let level = |share: &f64| {
        let mut sum = 0.0;
        let reaches = |v: &&f64| {
            sum += **v;
            sum >= share * total
        };
        sorted.iter().find(reaches).copied().unwrap_or(0.0)
    };
    shares.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// f at the points of a grid of `n` × `n` over [−1, 1]².
    fn on_grid(n: usize, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let at = |i: usize| 2.0 * i as f64 / (n - 1) as f64 - 1.0;
        (0..n * n).map(|k| f(at(k % n), at(k / n))).collect()
    }

    /// The area to the left of an outline.
    fn area(outline: &[[f64; 2]]) -> f64 {
        let pairs = outline.iter().zip(outline.iter().cycle().skip(1));
        0.5 * pairs.map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum::<f64>()
    }

    #[test]
    fn a_circle_is_one_outline_of_its_area() {
        let n = 81;
        let found = outlines(&on_grid(n, |x, y| 0.49 - x * x - y * y), n, 0.0);
        assert_eq!(found.len(), 1);
        // Chords instead of arcs, and f taken as straight between points: second order in the step of 1/40.
        let scale = (2.0 / (n - 1) as f64).powi(2);
        assert!((area(&found[0]) * scale - 0.49 * std::f64::consts::PI).abs() < 2e-3);
    }

    #[test]
    fn a_ring_has_a_hole_and_two_peaks_two_outlines() {
        let n = 61;
        let ring = outlines(&on_grid(n, |x, y| 0.04 - ((x * x + y * y).sqrt() - 0.6).powi(2)), n, 0.0);
        let mut areas: Vec<f64> = ring.iter().map(|o| area(o)).collect();
        areas.sort_by(f64::total_cmp);
        // The hole is on the right of its outline: its area counts as negative.
        assert!(areas.len() == 2 && areas[0] < 0.0 && areas[1] > -areas[0], "{areas:?}");
        let peaks = outlines(&on_grid(n, |x, y| 0.1 - (x.abs() - 0.5).powi(2) - y * y), n, 0.0);
        assert_eq!(peaks.len(), 2);
    }

    #[test]
    fn saddles_borders_and_nothing() {
        // Opposite corners, apart or joined by the middle: either way each edge is left once and reached once.
        for (values, outlines_expected) in [([1.0, 0.0, 0.0, 1.0], 2), ([9.0, 0.0, 0.0, 9.0], 2)] {
            let found = outlines(&values, 2, 0.6);
            assert_eq!((found.len(), found.iter().map(Vec::len).sum::<usize>()), (outlines_expected, 4));
        }
        let slope = outlines(&on_grid(5, |x, _| x), 5, 0.1);
        assert_eq!((slope.len(), slope[0].len()), (1, 5));
        assert!(outlines(&[0.0; 9], 3, 1.0).is_empty() && outlines(&[], 0, 1.0).is_empty());
    }

    #[test]
    fn levels_hold_their_share() {
        assert_eq!(levels(&[1.0, 4.0, 2.0, 3.0], &[0.4, 0.5, 0.7, 1.0]), [4.0, 3.0, 3.0, 1.0]);
    }
}
