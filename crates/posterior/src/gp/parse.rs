//! Kernel expressions as text: `matern52(ard) + linear(columns=[age]) * periodic(period=12)`.
//!
//! ```text
//! sum     = product { "+" product }
//! product = factor { "*" factor }
//! factor  = NAME [ "(" argument { "," argument } ")" ] | "(" sum ")"
//! argument = "ard" | "columns" "=" names | ("degree" | "depth") "=" NUMBER | "activation" "=" NAME | PARAMETER ("=" | "~") numbers
//! ```
//! `=` holds a parameter at its value, `~` lets a fit start there; several names or numbers stand in square brackets, and a name that is not letters, digits,
//! `_`, `-` or `.` in double quotes. What is printed is read again as the same expression.

use super::wide::{WIDE_ACTIVATIONS, WideActivation};
use crate::error::{Error, Result, suggest};
use std::fmt;

/// Which function of two rows a kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// v exp(−r²/2).
    Rbf,
    /// v exp(−r).
    Matern12,
    /// v (1 + √3 r) exp(−√3 r).
    Matern32,
    /// v (1 + √5 r + 5r²/3) exp(−√5 r).
    Matern52,
    /// v (1 + r²/2α)^−α.
    RationalQuadratic,
    /// v exp(−2 Σ sin²(π d/p)/ℓ²).
    Periodic,
    /// Σ v x x′.
    Linear,
    /// v (x·x′/D + c)^degree, D the number of encoded inputs.
    Polynomial,
    /// v.
    Constant,
    /// v for a row and itself, 0 for two rows.
    White,
    /// v exp(−Σ [x ≠ x′]/ℓ), for text and true/false columns.
    Hamming,
    /// v times the covariance of the outputs of an infinitely wide network.
    Nngp,
    /// v times the neural tangent kernel of an infinitely wide network.
    Ntk,
}

/// A row of the table of kernels.
#[derive(Debug, Clone, Copy)]
pub struct KindEntry {
    /// What a user writes.
    pub name: &'static str,
    /// Which one.
    pub kind: Kind,
    /// Names of its parameters, in the order they are kept.
    pub parameters: &'static [&'static str],
    /// Whether `ard` gives every column a parameter of its own.
    pub ard: bool,
}

/// Every kernel there is.
pub const KERNELS: &[KindEntry] = &[
    KindEntry { name: "rbf", kind: Kind::Rbf, parameters: &["variance", "lengthscale"], ard: true },
    KindEntry { name: "matern12", kind: Kind::Matern12, parameters: &["variance", "lengthscale"], ard: true },
    KindEntry { name: "matern32", kind: Kind::Matern32, parameters: &["variance", "lengthscale"], ard: true },
    KindEntry { name: "matern52", kind: Kind::Matern52, parameters: &["variance", "lengthscale"], ard: true },
    KindEntry {
        name: "rq",
        kind: Kind::RationalQuadratic,
        parameters: &["variance", "alpha", "lengthscale"],
        ard: true,
    },
    KindEntry { name: "periodic", kind: Kind::Periodic, parameters: &["variance", "period", "lengthscale"], ard: true },
    KindEntry { name: "linear", kind: Kind::Linear, parameters: &["variance"], ard: true },
    KindEntry { name: "polynomial", kind: Kind::Polynomial, parameters: &["variance", "offset"], ard: false },
    KindEntry { name: "constant", kind: Kind::Constant, parameters: &["variance"], ard: false },
    KindEntry { name: "white", kind: Kind::White, parameters: &["variance"], ard: false },
    KindEntry { name: "hamming", kind: Kind::Hamming, parameters: &["variance", "lengthscale"], ard: true },
    KindEntry {
        name: "nngp",
        kind: Kind::Nngp,
        parameters: &["variance", "weight_variance", "bias_variance"],
        ard: false,
    },
    KindEntry {
        name: "ntk",
        kind: Kind::Ntk,
        parameters: &["variance", "weight_variance", "bias_variance"],
        ard: false,
    },
];

/// Kernels of one expression: more are no model that data could tell apart.
const MOST_KERNELS: usize = 16;
/// Parentheses inside each other.
const DEEPEST: usize = 16;
/// Of a polynomial.
pub(super) const HIGHEST_DEGREE: usize = 10;
/// Hidden layers of a wide network.
pub(super) const DEEPEST_NETWORK: usize = 50;
/// Parameters lie between this and one over it.
pub(super) const SMALLEST: f64 = 1e-12;

impl Kind {
    /// Whether it is that of a wide network.
    pub fn is_wide(self) -> bool {
        matches!(self, Kind::Nngp | Kind::Ntk)
    }

    /// Its row of [`KERNELS`].
    pub fn entry(self) -> &'static KindEntry {
        KERNELS.iter().find(|k| k.kind == self).expect("every kind has a row")
    }
}

/// A parameter's value as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// Which parameter.
    pub name: String,
    /// One, or one for every column.
    pub values: Vec<f64>,
    /// Held there, or where a fit starts.
    pub fixed: bool,
}

/// One kernel with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafSpec {
    /// Which one.
    pub kind: Kind,
    /// A parameter for every column.
    pub ard: bool,
    /// Columns it acts on; all that suit it, where there is none.
    pub columns: Vec<String>,
    /// Of a polynomial; of a wide network its hidden layers.
    pub degree: usize,
    /// Of a wide network.
    pub activation: WideActivation,
    /// Values that were written.
    pub given: Vec<Given>,
    /// Where it begins in the text, counted in characters from 1.
    pub position: usize,
}

/// A kernel expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// One kernel.
    Leaf(LeafSpec),
    /// f = f₁ + f₂ + …, independent.
    Sum(Vec<Expr>),
    /// k = k₁ k₂ ….
    Product(Vec<Expr>),
}

impl Expr {
    /// Reads an expression; an error says where it goes wrong.
    pub fn parse(text: &str) -> Result<Expr> {
        let mut parser = Parser { text: text.chars().collect(), at: 0, kernels: 0 };
        let expr = parser.sum(0)?;
        parser.space();
        match parser.text.get(parser.at) {
            None => Ok(expr),
            Some(c) => Err(parser.wrong(format!("'{c}' is not expected here"), "join kernels by + or *")),
        }
    }

    /// Its kernels from left to right.
    pub fn leaves(&self) -> Vec<&LeafSpec> {
        match self {
            Expr::Leaf(leaf) => vec![leaf],
            Expr::Sum(parts) | Expr::Product(parts) => parts.iter().flat_map(Expr::leaves).collect(),
        }
    }

    /// Its kernels from left to right, to be changed.
    pub(super) fn leaves_mut(&mut self) -> Vec<&mut LeafSpec> {
        match self {
            Expr::Leaf(leaf) => vec![leaf],
            Expr::Sum(parts) | Expr::Product(parts) => parts.iter_mut().flat_map(Expr::leaves_mut).collect(),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Expr], by: &str, inside: bool| {
            parts.iter().enumerate().try_for_each(|(i, part)| {
                let (open, close) = if inside && matches!(part, Expr::Sum(_)) { ("(", ")") } else { ("", "") };
                write!(f, "{}{open}{part}{close}", if i > 0 { by } else { "" })
            })
        };
        match self {
            Expr::Leaf(leaf) => leaf.fmt(f),
            Expr::Sum(parts) => join(f, parts, " + ", false),
            Expr::Product(parts) => join(f, parts, " * ", true),
        }
    }
}

impl fmt::Display for LeafSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arguments: Vec<String> = Vec::new();
        if self.ard {
            arguments.push("ard".to_owned());
        }
        if !self.columns.is_empty() {
            let names: Vec<String> = self.columns.iter().map(|c| quoted(c)).collect();
            arguments.push(format!("columns=[{}]", names.join(", ")));
        }
        if self.kind == Kind::Polynomial {
            arguments.push(format!("degree={}", self.degree));
        }
        if self.kind.is_wide() {
            arguments.push(format!("depth={}", self.degree));
            arguments.push(format!("activation={}", self.activation.name()));
        }
        for given in &self.given {
            let sign = if given.fixed { "=" } else { "~" };
            let values: Vec<String> = given.values.iter().map(f64::to_string).collect();
            arguments.push(match values.as_slice() {
                [one] => format!("{}{sign}{one}", given.name),
                _ => format!("{}{sign}[{}]", given.name, values.join(", ")),
            });
        }
        let name = self.kind.entry().name;
        if arguments.is_empty() { write!(f, "{name}") } else { write!(f, "{name}({})", arguments.join(", ")) }
    }
}

fn plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn quoted(name: &str) -> String {
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    kernels: usize,
}

impl Parser {
    fn wrong(&self, what: impl fmt::Display, fix: impl Into<crate::remedy::Remedy>) -> Error {
        self.wrong_at(self.at, what, fix)
    }

    fn wrong_at(&self, at: usize, what: impl fmt::Display, fix: impl Into<crate::remedy::Remedy>) -> Error {
        let text: String = self.text.iter().take(200).collect();
        Error::setting(format!("the kernel '{text}' cannot be read at character {}: {what}", at + 1), fix)
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes a character, if it comes next.
    fn take(&mut self, c: char) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&c);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.take(c) {
            return Ok(());
        }
        let found = self.text.get(self.at).map_or("the end".to_owned(), |c| format!("'{c}'"));
        Err(self.wrong(format!("{found} stands where '{c}' is expected"), format!("put '{c}' there")))
    }

    fn sum(&mut self, depth: usize) -> Result<Expr> {
        let mut parts = Vec::new();
        loop {
            match self.product(depth)? {
                Expr::Sum(inner) => parts.extend(inner),
                other => parts.push(other),
            }
            if !self.take('+') {
                break;
            }
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Sum(parts) })
    }

    fn product(&mut self, depth: usize) -> Result<Expr> {
        let mut parts = Vec::new();
        loop {
            match self.factor(depth)? {
                Expr::Product(inner) => parts.extend(inner),
                other => parts.push(other),
            }
            if !self.take('*') {
                break;
            }
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Product(parts) })
    }

    fn factor(&mut self, depth: usize) -> Result<Expr> {
        if self.take('(') {
            if depth >= DEEPEST {
                return Err(self.wrong(format!("more than {DEEPEST} parentheses are open"), "leave some out"));
            }
            let inside = self.sum(depth + 1)?;
            self.expect(')')?;
            return Ok(inside);
        }
        self.space();
        let start = self.at;
        let name = self.word();
        let names = || KERNELS.iter().map(|k| k.name).collect::<Vec<_>>();
        if name.is_empty() {
            let fix = format!("write one of {}", names().join(", "));
            return Err(self.wrong("a kernel is expected here", fix));
        }
        let Some(entry) = KERNELS.iter().find(|k| k.name == name) else {
            return Err(self.wrong_at(start, format!("there is no kernel '{name}'"), suggest(&name, names())));
        };
        self.kernels += 1;
        if self.kernels > MOST_KERNELS {
            return Err(self.wrong_at(start, format!("more than {MOST_KERNELS} kernels are joined"), "leave some out"));
        }
        let mut leaf = LeafSpec {
            kind: entry.kind,
            ard: false,
            columns: Vec::new(),
            degree: if entry.kind.is_wide() { 1 } else { 2 },
            activation: WideActivation::Relu,
            given: Vec::new(),
            position: start + 1,
        };
        if self.take('(') && !self.take(')') {
            loop {
                self.argument(entry, &mut leaf)?;
                if !self.take(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        Ok(Expr::Leaf(leaf))
    }

    fn argument(&mut self, entry: &KindEntry, leaf: &mut LeafSpec) -> Result<()> {
        self.space();
        let start = self.at;
        let name = self.word();
        if name == "ard" {
            if !entry.ard {
                let what = format!("'{}' has no parameter that could differ by column", entry.name);
                return Err(self.wrong_at(start, what, "leave 'ard' out"));
            }
            leaf.ard = true;
            return Ok(());
        }
        if name == "columns" {
            if matches!(entry.kind, Kind::Constant | Kind::White) {
                let what = format!("'{}' looks at no column", entry.name);
                return Err(self.wrong_at(start, what, "leave 'columns' out"));
            }
            self.expect('=')?;
            leaf.columns = self.list(Parser::name)?;
            let mut seen = leaf.columns.clone();
            seen.sort();
            if seen.windows(2).any(|w| w[0] == w[1]) {
                return Err(self.wrong_at(start, "a column is named twice", "name every column once"));
            }
            return Ok(());
        }
        let polynomial = entry.kind == Kind::Polynomial;
        if name == "degree" && polynomial {
            self.expect('=')?;
            let at = self.at;
            let value = self.number()?;
            if value.fract() != 0.0 || !(1.0..=HIGHEST_DEGREE as f64).contains(&value) {
                let what = format!("the degree cannot be {value}");
                return Err(self.wrong_at(at, what, format!("it is a whole number from 1 to {HIGHEST_DEGREE}")));
            }
            leaf.degree = value as usize;
            return Ok(());
        }
        let wide = entry.kind.is_wide();
        if name == "depth" && wide {
            self.expect('=')?;
            let at = self.at;
            let value = self.number()?;
            if value.fract() != 0.0 || !(1.0..=DEEPEST_NETWORK as f64).contains(&value) {
                let what = format!("the depth cannot be {value}");
                return Err(self.wrong_at(at, what, format!("it is a whole number from 1 to {DEEPEST_NETWORK}")));
            }
            leaf.degree = value as usize;
            return Ok(());
        }
        if name == "activation" && wide {
            self.expect('=')?;
            self.space();
            let at = self.at;
            let given = self.word();
            let Some((_, found)) = WIDE_ACTIVATIONS.iter().find(|(n, _)| *n == given) else {
                let known = WIDE_ACTIVATIONS.iter().map(|(n, _)| *n).collect::<Vec<_>>();
                let what = format!("the kernel of a wide network with the activation '{given}' has no closed form");
                return Err(self.wrong_at(at, what, format!("use one of {}; erf is near tanh", known.join(", "))));
            };
            leaf.activation = *found;
            return Ok(());
        }
        if !entry.parameters.contains(&name.as_str()) {
            let mut known = vec!["columns"];
            known.extend(wide.then_some(["depth", "activation"]).into_iter().flatten());
            known.extend(entry.ard.then_some("ard").into_iter().chain(polynomial.then_some("degree")));
            known.extend(entry.parameters);
            let what = format!("'{}' has no argument '{name}'", entry.name);
            return Err(self.wrong_at(start, what, suggest(&name, known)));
        }
        let fixed = !self.take('~');
        if fixed {
            self.expect('=')?;
        }
        self.space();
        let at = self.at;
        let values = self.list(Parser::number)?;
        if let Some(bad) = values.iter().find(|v| !(SMALLEST..=1.0 / SMALLEST).contains(*v)) {
            let what = format!("the {name} cannot be {bad}");
            return Err(self.wrong_at(at, what, format!("it is a number from {SMALLEST:e} to {:e}", 1.0 / SMALLEST)));
        }
        if leaf.given.iter().any(|g| g.name == name) {
            return Err(self.wrong_at(start, format!("the {name} is given twice"), "give it once"));
        }
        leaf.given.push(Given { name, values, fixed });
        Ok(())
    }

    /// One item, or several in square brackets.
    fn list<T>(&mut self, item: fn(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
        if !self.take('[') {
            return Ok(vec![item(self)?]);
        }
        let mut all = vec![item(self)?];
        while self.take(',') {
            all.push(item(self)?);
        }
        self.expect(']')?;
        Ok(all)
    }

    fn word(&mut self) -> String {
        self.space();
        let word: String = self.text[self.at..].iter().take_while(|c| plain(**c)).collect();
        self.at += word.chars().count();
        word
    }

    fn name(&mut self) -> Result<String> {
        if self.take('"') {
            let mut name = String::new();
            while let Some(c) = self.text.get(self.at) {
                self.at += 1;
                match c {
                    '"' => return Ok(name),
                    '\\' => {
                        name.extend(self.text.get(self.at));
                        self.at += 1;
                    }
                    c => name.push(*c),
                }
            }
            return Err(self.wrong("a name in double quotes does not end", "close it with \""));
        }
        match self.word() {
            empty if empty.is_empty() => Err(self.wrong("the name of a column is expected here", "name one")),
            name => Ok(name),
        }
    }

    fn number(&mut self) -> Result<f64> {
        self.space();
        let start = self.at;
        let digits = |c: &&char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let mut text: String = self.text[self.at..].iter().take_while(digits).collect();
        // A sign belongs to a number at its beginning and after an e.
        let ends =
            |(i, c): (usize, char)| matches!(c, '+' | '-') && i > 0 && !matches!(text.as_bytes()[i - 1], b'e' | b'E');
        if let Some(end) = text.char_indices().find(|p| ends(*p)).map(|(i, _)| i) {
            text.truncate(end);
        }
        self.at += text.len();
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(v),
            _ => Err(self.wrong_at(start, "a number is expected here", "write one such as 0.5")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for (text, printed) in [
            ("matern52(ard)+linear", "matern52(ard) + linear"),
            (" ( rbf + linear ) * periodic( period = 12 )", "(rbf + linear) * periodic(period=12)"),
            ("(rbf * rq(alpha~2)) * white", "rbf * rq(alpha~2) * white"),
            (
                "rbf(columns=[age, \"body \\\"mass\\\"\"], lengthscale=[1, 2e-1], ard)",
                "rbf(ard, columns=[age, \"body \\\"mass\\\"\"], lengthscale=[1, 0.2])",
            ),
            ("polynomial(degree=3, offset=0.5)+constant()", "polynomial(degree=3, offset=0.5) + constant"),
            ("hamming(columns=colour)", "hamming(columns=[colour])"),
            ("nngp + ntk(activation=erf, depth=3)", "nngp(depth=1, activation=relu) + ntk(depth=3, activation=erf)"),
            ("rbf(lengthscale=1e-3) + rbf(variance=2)", "rbf(lengthscale=0.001) + rbf(variance=2)"),
        ] {
            let expr = Expr::parse(text).unwrap();
            assert_eq!(expr.to_string(), printed);
            assert_eq!(Expr::parse(printed).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, at, what) in [
            ("", 1, "a kernel is expected"),
            ("rbf +", 6, "a kernel is expected"),
            ("rbf + mattern52", 7, "there is no kernel 'mattern52'; did you mean 'matern52'?"),
            ("rbf(lenghtscale=1)", 5, "did you mean 'lengthscale'?"),
            ("periodic(period=0)", 17, "the period cannot be 0"),
            ("rbf(lengthscale=-1)", 17, "the lengthscale cannot be -1"),
            ("rbf(lengthscale=x)", 17, "a number is expected"),
            ("rbf(lengthscale=nan)", 17, "a number is expected"),
            ("(rbf", 5, "the end stands where ')' is expected"),
            ("rbf linear", 5, "'l' is not expected here"),
            ("constant(ard)", 10, "has no parameter that could differ"),
            ("white(columns=a)", 7, "looks at no column"),
            ("polynomial(degree=1.5)", 19, "the degree cannot be 1.5"),
            ("nngp(depth=0)", 12, "the depth cannot be 0"),
            ("nngp(activation=tanh)", 17, "has no closed form"),
            ("rbf(columns=[a, a])", 5, "named twice"),
            ("rbf(columns=\"a)", 16, "does not end"),
            ("rbf(variance=1, variance=2)", 17, "given twice"),
        ] {
            let message = Expr::parse(text).unwrap_err().to_string();
            assert!(message.contains(&format!("at character {at}: ")) && message.contains(what), "{text}: {message}");
        }
        let deep = "(".repeat(100_000);
        assert!(Expr::parse(&deep).unwrap_err().to_string().contains("parentheses are open"));
        let long = vec!["rbf"; 17].join("+");
        assert!(Expr::parse(&long).unwrap_err().to_string().contains("more than 16 kernels"));
    }
}
