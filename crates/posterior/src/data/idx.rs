//! IDX, the format of MNIST: a block of byte images and, in a file of its own, their labels; gzip or plain.

use super::table::{Column, FEWER_ROWS, Images, ReadOptions, Table, request};
use crate::error::{Error, Result};
use crate::memory::{product, read_all};
use crate::nn::Shape;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Reads images, and their labels if `options` or the file's name tell where they are.
///
/// `size` is the length of the stream where it is known, i.e. where it is not compressed.
pub(super) fn read(stream: impl Read, size: Option<u64>, path: &Path, options: &ReadOptions) -> Result<Table> {
    let (dimensions, bytes) = array(stream, size, path)?;
    let [_, height, width] = dimensions[..] else {
        let what = format!("this IDX file has {} dimensions and images have three", dimensions.len());
        return Err(Error::data(what, "give the file of the images, whose name has 'idx3'"));
    };
    let pixels = bytes.iter().map(|b| f32::from(*b) / 255.0).collect();
    let images = Images { shape: Shape::Image { channels: 1, height, width }, pixels };
    let label = match options.labels.clone().or_else(|| label_file(path)) {
        Some(path) => Some(("label".to_owned(), labels(&path)?)),
        None => None,
    };
    Table::from_images(images, label)
}

/// The label file that lies beside IDX images under the usual name.
pub fn label_file(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let labels = name.replace("images-idx3", "labels-idx1").replace("images.idx3", "labels.idx1");
    let beside = path.with_file_name(&labels);
    (labels != name && beside.is_file()).then_some(beside)
}

fn labels(path: &Path) -> Result<Column> {
    let open = || -> std::io::Result<_> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut reader = BufReader::new(file);
        let mut start = Vec::new();
        reader.by_ref().take(2).read_to_end(&mut start)?;
        let zipped = start == [0x1f, 0x8b];
        Ok((zipped, size, std::io::Cursor::new(start).chain(reader)))
    };
    let (zipped, size, stream) = open().map_err(|e| Error::io("read", path, e))?;
    let parsed = if zipped {
        array(flate2::read::MultiGzDecoder::new(stream), None, path)
    } else {
        array(stream, Some(size), path)
    };
    let (dimensions, bytes) = parsed.map_err(|e| e.in_file(path))?;
    if dimensions.len() != 1 {
        let what = format!("this IDX file has {} dimensions and labels have one", dimensions.len());
        return Err(Error::data(what, "give the file of the labels, whose name has 'idx1'").in_file(path));
    }
    Ok(Column::Number(bytes.iter().map(|b| f64::from(*b)).collect()))
}

/// Dimensions and bytes of an array. Memory grows with what the stream gives, not with what its header promises.
fn array(mut stream: impl Read, size: Option<u64>, path: &Path) -> Result<(Vec<usize>, Vec<u8>)> {
    let mut word = || -> Result<[u8; 4]> {
        let mut bytes = [0; 4];
        match stream.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Error::data("the IDX file ends within its header", "get the file again"))
            }
            Err(e) => Err(Error::io("read", path, e)),
        }
    };
    let [0, 0, kind, rank] = word()? else {
        return Err(Error::data(
            "this is not an IDX file: it does not begin with two zero bytes",
            "get the file again",
        ));
    };
    if kind != 8 {
        let what = format!("the IDX file holds numbers of type 0x{kind:02x} and only bytes (0x08) are read");
        return Err(Error::data(what, "write it with unsigned bytes, or as NPY"));
    }
    if !(1..=3).contains(&rank) {
        let what = format!("the IDX file has {rank} dimensions; images have three and labels one");
        return Err(Error::data(what, "get the file again"));
    }
    let mut dimensions = Vec::new();
    let mut total = 1u64;
    for _ in 0..rank {
        let length = u32::from_be_bytes(word()?);
        dimensions.push(length as usize);
        total = total.saturating_mul(u64::from(length));
    }
    let truncated = |found: u64| {
        let what = format!("the IDX file is cut short: its header announces {total} bytes and {found} follow");
        Error::data(what, "get the file again")
    };
    let header = 4 + 4 * u64::from(rank);
    if let Some(size) = size.filter(|s| s.saturating_sub(header) < total) {
        return Err(truncated(size.saturating_sub(header)));
    }
    // Bytes, and the numbers they become.
    let bytes = read_all(stream.take(total), "the unpacked file", FEWER_ROWS).map_err(|e| e.of(path))?;
    let each = if rank == 1 { size_of::<f64>() } else { size_of::<f32>() };
    request(product(&[bytes.len(), each]))?;
    if (bytes.len() as u64) < total {
        return Err(truncated(bytes.len() as u64));
    }
    Ok((dimensions, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn idx(dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, 8, dimensions.len() as u8];
        file.extend(dimensions.iter().flat_map(|d| d.to_be_bytes()));
        file.extend(bytes);
        file
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// The message without the folder's name.
    fn message(images: &[u8], labels: Option<&[u8]>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t-images-idx3-ubyte");
        std::fs::write(&path, images).unwrap();
        if let Some(labels) = labels {
            std::fs::write(folder.path().join("t-labels-idx1-ubyte"), labels).unwrap();
        }
        let error = Table::read(&path, &ReadOptions::default()).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn images_find_their_labels_by_name_or_option() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let images = idx(&[2, 1, 2], &[0, 255, 51, 102]);
        std::fs::write(at("a-images-idx3-ubyte.gz"), zipped(&images)).unwrap();
        std::fs::write(at("a-labels-idx1-ubyte.gz"), zipped(&idx(&[2], &[3, 5]))).unwrap();
        std::fs::write(at("b"), &images).unwrap();
        std::fs::write(at("c"), idx(&[2], &[7, 7])).unwrap();
        let a = Table::read(&at("a-images-idx3-ubyte.gz"), &ReadOptions::default()).unwrap();
        assert_eq!(a.column("label").unwrap(), &Column::Number(vec![3.0, 5.0]));
        assert_eq!(a.images().unwrap().pixels, [0.0, 1.0, 0.2, 0.4]);
        assert_eq!(a.images().unwrap().shape, Shape::Image { channels: 1, height: 1, width: 2 });
        assert_eq!(a.select(&[1]).images().unwrap().pixels, [0.2, 0.4]);
        let b = Table::read(&at("b"), &ReadOptions { labels: Some(at("c")), ..ReadOptions::default() }).unwrap();
        assert_eq!(b.column("label").unwrap(), &Column::Number(vec![7.0, 7.0]));
        let alone = Table::read(&at("b"), &ReadOptions::default()).unwrap();
        let error = alone.column("label").unwrap_err().to_string();
        assert!(error.ends_with("there is no column 'label'; the images have no labels: give their file with labels"));
    }

    #[test]
    fn damaged_files_get_one_sentence() {
        let good = idx(&[2, 1, 2], &[0; 4]);
        let file = "t-images-idx3-ubyte: ";
        for (images, expected) in [
            (
                idx(&[2, 1, 2], &[0; 3]),
                "the IDX file is cut short: its header announces 4 bytes and 3 follow; get the file again",
            ),
            (
                zipped(&idx(&[u32::MAX, u32::MAX, 9], &[0; 3])),
                "the IDX file is cut short: its header announces 18446744073709551615 bytes and 3 follow; get the file again",
            ),
            (good[..9].to_vec(), "the IDX file ends within its header; get the file again"),
            (
                [&[0, 0, 13, 3], &good[4..]].concat(),
                "the IDX file holds numbers of type 0x0d and only bytes (0x08) are read; write it with unsigned bytes, or as NPY",
            ),
            (
                idx(&[1, 1, 1, 1], &[0]),
                "the IDX file has 4 dimensions; images have three and labels one; get the file again",
            ),
            (
                idx(&[3], &[0; 3]),
                "this IDX file has 1 dimensions and images have three; give the file of the images, whose name has 'idx3'",
            ),
            (idx(&[3, 0, 2], &[]), "the images have no pixels, or pieces of them are missing; write the file again"),
            (idx(&[0, 2, 2], &[]), "the file has no rows; add rows of data"),
        ] {
            assert_eq!(message(&images, None), format!("{file}{expected}"));
        }
        assert_eq!(
            message(&good, Some(&idx(&[3], &[1; 3]))),
            format!("{file}there are 2 images and 3 labels; give the label file that belongs to the images")
        );
        assert_eq!(
            message(&good, Some(b"label")),
            "t-labels-idx1-ubyte: this is not an IDX file: it does not begin with two zero bytes; get the file again"
        );
    }
}
