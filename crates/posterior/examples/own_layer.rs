//! A layer of your own, by name in a configuration and through the model file. `cargo run --release -p posterior --example own_layer`
//!
//! out = sin(ωx), the activation of Sitzmann et al. (2020). Forward and vector-Jacobian product of one row are all that a layer without weights
//! needs; one with weights puts affine maps before it, as `gated-dense` of `examples/extension` does.

use posterior::Real;
use posterior::data::Column;
use posterior::nn::{LayerEntry, Op, RowMap, register_layer};
use posterior::prelude::*;
use posterior::settings::{Allowed, Default as Preset, Setting};
use std::path::Path;

#[derive(Debug)]
struct Sine(Shape, f64);

impl RowMap for Sine {
    fn describe(&self) -> String {
        format!("sine {}", self.1)
    }
    fn output(&self) -> Shape {
        self.0
    }
    fn forward<R: Real>(&self, x: &[R], out: &mut [R]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = R::of((self.1 * x.f64()).sin()));
    }
    fn vjp<R: Real>(&self, x: &[R], _out: &[R], d_out: &[R], dx: &mut [R]) {
        let slope = |x: R| R::of(self.1 * (self.1 * x.f64()).cos());
        dx.iter_mut().zip(x.iter().zip(d_out)).for_each(|(dx, (x, d))| *dx = *d * slope(*x));
    }
}

const FREQUENCY: Setting =
    Setting { name: "frequency", help: "ω", default: Preset::Float(1.0), allowed: Allowed::Above(0.0, 100.0) };

/// Registers the layer, fits a network that has it, and loads the network again.
pub fn main() -> posterior::Result<()> {
    register_layer(LayerEntry {
        name: "sine",
        summary: "the sine of every number",
        settings: &[FREQUENCY],
        build: |options, builder, from| {
            builder.add(Op::rows(from[0].shape, Sine(from[0].shape, options.float("frequency")?)), from)
        },
    })?;
    let layers =
        "[[network.layers]]\nkind = \"dense\"\nunits = 20\n[[network.layers]]\nkind = \"sine\"\nfrequency = 2.0\n";
    let recipe = Recipe::from_toml(&format!("{layers}[method]\nname = \"map\"\nepochs = 500\n"))?;
    let x: Vec<f64> = (0..100).map(|i| f64::from(i) / 25.0 - 2.0).collect();
    let y = x.iter().map(|x| (3.0 * x).sin()).collect();
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))])?;
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let model = Model::fit(&recipe, &table, &options, 1, &mut Silent)?;
    let back = artifact::from_bytes(&artifact::to_bytes(&model)?, Path::new("model"))?;
    let rows = back.encoder.encode(&table, true)?.data;
    let rmse = posterior::score::find("rmse").and_then(|m| m.score(&back.score(&rows, &back.how(1)).ok()?));
    println!("{}: RMSE {:.3}", back.network("")?.network.describe().join(", "), rmse.unwrap_or(f64::NAN));
    assert!(rmse.is_some_and(|rmse| rmse < 0.2));
    Ok(())
}
