//! `posterior methods`: the table of inference methods, and each one's settings.

use crate::cli::Methods;
use crate::output::{json, print, table};
use posterior::inference::{METHODS, MethodEntry, find};
use posterior::settings::{Setting, Value};
use serde_json::json;

pub fn run(args: &Methods) -> anyhow::Result<()> {
    let chosen: Vec<&MethodEntry> = match &args.name {
        Some(name) => vec![find(name)?],
        None => METHODS.iter().collect(),
    };
    if args.common.json {
        let rows: Vec<_> = chosen.iter().map(|m| as_json(m)).collect();
        return json(&json!({ "rows": rows }));
    }
    let Some(name) = &args.name else {
        let rows: Vec<Vec<String>> =
            chosen.iter().map(|m| vec![m.name.to_owned(), m.gives.to_owned(), m.summary.to_owned()]).collect();
        return print(&format!(
            "{}\n'posterior methods NAME' shows a method's settings.\n",
            table(&["method", "gives", "what it is"], &rows)
        ));
    };
    let method = chosen[0];
    let rows: Vec<Vec<String>> = method.settings.iter().map(row).collect();
    print(&format!("{name}: {}\n\n{}", method.summary, table(&["setting", "default", "takes", "what it is"], &rows)))
}

fn row(s: &Setting) -> Vec<String> {
    vec![s.name.to_owned(), Value::from(s.default).to_string(), s.allowed.to_string(), s.help.to_owned()]
}

fn as_json(m: &MethodEntry) -> serde_json::Value {
    let settings: Vec<_> = m
        .settings
        .iter()
        .map(|s| json!({ "name": s.name, "default": Value::from(s.default), "takes": s.allowed.to_string(), "help": s.help }))
        .collect();
    json!({ "method": m.name, "gives": m.gives, "summary": m.summary, "settings": settings })
}
