//! Pages in a real browser: every plot is drawn, no error on the console, no request leaves the page, nothing sticks out on a phone.
//! Where Chromium is not found, that part is skipped and says so.

use crate::common::{folder, succeed};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|d| names.map(|n| d.join(n))).find(|p| p.is_file())
}

/// What a script put into the page sees: plots, shapes drawn in each, targets with a text, resources asked for, how far the page sticks out.
const LOOK: &str = "<script>addEventListener('load',()=>{const seen=[...document.querySelectorAll('svg.pc')].map(s=>{\
const r=s.getBoundingClientRect();const marks=[...s.querySelectorAll('.plot path,.plot circle')].filter(m=>{\
const b=m.getBoundingClientRect();return b.width+b.height>0});const spots=[...s.querySelectorAll('.hit')].filter(h=>h.querySelector('.spot')&&\
h.querySelector('.say').textContent.length>3);const off=[...s.querySelectorAll('text')].filter(t=>t.getClientRects().length&&\
getComputedStyle(t).visibility=='visible'&&(t.getBoundingClientRect().right>r.right+1||t.getBoundingClientRect().left<r.left-1));\
return{title:s.getAttribute('aria-label'),width:r.width,height:r.height,marks:marks.length,spots:spots.length,\
off:off.map(t=>t.textContent)}});const wide=document.documentElement.scrollWidth;document.body.innerHTML='<pre id=seen></pre>';\
document.getElementById('seen').textContent=JSON.stringify({seen,resources:performance.getEntriesByType('resource').length,\
wide,window:innerWidth})})</script>";

/// Opens a page; its text afterwards, and what went to the console.
fn open(browser: &Path, dir: &Path, page: &str, flags: &[&str]) -> (String, Vec<String>, String) {
    let profile = tempfile::tempdir().unwrap();
    let log = dir.join("net.json");
    let out = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
        ])
        .args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--log-net-log={}", log.display()))
        .args(flags)
        .arg(format!("file://{}", dir.join(page).display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let console = said.lines().filter(|l| l.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&out.stdout).into_owned(), console, std::fs::read_to_string(log).unwrap_or_default())
}

/// The page must draw `plots` plots, each with marks and, unless it only has points, with targets that tell values.
fn check(dir: &Path, page: &str, plots: usize) {
    let html = std::fs::read_to_string(dir.join(page)).unwrap();
    assert_eq!(html.matches("<svg").count(), plots, "{page}");
    assert!(!html.contains("NaN") && !html.contains("<script") && !html.contains("<link"), "{page}");
    let outside =
        html.matches("http").count() - html.matches("http://www.w3.org").count() - html.matches("http-equiv").count();
    assert_eq!(outside, 0, "{page} names an address");
    let Some(browser) = browser() else {
        println!("skipped: Chromium is not installed, {page} was not opened");
        return;
    };
    let (_, console, net) = open(&browser, dir, page, &[]);
    assert!(console.is_empty(), "{page}: {console:?}");
    // Requests of the page itself have a file as their initiator.
    for line in net.lines().filter(|l| l.contains("\"url\"") && l.contains("\"initiator\":\"file")) {
        assert!(!line.contains("\"http"), "{page} asks for {line}");
    }
    let with_script =
        html.replace("style-src 'unsafe-inline'", "style-src 'unsafe-inline'; script-src 'unsafe-inline'");
    std::fs::write(dir.join("look.html"), with_script.replace("</head>", &format!("{LOOK}</head>"))).unwrap();
    let dark = "--blink-settings=preferredColorScheme=0";
    for flags in [&["--window-size=1280,1000"][..], &["--window-size=500,900", dark]] {
        let (dom, console, _) = open(&browser, dir, "look.html", flags);
        assert!(console.is_empty(), "{page}: {console:?}");
        let text =
            dom.split("<pre id=\"seen\">").nth(1).and_then(|t| t.split("</pre>").next()).expect("the script ran");
        let seen: Value =
            serde_json::from_str(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap();
        assert_eq!(seen["resources"], 0, "{page}");
        assert!(seen["wide"].as_f64().unwrap() <= seen["window"].as_f64().unwrap(), "{page} sticks out: {seen}");
        let all = seen["seen"].as_array().unwrap();
        assert_eq!(all.len(), plots);
        for plot in all {
            let number = |key: &str| plot[key].as_f64().unwrap();
            assert!(number("width") > 200.0 && number("height") > 100.0, "{page}: {plot}");
            assert!(number("marks") > 0.0 && number("spots") > 0.0, "{page}: {plot}");
            assert_eq!(plot["off"].as_array().unwrap().len(), 0, "{page}: {plot}");
        }
    }
}

const SHORT: &[&str] = &["--network", "8", "--set", "epochs=60", "-q"];

#[test]
fn an_evaluation_of_numbers() {
    let dir = folder();
    let d = dir.path();
    succeed(d, &[&["fit", "houses.csv", "--target", "price", "--method", "mean-field", "--out", "m"], SHORT].concat());
    let said = succeed(d, &["evaluate", "m", "houses.csv", "--report", "r.html"]).stdout;
    assert!(said.contains("crps") && said.contains("page in r.html"), "{said}");
    // Transforms, coverage, predicted against true, two parts of uncertainty, risk, training.
    check(d, "r.html", 6);
}

#[test]
fn an_evaluation_of_one_input_has_bands() {
    let dir = folder();
    let d = dir.path();
    let rows: String = (0..80).map(|i| format!("{},{}\n", i as f64 / 20.0, (i as f64 / 8.0).sin())).collect();
    std::fs::write(d.join("wave.csv"), format!("time,height\n{rows}")).unwrap();
    succeed(d, &[&["fit", "wave.csv", "--target", "height", "--method", "mean-field", "--out", "m"], SHORT].concat());
    succeed(d, &["evaluate", "m", "wave.csv", "--report", "r.html", "-q"]);
    check(d, "r.html", 7);
    assert!(std::fs::read_to_string(d.join("r.html")).unwrap().contains("height by time"));
}

#[test]
fn an_evaluation_of_classes() {
    let dir = folder();
    let d = dir.path();
    succeed(d, &[&["fit", "birds.csv", "--target", "species", "--method", "mean-field", "--out", "m"], SHORT].concat());
    succeed(d, &["evaluate", "m", "birds.csv", "--report", "r.html", "-q"]);
    // Reliability, two parts of uncertainty, risk, training.
    check(d, "r.html", 4);
    succeed(d, &["ood", "m", "birds.csv", "birds.csv", "--report", "o.html", "-q"]);
    // A picture for every uncertainty score.
    check(d, "o.html", 5);
}

#[test]
fn a_comparison() {
    let dir = folder();
    let d = dir.path();
    let compare = [
        "compare",
        "houses.csv",
        "--target",
        "price",
        "--methods",
        "map,mean-field",
        "--folds",
        "2",
        "--reference",
        "map",
    ];
    succeed(d, &[&compare[..], SHORT, &["--report", "c.html"]].concat());
    // Log-likelihood, RMSE, CRPS, coverage; coverage by level; time, memory; two distances to the reference.
    check(d, "c.html", 9);
}
