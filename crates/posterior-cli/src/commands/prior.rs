//! `posterior prior`: functions drawn from the prior, before any data.
//!
//! Without a data file: functions of one input from −3 to 3 (standardised units), as a picture. With one: functions at the
//! file's inputs and in its target's units, so that one sees whether the prior believes the data possible. With `--limit`: the
//! prior beside its limit of infinite width.

use super::{data_files, encode_options, recipe};
use crate::chart::{Chart, Series, Tone};
use crate::cli::{Data, Prior};
use crate::output::{check_writable, json, number, print, table};
use posterior::apply::limit::{PriorLimit, prior_limit};
use posterior::artifact::write_file;
use posterior::data::{Encoder, Values};
use posterior::likelihood::Outcome;
use posterior::model::{Model, Resolved};
use posterior::nn::Shape;
use posterior::posterior::PriorDraws;
use posterior::predict::{self, NetworkPredictor, Predictive, Predictor, TargetScale};
use posterior::rng::Key;
use serde_json::json;
use std::sync::Arc;

/// Points of the grid over one input.
const GRID: usize = 201;
/// Draws of a width: a kurtosis is known to a few percent.
const LIMIT_DRAWS: usize = 2000;
/// Rows of a data file that the limit is looked at.
const LIMIT_ROWS: usize = 4;

pub fn run(args: &Prior) -> anyhow::Result<()> {
    let recipe = recipe::from_flags(&args.recipe, None)?;
    let inputs = args.data.iter().flat_map(|d| data_files(d, None)).chain(args.recipe.config.clone());
    check_writable(&args.out, inputs)?;
    let seed = Key::new(args.common.seed.unwrap_or(0));
    if args.limit && args.data.is_none() {
        let x = [-2.0, -0.5, 0.5, 1.5];
        return show_limit(args, &prior_limit(&recipe, &x, 1, LIMIT_DRAWS, seed)?);
    }
    let Some(path) = &args.data else {
        let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1)?;
        let x: Vec<f64> = (0..GRID).map(|i| -3.0 + 6.0 * i as f64 / (GRID - 1) as f64).collect();
        let predictive = draw(args, resolved, TargetScale::default(), &Values::F64(x.clone().into()));
        return show(args, &predictive, Some(&x), ("x", "f(x)"), None);
    };
    let data = Data { data: path.clone(), labels: None, text: Vec::new() };
    let data = super::read(&data, None)?;
    let options = encode_options(&args.target, &data)?;
    let encoder = Encoder::fit(&data, &options)?.encoder;
    let encoded = encoder.encode(&data, true)?;
    if args.limit {
        let width = encoder.input_shape().len();
        let rows = encoded.data.rows.min(LIMIT_ROWS);
        let x = encoded.data.x.to::<f64>()[..rows * width].to_vec();
        return show_limit(args, &prior_limit(&recipe, &x, width, LIMIT_DRAWS, seed)?);
    }
    let resolved = recipe.with_default_method(&encoder, encoded.data.rows)?.resolve(&encoder)?;
    let dim = resolved.prior.len();
    predict::check_memory(&*resolved.network, dim, encoded.data.rows, args.draws as usize)?;
    let predictive = draw(args, resolved, Model::target_scale(&encoder), &encoded.data.x);
    // Functions are those of the first target.
    let mut y: Vec<f64> =
        encoder.decode_target(&encoded.data.y).into_iter().step_by(encoded.data.targets.max(1)).collect();
    // A drawn function of classes is the probability of the last one; data of it are 1 or 0.
    let label = match encoder.class_names() {
        [] => options.target.clone(),
        names => {
            let last = names.len() - 1;
            y.iter_mut().for_each(|c| *c = f64::from(u8::from(*c == last as f64)));
            format!("probability of {}", names[last])
        }
    };
    let name = encoder.feature_names().into_iter().next().unwrap_or_default();
    let single = (encoder.input_shape().len() == 1).then(|| encoded.data.x.to::<f64>().to_vec());
    show(args, &predictive, single.as_deref(), (&name, &label), Some(&y))
}

fn draw(args: &Prior, resolved: Resolved, scale: TargetScale, x: &Values) -> Predictive {
    let predictor = NetworkPredictor {
        network: resolved.network,
        likelihood: resolved.likelihood,
        posterior: Arc::new(PriorDraws::new(resolved.prior)),
        draws: args.draws as usize,
        key: Key::new(args.common.seed.unwrap_or(0)),
        scale,
    };
    predictor.predict(x)
}

fn show_limit(args: &Prior, limit: &PriorLimit) -> anyhow::Result<()> {
    if args.common.json {
        let layer = |l: &posterior::apply::limit::WideLayer| json!({ "weight_variance": l.weight, "bias_variance": l.bias, "activation": l.activation.name() });
        let width = |w: &posterior::apply::limit::AtWidth| {
            json!({
                "width": w.width,
                "covariance_error": w.covariance_error,
                "covariance_noise": w.covariance_noise,
                "kurtosis": w.kurtosis,
                "kurtosis_noise": w.kurtosis_noise,
            })
        };
        return json(&json!({
            "layers": limit.layers.iter().map(layer).collect::<Vec<_>>(),
            "nngp": limit.nngp,
            "ntk": limit.ntk,
            "widths": limit.widths.iter().map(width).collect::<Vec<_>>(),
            "slope": limit.slope,
            "slope_noise": limit.slope_noise,
        }));
    }
    let cells: Vec<Vec<String>> = limit
        .widths
        .iter()
        .map(|w| {
            vec![
                w.width.to_string(),
                format!("{} ± {}", number(w.covariance_error), number(w.covariance_noise)),
                format!("{} ± {}", number(w.kurtosis), number(w.kurtosis_noise)),
                number(w.kurtosis * w.width as f64),
            ]
        })
        .collect();
    let mut text = table(&["width", "covariance off by", "excess kurtosis", "× width"], &cells);
    text += &format!("\nkurtosis falls as width^{:.2} (± {:.2}); theory says -1\n", limit.slope, limit.slope_noise);
    print(&text)
}

/// Mean of the outcome under each draw, `draws × rows`: the drawn functions.
fn functions(predictive: &Predictive) -> Vec<Vec<f64>> {
    (0..predictive.draws()).map(|s| predictive.draw_mean(s)).collect()
}

fn show(
    args: &Prior,
    predictive: &Predictive,
    x: Option<&[f64]>,
    labels: (&str, &str),
    y: Option<&[f64]>,
) -> anyhow::Result<()> {
    let functions = functions(predictive);
    let mut all: Vec<f64> = functions.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let quantile = |v: &[f64], p: f64| v[((v.len() - 1) as f64 * p).round() as usize];
    let levels = [0.05, 0.25, 0.5, 0.75, 0.95];
    let what = if labels.1.starts_with("probability of ") { labels.1 } else { "prior functions" };
    let mut rows = vec![(what, levels.map(|p| quantile(&all, p)))];
    if let Some(y) = y {
        let mut sorted = y.to_vec();
        sorted.sort_by(f64::total_cmp);
        rows.push(("data", levels.map(|p| quantile(&sorted, p))));
    }
    if let Some(x) = x {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
        let sorted_x: Vec<f64> = order.iter().map(|&i| x[i]).collect();
        let mut series: Vec<Series> = functions
            .iter()
            .map(|f| Series::Line {
                label: "drawn from the prior".into(),
                x: sorted_x.clone(),
                y: order.iter().map(|&i| f[i]).collect(),
                tone: Tone::Draw,
            })
            .collect();
        if let Some(y) = y {
            series.push(Series::Points { label: "data".into(), x: x.to_vec(), y: y.to_vec() });
        }
        let chart = Chart {
            title: format!("{} functions drawn from the prior", functions.len()),
            x_label: labels.0.to_owned(),
            y_label: labels.1.to_owned(),
            series,
            ..Chart::default()
        };
        write_file(&args.out, chart.svg().as_bytes())?;
    }
    if args.common.json {
        let summary: Vec<_> =
            rows.iter().map(|(name, q)| json!({ "what": name, "levels": levels, "quantiles": q })).collect();
        return json(&json!({ "x": x, "functions": functions, "summary": summary }));
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, q)| std::iter::once((*name).to_owned()).chain(q.iter().map(|v| number(*v))).collect())
        .collect();
    let mut text = table(&["", "5 %", "25 %", "50 %", "75 %", "95 %"], &cells);
    if x.is_some() {
        text += &format!("\npicture in {}\n", args.out.display());
    }
    print(&text)
}
