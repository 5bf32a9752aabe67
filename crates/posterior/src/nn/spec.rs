//! Networks as users write them: `50,50`, `lenet-5`, or a list of layers in a configuration file.
//!
//! A layer takes the one before it. Where it is not so simple, a layer of the kind `graph` lists named nodes, each with the names of those
//! it takes `from`. The output layer is not written: it is a dense layer with as many units as the likelihood needs. `spec_build` makes
//! the network.

use super::activation::Activation;
use super::custom::{CustomLayer, layers};
use super::resize::Interpolation;
use crate::error::{Error, Result, suggest};
use serde::de::Error as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A layer as written in a configuration file.
// `remote` makes what is derived a pair of functions, which the implementations below call for the kinds that are built in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
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
        /// Pixels from one tap of the kernel to the next.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        dilation: usize,
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
    /// x, and behind it layers(x): the channels of images of one size, or the numbers of flat rows.
    Skip {
        /// From images to images of the same height and width, or from flat rows to flat rows.
        layers: Vec<LayerSpec>,
    },
    /// An image as many times as high and wide.
    Upsample {
        /// Times.
        factor: usize,
        /// How pixels between those of the image are found.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// factor² channels become one that is factor times as high and wide.
    PixelShuffle {
        /// Times.
        factor: usize,
    },
    /// Mean 0 and variance 1 over groups of channels, row by row, without weights.
    GroupNorm {
        /// How many groups; 1 is layer normalisation.
        groups: usize,
        /// Added to variances.
        #[serde(default = "epsilon")]
        epsilon: f64,
    },
    /// A vector for every category: the numbers that come in are indices from 0.
    Embedding {
        /// How many.
        categories: usize,
        /// Numbers of a vector.
        size: usize,
    },
    /// Some columns of a flat row.
    Select {
        /// By number, from 0.
        columns: Vec<usize>,
    },
    /// The sum of several nodes of a graph.
    Add,
    /// Several nodes of a graph one behind the other.
    Concat,
    /// Nodes with names, each with those it takes from; the last one is what comes out.
    Graph {
        /// In an order in which every node comes after those it takes from.
        nodes: Vec<NodeSpec>,
    },
    /// A layer of another crate, see [`register_layer`](super::register_layer).
    #[serde(skip)]
    Custom(CustomLayer),
}

impl LayerSpec {
    /// The kinds that are built in.
    pub const KINDS: &[&str] = &[
        "dense",
        "conv",
        "max-pool",
        "avg-pool",
        "flatten",
        "activation",
        "dropout",
        "polynomial",
        "fourier",
        "random-features",
        "residual",
        "skip",
        "upsample",
        "pixel-shuffle",
        "group-norm",
        "embedding",
        "select",
        "add",
        "concat",
        "graph",
    ];

    /// Every kind that can be written, those of other crates included.
    pub(super) fn kinds() -> Vec<&'static str> {
        LayerSpec::KINDS.iter().copied().chain(layers().iter().map(|l| l.name)).collect()
    }

    /// With every option of layers of other crates spelled out.
    fn resolved(&self) -> Result<LayerSpec> {
        let all = |layers: &[LayerSpec]| layers.iter().map(LayerSpec::resolved).collect::<Result<Vec<_>>>();
        Ok(match self {
            LayerSpec::Custom(layer) => LayerSpec::Custom(layer.resolved()?),
            LayerSpec::Residual { layers } => LayerSpec::Residual { layers: all(layers)? },
            LayerSpec::Skip { layers } => LayerSpec::Skip { layers: all(layers)? },
            LayerSpec::Graph { nodes } => {
                let node = |n: &NodeSpec| Ok(NodeSpec { layer: n.layer.resolved()?, ..n.clone() });
                LayerSpec::Graph { nodes: nodes.iter().map(node).collect::<Result<_>>()? }
            }
            built_in => built_in.clone(),
        })
    }
}

impl Serialize for LayerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            kind: &'a str,
            #[serde(flatten)]
            options: &'a BTreeMap<String, crate::settings::Value>,
        }
        match self {
            LayerSpec::Custom(layer) => Written { kind: &layer.kind, options: &layer.options }.serialize(serializer),
            built_in => LayerSpec::serialize(built_in, serializer),
        }
    }
}

/// A kind that is not built in has to be registered.
/// Reads a layer while the deserialiser is at it, so that an error knows its place in the file.
struct LayerVisitor;

impl<'de> Visitor<'de> for LayerVisitor {
    type Value = LayerSpec;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a layer with its kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<LayerSpec, A::Error> {
        let mut written: BTreeMap<String, serde_json::Value> = BTreeMap::deserialize(MapAccessDeserializer::new(map))?;
        let kind = match written.get("kind") {
            Some(serde_json::Value::String(kind)) => kind.clone(),
            Some(_) => return Err(A::Error::custom("the 'kind' of a layer is a word")),
            None => return Err(A::Error::missing_field("kind")),
        };
        if LayerSpec::KINDS.contains(&kind.as_str()) {
            let written = serde_json::Value::Object(written.into_iter().collect());
            return LayerSpec::deserialize(written).map_err(A::Error::custom);
        }
        written.remove("kind");
        let option = |(name, value): (String, serde_json::Value)| match serde_json::from_value(value) {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(A::Error::custom(format!(
                "the option '{name}' of a layer '{kind}' is no number, word or truth value"
            ))),
        };
        let options = written.into_iter().map(option).collect::<std::result::Result<_, _>>()?;
        let layer = CustomLayer { kind: kind.clone(), options };
        layer.settings().map_err(A::Error::custom)?;
        Ok(LayerSpec::Custom(layer))
    }
}

impl<'de> Deserialize<'de> for LayerSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<LayerSpec, D::Error> {
        deserializer.deserialize_map(LayerVisitor)
    }
}

/// A node of a graph as written in a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// What other nodes call it; needed only where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of nodes before it, or `input` for what goes into the graph; none means the node before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// What it does.
    #[serde(flatten)]
    pub layer: LayerSpec,
}

fn identity() -> Activation {
    Activation::Identity
}

fn one() -> usize {
    1
}

fn epsilon() -> f64 {
    1e-5
}

/// What older versions do not know is written only where it is used.
fn is_one(n: &usize) -> bool {
    *n == 1
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

/// Units in a layer, at most: a larger number is taken for a typing error.
pub(super) const LARGEST: usize = 1 << 20;

impl NetworkSpec {
    /// With every option of layers of other crates spelled out, so that a model file does not depend on their defaults.
    pub(crate) fn resolved(&self) -> Result<NetworkSpec> {
        Ok(NetworkSpec { layers: self.layers.iter().map(LayerSpec::resolved).collect::<Result<_>>()? })
    }

    /// Reads `50,50`, or a name of [`NETWORKS`]. The activation is for the hidden layers of a list of widths.
    pub fn parse(text: &str, activation: Activation) -> Result<NetworkSpec> {
        let dense = |widths: &[usize], activation| {
            widths.iter().map(|&units| LayerSpec::Dense { units, activation }).collect::<Vec<_>>()
        };
        let relu = Activation::Relu;
        let conv =
            |channels| LayerSpec::Conv { channels, kernel: 5, stride: 1, padding: 0, dilation: 1, activation: relu };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{AnyNetwork, Graph, Shape};

    const IMAGE: Shape = Shape::Image { channels: 1, height: 28, width: 28 };

    fn build(text: &str, input: Shape, outputs: usize) -> Graph {
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

    /// The kinds as serde tells them in its error about another one.
    #[test]
    fn the_kinds_are_those_that_can_be_read() {
        let error = LayerSpec::deserialize(serde_json::json!({ "kind": "?" })).unwrap_err().to_string();
        let told: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(told, LayerSpec::KINDS, "{error}");
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
