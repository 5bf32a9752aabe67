//! `posterior evaluate MODEL DATA`: scores on rows whose outcome is known.

use super::{check_memory, predictor, read};
use crate::cli::Evaluate;
use crate::output::{grouped, json, number, print, table};
use crate::progress::notes;
use posterior::artifact;
use posterior::score::{METRICS, Scored};
use serde_json::{Map, Value, json};

pub fn run(args: &Evaluate) -> anyhow::Result<()> {
    let model = artifact::load(&args.model)?;
    let data = read(&args.data, Some(&model.encoder))?;
    let encoded = model.encoder.encode(&data, true)?;
    notes(&args.common, &encoded.warnings);
    check_memory(encoded.data.rows, args.draws, model.network.outputs())?;
    let predictor = predictor(&model, args.draws, args.moments, &args.common)?;
    let predictive = predictor.predict(&encoded.data.x);
    let y = model.encoder.decode_target(&encoded.data.y);
    let scored = Scored::new(&predictive, &y, model.likelihood.outcome());
    let scores: Vec<_> = METRICS.iter().filter_map(|m| (m.score)(&scored).map(|v| (m, v))).collect();
    if args.common.json {
        let mut object = Map::from_iter([("n".to_owned(), json!(y.len()))]);
        object.extend(scores.iter().map(|(m, v)| (m.name.to_owned(), json!(v))));
        return json(&Value::Object(object));
    }
    let rows: Vec<Vec<String>> =
        scores.iter().map(|(m, v)| vec![m.name.to_owned(), number(*v), m.summary.to_owned()]).collect();
    print(&format!("{} rows\n{}", grouped(y.len()), table(&["score", "value", "what it is"], &rows)))
}
