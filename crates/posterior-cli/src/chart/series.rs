//! The layers of a chart: what each stands for, how it looks, where its coordinates are.

use super::axis::drawable;

/// What a line or a band stands for; it decides colour, weight and drawing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The predictive mean.
    Mean,
    /// Uncertainty about the function.
    Epistemic,
    /// Uncertainty about the next observation; lighter than [`Tone::Epistemic`] and drawn beneath it.
    Total,
    /// The function that made the data, dashed.
    Truth,
    /// One function of many: thin, half transparent, named once in the legend.
    Draw,
    /// A density; areas of it lie over each other and grow darker.
    Density,
    /// What was fitted by the forward divergence.
    Forward,
    /// What was fitted by the reverse divergence, dashed.
    Reverse,
}

/// One layer of a chart. An empty label keeps it out of the legend; surplus entries of the longer vector are ignored.
#[derive(Clone, Debug)]
pub enum Series {
    /// The area between two curves.
    Band {
        /// Name in the legend.
        label: String,
        /// Positions, in drawing order.
        x: Vec<f64>,
        /// Lower edge at each position.
        lower: Vec<f64>,
        /// Upper edge at each position.
        upper: Vec<f64>,
        /// What the band stands for.
        tone: Tone,
    },
    /// A curve.
    Line {
        /// Name in the legend.
        label: String,
        /// Positions, in drawing order.
        x: Vec<f64>,
        /// Value at each position.
        y: Vec<f64>,
        /// What the curve stands for.
        tone: Tone,
    },
    /// Closed outlines, filled; one within another is a hole.
    Area {
        /// Name in the legend.
        label: String,
        /// Outlines of points (x, y).
        outlines: Vec<Vec<[f64; 2]>>,
        /// What the area stands for.
        tone: Tone,
    },
    /// A histogram: one bar between neighbouring edges, each with a tooltip.
    Bars {
        /// Name in the legend.
        label: String,
        /// One more than bars.
        edges: Vec<f64>,
        /// Height of every bar.
        height: Vec<f64>,
        /// What is shown when a bar is pointed at.
        tips: Vec<String>,
        /// What the bars stand for.
        tone: Tone,
    },
    /// Intervals, each a line with a dot on it and a tooltip.
    Spans {
        /// Name in the legend.
        label: String,
        /// Position of every interval on the other axis.
        at: Vec<f64>,
        /// Low end, dot, high end.
        span: Vec<[f64; 3]>,
        /// What is shown when an interval is pointed at.
        tips: Vec<String>,
        /// Whether they lie along the horizontal axis.
        flat: bool,
    },
    /// Places of a curve that tell their values when pointed at, and are not seen before.
    Tips {
        /// Positions.
        x: Vec<f64>,
        /// Values.
        y: Vec<f64>,
        /// What is shown.
        tips: Vec<String>,
    },
    /// Separate observations, each with a tooltip.
    Points {
        /// Name in the legend.
        label: String,
        /// Positions.
        x: Vec<f64>,
        /// Values.
        y: Vec<f64>,
    },
}

impl Series {
    /// Label, class names and place in the drawing order, lowest first.
    pub(super) fn look(&self) -> (&str, String, u8) {
        let class = |kind, tone: &Tone| format!("{kind} {tone:?}").to_lowercase();
        match self {
            Series::Band { label, tone, .. } => (label, class("band", tone), (*tone != Tone::Total).into()),
            Series::Area { label, tone, .. } => (label, class("area", tone), 0),
            Series::Line { label, tone: Tone::Draw, .. } => (label, class("line", &Tone::Draw), 2),
            Series::Line { label, tone, .. } => (label, class("line", tone), 3 + u8::from(*tone == Tone::Mean)),
            Series::Bars { label, tone, .. } => (label, class("bar", tone), 0),
            Series::Spans { label, at, .. } => (label, if at.len() > 400 { "span many" } else { "span" }.into(), 4),
            Series::Tips { .. } => ("", "tip".into(), 6),
            Series::Points { label, x, .. } => (label, if x.len() > 400 { "dot many" } else { "dot" }.into(), 5),
        }
    }

    /// The drawable coordinates as `[x, low, high]`, split where one of them is missing or not finite.
    pub(super) fn runs(&self) -> Vec<Vec<[f64; 3]>> {
        let (x, low, high) = match self {
            Series::Band { x, lower, upper, .. } => (x, lower, upper),
            Series::Line { x, y, .. } | Series::Points { x, y, .. } => (x, y, y),
            Series::Tips { x, y, .. } => (x, y, y),
            Series::Bars { edges, height, .. } => {
                let bar = |(e, h): (&[f64], &f64)| vec![[e[0], 0.0, *h], [e[1], 0.0, *h]];
                return edges.windows(2).zip(height).map(bar).filter(|b| b.iter().flatten().all(drawable)).collect();
            }
            Series::Spans { at, span, flat, .. } => {
                let ends = |(at, s): (&f64, &[f64; 3])| match flat {
                    true => vec![[s[0], *at, *at], [s[1], *at, *at], [s[2], *at, *at]],
                    false => vec![[*at, s[0], s[0]], [*at, s[1], s[1]], [*at, s[2], s[2]]],
                };
                return at.iter().zip(span).map(ends).filter(|s| s.iter().flatten().all(drawable)).collect();
            }
            Series::Area { outlines, .. } => {
                let whole = outlines.iter().filter(|o| !o.is_empty() && o.iter().flatten().all(drawable));
                return whole.map(|o| o.iter().map(|p| [p[0], p[1], p[1]]).collect()).collect();
            }
        };
        let all: Vec<[f64; 3]> = x.iter().zip(low).zip(high).map(|((&x, &l), &h)| [x, l, h]).collect();
        all.split(|p| !p.iter().all(drawable)).filter(|run| !run.is_empty()).map(<[_]>::to_vec).collect()
    }

    /// What is told where something is pointed at, one text for each run of coordinates (each point, for [`Series::Tips`]).
    pub(super) fn tips(&self) -> &[String] {
        match self {
            Series::Bars { tips, .. } | Series::Spans { tips, .. } | Series::Tips { tips, .. } => tips,
            _ => &[],
        }
    }
}
