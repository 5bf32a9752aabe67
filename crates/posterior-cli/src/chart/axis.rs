//! From data to places in a picture: limits, round ticks, widths of text.

use super::{FONT, SLIM};

/// One axis: limits in data units and the picture coordinates they map to.
pub(super) struct Axis {
    pub(super) lo: f64,
    pub(super) hi: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Axis {
    pub(super) fn new(values: impl Iterator<Item = f64>, fixed: Option<(f64, f64)>, margin: f64) -> Self {
        let fixed = fixed.filter(|r| drawable(&r.0) && drawable(&r.1));
        let found = values.map(|v| (v, v)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0.0, 1.0));
        let (lo, hi) = fixed.map_or(found, |(a, b)| (a.min(b), a.max(b)));
        let size = lo.abs().max(hi.abs());
        let extra = match hi - lo {
            span if span > 1e-10 * size && span > 1e-90 => span * if fixed.is_some() { 0.0 } else { margin },
            _ if size > 1e-80 => 0.1 * size,
            _ => 1.0,
        };
        Axis { lo: lo - extra, hi: hi + extra, from: 0.0, to: 1.0 }
    }

    /// Where a value is drawn; far outside the plot it stops growing so that every viewer can read the number.
    pub(super) fn at(&self, v: f64) -> f64 {
        (self.from + (v - self.lo) / (self.hi - self.lo) * (self.to - self.from)).clamp(-1e5, 1e5)
    }

    /// Round values about `wanted` steps apart, each 1, 2 or 5 times a power of ten, and the width of the widest label.
    pub(super) fn ticks(&self, wanted: u8) -> (Vec<(f64, String)>, f64) {
        let raw = (self.hi - self.lo) / f64::from(wanted);
        let base = 10f64.powf(raw.log10().floor());
        let step = base * [(1.5, 1.0), (3.5, 2.0), (7.5, 5.0)].iter().find(|s| raw / base < s.0).map_or(10.0, |s| s.1);
        let (first, last) = ((self.lo / step - 1e-6).ceil() as i64, (self.hi / step + 1e-6).floor() as i64);
        let places = -(step.log10() + 1e-9).floor();
        let short = places > 3.0 || self.lo.abs().max(self.hi.abs()) >= 1e6;
        let label = |v: f64| match v {
            0.0 => "0".to_string(),
            _ if short => format!("{:e}", rounded(v, 11)),
            _ => format!("{v:.*}", places.max(0.0) as usize),
        };
        let values = (first..=last).take(24).map(|i| i as f64 * step);
        let all: Vec<_> = values.map(|v| (v, label(v).replace('-', "\u{2212}"))).collect();
        let widest = all.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
        (all, widest * FONT * SLIM)
    }
}

pub(super) fn drawable(v: &f64) -> bool {
    v.abs() < 1e90
}

pub(super) fn rounded(v: f64, decimals: usize) -> f64 {
    format!("{v:.decimals$e}").parse().unwrap_or(v)
}

/// A guess at the width of a text as a multiple of its font size, on the generous side.
pub(super) fn text_width(text: &str) -> f64 {
    let one = |c: char| match c {
        'm' | 'w' | '%' | 'A'..='Z' => 0.78,
        'i' | 'j' | 'l' | 't' | 'f' | '.' | ',' | ' ' => 0.36,
        '\u{2e80}'.. => 1.05,
        _ => 0.6,
    };
    text.chars().map(one).sum()
}
