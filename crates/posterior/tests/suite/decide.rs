//! Decisions against enumeration, conformal risk control over repeats, scores of rows against their definitions, batches against brute force.

use posterior::data::{Column, EncodeOptions, Table};
use posterior::decide::{
    Batch, ClassDraws, Costs, Draws, Loss, QueryScore, RealDraws, choose, joint_information, realised, risk_control,
    scores,
};
use posterior::fitted::Route;
use posterior::inference::Silent;
use posterior::math::special::normal_quantile;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::NetworkSpec;
use posterior::rng::{Key, Stream};
use proptest::prelude::*;

fn class_draws(seed: u64, rows: usize, draws: usize, classes: usize) -> ClassDraws {
    let mut stream = Stream::new(Key::new(seed));
    let mut p = Vec::new();
    for _ in 0..rows * draws {
        let raw: Vec<f64> = (0..classes).map(|_| (1.5 * stream.normal()).exp()).collect();
        let sum: f64 = raw.iter().sum();
        p.extend(raw.iter().map(|v| v / sum));
    }
    let raw: Vec<f64> = (0..draws).map(|_| 0.1 + stream.uniform()).collect();
    let sum: f64 = raw.iter().sum();
    ClassDraws { p, weights: raw.iter().map(|w| w / sum).collect(), classes }
}

fn real_draws(seed: u64, rows: usize, draws: usize) -> RealDraws {
    let mut stream = Stream::new(Key::new(seed));
    let mean = (0..rows * draws).map(|_| stream.normal()).collect();
    let variance = (0..rows * draws).map(|_| (0.5 * stream.normal()).exp()).collect();
    RealDraws { mean, variance, weights: vec![1.0 / draws as f64; draws] }
}

fn costs(seed: u64, actions: usize, outcomes: usize) -> Costs {
    let mut stream = Stream::new(Key::new(seed));
    let actions: Vec<String> = (0..actions).map(|a| format!("a{a}")).collect();
    let cost = (0..actions.len() * outcomes).map(|_| 10.0 * stream.uniform()).collect();
    Costs { actions, cost, outcomes }
}

/// Every rule from rows to actions, every rule from (row, outcome) and from (row, draw): the cheapest of each kind, written out.
#[test]
fn decisions_equal_enumeration() {
    for seed in 0..20 {
        let (rows, k, c) = (4, 3, costs(seed, 3, 3));
        let draws = class_draws(seed + 100, rows, 5, k);
        let decided = c.decide(&draws);
        let expected = |n: usize, a: usize| -> f64 {
            let by_draw = draws.weights.iter().enumerate();
            by_draw.map(|(s, w)| w * (0..k).map(|y| c.at(a, y) * draws.row(n)[s * k + y]).sum::<f64>()).sum()
        };
        let mut least = (f64::INFINITY, 0);
        for rule in 0..3usize.pow(rows as u32) {
            let action = |n: usize| rule / 3usize.pow(n as u32) % 3;
            let cost: f64 = (0..rows).map(|n| expected(n, action(n))).sum();
            if cost < least.0 {
                least = (cost, rule);
            }
        }
        for (n, d) in decided.iter().enumerate() {
            assert_eq!(d.action, least.1 / 3usize.pow(n as u32) % 3);
            // An action for every outcome, and one for every draw.
            let (mut known, mut learned) = (f64::INFINITY, 0.0);
            for rule in 0..3usize.pow(k as u32) {
                let cost = (0..k).map(|y| draws.mean(n)[y] * c.at(rule / 3usize.pow(y as u32) % 3, y)).sum();
                known = f64::min(known, cost);
            }
            for (s, w) in draws.weights.iter().enumerate() {
                let of = |a: usize| (0..k).map(|y| c.at(a, y) * draws.row(n)[s * k + y]).sum::<f64>();
                learned += w * (0..3).map(of).fold(f64::INFINITY, f64::min);
            }
            // Sums of a dozen numbers below 10.
            assert!((d.expected_cost - expected(n, d.action)).abs() < 1e-12);
            assert!((d.saved_by_label - (d.expected_cost - known)).abs() < 1e-12);
            assert!((d.saved_by_data - (d.expected_cost - learned)).abs() < 1e-12);
            assert!(d.saved_by_data <= d.saved_by_label);
        }
    }
}

#[test]
fn the_best_threshold_is_the_best_of_all() {
    let names: Vec<String> = ["no", "yes"].map(String::from).to_vec();
    let c = Costs { actions: names.clone(), cost: vec![0.0, 10.0, 1.0, 0.0], outcomes: 2 };
    let draws = class_draws(7, 40, 3, 2);
    let mut stream = Stream::new(Key::new(1));
    let y: Vec<usize> = (0..40).map(|n| usize::from(stream.uniform() < draws.mean(n)[1])).collect();
    let found = realised(&c, &names, &draws, &c.decide(&draws), &y);
    let cost = |t: f64| (0..40).map(|n| c.at(usize::from(draws.mean(n)[1] >= t), y[n])).sum::<f64>() / 40.0;
    let all = (0..40).map(|n| cost(draws.mean(n)[1])).chain([cost(2.0)]).fold(f64::INFINITY, f64::min);
    let (best, threshold) = found.best_threshold.unwrap();
    assert!((best - all).abs() < 1e-12 && (cost(threshold) - best).abs() < 1e-12);
    assert!(found.decided >= best - 1e-12 && found.most_probable.unwrap() >= best - 1e-12);
}

/// E[L(λ̂)] ≤ α over the rows λ̂ is learned from and one more, with a model that is overconfident.
#[test]
fn risk_is_controlled_whatever_the_model() {
    let (level, n, repeats) = (0.1, 60, 4000);
    let mut losses = Vec::new();
    for repeat in 0..repeats {
        let mut stream = Stream::new(Key::new(repeat));
        let (mut expected, mut cost) = (Vec::new(), Vec::new());
        for _ in 0..=n {
            let told: f64 = stream.uniform();
            expected.push(0.3 * told);
            cost.push(if stream.uniform() < told { 2.0 } else { 0.0 });
        }
        let g = risk_control(&expected[..n], &cost[..n], 2.0, level);
        losses.push(if expected[n] <= g.threshold { cost[n] } else { 0.0 });
        // The largest λ of all that keep (ΣL + B)/(n + 1) ≤ α.
        let risk = |t: f64| (0..n).filter(|i| expected[*i] <= t).map(|i| cost[i]).sum::<f64>();
        let keeps = |t: f64| (risk(t) + 2.0) / (n + 1) as f64 <= level + 1e-12;
        assert!(keeps(g.threshold));
        assert!(expected[..n].iter().all(|t| *t <= g.threshold || !keeps(*t)));
    }
    let mean = losses.iter().sum::<f64>() / repeats as f64;
    let error = (losses.iter().map(|l| (l - mean).powi(2)).sum::<f64>()).sqrt() / repeats as f64;
    // Four standard errors; and it is not so careful that it never acts.
    assert!(mean < level + 4.0 * error && mean > 0.5 * level, "{mean} ± {error}");
    assert_eq!(risk_control(&[0.1], &[0.0], 1.0, 0.1).threshold, f64::NEG_INFINITY);
    assert_eq!(risk_control(&[0.1], &[0.0], 1.0, 0.1).rows_needed, 9);
}

fn linear_model() -> (Model, Table) {
    let mut stream = Stream::new(Key::new(2));
    let x: Vec<f64> = (0..12).map(|_| stream.normal()).collect();
    let y = x.iter().map(|x| 3.0 + 2.0 * x + 0.5 * stream.normal()).collect();
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))]).unwrap();
    let mut recipe = Recipe::new(NetworkSpec::default());
    recipe.method = Choice::named("linear");
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    (Model::fit(&recipe, &table, &options, 0, &mut Silent).unwrap(), table)
}

/// y ~ N(m, v): the quantile of u/(u + o) costs (u + o) √v φ(z); the mean costs v.
#[test]
fn losses_of_a_normal_are_the_formulas() {
    let (model, table) = linear_model();
    let x = model.encoder.encode(&table, false).unwrap().data.x;
    let how = model.how(400);
    let own = model.predict(&x, &how).unwrap();
    let drawn = model.predict(&x, &how.clone().by(Route::Draws)).unwrap();
    let real = own.real();
    let loss = Loss::parse("under=3,over=1").unwrap();
    let z = normal_quantile(0.75);
    let factor = 4.0 * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    for (n, d) in loss.decide(&own, &drawn, model.likelihood()).unwrap().iter().enumerate() {
        let (total, _, aleatoric) = real.std(n);
        assert!((d.action - (real.mean[n] + z * total)).abs() < 1e-6 * total); // the quantile's own tolerance
        // 48 nodes leave some 1e-4 of the integral at the lowest quantiles.
        assert!((d.expected_cost / (factor * total) - 1.0).abs() < 1e-3, "{} {}", d.expected_cost, factor * total);
        assert!((d.saved_by_data - factor * (total - aleatoric)).abs() < 2e-3 * d.expected_cost);
    }
    for (n, d) in Loss::Squared.decide(&own, &drawn, model.likelihood()).unwrap().iter().enumerate() {
        assert!((d.expected_cost - real.std(n).0.powi(2)).abs() < 1e-12);
        // The noise is one number, so that draws know it.
        assert!((d.saved_by_data / real.epistemic[n] - 1.0).abs() < 1e-4);
    }
    for wrong in ["", "cubed", "under=3", "under=-1,over=1", "under=1,over=x"] {
        assert!(Loss::parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    /// Data processing: what a label teaches of another outcome is at most what it teaches of the function.
    #[test]
    fn epig_is_at_most_bald(seed in 0u64..10_000, draws in 1usize..7, classes in 2usize..5) {
        let all = class_draws(seed, 6, draws, classes);
        let (epig, bald) = both(&Draws::Classes(all));
        prop_assert!(epig.iter().zip(&bald).all(|(e, b)| *e >= 0.0 && *e <= b + 1e-12), "{epig:?} {bald:?}");
        prop_assert!(draws > 1 || bald.iter().all(|b| *b < 1e-12));
        let (epig, bald) = both(&Draws::Real(real_draws(seed, 6, draws)));
        prop_assert!(epig.iter().zip(&bald).all(|(e, b)| *e >= 0.0 && *e <= b + 1e-12), "{epig:?} {bald:?}");
    }
}

fn both(draws: &Draws) -> (Vec<f64>, Vec<f64>) {
    let epig = scores(QueryScore::Epig, draws, Some(draws)).unwrap();
    (epig, scores(QueryScore::Bald, draws, None).unwrap())
}

/// Without noise in the draws, a row's label teaches its own outcome all of its entropy.
#[test]
fn epig_of_the_row_itself_is_its_entropy_without_noise() {
    let p = vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0];
    let one = Draws::Classes(ClassDraws { p, weights: vec![0.1, 0.2, 0.3, 0.4], classes: 2 });
    let (epig, bald) = both(&one);
    let entropy = scores(QueryScore::Entropy, &one, None).unwrap();
    assert!((epig[0] - entropy[0]).abs() < 1e-12 && (bald[0] - entropy[0]).abs() < 1e-12);
}

/// I[y₁, y₂; w] = H[p̄(y₁, y₂)] − E H of a pair, with the table of the pair written out.
#[test]
fn batchbald_of_a_pair_is_brute_force() {
    for seed in 0..10 {
        let draws = class_draws(seed, 6, 8, 3);
        let pair = |a: usize, b: usize| {
            let (mut joint, mut noise) = (0.0, 0.0);
            for y in 0..9 {
                let of = |s: usize| draws.row(a)[s * 3 + y / 3] * draws.row(b)[s * 3 + y % 3];
                let mean: f64 = draws.weights.iter().enumerate().map(|(s, w)| w * of(s)).sum();
                joint -= mean * mean.ln();
                noise -= draws.weights.iter().enumerate().map(|(s, w)| w * of(s) * of(s).ln()).sum::<f64>();
            }
            joint - noise
        };
        let all = Draws::Classes(draws.clone());
        let bald = scores(QueryScore::Bald, &all, None).unwrap();
        let chosen = choose(Batch::Joint, 2, &bald, &all, Key::new(0));
        let (first, second) = (chosen[0], chosen[1]);
        assert!((first.1 - bald.iter().copied().fold(0.0, f64::max)).abs() < 1e-12);
        assert!((first.1 + second.1 - pair(first.0, second.0)).abs() < 1e-12);
        assert!((joint_information(&draws, &[first.0, second.0]) - pair(first.0, second.0)).abs() < 1e-12);
        let best = (0..6).filter(|b| *b != first.0).map(|b| pair(first.0, b)).fold(0.0, f64::max);
        assert!((pair(first.0, second.0) - best).abs() < 1e-12);
    }
}

/// Past the combinations that are gone through, labels are drawn: gains of seven rows of three classes against all 2187 combinations.
#[test]
fn drawn_labels_agree_with_all_of_them() {
    let draws = class_draws(3, 9, 8, 3);
    let all = Draws::Classes(draws.clone());
    let bald = scores(QueryScore::Bald, &all, None).unwrap();
    let chosen = choose(Batch::Joint, 7, &bald, &all, Key::new(0));
    let rows: Vec<usize> = chosen.iter().map(|c| c.0).collect();
    let told: f64 = chosen.iter().map(|c| c.1).sum();
    let exact = joint_information(&draws, &rows);
    // The last gain alone is estimated, from 1024 draws of an entropy whose terms spread by about 0.5.
    assert!((told - exact).abs() < 4.0 * 0.5 / 1024f64.sqrt(), "{told} {exact}");
}

/// Greedy gains of numbers add up to ½ ln det(I + Σ/σ²).
#[test]
fn joint_gains_of_numbers_are_a_log_determinant() {
    let mut draws = real_draws(5, 5, 40);
    draws.variance.fill(0.5);
    let all = Draws::Real(draws.clone());
    let bald = scores(QueryScore::Bald, &all, None).unwrap();
    let told: f64 = choose(Batch::Joint, 2, &bald, &all, Key::new(0)).iter().map(|c| c.1).sum();
    let rows: Vec<usize> = choose(Batch::Joint, 2, &bald, &all, Key::new(0)).iter().map(|c| c.0).collect();
    let product = |a: usize, b: usize| draws.centred(a).iter().zip(draws.centred(b)).map(|(a, b)| a * b).sum::<f64>();
    let (a, b, c) = (product(rows[0], rows[0]), product(rows[1], rows[1]), product(rows[0], rows[1]));
    let det = (1.0 + a / 0.5) * (1.0 + b / 0.5) - (c / 0.5).powi(2);
    assert!((told - 0.5 * det.ln()).abs() < 1e-12);
}

/// Two of three rows in proportion to scores, without replacement.
#[test]
fn stochastic_batches_follow_the_scores() {
    let (s, repeats) = ([1.0, 2.0, 5.0], 20_000u64);
    let pool = Draws::Classes(class_draws(0, 3, 2, 2));
    let mut left_out = [0.0; 3];
    for seed in 0..repeats {
        let chosen = choose(Batch::Stochastic, 2, &s, &pool, Key::new(seed));
        (0..3).filter(|i| chosen.iter().all(|c| c.0 != *i)).for_each(|i| left_out[i] += 1.0 / repeats as f64);
    }
    for i in 0..3 {
        let (a, b) = (s[(i + 1) % 3], s[(i + 2) % 3]);
        let expected = a / 8.0 * b / (8.0 - a) + b / 8.0 * a / (8.0 - b);
        // Four standard errors of a frequency.
        let error = (expected * (1.0 - expected) / repeats as f64).sqrt();
        assert!((left_out[i] - expected).abs() < 4.0 * error, "{i}: {} {expected}", left_out[i]);
    }
}
