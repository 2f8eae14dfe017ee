//! `WARC-Date` as writers have it: complete, truncated, or with ClueWeb09's day of the year.

use crate::document::FetchTime;
use jiff::civil::Date;

/// The earliest moment that a truncated date can mean; the zeros stand for its digits.
const EARLIEST: &str = "0000-01-01T00:00:00";

/// Reads a `WARC-Date`. A truncated date, such as `2014-01` or `2019-08-15T01:02`, means the earliest moment it
/// can, in UTC.
pub(super) fn read(date: &str) -> Option<FetchTime> {
    date.parse().ok().or_else(|| completed(date)?.parse().ok()).or_else(|| with_month_day(date)?.parse().ok())
}

/// Completes a date that stops between two numbers.
fn completed(date: &str) -> Option<String> {
    let local = date.strip_suffix(['Z', 'z']).unwrap_or(date);
    let missing = EARLIEST.get(local.len()..).unwrap_or_default();
    let stops_between_numbers = !missing.starts_with(|c: char| c.is_ascii_digit());
    stops_between_numbers.then(|| format!("{local}{missing}Z"))
}

/// ClueWeb09 writes `2009-03-65T08:43:19-0800` for the 65th day of 2009, the 6th of March. In every month but
/// January that number cannot be a day of the month.
fn with_month_day(date: &str) -> Option<String> {
    let (month, day_and_clock) = date.split_at_checked("2009-03-".len())?;
    let (day, clock) = day_and_clock.split_once('T')?;
    let new_year = Date::new(month.get(..4)?.parse().ok()?, 1, 1).ok()?;
    let day = new_year.with().day_of_year(day.parse().ok()?).build().ok()?.to_string();
    day.starts_with(month).then(|| format!("{day}T{clock}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: records dated less precisely than to the second were rejected, among them all of ClueWeb09.
    #[test]
    fn dates_of_any_precision() {
        for (date, expected) in [
            ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
            ("2020-01-02T03:04:05.678901Z", "2020-01-02T03:04:05.678901Z"),
            ("2020-01-02T03:04:05-08:00", "2020-01-02T11:04:05Z"),
            ("2014", "2014-01-01T00:00:00Z"),
            ("2014-02", "2014-02-01T00:00:00Z"),
            ("2014-02-03", "2014-02-03T00:00:00Z"),
            ("2019-08-15T01", "2019-08-15T01:00:00Z"),
            ("2019-08-15T01:02", "2019-08-15T01:02:00Z"),
            ("2019-08-15T01:02Z", "2019-08-15T01:02:00Z"),
            ("2019-08-15T01:02:03", "2019-08-15T01:02:03Z"),
            ("2019-08-15T01:02:03.5", "2019-08-15T01:02:03.5Z"),
            ("2009-03-65T08:43:19-0800", "2009-03-06T16:43:19Z"),
            ("2008-10-294T00:00:00Z", "2008-10-20T00:00:00Z"),
            ("2009-01-14T00:00:00-0800", "2009-01-14T08:00:00Z"),
        ] {
            assert_eq!(read(date).map(|time| time.to_string()).as_deref(), Some(expected), "{date}");
        }
    }

    #[test]
    fn invalid_dates() {
        for date in [
            "",
            "Z",
            "yesterday",
            "20",
            "2014-",
            "2014-13",
            "2014-1",
            "2014-02-30",
            "2014-02-03T",
            "2014-02-03T25:00:00Z",
            "2008-10-295",
            "2008-11-294T00:00:00Z",
            "2008-10-467T00:00:00Z",
            "2014-02-03T0é",
        ] {
            assert_eq!(read(date), None, "{date}");
        }
    }
}
