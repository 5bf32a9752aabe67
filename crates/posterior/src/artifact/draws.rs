//! Draws of a model as Parquet: a row for each, with columns `chain`, `draw`, what the chain tells of it, and the parameters.
//!
//! A model with up to [`PLAIN`] parameters has a column of numbers for each, `0.weight[2,7]`, counted from 0 by the shape of its block, as
//! ArviZ names them; of a larger one every block is a column of lists, row-major. Rows are written in groups, so that memory
//! stays small.

use super::write::write_with;
use crate::error::Result;
use crate::model::Model;
use crate::nn::{Block, Mode};
use crate::posterior::{Chain, Draw};
use crate::problem::full_layout;
use crate::rng::{Key, Purpose};
use parquet::basic::Compression;
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Parameters up to which each has a column of its own.
pub const PLAIN: usize = 2000;
/// Numbers of a row group, about.
const GROUP: usize = 1 << 22;

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenDraws {
    /// Chains; 1 for a posterior without.
    pub chains: usize,
    /// Rows.
    pub draws: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// Where a row comes from.
struct Row<'a> {
    chain: i32,
    draw: i32,
    of: Option<(&'a Chain, usize)>,
}

/// Writes all draws of a model's chains, or `draws` draws of another posterior as chain 0.
pub fn write_draws(model: &Model, draws: usize, key: Key, path: &Path) -> Result<WrittenDraws> {
    let fit = model.network("draws of weights are written")?;
    let chains = fit.posterior.chains();
    let rows: Vec<Row<'_>> = match chains {
        Some(chains) => {
            let of = |(c, chain)| {
                (0..Chain::draws(chain)).map(move |i| Row { chain: c as i32, draw: i as i32, of: Some((chain, i)) })
            };
            chains.chains.iter().enumerate().flat_map(of).collect()
        }
        None => (0..fit.distinct(draws)).map(|i| Row { chain: 0, draw: i as i32, of: None }).collect(),
    };
    let layout = full_layout(&*fit.network, &*fit.likelihood);
    let columns = Columns {
        blocks: layout.blocks(),
        plain: layout.len() <= PLAIN,
        log_density: chains.is_some(),
        energy: chains.is_some_and(|c| c.chains.iter().all(|c| !c.energy.is_empty())),
    };
    let written = |e: ParquetError| std::io::Error::other(e.to_string());
    write_with(path, |file| {
        let schema = columns.schema().map_err(written)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = SerializedFileWriter::new(file.try_clone()?, schema, Arc::new(properties)).map_err(written)?;
        let mut draw = Draw { w: vec![0.0; layout.len()], mode: Mode::Plain };
        let names_draws = key.purpose(Purpose::Draw);
        for (g, part) in rows.chunks((GROUP / layout.len().max(1)).max(1)).enumerate() {
            let first = g * (GROUP / layout.len().max(1)).max(1);
            let mut w = Vec::with_capacity(part.len() * layout.len());
            for (i, row) in part.iter().enumerate() {
                match row.of {
                    Some((chain, i)) => w.extend_from_slice(chain.draw(i)),
                    None => {
                        let s = first + i;
                        fit.posterior.draw_of_into(s, rows.len(), names_draws.step(s as u64), &mut draw);
                        w.extend_from_slice(&draw.w);
                    }
                }
            }
            let mut group = writer.next_row_group().map_err(written)?;
            columns.write(part, &w, &mut group).map_err(written)?;
            group.close().map_err(written)?;
        }
        writer.close().map_err(written)?;
        Ok(())
    })?;
    Ok(WrittenDraws { chains: chains.map_or(1, |c| c.chains.len()), draws: rows.len(), columns: columns.names() })
}

/// Which columns there are.
struct Columns<'a> {
    blocks: &'a [Block],
    plain: bool,
    log_density: bool,
    energy: bool,
}

impl Columns<'_> {
    /// Those in front of the parameters.
    fn leading(&self) -> Vec<&'static str> {
        let optional = [("log_density", self.log_density), ("energy", self.energy)];
        ["chain", "draw"].into_iter().chain(optional.iter().filter(|o| o.1).map(|o| o.0)).collect()
    }

    fn names(&self) -> Vec<String> {
        let blocks = self.blocks.iter().flat_map(|b| if self.plain { elements(b) } else { vec![b.name.clone()] });
        self.leading().into_iter().map(str::to_owned).chain(blocks).collect()
    }

    fn schema(&self) -> std::result::Result<TypePtr, ParquetError> {
        use parquet::basic::{LogicalType, Repetition, Type as Physical};
        let column = |name: &str, physical| {
            Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED).build().map(Arc::new)
        };
        let mut fields = vec![column("chain", Physical::INT32)?, column("draw", Physical::INT32)?];
        for name in &self.leading()[2..] {
            fields.push(column(name, Physical::DOUBLE)?);
        }
        for block in self.blocks {
            if self.plain {
                for name in elements(block) {
                    fields.push(column(&name, Physical::FLOAT)?);
                }
                continue;
            }
            let group = |name: &str, repetition, inside, logical: Option<LogicalType>| {
                Type::group_type_builder(name)
                    .with_repetition(repetition)
                    .with_fields(vec![inside])
                    .with_logical_type(logical)
                    .build()
                    .map(Arc::new)
            };
            let list = group("list", Repetition::REPEATED, column("element", Physical::FLOAT)?, None)?;
            fields.push(group(&block.name, Repetition::REQUIRED, list, Some(LogicalType::List))?);
        }
        Ok(Arc::new(Type::group_type_builder("draws").with_fields(fields).build()?))
    }

    fn write(
        &self,
        rows: &[Row<'_>],
        w: &[f32],
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> std::result::Result<(), ParquetError> {
        put::<Int32Type>(group, &rows.iter().map(|r| r.chain).collect::<Vec<_>>(), None)?;
        put::<Int32Type>(group, &rows.iter().map(|r| r.draw).collect::<Vec<_>>(), None)?;
        for name in &self.leading()[2..] {
            let of =
                |(chain, i): (&Chain, usize)| if *name == "energy" { chain.energy[i] } else { chain.log_density[i] };
            put::<DoubleType>(group, &rows.iter().filter_map(|r| r.of.map(of)).collect::<Vec<_>>(), None)?;
        }
        let dim = w.len() / rows.len().max(1);
        let mut values = Vec::new();
        for block in self.blocks {
            if self.plain {
                for p in block.range.clone() {
                    values.clear();
                    values.extend(w.iter().skip(p).step_by(dim));
                    put::<FloatType>(group, &values, None)?;
                }
                continue;
            }
            values.clear();
            values.extend(w.chunks(dim).flat_map(|w| &w[block.range.clone()]));
            let size = block.range.len();
            let repetition: Vec<i16> = (0..values.len()).map(|i| i16::from(i % size > 0)).collect();
            put::<FloatType>(group, &values, Some(&repetition))?;
        }
        Ok(())
    }
}

/// `name[i,j]` of every element of a block.
fn elements(block: &Block) -> Vec<String> {
    let of = |mut i: usize| {
        let mut index: Vec<String> = Vec::new();
        for size in block.shape.iter().rev() {
            index.push((i % size).to_string());
            i /= size;
        }
        index.reverse();
        if index.is_empty() { block.name.clone() } else { format!("{}[{}]", block.name, index.join(",")) }
    };
    (0..block.range.len()).map(of).collect()
}

/// Writes the next column; `repetition` where it holds lists, none of which is empty.
fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    repetition: Option<&[i16]>,
) -> std::result::Result<(), ParquetError> {
    let missing = || ParquetError::General("there are more columns than the schema has".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let defined = repetition.map(|r| vec![1; r.len()]);
    column.typed::<T>().write_batch(values, defined.as_deref(), repetition)?;
    column.close()
}
