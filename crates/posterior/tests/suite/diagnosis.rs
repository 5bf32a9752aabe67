//! Whole models judged: the three sentences where each is due, and draws that come back from Parquet.

use posterior::artifact::{PLAIN, from_bytes, to_bytes, write_draws};
use posterior::data::{Column, EncodeOptions, ReadOptions, Table};
use posterior::diagnose::{Diagnosis, Mixing, Quality, Trust};
use posterior::inference::{ChainProgress, Flow, Observer, Progress, Silent};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec};
use posterior::posterior::{Chain, Chains, DrawsPosterior};
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

fn table(rows: usize) -> Table {
    let mut stream = Stream::new(Key::new(2));
    let x: Vec<f64> = (0..rows).map(|_| stream.normal()).collect();
    let z: Vec<f64> = x.iter().map(|x| 0.7 * x + 0.7 * stream.normal()).collect();
    let y: Vec<f64> = x.iter().zip(&z).map(|(x, z)| x - 0.5 * z + 0.4 * stream.normal()).collect();
    let kind = y.iter().map(|y| Some(if y + 0.5 * stream.normal() > 0.0 { "up" } else { "down" }.to_owned()));
    Table::from_columns(vec![
        ("x".into(), Column::Number(x)),
        ("z".into(), Column::Number(z)),
        ("kind".into(), Column::Text(kind.collect())),
        ("y".into(), Column::Number(y)),
    ])
    .unwrap()
}

fn fit(network: &str, target: &str, method: Choice) -> Model {
    let recipe =
        Recipe { network: NetworkSpec::parse(network, Activation::Tanh).unwrap(), method, ..Recipe::default() };
    let ignore = if target == "y" { "kind" } else { "y" };
    let options = EncodeOptions { target: target.into(), ignore: vec![ignore.into()], ..EncodeOptions::default() };
    Model::fit(&recipe, &table(80), &options, 1, &mut Silent).unwrap()
}

fn short(method: &str) -> Choice {
    Choice::named(method).with("epochs", Value::Int(5))
}

/// Chains whose draw i of chain c is what `draw` makes of a MAP fit.
fn chains(model: &Model, draws: usize, count: usize, mut draw: impl FnMut(usize, usize, &mut [f32])) -> Chains {
    let point = model.network("").unwrap().posterior.draw(Key::new(0)).w;
    let mut stream = Stream::new(Key::new(17));
    let mut chain = |c: usize| {
        let mut w = Vec::new();
        for i in 0..draws {
            let mut one = point.clone();
            draw(c, i, &mut one);
            w.extend(one);
        }
        Chain {
            w,
            log_density: (0..draws).map(|_| stream.normal()).collect(),
            energy: (0..draws).map(|_| stream.normal()).collect(),
            gradients: vec![1; draws],
            step_size: 0.1,
            acceptance: 0.8,
            thin: 1,
            ..Chain::default()
        }
    };
    Chains { chains: (0..count).map(&mut chain).collect(), incomplete: false, fault: None }
}

fn judged(model: &Model, chains: Chains) -> Diagnosis {
    let mut model = model.clone();
    model = model.with_posterior(Arc::new(DrawsPosterior::new(chains, model.fitted.parameters()))).unwrap();
    let rows = model.encoder.encode(&table(80), false).unwrap();
    Diagnosis::new(&model, Some(&rows), 100, Key::new(1)).unwrap()
}

/// The last R-hat that was told.
struct Heard(f64);

impl Observer for Heard {
    fn progress(&mut self, _: &Progress) -> Flow {
        Flow::Continue
    }
    fn chain(&mut self, p: &ChainProgress) -> Flow {
        self.0 = p.r_hat;
        Flow::Continue
    }
    fn warn(&mut self, _: &str) {}
}

/// The rows of the fit and the file alone lead to one verdict, number by number, and its R-hat is the one that was shown.
#[test]
fn chains_have_one_verdict_with_and_without_their_rows() {
    let method = ["draws", "warmup"].iter().fold(Choice::named("hmc"), |c, k| c.with(k, Value::Int(60)));
    let recipe = Recipe { network: NetworkSpec::parse("3", Activation::Tanh).unwrap(), method, ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ignore: vec!["kind".into()], ..EncodeOptions::default() };
    let mut heard = Heard(f64::NAN);
    let model = Model::fit(&recipe, &table(80), &options, 1, &mut heard).unwrap();
    let rows = model.encoder.encode(&table(80), true).unwrap();
    let loaded = from_bytes(&to_bytes(&model).unwrap(), "m".as_ref()).unwrap();
    assert_eq!(loaded.mixing, model.mixing);
    let judge = |rows| Diagnosis::new(&loaded, rows, 0, Key::new(9)).unwrap();
    let (without, with) = (judge(None), judge(Some(&rows)));
    assert_eq!((&without.chains, &without.verdict), (&with.chains, &with.verdict));
    let report = with.chains.unwrap();
    assert_eq!((report.rows, report.predictions.count), (80, 81));
    assert_eq!(report.log_density.r_hat, heard.0);
    // A file from before this was kept does not guess.
    let older = Model { mixing: None, ..loaded.clone() };
    let asked = Diagnosis::new(&older, None, 0, Key::new(9)).unwrap_err().to_string();
    assert!(asked.contains("give their file"), "{asked}");
}

/// Numbers that JSON does not have survive a model file: R-hat of chains that stand still is infinite.
#[test]
fn an_infinite_r_hat_is_kept() {
    let mut model = fit("2", "y", short("map"));
    let still = chains(&model, 8, 2, |c, _, w| w[0] += c as f32);
    let rows = model.encoder.encode(&table(80), true).unwrap();
    model = model.with_posterior(Arc::new(DrawsPosterior::new(still.clone(), model.fitted.parameters()))).unwrap();
    model.mixing = Some(Mixing::new(model.network("").unwrap(), &still, &rows.data));
    assert_eq!(model.mixing.as_ref().unwrap().predictions.r_hat, f64::INFINITY);
    assert_eq!(from_bytes(&to_bytes(&model).unwrap(), "m".as_ref()).unwrap().mixing, model.mixing);
}

/// Adds independent noise to every parameter.
fn jitter(stream: &mut Stream, w: &mut [f32]) {
    w.iter_mut().for_each(|w| *w += 0.1 * stream.normal() as f32);
}

#[test]
fn chains_get_the_sentence_they_deserve() {
    let model = fit("2", "y", short("map"));
    let mut stream = Stream::new(Key::new(4));
    let good = judged(&model, chains(&model, 500, 4, |_, _, w| jitter(&mut stream, w)));
    assert_eq!(good.verdict.trust, Trust::All, "{}", good.verdict.sentence());
    assert!(good.verdict.sentence().starts_with("Trust: 4 chains agree"));
    let report = good.chains.unwrap();
    assert_eq!((report.chains, report.draws, report.rows), (4, 500, 80));
    assert!(report.weights.iter().all(|g| g.r_hat < 1.02 && g.ess_bulk > 1000.0));

    // The two hidden units change places, and their signs, in half of the chains: another w, the same function.
    // Layout: 0.weight 2×2 (input, unit), 0.bias 2, 1.weight 2, 1.bias 1, log_noise 1.
    let mut stream = Stream::new(Key::new(4));
    let swapped = judged(
        &model,
        chains(&model, 500, 4, |c, _, w| {
            w[..4].copy_from_slice(&[1.0, -0.5, 0.3, 0.8]);
            w[6..8].copy_from_slice(&[1.0, -0.7]);
            jitter(&mut stream, w);
            if c % 2 == 0 {
                for (a, b) in [(0, 1), (2, 3), (4, 5), (6, 7)] {
                    w.swap(a, b);
                    (w[a], w[b]) = (-w[a], -w[b]);
                }
            }
        }),
    );
    assert_eq!(swapped.verdict.trust, Trust::Predictions, "{}", swapped.verdict.sentence());
    let said = swapped.verdict.sentence();
    assert!(said.starts_with("Trust the predictions but not the weights: chains sit at different weights"), "{said}");
    assert!(swapped.verdict.is_yes());

    let mut stream = Stream::new(Key::new(4));
    let apart = judged(
        &model,
        chains(&model, 500, 4, |c, _, w| {
            jitter(&mut stream, w);
            w[8] += c as f32;
        }),
    );
    assert_eq!(apart.verdict.trust, Trust::Nothing);
    let said = apart.verdict.sentence();
    assert!(said.starts_with("Do not trust: chains disagree on predictions") && said.contains(". Try "), "{said}");
    assert!(!apart.verdict.is_yes());

    // A noise that has not mixed spoils predictions too.
    let mut stream = Stream::new(Key::new(4));
    let noise = judged(
        &model,
        chains(&model, 500, 4, |c, _, w| {
            jitter(&mut stream, w);
            w[9] += c as f32;
        }),
    );
    assert_eq!(noise.verdict.trust, Trust::Nothing, "{}", noise.verdict.sentence());

    let still = judged(&model, chains(&model, 500, 4, |_, _, _| ()));
    assert!(still.verdict.sentence().starts_with("Do not trust: the chains do not move"));
    let few = judged(&model, chains(&model, 3, 4, |_, i, w| w[0] = i as f32));
    assert!(few.verdict.sentence().starts_with("Do not trust: 3 draws for each chain are too few"));
}

/// A quantity must pass each bound by itself.
#[test]
fn a_quantity_has_mixed_where_nothing_speaks_against_it() {
    let good = Quality {
        mean: 0.0,
        std: 1.0,
        r_hat: 1.009,
        ess_bulk: 401.0,
        ess_tail: 401.0,
        mcse_mean: 0.05,
        constant: false,
    };
    assert!(good.has_mixed(4) && !good.has_mixed(5));
    assert!(!Quality { r_hat: 1.011, ..good }.has_mixed(4) && !Quality { r_hat: f64::NAN, ..good }.has_mixed(4));
    assert!(!Quality { ess_bulk: 399.0, ..good }.has_mixed(4) && !Quality { ess_tail: 399.0, ..good }.has_mixed(4));
    assert!(Quality { r_hat: f64::NAN, constant: true, ..good }.has_mixed(4));
}

#[test]
fn what_the_sampler_saw_counts() {
    let model = fit("2", "y", short("map"));
    let with = |change: fn(&mut Chains)| {
        let mut stream = Stream::new(Key::new(4));
        let mut all = chains(&model, 500, 4, |_, _, w| jitter(&mut stream, w));
        change(&mut all);
        judged(&model, all).verdict
    };
    let check = |verdict: posterior::diagnose::Verdict, trust: Trust, part: &str| {
        assert_eq!(verdict.trust, trust, "{}", verdict.sentence());
        assert!(verdict.sentence().contains(part), "{}", verdict.sentence());
    };
    check(with(|c| c.chains[1].divergences = 3), Trust::Predictions, "3 of 2000 transitions diverged");
    check(with(|c| c.chains[1].divergences = 300), Trust::Nothing, "300 of 2000 transitions diverged");
    check(with(|c| c.fault = Some("no move was accepted".into())), Trust::Nothing, "no move was accepted");
    check(with(|c| c.chains.truncate(1)), Trust::Predictions, "one chain cannot show");
    let walk = |c: &mut Chains| c.chains[2].energy = (0..500).map(|i| f64::from(i) * 0.1).collect();
    check(with(walk), Trust::Predictions, "E-BFMI");
    check(with(|_| ()), Trust::All, "R-hat up to 1.0");
}

#[test]
fn chains_of_classes_are_judged_by_probabilities() {
    let model = fit("linear", "kind", short("map"));
    let mut stream = Stream::new(Key::new(4));
    let good = judged(&model, chains(&model, 500, 4, |_, _, w| jitter(&mut stream, w)));
    assert_eq!(good.verdict.trust, Trust::All, "{}", good.verdict.sentence());
}

#[test]
fn approximations_are_weighed_against_the_posterior() {
    let table = table(80);
    let of = |model: &Model, rows: &Table, draws| {
        let encoded = model.encoder.encode(rows, true).unwrap();
        Diagnosis::new(model, Some(&encoded), draws, Key::new(5))
    };
    let exact = fit("linear", "y", Choice::named("full-covariance").with("epochs", Value::Int(4000)));
    let near = of(&exact, &table, 2000).unwrap();
    assert_eq!(near.verdict.trust, Trust::All, "{}", near.verdict.sentence());
    assert!(near.weights.unwrap().k() < 0.7 && near.check.unwrap().holds());

    // A network of 40 parameters under independent Gaussians: far from its posterior, but its intervals hold.
    let far = of(&fit("10", "y", Choice::named("mean-field").with("epochs", Value::Int(3000))), &table, 2000).unwrap();
    assert_eq!(far.verdict.trust, Trust::Predictions, "{}", far.verdict.sentence());
    let said = far.verdict.sentence();
    assert!(said.contains("Pareto-k") && said.contains("90 % intervals"), "{said}");

    // A logistic posterior is skewed: k of its best Gaussian is near the bound, so that only the check is held to something.
    let classes =
        of(&fit("linear", "kind", Choice::named("full-covariance").with("epochs", Value::Int(2000))), &table, 1000);
    let classes = classes.unwrap();
    let check = classes.check.unwrap();
    assert!(check.name == "log_score" && check.holds() && classes.verdict.is_yes(), "{}", classes.verdict.sentence());
    assert!(classes.weights.unwrap().k() < 1.0);

    // Features fixed, noise fixed: what is left is linear, and its posterior Gaussian.
    let last = of(&fit("10", "y", Choice::named("last-layer").with("epochs", Value::Int(2000))), &table, 1000).unwrap();
    assert!(last.weights.is_some(), "{}", last.verdict.sentence());

    // So it is of Laplace's approximation, which keeps the noise at one value.
    let laplace = of(&fit("linear", "y", Choice::named("laplace")), &table, 1000).unwrap();
    assert!(laplace.weights.is_some(), "{}", laplace.verdict.sentence());

    let dropout = Choice::named("mc-dropout").with("epochs", Value::Int(1000));
    let dropout = of(&fit("10", "y", dropout), &table, 100).unwrap();
    assert!(
        dropout.weights.is_none() && dropout.verdict.sentence().contains("no density"),
        "{}",
        dropout.verdict.sentence()
    );
    let point = Diagnosis::new(&fit("10", "y", short("map")), None, 100, Key::new(5)).unwrap();
    assert!(point.verdict.sentence().starts_with("Do not trust: a single set of weights"));

    // Inputs correlate by 0.7, so that independent normals would not do as a proposal.
    let importance = Choice::named("importance").with("proposal", Value::Text("full-covariance".into()));
    let importance = fit("linear", "y", importance.with("epochs", Value::Int(4000)));
    let weighed = Diagnosis::new(&importance, None, 100, Key::new(5)).unwrap();
    assert_eq!(weighed.verdict.trust, Trust::All, "{}", weighed.verdict.sentence());
    let prior =
        Choice::named("importance").with("proposal", Value::Text("prior".into())).with("draws", Value::Int(500));
    let weighed = Diagnosis::new(&fit("10", "y", prior), None, 100, Key::new(5)).unwrap();
    assert_eq!(weighed.verdict.trust, Trust::Nothing, "{}", weighed.verdict.sentence());
}

/// Predictions that are too sure are not trusted, however near the approximation is to the posterior.
#[test]
fn overconfidence_is_seen() {
    let mut model = fit("linear", "y", Choice::named("full-covariance").with("epochs", Value::Int(2000)));
    let at = model.fitted.parameters() - 1;
    let mut mean = model.network("").unwrap().posterior.draw(Key::new(1)).w;
    mean[at] -= 1.5; // the noise's logarithm: intervals a quarter of what they should be
    let narrow = posterior::posterior::MeanFieldPosterior::new(mean.clone(), vec![1e-3; mean.len()], None);
    model = model.with_posterior(Arc::new(narrow)).unwrap();
    let encoded = model.encoder.encode(&table(80), true).unwrap();
    let diagnosis = Diagnosis::new(&model, Some(&encoded), 200, Key::new(5)).unwrap();
    assert!(
        diagnosis.verdict.sentence().starts_with("Do not trust: predictions are too sure"),
        "{}",
        diagnosis.verdict.sentence()
    );
}

#[test]
fn other_rows_than_those_of_the_fit_are_refused() {
    let model = fit("linear", "y", short("mean-field"));
    let refused = |rows: Option<&Table>| {
        let encoded = rows.map(|t| model.encoder.encode(t, true).unwrap());
        Diagnosis::new(&model, encoded.as_ref(), 100, Key::new(5)).unwrap_err().to_string()
    };
    assert!(refused(None).contains("kind 'mean-field' is judged on the rows it was fitted to"));
    assert!(refused(Some(&table(79))).contains("79 rows, but the model was fitted to 80"));
    let mut other = table(160);
    other = other.select(&(80..160).collect::<Vec<_>>());
    assert!(refused(Some(&other)).contains("their targets differ"));
}

#[test]
fn draws_come_back_from_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.parquet");
    let mut model = fit("2", "y", short("map"));
    let mut stream = Stream::new(Key::new(4));
    let mut all = chains(&model, 30, 2, |_, _, w| jitter(&mut stream, w));
    // The second chain was stopped early.
    let dim = model.fitted.parameters();
    let second = &mut all.chains[1];
    second.w.truncate(20 * dim);
    second.log_density.truncate(20);
    second.energy.truncate(20);
    second.gradients.truncate(20);
    model = model.with_posterior(Arc::new(DrawsPosterior::new(all.clone(), dim))).unwrap();
    let written = write_draws(&model, 7, Key::new(0), &path).unwrap();
    assert_eq!((written.chains, written.draws, written.columns.len()), (2, 50, 4 + dim));
    let table = Table::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!(table.column_names().collect::<Vec<_>>(), written.columns);
    let numbers = |name: &str| match table.column(name).unwrap() {
        Column::Number(v) => v.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers("chain"), [vec![0.0; 30], vec![1.0; 20]].concat());
    assert_eq!(numbers("draw"), (0..30).chain(0..20).map(f64::from).collect::<Vec<_>>());
    assert_eq!(numbers("energy")[30..], all.chains[1].energy);
    assert_eq!(numbers("log_density")[..30], all.chains[0].log_density);
    for (p, name) in [(1, "0.weight[0,1]"), (2, "0.weight[1,0]"), (5, "0.bias[1]"), (dim - 1, "log_noise[0]")] {
        let expected: Vec<f64> = (0..50).map(|s| f64::from(all.draw(s)[p])).collect();
        assert_eq!(numbers(name), expected, "{name}");
    }
}

/// A posterior without chains is drawn from; a point has one draw; a large model has a column of lists for each block.
#[test]
fn draws_of_other_posteriors_and_of_large_models() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.parquet");
    let small = fit("2", "y", short("mean-field"));
    assert_eq!(write_draws(&small, 25, Key::new(0), &path).unwrap().draws, 25);
    let again = dir.path().join("e.parquet");
    write_draws(&small, 25, Key::new(0), &again).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    assert_eq!(write_draws(&fit("2", "y", short("map")), 25, Key::new(0), &path).unwrap().draws, 1);

    let mut stream = Stream::new(Key::new(4));
    let mut other = fit("60,60", "y", short("map"));
    let dim = other.fitted.parameters();
    assert!(dim > PLAIN);
    let all = chains(&other, 3, 2, |_, _, w| jitter(&mut stream, w));
    other = other.with_posterior(Arc::new(DrawsPosterior::new(all.clone(), dim))).unwrap();
    let written = write_draws(&other, 1, Key::new(0), &path).unwrap();
    assert_eq!(written.columns[..5], ["chain", "draw", "log_density", "energy", "0.weight"]);
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|r| r.unwrap()).collect();
    assert_eq!(rows.len(), 6);
    let layout = {
        let fit = other.network("").unwrap();
        posterior::problem::full_layout(&*fit.network, &*fit.likelihood)
    };
    for (s, row) in rows.iter().enumerate() {
        assert_eq!((row.get_int(0).unwrap(), row.get_int(1).unwrap()), ((s / 3) as i32, (s % 3) as i32));
        for (b, block) in layout.blocks().iter().enumerate() {
            let list = row.get_list(4 + b).unwrap();
            let got: Vec<f32> =
                (0..list.len()).map(|i| parquet::record::ListAccessor::get_float(list, i).unwrap()).collect();
            assert_eq!(got, all.draw(s)[block.range.clone()], "{}", block.name);
        }
    }
    let missing = dir.path().join("no/where.parquet");
    assert!(write_draws(&other, 1, Key::new(0), &missing).unwrap_err().to_string().starts_with("cannot write"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
}
