//! The conformance suite sees the mistakes that it is for: each is planted, and has to be told.

use posterior::inference::{Fit, FitSummary, Method, MethodEntry, Observer, register_method};
use posterior::model::{Choice, Recipe};
use posterior::nn::{
    Activation, Affine, AffineBlock, AffineOps, BlockSpec, Dense, Gradient, Graph, MatRef, NodeSpace, Op, Pass, RowMap,
    Shape, Weights,
};
use posterior::posterior::PointPosterior;
use posterior::prior::{BlockPrior, BlockPriorOps, Normal, NormalBlock};
use posterior::problem::Problem;
use posterior::rng::{Key, Normals};
use posterior::score::{Metric, Needs, Score};
use posterior::settings::Settings;
use posterior::{Precision, Real, Result};
use posterior_testing::conformance::{Task, expect_block_prior, expect_method, expect_metric, expect_network};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the suite panics with.
fn told(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("the mistake is not seen");
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"").to_string())
}

/// x², whose gradient forgets the 2.
#[derive(Debug)]
struct Square(Shape);

impl RowMap for Square {
    fn describe(&self) -> String {
        "square".to_owned()
    }
    fn output(&self) -> Shape {
        self.0
    }
    fn forward<R: Real>(&self, x: &[R], out: &mut [R]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = *x * *x);
    }
    fn vjp<R: Real>(&self, x: &[R], _out: &[R], d_out: &[R], dx: &mut [R]) {
        dx.iter_mut().zip(x.iter().zip(d_out)).for_each(|(dx, (x, d))| *dx = *x * *d);
    }
}

/// A dense layer that takes the mean of weights for the weights: gradients agree with the values, and there is no noise.
#[derive(Debug)]
struct Deaf(Dense);

impl<R: Normals> AffineOps<R> for Deaf {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        AffineOps::<R>::space(&self.0, rows)
    }
    fn forward(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        self.0.forward(Weights::Fixed(w.centre()), x, pass, space);
    }
    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        grad.spread.fill(R::ZERO);
        let fixed = Gradient { centre: grad.centre, spread: &mut [] };
        self.0.backward(Weights::Fixed(w.centre()), x, pass, space, fixed, accumulate, dx);
    }
    fn vjp(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>, dx: Option<&mut [R]>) {
        AffineOps::<R>::vjp(&self.0, w, x, pass, space, dx);
    }
    fn block_inputs(&self, x: MatRef<'_, R>, visit: &mut dyn FnMut(&[R])) {
        self.0.block_inputs(x, visit);
    }
    fn block_deltas(&self, rows: usize, space: &NodeSpace<R>, visit: &mut dyn FnMut(&[R])) {
        self.0.block_deltas(rows, space, visit);
    }
}

impl Affine for Deaf {
    fn describe(&self) -> String {
        "deaf".to_owned()
    }
    fn input(&self) -> Shape {
        self.0.input()
    }
    fn output(&self) -> Shape {
        Affine::output(&self.0)
    }
    fn parameters(&self) -> Vec<BlockSpec> {
        self.0.parameters()
    }
    fn block(&self) -> AffineBlock {
        self.0.block()
    }
}

#[test]
fn a_wrong_gradient_and_missing_noise_of_a_layer() {
    let last = || Op::affine(Dense::new(Shape::Flat(3), 2, Activation::Identity));
    let square = Graph::chain(vec![Op::rows(Shape::Flat(3), Square(Shape::Flat(3))), last()]).unwrap();
    let message = told(|| expect_network("square", square, 0..0));
    assert!(message.contains("square, fixed weights: gradient is wrong"), "{message}");
    let deaf = Graph::chain(vec![Op::affine(Deaf(Dense::new(Shape::Flat(4), 2, Activation::Tanh)))]).unwrap();
    let message = told(|| expect_network("deaf", deaf, 0..0));
    assert!(message.contains("deaf, Local: weights with a spread give the same outputs"), "{message}");
}

/// A normal density times e^{1/10}.
#[derive(Debug)]
struct TooMuch(Normal);

impl<R: Precision> BlockPriorOps<R> for TooMuch {
    fn log_density(&self, first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
        R::prior(&self.0).log_density(first, w, scale, grad) + 0.1 * w.len() as f64
    }
}

impl BlockPrior for TooMuch {
    fn sample(&self, key: Key, out: &mut [f32]) {
        self.0.sample(key, out);
    }
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64> {
        self.0.kl_from_normal(mean, std)
    }
    fn as_normal(&self) -> Option<NormalBlock<'_>> {
        self.0.as_normal()
    }
}

#[test]
fn a_prior_that_is_not_normalised() {
    let message = told(|| expect_block_prior("too much", &TooMuch(Normal::new(0.0, 0.8))));
    assert!(message.contains("total probability of too much: 1.10517"), "{message}");
}

#[test]
fn a_metric_that_counts_every_row_once() {
    let metric = Metric {
        name: "unweighted",
        summary: "mean error",
        larger_is_better: None,
        short: false,
        functional: |s| {
            let mean = &s.real.as_ref()?.mean;
            let error = mean.iter().zip(&s.y).map(|(m, y)| (m - y).abs()).sum::<f64>() / s.y.len() as f64;
            Some(Score::Of(Box::new(move |_| error)))
        },
        needs: Needs::NONE,
    };
    let message = told(|| expect_metric(&Metric { name: "whole", functional: |s| whole(s), ..metric }));
    assert!(message.contains("whole on Real, every row there twice"), "{message}");
    let message = told(|| expect_metric(&metric));
    assert!(message.contains("unweighted on Real, rows counted 0 to 2 times"), "{message}");
}

/// How many rows there are, whatever they count.
fn whole(s: &posterior::score::Scored) -> Option<Score<'_>> {
    s.real.as_ref()?;
    Some(Score::Of(Box::new(|_| s.y.len() as f64)))
}

/// Its weights tell how many threads there were.
#[derive(Debug)]
struct Counting(Settings);

impl Method for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }
    fn settings(&self) -> &Settings {
        &self.0
    }
    fn fit(&self, problem: &Problem, _: Key, _: &mut dyn Observer) -> Result<Fit> {
        let w = vec![rayon::current_num_threads() as f32; problem.dim()];
        Ok(Fit { posterior: Box::new(PointPosterior::new(w)), summary: FitSummary::default() })
    }
}

#[test]
fn a_method_whose_bits_depend_on_threads() {
    let build = |settings| Box::new(Counting(settings)) as Box<dyn Method>;
    register_method(MethodEntry { name: "counting", summary: "threads", gives: "a number", settings: &[], build })
        .unwrap();
    let recipe = Recipe { method: Choice::named("counting"), ..Recipe::default() };
    let message = told(|| drop(expect_method(&recipe, Task::Real)));
    assert!(message.contains("counting: other bits on 2 threads than on one"), "{message}");
}
