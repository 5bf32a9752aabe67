//! Random splits of the rows: training and validation, or K folds; classes kept in proportion where they are given.

use crate::error::{Error, Result};
use crate::rng::{Key, Purpose, Stream};

/// Row numbers of two parts, each in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows to learn from.
    pub train: Vec<usize>,
    /// Rows held back.
    pub validation: Vec<usize>,
}

impl Split {
    fn by(order: &[usize], held_back: impl Fn(usize) -> bool) -> Split {
        let part = |wanted: bool| {
            let chosen = order.iter().enumerate().filter(|(p, _)| held_back(*p) == wanted);
            let mut rows: Vec<usize> = chosen.map(|(_, r)| *r).collect();
            rows.sort_unstable();
            rows
        };
        Split { train: part(false), validation: part(true) }
    }
}

/// Rows in random order; with classes, class after class, so that taking every n-th row takes from each in proportion.
fn order(rows: usize, classes: Option<&[f64]>, key: Key) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows).collect();
    Stream::new(key.purpose(Purpose::Split)).shuffle(&mut order);
    if let Some(classes) = classes {
        if classes.len() != rows {
            let what = format!("there are {rows} rows and {} classes", classes.len());
            return Err(Error::data(what, "give the class of each row"));
        }
        order.sort_by(|a, b| classes[*a].total_cmp(&classes[*b])); // stable
    }
    Ok(order)
}

/// Holds back a fraction of the rows, rounded, at least one, and leaves at least one.
///
/// `classes` (the class number of each row) makes the split stratified.
pub fn split(rows: usize, fraction: f64, classes: Option<&[f64]>, key: Key) -> Result<Split> {
    if !(fraction > 0.0 && fraction < 1.0) {
        let what = format!("the fraction of rows held back cannot be {fraction}");
        return Err(Error::setting(what, "it takes a number above 0 and below 1"));
    }
    if rows < 2 {
        return Err(Error::data(format!("{rows} rows cannot be split in two"), "add rows"));
    }
    let held = ((rows as f64 * fraction).round() as usize).clamp(1, rows - 1);
    let order = order(rows, classes, key)?;
    // Position p is held back where p·held/rows passes a whole number: evenly spaced, `held` in all.
    let passed = |p: usize| (p as u128 * held as u128 + rows as u128 / 2) / rows as u128;
    Ok(Split::by(&order, |p| passed(p + 1) > passed(p)))
}

/// K folds: each row is held back once, and the folds' sizes differ by one at most.
pub fn folds(rows: usize, k: usize, classes: Option<&[f64]>, key: Key) -> Result<Vec<Split>> {
    if k < 2 || k > rows {
        let what = format!("{rows} rows cannot be split into {k} folds");
        return Err(Error::setting(what, "choose at least 2 folds and at most as many as rows"));
    }
    let order = order(rows, classes, key)?;
    Ok((0..k).map(|fold| Split::by(&order, |p| p % k == fold)).collect())
}

/// K folds that keep the rows of a group together: groups in random order, each to the fold with the fewest rows so far.
pub fn folds_of_groups<G: Ord>(groups: &[G], k: usize, key: Key) -> Result<Vec<Split>> {
    let mut distinct: Vec<&G> = groups.iter().collect();
    distinct.sort();
    distinct.dedup();
    if k < 2 || k > distinct.len() {
        let what = format!("{} groups cannot be split into {k} folds", distinct.len());
        return Err(Error::setting(what, "choose at least 2 folds and at most as many as groups"));
    }
    let number = |group: &G| distinct.partition_point(|g| *g < group);
    let of_row: Vec<usize> = groups.iter().map(number).collect();
    let mut sizes = vec![0usize; distinct.len()];
    of_row.iter().for_each(|g| sizes[*g] += 1);
    let mut order: Vec<usize> = (0..distinct.len()).collect();
    Stream::new(key.purpose(Purpose::Split)).shuffle(&mut order);
    order.sort_by_key(|g| std::cmp::Reverse(sizes[*g])); // stable: equal sizes stay in random order
    let (mut fold_of, mut rows_of) = (vec![0; distinct.len()], vec![0usize; k]);
    for group in order {
        let fold = (0..k).min_by_key(|f| rows_of[*f]).unwrap_or(0);
        fold_of[group] = fold;
        rows_of[fold] += sizes[group];
    }
    let all: Vec<usize> = (0..groups.len()).collect();
    Ok((0..k).map(|fold| Split::by(&all, |row| fold_of[of_row[row]] == fold)).collect())
}

/// K splits in the order of time: the rows are cut into k + 1 parts, and part i + 1 is predicted from parts 0 to i. Rows of one time stay together.
pub fn folds_in_time<T: PartialOrd>(times: &[T], k: usize) -> Result<Vec<Split>> {
    let rows = times.len();
    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|a, b| times[*a].partial_cmp(&times[*b]).unwrap_or(std::cmp::Ordering::Equal));
    // A part begins where the time changes.
    let start = |part: usize| {
        let mut at = part * rows / (k + 1);
        while at > 0 && at < rows && times[order[at]] == times[order[at - 1]] {
            at += 1;
        }
        at
    };
    let starts: Vec<usize> = (1..=k).map(start).chain([rows]).collect();
    if k == 0 || k >= rows || starts[0] == 0 || starts.windows(2).any(|w| w[0] >= w[1]) {
        let what = format!("{rows} rows cannot be split into {k} periods to predict");
        return Err(Error::setting(what, "choose fewer folds, or a column with more different times"));
    }
    let sorted = |part: &[usize]| {
        let mut rows = part.to_vec();
        rows.sort_unstable();
        rows
    };
    let split = |w: &[usize]| Split { train: sorted(&order[..w[0]]), validation: sorted(&order[w[0]..w[1]]) };
    Ok(starts.windows(2).map(split).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_takes_the_fraction_and_loses_no_row() {
        for (rows, fraction, held) in [(10, 0.2, 2), (11, 0.5, 6), (2, 0.01, 1), (2, 0.99, 1), (1000, 0.1, 100)] {
            let s = split(rows, fraction, None, Key::new(5)).unwrap();
            assert_eq!(s.validation.len(), held);
            let mut all = [s.train, s.validation].concat();
            all.sort_unstable();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
        }
        let of = |seed| split(100, 0.3, None, Key::new(seed)).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn classes_keep_their_proportions() {
        let classes: Vec<f64> = (0..100).map(|i| if i % 10 == 0 { 1.0 } else { 0.0 }).collect();
        let rare = |rows: &[usize]| rows.iter().filter(|r| classes[**r] == 1.0).count();
        let s = split(100, 0.2, Some(&classes), Key::new(1)).unwrap();
        assert_eq!((s.validation.len(), rare(&s.validation)), (20, 2));
        for fold in folds(100, 5, Some(&classes), Key::new(1)).unwrap() {
            assert_eq!((fold.validation.len(), rare(&fold.validation)), (20, 2));
        }
    }

    #[test]
    fn groups_stay_together_and_time_goes_forward() {
        let groups: Vec<usize> = (0..60).map(|i| i * i % 17 % 7).collect();
        let folds = folds_of_groups(&groups, 3, Key::new(1)).unwrap();
        let mut held = 0;
        for fold in &folds {
            let inside: std::collections::HashSet<usize> = fold.validation.iter().map(|r| groups[*r]).collect();
            assert!(fold.train.iter().all(|r| !inside.contains(&groups[*r])));
            assert!(!fold.train.is_empty() && !fold.validation.is_empty());
            held += fold.validation.len();
        }
        assert_eq!(held, 60);
        let message = folds_of_groups(&[1, 1, 2], 3, Key::new(1)).unwrap_err().to_string();
        assert_eq!(
            message,
            "2 groups cannot be split into 3 folds; choose at least 2 folds and at most as many as groups"
        );
        let times: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 20)).collect();
        for split in folds_in_time(&times, 4).unwrap() {
            let last = split.train.iter().map(|r| times[*r]).fold(f64::MIN, f64::max);
            assert!(split.validation.iter().all(|r| times[*r] > last));
            assert!(split.validation.len() >= 4);
        }
        assert!(folds_in_time(&[1.0; 10], 2).is_err());
    }

    #[test]
    fn folds_hold_back_each_row_once() {
        let folds = folds(11, 3, None, Key::new(1)).unwrap();
        let mut all: Vec<usize> = folds.iter().flat_map(|f| f.validation.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..11).collect::<Vec<_>>());
        assert!(folds.iter().all(|f| f.train.len() + f.validation.len() == 11 && f.validation.len() >= 3));
    }

    #[test]
    fn impossible_splits_get_one_sentence() {
        let message = |r: Result<Split>| r.unwrap_err().to_string();
        assert_eq!(message(split(1, 0.5, None, Key::new(1))), "1 rows cannot be split in two; add rows");
        for fraction in [0.0, 1.0, -1.0, f64::NAN] {
            let text = message(split(9, fraction, None, Key::new(1)));
            assert!(text.ends_with("it takes a number above 0 and below 1"));
        }
        for k in [0, 1, 10] {
            assert!(folds(9, k, None, Key::new(1)).unwrap_err().to_string().contains("cannot be split into"));
        }
        assert_eq!(
            message(split(3, 0.5, Some(&[1.0]), Key::new(1))),
            "there are 3 rows and 1 classes; give the class of each row"
        );
    }
}
