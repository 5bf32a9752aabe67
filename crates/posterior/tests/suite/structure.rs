//! What the source promises about itself: modules depend on each other in one direction, and the library names no command-line flag.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Lines of code with their file and top-level module: no comments, no tests.
fn code() -> Vec<(String, PathBuf, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let of = |path: PathBuf| {
        let inside = path.strip_prefix(&root).unwrap().to_owned();
        let top = inside.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().take_while(|l| l.trim() != "#[cfg(test)]");
        let lines = lines.filter(|l| !l.trim_start().starts_with("//")).map(str::to_owned).collect();
        (top, inside, lines)
    };
    let is_test = |p: &PathBuf| p.file_stem().is_some_and(|s| s.to_string_lossy().ends_with("tests"));
    files.into_iter().filter(|p| !is_test(p)).map(of).collect()
}

#[test]
fn modules_depend_on_each_other_in_one_direction() {
    let code = code();
    let modules: BTreeSet<&str> = code.iter().map(|(top, ..)| top.as_str()).collect();
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (top, _, lines) in &code {
        if ["lib", "prelude"].contains(&&**top) {
            continue;
        }
        for line in lines {
            for after in line.split("crate::").skip(1) {
                let names = after.strip_prefix('{').map_or_else(
                    || vec![after],
                    |inside| inside.split('}').next().unwrap_or_default().split(',').map(str::trim).collect(),
                );
                for name in names {
                    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
                    let is_macro = name[end..].starts_with('!');
                    if let Some(module) = modules.get(&name[..end]).filter(|m| *m != top && !is_macro) {
                        needs.entry(top).or_default().insert(module);
                    }
                }
            }
        }
    }
    // What needs nothing that is left is taken away; a cycle is what stays.
    let mut left: BTreeSet<&str> = needs.keys().copied().collect();
    while let Some(&free) = left.iter().find(|m| needs[**m].iter().all(|n| !left.contains(n))) {
        left.remove(free);
    }
    let stays: Vec<String> = left.iter().map(|m| format!("{m} → {:?}", needs[m])).collect();
    assert!(left.is_empty(), "modules need each other: {stays:#?}");
}

#[test]
fn the_library_names_no_flag() {
    for (_, path, lines) in code() {
        for line in lines {
            let flag = line.match_indices("--").any(|(i, _)| {
                let before = line[..i].chars().next_back();
                let after = line[i + 2..].chars().next();
                before.is_none_or(|c| matches!(c, ' ' | '"' | '(' | '`'))
                    && after.is_some_and(|c| c.is_ascii_lowercase())
            });
            assert!(!flag, "{}: {line}", path.display());
        }
    }
}
