//! Mutations of bytes and of text, each chosen by a keyed stream: the same key gives the same input on every machine.

use posterior::rng::Stream;

/// The longest input that is tried.
const LONGEST: usize = 1 << 16;

/// Whole numbers at the edges of their types, where sizes overflow and signs turn.
pub const EDGES: [u64; 20] = [
    0,
    1,
    2,
    7,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    (1 << 53) + 1,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

/// Numbers as a person or a program might write them.
pub const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "255",
    "65536",
    "1e3",
    "0.5",
    "-0.5",
    "1e-9",
    "1e308",
    "-1e308",
    "1e999",
    "5e-324",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "NaN",
    "inf",
];

/// Random numbers with the few shapes that mutations need.
pub struct Chance(pub Stream);

impl Chance {
    /// One of 0..n; 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.below(n as u64) as usize }
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// A range within `len`, short ones more often than long ones.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let most = match self.below(4) {
            0 => 1,
            1 => 4,
            2 => 32,
            _ => len,
        };
        let start = self.below(len);
        start..(start + 1 + self.below(most)).min(len)
    }

    /// How many changes an input gets: few, so that it stays close to what is read.
    fn changes(&mut self) -> usize {
        let most = if self.once_in(3) { 9 } else { 3 };
        1 + self.below(most)
    }

    pub fn edge(&mut self) -> u64 {
        EDGES[self.below(EDGES.len())]
    }
}

/// Changes bytes in one to some places; `other` is a second input to take pieces from, `words` what the format knows.
pub fn bytes(input: &mut Vec<u8>, other: &[u8], words: &[&str], chance: &mut Chance) {
    for _ in 0..chance.changes() {
        one(input, other, words, chance);
    }
    input.truncate(LONGEST);
}

fn one(input: &mut Vec<u8>, other: &[u8], words: &[&str], chance: &mut Chance) {
    if input.is_empty() {
        input.push(chance.0.bits() as u8);
        return;
    }
    let n = input.len();
    match chance.below(13) {
        0 => input[chance.below(n)] ^= 1 << chance.below(8),
        1 => input[chance.below(n)] = chance.0.bits() as u8,
        2 => {
            let byte = [0, 0xff, b' ', b'9', chance.0.bits() as u8][chance.below(5)];
            let range = chance.range(n);
            input[range].fill(byte);
        }
        3 => input.truncate(chance.below(n)),
        4 => drop(input.drain(chance.range(n))),
        5 => {
            // Duplicated in place, up to many times.
            let range = chance.range(n);
            let times = if chance.once_in(4) { 1 + chance.below(40) } else { 1 };
            let piece = input[range.clone()].repeat(times);
            if input.len() + piece.len() <= LONGEST {
                input.splice(range.end..range.end, piece);
            }
        }
        6 => {
            let piece = input[chance.range(n)].to_vec();
            let at = chance.below(n);
            let end = (at + piece.len()).min(n);
            input[at..end].copy_from_slice(&piece[..end - at]);
        }
        7 if !other.is_empty() => {
            // The start of one, the end of the other.
            let (at, from) = (chance.below(n), chance.below(other.len()));
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        8 if !other.is_empty() => {
            let piece = other[chance.range(other.len())].to_vec();
            let at = chance.below(n + 1);
            input.splice(at..at, piece);
        }
        9 | 10 => integer(input, chance),
        11 if !words.is_empty() => {
            let (word, at) = (chance.of(words).as_bytes().to_vec(), chance.below(n + 1));
            let end = if chance.once_in(2) { (at + word.len()).min(n) } else { at };
            input.splice(at..end, word);
        }
        _ => {
            let at = chance.below(n + 1);
            let run: Vec<u8> = (0..1 + chance.below(8)).map(|_| chance.0.bits() as u8).collect();
            input.splice(at..at, run);
        }
    }
}

/// An edge value over 1, 2, 4 or 8 bytes at any place, in either order.
pub fn integer(input: &mut [u8], chance: &mut Chance) {
    let width = 1 << chance.below(4);
    if input.len() < width {
        return;
    }
    let at = chance.below(input.len() - width + 1);
    let value = chance.edge().wrapping_add_signed([0, 0, 1, -1][chance.below(4)]);
    let little = value.to_le_bytes();
    let place = &mut input[at..at + width];
    place.copy_from_slice(&little[..width]);
    if chance.once_in(3) {
        place.reverse();
    }
}

/// Changes text: tokens swapped, doubled, dropped, replaced by numbers at the edge or by words of the format; lines moved. Sometimes bytes too.
pub fn text(input: &mut Vec<u8>, other: &[u8], words: &[&str], chance: &mut Chance) {
    for _ in 0..chance.changes() {
        if chance.once_in(5) {
            one(input, other, words, chance);
            continue;
        }
        let tokens = tokens(input);
        if tokens.is_empty() {
            input.extend_from_slice(chance.of(words).as_bytes());
            continue;
        }
        let token = tokens[chance.below(tokens.len())].clone();
        match chance.below(9) {
            0 => {
                let (a, b) = (token, tokens[chance.below(tokens.len())].clone());
                let (a, b) = if a.start <= b.start { (a, b) } else { (b, a) };
                if a.end <= b.start {
                    let (first, second) = (input[a.clone()].to_vec(), input[b.clone()].to_vec());
                    input.splice(b, first);
                    input.splice(a, second);
                }
            }
            1 => drop(input.drain(token)),
            2 => {
                let copy = input[token.clone()].to_vec();
                input.splice(token.end..token.end, copy);
            }
            3 | 4 => drop(input.splice(token, chance.of(&NUMBERS).bytes())),
            5 => {
                let word = chance.of(words).as_bytes();
                input.splice(token, word.iter().copied());
            }
            6 => {
                let word = chance.of(words).as_bytes();
                input.splice(token.end..token.end, word.iter().copied());
            }
            7 => {
                let others = self::tokens(other);
                if !others.is_empty() {
                    let piece = other[others[chance.below(others.len())].clone()].to_vec();
                    input.splice(token, piece);
                }
            }
            _ => {
                let mut lines: Vec<Vec<u8>> = input.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (chance.below(lines.len()), chance.below(lines.len()));
                match chance.below(3) {
                    0 => lines.swap(a, b),
                    1 => drop(lines.remove(a)),
                    _ => lines.insert(b, lines[a].clone()),
                }
                *input = lines.concat();
            }
        }
    }
    input.truncate(LONGEST);
}

/// Runs of letters and digits, and single other characters; bytes beyond ASCII count as letters.
fn tokens(input: &[u8]) -> Vec<std::ops::Range<usize>> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b >= 0x80;
    let mut all = Vec::new();
    let mut start = 0;
    for i in 1..=input.len() {
        if i == input.len() || !(word(input[i]) && word(input[start])) {
            all.push(start..i);
            start = i;
        }
    }
    all
}
