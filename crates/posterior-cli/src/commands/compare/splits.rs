//! Which rows are held back in which split: folds, or the lines of a file.

use crate::cli::Compare;
use posterior::data::{EncodeOptions, Encoder, Split, Table, TargetKind, folds, folds_in_time, folds_of_groups};
use posterior::rng::Key;
use std::path::Path;

/// Rows to learn from and rows to test on, for every split.
pub fn of(args: &Compare, table: &Table, options: &EncodeOptions) -> anyhow::Result<Vec<Split>> {
    // Also says what is wrong with the target before anything is fitted.
    let encoder = Encoder::fit(table, options)?.encoder;
    let encoded = encoder.encode(table, true)?;
    if let Some(path) = &args.test_rows {
        return from_file(path, table.rows(), &encoded.kept_rows);
    }
    let seed = Key::new(args.common.seed.unwrap_or(0));
    let rows = |part: Vec<usize>| part.into_iter().map(|i| encoded.kept_rows[i]).collect();
    let of_table =
        |parts: Vec<Split>| parts.into_iter().map(|s| Split { train: rows(s.train), validation: rows(s.validation) });
    if let Some(name) = &args.group {
        let column = table.column(name)?;
        let groups: Vec<Option<String>> = encoded.kept_rows.iter().map(|r| column.text(*r)).collect();
        return Ok(of_table(folds_of_groups(&groups, args.folds, seed)?).collect());
    }
    if let Some(name) = &args.time {
        let times = table.times(name)?;
        let times: Vec<f64> = encoded.kept_rows.iter().map(|r| times[*r]).collect();
        return Ok(of_table(folds_in_time(&times, args.folds)?).collect());
    }
    let classes = matches!(encoder.target_kind(), TargetKind::Class { .. }).then_some(&*encoded.data.y);
    Ok(of_table(folds(encoded.data.rows, args.folds, classes, seed)?).collect())
}

/// Line i holds the test rows of split i, numbers from 0; all other rows are learnt from. Rows left out for missing values are in
/// neither.
fn from_file(path: &Path, rows: usize, kept: &[usize]) -> anyhow::Result<Vec<Split>> {
    let text = posterior::memory::read_text(path)?;
    let name = path.display();
    let mut splits = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let mut held = vec![false; rows];
        for word in line.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|w| !w.is_empty()) {
            let Ok(row) = word.parse::<usize>() else {
                anyhow::bail!(
                    "{name}, line {}: '{word}' is no row number; write numbers from 0, such as 0 3 17",
                    i + 1
                );
            };
            if row >= rows {
                anyhow::bail!("{name}, line {}: there is no row {row}; the data have rows 0 to {}", i + 1, rows - 1);
            }
            if std::mem::replace(&mut held[row], true) {
                anyhow::bail!("{name}, line {}: row {row} stands there twice; write it once", i + 1);
            }
        }
        let part = |wanted: bool| kept.iter().copied().filter(|r| held[*r] == wanted).collect::<Vec<_>>();
        let split = Split { train: part(false), validation: part(true) };
        if split.train.is_empty() || split.validation.is_empty() {
            let what = if split.train.is_empty() {
                "no row is left to learn from"
            } else {
                "all its test rows have missing values"
            };
            anyhow::bail!("{name}, line {}: {what}; change the line", i + 1);
        }
        splits.push(split);
    }
    if splits.is_empty() {
        anyhow::bail!("{name}: there is no split in it; write the test rows of each split on a line, such as 0 3 17");
    }
    Ok(splits)
}
