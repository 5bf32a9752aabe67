//! From encoded inputs back to a table: what a changed row looks like in the user's units.

use super::encode::Encoder;
use super::schema::{FeatureKind, Inputs};
use super::table::{Column, Images, Table};
use super::{Values, npy};
use crate::error::{Error, Result};
use std::collections::HashMap;

impl Encoder {
    /// The table with its number columns, or its images, replaced by encoded inputs of the same rows; all else stays, and what was missing is missing.
    pub fn decode_inputs(&self, x: &Values, table: &Table) -> Result<Table> {
        let width = self.input_shape().len();
        if x.len() != table.rows() * width {
            let what =
                format!("there are {} encoded rows and {} rows in the table", x.len() / width.max(1), table.rows());
            return Err(Error::data(what, "give the rows that were encoded"));
        }
        match &self.inputs {
            Inputs::Images { scale, .. } => {
                let pixels = x.to::<f32>().iter().map(|z| scale.invert(f64::from(*z)) as f32).collect();
                let label = table.columns().next().map(|(name, column)| (name.to_owned(), column.clone()));
                Table::from_images(Images { shape: self.input_shape(), pixels }, label)
            }
            Inputs::Columns(features) => {
                let x = x.to::<f64>();
                let mut columns: Vec<(String, Column)> =
                    table.columns().map(|(name, column)| (name.to_owned(), column.clone())).collect();
                let places: HashMap<&str, usize> = table.column_names().zip(0..).collect();
                let mut at = 0;
                for feature in features {
                    if let FeatureKind::Standard(scale) = &feature.kind
                        && let Some(place) = places.get(feature.name.as_str())
                    {
                        let own = &columns[*place].1;
                        let value = |(row, z): (usize, &f64)| match own.is_missing(row) {
                            true => f64::NAN,
                            false => scale.invert(*z),
                        };
                        let values = x.iter().skip(at).step_by(width).enumerate().map(value).collect();
                        columns[*place].1 = Column::Number(values);
                    }
                    at += feature.kind.width();
                }
                Table::from_columns(columns)
            }
        }
    }
}

impl Table {
    /// The table as a file: images become an NPZ archive, columns a CSV text.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        if let Some(images) = self.images() {
            return npy::write_npz(images, self.columns().next());
        }
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r', ';', '\t']) || text.trim() != text {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut lines = vec![self.column_names().map(quoted).collect::<Vec<_>>().join(",")];
        let columns: Vec<&Column> = self.columns().map(|(_, c)| c).collect();
        for row in 0..self.rows() {
            let cells = columns.iter().map(|c| c.text(row).map_or(String::new(), |t| quoted(&t)));
            lines.push(cells.collect::<Vec<_>>().join(","));
        }
        Ok((lines.join("\n") + "\n").into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ReadOptions;
    use crate::nn::Shape;

    fn read_back(table: &Table, name: &str) -> Table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, table.to_bytes().unwrap()).unwrap();
        Table::read(&path, &ReadOptions::default()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = |t: &[&str]| Column::Text(t.iter().map(|t| Some((*t).to_owned())).collect());
        let columns = vec![
            ("x, y".to_owned(), Column::Number(vec![0.1, -1e-300, 3.0])),
            ("says \"so\"".to_owned(), text(&["a,b", "c\"d", "e\nf"])),
            ("flag".to_owned(), Column::Bool(vec![Some(true), Some(false), Some(true)])),
        ];
        let table = Table::from_columns(columns).unwrap();
        let back = read_back(&table, "t.csv");
        assert!(table.columns().zip(back.columns()).all(|(a, b)| a == b), "{back:?}");
        let shape = Shape::Image { channels: 2, height: 1, width: 3 };
        let images = Images { shape, pixels: (0..12).map(|i| i as f32 / 7.0).collect() };
        let table = Table::from_images(images, Some(("label".into(), Column::Number(vec![3.0, 8.0])))).unwrap();
        let back = read_back(&table, "t.npz");
        assert_eq!(back.images(), table.images());
        assert_eq!(back.column("label").unwrap(), table.column("label").unwrap());
    }
}
