//! Distances between predictive distributions against closed forms and brute force.

use posterior::likelihood::{Likelihood, find};
use posterior::math::special::normal_cdf;
use posterior::predict::{Predictive, TargetScale};
use posterior::settings::{Settings, Value};
use std::sync::Arc;

fn likelihood(name: &str, width: usize, settings: &[(&str, Value)]) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    let given: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    (entry.build)(&Settings::resolve(entry.settings, &given, name).unwrap(), width).unwrap()
}

fn normals(mean: &[f32], std: f64) -> Predictive {
    let fixed = [("noise", Value::Text("fixed".into())), ("noise_std", Value::Float(std))];
    let scale = TargetScale { targets: vec![(7.0, 4.0)] };
    Predictive::new(likelihood("gaussian", 1, &fixed), mean.to_vec(), vec![], mean.len(), 1, scale)
}

/// N(a, s²) and N(b, s²): total variation 2Φ(|a − b|/2s) − 1, Wasserstein |a − b|. The grid's error is of the order of a cell's width
/// squared: (18 standard deviations/400)² = 2e-3 at most, times the curvature.
#[test]
fn two_normals() {
    for (a, b, std) in [(0.0f32, 0.0f32, 0.3), (0.0, 0.5, 0.3), (-1.0, 1.0, 0.5), (0.0, 30.0, 0.4)] {
        let d = normals(&[a], std).distance(&normals(&[b], std));
        let gap = f64::from((a - b).abs());
        let variation = 2.0 * normal_cdf(gap / 2.0 / std) - 1.0;
        assert!((d.total_variation - variation).abs() < 1e-3, "{d:?}, expected {variation}");
        let moved = 4.0 * gap;
        assert!((d.wasserstein.unwrap() - moved).abs() < 1e-3 * (1.0 + moved), "{d:?}, expected {moved}");
        assert_eq!(d.agreement, None);
    }
}

/// A mixture is compared as a whole, whatever the order and the number of its draws.
#[test]
fn the_same_mixture_in_other_words() {
    let a = normals(&[0.0, 1.0, 3.0], 0.3);
    let b = normals(&[3.0, 0.0, 1.0, 1.0, 3.0, 0.0], 0.3);
    let d = a.distance(&b);
    assert!(d.total_variation < 1e-9 && d.wasserstein.unwrap() < 1e-9, "{d:?}");
    // One third of the mass moved from 3 to 1: 2/3 of a standardised unit.
    let d = a.distance(&normals(&[0.0, 1.0, 1.0], 0.3));
    assert!((d.wasserstein.unwrap() - 4.0 * 2.0 / 3.0).abs() < 3e-3, "{d:?}");
    assert!((d.total_variation - (2.0 * normal_cdf(1.0 / 0.3) - 1.0) / 3.0).abs() < 1e-3, "{d:?}");
}

#[test]
fn counts_by_brute_force() {
    let poisson = |rate: f64| {
        let l = likelihood("poisson", 1, &[]);
        Predictive::new(l, vec![rate.ln() as f32], vec![], 1, 1, TargetScale::default())
    };
    let pmf = |rate: f64| {
        let mut p = vec![(-rate).exp()];
        (1..200).for_each(|k| p.push(p[k - 1] * rate / k as f64));
        p
    };
    let (p, q) = (pmf(3.0), pmf(5.0));
    let variation = 0.5 * p.iter().zip(&q).map(|(p, q)| (p - q).abs()).sum::<f64>();
    let d = poisson(3.0).distance(&poisson(5.0));
    // One Poisson lies wholly below the other: the distance is the difference of their means. 1e-5 lies beyond the grid.
    assert!((d.total_variation - variation).abs() < 1e-4, "{d:?}, expected {variation}");
    assert!((d.wasserstein.unwrap() - 2.0).abs() < 1e-3, "{d:?}");
}

#[test]
fn classes() {
    let l = likelihood("categorical", 2, &[]);
    let of = |p: &[f64]| {
        let f = p.iter().flat_map(|p| [(1.0 - p).ln() as f32, p.ln() as f32]).collect();
        Predictive::new(l.clone(), f, vec![], 1, p.len(), TargetScale::default())
    };
    let d = of(&[0.1, 0.6, 0.7, 0.9]).distance(&of(&[0.2, 0.4, 0.7, 0.8]));
    assert!((d.total_variation - (0.1 + 0.2 + 0.0 + 0.1) / 4.0).abs() < 1e-6, "{d:?}");
    assert_eq!((d.agreement, d.wasserstein), (Some(0.75), None));
}
