//! ∫ f by the rule of Gauss and Kronrod with 7 and 15 points, halving the interval whose error is largest.
//!
//! Reference: Piessens et al. (1983), QUADPACK, routine QAG. 15 evaluations per interval.

/// Nodes from the outermost to the middle; every second one is a node of Gauss's rule too.
const NODES: [f64; 8] = [
    0.991_455_371_120_812_6,
    0.949_107_912_342_758_5,
    0.864_864_423_359_769_1,
    0.741_531_185_599_394_4,
    0.586_087_235_467_691_1,
    0.405_845_151_377_397_2,
    0.207_784_955_007_898_47,
    0.0,
];
const KRONROD: [f64; 8] = [
    0.022_935_322_010_529_224,
    0.063_092_092_629_978_55,
    0.104_790_010_322_250_18,
    0.140_653_259_715_525_92,
    0.169_004_726_639_267_9,
    0.190_350_578_064_785_4,
    0.204_432_940_075_298_9,
    0.209_482_141_084_727_82,
];
const GAUSS: [f64; 4] =
    [0.129_484_966_168_869_7, 0.279_705_391_489_276_64, 0.381_830_050_505_118_9, 0.417_959_183_673_469_4];
/// More intervals than this are no use: what is left is a jump or rounding.
const INTERVALS: usize = 400;

#[derive(Clone, Copy)]
struct Piece {
    from: f64,
    to: f64,
    value: f64,
    error: f64,
}

fn rule(f: &mut dyn FnMut(f64) -> f64, from: f64, to: f64) -> Piece {
    let (middle, half) = (0.5 * (from + to), 0.5 * (to - from));
    let (mut kronrod, mut gauss) = (0.0, 0.0);
    for (i, node) in NODES.iter().enumerate() {
        let y = if i == 7 { f(middle) } else { f(middle - half * node) + f(middle + half * node) };
        kronrod += KRONROD[i] * y;
        if i % 2 == 1 {
            gauss += GAUSS[i / 2] * y;
        }
    }
    Piece { from, to, value: half * kronrod, error: (half * (kronrod - gauss)).abs() }
}

/// ∫ f over the intervals between neighbouring `edges`, to `tolerance` of its own size.
pub fn integrate(f: &mut dyn FnMut(f64) -> f64, edges: &[f64], tolerance: f64) -> f64 {
    let mut pieces: Vec<Piece> = edges.windows(2).filter(|e| e[1] > e[0]).map(|e| rule(f, e[0], e[1])).collect();
    while pieces.len() < INTERVALS {
        let total: f64 = pieces.iter().map(|p| p.value.abs()).sum();
        let error: f64 = pieces.iter().map(|p| p.error).sum();
        let worst = (0..pieces.len()).max_by(|a, b| pieces[*a].error.total_cmp(&pieces[*b].error));
        let Some(worst) = worst.filter(|_| error > tolerance * total) else { break };
        let Piece { from, to, .. } = pieces.swap_remove(worst);
        let middle = 0.5 * (from + to);
        pieces.extend([rule(f, from, middle), rule(f, middle, to)]);
    }
    pieces.iter().map(|p| p.value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact for polynomials up to degree 22, to rounding; a peak of width 1/1000 is found by halving.
    #[test]
    fn polynomials_and_a_narrow_peak() {
        for degree in [0, 1, 2, 7, 12, 22] {
            let exact = 1.0 / f64::from(degree + 1);
            let got = integrate(&mut |x: f64| x.powi(degree), &[0.0, 0.3, 1.0], 1e-12);
            assert!((got - exact).abs() < 1e-14, "{degree}: {got}");
            // The rule alone: a wrong digit in a node or a weight cannot hide behind halving.
            let alone = rule(&mut |x: f64| x.powi(degree), 0.0, 1.0);
            assert!((alone.value - exact).abs() < 1e-14, "{degree}: {}", alone.value);
        }
        let peak = |x: f64| (-0.5 * ((x - 0.2) / 0.001).powi(2)).exp();
        let got = integrate(&mut { peak }, &[0.0, 1.0], 1e-10);
        let exact = 0.001 * std::f64::consts::TAU.sqrt();
        assert!((got / exact - 1.0).abs() < 1e-9, "{got}");
    }
}
