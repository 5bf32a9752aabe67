//! Readers take memory in proportion to their file: whatever a header promises, a small file cannot make one ask for much.
//!
//! An allocator counts what is held at most while a file is read. The seeds of the corpus are read whole, cut short, and with their bytes replaced
//! one after another by large ones, which is where lengths and counts are.

use posterior::data::{EncodeOptions, Encoder, ReadOptions, Table};
use posterior::model::Recipe;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;
static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held while `work` runs, beyond those held before.
fn most(work: impl FnOnce()) -> isize {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

/// A number of text takes 8 bytes and its place in the text 8; copies while columns are built, names and hash tables come to less than this.
const EACH: isize = 200;
/// Buffers of fixed size: of files, of decompressors (32 KiB of window for gzip, tables of Huffman codes), 8 KiB for each page of Parquet.
const FIXED: isize = 1 << 19;

fn check(target: &str, name: &str, path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    let held = most(|| {
        if target == "config" {
            drop(Recipe::from_file(path));
        } else {
            drop(Table::read(path, &ReadOptions::default()));
        }
    });
    let allowed = FIXED + EACH * bytes.len() as isize;
    assert!(held <= allowed, "{target} {name}: {held} bytes held for a file of {}", bytes.len());
}

#[test]
fn what_a_reader_holds_follows_from_the_length_of_its_file() {
    let counted = most(|| drop(std::hint::black_box(vec![1u8; 1 << 20])));
    assert!((1 << 20..1 << 21).contains(&counted), "the counter counts: {counted}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["csv", "npy", "idx", "config"] {
        for seed in std::fs::read_dir(corpus.join(target)).unwrap() {
            let seed = seed.unwrap();
            let (name, bytes) = (seed.file_name().to_string_lossy().into_owned(), std::fs::read(seed.path()).unwrap());
            check(target, &name, &path, &bytes);
            for at in 0..bytes.len() {
                check(target, &format!("{name} cut at {at}"), &path, &bytes[..at]);
                for with in [0xff, 0x7f, b'9'] {
                    let mut changed = bytes.clone();
                    changed[at] = with;
                    check(target, &format!("{name} with {with:#x} at {at}"), &path, &changed);
                    if at + 4 <= bytes.len() {
                        changed[at..at + 4].fill(with);
                        check(target, &format!("{name} with four {with:#x} at {at}"), &path, &changed);
                    }
                }
            }
        }
    }
    // What Parquet holds is compressed, and bounded by the budget of memory; whole files are in proportion too.
    for seed in std::fs::read_dir(corpus.join("parquet")).unwrap() {
        let seed = seed.unwrap();
        check("parquet", &seed.file_name().to_string_lossy(), &path, &std::fs::read(seed.path()).unwrap());
    }
    numbers_are_held_once(&path);
}

/// Of many rows of numbers: 8 bytes a cell and 8 for the line of a row, beside the text, which is read in steps that double. Encoded, 8 bytes an input, and 8 a row
/// for its number and twice for its target.
fn numbers_are_held_once(path: &Path) {
    const ROWS: usize = 1 << 15;
    let line = |i: usize| (0..8).map(|c| (i * (c + 7) % 1009).to_string()).collect::<Vec<_>>().join(",") + "\n";
    let text = "a,b,c,d,e,f,g,y\n".to_owned() + &(0..ROWS).map(line).collect::<String>();
    std::fs::write(path, &text).unwrap();
    let mut table = None;
    let held = most(|| table = Some(Table::read(path, &ReadOptions::default()).unwrap()));
    let allowed = FIXED + (2 * text.len() + 8 * ROWS * 9) as isize;
    assert!(held <= allowed, "{held} bytes held where {allowed} are enough");
    let table = table.unwrap();
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let encoder = Encoder::fit(&table, &options).unwrap().encoder;
    let held = most(|| drop(encoder.encode(&table, true).unwrap()));
    let allowed = FIXED + (8 * ROWS * (7 + 1 + 2)) as isize;
    assert!(held <= allowed, "{held} bytes held where {allowed} are enough");
}
