//! Draws how pages change, as an SVG chart.

use crate::query::{By, ChangeRow, Changes, N_TENTHS};
use std::fmt::Write;

const WIDTH: usize = 760;
const BAR_HEIGHT: usize = 150;
const MARGIN: usize = 40;
/// The width of a series' name.
const LEGEND_WIDTH: usize = 96;
/// A bar of this width or more has its number above it.
const NUMBERED_WIDTH: f64 = 20.0;
/// Rows in the chart; the table and JSON have all.
const ROWS_MAX: usize = 40;

/// The distribution of resemblances between versions, and births, deaths and moves row by row. `by` is what the rows are of.
pub(super) fn svg(changes: &Changes, by: By) -> String {
    let rows = shown(&changes.rows, by);
    let n_charts = if rows.is_empty() { 1 } else { 2 };
    let height = n_charts * (BAR_HEIGHT + 2 * MARGIN) + if rows.is_empty() { 0 } else { 100 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let labels: Vec<String> = (0..N_TENTHS).map(|tenth| format!("{}–{} %", tenth * 10, tenth * 10 + 10)).collect();
    let title = format!("Resemblance of {} changed pages to the former version", changes.all.n_changes);
    bars(
        &mut svg,
        MARGIN,
        &title,
        &labels,
        &[("changes", "#4477aa", changes.all.n_changes_by_resemblance.to_vec())],
        false,
    );
    if !rows.is_empty() {
        let column = |of: fn(&ChangeRow) -> u64| rows.iter().map(of).collect::<Vec<u64>>();
        let names: Vec<String> =
            rows.iter().map(|row| if row.name.is_empty() { "–".to_string() } else { row.name.clone() }).collect();
        let series = [
            ("births", "#228833", column(|row| row.n_births)),
            ("changes", "#4477aa", column(|row| row.n_changes)),
            ("deaths", "#ee6677", column(|row| row.n_deaths)),
            ("moved", "#ccbb44", column(|row| row.n_moved_within + row.n_moved_between)),
        ];
        let top = BAR_HEIGHT + 3 * MARGIN;
        bars(&mut svg, top, "Births, changes, deaths and moves", &names, &series, true);
        if rows.len() < changes.rows.len() {
            let (n_shown, n) = (rows.len(), changes.rows.len());
            let note = match by {
                By::Sweep => format!("The newest {n_shown} of {n} sweeps"),
                By::All | By::Host => format!("The {n_shown} hosts with most URLs, of {n}"),
            };
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{}\">{note}</text>", top - 30);
        }
    }
    svg + "</svg>\n"
}

/// The rows that the chart has room for. Sweeps come earliest first, so the last are the newest; hosts come largest first.
fn shown(rows: &[ChangeRow], by: By) -> &[ChangeRow] {
    let n_shown = rows.len().min(ROWS_MAX);
    match by {
        By::Sweep => &rows[rows.len() - n_shown..],
        By::All | By::Host => &rows[..n_shown],
    }
}

/// Draws a group of bars for each label.
fn bars(
    svg: &mut String,
    top: usize,
    title: &str,
    labels: &[String],
    series: &[(&str, &str, Vec<u64>)],
    are_labels_long: bool,
) {
    let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"14\">{}</text>", top - 12, escaped(title));
    let largest = series.iter().flat_map(|(_, _, counts)| counts).copied().max().unwrap_or(0).max(1);
    let group = (WIDTH - 2 * MARGIN) as f64 / labels.len().max(1) as f64;
    let bar = group * 0.8 / series.len().max(1) as f64;
    let bottom = (top + BAR_HEIGHT) as f64;
    for (number, (name, colour, counts)) in series.iter().enumerate() {
        for (at, count) in counts.iter().enumerate() {
            let height = *count as f64 / largest as f64 * (BAR_HEIGHT - 16) as f64;
            let x = MARGIN as f64 + group * at as f64 + group * 0.1 + bar * number as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" fill=\"{colour}\"><title>{} {}: \
                 {count}</title></rect>",
                bottom - height,
                escaped(&labels[at]),
                escaped(name),
            );
            if bar >= NUMBERED_WIDTH && (*count > 0 || series.len() == 1) {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
                    x + bar / 2.0,
                    bottom - height - 3.0
                );
            }
        }
        if series.len() > 1 {
            let x = WIDTH - MARGIN - LEGEND_WIDTH * (series.len() - number);
            let y = top - 21;
            let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 14, y + 9, escaped(name));
        }
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{MARGIN}\" y1=\"{bottom}\" x2=\"{}\" y2=\"{bottom}\" stroke=\"black\"/>",
        WIDTH - MARGIN
    );
    for (at, label) in labels.iter().enumerate() {
        let (x, y) = (MARGIN as f64 + group * (at as f64 + 0.5), bottom + 14.0);
        let turned = if are_labels_long { format!(" transform=\"rotate(40 {x:.1} {y})\"") } else { String::new() };
        let anchor = if are_labels_long { "start" } else { "middle" };
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\"{turned}>{}</text>", escaped(label));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
