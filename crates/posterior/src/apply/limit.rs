//! How far a network's prior is from its limit of infinite width: covariance and kurtosis of prior draws at growing width, against the NNGP.
//!
//! Given all but the last layer, f(x) is normal with the covariance V = σ_b² + σ_w² φ(x)·φ(x′)/h: the covariance of a draw is E(V), its excess kurtosis 3 Var V/E(V)², which falls as 1/h
//! (15/h for one hidden relu layer without biases). V is known of every draw, so that the last layer adds no noise. The slope is that of ln kurtosis by ln h, weighted by its errors.
//! Kernels of the limit are closed forms for relu and identity, and Gauss–Hermite sums of 64² points for other activations.
//! Reference: Neal (1996); Lee et al. (2018); Jacot et al. (2018). Cost: draws × rows × width² for every layer and width.

use crate::error::{Error, Result};
use crate::likelihood::Outcome;
use crate::math::linalg::dot;
use crate::math::special::gauss_hermite;
use crate::model::{Choice, Recipe};
use crate::nn::{Activation, LayerSpec, Role, Shape};
use crate::prior::NormalBlock;
use crate::rng::{Key, Purpose, fill_normals};
use rayon::prelude::*;
use std::f64::consts::{PI, SQRT_2, TAU};

/// Nodes of each of two dimensions.
const NODES: usize = 64;
/// Widths that draws are taken at.
pub const WIDTHS: [usize; 5] = [16, 32, 64, 128, 256];

/// A layer of a network whose width is let grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WideLayer {
    /// σ_w²: the variance of a weight times its fan-in.
    pub weight: f64,
    /// σ_b².
    pub bias: f64,
    /// What follows it; of the output layer the identity.
    pub activation: Activation,
}

/// What was found at one width.
#[derive(Debug, Clone, PartialEq)]
pub struct AtWidth {
    /// Units of every hidden layer.
    pub width: usize,
    /// Largest |Cov − K| over all pairs of rows, in units of the largest K.
    pub covariance_error: f64,
    /// Standard error of that, since draws are finite: an error below two of these is none that was seen.
    pub covariance_noise: f64,
    /// Excess kurtosis of f(x), averaged over rows.
    pub kurtosis: f64,
    /// Its standard error.
    pub kurtosis_noise: f64,
}

/// A prior beside its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorLimit {
    /// Layers, the output's last.
    pub layers: Vec<WideLayer>,
    /// Covariance of the outputs in the limit, rows × rows.
    pub nngp: Vec<f64>,
    /// Neural tangent kernel, rows × rows.
    pub ntk: Vec<f64>,
    /// By growing width.
    pub widths: Vec<AtWidth>,
    /// d ln kurtosis/d ln width: −1 where the limit is approached as theory says.
    pub slope: f64,
    /// Its standard error.
    pub slope_noise: f64,
}

/// The layers of a recipe's network as width goes to infinity; an error that says why where there is no limit.
pub fn wide_layers(recipe: &Recipe, inputs: usize) -> Result<Vec<WideLayer>> {
    let mut recipe = recipe.clone();
    (recipe.likelihood, recipe.method) = (Choice::named("gaussian"), Choice::default());
    let resolved = recipe.resolve_for(Shape::Flat(inputs), Outcome::Real, 1)?;
    let mut activations = Vec::new();
    for layer in &resolved.recipe.network.layers {
        let LayerSpec::Dense { activation, .. } = layer else {
            let what = "the limit of infinite width is that of dense layers, and the network has others";
            return Err(Error::setting(what, "write the network as a list of widths"));
        };
        activations.push(*activation);
    }
    if activations.is_empty() {
        let what = "the network has no hidden layer whose width could grow: it is a Gaussian process as it is";
        return Err(Error::setting(what, "give it a hidden layer"));
    }
    let scaling = resolved.prior.settings().text("scaling").unwrap_or("fan-in");
    if scaling != "fan-in" {
        let what =
            format!("the prior has no limit: with scaling={scaling} the variance of the outputs grows with the width");
        return Err(Error::setting(what, "set scaling=fan-in"));
    }
    let mut layers: Vec<WideLayer> = Vec::new();
    for (block, (_, density)) in resolved.network.layout().blocks().iter().zip(resolved.prior.blocks()) {
        let Some((_, std)) = density.as_normal().and_then(NormalBlock::same).filter(|n| n.0 == 0.0) else {
            let what = format!(
                "the prior '{}' has no limit in closed form, which a normal one around 0 has",
                resolved.prior.name()
            );
            return Err(Error::setting(what, "choose the prior 'normal'"));
        };
        match block.role {
            Role::Weight => layers.push(WideLayer {
                weight: std * std * block.fan_in as f64,
                bias: 0.0,
                activation: activations.get(layers.len()).copied().unwrap_or(Activation::Identity),
            }),
            Role::Bias => {
                if let Some(last) = layers.last_mut() {
                    last.bias = std * std;
                }
            }
            _ => {}
        }
    }
    Ok(layers)
}

/// (E[φφ], E[φ′φ′]) of two normals with variances a and b and covariance c.
fn expectations(activation: Activation, (a, b, c): (f64, f64, f64), nodes: &(Vec<f64>, Vec<f64>)) -> (f64, f64) {
    let scale = (a * b).sqrt();
    if scale == 0.0 {
        // A row of zeros, and no bias.
        let at = |z: f64| activation.slope::<f64, false>(z, activation.value::<f64, false>(z));
        let zero = activation.value::<f64, false>(0.0);
        return (zero * zero, at(0.0).powi(2));
    }
    let rho = if c == scale { 1.0 } else { (c / scale).clamp(-1.0, 1.0) };
    let (sin, theta) = (((1.0 - rho) * (1.0 + rho)).sqrt(), rho.acos());
    match activation {
        Activation::Identity => (c, 1.0),
        Activation::Relu => (scale / TAU * (sin + (PI - theta) * rho), (PI - theta) / TAU),
        other => {
            let at = |z: f64| {
                let value = other.value::<f64, false>(z);
                (value, other.slope::<f64, false>(z, value))
            };
            let (mut values, mut slopes) = (0.0, 0.0);
            for (x, w) in nodes.0.iter().zip(&nodes.1) {
                let first = at(a.sqrt() * SQRT_2 * x);
                for (y, v) in nodes.0.iter().zip(&nodes.1) {
                    let second = at(b.sqrt() * SQRT_2 * (rho * x + sin * y));
                    values += w * v * first.0 * second.0;
                    slopes += w * v * first.1 * second.1;
                }
            }
            (values / PI, slopes / PI)
        }
    }
}

/// The NNGP and the NTK of rows of inputs, rows × rows each.
pub fn wide_kernels(layers: &[WideLayer], x: &[f64], inputs: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let nodes = gauss_hermite(NODES)?;
    let rows: Vec<&[f64]> = x.chunks_exact(inputs).collect();
    let n = rows.len();
    let first =
        layers.first().copied().unwrap_or(WideLayer { weight: 1.0, bias: 0.0, activation: Activation::Identity });
    let mut k: Vec<f64> =
        (0..n * n).map(|e| first.bias + first.weight * dot(rows[e / n], rows[e % n]) / inputs as f64).collect();
    let mut tangent = k.clone();
    for (before, layer) in layers.iter().zip(layers.iter().skip(1)) {
        let pairs: Vec<(f64, f64)> = (0..n * n)
            .map(|e| expectations(before.activation, (k[e / n * (n + 1)], k[e % n * (n + 1)], k[e]), &nodes))
            .collect();
        for (e, (values, slopes)) in pairs.into_iter().enumerate() {
            k[e] = layer.bias + layer.weight * values;
            tangent[e] = k[e] + tangent[e] * layer.weight * slopes;
        }
    }
    Ok((k, tangent))
}

/// V of every pair of rows under draw number `key` of all but the last layer.
fn draw(layers: &[WideLayer], x: &[f64], inputs: usize, width: usize, key: Key) -> Vec<f64> {
    let n = x.len() / inputs;
    let (mut features, mut fan_in) = (x.to_vec(), inputs);
    let (mut weights, mut biases) = (Vec::new(), vec![0.0; width]);
    for (l, layer) in layers[..layers.len() - 1].iter().enumerate() {
        weights.resize(width * fan_in, 0.0);
        fill_normals(key.step(2 * l as u64), &mut weights);
        fill_normals(key.step(2 * l as u64 + 1), &mut biases);
        let (scale, bias) = ((layer.weight / fan_in as f64).sqrt(), layer.bias.sqrt());
        let mut next = Vec::with_capacity(n * width);
        for row in features.chunks_exact(fan_in) {
            let unit = |(w, b): (&[f64], &f64)| layer.activation.value::<f64, false>(scale * dot(w, row) + bias * b);
            next.extend(weights.chunks_exact(fan_in).zip(&biases).map(unit));
        }
        (features, fan_in) = (next, width);
    }
    let last = layers[layers.len() - 1];
    let row = |i: usize| &features[i * fan_in..(i + 1) * fan_in];
    (0..n * n).map(|e| last.bias + last.weight * dot(row(e / n), row(e % n)) / fan_in as f64).collect()
}

fn at_width(
    layers: &[WideLayer],
    x: &[f64],
    inputs: usize,
    nngp: &[f64],
    width: usize,
    draws: usize,
    key: Key,
) -> AtWidth {
    let n = x.len() / inputs;
    let all: Vec<Vec<f64>> =
        (0..draws).into_par_iter().map(|s| draw(layers, x, inputs, width, key.step(s as u64))).collect();
    let count = draws as f64;
    let mean = |of: &dyn Fn(&[f64]) -> f64| all.iter().map(|v| of(v)).sum::<f64>() / count;
    let largest = nngp.iter().fold(f64::MIN_POSITIVE, |m, v| m.max(v.abs()));
    let (mut covariance_error, mut covariance_noise) = (0.0, 0.0);
    for e in 0..n * n {
        let average = mean(&|v| v[e]);
        let noise = (mean(&|v| (v[e] - average).powi(2)) / count).sqrt() / largest;
        let error = (average - nngp[e]).abs() / largest;
        if error >= covariance_error {
            (covariance_error, covariance_noise) = (error, noise);
        }
    }
    // 3 Var V/E[V]² of every row, and how every draw moves it.
    let (mut kurtosis, mut moves) = (0.0, vec![0.0; draws]);
    for i in 0..n {
        let e = i * (n + 1);
        let average = mean(&|v| v[e]);
        let variance = mean(&|v| (v[e] - average).powi(2)) * count / (count - 1.0);
        let own = 3.0 * variance / average.powi(2);
        kurtosis += own / n as f64;
        for (m, v) in moves.iter_mut().zip(&all) {
            let z = v[e] - average;
            *m += (3.0 * (z * z - variance) / average.powi(2) - 2.0 * own * z / average) / n as f64;
        }
    }
    let kurtosis_noise = (moves.iter().map(|m| m * m).sum::<f64>()).sqrt() / count;
    AtWidth { width, covariance_error, covariance_noise, kurtosis, kurtosis_noise }
}

/// Prior draws of a recipe's network at [`WIDTHS`], beside the limit, at rows of encoded inputs. An error where there is no limit, or no draw has a kurtosis.
pub fn prior_limit(recipe: &Recipe, x: &[f64], inputs: usize, draws: usize, key: Key) -> Result<PriorLimit> {
    let layers = wide_layers(recipe, inputs)?;
    let (nngp, ntk) = wide_kernels(&layers, x, inputs)?;
    let key = key.purpose(Purpose::Draw);
    let draws = draws.max(3);
    let widths: Vec<AtWidth> = WIDTHS
        .iter()
        .enumerate()
        .map(|(i, width)| at_width(&layers, x, inputs, &nngp, *width, draws, key.block(i as u64)))
        .collect();
    // By least squares, with the relative errors as weights.
    let usable = || widths.iter().filter(|w| w.kurtosis > 0.0 && w.kurtosis_noise > 0.0);
    let weight = |w: &AtWidth| (w.kurtosis / w.kurtosis_noise).powi(2);
    let total: f64 = usable().map(weight).sum();
    if usable().count() < 2 {
        let what = "the outputs are normal at every width: there is no way to the limit to see";
        return Err(Error::setting(what, "choose an activation that is not the identity"));
    }
    let mean = |of: &dyn Fn(&AtWidth) -> f64| usable().map(|w| weight(w) * of(w)).sum::<f64>() / total;
    let (x_of, y_of) = (|w: &AtWidth| (w.width as f64).ln(), |w: &AtWidth| w.kurtosis.ln());
    let (x_mean, y_mean) = (mean(&x_of), mean(&y_of));
    let spread = total * mean(&|w| (x_of(w) - x_mean).powi(2));
    let slope = total * mean(&|w| (x_of(w) - x_mean) * (y_of(w) - y_mean)) / spread;
    Ok(PriorLimit { layers, nngp, ntk, widths, slope, slope_noise: spread.sqrt().recip() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::NetworkSpec;
    use crate::settings::Value;

    fn recipe(layers: &[(usize, Activation)], prior: &[(&str, Value)]) -> Recipe {
        let layers =
            layers.iter().map(|(units, activation)| LayerSpec::Dense { units: *units, activation: *activation });
        let prior = prior.iter().fold(Choice::named("normal"), |p, (k, v)| p.with(k, v.clone()));
        Recipe { network: NetworkSpec { layers: layers.collect() }, prior, ..Recipe::default() }
    }

    const X: [f64; 6] = [0.4, -1.2, 1.5, 0.3, -0.2, 0.9];

    /// Without biases V is a mean of h squares of relu, whose relative variance is 5.
    #[test]
    fn kurtosis_of_one_relu_layer_is_15_over_the_width() {
        let none = [("bias_std", Value::Float(1e-6)), ("weight_std", Value::Float(1.4))];
        let found = prior_limit(&recipe(&[(20, Activation::Relu)], &none), &X, 2, 3000, Key::new(1)).unwrap();
        for w in &found.widths {
            let expected = 15.0 / w.width as f64;
            // Four standard errors, of estimates that are 5 % off themselves.
            assert!((w.kurtosis - expected).abs() < 4.5 * w.kurtosis_noise, "{w:?} {expected}");
            assert!(
                w.covariance_error < 5.0 * w.covariance_noise,
                "{w:?}: of one layer the covariance is that of the limit"
            );
        }
        assert!((found.slope + 1.0).abs() < 0.15, "{} ± {}", found.slope, found.slope_noise);
        // K = σ_w⁴ |x|²/2D.
        assert!((found.nngp[0] - 1.4_f64.powi(4) * (0.16 + 1.44) / 4.0).abs() < 1e-9);
    }

    #[test]
    fn deeper_networks_and_other_activations_fall_with_the_width() {
        for (activation, depth) in [(Activation::Tanh, 1), (Activation::Tanh, 2), (Activation::Silu, 1)] {
            let layers = vec![(20, activation); depth];
            let found = prior_limit(&recipe(&layers, &[]), &X, 2, 1500, Key::new(2)).unwrap();
            assert!(
                (found.slope + 1.0).abs() < 0.15,
                "{activation:?} {depth}: {} ± {}",
                found.slope,
                found.slope_noise
            );
            let last = found.widths.last().unwrap();
            assert!(last.covariance_error < 0.02 + 4.0 * last.covariance_noise, "{last:?}");
        }
    }

    /// The sum over nodes against the closed form of the kernel expressions, for an activation that has both.
    #[test]
    fn quadrature_is_near_the_closed_form() {
        let nodes = gauss_hermite(NODES).unwrap();
        // E[tanh²] of a standard normal, by a trapezoidal sum of 40 000 points from −12 to 12.
        let (value, slope) = expectations(Activation::Tanh, (1.0, 1.0, 1.0), &nodes);
        assert!((value - 0.394_294_490_397_833).abs() < 1e-6, "{value}");
        // By parts, E[φ′φ′] = dE[φφ]/dc.
        let h = 1e-4;
        for c in [-0.5, 0.3, 0.8] {
            let at = |c: f64| expectations(Activation::Tanh, (1.0, 1.4, c), &nodes).0;
            let found = expectations(Activation::Tanh, (1.0, 1.4, c), &nodes).1;
            assert!((found - (at(c + h) - at(c - h)) / (2.0 * h)).abs() < 1e-6, "{c} {found} {slope}");
        }
    }

    #[test]
    fn what_has_no_limit_is_refused_with_the_reason() {
        let message = |r: Recipe| wide_layers(&r, 2).unwrap_err().to_string();
        let relu = [(20, Activation::Relu)];
        assert!(message(recipe(&relu, &[("scaling", Value::Text("none".into()))])).contains("grows with the width"));
        assert!(message(recipe(&[], &[])).contains("no hidden layer"));
        let laplace = Recipe { prior: Choice::named("laplace"), ..recipe(&relu, &[]) };
        assert!(message(laplace).contains("no limit in closed form"));
        let identity = prior_limit(&recipe(&[(20, Activation::Identity)], &[]), &X, 2, 50, Key::new(1));
        assert!(identity.is_ok(), "linear layers have a limit too");
    }
}
