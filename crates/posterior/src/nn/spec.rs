//! Networks as users write them: `50,50`, `lenet-5`, or a list of layers in a configuration file.
//!
//! The output layer is not written: it is a dense layer with as many units as the likelihood needs.

use super::activation::{Activation, ActivationLayer};
use super::conv::Conv;
use super::dense::Dense;
use super::dropout::Dropout;
use super::features::Features;
use super::layer::{Layer, Shape};
use super::network::Sequential;
use super::pool::{AvgPool, MaxPool};
use super::residual::Residual;
use crate::error::{Error, Result, suggest};
use crate::memory::{product, request};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A layer as written in a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerSpec {
    /// xW + b, then the activation.
    Dense {
        /// Outputs.
        units: usize,
        /// By name; none means identity.
        #[serde(default = "identity")]
        activation: Activation,
    },
    /// Convolution with square kernels, then the activation.
    Conv {
        /// Output channels.
        channels: usize,
        /// Side of the kernel.
        kernel: usize,
        /// Step of the kernel.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros around the image.
        #[serde(default)]
        padding: usize,
        /// By name; none means identity.
        #[serde(default = "identity")]
        activation: Activation,
    },
    /// Largest of each window.
    MaxPool {
        /// Side and step of the window.
        size: usize,
    },
    /// Mean of each window.
    AvgPool {
        /// Side and step of the window.
        size: usize,
    },
    /// An image read as one long row.
    Flatten,
    /// An activation by itself.
    Activation {
        /// By name.
        activation: Activation,
    },
    /// Each activation is 0 with this probability while training.
    Dropout {
        /// From 0 to below 1.
        rate: f64,
    },
    /// Polynomials of the inputs, nothing to learn.
    Polynomial {
        /// Highest total degree.
        degree: usize,
    },
    /// Sine and cosine of every input, nothing to learn.
    Fourier {
        /// Harmonics.
        frequencies: usize,
        /// Of the first of them, in standard deviations of the input.
        period: f64,
    },
    /// Random waves that approach a Gaussian process, nothing to learn.
    RandomFeatures {
        /// How many.
        count: usize,
        /// In standard deviations of the input.
        length_scale: f64,
        /// Which.
        #[serde(default)]
        seed: u64,
    },
    /// x + layers(x).
    Residual {
        /// From a shape to the same shape.
        layers: Vec<LayerSpec>,
    },
}

fn identity() -> Activation {
    Activation::Identity
}

fn one() -> usize {
    1
}

/// A network without its output layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// One after another.
    pub layers: Vec<LayerSpec>,
}

/// One hidden layer of 50 units.
impl Default for NetworkSpec {
    fn default() -> Self {
        NetworkSpec { layers: vec![LayerSpec::Dense { units: 50, activation: Activation::Tanh }] }
    }
}

/// Networks that have a name.
pub const NETWORKS: &[(&str, &str)] = &[
    ("linear", "no hidden layer"),
    ("lenet-300-100", "dense 300, dense 100, relu (LeCun et al. 1998)"),
    ("lenet-5", "conv 20 of 5×5, pool, conv 50 of 5×5, pool, dense 500, relu: the Caffe version of LeNet-5"),
];

/// More units than this in a layer are a slip of the hand.
const LARGEST: usize = 1 << 20;

impl NetworkSpec {
    /// Reads `50,50`, or a name of [`NETWORKS`]. The activation is for the hidden layers of a list of widths.
    pub fn parse(text: &str, activation: Activation) -> Result<NetworkSpec> {
        let dense = |widths: &[usize], activation| {
            widths.iter().map(|&units| LayerSpec::Dense { units, activation }).collect::<Vec<_>>()
        };
        let relu = Activation::Relu;
        let conv = |channels| LayerSpec::Conv { channels, kernel: 5, stride: 1, padding: 0, activation: relu };
        let pool = LayerSpec::MaxPool { size: 2 };
        let layers = match text.trim() {
            "linear" => Vec::new(),
            "lenet-300-100" => dense(&[300, 100], relu),
            "lenet-5" => {
                let mut layers = vec![conv(20), pool.clone(), conv(50), pool, LayerSpec::Flatten];
                layers.extend(dense(&[500], relu));
                layers
            }
            widths if widths.starts_with(|c: char| c.is_ascii_digit()) => {
                let parse = |w: &str| match w.trim().parse::<usize>() {
                    Ok(n) if (1..=LARGEST).contains(&n) => Ok(n),
                    _ => Err(Error::setting(
                        format!("'{}' is not a width of a layer in '{widths}'", w.trim()),
                        format!("write whole numbers from 1 to {LARGEST} with commas between, as in 50,50"),
                    )),
                };
                dense(&widths.split(',').map(parse).collect::<Result<Vec<_>>>()?, activation)
            }
            name => {
                let names: Vec<_> = NETWORKS.iter().map(|(n, _)| *n).collect();
                let fix = format!("{} (or give widths, as in 50,50)", suggest(name, names));
                return Err(Error::setting(format!("there is no network '{name}'"), fix));
            }
        };
        Ok(NetworkSpec { layers })
    }

    /// Makes the network for rows of the given shape and so many outputs, fusing activations and pooling into the layers before
    /// them.
    pub fn build(&self, input: Shape, outputs: usize) -> Result<Sequential> {
        let mut layers = build_layers(&self.layers, input)?;
        let last = layers.last().map_or(input, |l| l.output());
        check_weights(last, outputs)?;
        layers.push(Arc::new(Dense::new(last, outputs, Activation::Identity)));
        check_parameters(&layers)?;
        Ok(Sequential::new(layers))
    }
}

fn build_layers(specs: &[LayerSpec], input: Shape) -> Result<Vec<Arc<dyn Layer>>> {
    let mut layers: Vec<Arc<dyn Layer>> = Vec::new();
    let mut shape = input;
    let mut i = 0;
    while i < specs.len() {
        let layer: Option<Arc<dyn Layer>> = match &specs[i] {
            LayerSpec::Dense { units, activation } => {
                check("units", *units, LARGEST)?;
                check_weights(shape, *units)?;
                let activation = fused(*activation, specs, &mut i);
                Some(Arc::new(Dense::new(shape, *units, activation)))
            }
            LayerSpec::Conv { channels, kernel, stride, padding, activation } => {
                check("channels", *channels, LARGEST)?;
                check("kernel", *kernel, 1024)?;
                check("stride", *stride, 1024)?;
                if *padding >= *kernel {
                    return Err(Error::setting(
                        format!("a layer's padding of {padding} is not below its kernel of {kernel}"),
                        "the rest would see zeros only: lower it",
                    ));
                }
                let activation = fused(*activation, specs, &mut i);
                let pool = match specs.get(i + 1) {
                    Some(LayerSpec::MaxPool { size }) if activation.monotone() && *size > 0 => {
                        i += 1;
                        Some(*size)
                    }
                    _ => None,
                };
                let kernel = (*kernel, *kernel);
                Some(Arc::new(Conv::new(shape, *channels, kernel, *stride, *padding, activation, pool)?))
            }
            LayerSpec::MaxPool { size } => Some(Arc::new(MaxPool::new(shape, *size, *size)?)),
            LayerSpec::AvgPool { size } => Some(Arc::new(AvgPool::new(shape, *size, *size)?)),
            // Images are one long row in memory already.
            LayerSpec::Flatten => {
                shape = Shape::Flat(shape.len());
                None
            }
            LayerSpec::Activation { activation } => Some(Arc::new(ActivationLayer::new(shape, *activation))),
            LayerSpec::Dropout { rate } => Some(Arc::new(Dropout::new(shape, *rate)?)),
            LayerSpec::Polynomial { degree } => Some(Arc::new(Features::polynomial(shape, *degree)?)),
            LayerSpec::Fourier { frequencies, period } => {
                Some(Arc::new(Features::fourier(shape, *frequencies, *period)?))
            }
            LayerSpec::RandomFeatures { count, length_scale, seed } => {
                Some(Arc::new(Features::random(shape, *count, *length_scale, *seed)?))
            }
            LayerSpec::Residual { layers } => Some(Arc::new(Residual::new(build_layers(layers, shape)?)?)),
        };
        if let Some(layer) = layer {
            shape = layer.output();
            layers.push(layer);
        }
        i += 1;
    }
    check_parameters(&layers)?;
    Ok(layers)
}

/// Refuses parameters, of all layers together, for which no memory is there: before they are added up in a word, and long before
/// anything is made of them.
fn check_parameters(layers: &[Arc<dyn Layer>]) -> Result<()> {
    let of = |layer: &Arc<dyn Layer>| layer.blocks().iter().map(|b| product(&b.shape)).sum::<u128>();
    let parameters = layers.iter().fold(0, |sum: u128, layer| sum.saturating_add(of(layer)));
    let bytes = parameters.saturating_mul(size_of::<f32>() as u128);
    request(bytes, format!("a network of {parameters} parameters"), "make its layers narrower")
}

/// An activation written as a layer of its own right after a layer without one becomes that layer's.
fn fused(own: Activation, specs: &[LayerSpec], i: &mut usize) -> Activation {
    match specs.get(*i + 1) {
        Some(LayerSpec::Activation { activation }) if own == Activation::Identity => {
            *i += 1;
            *activation
        }
        _ => own,
    }
}

/// More weights than this in a layer are a slip of the hand, or of a damaged file.
const MOST_WEIGHTS: usize = 1 << 32;

fn check_weights(input: Shape, units: usize) -> Result<()> {
    match input.len().checked_mul(units) {
        Some(n) if n <= MOST_WEIGHTS => Ok(()),
        _ => Err(Error::setting(
            format!("a dense layer from {input} to {units} has more than {MOST_WEIGHTS} weights"),
            "make it narrower",
        )),
    }
}

fn check(what: &str, value: usize, largest: usize) -> Result<()> {
    if (1..=largest).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(
        format!("a layer's {what} cannot be {value}"),
        format!("it takes a whole number from 1 to {largest}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::AnyNetwork;

    const IMAGE: Shape = Shape::Image { channels: 1, height: 28, width: 28 };

    fn build(text: &str, input: Shape, outputs: usize) -> Sequential {
        NetworkSpec::parse(text, Activation::Tanh).unwrap().build(input, outputs).unwrap()
    }

    #[test]
    fn named_networks_have_the_published_sizes() {
        assert_eq!(build("lenet-300-100", IMAGE, 10).layout().len(), 266_610);
        assert_eq!(build("lenet-5", IMAGE, 10).layout().len(), 431_080);
        assert_eq!(build("50", Shape::Flat(8), 1).layout().len(), 501);
        assert_eq!(build("linear", Shape::Flat(8), 1).layout().len(), 9);
    }

    #[test]
    fn pooling_and_activations_are_fused() {
        let text = r#"
            [[layers]]
            kind = "conv"
            channels = 4
            kernel = 3
            [[layers]]
            kind = "activation"
            activation = "relu"
            [[layers]]
            kind = "max-pool"
            size = 2
            [[layers]]
            kind = "residual"
            layers = [{ kind = "conv", channels = 4, kernel = 3, padding = 1, activation = "gelu" }]
            [[layers]]
            kind = "dropout"
            rate = 0.2
        "#;
        let spec: NetworkSpec = toml::from_str(text).unwrap();
        let network = spec.build(IMAGE, 10).unwrap();
        assert_eq!(network.describe().len(), 4);
        let names: Vec<_> = network.layout().blocks().iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["0.weight", "0.bias", "1.0.weight", "1.0.bias", "3.weight", "3.bias"]);
    }

    #[test]
    fn slips_get_one_sentence() {
        let message = |t: &str| NetworkSpec::parse(t, Activation::Relu).unwrap_err().to_string();
        assert!(message("50,x").contains("'x' is not a width"));
        assert!(message("0").contains("'0' is not a width"));
        assert!(message("50,").contains("'' is not a width of a layer in '50,'"));
        assert!(message("lenet5").contains("did you mean 'lenet-5'?"));
        let spec = NetworkSpec::parse("lenet-5", Activation::Relu).unwrap();
        assert!(spec.build(Shape::Flat(8), 1).is_err());
    }
}
