//! Mutations that keep a container whole, so that what lies behind its lengths and checksums is reached.
//!
//! safetensors: the manifest and the tensors' table are changed as JSON and packed again. ZIP and gzip: unpacked, changed, packed with
//! lengths and checksums made right. NPY: the header's length follows its text. Parquet: footer and pages are changed apart, the footer's
//! length follows.

use super::mutate::{self, Chance, NUMBERS};
use serde_json::{Map, Value};
use std::io::{Cursor, Read, Write};

/// The most that is unpacked of one entry: seeds are small, and bombs are the reader's business.
const UNPACKED: u64 = 1 << 20;

/// A model file with its manifest, its tensors' table or its numbers changed; nothing if it is no safetensors file.
pub fn safetensors(input: &[u8], words: &[&str], chance: &mut Chance) -> Option<Vec<u8>> {
    let length = usize::try_from(u64::from_le_bytes(*input.first_chunk()?)).ok()?;
    let (header, data) = input.get(8..)?.split_at_checked(length)?;
    let mut header: Map<String, Value> = serde_json::from_slice(header).ok()?;
    let mut data = data.to_vec();
    match chance.below(10) {
        0..6 => {
            let text = header.get_mut("__metadata__")?.get_mut("posterior")?;
            let mut manifest: Value = serde_json::from_str(text.as_str()?).ok()?;
            for _ in 0..1 + chance.below(3) {
                json(&mut manifest, words, chance);
            }
            *text = Value::String(manifest.to_string());
        }
        6 | 7 => {
            let mut table = Value::Object(header);
            json(&mut table, words, chance);
            let Value::Object(changed) = table else { return None };
            header = changed;
        }
        _ => floats(&mut data, chance),
    }
    let mut text = serde_json::to_string(&header).ok()?;
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    Some([&(text.len() as u64).to_le_bytes(), text.as_bytes(), &data].concat())
}

/// Numbers at the edge of f32 in some places.
fn floats(data: &mut [u8], chance: &mut Chance) {
    const EDGE: [f32; 12] =
        [0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 3e38, 1e20, f32::NAN, f32::INFINITY];
    for _ in 0..1 + chance.below(4) {
        let at = chance.below(data.len() / 4);
        if let Some(place) = data.as_chunks_mut::<4>().0.get_mut(at) {
            *place = EDGE[chance.below(EDGE.len())].to_le_bytes();
        }
    }
}

/// Changes one value somewhere in a document.
fn json(document: &mut Value, words: &[&str], chance: &mut Chance) {
    let mut paths = Vec::new();
    walk(document, &mut String::new(), &mut paths);
    let path = paths[chance.below(paths.len())].clone();
    let donor = document.pointer(&paths[chance.below(paths.len())]).cloned().unwrap_or_default();
    let Some(value) = document.pointer_mut(&path) else { return };
    match (chance.below(10), value) {
        (0, value) => *value = donor,
        (1, value) => *value = Value::Null,
        (2, value) => *value = Value::String(chance.of(words).to_owned()),
        (3, value) => *value = number(chance),
        (_, Value::Bool(b)) => *b = !*b,
        (_, Value::String(text)) => {
            let mut bytes = std::mem::take(text).into_bytes();
            if chance.once_in(2) {
                *text = chance.of(words).to_owned();
            } else {
                mutate::text(&mut bytes, b"", words, chance);
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        (_, Value::Array(items)) if !items.is_empty() => {
            let at = chance.below(items.len());
            match chance.below(4) {
                0 => drop(items.remove(at)),
                1 => items.clear(),
                2 => items.insert(at, items[at].clone()),
                _ => {
                    // Long, but no longer than the file could be anyway.
                    let item = items[at].clone();
                    items.extend(std::iter::repeat_n(item, 1 + chance.below(300)));
                }
            }
        }
        (_, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(chance.below(map.len())).cloned().unwrap_or_default();
            let taken = map.remove(&key);
            if let (Some(value), true) = (taken, chance.once_in(2)) {
                map.insert(chance.of(words).to_owned(), value);
            }
        }
        (_, value) => *value = number(chance),
    }
}

fn number(chance: &mut Chance) -> Value {
    if chance.once_in(2) {
        return serde_json::from_str(chance.of(&NUMBERS)).unwrap_or(Value::Null);
    }
    // Small ones pass more checks than large ones.
    match chance.below(3) {
        0 => Value::from(chance.below(12)),
        1 => Value::from(chance.below(100_000)),
        _ => Value::from(chance.edge()),
    }
}

fn walk(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    paths.push(path.clone());
    let mut below = |key: &str, value: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        walk(value, path, paths);
        path.truncate(length);
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| below(&i.to_string(), v)),
        Value::Object(map) => map.iter().for_each(|(k, v)| below(k, v)),
        _ => {}
    }
}

/// An archive with one entry changed, packed again.
pub fn zip(input: &[u8], other: &[u8], words: &[&str], chance: &mut Chance) -> Option<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(input)).ok()?;
    let mut entries = Vec::new();
    for i in 0..archive.len().min(20) {
        let entry = archive.by_index(i).ok()?;
        let name = entry.name().ok()?.into_owned();
        let mut content = Vec::new();
        entry.take(UNPACKED).read_to_end(&mut content).ok()?;
        entries.push((name, content));
    }
    if entries.is_empty() {
        return None;
    }
    let at = chance.below(entries.len());
    match chance.below(8) {
        0 => drop(entries.remove(at)),
        1 => {
            let (name, content) = entries[at].clone();
            entries.push((format!("{}{name}", chance.of(words)), content));
        }
        2 => entries[at].0 = format!("{}.npy", chance.of(words)),
        3 => mutate::bytes(&mut entries[at].1, other, words, chance),
        _ => {
            if let Some(changed) = npy(&entries[at].1, words, chance) {
                entries[at].1 = changed;
            }
        }
    }
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][chance.below(2)];
        writer.start_file(name, zip::write::SimpleFileOptions::default().compression_method(method)).ok()?;
        writer.write_all(&content).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

/// An array with its header's text or its numbers changed; the header's length is right.
pub fn npy(input: &[u8], words: &[&str], chance: &mut Chance) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_le_bytes(*input.get(8..)?.first_chunk()?));
    let (header, data) = input.get(10..)?.split_at_checked(length)?;
    let (mut header, mut data) = (header.to_vec(), data.to_vec());
    if chance.once_in(3) {
        mutate::bytes(&mut data, header.as_slice(), &[], chance);
    } else {
        mutate::text(&mut header, &data, words, chance);
    }
    Some([&input[..8], &(header.len() as u16).to_le_bytes(), &header, &data].concat())
}

/// A compressed file with its content changed.
pub fn gzip(input: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    flate2::read::MultiGzDecoder::new(input).take(UNPACKED).read_to_end(&mut content).ok()?;
    change(&mut content);
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(&content).ok()?;
    writer.finish().ok()
}

/// A Parquet file with its pages changed in place, or its footer in any way.
pub fn parquet(input: &[u8], other: &[u8], chance: &mut Chance) -> Option<Vec<u8>> {
    let (rest, end) = input.split_last_chunk::<8>()?;
    let length = u32::from_le_bytes(*end.first_chunk()?) as usize;
    let (pages, footer) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    let (mut pages, mut footer) = (pages.to_vec(), footer.to_vec());
    if chance.once_in(2) {
        for _ in 0..1 + chance.below(4) {
            let n = pages.len();
            match chance.below(3) {
                0 => mutate::integer(&mut pages[4.min(n)..], chance),
                1 => pages[4.min(n - 1) + chance.below(n.saturating_sub(4))] ^= 1 << chance.below(8),
                _ => pages[4.min(n - 1) + chance.below(n.saturating_sub(4))] = chance.0.bits() as u8,
            }
        }
    } else {
        match chance.below(3) {
            0 => mutate::bytes(&mut footer, other, &[], chance),
            1 => varint(&mut footer, chance),
            _ => {
                let at = chance.below(footer.len().max(1));
                if let Some(byte) = footer.get_mut(at) {
                    *byte = byte.wrapping_add_signed([1, -1, 2, -2, 16, 64][chance.below(6)]);
                }
            }
        }
    }
    Some([&pages[..], &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat())
}

/// A variable-length integer of Thrift put over what stands somewhere: zigzag of an edge value.
fn varint(footer: &mut Vec<u8>, chance: &mut Chance) {
    if footer.is_empty() {
        return;
    }
    let edge = chance.edge() as i64;
    let mut value = ((edge << 1) ^ (edge >> 63)) as u64;
    let mut encoded = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            encoded.push(byte);
            break;
        }
        encoded.push(byte | 0x80);
    }
    // What stood there was as long as its continuation bits say.
    let at = chance.below(footer.len());
    let old = footer[at..].iter().position(|b| b & 0x80 == 0).map_or(footer.len(), |n| at + n + 1);
    footer.splice(at..old.min(at + 10), encoded);
}
