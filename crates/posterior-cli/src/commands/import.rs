//! `posterior import WEIGHTS --config NET.toml --data DATA`: a network trained in PyTorch becomes a model file.

use super::{data_files, encode_options, read, recipe};
use crate::cli::{Data, Import};
use crate::output::{check_writable, facts, grouped, json, print};
use crate::progress::Terminal;
use anyhow::bail;
use posterior::artifact;
use posterior::data::Scale;
use posterior::model::{ImportOptions, import};
use serde_json::json;

pub fn run(args: &Import) -> anyhow::Result<()> {
    let recipe = recipe::from_flags(&args.recipe, None)?;
    let data = Data { data: args.data.clone(), labels: args.labels.clone(), text: args.text.clone() };
    let table = read(&data, None)?;
    let options = encode_options(&args.target, &table)?;
    let inputs = data_files(&args.data, args.labels.as_ref()).into_iter().chain([args.file.clone()]);
    check_writable(&args.out, inputs.chain(args.recipe.config.clone()))?;
    let given = Scale { mean: args.input_mean, std: args.input_std };
    if !given.is_valid() {
        bail!(
            "inputs cannot be scaled by mean {} and standard deviation {}; the second must be above 0",
            given.mean,
            given.std
        );
    }
    let (inputs, target) = match args.standardise.as_str() {
        "inputs" => (true, false),
        "target" => (false, true),
        "both" => (true, true),
        _ => (false, false),
    };
    if inputs && (given != Scale { mean: 0.0, std: 1.0 }) {
        bail!("--input-mean and --input-std do not go with --standardise {}; leave one of them out", args.standardise);
    }
    let how = ImportOptions {
        modules: args.modules.clone(),
        input_scale: (!inputs).then_some(given),
        target_scale: (!target).then_some(Scale { mean: 0.0, std: 1.0 }),
    };
    let bytes = posterior::memory::read_file(&args.file)?;
    let mut terminal = Terminal::new(&args.common, "importing");
    let model = import(&bytes, &args.file, &recipe, &table, &options, &how, &mut terminal)?;
    terminal.done();
    artifact::save(&model, &args.out)?;
    let out = args.out.display().to_string();
    if args.common.json {
        return json(&json!({
            "model": out,
            "weights": args.file.display().to_string(),
            "rows": model.rows,
            "parameters": model.fitted.parameters(),
            "network": model.network("a network was read")?.network.describe(),
        }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let network = format!("{} ({} parameters)", model.fitted.describe(), grouped(model.fitted.parameters()));
    print(&facts(&[("network", network), ("rows", grouped(model.rows)), ("model", out)]))
}
