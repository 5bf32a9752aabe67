//! `posterior demo kl`: a normal fitted to two densities, by either direction of the Kullback–Leibler divergence.

use crate::chart::contour::{levels, outlines};
use crate::chart::{Chart, Series, Tone};
use crate::cli::Demo;
use crate::output::{check_writable, json, print, table};
use crate::page::{Page, Section, TableHtml};
use posterior::artifact::write_file;
use posterior::distribution::fit::Normalised;
use posterior::distribution::{MultiDistribution, MultivariateNormal};
use posterior::rng::{Key, Purpose, Stream};
use serde_json::json;
use std::f64::consts::TAU;
use std::path::Path;

/// Shares of the mass that the shading shows.
const SHARES: [f64; 5] = [0.95, 0.8, 0.6, 0.4, 0.2];
/// Steps of the shading along the longer axis.
const STEPS: usize = 240;

/// The two peaks: weight, mean, standard deviations, correlation.
const PEAKS: [(f64, [f64; 2], [f64; 2], f64); 2] =
    [(0.6, [-1.6, -0.9], [0.75, 0.6], 0.5), (0.4, [1.9, 1.1], [0.55, 0.7], -0.3)];
/// The banana: x₁ ~ N(0, WIDTH²), x₂ | x₁ ~ N(BEND (x₁² − WIDTH²) + TILT x₁, NARROW²).
const WIDTH: f64 = 1.2;
const BEND: f64 = 0.6;
const TILT: f64 = 0.3;
const NARROW: f64 = 0.4;

/// log p of the two peaks, and its gradient.
fn peaks(x: &[f64], gradient: &mut [f64]) -> f64 {
    let parts = PEAKS.map(|(weight, mean, std, r)| {
        let z = [0, 1].map(|i| (x[i] - mean[i]) / std[i]);
        let free = 1.0 - r * r;
        let square = (z[0] * z[0] - 2.0 * r * z[0] * z[1] + z[1] * z[1]) / free;
        let log = weight.ln() - 0.5 * square - (TAU * std[0] * std[1] * free.sqrt()).ln();
        (log, [(r * z[1] - z[0]) / (free * std[0]), (r * z[0] - z[1]) / (free * std[1])])
    });
    let largest = parts[0].0.max(parts[1].0);
    let shares = parts.map(|p| (p.0 - largest).exp());
    let sum = shares[0] + shares[1];
    for i in 0..2 {
        gradient[i] = (shares[0] * parts[0].1[i] + shares[1] * parts[1].1[i]) / sum;
    }
    largest + sum.ln()
}

/// log p of the banana up to a constant, and its gradient.
fn banana(x: &[f64], gradient: &mut [f64]) -> f64 {
    let off = x[1] - BEND * (x[0] * x[0] - WIDTH * WIDTH) - TILT * x[0];
    gradient[1] = -off / (NARROW * NARROW);
    gradient[0] = -x[0] / (WIDTH * WIDTH) - gradient[1] * (2.0 * BEND * x[0] + TILT);
    -0.5 * (x[0] * x[0] / (WIDTH * WIDTH) + off * off / (NARROW * NARROW))
}

type LogDensity = fn(&[f64], &mut [f64]) -> f64;

/// A density to fit to, and where to look.
struct Scene {
    name: &'static str,
    says: &'static str,
    log_p: LogDensity,
    /// A normal whose eight standard deviations hold all the mass: mean, standard deviations.
    cover: ([f64; 2], [f64; 2]),
    /// The part of the plane that is drawn.
    window: [(f64, f64); 2],
}

const SCENES: [Scene; 2] = [
    Scene {
        name: "two peaks",
        says: "Two peaks: the reverse fit sits on one of them and does not know of the other (another --seed may choose it); \
               the forward fit covers both, and puts much of its mass between them, where there is none.",
        log_p: peaks,
        cover: ([0.0, 0.0], [1.1, 0.9]),
        window: [(-5.0, 5.0), (-4.0, 4.2)],
    },
    Scene {
        name: "banana",
        says: "A banana: the reverse fit keeps to the bend, where a normal can lie inside; the forward fit reaches both ends, \
               and covers the hollow as well.",
        log_p: banana,
        // The ends bend upwards: far out, where x₁ is ±8, x₂ is 40.
        cover: ([0.0, 16.0], [1.1, 2.6]),
        window: [(-4.8, 4.8), (-3.0, 4.9)],
    },
];

/// One fit and how far it is from the density, both ways.
struct Fitted {
    scene: &'static str,
    direction: Tone,
    q: MultivariateNormal,
    kl_q_p: f64,
    kl_p_q: f64,
}

impl Fitted {
    fn direction(&self) -> &'static str {
        if self.direction == Tone::Reverse { "reverse" } else { "forward" }
    }

    fn std(&self) -> [f64; 2] {
        let variance = self.q.variance();
        [variance[0].sqrt(), variance[1].sqrt()]
    }

    fn correlation(&self) -> f64 {
        self.q.covariance()[1] / (self.std()[0] * self.std()[1])
    }
}

fn normal(mean: [f64; 2], std: [f64; 2]) -> posterior::Result<MultivariateNormal> {
    MultivariateNormal::new(mean.to_vec(), &[std[0] * std[0], 0.0, 0.0, std[1] * std[1]])
}

/// Both fits of a scene; the reverse one from a start that the seed chooses inside the forward one.
fn fit(scene: &Scene, seed: u64) -> posterior::Result<(Normalised<LogDensity>, [Fitted; 2])> {
    let p = Normalised::new(scene.log_p, normal(scene.cover.0, scene.cover.1)?)?;
    let forward = p.forward()?;
    let mut at = vec![0.0; 2];
    forward.sample(&mut Stream::new(Key::new(seed).purpose(Purpose::Init)), &mut at);
    let reverse = p.reverse(&normal([at[0], at[1]], [1.0, 1.0])?)?;
    let fitted = |direction, q: MultivariateNormal| {
        let (kl_q_p, kl_p_q) = (p.kl_from(&q)?, p.kl_to(&q)?);
        posterior::Result::Ok(Fitted { scene: scene.name, direction, q, kl_q_p, kl_p_q })
    };
    let both = [fitted(Tone::Reverse, reverse)?, fitted(Tone::Forward, forward)?];
    Ok((p, both))
}

pub fn run(args: &Demo) -> anyhow::Result<()> {
    let out = args.out.as_deref().unwrap_or(Path::new("kl.html"));
    check_writable(out, [])?;
    let seed = args.common.seed.unwrap_or(0);
    let (mut charts, mut fits) = (Vec::new(), Vec::new());
    for scene in &SCENES {
        let (p, both) = fit(scene, seed)?;
        charts.push(chart(scene, &p, &both).svg());
        fits.extend(both);
    }
    write_file(out, page(charts, &fits).html().as_bytes())?;
    if args.common.json {
        let rows: Vec<_> = fits.iter().map(as_json).collect();
        return json(&json!({ "rows": rows, "report": out.display().to_string() }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let (head, rows) = cells(&fits);
    print(&format!(
        "A normal q fitted to two densities p. Reverse, by the least KL[q‖p]: it seeks a peak. Forward, by the least KL[p‖q]: \
         it covers the mass.\n\n{}\nPicture: {}\n",
        table(&head, &rows),
        out.display()
    ))
}

fn as_json(fitted: &Fitted) -> serde_json::Value {
    json!({
        "density": fitted.scene,
        "direction": fitted.direction(),
        "mean": fitted.q.mean(),
        "std": fitted.std(),
        "correlation": fitted.correlation(),
        "kl_q_p": fitted.kl_q_p,
        "kl_p_q": fitted.kl_p_q,
    })
}

fn cells(fits: &[Fitted]) -> ([&'static str; 9], Vec<Vec<String>>) {
    let head = ["density", "fitted by", "mean x₁", "mean x₂", "std x₁", "std x₂", "correlation", "KL[q‖p]", "KL[p‖q]"];
    let row = |f: &Fitted| {
        let numbers = [f.q.mean()[0], f.q.mean()[1], f.std()[0], f.std()[1], f.correlation(), f.kl_q_p, f.kl_p_q];
        let names = [f.scene.to_owned(), f.direction().to_owned()];
        // What is below a thousandth is rounding, or a nought by symmetry.
        names.into_iter().chain(numbers.map(|v| format!("{:.3}", if v.abs() < 5e-4 { 0.0 } else { v }))).collect()
    };
    (head, fits.iter().map(row).collect())
}

fn chart(scene: &Scene, p: &Normalised<LogDensity>, fits: &[Fitted]) -> Chart {
    let [(left, right), (low, high)] = scene.window;
    let step = (right - left).max(high - low) / STEPS as f64;
    let [columns, rows] = [right - left, high - low].map(|span| (span / step).round() as usize + 1);
    let x = |i: f64| left + step * i;
    let y = |j: f64| low + step * j;
    let at = |k: usize| p.log_density(&[x((k % columns) as f64), y((k / columns) as f64)]).exp();
    let density: Vec<f64> = (0..rows * columns).map(at).collect();
    let mut series: Vec<Series> = levels(&density, &SHARES)
        .into_iter()
        .map(|level| {
            let steps = outlines(&density, columns, level).into_iter();
            Series::Area {
                label: "p".into(),
                outlines: steps.map(|o| o.into_iter().map(|[i, j]| [x(i), y(j)]).collect()).collect(),
                tone: Tone::Density,
            }
        })
        .collect();
    for fitted in fits {
        let label = if fitted.direction == Tone::Reverse { "reverse, KL[q‖p]" } else { "forward, KL[p‖q]" };
        series.extend([1.0, 2.0].map(|deviations| {
            let (x, y) = ellipse(fitted, deviations);
            Series::Line { label: label.into(), x, y, tone: fitted.direction }
        }));
    }
    Chart {
        title: scene.name.to_owned(),
        x_label: "x₁".into(),
        y_label: "x₂".into(),
        x_range: Some(scene.window[0]),
        y_range: Some(scene.window[1]),
        same_units: true,
        series,
        ..Chart::default()
    }
}

/// The points so many standard deviations from the mean.
fn ellipse(fitted: &Fitted, deviations: f64) -> (Vec<f64>, Vec<f64>) {
    let ([a, b], r, mean) = (fitted.std(), fitted.correlation(), fitted.q.mean());
    (0..=120)
        .map(|k| {
            let (sin, cos) = (TAU * f64::from(k) / 120.0).sin_cos();
            let across = r * cos + (1.0 - r * r).sqrt() * sin;
            (mean[0] + deviations * a * cos, mean[1] + deviations * b * across)
        })
        .unzip()
}

fn page(charts: Vec<String>, fits: &[Fitted]) -> Page {
    let (head, rows) = cells(fits);
    Page {
        title: "Two ways to be close".into(),
        lead: "A normal distribution q cannot be a density p that has two peaks or a bend. Which q is closest depends on the \
               direction in which the Kullback–Leibler divergence is taken."
            .into(),
        sections: vec![
            Section {
                heading: "One peak, or all the mass".into(),
                text: SCENES.map(|s| s.says).join("\n\n")
                    + "\n\nShaded: the regions that hold 20, 40, 60, 80 and 95 % of p. Ellipses: one and two standard \
                       deviations of q.",
                charts,
                table: None,
            },
            Section {
                heading: "Figures".into(),
                text: "Reverse minimises KL[q‖p] = E_q[log q − log p], as variational inference does: q pays for being where \
                       p is not. Forward minimises KL[p‖q] = E_p[log p − log q], by p's own mean and covariance: q pays for \
                       not being where p is. Each is the better of the two by its own measure, in nats."
                    .into(),
                charts: Vec::new(),
                table: Some(TableHtml { head: head.map(str::to_owned).to_vec(), rows }),
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The densities' gradients, by central differences: second order in a step of 1e-5, with rounding of 1e-11.
    #[test]
    fn gradients_are_those_of_the_densities() {
        let mut ignored = [0.0; 2];
        for log_p in [peaks as LogDensity, banana] {
            for at in [[0.3, -0.4], [-1.5, 1.0], [2.0, 1.2]] {
                let mut gradient = [0.0; 2];
                log_p(&at, &mut gradient);
                for i in 0..2 {
                    let [up, down] = [1e-5, -1e-5].map(|h| {
                        let mut x = at;
                        x[i] += h;
                        log_p(&x, &mut ignored)
                    });
                    assert!(((up - down) / 2e-5 - gradient[i]).abs() < 1e-8 * (1.0 + gradient[i].abs()), "{at:?}");
                }
            }
        }
    }

    #[test]
    fn all_of_the_density_that_is_drawn_lies_in_the_window() {
        for scene in &SCENES {
            let (p, _) = fit(scene, 0).unwrap();
            let [(left, right), (low, high)] = scene.window;
            let n = 200;
            let at = |from: f64, to: f64, i: usize| from + (to - from) * (i as f64 + 0.5) / n as f64;
            let cell = (right - left) * (high - low) / (n * n) as f64;
            let inside =
                (0..n * n).map(|k| cell * p.log_density(&[at(left, right, k % n), at(low, high, k / n)]).exp());
            assert!(inside.sum::<f64>() > 0.97, "{}", scene.name);
        }
    }
}
