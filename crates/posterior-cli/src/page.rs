//! One self-contained HTML page of text, charts and tables that opens offline and needs no script.

use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1f2933;--soft:#5b6773;--rule:#e1e5ea;--mark:#0072b2}\
@media screen and (prefers-color-scheme:dark){:root{--bg:#0f1216;--card:#171b21;--ink:#e8ecf1;--soft:#a3aebb;\
--rule:#2a313a;--mark:#56b4e9}}\
*{box-sizing:border-box}html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\
body{margin:0;background:var(--bg);color:var(--ink);\
font:17px/1.6 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
main{max-width:1160px;margin:0 auto;padding:48px 28px 72px}\
h1{margin:0 0 .35em;font-size:2.1rem;line-height:1.2;letter-spacing:-.015em;text-wrap:balance}\
h2{margin:0 0 .4em;font-size:1.35rem;line-height:1.3;letter-spacing:-.005em}\
p{max-width:44rem;margin:0 0 .9em;overflow-wrap:break-word}.lead p{font-size:1.15rem;color:var(--soft)}\
section{margin-top:40px;padding-top:32px;border-top:1px solid var(--rule)}\
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:20px;margin:20px 0}\
figure{container-type:inline-size;min-width:0;margin:0;padding:14px 8px 10px;background:var(--card);\
border:1px solid var(--rule);border-radius:12px;overflow:hidden}\
figure:only-child{grid-column:1/-1;width:100%;max-width:700px}\
.table{margin:20px 0;overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:12px;\
width:fit-content;max-width:100%}\
table{border-collapse:collapse;font-size:.95rem;line-height:1.35}\
th,td{padding:10px 18px;text-align:left;font-weight:400;white-space:nowrap}\
thead th{font-size:.85rem;font-weight:600;color:var(--soft);border-bottom:2px solid var(--rule)}\
tbody tr+tr>*{border-top:1px solid var(--rule)}tbody th{font-weight:600}\
.n{text-align:right;font-variant-numeric:tabular-nums}\
@media (max-width:700px){body{font-size:16px}main{padding:28px 16px 48px}h1{font-size:1.65rem}\
.charts{grid-template-columns:minmax(0,1fr);gap:14px}figure{padding:10px 2px 11px}\
section{margin-top:28px;padding-top:24px}th,td{padding:9px 13px}td:last-child:not(.n){white-space:normal;min-width:11em}}@media (max-width:900px){th{white-space:normal}}\
@media print{:root{color-scheme:light;--bg:#fff}body{font-size:10.5pt}main{max-width:none;padding:0}\
.charts{gap:12px;break-before:avoid}figure:only-child{max-width:13cm}section{margin-top:18px;padding-top:14px}\
figure,tr{break-inside:avoid}h1,h2{break-after:avoid}\
thead{display:table-header-group}.table{overflow:visible}th,td{white-space:normal;padding:5px 12px}\
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}";

/// A whole page. All text is plain: markup in it is shown, not obeyed, and an empty line starts a new paragraph.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading and name of the browser tab.
    pub title: String,
    /// What the page is about, in a sentence or two.
    pub lead: String,
    /// The parts of the page, from top to bottom.
    pub sections: Vec<Section>,
}

/// A part of a page: text, then charts, then a table; each of them may be empty.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading of the part.
    pub heading: String,
    /// Text under the heading.
    pub text: String,
    /// SVG texts placed as they are, two in a row on a wide screen.
    pub charts: Vec<String>,
    /// A table after the charts.
    pub table: Option<TableHtml>,
}

/// A table of plain text; columns of numbers are set right-aligned.
#[derive(Clone, Debug, Default)]
pub struct TableHtml {
    /// Column names.
    pub head: Vec<String>,
    /// Cells, row by row; short rows are filled up with empty cells.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// The page as the text of an HTML file.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<div class=\"lead\">\n{}</div>\n</header>\n",
            paragraphs(&self.lead)
        );
        for section in &self.sections {
            section.write(&mut out);
        }
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }
}

impl Section {
    fn write(&self, out: &mut String) {
        out.push_str("<section>\n");
        if !self.heading.trim().is_empty() {
            let _ = writeln!(out, "<h2>{}</h2>", escape(&self.heading));
        }
        out.push_str(&paragraphs(&self.text));
        if !self.charts.is_empty() {
            out.push_str("<div class=\"charts\">\n");
            for chart in &self.charts {
                let _ = writeln!(out, "<figure>{}</figure>", chart.trim());
            }
            out.push_str("</div>\n");
        }
        if let Some(table) = &self.table {
            table.write(out);
        }
        out.push_str("</section>\n");
    }
}

impl TableHtml {
    fn write(&self, out: &mut String) {
        let columns = self.rows.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0);
        let cell = |row: usize, column: usize| self.rows[row].get(column).map_or("", |c| c.trim());
        let right: Vec<bool> = (0..columns)
            .map(|c| (0..self.rows.len()).map(|r| cell(r, c)).filter(|t| !is_blank(t)).collect::<Vec<_>>())
            .map(|texts| !texts.is_empty() && texts.iter().all(|t| is_number(t)))
            .collect();
        let class = |c: usize| if right[c] { " class=\"n\"" } else { "" };
        out.push_str("<div class=\"table\"><table>\n");
        if !self.head.is_empty() {
            out.push_str("<thead><tr>");
            for c in 0..right.len() {
                let text = self.head.get(c).map_or("", String::as_str);
                let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(c), escape(text));
            }
            out.push_str("</tr></thead>\n");
        }
        out.push_str("<tbody>\n");
        for r in 0..self.rows.len() {
            out.push_str("<tr>");
            for (c, number) in right.iter().enumerate() {
                let text = escape(cell(r, c));
                let _ = match c == 0 && !number {
                    true => write!(out, "<th scope=\"row\">{text}</th>"),
                    false => write!(out, "<td{}>{text}</td>", class(c)),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
}

/// Escaped paragraphs of a text, parted at empty lines.
fn paragraphs(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let parts = lines.split(|line| line.is_empty()).filter(|part| !part.is_empty());
    parts.map(|part| format!("<p>{}</p>\n", escape(&part.join("\n")))).collect()
}

/// Whether a cell says that there is no value.
fn is_blank(text: &str) -> bool {
    matches!(text, "" | "-" | "\u{2013}" | "\u{2014}" | "n/a" | "NaN" | "nan")
}

/// Whether a cell reads as a number: it may carry a sign, an exponent, a spread and a short unit.
fn is_number(text: &str) -> bool {
    let body = text.trim_start_matches(['+', '-', '\u{2212}', '\u{b1}', '~', '<', '>', '\u{2248}', '.', '(', '[', ' ']);
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    matches!(body, "inf" | "\u{221e}") || (body.starts_with(|c: char| c.is_ascii_digit()) && letters <= 3)
}

/// Text made safe for element content and attribute values of HTML and XML.
pub fn escape(text: &str) -> String {
    // Characters that XML does not allow even when escaped.
    let barred = |c: char| matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !barred(*c)) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Page {
        let table = TableHtml {
            head: vec!["Method".into(), "Error".into(), "Note".into()],
            rows: vec![
                vec!["a & b".into(), "\u{2212}0.12 \u{b1} 0.03".into(), "<slow>".into()],
                vec!["c".into(), "\u{2014}".into()],
                vec!["d".into(), "1.5e-3".into(), "12 ms".into()],
            ],
        };
        let text = "First <b>.\nSame paragraph.\n\nSecond.";
        let section = Section {
            heading: "Fit \"1\"".into(),
            text: text.into(),
            charts: vec!["<svg></svg>\n".into(), "<svg></svg>".into()],
            table: Some(table),
        };
        Page { title: "A < B".into(), lead: "Le\u{1}ad".into(), sections: vec![section, Section::default()] }
    }

    #[test]
    fn text_is_escaped_and_charts_are_not() {
        let html = sample().html();
        assert!(html.contains("<title>A &lt; B</title>") && html.contains("<h1>A &lt; B</h1>"));
        assert!(html.contains("<p>First &lt;b&gt;.\nSame paragraph.</p>\n<p>Second.</p>"));
        assert!(html.contains("<p>Lead</p>"));
        assert!(html.contains("<h2>Fit &quot;1&quot;</h2>"));
        assert_eq!(html.matches("<figure><svg></svg></figure>").count(), 2);
    }

    #[test]
    fn number_columns_are_right_aligned_and_short_rows_filled() {
        let html = sample().html();
        assert!(html.contains("<th scope=\"col\" class=\"n\">Error</th><th scope=\"col\">Note</th>"));
        assert!(html.contains("<th scope=\"row\">c</th><td class=\"n\">\u{2014}</td><td></td>"));
        for yes in ["1", "-0.5", "\u{2212}3", ".25", "95 %", "1e-3", "12 ms", "0.1 \u{b1} 0.2", "inf", "<0.01"] {
            assert!(is_number(yes), "{yes}");
        }
        for no in ["", "mean", "3 layers", "e5", "NaN loss"] {
            assert!(!is_number(no), "{no}");
        }
    }

    #[test]
    fn the_page_asks_for_nothing_from_outside() {
        let html = sample().html();
        assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
        assert!(!html.contains("url(") && !html.contains("@import") && !html.contains("<link"));
    }

    #[test]
    fn empty_pages_and_tables_are_fine() {
        let section = Section { table: Some(TableHtml::default()), ..Section::default() };
        let html = Page { sections: vec![section], ..Page::default() }.html();
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
        assert_eq!(html.matches("<section>").count(), html.matches("</section>").count());
    }
}
