//! Tables of settings: defaults are allowed, everything else that is not is an error, and nothing panics.

use posterior::settings::{Allowed, Setting, Value};

/// Values at the ends of what is allowed, and values that are not.
fn values(allowed: Allowed) -> (Vec<Value>, Vec<Value>) {
    let never = [Value::Text("no such word".into()), Value::Float(f64::NAN), Value::Float(f64::INFINITY)];
    let (good, mut bad) = match allowed {
        Allowed::Bool => (vec![Value::Bool(true), Value::Bool(false)], vec![Value::Int(2)]),
        Allowed::Int(lo, hi) => {
            let outside = [lo.checked_sub(1), hi.checked_add(1)].into_iter().flatten().map(Value::Int);
            (vec![Value::Int(lo), Value::Int(hi)], outside.chain([Value::Float(0.5), Value::Bool(true)]).collect())
        }
        Allowed::Float(lo, hi) | Allowed::Above(lo, hi) => {
            let finite = |v: &f64| v.is_finite();
            let above = matches!(allowed, Allowed::Above(..));
            let below = if above { lo } else { lo - lo.abs().max(1.0) };
            let outside = [below, hi + hi.abs().max(1.0)].into_iter().filter(finite).map(Value::Float);
            let ends = [if above { f64::NAN } else { lo }, hi].into_iter().filter(finite).map(Value::Float);
            (ends.collect(), outside.chain([Value::Bool(true)]).collect())
        }
        Allowed::OneOf(words) => (words.iter().map(|w| Value::Text((*w).to_owned())).collect(), vec![Value::Int(1)]),
        // Kinds of settings that are newer than this suite.
        #[allow(unreachable_patterns)]
        _ => return (Vec::new(), never.to_vec()),
    };
    bad.extend(never);
    (good, bad)
}

/// Tries a table of settings through whatever makes a thing of them; `make` says whether that was an error.
///
/// # Panics
/// If a default is refused, a wrong name or value accepted, or an error is not one line that names the setting.
#[track_caller]
pub fn expect_settings(owner: &str, table: &[Setting], make: impl Fn(&[(String, Value)]) -> posterior::Result<()>) {
    let with = |name: &str, value: Value| make(&[(name.to_owned(), value)]);
    if let Err(e) = make(&[]) {
        panic!("{owner}: its defaults are refused: {e}");
    }
    let wrong = |name: &str, value: Value| match with(name, value.clone()) {
        Ok(()) => panic!("{owner}: '{name}' accepts {value:?}"),
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(name) && !text.contains('\n'), "{owner}: the error about '{name}' is '{text}'");
        }
    };
    wrong("no-such-setting", Value::Int(1));
    for (i, setting) in table.iter().enumerate() {
        assert!(!setting.help.is_empty(), "{owner}: '{}' has no help", setting.name);
        let twice = table[..i].iter().any(|s| s.name == setting.name);
        assert!(!twice, "{owner}: '{}' is in the table twice", setting.name);
        if let Err(e) = with(setting.name, setting.default.into()) {
            panic!("{owner}: the default of '{}' is refused: {e}", setting.name);
        }
        let (good, bad) = values(setting.allowed);
        // A value at the end of its range may clash with another setting, which is an error, and no panic.
        good.into_iter().for_each(|value| drop(with(setting.name, value)));
        bad.into_iter().for_each(|value| wrong(setting.name, value));
    }
}
