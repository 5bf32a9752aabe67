//! What a chart tells where it is pointed at: an unseen shape over each bar, interval or place of a curve, with a text that appears.
//! No script is needed, and a tap on a phone does it too.

use super::axis::Axis;
use super::series::Series;
use crate::page::escape;

/// Half the width of the target over a place or an interval.
const REACH: f64 = 9.0;

/// Targets with their texts; one rectangle has one target, whatever lies in it.
#[derive(Default)]
pub(super) struct Hits {
    all: Vec<([f64; 4], Vec<String>)>,
}

impl Hits {
    /// The targets of a layer in a plot between `top` and `bottom`.
    pub(super) fn add(
        &mut self,
        series: &Series,
        runs: &[Vec<[f64; 3]>],
        x: &Axis,
        y: &Axis,
        (top, bottom): (f64, f64),
    ) {
        let places: Vec<[f64; 4]> = match series {
            // A column is easier to hit than a low bar.
            Series::Bars { .. } => runs.iter().map(|r| [x.at(r[0][0]), top, x.at(r[1][0]), bottom]).collect(),
            Series::Spans { .. } => {
                let place = |r: &Vec<[f64; 3]>| {
                    let (a, b) = ((x.at(r[0][0]), y.at(r[0][1])), (x.at(r[2][0]), y.at(r[2][1])));
                    let (left, right, up, down) = (a.0.min(b.0), a.0.max(b.0), a.1.min(b.1), a.1.max(b.1));
                    let wide = |low: f64, high: f64| (low - REACH * 0.6, high + REACH * 0.6);
                    let ((left, right), (up, down)) = (wide(left, right), wide(up, down));
                    [left, up, right, down]
                };
                runs.iter().map(place).collect()
            }
            Series::Tips { .. } => {
                let place = |c: &[f64; 3]| {
                    let (px, py) = (x.at(c[0]), y.at(c[1]));
                    [px - REACH, py - REACH, px + REACH, py + REACH]
                };
                runs.iter().flatten().map(place).collect()
            }
            _ => Vec::new(),
        };
        for (place, tip) in places.into_iter().zip(series.tips()) {
            match self.all.iter_mut().find(|(p, _)| p.iter().zip(&place).all(|(a, b)| (a - b).abs() < 0.05)) {
                Some((_, tips)) => tips.push(tip.clone()),
                None => self.all.push((place, vec![tip.clone()])),
            }
        }
    }

    /// The targets, their texts ending at a corner.
    pub(super) fn svg(&self, (right, top): (f64, f64)) -> String {
        let one = |([x0, y0, x1, y1], tips): &([f64; 4], Vec<String>)| {
            let text = |(i, tip): (usize, &String)| {
                let y = top + 16.0;
                format!(
                    "<text class='say' x='{right:.1}' y='{y:.1}' dy='{:.1}em'>{}</text>",
                    1.3 * i as f64,
                    escape(tip)
                )
            };
            let texts: String = tips.iter().enumerate().map(text).collect();
            let (w, h) = (x1 - x0, y1 - y0);
            format!(
                "<g class='hit'><rect class='spot' x='{x0:.1}' y='{y0:.1}' width='{w:.1}' height='{h:.1}' rx='3'/>{texts}</g>"
            )
        };
        self.all.iter().map(one).collect()
    }
}
