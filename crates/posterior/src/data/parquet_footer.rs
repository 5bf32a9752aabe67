//! A look at the footer of a Parquet file before the `parquet` crate sees it: that crate makes room for as many children as an element of the schema
//! claims to have, and descends as deep as they are nested. Likewise the headers of its pages: room is made for what a page claims to unpack to.
//!
//! The footer is a struct of the compact protocol of Thrift (Apache Thrift, `thrift-compact-protocol.md`). Cost: one pass over it.

/// Structs within structs; the format itself needs 7.
const DEEPEST: usize = 24;
/// Kinds of the known fields of a footer and of an element of its schema, by number from 1 on: numbers of 32 and 64 bits, bytes, lists, structs.
const FOOTER: [u8; 10] = [0, 5, 9, 6, 9, 9, 8, 9, 12, 8];
const ELEMENT: [u8; 11] = [0, 5, 5, 5, 8, 5, 5, 5, 5, 5, 12];
/// Groups of columns within groups; none are read.
const NESTED: usize = 32;

/// What is wrong with a footer, if anything that would hurt is.
pub(super) fn check(footer: &[u8]) -> Result<(), &'static str> {
    let mut walk = Walk { rest: footer, children: Vec::new() };
    walk.structure(0, &[])?;
    // The schema is a tree in pre-order: an element, then its children.
    let total = walk.children.len();
    let mut open: Vec<usize> = Vec::new();
    for &children in &walk.children {
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        let children = usize::try_from(children).ok().filter(|c| *c <= total).ok_or("its schema is not a tree")?;
        if children > 0 {
            open.push(children);
        }
        if open.len() > NESTED {
            return Err("its schema is nested too deep");
        }
    }
    Ok(())
}

/// Kinds of the known fields of a page's header, by number.
const PAGE: [u8; 9] = [0, 5, 5, 5, 5, 12, 12, 12, 12];

/// What the header of a page claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageHeader {
    /// Bytes of the header itself.
    pub length: usize,
    /// Bytes of the page once it is unpacked.
    pub unpacked: u64,
    /// Bytes of the page in the file.
    pub packed: u64,
}

/// The header that `bytes` begin with.
pub(super) fn page_header(bytes: &[u8]) -> Result<PageHeader, &'static str> {
    let mut walk = Walk { rest: bytes, children: Vec::new() };
    let (mut field, mut unpacked, mut packed) = (0i64, 0, 0);
    loop {
        let head = walk.byte()?;
        if head == 0 {
            break;
        }
        field = if head >> 4 == 0 { walk.signed()? } else { field.wrapping_add(i64::from(head >> 4)) };
        let kind = head & 0x0f;
        if usize::try_from(field).ok().and_then(|f| PAGE.get(f)).is_some_and(|known| *known != kind) {
            return Err("a field of the header of a page is of another kind");
        }
        match (field, kind) {
            (2 | 3, _) => {
                let size = u64::try_from(walk.signed()?).map_err(|_| "a page has a negative size")?;
                let kept = if field == 2 { &mut unpacked } else { &mut packed };
                *kept = size.max(*kept);
            }
            (_, 1 | 2) => {}
            // No path of the footer begins so: nothing but the lengths is looked at.
            (_, kind) => walk.value(kind, 1, &[0], field)?,
        }
    }
    Ok(PageHeader { length: bytes.len() - walk.rest.len(), unpacked, packed })
}

struct Walk<'a> {
    rest: &'a [u8],
    /// For each element of the schema, how many children it claims.
    children: Vec<i64>,
}

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.rest.split_first().ok_or("its footer is cut short")?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), &'static str> {
        let bytes = usize::try_from(bytes).ok().filter(|b| *b <= self.rest.len()).ok_or("its footer is cut short")?;
        self.rest = &self.rest[bytes..];
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number in its footer is too long")
    }

    fn signed(&mut self) -> Result<i64, &'static str> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A struct; `path` holds the fields that lead to it.
    fn structure(&mut self, depth: usize, path: &[i64]) -> Result<(), &'static str> {
        if depth > DEEPEST {
            return Err("its footer is nested too deep");
        }
        // Field 2 of the footer is the schema, field 5 of an element the number of its children.
        let element = path == [2];
        if element {
            self.children.push(0);
        }
        let mut field = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            field = if head >> 4 == 0 { self.signed()? } else { field.wrapping_add(i64::from(head >> 4)) };
            // That crate reads a known field as what it should be, whatever the file says it is: from there on it would see another file than this does.
            let expected = if path.is_empty() { FOOTER.get(field as usize) } else { None };
            let expected = if element { ELEMENT.get(field as usize) } else { expected };
            if expected.is_some_and(|kind| *kind != head & 0x0f) {
                return Err("a field of its footer is of another kind");
            }
            match head & 0x0f {
                // A flag is in its head.
                1 | 2 => {}
                5 if element && field == 5 => {
                    let children = self.signed()?;
                    if let Some(last) = self.children.last_mut() {
                        *last = children;
                    }
                }
                kind => self.value(kind, depth, path, field)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize, path: &[i64], field: i64) -> Result<(), &'static str> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let size = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Every entry takes a byte at least.
                if size > self.rest.len() as u64 {
                    return Err("a list in its footer is longer than the footer");
                }
                // All lists of the footer itself are of structs.
                if path.is_empty() && depth == 0 && (1..FOOTER.len() as i64).contains(&field) && head & 0x0f != 12 {
                    return Err("a list in its footer is of another kind");
                }
                (0..size).try_for_each(|_| self.value(head & 0x0f, depth + 1, path, field))
            }
            11 => {
                let size = self.varint()?;
                let kinds = if size == 0 { 0 } else { self.byte()? };
                if size > self.rest.len() as u64 {
                    return Err("a list in its footer is longer than the footer");
                }
                (0..size).try_for_each(|_| {
                    self.value(kinds >> 4, depth + 1, path, field)?;
                    self.value(kinds & 0x0f, depth + 1, path, field)
                })
            }
            12 => {
                let path = [path, &[field]].concat();
                self.structure(depth + 1, &path)
            }
            _ => Err("its footer holds a value of no known kind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer whose schema has elements with so many children.
    fn footer(children: &[i64]) -> Vec<u8> {
        let varint = |mut v: u64, out: &mut Vec<u8>| {
            while v >= 0x80 {
                out.push(v as u8 | 0x80);
                v >>= 7;
            }
            out.push(v as u8);
        };
        let mut out = vec![0x15, 2, 0x19, 0xfc];
        varint(children.len() as u64, &mut out);
        for n in children {
            out.push(0x55);
            varint(((n << 1) ^ (n >> 63)) as u64, &mut out);
            out.push(0);
        }
        out.push(0);
        out
    }

    #[test]
    fn headers_of_pages_are_read() {
        // Type 0; 300 bytes unpacked, 20 packed; a header of a data page with one number; the end.
        let header = [0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x2c, 0x15, 6, 0, 0];
        let found = page_header(&[&header[..], &[7; 5]].concat()).unwrap();
        assert_eq!(found, PageHeader { length: header.len(), unpacked: 300, packed: 20 });
        assert!((0..header.len()).all(|cut| page_header(&header[..cut]).is_err()));
        assert!(page_header(&[0x15, 0, 0x15, 1, 0]).unwrap_err().contains("negative"));
        assert!(page_header(&[0x15, 0, 0x1c, 0, 0]).unwrap_err().contains("another kind"));
    }

    #[test]
    fn schemas_that_claim_too_much_are_refused() {
        assert_eq!(check(&footer(&[2, 0, 0])), Ok(()));
        for wrong in [&[i64::from(i32::MAX), 0][..], &[2, -1, 0], &[1; 100]] {
            assert!(check(&footer(wrong)).unwrap_err().contains("schema"), "{wrong:?}");
        }
        let mut long = footer(&[1, 0]);
        long[4] = 0x7f;
        assert!(check(&long).unwrap_err().contains("list"));
        // A struct in a struct in a struct …
        // Field 8 is a struct; within it anything goes.
        let deep = [&[0x8c][..], &[0x1c; 200]].concat();
        assert!(check(&deep).unwrap_err().contains("deep"));
        // Field 1, the version, as a struct; field 2, the schema, as a list of numbers.
        assert!(check(&[0x1c; 200]).unwrap_err().contains("another kind"));
        assert!(check(&[0x29, 0x15, 0, 0]).unwrap_err().contains("another kind"));
        assert!(check(&[0x19; 200]).is_err());
        for cut in 0..footer(&[2, 0, 0]).len() {
            assert!(check(&footer(&[2, 0, 0])[..cut]).is_err(), "{cut}");
        }
    }
}
