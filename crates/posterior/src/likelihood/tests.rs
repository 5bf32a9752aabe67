//! What likelihoods have to do with each other; each by itself is in `tests/suite/conformance.rs`.

use super::*;
use crate::Precision;
use crate::rng::Key;
use crate::settings::Value;

struct Case {
    likelihood: Arc<dyn Likelihood>,
    noise: Vec<f64>,
}

fn make(name: &str, given: &[(&str, &str)], width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), Value::parse(v))).collect();
    (entry.build)(&Settings::resolve(entry.settings, &given, name).unwrap(), width).unwrap()
}

impl Case {
    /// `rows` rows: outputs of the given spread, all exactly representable in f32, and outcomes drawn near 0.
    fn rows(&self, rows: usize, spread: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let l = &self.likelihood;
        let mut stream = Stream::new(Key::new(seed));
        let f: Vec<f64> = (0..rows * l.outputs()).map(|_| f64::from((spread * stream.normal()) as f32)).collect();
        let mut y = vec![0.0; rows * l.targets()];
        for y in y.chunks_exact_mut(l.targets()) {
            let near: Vec<f64> = (0..l.outputs()).map(|_| stream.normal()).collect();
            l.sample(&near, &self.noise, &mut stream, y);
            y.iter_mut().for_each(|y| *y = f64::from(*y as f32));
        }
        (f, y)
    }

    fn value(&self, f: &[f64], y: &[f64], noise: &[f64], weights: Option<&[f64]>, scale: f64) -> f64 {
        f64::likelihood(&*self.likelihood).log_prob(f, y, noise, weights, scale, None)
    }

    /// Value, d_f, d_noise (which starts from 1: it must be added to).
    fn gradient<R: Precision>(
        &self,
        f: &[f64],
        y: &[f64],
        weights: Option<&[f64]>,
        scale: f64,
    ) -> (f64, Vec<f64>, Vec<f64>) {
        let to = |x: &[f64]| x.iter().map(|v| R::of(*v)).collect::<Vec<R>>();
        let mut d_f = vec![R::of(f64::NAN); f.len()];
        let mut d_noise = vec![1.0; self.noise.len()];
        let gradient = LikelihoodGradient { d_f: &mut d_f, d_noise: &mut d_noise };
        let weights = weights.map(to);
        let ops = R::likelihood(&*self.likelihood);
        let value = ops.log_prob(&to(f), &to(y), &to(&self.noise), weights.as_deref(), scale, Some(gradient));
        (value, d_f.iter().map(|v| v.f64()).collect(), d_noise.iter().map(|v| v - 1.0).collect())
    }
}

fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance, "{what}: {got} and not {want}");
}

#[test]
fn student_with_many_degrees_is_gaussian_and_bernoulli_is_categorical() {
    let gaussian = Case { likelihood: make("gaussian", &[], 1), noise: vec![-0.4] };
    let student = Case { likelihood: make("student-t", &[("degrees", "1e10")], 1), noise: vec![-0.4] };
    let (f, y) = gaussian.rows(50, 1.0, 7);
    let (a, b) = (gaussian.gradient::<f64>(&f, &y, None, 1.0), student.gradient::<f64>(&f, &y, None, 1.0));
    near(a.0, b.0, 1e-6, "value");
    near(a.2[0], b.2[0], 1e-6, "d_noise");
    a.1.iter().zip(&b.1).for_each(|(a, b)| near(*a, *b, 1e-7, "d_f"));
    let single = student.gradient::<f32>(&f, &y, None, 1.0);
    near(single.0, a.0, 1e-5 * a.0.abs(), "value in f32"); // log1p: 1 + z²/1e10 is 1 in f32
    for v in [-3.0, 0.1, 2.0] {
        let at = |c: &Case| c.likelihood.cdf(0, v, &[0.3], &c.noise);
        near(at(&gaussian), at(&student), 1e-8, "cdf");
    }

    let bernoulli = Case { likelihood: make("bernoulli", &[], 2), noise: vec![] };
    let categorical = Case { likelihood: make("categorical", &[], 2), noise: vec![] };
    for (f, y) in [(0.3, 1.0), (-2.0, 0.0), (30.0, 0.0), (-30.0, 1.0)] {
        let (a, b) =
            (bernoulli.gradient::<f64>(&[f], &[y], None, 1.0), categorical.gradient::<f64>(&[0.0, f], &[y], None, 1.0));
        near(a.0, b.0, 1e-13 * (1.0 + a.0.abs()), "value");
        near(a.1[0], b.1[1], 1e-14, "d_f");
    }
}

/// With more classes than fit the scratch space of a block, the value alone takes another path.
#[test]
fn many_classes() {
    let case = Case { likelihood: make("categorical", &[], 2500), noise: vec![] };
    let f: Vec<f64> = (0..5000).map(|i| f64::from(i % 37) * 0.3 - 5.0).collect();
    let y = [2499.0, 3.0];
    let want = case.likelihood.log_prob_row(&f[..2500], &y[..1], &[])
        + 0.5 * case.likelihood.log_prob_row(&f[2500..], &y[1..], &[]);
    near(case.value(&f, &y, &[], Some(&[1.0, 0.5]), 1.0), want, 1e-10, "value alone");
    let (value, d_f, _) = case.gradient::<f64>(&f, &y, Some(&[1.0, 0.5]), 1.0);
    near(value, want, 1e-10, "value with gradient");
    near(d_f[..2500].iter().sum(), 0.0, 1e-12, "a shift of all outputs changes nothing");
    near(d_f[2499], 1.0 - case.likelihood.log_prob_row(&f[..2500], &y[..1], &[]).exp(), 1e-12, "1 − p");
    near(case.gradient::<f32>(&f, &y, Some(&[1.0, 0.5]), 1.0).0, want, 1e-5 * want.abs(), "f32");
}

#[test]
fn names_defaults_and_wrong_widths() {
    let message = find("gausian").unwrap_err().to_string();
    assert_eq!(message, "there is no likelihood 'gausian'; did you mean 'gaussian'?");
    let defaults = [(Outcome::Real, 0), (Outcome::Count, 0), (Outcome::Class, 2), (Outcome::Class, 7)];
    let names = defaults.map(|(outcome, classes)| default_for(outcome, classes));
    assert_eq!(names, ["gaussian", "poisson", "bernoulli", "categorical"]);
    for (entry, width) in LIKELIHOODS.iter().zip([0, 0, 1, 3, 0, 0]) {
        let settings = Settings::resolve(entry.settings, &[], entry.name).unwrap();
        assert!((entry.build)(&settings, width).is_err(), "{} of {width}", entry.name);
        let good = (entry.build)(&settings, 2).unwrap();
        assert_eq!((good.name(), good.outcome(), good.settings()), (entry.name, entry.outcome, &settings));
    }
    let learned = make("gaussian", &[("noise_std", "0.5"), ("noise_prior_mean", "-2")], 3);
    assert_eq!(learned.blocks()[0].shape, [3]);
    assert_eq!((learned.noise_prior(), learned.initial_noise()), ((-2.0, 1.0), 0.5_f64.ln()));
    assert!(make("gaussian", &[("noise", "fixed")], 3).blocks().is_empty());
}
