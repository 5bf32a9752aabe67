//! NPY and NPZ, the formats of NumPy: columns from arrays of one or two dimensions, images from three or four.

use super::table::{Column, FEWER_ROWS, Images, Table, one_line, request, show};
use crate::error::{Error, Result};
use crate::memory::{Refusal, array, read_all};
use crate::nn::Shape;
use npyz::{NpyFile, Order, WriterBuilder};
use std::io::Read;
use std::io::Write;

/// An array in C order, its first dimension the rows.
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
    /// Whether the numbers were unsigned bytes.
    bytes: bool,
}

impl Array {
    fn rows(&self) -> usize {
        self.shape[0]
    }
}

pub(super) fn read_npy(bytes: &[u8]) -> Result<Table> {
    let array = parse(bytes)?;
    match array.shape.len() {
        1 | 2 => Table::from_columns(columns(array, |i| format!("c{i}"))),
        _ => Table::from_images(images(array)?, None),
    }
}

pub(super) fn read_npz(bytes: &[u8]) -> Result<Table> {
    let damaged = |e: &dyn std::fmt::Display| {
        Error::data(format!("the NPZ archive is damaged ({})", one_line(e)), "write it again")
    };
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).map_err(|e| damaged(&e))?;
    let mut arrays: Vec<(String, Array)> = Vec::new();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| damaged(&e))?;
        let file = entry.name().map_err(|e| damaged(&e))?.into_owned();
        let Some(name) = npyz::npz::array_name_from_file_name(&file) else { continue };
        let content = read_all(&mut entry, "the unpacked archive", FEWER_ROWS).map_err(|e| match e {
            Refusal::Io(e) => damaged(&e),
            Refusal::Memory(e) => e,
        })?;
        let array = parse(&content).map_err(|e| e.in_column(&show(name)))?;
        if let Some((first, other)) = arrays.first()
            && other.rows() != array.rows()
        {
            let (first, name, n, m) = (show(first), show(name), other.rows(), array.rows());
            let what = format!("array '{first}' has {n} rows and array '{name}' has {m}");
            return Err(Error::data(what, "save arrays of one length"));
        }
        arrays.push((name.to_owned(), array));
    }
    if arrays.is_empty() {
        return Err(Error::data("the archive holds no arrays", "save it with numpy.savez"));
    }
    let Some(at) = arrays.iter().position(|(_, a)| a.shape.len() > 2) else {
        let named = arrays.into_iter().flat_map(|(name, array)| {
            let flat = array.shape.len() == 1;
            columns(array, move |i| if flat { name.clone() } else { format!("{name}_{i}") })
        });
        return Table::from_columns(named.collect());
    };
    let block = images(arrays.swap_remove(at).1)?;
    let mut rest = arrays.into_iter();
    match (rest.next(), rest.next()) {
        (None, _) => Table::from_images(block, None),
        (Some((name, array)), None) if array.shape.len() == 1 => {
            Table::from_images(block, Some((name, Column::Number(array.values))))
        }
        _ => Err(Error::data("beside images there may be one array of labels and nothing else", "save only these two")),
    }
}

/// Images as an array `x`, rows × channels × height × width, beside an array of their labels.
pub(super) fn write_npz(images: &Images, label: Option<(&str, &Column)>) -> Result<Vec<u8>> {
    let failed = |e: &dyn std::fmt::Display| {
        Error::data(format!("the images cannot be written ({})", one_line(e)), "report this as a bug")
    };
    let Shape::Image { channels, height, width } = images.shape else { return Err(failed(&"no images")) };
    let rows = images.pixels.len() / images.shape.len();
    let mut arrays = Vec::new();
    let mut bytes = Vec::new();
    let shape = [rows, channels, height, width].map(|n| n as u64);
    write_array(&mut bytes, &shape, images.pixels.iter().copied()).map_err(|e| failed(&e))?;
    arrays.push(("x".to_owned(), bytes));
    if let Some((name, column)) = label {
        let Column::Number(values) = column else { return Err(failed(&"labels must be numbers")) };
        let mut bytes = Vec::new();
        write_array(&mut bytes, &[rows as u64], values.iter().copied()).map_err(|e| failed(&e))?;
        arrays.push((name.to_owned(), bytes));
    }
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        writer.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).map_err(|e| failed(&e))?;
        writer.write_all(&bytes).map_err(|e| failed(&e))?;
    }
    Ok(writer.finish().map_err(|e| failed(&e))?.into_inner())
}

fn write_array<T: npyz::AutoSerialize>(
    bytes: &mut Vec<u8>,
    shape: &[u64],
    values: impl Iterator<Item = T>,
) -> std::io::Result<()> {
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(shape).writer(bytes).begin_nd()?;
    writer.extend(values)?;
    writer.finish()
}

fn columns(array: Array, name: impl Fn(usize) -> String) -> Vec<(String, Column)> {
    let width = array.shape.get(1).copied().unwrap_or(1);
    let column = |i: usize| Column::Number(array.values.iter().skip(i).step_by(width.max(1)).copied().collect());
    (0..width).map(|i| (name(i), column(i))).collect()
}

fn images(array: Array) -> Result<Images> {
    let (channels, height, width) = match array.shape[..] {
        [_, h, w] => (1, h, w),
        [_, c, h, w] => (c, h, w),
        _ => {
            let what = format!("an array of {} dimensions cannot be a table or images", array.shape.len());
            return Err(Error::data(
                what,
                "give rows × columns, rows × height × width or rows × channels × height × width",
            ));
        }
    };
    let scale = if array.bytes { 1.0 / 255.0 } else { 1.0 };
    let pixels = array.values.iter().map(|v| (v * scale) as f32).collect();
    Ok(Images { shape: Shape::Image { channels, height, width }, pixels })
}

fn parse(bytes: &[u8]) -> Result<Array> {
    guard(bytes, bytes.len() as u64)?;
    let damaged =
        |e: std::io::Error| Error::data(format!("the NPY data is damaged ({})", one_line(e)), "write it again");
    let file = NpyFile::new(bytes).map_err(damaged)?;
    let shape: Vec<usize> = file.shape().iter().map(|d| *d as usize).collect();
    let (order, dtype) = (file.order(), file.dtype());
    if shape.is_empty() {
        return Err(Error::data("the array is a single number", "give an array of rows"));
    }
    if shape[0] == 0 {
        return Err(Error::data("the array has no rows", "give rows × columns"));
    }
    if shape[1..].contains(&0) {
        return Err(Error::data("the array has no columns", "give rows × columns"));
    }
    // The numbers, and once more in another order or as columns.
    request(array::<(f64, f64)>(&shape))?;
    let mut values: Option<std::io::Result<Vec<f64>>> = None;
    let mut file = Some(file);
    macro_rules! of {
        ($($t:ty),*) => {$(
            if let Some(f) = file.take() {
                match f.try_data::<$t>() {
                    Ok(data) => values = Some(data.map(|v| v.map(|v| v as f64)).collect()),
                    Err(f) => file = Some(f),
                }
            }
        )*};
    }
    of!(f64, f32, u8, i8, u16, i16, u32, i32, u64, i64);
    if let Some(f) = file
        && let Ok(data) = f.try_data::<bool>()
    {
        values = Some(data.map(|v| v.map(|v| f64::from(u8::from(v)))).collect());
    }
    let Some(values) = values else {
        let what = format!("the array holds {}, not numbers", show(&dtype.descr()));
        return Err(Error::data(what, "save it as float64"));
    };
    let values = values.map_err(|_| Error::data("the NPY data is cut short", "write it again"))?;
    let values = if order == Order::Fortran && shape.len() > 1 { c_order(&values, &shape) } else { values };
    Ok(Array { shape, values, bytes: dtype.descr().ends_with("u1'") })
}

fn c_order(values: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut index = vec![0; shape.len()];
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        let at = index.iter().zip(shape).rev().fold(0, |at, (i, n)| at * n + i);
        out.push(values[at]);
        for (i, n) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// The kinds of numbers that are read where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    F32,
    F64,
}

impl Numbers {
    pub fn size(self) -> usize {
        match self {
            Numbers::F32 => 4,
            Numbers::F64 => 8,
        }
    }
}

/// What a file says of the array in it.
pub(super) struct OpenArray {
    pub shape: Vec<usize>,
    pub numbers: Numbers,
    /// Where the numbers begin.
    pub start: u64,
}

/// Brackets within brackets of a header; arrays of records have three.
const DEEPEST: usize = 6;
/// Longest header that is read.
const HEADER: u64 = 65_536 + 12;

/// Reads the header of a file of `length` bytes whose numbers stay where they are.
pub(super) fn open(file: &mut impl Read, length: u64) -> Result<OpenArray> {
    let cut = |_| Error::data("the NPY header is cut short", "write it again");
    let mut bytes = Vec::new();
    file.take(HEADER).read_to_end(&mut bytes).map_err(cut)?;
    let start = guard(&bytes, length)?;
    let header = npyz::NpyHeader::from_reader(&bytes[..])
        .map_err(|e| Error::data(format!("the NPY header is damaged ({})", one_line(e)), "write it again"))?;
    let shape: Vec<usize> = header.shape().iter().map(|d| *d as usize).collect();
    let kind = header.dtype().descr();
    let numbers = match kind.trim_matches('\'') {
        "<f4" => Numbers::F32,
        "<f8" => Numbers::F64,
        _ => {
            let what = format!("the array holds {}, which is not read from disk", show(&kind));
            return Err(Error::data(what, "save it as float32 or float64"));
        }
    };
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err(Error::data("the array is in Fortran order", "save numpy.ascontiguousarray of it"));
    }
    if shape.is_empty() || shape.contains(&0) {
        return Err(Error::data("the array has no rows or no columns", "give rows × columns"));
    }
    if shape[0] > u32::MAX as usize {
        return Err(Error::data(format!("the array has {} rows", shape[0]), "give fewer than 2³²"));
    }
    let needed = shape.iter().try_fold(numbers.size() as u64, |n, d| n.checked_mul(*d as u64));
    if needed.and_then(|n| n.checked_add(start)).is_none_or(|n| n > length) {
        return Err(Error::data("the NPY data is cut short", "write it again"));
    }
    Ok(OpenArray { shape, numbers, start })
}

/// Checks a header before `npyz` sees it: its parser descends without limit, and multiplies dimensions unchecked.
///
/// `bytes` are the first ones of a file of `total`; returns where its numbers begin.
fn guard(bytes: &[u8], total: u64) -> Result<u64> {
    let damaged = |what: &str| Err(Error::data(format!("the NPY header {what}"), "write it again"));
    let (start, length) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        _ => return damaged("is damaged"),
    };
    let Some((header, _)) = bytes[start..].split_at_checked(length) else { return damaged("is cut short") };
    let (start, data) = ((start + length) as u64, total.saturating_sub((start + length) as u64));
    if length > 65_536 {
        return damaged("is too long");
    }
    let Ok(text) = std::str::from_utf8(header) else { return damaged("is damaged") };
    let mut parts = text.split("shape");
    let (Some(_), Some(rest), None) = (parts.next(), parts.next(), parts.next()) else { return damaged("is damaged") };
    // A parser that tries a dictionary, then a set, and a list's last entry twice, takes two steps for one at every level.
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let inside = rest.split_once('(').and_then(|(_, r)| r.split_once(')'));
    let Some((dimensions, _)) = inside.filter(|_| deepest <= DEEPEST && !text.contains('\\')) else {
        return damaged("is damaged");
    };
    let mut total = 1u64;
    for part in dimensions.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let Ok(length) = part.trim_end_matches('L').parse::<u64>() else { return damaged("is damaged") };
        total = total.saturating_mul(length.max(1));
    }
    // Every number takes a byte at least.
    if total > data.max(1) && !dimensions.split(',').any(|p| p.trim() == "0") {
        return Err(Error::data("the NPY data is cut short", "write it again"));
    }
    if total > u64::from(u32::MAX).max(data) { damaged("announces an impossible size") } else { Ok(start) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn npy<T: npyz::AutoSerialize + Copy>(shape: &[u64], order: Order, values: &[T]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order).writer(&mut bytes);
        let mut writer = options.begin_nd().unwrap();
        writer.extend(values.iter().copied()).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in arrays {
            writer.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn number(table: &Table, name: &str) -> Vec<f64> {
        let Column::Number(v) = table.column(name).unwrap() else { panic!() };
        v.clone()
    }

    #[test]
    fn every_kind_of_number_in_both_orders() {
        macro_rules! check {
            ($($t:ty),*) => {$(
                let t = read_npy(&npy(&[2, 3], Order::C, &[1 as $t, 2 as $t, 3 as $t, 4 as $t, 5 as $t, 6 as $t])).unwrap();
                assert_eq!((t.rows(), number(&t, "c1")), (2, vec![2.0, 5.0]));
                let t = read_npy(&npy(&[2, 3], Order::Fortran, &[1 as $t, 4 as $t, 2 as $t, 5 as $t, 3 as $t, 6 as $t])).unwrap();
                assert_eq!((number(&t, "c0"), number(&t, "c2")), (vec![1.0, 4.0], vec![3.0, 6.0]));
            )*};
        }
        check!(f64, f32, i8, u8, i16, u16, i32, u32, i64, u64);
        let t = read_npy(&npy(&[2], Order::C, &[true, false])).unwrap();
        assert_eq!(number(&t, "c0"), [1.0, 0.0]);
    }

    #[test]
    fn archives_become_columns_or_images() {
        let t = read_npz(&npz(&[
            ("x", npy(&[2, 2], Order::C, &[1.0, 2.0, 3.0, 4.0])),
            ("y", npy(&[2], Order::C, &[7i64, 8])),
        ]))
        .unwrap();
        assert_eq!(t.column_names().collect::<Vec<_>>(), ["x_0", "x_1", "y"]);
        assert_eq!((number(&t, "x_1"), number(&t, "y")), (vec![2.0, 4.0], vec![7.0, 8.0]));
        let t = read_npz(&npz(&[
            ("y", npy(&[2], Order::C, &[7i64, 8])),
            ("x", npy(&[2, 1, 1, 2], Order::C, &[0u8, 255, 51, 102])),
        ]))
        .unwrap();
        assert_eq!(t.images().unwrap().shape, Shape::Image { channels: 1, height: 1, width: 2 });
        assert_eq!(t.images().unwrap().pixels, [0.0, 1.0, 0.2, 0.4]);
        assert_eq!(number(&t, "y"), [7.0, 8.0]);
        let t = read_npy(&npy(&[1, 2, 2], Order::Fortran, &[1.0f32, 3.0, 2.0, 4.0])).unwrap();
        assert_eq!(t.images().unwrap().pixels, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn what_cannot_be_read_gets_one_sentence() {
        let message = |bytes: &[u8]| read_npy(bytes).unwrap_err().to_string();
        let good = npy(&[2, 3], Order::C, &[1.0f64; 6]);
        let swap = |from: &str, to: &str| {
            let at = good.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
            [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
        };
        assert_eq!(message(&good[..good.len() - 1]), "the NPY data is cut short; write it again");
        assert_eq!(message(&good[..20]), "the NPY header is cut short; write it again");
        assert_eq!(message(&swap("(2, 3", "(9, 9")), "the NPY data is cut short; write it again");
        assert_eq!(message(&swap("shape", "shaqe")), "the NPY header is damaged; write it again");
        assert_eq!(message(&swap("(2, 3", "(2, 0")), "the array has no columns; give rows × columns");
        assert_eq!(message(&swap("<f8", "<c8")), "the array holds '<c8', not numbers; save it as float64");
        assert_eq!(
            message(&npy(&[2, 1], Order::C, &[1.0, f64::INFINITY])),
            "line 2, column 'c0': inf is not finite; correct the cell, or leave it empty if the value is missing"
        );
        let five = npy(&[1, 1, 1, 1, 1], Order::C, &[1.0]);
        assert_eq!(
            message(&five),
            "an array of 5 dimensions cannot be a table or images; give rows × columns, rows × height × width or rows × channels × height × width"
        );
        let message = |arrays: &[(&str, Vec<u8>)]| read_npz(&npz(arrays)).unwrap_err().to_string();
        let long = |n: usize| npy(&[n as u64], Order::C, &vec![1.0; n]);
        assert_eq!(
            message(&[("a", long(2)), ("b", long(3))]),
            "array 'a' has 2 rows and array 'b' has 3; save arrays of one length"
        );
        assert_eq!(message(&[]), "the archive holds no arrays; save it with numpy.savez");
        let cube = npy(&[2, 1, 1], Order::C, &[1u8, 2]);
        assert_eq!(
            message(&[("x", cube), ("a", long(2)), ("b", long(2))]),
            "beside images there may be one array of labels and nothing else; save only these two"
        );
    }
}
