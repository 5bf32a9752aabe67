//! `posterior methods`: inference methods, likelihoods and priors, and the settings of each.

use crate::cli::Methods;
use crate::output::{json, print, table};
use posterior::error::suggest;
use posterior::inference::METHODS;
use posterior::likelihood::LIKELIHOODS;
use posterior::model::MODELS;
use posterior::prior::PRIORS;
use posterior::settings::{Setting, Value};
use serde_json::json;

/// A row of any of the three tables.
struct Entry {
    /// What a setting's key starts with in `--set`.
    section: &'static str,
    name: &'static str,
    summary: &'static str,
    gives: Option<&'static str>,
    settings: &'static [Setting],
}

fn entries() -> Vec<Entry> {
    let methods = METHODS.iter().map(|m| Entry {
        section: "method",
        name: m.name,
        summary: m.summary,
        gives: Some(m.gives),
        settings: m.settings,
    });
    let models = MODELS.iter().map(|m| Entry {
        section: "method",
        name: m.name,
        summary: m.summary,
        gives: Some(m.gives),
        settings: m.settings,
    });
    let likelihoods = LIKELIHOODS.iter().map(|l| Entry {
        section: "likelihood",
        name: l.name,
        summary: l.summary,
        gives: None,
        settings: l.settings,
    });
    let priors = PRIORS.iter().map(|p| Entry {
        section: "prior",
        name: p.name,
        summary: p.summary,
        gives: None,
        settings: p.settings,
    });
    methods.chain(models).chain(likelihoods).chain(priors).collect()
}

pub fn run(args: &Methods) -> anyhow::Result<()> {
    let all = entries();
    if let Some(name) = &args.name {
        let Some(entry) = all.iter().find(|e| e.name == name) else {
            let names: Vec<_> = all.iter().map(|e| e.name).collect();
            anyhow::bail!("there is no method, likelihood or prior '{name}'; {}", suggest(name, names));
        };
        return if args.common.json { json(&json!({ "rows": [as_json(entry)] })) } else { print(&settings(entry)) };
    }
    let of = |section: &'static str| all.iter().filter(move |e| e.section == section);
    if args.common.json {
        let rows = |section| of(section).map(as_json).collect::<Vec<_>>();
        let (methods, likelihoods, priors) = (rows("method"), rows("likelihood"), rows("prior"));
        return json(&json!({ "rows": methods, "likelihoods": likelihoods, "priors": priors }));
    }
    let methods: Vec<Vec<String>> =
        of("method").map(|e| [e.name, e.gives.unwrap_or_default(), e.summary].map(str::to_owned).into()).collect();
    let rows = |section| of(section).map(|e| vec![e.name.to_owned(), e.summary.to_owned()]).collect::<Vec<_>>();
    print(&format!(
        "{}\n{}\n{}\n'posterior methods NAME' shows the settings of a method, likelihood or prior.\n",
        table(&["method", "gives", "what it is"], &methods),
        table(&["likelihood", "what it is"], &rows("likelihood")),
        table(&["prior", "what it is"], &rows("prior")),
    ))
}

/// The settings of one entry, with the keys as `--set` takes them.
fn settings(entry: &Entry) -> String {
    let prefix = if entry.section == "method" { String::new() } else { format!("{}.", entry.section) };
    let row = |s: &Setting| {
        vec![
            format!("{prefix}{}", s.name),
            Value::from(s.default).to_string(),
            s.allowed.to_string(),
            s.help.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = entry.settings.iter().map(row).collect();
    let table = match rows.is_empty() {
        true => "It has no settings.\n".to_owned(),
        false => table(&["--set", "default", "takes", "what it is"], &rows),
    };
    format!("{}: {}\n\n{table}", entry.name, entry.summary)
}

fn as_json(entry: &Entry) -> serde_json::Value {
    let settings: Vec<_> = entry
        .settings
        .iter()
        .map(|s| {
            let takes = s.allowed.to_string();
            json!({ "name": s.name, "default": Value::from(s.default), "takes": takes, "help": s.help })
        })
        .collect();
    let mut value = json!({ entry.section: entry.name, "summary": entry.summary, "settings": settings });
    if let Some(gives) = entry.gives {
        value["gives"] = json!(gives);
    }
    value
}
