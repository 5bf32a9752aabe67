//! Parquet: flat columns of numbers, text, yes/no, and dates, column by column. Dates and timestamps become ISO text, as other files have them.

use super::dates::iso;
use super::parquet_footer;
use super::table::{Column, Table, one_line, request, show};
use crate::error::{Error, Result};
use crate::memory::array;
use ::parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType, Int96};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Rows asked for at a time.
const CHUNK: usize = 65_536;

pub(super) fn read(path: &Path) -> Result<Table> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    if let Some(footer) = footer(&file).map_err(|e| Error::io("read", path, e))? {
        parquet_footer::check(&footer).map_err(damaged)?;
    }
    let pages = file.try_clone().map_err(|e| Error::io("read", path, e))?;
    // The decoder of the `parquet` crate is not free of panics on damaged pages.
    catch_unwind(AssertUnwindSafe(|| table(file, &pages)))
        .unwrap_or_else(|_| Err(damaged("its pages contradict its header")))
}

/// The footer's bytes, where the file ends as a Parquet file does; nothing where the crate will say what is wrong.
fn footer(mut file: &File) -> std::io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    let mut end = [0; 8];
    if size < 12 {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut end)?;
    let [a, b, c, d, b'P', b'A', b'R', b'1'] = end else { return Ok(None) };
    let length = u32::from_le_bytes([a, b, c, d]);
    if u64::from(length) > size - 8 {
        return Ok(None);
    }
    let mut footer = vec![0; length as usize];
    file.seek(SeekFrom::End(-8 - i64::from(length)))?;
    file.read_exact(&mut footer)?;
    file.rewind()?;
    Ok(Some(footer))
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::data(format!("the Parquet file is damaged ({})", one_line(error)), "write it again")
}

/// Bytes of a page's header that are read at first; most are shorter.
const HEADER: u64 = 4096;

/// Asks for the memory of the largest page between two places of the file: its header says what it unpacks to, and the crate believes it.
fn check_pages(mut file: &File, start: u64, length: u64) -> Result<()> {
    let (mut at, size) = (start, file.metadata().map_err(damaged)?.len());
    let end = start.saturating_add(length).min(size);
    let mut bytes = Vec::new();
    while at < end {
        let mut header = Err("its header is cut short");
        for most in [HEADER, end - at] {
            bytes.resize(most.min(end - at) as usize, 0);
            file.seek(SeekFrom::Start(at)).map_err(damaged)?;
            file.read_exact(&mut bytes).map_err(damaged)?;
            header = parquet_footer::page_header(&bytes);
            if header.is_ok() || most >= end - at {
                break;
            }
        }
        let header = header.map_err(damaged)?;
        request(u128::from(header.unpacked))?;
        at = at.saturating_add(header.length as u64).saturating_add(header.packed);
    }
    Ok(())
}

fn table(file: File, pages_of: &File) -> Result<Table> {
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    for descriptor in schema.columns() {
        let top = descriptor.path().parts().first().map_or("", String::as_str);
        supported(descriptor).map_err(|e| e.in_column(&show(top)))?;
    }
    // The crate asserts these where it should return an error.
    let chunks = reader.metadata().row_groups().iter().flat_map(|g| g.columns());
    let negative = chunks.into_iter().any(|c| {
        c.data_page_offset() < 0 || c.compressed_size() < 0 || c.dictionary_page_offset().is_some_and(|o| o < 0)
    });
    if negative {
        return Err(damaged("a column begins before the file does"));
    }
    // What the file says of itself, before anything is read; what it then turns out to hold is counted as it comes.
    let rows = reader.metadata().row_groups().iter().map(|g| u128::try_from(g.num_rows()).unwrap_or(0)).sum::<u128>();
    let pages = reader.metadata().row_groups().iter().flat_map(|g| g.columns()).map(|c| c.uncompressed_size()).max();
    let table = rows.saturating_mul(array::<f64>(&[schema.num_columns()]));
    request(table.saturating_add(u128::try_from(pages.unwrap_or(0)).unwrap_or(0)))?;
    let mut columns: Vec<Column> = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(damaged)?;
        for (i, descriptor) in schema.columns().iter().enumerate() {
            let (start, length) = group.metadata().column(i).byte_range();
            check_pages(pages_of, start, length).map_err(|e| e.in_column(&show(descriptor.name())))?;
            let values = group.get_column_reader(i).map_err(damaged)?;
            let before = columns.get(i).map_or(0, Column::len);
            let part = column(values, descriptor, before).map_err(|e| e.in_column(&show(descriptor.name())))?;
            match columns.get_mut(i) {
                None => columns.push(part),
                Some(whole) => append(whole, part),
            }
        }
    }
    let names = schema.columns().iter().map(|d| d.name().to_owned());
    if columns.is_empty() {
        return Err(Error::data("the file has no rows", "add rows of data"));
    }
    Table::from_columns(names.zip(columns).collect())
}

/// Times of day and nested values are refused by name.
fn supported(descriptor: &ColumnDescriptor) -> Result<()> {
    if descriptor.path().parts().len() != 1 || descriptor.max_rep_level() > 0 {
        return Err(Error::data("the column holds lists or records", "flatten it, or leave it out of the file"));
    }
    let time = matches!(descriptor.logical_type_ref(), Some(LogicalType::Time(_)))
        || matches!(
            descriptor.converted_type(),
            ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS | ConvertedType::INTERVAL
        );
    if time {
        let fix = "turn it into numbers (hour of the day), or leave it out of the file";
        return Err(Error::data("the column holds times of day", fix));
    }
    let bytes = descriptor.physical_type() == ::parquet::basic::Type::FIXED_LEN_BYTE_ARRAY
        || (descriptor.physical_type() == ::parquet::basic::Type::BYTE_ARRAY && decimal(descriptor));
    if bytes {
        return Err(Error::data("the column holds raw bytes", "write it as numbers (float64) or as text"));
    }
    Ok(())
}

fn decimal(descriptor: &ColumnDescriptor) -> bool {
    matches!(descriptor.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || descriptor.converted_type() == ConvertedType::DECIMAL
}

/// Ticks in a day of a column of dates or timestamps.
fn ticks(descriptor: &ColumnDescriptor) -> Option<f64> {
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => Some(1.0),
        (Some(LogicalType::Timestamp(t)), _) => Some(match t.unit {
            TimeUnit::MILLIS => 86_400e3,
            TimeUnit::MICROS => 86_400e6,
            TimeUnit::NANOS => 86_400e9,
        }),
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some(86_400e3),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some(86_400e6),
        _ if descriptor.physical_type() == Type::INT96 => Some(86_400e9),
        _ => None,
    }
}

/// Dates as text.
fn dates<T: DataType>(
    reader: ColumnReaderImpl<T>,
    level: i16,
    before: usize,
    day: impl Fn(&T::T) -> f64,
    with_time: bool,
) -> Result<Column> {
    let found = values(reader, level, before, |v| iso(day(v), with_time), |_| 26)?;
    let text = |(row, date): (usize, Option<Option<String>>)| match date {
        Some(None) => {
            let what = "the date lies outside the years 1 to 9999";
            Err(Error::data(what, "correct it, or leave it empty").on_line((before + row) as u64 + 1))
        }
        date => Ok(date.flatten()),
    };
    Ok(Column::Text(found.into_iter().enumerate().map(text).collect::<Result<_>>()?))
}

fn unsigned(descriptor: &ColumnDescriptor) -> bool {
    matches!(descriptor.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed)
        || matches!(descriptor.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64)
}

/// A column chunk, after `before` rows of the same column.
fn column(reader: ColumnReader, descriptor: &ColumnDescriptor, before: usize) -> Result<Column> {
    let unit = if decimal(descriptor) { 10f64.powi(-descriptor.type_scale()) } else { 1.0 };
    let unsigned = unsigned(descriptor);
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    let level = descriptor.max_def_level();
    if let Some(ticks) = ticks(descriptor) {
        match reader {
            ColumnReader::Int32ColumnReader(r) => {
                return dates(r, level, before, |v| f64::from(*v) / ticks, ticks > 1.0);
            }
            ColumnReader::Int64ColumnReader(r) => return dates(r, level, before, |v| *v as f64 / ticks, ticks > 1.0),
            ColumnReader::Int96ColumnReader(r) => {
                // Nanoseconds of the day, and the Julian day, whose number is 2 440 588 on 1970-01-01.
                let day = |v: &Int96| {
                    let d = v.data();
                    let nanos = u64::from(d[0]) | (u64::from(d[1]) << 32);
                    f64::from(d[2]) - 2_440_588.0 + nanos as f64 / ticks
                };
                return dates(r, level, before, day, true);
            }
            _ => return Err(Error::data("the column holds dates in an unknown form", "write it as text")),
        }
    }
    Ok(match reader {
        ColumnReader::BoolColumnReader(r) => Column::Bool(values(r, level, before, |v| *v, |_| 0)?),
        ColumnReader::Int32ColumnReader(r) => {
            let read = |v: &i32| if unsigned { f64::from(*v as u32) } else { f64::from(*v) * unit };
            Column::Number(values(r, level, before, read, |_| 0)?.into_iter().map(number).collect())
        }
        ColumnReader::Int64ColumnReader(r) => {
            let read = |v: &i64| if unsigned { *v as u64 as f64 } else { *v as f64 * unit };
            Column::Number(values(r, level, before, read, |_| 0)?.into_iter().map(number).collect())
        }
        ColumnReader::FloatColumnReader(r) => {
            Column::Number(values(r, level, before, |v| f64::from(*v), |_| 0)?.into_iter().map(number).collect())
        }
        ColumnReader::DoubleColumnReader(r) => {
            Column::Number(values(r, level, before, |v| *v, |_| 0)?.into_iter().map(number).collect())
        }
        ColumnReader::ByteArrayColumnReader(r) => {
            let utf8 = |v: &ByteArray| v.as_utf8().map(str::to_owned).ok();
            let texts = values(r, level, before, utf8, |v: &ByteArray| v.len())?;
            let mut column = Vec::with_capacity(texts.len());
            for (row, text) in texts.into_iter().enumerate() {
                column.push(match text {
                    Some(None) => {
                        let what = "the text is not UTF-8";
                        return Err(Error::data(what, "write the column as UTF-8 text").on_line(row as u64 + 1));
                    }
                    Some(text) => text,
                    None => None,
                });
            }
            Column::Text(column)
        }
        _ => return Err(Error::data("the column holds raw bytes", "write it as numbers (float64) or as text")),
    })
}

/// All values of a column chunk, after `before` rows; none where the definition level says null. `text` is the length of a value's text.
fn values<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    max_level: i16,
    before: usize,
    convert: impl Fn(&T::T) -> V,
    text: impl Fn(&T::T) -> usize,
) -> Result<Vec<Option<V>>> {
    let mut out = Vec::new();
    let mut texts = 0;
    let (mut levels, mut chunk) = (Vec::new(), Vec::new());
    loop {
        levels.clear();
        chunk.clear();
        let wanted = (max_level > 0).then_some(&mut levels);
        let (records, _, _) =
            reader.read_records(CHUNK, wanted, None, &mut chunk).map_err(|e: ParquetError| damaged(e))?;
        if records == 0 {
            return Ok(out);
        }
        // Run lengths and dictionaries make many rows of few bytes. Twice the values: a list that grows is copied.
        texts += chunk.iter().map(&text).sum::<usize>();
        request(array::<(Option<V>, Option<V>)>(&[before + out.len() + records]).saturating_add(texts as u128))?;
        if max_level == 0 {
            out.extend(chunk.iter().map(|v| Some(convert(v))));
            continue;
        }
        let mut present = chunk.iter();
        for level in &levels {
            out.push(if *level == max_level { present.next().map(&convert) } else { None });
        }
    }
}

fn append(whole: &mut Column, part: Column) {
    match (whole, part) {
        (Column::Number(a), Column::Number(b)) => a.extend(b),
        (Column::Text(a), Column::Text(b)) => a.extend(b),
        (Column::Bool(a), Column::Bool(b)) => a.extend(b),
        _ => {} // one descriptor gives one kind of column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ReadOptions;
    use ::parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
    use ::parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    type Group<'a> = SerializedRowGroupWriter<'a, File>;

    fn put<T: DataType>(group: &mut Group<'_>, values: &[T::T], levels: Option<&[i16]>) {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(values, levels, None).unwrap();
        column.close().unwrap();
    }

    fn written(schema: &str, groups: usize, fill: impl Fn(&mut Group<'_>)) -> (tempfile::TempDir, Result<Table>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
        for _ in 0..groups {
            let mut group = writer.next_row_group().unwrap();
            fill(&mut group);
            group.close().unwrap();
        }
        writer.close().unwrap();
        let table = Table::read(&path, &ReadOptions::default());
        (folder, table)
    }

    fn message(schema: &str, groups: usize, fill: impl Fn(&mut Group<'_>)) -> String {
        let (folder, table) = written(schema, groups, fill);
        table.unwrap_err().to_string().replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn flat_columns_of_two_row_groups() {
        let schema =
            "message t { OPTIONAL DOUBLE x; REQUIRED INT32 n; OPTIONAL BYTE_ARRAY s (UTF8); REQUIRED BOOLEAN b;
            REQUIRED INT64 d (DECIMAL(9,2)); REQUIRED INT32 u (UINT_32); }";
        let (_folder, table) = written(schema, 2, |g| {
            put::<DoubleType>(g, &[1.5], Some(&[1, 0]));
            put::<Int32Type>(g, &[1, -2], None);
            put::<ByteArrayType>(g, &["é".into()], Some(&[0, 1]));
            put::<BoolType>(g, &[true, false], None);
            put::<Int64Type>(g, &[125, 250], None);
            put::<Int32Type>(g, &[-1, 1], None);
        });
        let t = table.unwrap();
        assert_eq!(t.rows(), 4);
        assert_eq!(t.column("x").unwrap().text(2), Some("1.5".into()));
        assert!(t.column("x").unwrap().is_missing(3));
        assert_eq!(t.column("n").unwrap(), &Column::Number(vec![1.0, -2.0, 1.0, -2.0]));
        assert_eq!(t.column("s").unwrap(), &Column::Text(vec![None, Some("é".into()), None, Some("é".into())]));
        assert_eq!(t.column("b").unwrap(), &Column::Bool(vec![Some(true), Some(false), Some(true), Some(false)]));
        assert_eq!(t.column("d").unwrap(), &Column::Number(vec![1.25, 2.5, 1.25, 2.5]));
        assert_eq!(t.column("u").unwrap(), &Column::Number(vec![4294967295.0, 1.0, 4294967295.0, 1.0]));
    }

    #[test]
    fn dates_and_timestamps_are_iso_text() {
        let schema = "message t { OPTIONAL INT32 day (DATE); REQUIRED INT64 at (TIMESTAMP_MILLIS);
            REQUIRED INT64 us (TIMESTAMP(MICROS,true)); }";
        let (_folder, table) = written(schema, 1, |g| {
            put::<Int32Type>(g, &[19_782], Some(&[1, 0]));
            put::<Int64Type>(g, &[19_782 * 86_400_000 + 3_661_000, -1], None);
            put::<Int64Type>(g, &[0, 1], None);
        });
        let t = table.unwrap();
        let text = |name: &str, row: usize| t.column(name).unwrap().text(row);
        assert_eq!((text("day", 0), text("day", 1)), (Some("2024-02-29".into()), None));
        assert_eq!(text("at", 0).as_deref(), Some("2024-02-29T01:01:01.000000"));
        assert_eq!(text("at", 1).as_deref(), Some("1969-12-31T23:59:59.999000"));
        assert_eq!(text("us", 1).as_deref(), Some("1970-01-01T00:00:00.000001"));
    }

    #[test]
    fn what_cannot_be_a_column_gets_one_sentence() {
        let time = "message t { REQUIRED INT32 t (TIME_MILLIS); }";
        assert_eq!(
            message(time, 1, |g| put::<Int32Type>(g, &[1], None)),
            "t.parquet, column 't': the column holds times of day; turn it into numbers (hour of the day), or leave it out of the file"
        );
        let far = "message t { REQUIRED INT32 day (DATE); }";
        assert_eq!(
            message(far, 1, |g| put::<Int32Type>(g, &[1, i32::MAX], None)),
            "t.parquet, line 2, column 'day': the date lies outside the years 1 to 9999; correct it, or leave it empty"
        );
        let nested = "message t { REQUIRED GROUP place { REQUIRED DOUBLE x; } }";
        assert_eq!(
            message(nested, 1, |g| put::<DoubleType>(g, &[1.0], None)),
            "t.parquet, column 'place': the column holds lists or records; flatten it, or leave it out of the file"
        );
        let text = "message t { REQUIRED BYTE_ARRAY s; }";
        assert_eq!(
            message(text, 1, |g| put::<ByteArrayType>(g, &[vec![255u8].into()], None)),
            "t.parquet, line 1, column 's': the text is not UTF-8; write the column as UTF-8 text"
        );
        let number = "message t { REQUIRED DOUBLE x; }";
        assert_eq!(
            message(number, 1, |g| put::<DoubleType>(g, &[1.0, f64::NEG_INFINITY], None)),
            "t.parquet, line 2, column 'x': -inf is not finite; correct the cell, or leave it empty if the value is missing"
        );
        assert_eq!(message(number, 0, |_| ()), "t.parquet: the file has no rows; add rows of data");
        let raw = "message t { REQUIRED FIXED_LEN_BYTE_ARRAY(4) s; }";
        assert_eq!(
            message(raw, 0, |_| ()),
            "t.parquet, column 's': the column holds raw bytes; write it as numbers (float64) or as text"
        );
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, b"PAR1 and nothing more").unwrap();
        let text = Table::read(&path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(text.contains("t.parquet: the Parquet file is damaged ("), "{text}");
        assert!(text.ends_with("); write it again"), "{text}");
    }
}
