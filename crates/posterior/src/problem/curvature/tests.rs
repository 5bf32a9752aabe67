//! Brute force: Jacobians row by row and output by output from the backward pass, then the definitions.

use super::*;
use crate::data::{Dataset, Values};
use crate::likelihood::Outcome;
use crate::math::{MatRef, Threads};
use crate::model::{Choice, Recipe};
use crate::nn::{Activation, Mode, Network, NetworkSpec, Pass, Shape};
use crate::rng::{Key, Stream, fill_normals};

const IMAGE: Shape = Shape::Image { channels: 2, height: 6, width: 6 };

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut x = vec![0.0; n];
    fill_normals(Key::new(seed), &mut x);
    x
}

fn layers(text: &str) -> NetworkSpec {
    toml::from_str(&format!("layers = [{text}]")).unwrap()
}

struct Case {
    name: &'static str,
    problem: Problem,
    w: Vec<f64>,
}

fn case(
    name: &'static str,
    network: NetworkSpec,
    shape: Shape,
    likelihood: &str,
    width: usize,
    rows: usize,
    weighted: bool,
) -> Case {
    case_of(name, network, shape, likelihood, width, normals(6, rows * shape.len()), weighted)
}

/// The same with inputs of its own.
fn case_of(
    name: &'static str,
    network: NetworkSpec,
    shape: Shape,
    likelihood: &str,
    width: usize,
    x: Vec<f64>,
    weighted: bool,
) -> Case {
    let rows = x.len() / shape.len();
    let recipe = Recipe { network, likelihood: Choice::named(likelihood), ..Recipe::default() };
    let class = likelihood == "categorical";
    let resolved = recipe.resolve_for(shape, if class { Outcome::Class } else { Outcome::Real }, width).unwrap();
    let mut stream = Stream::new(Key::new(5));
    let targets = resolved.likelihood.targets();
    let y = (0..rows * targets).map(|_| if class { stream.below(width as u64) as f64 } else { stream.normal() });
    let mut data = Dataset::new(Values::F64(x.into()), shape, y.collect(), targets);
    if weighted {
        data.weights = Some((0..rows).map(|n| [0.5, 1.0, 2.0, 0.0][n % 4]).collect());
    }
    let problem = resolved.problem(data).unwrap();
    let w = normals(7, problem.dim()).iter().map(|v| 0.5 * v).collect();
    Case { name, problem, w }
}

fn cases() -> Vec<Case> {
    let dense = |t: &str, a| NetworkSpec::parse(t, a).unwrap();
    let conv = r#"{ kind = "conv", channels = 3, kernel = 3, padding = 1, activation = "silu" }, { kind = "avg-pool", size = 2 },
        { kind = "residual", layers = [{ kind = "conv", channels = 3, kernel = 3, padding = 1, activation = "tanh" }] },
        { kind = "dense", units = 4, activation = "gelu" }"#;
    let pooled = r#"{ kind = "conv", channels = 3, kernel = 2, stride = 2, activation = "relu" }, { kind = "max-pool", size = 2 },
        { kind = "dropout", rate = 0.3 }"#;
    let graph = r#"{ kind = "graph", nodes = [{ name = "a", kind = "conv", channels = 2, kernel = 3, padding = 1, activation = "tanh" },
        { kind = "avg-pool", size = 2 }, { kind = "conv", channels = 2, kernel = 1, activation = "silu" }, { name = "b", kind = "upsample", factor = 2 },
        { kind = "concat", from = ["a", "b"] }, { kind = "avg-pool", size = 3 }] }"#;
    vec![
        case("dense", dense("5,4", Activation::Tanh), Shape::Flat(3), "gaussian", 2, 70, false),
        case("weighted", dense("5", Activation::Silu), Shape::Flat(3), "categorical", 3, 41, true),
        case("two outputs", dense("4,3", Activation::Relu), Shape::Flat(2), "heteroscedastic", 1, 33, false),
        case("linear", dense("linear", Activation::Tanh), Shape::Flat(4), "student-t", 1, 20, true),
        case("conv", layers(conv), IMAGE, "categorical", 3, 7, false),
        case("pooled", layers(pooled), IMAGE, "gaussian", 1, 9, true),
        case("graph", layers(graph), IMAGE, "categorical", 3, 6, false),
        embedding(1, "gaussian"),
        embedding(2, "categorical"),
    ]
}

/// A number and so many indices of four categories, one of them out of range; the vectors of the indices beside the number.
fn embedding(indices: usize, likelihood: &str) -> Case {
    let columns: Vec<String> = (1..=indices).map(|i| i.to_string()).collect();
    let network = format!(
        r#"{{ kind = "graph", nodes = [{{ name = "x", kind = "select", columns = [0], from = ["input"] }},
            {{ kind = "select", columns = [{}], from = ["input"] }}, {{ name = "c", kind = "embedding", categories = 4, size = 2 }},
            {{ kind = "concat", from = ["x", "c"] }}, {{ kind = "dense", units = 3, activation = "tanh" }}] }}"#,
        columns.join(", ")
    );
    let mut x = normals(6, 30 * (indices + 1));
    for (n, row) in x.chunks_mut(indices + 1).enumerate() {
        row[1..].iter_mut().enumerate().for_each(|(i, v)| *v = ((2 * n + 3 * i) % 5) as f64);
    }
    case_of("embedding", layers(&network), Shape::Flat(indices + 1), likelihood, 3, x, true)
}

/// A of an embedding is the share of every category in the rows and columns, by weight; there is no bias.
#[test]
fn kronecker_factors_of_an_embedding_count_categories() {
    for indices in [1, 2] {
        let case = embedding(indices, "categorical");
        let subset = Subset::all(&**case.problem.network()).unwrap();
        let Curvature::Kron(factors) = case.problem.ggn(&case.w, &subset, Structure::Kron).curvature else {
            panic!("not Kronecker")
        };
        let data = case.problem.data();
        let (x, weights) = (data.x.to::<f64>(), data.weights.clone().unwrap());
        let mut a = vec![0.0; 16];
        for (row, weight) in x.chunks(indices + 1).zip(weights.iter()) {
            for c in row[1..].iter().filter(|c| **c < 4.0) {
                a[*c as usize * 5] += weight / (weights.iter().sum::<f64>() * indices as f64);
            }
        }
        close("A", &factors[0].a, &a);
        assert_eq!((factors[0].affine.rows(), factors[0].b.len()), (4, 4));
    }
}

/// df/dw of every row, `rows × outputs × P`, from the backward pass of single rows; and ωH of every row.
fn brute(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let problem = &case.problem;
    let network: &dyn Network<f64> = &**problem.network();
    let (k, p, data) = (problem.network().outputs(), problem.network().layout().len(), problem.data());
    let (x, width) = (data.x.to::<f64>(), data.shape.len());
    let mut ws = network.workspace(1);
    let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
    let (mut jacobians, mut hessians) = (vec![0.0; data.rows * k * p], vec![0.0; data.rows * k * k]);
    for n in 0..data.rows {
        let x = MatRef::new(&x[n * width..(n + 1) * width], 1, width);
        for o in 0..k {
            let f = network.forward(case.w[..p].into(), x, &pass, &mut ws).data.to_vec();
            let (targets, h) = (data.targets, &mut hessians[n * k * k..(n + 1) * k * k]);
            let y = &data.y[n * targets..(n + 1) * targets];
            problem.likelihood().hessian_row(&f, y, &case.w[p..], h);
            h.iter_mut().for_each(|h| *h *= data.weights.as_ref().map_or(1.0, |w| w[n]));
            let (_, delta) = ws.output_and_delta();
            delta[..k].fill(0.0);
            delta[o] = 1.0;
            let grad = &mut jacobians[(n * k + o) * p..(n * k + o + 1) * p];
            network.backward(case.w[..p].into(), x, &pass, &mut ws, (&mut *grad).into(), false, None);
        }
    }
    (jacobians, hessians)
}

/// Σₙ JᵀHJ by the definition.
fn definition(jacobians: &[f64], hessians: &[f64], k: usize, p: usize) -> Vec<f64> {
    let mut g = vec![0.0; p * p];
    for (j, h) in jacobians.chunks(k * p).zip(hessians.chunks(k * k)) {
        for a in 0..k {
            for b in 0..k {
                for r in 0..p {
                    let f = h[a * k + b] * j[a * p + r];
                    (0..p).for_each(|c| g[r * p + c] += f * j[b * p + c]);
                }
            }
        }
    }
    g
}

#[track_caller]
fn close(what: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        // Sums of some hundred terms in another order.
        assert!((g - e).abs() <= 1e-12 * scale, "{what}, number {i}: {g} for {e}");
    }
}

#[test]
fn full_and_diagonal_are_brute_force() {
    for case in cases() {
        let (k, p) = (case.problem.network().outputs(), case.problem.network().layout().len());
        let (jacobians, hessians) = brute(&case);
        let expected = definition(&jacobians, &hessians, k, p);
        let network = &**case.problem.network();
        for (subset, part) in [(Subset::all(network), "all"), (Subset::last_layer(network), "last")] {
            let subset = subset.unwrap();
            let (range, n, name) = (subset.range(), subset.len(), format!("{} {part}", case.name));
            let block: Vec<f64> =
                (0..n * n).map(|i| expected[(range.start + i / n) * p + range.start + i % n]).collect();
            let full = case.problem.ggn(&case.w, &subset, Structure::Full);
            let Curvature::Full(matrix) = &full.curvature else { panic!("not full") };
            let matrix = &matrix.dense();
            close(&name, matrix, &block);
            let diagonal = case.problem.ggn(&case.w, &subset, Structure::Diagonal);
            let Curvature::Diagonal(values) = &diagonal.curvature else { panic!("not diagonal") };
            close(&name, values, &(0..n).map(|i| block[i * n + i]).collect::<Vec<_>>());
            let log_likelihood =
                case.problem.density::<f64>(9).log_likelihood(&case.w, crate::problem::Rows::All, Mode::Plain, None);
            for ggn in [full, diagonal] {
                assert!((ggn.log_likelihood - log_likelihood).abs() < 1e-10 * log_likelihood.abs(), "{name}");
            }
        }
    }
}

/// One position per row: g is the gradient in the bias, x the gradient in a weight over that in its bias.
#[test]
fn kronecker_factors_of_dense_layers_are_brute_force() {
    for case in cases().into_iter().take(4) {
        let (k, p) = (case.problem.network().outputs(), case.problem.network().layout().len());
        let (jacobians, hessians) = brute(&case);
        let subset = Subset::all(&**case.problem.network()).unwrap();
        let ggn = case.problem.ggn(&case.w, &subset, Structure::Kron);
        let Curvature::Kron(factors) = &ggn.curvature else { panic!("not Kronecker") };
        let weights = case.problem.data().weights.clone();
        for factor in factors {
            let affine = factor.affine;
            let (na, nb) = (affine.rows(), affine.units);
            let (mut a, mut b) = (vec![0.0; na * na], vec![0.0; nb * nb]);
            for (n, (j, h)) in jacobians.chunks(k * p).zip(hessians.chunks(k * k)).enumerate() {
                let at = |o: usize, i: usize, u: usize| j[o * p + affine.index(i, u)];
                for o in 0..k {
                    for q in 0..k {
                        for u in 0..nb * nb {
                            b[u] += h[o * k + q] * at(o, affine.inputs, u / nb) * at(q, affine.inputs, u % nb);
                        }
                    }
                }
                let all = (0..k).flat_map(|o| (0..nb).map(move |u| (o, u)));
                let size = |(o, u): &(usize, usize)| at(*o, affine.inputs, *u).abs();
                let (o, u) = all.max_by(|s, t| size(s).total_cmp(&size(t))).unwrap();
                let x: Vec<f64> = (0..na).map(|i| at(o, i, u) / at(o, affine.inputs, u)).collect();
                let weight = weights.as_ref().map_or(1.0, |w| w[n]) / ggn.weight;
                (0..na * na).for_each(|i| a[i] += weight * x[i / na] * x[i % na]);
            }
            close(case.name, &factor.a, &a);
            close(case.name, &factor.b, &b);
        }
    }
}

/// Positions of a convolution, written out: patches of x, and g from the weights of the dense layer above.
#[test]
fn kronecker_factors_of_a_convolution_are_brute_force() {
    let network = layers(r#"{ kind = "conv", channels = 3, kernel = 3, activation = "identity" }"#);
    let case = case("conv", network, IMAGE, "categorical", 3, 8, false);
    let (_, hessians) = brute(&case);
    let subset = Subset::all(&**case.problem.network()).unwrap();
    let ggn = case.problem.ggn(&case.w, &subset, Structure::Kron);
    let Curvature::Kron(factors) = &ggn.curvature else { panic!("not Kronecker") };
    let (conv, above) = (factors[0].affine, factors[1].affine);
    assert_eq!((conv.inputs, conv.units, conv.positions), (18, 3, 16));
    let x = case.problem.data().x.to::<f64>();
    let (mut a, mut b) = (vec![0.0; 19 * 19], vec![0.0; 9]);
    for n in 0..8 {
        for t in 0..16 {
            let pixel = |i: usize| x[n * 72 + i / 9 * 36 + (t / 4 + i / 3 % 3) * 6 + t % 4 + i % 3];
            let patch: Vec<f64> = (0..18).map(pixel).chain([1.0]).collect();
            (0..19 * 19).for_each(|i| a[i] += patch[i / 19] * patch[i % 19] / (8.0 * 16.0));
            let g = |k: usize, c: usize| case.w[above.index(c * 16 + t, k)];
            for k in 0..9 {
                let h = hessians[n * 9 + k];
                (0..9).for_each(|c| b[c] += h * g(k / 3, c / 3) * g(k % 3, c % 3));
            }
        }
    }
    close("A", &factors[0].a, &a);
    close("B", &factors[0].b, &b);
}

/// One linear layer with normal noise: A ⊗ B is all of G.
#[test]
fn kronecker_factors_of_a_linear_layer_are_everything() {
    for weighted in [false, true] {
        let network = NetworkSpec::parse("linear", Activation::Tanh).unwrap();
        let case = case("linear", network, Shape::Flat(4), "gaussian", 2, 50, weighted);
        let subset = Subset::all(&**case.problem.network()).unwrap();
        let full = case.problem.ggn(&case.w, &subset, Structure::Full).curvature;
        let kron = case.problem.ggn(&case.w, &subset, Structure::Kron).curvature;
        let (Curvature::Full(full), Curvature::Kron(kron)) = (full, kron) else { panic!("structures") };
        let product = crate::math::linalg::testing::kron(&kron[0].a, 5, &kron[0].b, 2);
        close("A ⊗ B", &product, &full.dense());
    }
}

#[test]
fn chunks_and_threads_change_nothing() {
    let dense = NetworkSpec::parse("20", Activation::Tanh).unwrap();
    let case = case("many", dense, Shape::Flat(5), "categorical", 4, 3000, false);
    let subset = Subset::all(&**case.problem.network()).unwrap();
    for structure in [Structure::Full, Structure::Kron, Structure::Diagonal] {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            format!("{:?}", pool.install(|| case.problem.ggn(&case.w, &subset, structure)))
        };
        let one = on(1);
        assert!(one == on(2) && one == on(4), "{structure:?}");
    }
}

#[test]
fn what_has_no_last_layer_is_told() {
    let network = layers(r#"{ kind = "conv", channels = 2, kernel = 3 }"#);
    let built = network.build(IMAGE, 3).unwrap();
    assert_eq!(Subset::last_layer(&built).unwrap().affines.len(), 1);
    assert_eq!(Subset::all(&built).unwrap().affines.len(), 2);
}
