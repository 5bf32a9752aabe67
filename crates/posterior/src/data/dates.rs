//! Dates and times: recognised by a whole column, turned into year, season, weekday, hour and elapsed time.
//!
//! A moment is its days since 1970-01-01, t. Elapsed time is (t − mean)/std, the season sin and cos of 2π·day of the year/365.25, the weekday and the hour
//! likewise over 7 and 24; parts that do not vary in training are left out. The calendar is the Gregorian one, by Hinnant's `days_from_civil`. Clocks are as
//! written: an offset from UTC is not applied, so that the hour stays the local one. Cost: O(1) a cell.

use super::scale::Scale;
use super::table::{Column, Table, show};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// In which order a date of three numbers is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateOrder {
    /// 2024-12-31; also with the month by name in any order.
    YearMonthDay,
    /// 31.12.2024
    DayMonthYear,
    /// 12/31/2024
    MonthDayYear,
}

/// How a column of dates is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DateParts {
    /// How its dates are written.
    pub order: DateOrder,
    /// Of the days since 1970-01-01.
    pub elapsed: Scale,
    /// Of the year, where there are several.
    pub year: Option<Scale>,
    /// Whether the day of the year is an input, as sine and cosine.
    pub season: bool,
    /// Whether the day of the week is, likewise.
    pub weekday: bool,
    /// Whether the hour of the day is, likewise.
    pub hour: bool,
}

impl DateParts {
    /// Of the moments of training rows; none if they do not vary.
    pub(super) fn of(order: DateOrder, moments: &[f64]) -> Option<DateParts> {
        let elapsed = Scale::of(moments.iter().copied())?;
        let years: Vec<f64> = moments.iter().map(|t| f64::from(civil(t.floor() as i64).0)).collect();
        let differ = |f: &dyn Fn(f64) -> i64| moments.iter().any(|t| f(*t) != f(moments[0]));
        // Below two weeks the season says what elapsed time says.
        let (low, high) = moments.iter().fold((f64::MAX, f64::MIN), |(l, h), t| (l.min(*t), h.max(*t)));
        Some(DateParts {
            order,
            elapsed,
            year: Scale::of(years.into_iter()),
            season: high - low > 14.0,
            weekday: differ(&|t| (t.floor() as i64).rem_euclid(7)),
            hour: differ(&|t| ((t - t.floor()) * 1440.0).round() as i64),
        })
    }

    /// How many inputs it becomes.
    pub fn width(&self) -> usize {
        1 + usize::from(self.year.is_some()) + 2 * [self.season, self.weekday, self.hour].iter().filter(|p| **p).count()
    }

    /// Whether its scales can be divided by.
    pub(super) fn is_valid(&self) -> bool {
        self.elapsed.is_valid() && self.year.as_ref().is_none_or(Scale::is_valid)
    }

    /// Names of the inputs, after the column's.
    pub(super) fn names(&self, column: &str) -> Vec<String> {
        let mut names = vec![format!("{column}:elapsed")];
        names.extend(self.year.iter().map(|_| format!("{column}:year")));
        for (part, is) in [("season", self.season), ("weekday", self.weekday), ("hour", self.hour)] {
            names.extend(["sin", "cos"].iter().filter(|_| is).map(|f| format!("{column}:{part}_{f}")));
        }
        names
    }

    /// The inputs of a moment.
    pub(super) fn encode(&self, t: f64, out: &mut [f64]) {
        let day = t.floor() as i64;
        let (year, of_year) = civil(day);
        let hour = (t - t.floor()) * 24.0;
        let mut parts = vec![self.elapsed.apply(t)];
        parts.extend(self.year.iter().map(|s| s.apply(f64::from(year))));
        let mut turn = |is: bool, part: f64| {
            let (sin, cos) = (TAU * part).sin_cos();
            parts.extend([sin, cos].into_iter().filter(|_| is));
        };
        turn(self.season, (of_year as f64 + hour / 24.0) / 365.25);
        // 1970-01-01 was a Thursday; Monday is 0.
        turn(self.weekday, (day + 3).rem_euclid(7) as f64 / 7.0);
        turn(self.hour, hour / 24.0);
        out.copy_from_slice(&parts);
    }
}

impl Table {
    /// The numbers of a column, or its dates in days since 1970-01-01, by which rows can be put in the order of time.
    pub fn times(&self, name: &str) -> Result<Vec<f64>> {
        let column = self.column(name)?;
        let rows: Vec<usize> = (0..column.len()).collect();
        let order = recognise(column, &rows).map(|(order, _)| order);
        let time = |row: usize| {
            let time = match (column, order) {
                (Column::Number(v), _) => Some(v[row]).filter(|v| !v.is_nan()),
                (Column::Text(cells), Some(order)) => cells[row].as_deref().and_then(|cell| moment(cell, order)),
                _ => {
                    let what = "the column holds neither numbers nor dates of one form";
                    return Err(self
                        .locate(Error::data(what, "choose another column for the time"))
                        .in_column(&show(name)));
                }
            };
            time.ok_or_else(|| {
                Error::data("the time is missing", "fill it in, or remove the row").at(self.place(row, name))
            })
        };
        (0..column.len()).map(time).collect()
    }
}

/// How the dates of a text column are written, and whether days and months could be told apart; none unless all of its cells are dates.
pub(super) fn recognise(column: &Column, rows: &[usize]) -> Option<(DateOrder, bool)> {
    let Column::Text(cells) = column else { return None };
    let all = |order: DateOrder| -> Option<Vec<f64>> {
        let moments: Option<Vec<f64>> =
            rows.iter().filter_map(|r| cells[*r].as_deref()).map(|cell| moment(cell, order)).collect();
        moments.filter(|m| !m.is_empty())
    };
    if all(DateOrder::YearMonthDay).is_some() {
        return Some((DateOrder::YearMonthDay, true));
    }
    match (all(DateOrder::DayMonthYear), all(DateOrder::MonthDayYear)) {
        (Some(_), None) => Some((DateOrder::DayMonthYear, true)),
        (None, Some(_)) => Some((DateOrder::MonthDayYear, true)),
        (None, None) => None,
        (Some(d), Some(m)) => {
            // Files are often in the order of time: the reading that jumps about less is the likelier.
            let jumps = |t: &[f64]| t.windows(2).map(|w| (w[1] - w[0]).abs()).sum::<f64>();
            let slashes = cells.iter().flatten().any(|c| c.contains('/'));
            let day_first = jumps(&d) < jumps(&m) || (jumps(&d) == jumps(&m) && !slashes);
            Some((if day_first { DateOrder::DayMonthYear } else { DateOrder::MonthDayYear }, false))
        }
    }
}

/// Days since 1970-01-01 of a cell; none if it is no date.
pub(super) fn moment(cell: &str, order: DateOrder) -> Option<f64> {
    let cell = cell.trim();
    if cell.len() < 6 || cell.len() > 40 || !cell.is_ascii() {
        return None;
    }
    let (date, time) = match cell.find(':') {
        None => (cell.trim_end_matches(['T', 'Z']), None),
        Some(colon) => {
            let start = cell[..colon].rfind(|c: char| !c.is_ascii_digit())?;
            let date = cell[..=start].trim_end_matches(|c: char| c == 'T' || c == ',' || c.is_whitespace());
            (date, Some(&cell[start + 1..]))
        }
    };
    let clock = time.map_or(Some(0.0), clock)?;
    Some(day(date, order)? as f64 + clock)
}

fn day(text: &str, order: DateOrder) -> Option<i64> {
    let is_separator = |c: char| matches!(c, '-' | '/' | '.' | ' ' | ',');
    let mut parts: Vec<&str> = text.split(is_separator).filter(|p| !p.is_empty()).collect();
    // "Mon, 12 Jan 2020"
    if parts.len() == 4 && month_name(parts[0]).is_none() && parts[0].chars().all(|c| c.is_ascii_alphabetic()) {
        parts.remove(0);
    }
    let number = |p: &str| p.parse::<i64>().ok().filter(|_| p.bytes().all(|b| b.is_ascii_digit()) && p.len() <= 4);
    let ordinal = |p: &str| number(p.trim_end_matches(['s', 't', 'n', 'd', 'r', 'h']));
    if let Some(at) = parts.iter().position(|p| month_name(p).is_some()) {
        // The month by name: no order is in doubt. Only where a year of four digits is there.
        let month = month_name(parts[at])?;
        let rest: Vec<&str> = parts.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, p)| *p).collect();
        let [a, b] = rest[..] else { return None };
        let (year, d) = if a.len() == 4 { (number(a)?, ordinal(b)?) } else { (full_year(b)?, ordinal(a)?) };
        return (order == DateOrder::YearMonthDay).then(|| days(year, month, d)).flatten();
    }
    if text.contains(' ') {
        return None;
    }
    match (order, &parts[..]) {
        (DateOrder::YearMonthDay, [y, m]) if y.len() == 4 && m.len() == 2 && text.contains('-') => {
            days(number(y)?, number(m)?, 1)
        }
        (DateOrder::YearMonthDay, [y, m, d]) if y.len() == 4 => days(number(y)?, number(m)?, number(d)?),
        (DateOrder::DayMonthYear, [d, m, y]) if d.len() <= 2 => days(full_year(y)?, number(m)?, number(d)?),
        (DateOrder::MonthDayYear, [m, d, y]) if m.len() <= 2 => days(full_year(y)?, number(m)?, number(d)?),
        _ => None,
    }
}

/// A year of four digits, or of two: 69 to 99 are of the last century, as POSIX has it.
fn full_year(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    match text.len() {
        4 => Some(year),
        2 => Some(if year < 69 { 2000 + year } else { 1900 + year }),
        _ => None,
    }
}

fn month_name(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.to_ascii_lowercase();
    let at =
        MONTHS.iter().position(|m| text.len() >= 3 && (m.starts_with(&text) || text == "sept" && *m == "september"))?;
    Some(at as i64 + 1)
}

/// The part of a day of "14:30", "14:30:05.25Z", "2:30 PM", "14:30:05+02:00".
fn clock(text: &str) -> Option<f64> {
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    let afternoon = upper.ends_with("PM");
    let twelve = afternoon || upper.ends_with("AM");
    let mut text = if twelve { text[..text.len() - 2].trim_end() } else { text };
    text = text.trim_end_matches(['Z', 'z']);
    text = text.strip_suffix("UTC").unwrap_or(text).trim_end();
    if let Some(at) = text.find(['+', '-']) {
        text = text[..at].trim_end();
    }
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let second = parts.next().unwrap_or("0");
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if parts.next().is_some() || !digits(hour) || !digits(minute) || !digits(second) {
        return None;
    }
    let (mut h, m, s): (f64, f64, f64) = (hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?);
    if twelve {
        h = h % 12.0 + if afternoon { 12.0 } else { 0.0 };
    }
    (h < 24.0 && m < 60.0 && s < 61.0).then_some((h * 3600.0 + m * 60.0 + s) / 86_400.0)
}

/// Days since 1970-01-01 of a date, if there is such a day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let most = *length.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=most).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year and day of the year (from 0) of days since 1970-01-01.
fn civil(days_since: i64) -> (i32, i64) {
    let guess = 1970 + days_since.div_euclid(366) - 1;
    let start = |y: i64| days(y.clamp(1, 9999), 1, 1).unwrap_or(0);
    let mut year = guess.clamp(1, 9999);
    while year < 9999 && start(year + 1) <= days_since {
        year += 1;
    }
    while year > 1 && start(year) > days_since {
        year -= 1;
    }
    (year as i32, days_since - start(year))
}

/// Days since 1970-01-01 as ISO text, with the time of day where there is one.
#[cfg_attr(not(feature = "parquet"), allow(dead_code))]
pub(super) fn iso(t: f64, with_time: bool) -> Option<String> {
    let micros = (t * 86_400e6).round();
    let day = (micros / 86_400e6).floor();
    if !(-719_162.0..2_932_897.0).contains(&day) {
        return None;
    }
    let (year, of_year) = civil(day as i64);
    let start = days(i64::from(year), 1, 1)?;
    let month = (1..=12).rev().find(|m| days(i64::from(year), *m, 1).is_some_and(|d| d - start <= of_year))?;
    let of_month = of_year - (days(i64::from(year), month, 1)? - start) + 1;
    let date = format!("{year:04}-{month:02}-{of_month:02}");
    if !with_time {
        return Some(date);
    }
    let second = (micros - day * 86_400e6) / 1e6;
    let (h, m) = ((second / 3600.0).floor(), (second % 3600.0 / 60.0).floor());
    Some(format!("{date}T{h:02}:{m:02}:{:09.6}", second % 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_and_named() {
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(1969, 12, 31)), (Some(0), Some(11_017), Some(-1)));
        assert_eq!((days(1900, 2, 29), days(2000, 2, 29)), (None, Some(11_016)));
        assert_eq!((days(2023, 2, 29), days(2024, 2, 29), days(2024, 13, 1)), (None, Some(19_782), None));
        for t in [-719_162, -1, 0, 365, 11_016, 19_782, 20_000, 2_932_896] {
            let text = iso(t as f64, false).unwrap();
            assert_eq!(moment(&text, DateOrder::YearMonthDay), Some(t as f64), "{text}");
        }
        let text = iso(19_782.0 + 0.25 + 1.0 / 1440.0, true).unwrap();
        assert_eq!(text, "2024-02-29T06:01:00.000000");
    }

    #[test]
    fn common_forms_are_read_and_other_text_is_none() {
        let t = Some(19_782.0);
        let noon = Some(19_782.5);
        for (cell, order, expected) in [
            ("2024-02-29", DateOrder::YearMonthDay, t),
            ("2024/02/29", DateOrder::YearMonthDay, t),
            ("2024-02-29T12:00:00Z", DateOrder::YearMonthDay, noon),
            ("2024-02-29 12:00:00.000+02:00", DateOrder::YearMonthDay, noon),
            ("29.2.2024", DateOrder::DayMonthYear, t),
            ("29/02/24 12:00", DateOrder::DayMonthYear, noon),
            ("2/29/2024 12:00 PM", DateOrder::MonthDayYear, noon),
            ("29-Feb-2024", DateOrder::YearMonthDay, t),
            ("February 29, 2024", DateOrder::YearMonthDay, t),
            ("Thu, 29 Feb 2024 12:00", DateOrder::YearMonthDay, noon),
            ("2024-02", DateOrder::YearMonthDay, Some(19_754.0)),
            ("30/02/2024", DateOrder::DayMonthYear, None),
            ("1.2.3", DateOrder::DayMonthYear, None),
            ("10-12", DateOrder::YearMonthDay, None),
            ("192.168.0.1", DateOrder::DayMonthYear, None),
            ("march of 3", DateOrder::YearMonthDay, None),
            ("2024-02-29T25:00", DateOrder::YearMonthDay, None),
        ] {
            assert_eq!(moment(cell, order), expected, "{cell}");
        }
    }

    #[test]
    fn the_column_decides_the_order() {
        let of = |cells: &[&str]| {
            let column = Column::Text(cells.iter().map(|c| Some((*c).to_owned())).collect());
            recognise(&column, &(0..cells.len()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["1/2/2024", "13/2/2024"]), Some((DateOrder::DayMonthYear, true)));
        assert_eq!(of(&["1/2/2024", "1/13/2024"]), Some((DateOrder::MonthDayYear, true)));
        assert_eq!(of(&["1/2/2024", "2/2/2024", "3/2/2024"]), Some((DateOrder::DayMonthYear, false)));
        assert_eq!(of(&["2/1/2024", "2/2/2024", "2/3/2024"]), Some((DateOrder::MonthDayYear, false)));
        assert_eq!(of(&["1/2/2024", "x"]), None);
    }
}
