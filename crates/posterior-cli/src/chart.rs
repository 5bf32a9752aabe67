//! Line, band, area and point charts drawn as one SVG text that stands alone or sits inside a page.

mod axis;
pub mod contour;
mod hits;
mod series;

use super::page::escape;
use axis::{Axis, rounded, text_width};
use hits::Hits;
pub use series::{Series, Tone};

/// Right and bottom edge of the plot area in a picture of 720 by 420.
const RIGHT: f64 = 690.0;
const BOTTOM: f64 = 362.0;
/// The size of text, and how much larger it is drawn where the picture is shown small, as on a phone.
const FONT: f64 = 16.0;
const SLIM: f64 = 1.4;

/// Colours are given twice where it matters: the first is for viewers that do not know variables.
const STYLE: &str = "\
.pc{--pc-bg:#fff;--pc-ink:#1f2933;--pc-soft:#5b6773;--pc-grid:#e6e9ee;--pc-axis:#aab3bd;--pc-mean:#005a96;\
--pc-band:#0072b2;--pc-truth:#d55e00;--pc-draw:#00795a;--pc-inner:.42;--pc-outer:.17;--pc-area:.13;\
background:var(--pc-bg);display:block;width:100%;height:auto;max-height:100vh;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
@media screen and (prefers-color-scheme:dark){.pc{--pc-bg:#171b21;--pc-ink:#e8ecf1;--pc-soft:#a3aebb;\
--pc-grid:#2a313a;--pc-axis:#596472;--pc-mean:#a5dbfa;--pc-band:#56b4e9;--pc-truth:#f5a04c;--pc-draw:#3fcfa4;\
--pc-inner:.52;--pc-outer:.22;--pc-area:.16}}.pc .bg{fill:#fff;fill:var(--pc-bg)}.pc .slim{display:none}.pc .tx{text-anchor:middle}\
.pc .ty{text-anchor:end}.pc text{font-size:16px;fill:#5b6773;fill:var(--pc-soft);font-variant-numeric:tabular-nums}\
.pc .head text{font-size:16px;fill:#1f2933;fill:var(--pc-ink)}.pc .head .name{font-size:18px;font-weight:600}\
.pc .grid{stroke:#e6e9ee;stroke:var(--pc-grid)}.pc .axis{stroke:#aab3bd;stroke:var(--pc-axis)}\
.pc .mean{color:#005a96;color:var(--pc-mean)}.pc .epistemic,.pc .total{color:#0072b2;color:var(--pc-band)}\
.pc .truth,.pc .reverse{color:#d55e00;color:var(--pc-truth)}\
.pc .forward{color:#005a96;color:var(--pc-mean)}.pc .density{color:#5b6773;color:var(--pc-soft)}\
.pc .draw{color:#00795a;color:var(--pc-draw)}\
.pc .line{fill:none;stroke:currentColor;stroke-width:2.6;stroke-linejoin:round;stroke-linecap:round}\
.pc .line.truth,.pc .line.reverse{stroke-dasharray:7 6}\
.pc .area{fill:currentColor;fill-rule:evenodd;fill-opacity:.13;fill-opacity:var(--pc-area)}.pc .head .area{fill-opacity:.4}\
.pc .line.draw{stroke-width:1.4;stroke-opacity:.5}\
.pc .band{fill:currentColor;fill-opacity:.42;fill-opacity:var(--pc-inner)}.pc .head .draw{stroke-opacity:1}\
.pc .band.total{fill-opacity:.17;fill-opacity:var(--pc-outer)}.pc .plot .many{fill-opacity:.75;stroke-width:.6}\
.pc .bar{fill:currentColor;fill-opacity:.55;stroke:currentColor;stroke-width:.7}.pc .hit .spot{fill:transparent;pointer-events:all}\
.pc .hit:hover .spot{fill:#5b6773;fill:var(--pc-soft);fill-opacity:.18}.pc .say{visibility:hidden;pointer-events:none;text-anchor:end;\
paint-order:stroke;stroke:#fff;stroke:var(--pc-bg);stroke-width:7px;stroke-linejoin:round}.pc text.say{fill:#1f2933;fill:var(--pc-ink)}\
.pc .hit:hover .say{visibility:visible}.pc .span{fill:none;stroke:#0072b2;stroke:var(--pc-band);stroke-width:2.2;stroke-opacity:.75}\
.pc .plot .span.many{stroke-width:1;stroke-opacity:.4}\
.pc .dot{fill:#1f2933;fill:var(--pc-ink);stroke:#fff;stroke:var(--pc-bg);stroke-width:1.4}\
@container (max-width:480px){.pc{overflow:visible;margin-top:var(--pc-room)}.pc .wide{display:none}\
.pc .slim{display:inline}.pc text{font-size:22.4px}.pc .plot .line{stroke-width:3.6}.pc .plot .draw{stroke-width:2}\
.pc .plot .dot{r:5.4px;stroke-width:2}.pc .plot .many{r:3.4px;stroke-width:1}}";

/// A chart with two linear axes.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Heading above the plot.
    pub title: String,
    /// Name of the horizontal axis.
    pub x_label: String,
    /// Name of the vertical axis.
    pub y_label: String,
    /// Layers; bands are drawn beneath lines and lines beneath points, the legend keeps the given order.
    pub series: Vec<Series>,
    /// Limits of the horizontal axis; taken from the data when absent.
    pub x_range: Option<(f64, f64)>,
    /// Limits of the vertical axis; taken from the data when absent.
    pub y_range: Option<(f64, f64)>,
    /// Whether a unit is as long on one axis as on the other; the picture's height follows.
    pub same_units: bool,
    /// Names on the vertical axis instead of numbers, the first at 0 and at the top.
    pub rows: Vec<String>,
}

impl Chart {
    /// The chart as an SVG document that can be saved as a file or placed inside HTML as it is.
    pub fn svg(&self) -> String {
        let runs: Vec<_> = self.series.iter().map(Series::runs).collect();
        let cells = || runs.iter().flatten().flatten();
        let spans = self.series.iter().any(|s| matches!(s, Series::Spans { .. }));
        let points = self.series.iter().all(|s| matches!(s, Series::Points { .. }));
        let margin = if spans || points { 0.03 } else { 0.0 };
        let mut x = Axis::new(cells().map(|c| c[0]), self.x_range, margin);
        let mut y = Axis::new(cells().flat_map(|c| [c[1], c[2]]), self.y_range, 0.05);
        // What stands on 0 stands on the axis.
        if self.y_range.is_none() && cells().all(|c| c[1] >= 0.0) && cells().any(|c| c[1] == 0.0 && c[2] > 0.0) {
            y.lo = 0.0;
        }
        let (y_ticks, y_room) = match &self.rows[..] {
            [] => y.ticks(5),
            rows => {
                (y.lo, y.hi) = (-0.6, rows.len() as f64 - 0.4);
                let widest = rows.iter().map(|r| text_width(r)).fold(0.0, f64::max);
                (
                    rows.iter().enumerate().map(|(i, r)| (i as f64, escape(r))).collect(),
                    (widest * FONT * SLIM).min(300.0),
                )
            }
        };
        let left = y_room + if self.y_label.is_empty() { 18.0 } else { 40.0 };
        let (wide, slim) = (self.header(RIGHT - left, 1.0), self.header(RIGHT - left, SLIM));
        let top = (wide.1 + 22.0).min(BOTTOM - 120.0);
        let bottom = match self.same_units {
            true => top + ((RIGHT - left) * (y.hi - y.lo) / (x.hi - x.lo)).clamp(120.0, 1200.0),
            false if !self.rows.is_empty() => top + (38.0 * self.rows.len() as f64).max(120.0),
            false => BOTTOM,
        };
        (x.from, x.to, y.from, y.to) = (left, RIGHT, bottom, top);
        if !self.rows.is_empty() {
            (y.from, y.to) = (top, bottom); // names read downwards
        }
        // Fewer steps until the labels fit.
        let fits = |t: &(Vec<(f64, String)>, f64)| t.0.len() as f64 * (t.1 + 14.0) < RIGHT - left;
        let x_ticks = (3..=6).rev().map(|n| x.ticks(n)).find(fits).unwrap_or_else(|| x.ticks(2));

        // The larger header may stand above the picture; a margin of the same height makes room for it.
        let (down, up) = (top - 12.0 - wide.1, top - 12.0 - slim.1);
        let mut out = format!("<g class='head wide' transform='translate({left:.1} {down:.1})'>{}</g>", wide.0);
        out += &format!("<g class='head slim' transform='translate({left:.1} {up:.1}) scale({SLIM})'>{}</g>", slim.0);
        for (v, label) in x_ticks.0 {
            let at = x.at(v);
            out += &format!("<path class='grid' d='M{at:.1} {top:.1}V{bottom:.1}'/>");
            out += &format!("<text class='tx' x='{at:.1}' y='{bottom:.1}' dy='1.3em'>{label}</text>");
        }
        for (v, label) in y_ticks {
            let (at, before) = (y.at(v), left - 8.0);
            out += &format!("<path class='grid' d='M{left:.1} {at:.1}H{RIGHT}'/>");
            out += &format!("<text class='ty' x='{before:.1}' y='{at:.1}' dy='.35em'>{label}</text>");
        }
        let (across, middle) = ((left + RIGHT) / 2.0, (top + bottom) / 2.0);
        let (x_label, y_label) = (escape(&self.x_label), escape(&self.y_label));
        out += &format!("<path class='axis' d='M{left:.1} {bottom:.1}H{RIGHT}'/>");
        out += &format!("<text class='tx' x='{across:.1}' y='{bottom:.1}' dy='2.85em'>{x_label}</text>");
        out += &format!("<text class='tx' transform='translate(4 {middle:.1}) rotate(-90)' dy='.8em'>{y_label}</text>");

        let mut layers: Vec<_> = self.series.iter().map(|s| (s.look(), s)).zip(&runs).collect();
        layers.sort_by_key(|((look, _), _)| look.2);
        let (mut shapes, mut dots, mut hits) = (String::new(), String::new(), Hits::default());
        for (((_, class, _), series), runs) in layers {
            hits.add(series, runs, &x, &y, (top, bottom));
            if matches!(series, Series::Tips { .. }) {
                continue;
            }
            if matches!(series, Series::Spans { .. }) {
                for middle in runs.iter().filter_map(|run| run.get(1)) {
                    let (cx, cy, r) = (x.at(middle[0]), y.at(middle[1]), if class == "span" { 3.8 } else { 2.2 });
                    dots += &format!("<circle class='dot' cx='{cx:.1}' cy='{cy:.1}' r='{r}'/>");
                }
            }
            // Points outside the limits are left out, those on the edge are drawn whole.
            let dot = class.starts_with("dot");
            let band = class.starts_with("band") || class.starts_with("bar");
            let closed = band || class.starts_with("area");
            let inside = |c: &&[f64; 3]| dot && (y.lo..=y.hi).contains(&c[1]);
            for &[px, py, _] in runs.iter().flatten().filter(inside) {
                let tip = format!("x = {:?}, y = {:?}", rounded(px, 3), rounded(py, 3)).replace('-', "\u{2212}");
                let (cx, cy, r) = (x.at(px), y.at(py), if class == "dot" { 3.8 } else { 2.4 });
                let place = format!("cx='{cx:.1}' cy='{cy:.1}' r='{r}'");
                dots += &format!("<circle class='{class}' {place}><title>{tip}</title></circle>");
            }
            let mut d = String::new();
            for run in runs.iter().filter(|_| !dot) {
                let mut trace = |c: &[f64; 3], v: f64, pen| d += &format!("{pen}{:.1} {:.1}", x.at(c[0]), y.at(v));
                run.iter().enumerate().for_each(|(i, c)| trace(c, c[1], if i == 0 { 'M' } else { 'L' }));
                run.iter().rev().filter(|_| band).for_each(|c| trace(c, c[2], 'L'));
                d += if closed { "Z" } else { "h0" };
            }
            shapes += &if d.is_empty() { d } else { format!("<path class='{class}' d='{d}'/>") };
        }
        // Several charts share one page: the clip path is named after its place, so equal names mean equal paths.
        let clip = format!("pc-{left:.1}-{top:.1}-{bottom:.1}");
        out +=
            &format!("<clipPath id='{clip}'><path d='M{left:.1} {top:.1}H{RIGHT}V{bottom:.1}H{left:.1}Z'/></clipPath>");
        out += &format!(
            "<g class='plot'><g clip-path='url(#{clip})'>{shapes}</g>{dots}</g>{}",
            hits.svg((RIGHT - 4.0, top))
        );
        let names: Vec<&str> = self.legend().iter().map(|s| s.look().0).collect();
        let spoken = format!("{}. {} against {}. {}", self.title, self.y_label, self.x_label, names.join(", "));
        let height = bottom + 58.0;
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' class='pc' viewBox='0 0 720 {height:.0}' width='100%' role='img' \
             aria-label='{}' style='--pc-room:{:.1}%'><style>{STYLE}</style>\
             <rect class='bg' width='720' height='{height:.0}'/>{out}</svg>\n",
            escape(&spoken),
            (8.0 - up).max(0.0) / 7.2
        )
    }

    /// The layers named in the legend: those that look and are called alike once, draws once whatever they are called.
    fn legend(&self) -> Vec<&Series> {
        let mut kept: Vec<&Series> = Vec::new();
        for s in &self.series {
            let (label, class, _) = s.look();
            let same = |k: &&Series| k.look().1 == class && (k.look().0 == label || class == "line draw");
            if !label.trim().is_empty() && !kept.iter().any(same) {
                kept.push(s);
            }
        }
        kept
    }

    /// Title and legend for a plot of this width, text enlarged by `scale`, and the height they take.
    fn header(&self, width: f64, scale: f64) -> (String, f64) {
        let (mut out, room, mut lines) = (String::new(), width / scale, Vec::<String>::new());
        for word in self.title.split_whitespace() {
            match lines.last_mut() {
                Some(line) if text_width(&format!("{line} {word}")) * 20.5 <= room => *line += &format!(" {word}"),
                _ => lines.push(word.to_string()),
            }
        }
        for (i, line) in lines.iter().enumerate() {
            out += &format!("<text class='name' y='{}'>{}</text>", 17 + 23 * i, escape(line));
        }
        let (mut x, mut y) = (f64::INFINITY, 23.0 * lines.len() as f64);
        for s in self.legend() {
            let (label, class, _) = s.look();
            let key = if class.starts_with("dot") { 18.0 } else { 30.0 };
            let wide = key + text_width(label) * FONT;
            if x + wide > room {
                (x, y) = (0.0, y + 25.0);
            }
            let mark = match s {
                Series::Band { .. } | Series::Area { .. } => {
                    format!("<rect class='{class}' y='-6' width='22' height='12' rx='2'/>")
                }
                Series::Bars { .. } => format!("<rect class='{class}' y='-6' width='22' height='12'/>"),
                Series::Line { .. } | Series::Spans { .. } => format!("<path class='{class}' d='M1 0h20'/>"),
                Series::Tips { .. } => String::new(),
                Series::Points { .. } => "<circle class='dot' cx='5' r='4'/>".into(),
            };
            let text = format!("<text x='{key}' dy='.35em'>{}</text>", escape(label));
            out += &format!("<g transform='translate({x:.1} {:.1})'>{mark}{text}</g>", y - 9.0);
            x += wide + 14.0;
        }
        (out, y * scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(y: &[f64], tone: Tone) -> Series {
        Series::Line { label: "f".into(), x: (0..y.len()).map(|i| i as f64).collect(), y: y.to_vec(), tone }
    }

    #[test]
    fn a_path_is_broken_at_values_that_cannot_be_drawn() {
        let line = line(&[0.0, 1.0, f64::NAN, 1.0, f64::INFINITY, 2.0], Tone::Mean);
        let svg = Chart { series: vec![line], ..Chart::default() }.svg();
        let path = svg.split("<path class='line mean' d='").last().unwrap().split('\'').next().unwrap();
        assert_eq!(path.matches('M').count(), 3, "{path}");
    }

    #[test]
    fn odd_data_give_a_chart() {
        for y in [&[][..], &[5.0; 3], &[0.0], &[f64::NAN; 2], &[1e300, -1e300], &[1e89, -1e89], &[1e15, 1e15 + 0.1]] {
            for y_range in [None, Some((1.0, 1.0)), Some((2.0, -2.0)), Some((f64::NAN, 1.0))] {
                let points = Series::Points { label: "p".into(), x: vec![1.0; 9], y: y.to_vec() };
                let svg = Chart { y_range, series: vec![points, line(y, Tone::Truth)], ..Chart::default() }.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.ends_with("</svg>\n"), "{y:?}");
            }
        }
    }

    #[test]
    fn areas_are_closed_lie_beneath_lines_and_units_can_be_the_same() {
        let square = vec![[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]];
        let outlines = vec![square, vec![[f64::NAN, 1.0]], vec![]];
        let area = Series::Area { label: "p".into(), outlines, tone: Tone::Density };
        let series = vec![line(&[0.0, 2.0, 1.0], Tone::Reverse), area];
        let chart = Chart {
            series,
            x_range: Some((0.0, 4.0)),
            y_range: Some((0.0, 4.0)),
            same_units: true,
            ..Chart::default()
        };
        let svg = chart.svg();
        let path =
            |class: &str| svg.split(&format!("<path class='{class}' d='")).last().unwrap().split('\'').next().unwrap();
        let at: Vec<f64> = path("area density").split(['M', 'L', ' ', 'Z']).filter_map(|v| v.parse().ok()).collect();
        assert!(path("area density").ends_with('Z') && at.len() == 8, "{}", path("area density"));
        // Half of either axis, in tenths of a pixel.
        assert!(((at[2] - at[0]) - (at[1] - at[5])).abs() < 0.25, "{at:?}");
        assert!(svg.rfind("area density").unwrap() < svg.rfind("line reverse").unwrap() && !svg.contains("NaN"));
    }

    #[test]
    fn ticks_are_round_points_have_tips_text_is_escaped_and_draws_are_named_once() {
        let ticks = Axis { lo: -0.31, hi: 0.52, from: 0.0, to: 1.0 }.ticks(4).0;
        assert_eq!(ticks.iter().map(|t| t.1.as_str()).collect::<Vec<_>>(), ["\u{2212}0.2", "0", "0.2", "0.4"]);
        let points = Series::Points { label: "<p>".into(), x: vec![-1.23456], y: vec![0.5] };
        let series = vec![line(&[0.0, 1.0], Tone::Draw), points, line(&[0.0, 2.0], Tone::Draw)];
        let svg = Chart { title: "a & 'q'".into(), series, ..Chart::default() }.svg();
        assert!(svg.contains("<title>x = \u{2212}1.235, y = 0.5</title>") && svg.contains("a &amp; &#39;q&#39;"));
        assert_eq!((svg.matches("M1 0h20").count(), svg.contains("<p>")), (2, false), "one entry in each legend size");
    }
}
