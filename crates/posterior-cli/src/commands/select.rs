//! `posterior select DATA --target COL --over KEY=V1,V2,…`: which model the data speak for, by its evidence.

use super::{data_files, encode_options, read, recipe};
use crate::chart::{Chart, Series, Tone};
use crate::cli::{self, Select};
use crate::output::{check_writable, grouped, json, number, print, table};
use crate::page::{Page, Section, TableHtml};
use crate::progress::Terminal;
use anyhow::{bail, ensure};
use posterior::apply::select::{Evidence, Judged, SelectOptions, select};
use posterior::artifact::write_file;
use posterior::settings::Value;
use serde_json::{Map, json};

/// More models than this are most likely a mistyped range.
const MOST: usize = 1000;

/// What keeps a method's own evidence from scaling the prior: scales that are compared are not to be scaled away.
const HOLDS_PRIOR: &[(&str, &str, &str)] = &[("linear", "learn_prior", "false"), ("laplace", "tune", "none")];

/// A key and the values it is to take.
struct Over {
    key: String,
    values: Vec<String>,
}

pub fn run(args: &Select) -> anyhow::Result<()> {
    let overs = args.over.iter().map(|text| Over::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let grid = grid(&overs)?;
    let has = |key: &str| overs.iter().any(|o| o.key == key);
    // A configuration file may name the method; else the one that has the key.
    let usual = if has("degree") { Some("linear") } else { None };
    let method = args.method.as_deref().or(usual.filter(|_| args.recipe.config.is_none()));
    let compares_priors = overs.iter().any(|o| o.key.starts_with("prior."));
    let recipes = grid
        .iter()
        .map(|values| {
            let mut flags = args.recipe.clone();
            apply(&overs, values, &mut flags)?;
            if let Some((_, key, value)) = HOLDS_PRIOR.iter().find(|h| method == Some(h.0) && compares_priors)
                && !flags.set.iter().any(|s| s.trim_start_matches("method.").starts_with(key))
            {
                flags.set.push(format!("{key}={value}"));
            }
            let mut recipe = recipe::from_flags(&flags, method)?;
            // Chains, which a fit takes by default, give no evidence.
            recipe.method.name.get_or_insert_with(|| "mean-field".to_owned());
            Ok(recipe)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let data = read(&args.data, None)?;
    let encode = encode_options(&args.target, &data)?;
    let inputs = data_files(&args.data.data, args.data.labels.as_ref());
    check_writable(&args.out, inputs.into_iter().chain(args.recipe.config.clone()))?;
    let options = SelectOptions {
        prior_weights: args.prior_weights.as_deref().map(weights).transpose()?.unwrap_or_default(),
        held_out: args.held_out,
        draws: args.draws as usize,
        seed: args.common.seed.unwrap_or(0),
    };
    let mut terminal = Terminal::new(&args.common, "fitting");
    let judged = select(&recipes, &data, &encode, &options, &mut terminal)?;
    terminal.done();
    let found = Found { overs: &overs, grid: &grid, judged: &judged };
    write_file(&args.out, found.page().html().as_bytes())?;
    if args.common.json {
        let report = args.out.display().to_string();
        let chosen = found.chosen();
        return json(&json!({
            "method": judged[chosen].recipe.method.name,
            "evidence": found.evidence(),
            "rows": found.rows_json(),
            "chosen": chosen,
            "report": report,
        }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let (head, rows) = found.cells();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    print(&format!("{}\n{}\nPicture: {}\n", table(&head, &rows), found.sentence(), args.out.display()))
}

impl Over {
    fn parse(text: &str) -> anyhow::Result<Over> {
        let Some((key, values)) = text.split_once('=') else {
            bail!("--over {text} has no '='; write --over key=value,value")
        };
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        let key = key.trim().to_owned();
        ensure!(
            !key.is_empty() && values.iter().all(|v| !v.is_empty()),
            "--over {text} lacks a name or a value; write --over key=value,value"
        );
        if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
            bail!("--over {text} has the value {} twice; leave one out", twice.1);
        }
        Ok(Over { key, values })
    }
}

/// All combinations of values, the last key changing fastest.
fn grid(overs: &[Over]) -> anyhow::Result<Vec<Vec<String>>> {
    for (i, over) in overs.iter().enumerate() {
        ensure!(
            overs[..i].iter().all(|o| o.key != over.key),
            "--over {} is given twice; join its values with commas",
            over.key
        );
    }
    let mut grid: Vec<Vec<String>> = vec![Vec::new()];
    for over in overs {
        let longer = |row: &Vec<String>| {
            over.values.iter().map(|v| [&row[..], std::slice::from_ref(v)].concat()).collect::<Vec<_>>()
        };
        grid = grid.iter().flat_map(longer).collect();
        ensure!(grid.len() <= MOST, "these are more than {MOST} models; give --over fewer values");
    }
    ensure!(grid.len() > 1, "there is one model and nothing to choose; give --over two values or more");
    Ok(grid)
}

fn weights(text: &str) -> anyhow::Result<Vec<f64>> {
    let parse = |w: &str| match w.trim().parse() {
        Ok(v) => Ok(v),
        Err(_) => {
            bail!("--prior-weights {text}: '{}' is not a number; write one number per model, as in 1,2,1", w.trim())
        }
    };
    text.split(',').map(parse).collect()
}

/// Lays one combination over the flags, as if the user had written it there.
fn apply(overs: &[Over], values: &[String], flags: &mut cli::Recipe) -> anyhow::Result<()> {
    let (mut width, mut depth) = (None, None);
    let whole = |key: &str, value: &str| match value.parse::<usize>() {
        Ok(n) if (1..=1 << 20).contains(&n) => Ok(n),
        _ => bail!("--over {key}: '{value}' is not a whole number of at least 1"),
    };
    for (over, value) in overs.iter().zip(values) {
        match over.key.as_str() {
            // Commas part the values here, so that widths are parted by x.
            "network" if value.starts_with(|c: char| c.is_ascii_digit()) => {
                flags.network = Some(value.replace('x', ","))
            }
            "network" => flags.network = Some(value.clone()),
            "width" => width = Some(whole("width", value)?),
            "depth" => depth = Some(whole("depth", value)?),
            "activation" => flags.activation = Some(value.clone()),
            "likelihood" => flags.likelihood = Some(value.clone()),
            "prior" => flags.prior = Some(value.clone()),
            "method" => bail!("--over method would compare approximations, not models; choose one with --method"),
            key => flags.set.push(format!("{key}={value}")),
        }
    }
    if width.is_some() || depth.is_some() {
        ensure!(
            !overs.iter().any(|o| o.key == "network"),
            "--over network says width and depth already; leave the others out"
        );
        let given: Vec<usize> = match flags.network.as_deref() {
            None => vec![50],
            Some(text) => match text.split(',').map(|w| w.trim().parse().ok()).collect() {
                Some(widths) => widths,
                None => bail!("--over width and depth are for a network given by its widths, and this is {text}"),
            },
        };
        let layers = vec![width.unwrap_or(given[0]).to_string(); depth.unwrap_or(given.len())];
        ensure!(layers.len() <= 100, "--over depth: a network of {} layers is too deep; at most 100", layers.len());
        flags.network = Some(layers.join(","));
    }
    Ok(())
}

/// Models with what they differ in.
struct Found<'a> {
    overs: &'a [Over],
    grid: &'a [Vec<String>],
    judged: &'a [Judged],
}

impl Found<'_> {
    /// The most probable, or the one with the highest bound; the first where two are equal.
    fn chosen(&self) -> usize {
        let better =
            |best: usize, i: usize| if self.judged[i].log_joint > self.judged[best].log_joint { i } else { best };
        (0..self.judged.len()).fold(0, better)
    }

    /// What the numbers for log p(D | M) are; a bound where one of them is.
    fn evidence(&self) -> Evidence {
        let bound = self.judged.iter().find(|j| j.evidence == Evidence::Bound);
        bound.or(self.judged.first()).map_or(Evidence::Bound, |j| j.evidence)
    }

    fn is_bounded(&self) -> bool {
        self.evidence() == Evidence::Bound
    }

    fn rows_json(&self) -> Vec<serde_json::Value> {
        let row = |(values, judged): (&Vec<String>, &Judged)| {
            let value = |text: &String| serde_json::to_value(Value::parse(text)).unwrap_or_else(|_| json!(text));
            let mut row: Map<_, _> = self.overs.iter().zip(values).map(|(o, v)| (o.key.clone(), value(v))).collect();
            // A bound is not the evidence, and gives no probabilities: null.
            let exact = (!self.is_bounded()).then_some(judged.log_evidence);
            row.insert("log_evidence".into(), json!(exact));
            row.insert("log_evidence_bound".into(), json!(self.is_bounded().then_some(judged.log_evidence)));
            row.insert("probability".into(), json!(judged.probability));
            row.insert("held_out_log_likelihood".into(), json!(judged.held_out_log_likelihood));
            row.insert("parameters".into(), json!(judged.parameters));
            serde_json::Value::Object(row)
        };
        self.grid.iter().zip(self.judged).map(row).collect()
    }

    fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut head: Vec<String> = self.overs.iter().map(|o| o.key.clone()).collect();
        head.push("parameters".to_owned());
        match self.is_bounded() {
            true => head.push("lower bound on log evidence".to_owned()),
            false => head.extend(["log evidence", "probability"].map(str::to_owned)),
        }
        head.push("held-out log-likelihood".to_owned());
        let row = |(values, judged): (&Vec<String>, &Judged)| {
            let mut row = values.clone();
            row.push(grouped(judged.parameters));
            row.push(format!("{:.2}", judged.log_evidence));
            row.extend(judged.probability.map(|p| format!("{p:.4}")));
            row.push(judged.held_out_log_likelihood.map(number).unwrap_or_default());
            row
        };
        (head, self.grid.iter().zip(self.judged).map(row).collect())
    }

    fn name(&self, i: usize) -> String {
        let parts = self.overs.iter().zip(&self.grid[i]).map(|(o, v)| format!("{} {v}", o.key));
        parts.collect::<Vec<_>>().join(", ")
    }

    fn sentence(&self) -> String {
        let best = self.chosen();
        let held = |i: &usize| self.judged[*i].held_out_log_likelihood.unwrap_or(f64::NEG_INFINITY);
        let checked = (0..self.judged.len()).max_by(|a, b| held(a).total_cmp(&held(b)));
        let check = match checked.filter(|_| self.judged[best].held_out_log_likelihood.is_some()) {
            None => String::new(),
            Some(i) if i == best => " Rows held out say the same.".to_owned(),
            Some(i) => format!(" Rows held out, fewer and noisier, prefer {}.", self.name(i)),
        };
        let name = self.name(best);
        match self.judged[best].probability {
            Some(p) => format!("Most probable: {name} ({:.1} %).{check}", 100.0 * p),
            None => format!(
                "Highest lower bound on the evidence: {name}.{check} A bound gives no probabilities: the gap to log p(D | M) differs from model to model."
            ),
        }
    }

    /// Position of every model on the axis of complexity, and what that axis is.
    fn complexity(&self) -> (Vec<f64>, String) {
        let numbers: Option<Vec<f64>> =
            self.grid.iter().map(|v| v[0].parse().ok().filter(|v: &f64| v.is_finite())).collect();
        let parameters: Vec<f64> = self.judged.iter().map(|j| j.parameters as f64).collect();
        match numbers.filter(|_| self.overs.len() == 1) {
            Some(numbers) => (numbers, self.overs[0].key.clone()),
            None if parameters.iter().any(|p| *p != parameters[0]) => (parameters, "parameters".into()),
            None => ((1..=self.judged.len()).map(|i| i as f64).collect(), "model, in the order of the table".into()),
        }
    }

    fn chart(&self, title: &str, y_label: &str, y: impl Fn(&Judged) -> Option<f64>) -> String {
        let (x, x_label) = self.complexity();
        let mut points: Vec<(f64, f64)> =
            x.iter().zip(self.judged).filter_map(|(x, j)| y(j).map(|y| (*x, y))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
        let mut series = Vec::new();
        if self.overs.len() == 1 {
            series.push(Series::Line { label: String::new(), x: x.clone(), y: y.clone(), tone: Tone::Mean });
        }
        series.push(Series::Points { label: String::new(), x, y });
        let chart = Chart { title: title.into(), x_label, y_label: y_label.into(), series, ..Chart::default() };
        chart.svg()
    }

    fn page(&self) -> Page {
        let mut charts = match self.is_bounded() {
            true => vec![self.chart("Lower bound on the evidence", "bound on log p(D | M)", |j| Some(j.log_evidence))],
            false => vec![
                self.chart("Evidence", "log p(D | M)", |j| Some(j.log_evidence)),
                self.chart("Probability", "p(M | D)", |j| j.probability),
            ],
        };
        if self.judged.iter().any(|j| j.held_out_log_likelihood.is_some()) {
            let title = "Rows held out";
            charts.push(self.chart(title, "mean log-likelihood", |j| j.held_out_log_likelihood));
        }
        let (head, rows) = self.cells();
        let method = self.judged[0].recipe.method.name.clone().unwrap_or_default();
        Page {
            title: "Which model?".into(),
            lead: self.sentence(),
            sections: vec![Section {
                heading: "Evidence against complexity".into(),
                text: format!(
                    "{} A model that is too simple cannot explain the data; \
                     one that can explain too much spreads its bets, and had to bet less on these.",
                    match self.is_bounded() {
                        true => format!(
                            "The method {method} gives a lower bound on log p(D | M). Bounds order models, but there are no probabilities p(M | D) from them."
                        ),
                        false => format!("p(M | D) ∝ p(D | M) p(M), with log p(D | M) from the method {method}."),
                    }
                ),
                charts,
                table: Some(TableHtml { head, rows }),
            }],
        }
    }
}
