//! `posterior check DATA --target COL`: what is in a file and what a fit would do with it, before any fit.

use super::{encode_options, read};
use crate::cli::Check;
use crate::output::{count, grouped, json, print, shown, table};
use posterior::data::TableCheck;

pub fn run(args: &Check) -> anyhow::Result<()> {
    let data = read(&args.data, None)?;
    let check = TableCheck::new(&data, &encode_options(&args.target, &data)?)?;
    if args.common.json {
        return match check.refusal {
            Some(error) => Err(error.into()),
            None => json(&serde_json::to_value(&check)?),
        };
    }
    let rows: Vec<Vec<String>> = check
        .columns
        .iter()
        .map(|c| {
            let missing = if c.missing > 0 { grouped(c.missing) } else { String::new() };
            [shown(&c.name).into_owned(), c.holds.clone(), missing, c.becomes.clone()].to_vec()
        })
        .collect();
    let head = ["column", "holds", "missing", "becomes"];
    print(&format!("{} rows, {}\n{}", grouped(check.rows), count(check.inputs, "input"), table(&head, &rows)))?;
    let list = |title: &str, lines: &[String]| match lines {
        [] => String::new(),
        lines => format!("\n{title}\n{}", lines.iter().map(|l| format!("  - {l}\n")).collect::<String>()),
    };
    print(&list("What looks wrong", &check.problems))?;
    print(&list("What a fit will note", &check.notes))?;
    match check.refusal {
        Some(error) => Err(error.into()),
        None if check.problems.is_empty() => print("\nNothing looks wrong.\n"),
        None => Ok(()),
    }
}
