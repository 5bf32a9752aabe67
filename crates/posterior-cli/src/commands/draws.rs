//! `posterior draws MODEL --out FILE`: draws as Parquet, for pandas, ArviZ and whatever else reads it.

use crate::cli::Draws;
use crate::output::{check_writable, count, grouped, json, print};
use posterior::artifact;
use posterior::rng::Key;
use serde_json::json;

pub fn run(args: &Draws) -> anyhow::Result<()> {
    check_writable(&args.out, [args.model.clone()])?;
    let model = artifact::load(&args.model)?;
    let key = Key::new(args.common.seed.unwrap_or(model.seed));
    let written = artifact::write_draws(&model, args.draws as usize, key, &args.out)?;
    if args.common.json {
        return json(&json!({
            "file": args.out.display().to_string(),
            "chains": written.chains,
            "draws": written.draws,
            "parameters": model.fitted.parameters(),
            "columns": written.columns,
        }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let first = written.columns.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
    let more = if written.columns.len() > 6 { ", …" } else { "" };
    let from = count(written.chains, "chain");
    let columns = grouped(written.columns.len());
    let draws = count(written.draws, "draw");
    print(&format!("{draws} of {from} in {}: {columns} columns {first}{more}\n", args.out.display()))
}
