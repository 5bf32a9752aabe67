//! Numbers as people write them: `$130`, `3,504`, `12%`, `(5.20)`; a column is read so if all of its cells are.
//!
//! A comma before groups of three digits separates thousands. Where other cells of the column can only have a decimal comma (tab-separated files), such a
//! cell has one too: 3,504 is then 3.504. A percentage keeps its number: 12% is 12. Cost: O(1) for each character.

/// Signs and codes of currencies, before or after a number.
const CURRENCIES: [&str; 12] = ["$", "€", "£", "¥", "₹", "₩", "USD", "EUR", "GBP", "CHF", "JPY", "kr"];

/// A number with what it was written with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Numeral {
    pub(super) value: f64,
    /// Which of the currencies.
    currency: Option<usize>,
    percent: bool,
    comma: Comma,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comma {
    None,
    /// It can only separate thousands: there is a point, or a second comma.
    Thousands,
    /// 3,504 may be either.
    Either,
    /// 3,5 has a decimal comma.
    Decimal,
}

impl Numeral {
    /// A cell without white space around it; none if it is no number. `decimal` allows a comma before decimals.
    pub(super) fn read(cell: &str, decimal: bool) -> Option<Numeral> {
        if !cell.bytes().any(|b| b.is_ascii_digit()) || cell.len() > 40 {
            return None;
        }
        let (mut text, mut negative) = (cell, false);
        if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            (text, negative) = (inner.trim(), true);
        }
        let mut sign = |text: &mut &str| {
            let rest = text.strip_prefix('-').or_else(|| text.strip_prefix('−'));
            if let Some(rest) = rest.filter(|_| !negative) {
                (*text, negative) = (rest.trim_start(), true);
            }
        };
        sign(&mut text);
        let percent = text.ends_with('%');
        text = text.strip_suffix('%').unwrap_or(text).trim_end();
        let currency = CURRENCIES.iter().position(|c| text.starts_with(c) || text.ends_with(c)).filter(|_| !percent);
        if let Some(c) = currency {
            let c = CURRENCIES[c];
            text = text.strip_prefix(c).or_else(|| text.strip_suffix(c)).unwrap_or(text).trim();
            sign(&mut text);
        }
        if text.starts_with(['-', '+']) {
            return None; // a second sign
        }
        let (digits, comma) = commas(text, decimal)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
        let value: f64 = digits.parse().ok().filter(|v: &f64| plain && v.is_finite())?;
        Some(Numeral { value: if negative { -value } else { value }, currency, percent, comma })
    }
}

/// The number with a point before its decimals and nothing between its thousands.
fn commas(text: &str, decimal: bool) -> Option<(String, Comma)> {
    let Some((first, rest)) = text.split_once(',') else { return Some((text.to_owned(), Comma::None)) };
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let (groups, fraction) = rest.split_once('.').map_or((rest, None), |(g, f)| (g, Some(f)));
    let all_threes = groups.split(',').all(|g| g.len() == 3 && digits(g));
    let fraction_is_digits = fraction.is_none_or(|f| f.is_empty() || digits(f));
    if digits(first) && first.len() <= 3 && all_threes && fraction_is_digits {
        let one = fraction.is_none() && !groups.contains(',');
        let comma = if one && decimal { Comma::Either } else { Comma::Thousands };
        return Some((text.replace(',', ""), comma));
    }
    let is_decimal = decimal && fraction.is_none() && digits(rest) && (first.is_empty() || digits(first));
    is_decimal.then(|| (text.replace(',', "."), Comma::Decimal))
}

/// The numerals of a column, as they come: whether they go together, and which have to be read otherwise.
#[derive(Debug, Default)]
pub(super) struct Numerals {
    count: usize,
    percents: usize,
    currency: Option<usize>,
    contradiction: bool,
    decimals: usize,
    thousands: usize,
    /// Rows of numerals whose comma may be either.
    either: Vec<usize>,
}

impl Numerals {
    pub(super) fn add(&mut self, row: usize, numeral: Numeral) {
        self.count += 1;
        self.percents += usize::from(numeral.percent);
        if let Some(c) = numeral.currency {
            self.contradiction |= self.currency.is_some_and(|own| own != c);
            self.currency = Some(c);
        }
        match numeral.comma {
            Comma::None => {}
            Comma::Thousands => self.thousands += 1,
            Comma::Either => self.either.push(row),
            Comma::Decimal => self.decimals += 1,
        }
    }

    /// Whether any is more than a plain number: text of digits alone is a code more often than a number.
    pub(super) fn is_written(&self) -> bool {
        self.percents > 0 || self.currency.is_some() || self.thousands > 0
    }

    /// How many there are beside plain numbers.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether all can be read in one way, `plain` being the other cells of the column, which are plain numbers; then values whose comma turns out to be a
    /// decimal one are put right.
    pub(super) fn settle(&self, plain: usize, values: &mut [f64]) -> bool {
        let percents = self.percents == 0 || self.percents == self.count && plain == 0;
        let commas = self.decimals == 0 || self.thousands == 0;
        if self.contradiction || !percents || !commas {
            return false;
        }
        if self.decimals > 0 {
            // The quotient of whole numbers is rounded as the decimal fraction would be.
            self.either.iter().for_each(|r| values[*r] /= 1000.0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        for (cell, value) in [
            ("$130", 130.0),
            ("-$1,304.50", -1304.5),
            ("$-5", -5.0),
            ("(5.20)", -5.2),
            ("3,504", 3504.0),
            ("1,234,567", 1_234_567.0),
            ("12%", 12.0),
            ("-0.5 %", -0.5),
            ("12 €", 12.0),
            ("EUR 3.5", 3.5),
            ("1e3", 1000.0),
        ] {
            assert_eq!(Numeral::read(cell, false).map(|n| n.value), Some(value), "{cell}");
        }
        for cell in ["", "$", "abc", "1,2", "1,23,456", "12,34", "$1€", "--5", "1 2", "A12", "inf", "5%%", "1-2", ",5"]
        {
            assert_eq!(Numeral::read(cell, false), None, "{cell}");
        }
        assert_eq!(Numeral::read("3,5", true).map(|n| n.value), Some(3.5));
    }

    #[test]
    fn the_column_decides_what_a_comma_is() {
        let read = |cells: &[&str]| {
            let mut all = Numerals::default();
            let mut values: Vec<f64> = Vec::new();
            for (row, cell) in cells.iter().enumerate() {
                let n = Numeral::read(cell, true).unwrap();
                values.push(n.value);
                all.add(row, n);
            }
            all.settle(0, &mut values).then_some(values)
        };
        assert_eq!(read(&["3,504", "1,200"]), Some(vec![3504.0, 1200.0]));
        assert_eq!(read(&["3,504", "1,2"]), Some(vec![3.504, 1.2]));
        assert_eq!(read(&["3,504,000", "1,2"]), None);
        assert_eq!(read(&["5%", "1,2"]), None);
        assert_eq!(read(&["$5", "€1"]), None);
    }
}
