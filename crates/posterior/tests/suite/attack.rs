//! Attacks: the gradient of the predictive against finite differences, and what a changed input may and may not be.

use posterior::apply::attack::{Attack, PerturbationBudget, input_gradient, perturb};
use posterior::apply::detect::{UncertaintyScore, detect};
use posterior::data::{Column, EncodeOptions, Images, Table, Values};
use posterior::inference::Silent;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::PointPosterior;
use posterior::rng::{Key, Stream};
use posterior::settings::Value;
use std::sync::Arc;

fn table(classes: bool) -> Table {
    let mut stream = Stream::new(Key::new(1));
    let (mut a, mut b, mut colour, mut flag, mut class, mut real) = (vec![], vec![], vec![], vec![], vec![], vec![]);
    for i in 0..90 {
        let k = i % 3;
        a.push(10.0 * k as f64 + 3.0 * stream.normal());
        b.push(0.01 * stream.normal() - 0.02 * f64::from(k == 1));
        colour.push(Some(["red", "green"][i % 2].to_owned()));
        flag.push(Some(i % 5 == 0));
        class.push(Some(["x", "y", "z"][k].to_owned()));
        real.push(k as f64 + 0.3 * stream.normal());
    }
    let target = if classes { Column::Text(class) } else { Column::Number(real) };
    Table::from_columns(vec![
        ("a".into(), Column::Number(a)),
        ("colour".into(), Column::Text(colour)),
        ("b".into(), Column::Number(b)),
        ("flag".into(), Column::Bool(flag)),
        ("t".into(), target),
    ])
    .unwrap()
}

fn fit(table: &Table, method: &str, target: &str) -> Model {
    let recipe = Recipe {
        network: NetworkSpec::parse("12", Activation::Tanh).unwrap(),
        method: Choice::named(method).with("epochs", Value::Int(40)),
        ..Recipe::default()
    };
    let options = EncodeOptions { target: target.into(), ..EncodeOptions::default() };
    Model::fit(&recipe, table, &options, 3, &mut Silent).unwrap()
}

/// Central differences with step 1e-5 in f64: an error of about 1e-10 from the third derivative and 1e-11 from rounding.
#[test]
fn gradients_against_finite_differences() {
    let cases = [("map", true), ("mean-field", true), ("mc-dropout", true), ("ensemble", true), ("mean-field", false)];
    for (method, classes) in cases {
        let table = table(classes);
        let model = fit(&table, method, "t");
        let rows = model.encoder.encode(&table, true).unwrap();
        let (x, y) = (rows.data.x.to::<f64>(), rows.data.y.to_vec());
        let width = rows.data.shape.len();
        let of = |x: &[f64]| input_gradient(&*model.fitted, 7, Key::new(5), true, x, &y).unwrap();
        let (values, gradient) = of(&x);
        assert!(gradient.iter().any(|g| g.abs() > 1e-3), "{method}: a gradient to speak of");
        for i in 0..width {
            let moved = |h: f64| {
                let mut x = x.to_vec();
                x.iter_mut().skip(i).step_by(width).for_each(|v| *v += h);
                of(&x).0
            };
            let (up, down) = (moved(1e-5), moved(-1e-5));
            for n in 0..values.len() {
                let (difference, g) = ((up[n] - down[n]) / 2e-5, gradient[n * width + i]);
                assert!(
                    (difference - g).abs() < 1e-7 * (1.0 + g.abs()),
                    "{method}, row {n}: {g}, expected {difference}"
                );
            }
        }
        // The value is the predictive's own log-likelihood; that one keeps outputs in single precision.
        let mut how = model.how(7);
        how.key = Key::new(5);
        let predictive = model.fitted.predict(&rows.data.x, &how).unwrap();
        let scale = model.encoder.target_scale().1.ln();
        for (v, l) in values.iter().zip(predictive.log_likelihood(&model.encoder.decode_target(&y))) {
            assert!((v - scale - l).abs() < 1e-4 * (1.0 + l.abs()), "{method}: {v} {l}");
        }
    }
}

/// Two classes by softmax are those by the difference of their outputs, whose gradient loses nothing however sure it is. With the last layer's
/// weights so many times as large the classes are sure to within 1e-290. Differences of weights are rounded to 6e-8, so margins of some hundred are
/// to 1e-4, and the gradient is as large as the exponential of these. Its direction agrees to a few roundings in single precision.
#[test]
fn the_direction_is_kept_however_sure_the_network_is() {
    let table = table(false);
    let class = |t: &f64| Some(if *t > 1.0 { "high" } else { "low" }.to_owned());
    let Ok(Column::Number(t)) = table.column("t") else { panic!("numbers") };
    let two = Column::Text(t.iter().map(class).collect());
    let of = |column: Column| {
        let columns = table.columns().filter(|(name, _)| *name != "t").map(|(n, c)| (n.to_owned(), c.clone()));
        Table::from_columns(columns.chain([("t".to_owned(), column)]).collect()).unwrap()
    };
    let table = of(two);
    let recipe = |likelihood: &str| Recipe {
        network: NetworkSpec::parse("12", Activation::Tanh).unwrap(),
        likelihood: Choice::named(likelihood),
        method: Choice::named("map").with("epochs", Value::Int(40)),
        ..Recipe::default()
    };
    let options = EncodeOptions { target: "t".into(), ..EncodeOptions::default() };
    let [softmax, difference] = ["categorical", "bernoulli"]
        .map(|likelihood| Model::fit(&recipe(likelihood), &table, &options, 3, &mut Silent).unwrap());
    let rows = softmax.encoder.encode(&table, true).unwrap();
    let width = rows.data.shape.len();
    let w = softmax.network("").unwrap().posterior.draw(Key::new(0)).w;
    let last = w.len() - 2 * 13;
    let mut sure = 0;
    for factor in [1.0f32, 16.0, 64.0, 256.0] {
        let mut both = w.clone();
        both[last..].iter_mut().for_each(|w| *w *= factor);
        // 12 × 2 weights and 2 biases become 12 weights and 1 bias.
        let one = both[..last].iter().copied().chain(both[last..].chunks(2).map(|w| w[1] - w[0])).collect();
        let with = |model: &Model, w: Vec<f32>| model.with_posterior(Arc::new(PointPosterior::new(w))).unwrap();
        let (softmax, difference) = (with(&softmax, both), with(&difference, one));
        let (x, y) = (rows.data.x.to::<f64>(), &rows.data.y);
        let of = |m: &Model, wide| input_gradient(&*m.fitted, 1, Key::new(1), wide, &x, y).unwrap().1;
        let exact = of(&difference, true);
        let wide = of(&softmax, true);
        let narrow = of(&softmax, false);
        for (n, exact) in exact.chunks(width).enumerate() {
            let row = |g: &[f64]| g[n * width..(n + 1) * width].to_vec();
            let largest = |g: &[f64]| g.iter().fold(0.0f64, |top, g| top.max(g.abs()));
            let (wide, narrow) = (row(&wide), row(&narrow));
            let (size, narrow_size) = (largest(exact), largest(&narrow));
            if size < 1e-290 {
                continue;
            }
            sure += usize::from(size < 1e-20);
            for i in 0..width {
                assert!((wide[i] - exact[i]).abs() <= 1e-3 * size, "×{factor}, row {n}: {} for {}", wide[i], exact[i]);
                let (ours, theirs) = (narrow[i] / narrow_size, exact[i] / size);
                assert!((ours - theirs).abs() < 1e-4, "×{factor}, row {n}: {ours} for {theirs} in single precision");
            }
        }
    }
    assert!(sure > 20, "{sure} rows are all but sure");
}

#[test]
fn inputs_move_as_far_as_they_may_and_the_outcome_becomes_less_likely() {
    let table = table(true);
    let model = fit(&table, "mean-field", "t");
    let rows = model.encoder.encode(&table, true).unwrap();
    let budget = PerturbationBudget::new(&model.encoder, &rows.data);
    assert_eq!(budget.unit, [1.0, 0.0, 0.0, 1.0, 0.0], "numbers move, categories and flags do not");
    let x = rows.data.x.to::<f32>();
    let mean = |x: &Values| {
        let (values, _) = input_gradient(&*model.fitted, 20, Key::new(1), false, &x.to::<f64>(), &rows.data.y).unwrap();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let mut last = mean(&rows.data.x);
    for attack in [Attack::Fgsm, Attack::Pgd] {
        for epsilon in [0.05, 0.3] {
            let changed = perturb(&*model.fitted, &rows.data, &budget, attack, epsilon, 20, Key::new(1)).unwrap();
            let z = changed.to::<f32>();
            let mut largest = 0.0f32;
            for (i, (a, b)) in z.iter().zip(x.iter()).enumerate() {
                let limit = (epsilon * budget.unit[i % 5]) as f32;
                assert!((a - b).abs() <= limit * (1.0 + 1e-5) + 1e-6, "{attack:?}");
                largest = largest.max((a - b).abs());
            }
            assert!(largest > 0.99 * epsilon as f32, "{attack:?}");
            let now = mean(&changed);
            assert!(now < mean(&rows.data.x), "{attack:?} {epsilon}");
            if attack == Attack::Pgd && epsilon == 0.3 {
                assert!(now <= last + 1e-3, "ten steps do no worse than one: {now} {last}");
            }
            last = now;
        }
    }
    let same = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            perturb(&*model.fitted, &rows.data, &budget, Attack::Pgd, 0.1, 5, Key::new(1)).unwrap().to::<f32>()
        })
    };
    assert!(same(1) == same(2), "the same bits on any number of threads");
}

#[test]
fn pixels_stay_within_their_range() {
    let mut stream = Stream::new(Key::new(1));
    let pixels: Vec<f32> = (0..40 * 9).map(|i| if stream.uniform() < 0.5 { (i / 9 % 2) as f32 } else { 0.0 }).collect();
    let shape = Shape::Image { channels: 1, height: 3, width: 3 };
    let label = Column::Number((0..40).map(|i| f64::from(i % 2)).collect());
    let table = Table::from_images(Images { shape, pixels: pixels.clone() }, Some(("label".into(), label))).unwrap();
    let model = fit(&table, "map", "label");
    let rows = model.encoder.encode(&table, true).unwrap();
    let budget = PerturbationBudget::new(&model.encoder, &rows.data);
    for attack in [Attack::Fgsm, Attack::Pgd] {
        let changed = perturb(&*model.fitted, &rows.data, &budget, attack, 0.25, 1, Key::new(1)).unwrap();
        let back = model.encoder.decode_inputs(&changed, &table).unwrap();
        let changed = &back.images().unwrap().pixels;
        assert!(changed.iter().all(|p| (-1e-6..=1.0 + 1e-6).contains(p)));
        let farthest = changed.iter().zip(&pixels).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!((farthest - 0.25).abs() < 1e-5, "ε is in brightness: {farthest}");
    }
}

#[test]
fn changed_tables_come_back_in_their_units() {
    let table = table(true);
    let model = fit(&table, "map", "t");
    let rows = model.encoder.encode(&table, true).unwrap();
    let back = model.encoder.decode_inputs(&rows.data.x, &table).unwrap();
    assert_eq!(back.column_names().collect::<Vec<_>>(), table.column_names().collect::<Vec<_>>());
    for (name, column) in table.columns() {
        match (column, back.column(name).unwrap()) {
            (Column::Number(a), Column::Number(b)) => {
                assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12 * (1.0 + a.abs())), "{name}");
            }
            (a, b) => assert_eq!(a, b, "{name}"),
        }
    }
}

#[test]
fn detection_by_score() {
    let doubt = |values: &[f64]| UncertaintyScore { measure: "total", values: values.to_vec() };
    let d = detect(&doubt(&[0.1, 0.2, 0.3, 0.4]), &doubt(&[0.35, 0.5, 0.6])).unwrap();
    // 11 of 12 pairs are in order; finding all others means taking 0.4 along; letting 95 % of the known pass lets 0.35 pass.
    assert!((d.auroc - 11.0 / 12.0).abs() < 1e-12 && !d.constant);
    assert!((d.fpr95 - 1.0 / 3.0).abs() < 1e-12 && (d.tpr_at_fpr5 - 2.0 / 3.0).abs() < 1e-12, "{d:?}");
    assert!((d.aupr_out - (1.0 + 1.0 + 0.75) / 3.0).abs() < 1e-12, "{d:?}");
    assert!((d.aupr_in - (3.0 + 0.8) / 4.0).abs() < 1e-12, "{d:?}");
    let same = detect(&doubt(&[0.0; 4]), &doubt(&[0.0; 3])).unwrap();
    assert!(same.constant && same.auroc == 0.5 && same.tpr_at_fpr5 == 0.0 && same.fpr95 == 1.0);
    assert_eq!(detect(&doubt(&[]), &doubt(&[1.0])), None);
}
