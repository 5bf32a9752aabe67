//! Images that are predicted pixel by pixel: a convolution of 1 × 1 on an image is a dense network on its pixels as rows, in density, gradient, curvature,
//! predictions and scores, which pins the order of channels and pixels.

use posterior::data::{Dataset, Values};
use posterior::fitted::{Fitted, How};
use posterior::inference::Silent;
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe, Resolved};
use posterior::nn::{Activation, LayerSpec, Mode, NetworkSpec, Shape};
use posterior::posterior::PointPosterior;
use posterior::problem::curvature::{Curvature, Structure, Subset};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, Stream};
use posterior::score::{METRICS, Scored, rate};
use posterior::settings::Value;
use std::sync::Arc;

const IMAGES: usize = 6;
const CHANNELS: usize = 2;
const HEIGHT: usize = 3;
const WIDTH: usize = 4;
const PIXELS: usize = HEIGHT * WIDTH;

/// Inputs channel by channel, and the same pixel by pixel.
fn inputs() -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(Key::new(4));
    let images: Vec<f64> = (0..IMAGES * CHANNELS * PIXELS).map(|_| stream.normal()).collect();
    let pixel = |n: usize, p: usize, c: usize| images[(n * CHANNELS + c) * PIXELS + p];
    let all = (0..IMAGES).flat_map(|n| (0..PIXELS).flat_map(move |p| (0..CHANNELS).map(move |c| (n, p, c))));
    let pixels = all.map(|(n, p, c)| pixel(n, p, c)).collect();
    (images, pixels)
}

/// The same model twice: on images, and on their pixels.
struct Pair {
    image: (Resolved, Problem),
    pixel: (Resolved, Problem),
    y: Vec<f64>,
    outcome: Outcome,
}

fn pair(outcome: Outcome, width: usize, method: Choice, weighted: bool) -> Pair {
    let layers = |conv: bool| {
        let activation = Activation::Tanh;
        let one = match conv {
            true => LayerSpec::Conv { channels: 5, kernel: 1, stride: 1, padding: 0, dilation: 1, activation },
            false => LayerSpec::Dense { units: 5, activation },
        };
        NetworkSpec { layers: vec![one] }
    };
    let recipe = |conv| Recipe { network: layers(conv), method: method.clone(), ..Recipe::default() };
    let shape = Shape::Image { channels: CHANNELS, height: HEIGHT, width: WIDTH };
    let image = recipe(true).resolve_at_sites(shape, outcome, width, PIXELS).unwrap();
    let pixel = recipe(false).resolve_for(Shape::Flat(CHANNELS), outcome, width).unwrap();
    let (images, pixels) = inputs();
    let mut stream = Stream::new(Key::new(6));
    let targets = if outcome == Outcome::Class { 1 } else { width };
    let y: Vec<f64> = (0..IMAGES * PIXELS * targets)
        .map(|_| if outcome == Outcome::Class { stream.below(width as u64) as f64 } else { stream.normal() })
        .collect();
    let mut of_image = Dataset::from_arrays(images, shape, y.clone()).unwrap();
    let mut of_pixel = Dataset::from_arrays(pixels, Shape::Flat(CHANNELS), y.clone()).unwrap();
    if weighted {
        let weights: Vec<f64> = (0..IMAGES).map(|n| 0.5 + n as f64).collect();
        let by_pixel: Vec<f64> = weights.iter().flat_map(|w| [*w; PIXELS]).collect();
        of_image = of_image.with_weights(weights).unwrap();
        of_pixel = of_pixel.with_weights(by_pixel).unwrap();
    }
    assert_eq!((of_image.targets, of_pixel.targets), (PIXELS * targets, targets));
    let problems = (image.clone().problem(of_image).unwrap(), pixel.clone().problem(of_pixel).unwrap());
    Pair { image: (image, problems.0), pixel: (pixel, problems.1), y, outcome }
}

impl Pair {
    /// Parameters of the dense network at the places of the convolutional one.
    fn on_images<T: Copy + Default>(&self, w: &[T]) -> Vec<T> {
        let mut to = vec![T::default(); w.len()];
        let maps = |r: &Resolved| r.network.affine_blocks().to_vec();
        for (a, b) in maps(&self.image.0).iter().zip(&maps(&self.pixel.0)) {
            assert_eq!((a.inputs, a.units), (b.inputs, b.units));
            for i in 0..=a.inputs {
                (0..a.units).for_each(|u| to[a.index(i, u)] = w[b.index(i, u)]);
            }
        }
        let size = self.image.0.network.layout().len();
        to[size..].copy_from_slice(&w[size..]);
        to
    }

    fn weights(&self) -> Vec<f64> {
        let mut stream = Stream::new(Key::new(8));
        (0..self.pixel.1.dim()).map(|_| 0.7 * stream.normal()).collect()
    }
}

fn pairs() -> Vec<Pair> {
    let map = Choice::named("map");
    vec![
        pair(Outcome::Class, 3, map.clone(), false),
        pair(Outcome::Class, 3, map.clone(), true),
        pair(Outcome::Class, 2, map.clone(), false),
        pair(Outcome::Real, 1, map.clone(), true),
        pair(Outcome::Real, 2, map, false),
    ]
}

/// Log joint and gradient in double precision, to the rounding of sums in another order.
#[test]
fn density_and_gradient_are_those_of_pixels_as_rows() {
    for pair in pairs() {
        let w = pair.weights();
        let joint = |problem: &Problem, w: &[f64]| {
            let mut grad = vec![0.0; w.len()];
            let value = problem.density::<f64>(100).log_joint(w, Rows::All, Mode::Plain, Some(&mut grad));
            (value, grad)
        };
        let (by_pixel, d_pixel) = joint(&pair.pixel.1, &w);
        let (by_image, d_image) = joint(&pair.image.1, &pair.on_images(&w));
        assert!((by_pixel - by_image).abs() < 1e-11 * by_pixel.abs(), "{by_pixel} {by_image}");
        let expected = pair.on_images(&d_pixel);
        let size = expected.iter().fold(0.0f64, |m, d| m.max(d.abs()));
        assert!(size > 0.1 && expected.iter().zip(&d_image).all(|(a, b)| (a - b).abs() < 1e-11 * size));
    }
}

/// The generalised Gauss–Newton diagonal, to the rounding of sums in another order.
#[test]
fn curvature_is_that_of_pixels_as_rows() {
    for pair in pairs() {
        let w = pair.weights();
        let diagonal = |problem: &Problem, w: &[f64]| {
            let subset = Subset::all(&**problem.network()).unwrap();
            let ggn = problem.ggn(w, &subset, Structure::Diagonal);
            let Curvature::Diagonal(d) = ggn.curvature else { panic!("a diagonal") };
            (d, ggn.log_likelihood)
        };
        let (d_pixel, by_pixel) = diagonal(&pair.pixel.1, &w);
        let (d_image, by_image) = diagonal(&pair.image.1, &pair.on_images(&w));
        assert!((by_pixel - by_image).abs() < 1e-11 * by_pixel.abs());
        let mut wide = d_pixel;
        wide.resize(w.len(), 0.0);
        let expected = pair.on_images(&wide);
        assert!(expected.iter().zip(&d_image).all(|(a, b)| (a - b).abs() < 1e-10 * a.abs().max(1e-3)));
    }
}

/// Predictions and scores, to single precision: outputs are passed in it.
#[test]
fn predictions_and_scores_are_those_of_pixels_as_rows() {
    for pair in pairs() {
        let w: Vec<f32> = pair.weights().iter().map(|w| *w as f32).collect();
        let how = How::new(1, Key::new(0));
        let fitted = |r: &Resolved, w: Vec<f32>| r.fitted(Arc::new(PointPosterior::new(w)));
        let (images, pixels) = inputs();
        let on_images = fitted(&pair.image.0, pair.on_images(&w)).predict(&Values::from(images), &how).unwrap();
        let on_pixels = fitted(&pair.pixel.0, w).predict(&Values::from(pixels), &how).unwrap();
        assert_eq!(on_images.rows(), IMAGES * PIXELS);
        let (a, b) = (on_images.draw(0).unwrap(), on_pixels.draw(0).unwrap());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5));
        let scored = [&on_images, &on_pixels].map(|p| Scored::new(p, &pair.y, pair.outcome));
        assert_eq!((scored[0].rows(), scored[1].rows()), (IMAGES, IMAGES * PIXELS));
        for m in METRICS {
            let [image, pixel] = [&scored[0], &scored[1]].map(|s| m.score(s));
            assert_eq!(image.is_some(), pixel.is_some());
            assert!(image.zip(pixel).is_none_or(|(a, b)| (a - b).abs() < 1e-4), "{}: {image:?} {pixel:?}", m.name);
        }
        // Images are drawn anew as wholes: with pixels alike within each, the standard error is that of images and not of pixels.
        assert!(rate(&scored[0], Key::new(0)).iter().any(|r| r.standard_error.is_some_and(|e| e > 0.0)));
    }
}

/// A fit by gradient steps and one by HMC run through, and learn that the class of a pixel is a function of its inputs.
#[test]
fn images_of_classes_are_learned() {
    let epochs = Choice::named("map").with("epochs", Value::Int(400));
    let short = Choice::named("hmc").with("warmup", Value::Int(60)).with("draws", Value::Int(40));
    for method in [epochs, short.with("chains", Value::Int(2))] {
        let Pair { image: (resolved, problem), .. } = pair(Outcome::Class, 2, method, false);
        let (images, pixels) = inputs();
        let y: Vec<f64> = pixels.chunks(CHANNELS).map(|c| f64::from(u8::from(c[0] > 0.0))).collect();
        let data = Dataset::from_arrays(images.clone(), problem.data().shape, y.clone()).unwrap();
        let problem = problem.with_data(data).unwrap();
        let fit = resolved.fit_problem(&problem, Key::new(0), &mut Silent).unwrap();
        let predictive = fit.fitted.predict(&Values::from(images), &How::new(20, Key::new(0))).unwrap();
        let scored = Scored::new(&predictive, &y, Outcome::Class);
        let accuracy = posterior::score::find("accuracy").unwrap().score(&scored).unwrap();
        // Classes are told apart by the sign of one input; a constant guess has 0.5.
        assert!(accuracy > 0.9, "{accuracy}");
    }
}

#[test]
fn what_does_not_fit_gets_one_sentence() {
    let shape = Shape::Image { channels: CHANNELS, height: HEIGHT, width: WIDTH };
    let recipe =
        Recipe { network: NetworkSpec { layers: Vec::new() }, method: Choice::named("map"), ..Recipe::default() };
    let wrong = recipe.resolve_at_sites(shape, Outcome::Class, 3, 10).unwrap_err().to_string();
    assert!(
        wrong.ends_with("and 10 pixels are to be predicted; end in an image of as many pixels as the targets have"),
        "{wrong}"
    );
    let flat = recipe.resolve_at_sites(Shape::Flat(7), Outcome::Class, 3, 7).unwrap_err().to_string();
    assert!(flat.contains("7 pixels are to be predicted"), "{flat}");
    let right = recipe.resolve_at_sites(shape, Outcome::Class, 3, PIXELS).unwrap();
    let (images, _) = inputs();
    let data = Dataset::from_arrays(images, shape, vec![0.0; IMAGES]).unwrap();
    let short = right.problem(data).unwrap_err().to_string();
    assert!(short.starts_with("the data have 1 targets but the likelihood 'categorical' is for 12"), "{short}");
}
