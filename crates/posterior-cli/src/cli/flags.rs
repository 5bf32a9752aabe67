//! What is wrong with the flags, in one sentence: what, and what to write instead.

use super::Cli;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Whether clap has something to show, and nothing is wrong.
pub fn is_help(e: &clap::Error) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    matches!(e.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Whether JSON was asked for, on a command line that clap could not read.
pub fn wants_json(mut args: impl Iterator<Item = String>) -> bool {
    args.by_ref().take_while(|a| a != "--").any(|a| a == "--json")
}

/// The error as all others are.
pub fn sentence(e: &clap::Error, args: &[String]) -> posterior::Error {
    let get = |kind| e.get(kind).map(text).filter(|t| !t.is_empty());
    let help = help(args);
    let (arg, value) = (get(ContextKind::InvalidArg).unwrap_or_default(), get(ContextKind::InvalidValue));
    let meant = |kind| get(kind).map(|t| format!("did you mean '{t}'?"));
    let (what, fix) = match e.kind() {
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            (format!("there is no flag '{arg}' here"), meant(ContextKind::SuggestedArg))
        }
        ErrorKind::UnknownArgument => (format!("'{arg}' is one argument too many"), None),
        ErrorKind::InvalidSubcommand => {
            let name = get(ContextKind::InvalidSubcommand).unwrap_or_default();
            (format!("there is no command '{name}'"), meant(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::InvalidValue => {
            let all = get(ContextKind::ValidValue).map(|all| format!("choose one of: {all}"));
            let fix: Vec<String> = all.into_iter().chain(meant(ContextKind::SuggestedValue)).collect();
            (of_value(&arg, value), Some(fix.join("; ")).filter(|f| !f.is_empty()))
        }
        ErrorKind::ValueValidation => {
            (of_value(&arg, value), std::error::Error::source(e).map(|s| takes(&s.to_string())))
        }
        ErrorKind::MissingRequiredArgument => (format!("something is missing: {arg}"), None),
        ErrorKind::ArgumentConflict => {
            let other = get(ContextKind::PriorArg).filter(|other| *other != arg);
            (
                other.map_or(format!("'{arg}' cannot be used twice"), |o| format!("'{arg}' cannot be used with '{o}'")),
                Some("leave one of them out".to_owned()),
            )
        }
        _ => {
            let all = e.to_string();
            let first = all.lines().next().unwrap_or_default();
            (first.strip_prefix("error: ").unwrap_or(first).to_owned(), None)
        }
    };
    posterior::Error::setting(what, fix.unwrap_or(help))
}

fn of_value(arg: &str, value: Option<String>) -> String {
    value.map_or(format!("'{arg}' lacks its value"), |v| format!("'{v}' is no value of '{arg}'"))
}

/// What a flag takes, from the words of whoever could not read it.
fn takes(said: &str) -> String {
    match said.split_once(" is not in ") {
        Some((_, range)) => format!("it takes a whole number in {range}"),
        None if said.contains("digit") || said.contains("number too") || said.contains("integer") => {
            "it takes a whole number from 0".to_owned()
        }
        None if said.contains("float") => "it takes a number".to_owned(),
        None => said.to_owned(),
    }
}

fn text(value: &ContextValue) -> String {
    match value {
        ContextValue::String(s) => s.clone(),
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}

/// Where the flags of the command are listed.
fn help(args: &[String]) -> String {
    let named = args.iter().skip(1).find(|a| Cli::command().find_subcommand(a.as_str()).is_some());
    let command = named.map_or(String::new(), |name| format!("{name} "));
    format!("see 'posterior {command}--help'")
}
