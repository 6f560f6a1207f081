//! The list of field reports in `REPORTS.md` names tests that are there, and tests name reports that are listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Reports of the themes that the list leaves out: several replicas and restarts, and wishes.
const OTHER_THEMES: [std::ops::RangeInclusive<u32>; 2] = [229..=246, 264..=283];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the list: number, and where it is answered.
fn rows(list: &str) -> Vec<(&str, &str)> {
    list.lines()
        .filter_map(|line| line.strip_prefix("| R"))
        .map(|rest| {
            let cells: Vec<&str> = rest.split(" | ").collect();
            let [number, _, answer] = cells[..] else { panic!("a row has three cells: R{rest}") };
            (number, answer)
        })
        .collect()
}

/// The numbers of reports in a text.
fn numbers(text: &str) -> BTreeSet<u32> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_word(letter));
    let digits = words.filter_map(|word| word.strip_prefix('R')).filter(|digits| digits.len() == 3);
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// What is wrong with a test, or a file, that is said to answer a report.
fn check(named: &str, number: u32, left_out: bool) -> Result<(), String> {
    let (path, name) = named.split_once("::").map_or((named, None), |(path, name)| (path, Some(name)));
    let file = root().join(path);
    let Ok(text) = fs::read_to_string(&file) else { return Err(format!("there is no {path}")) };
    let there = match name {
        None => true,
        Some(row) if path.ends_with(".txt") => text.lines().any(|line| line.starts_with(&format!("== {row}"))),
        Some(test) => text.contains(&format!("fn {test}(")),
    };
    if !there {
        return Err(format!("there is no {named}"));
    }
    if left_out || numbers(&text).contains(&number) {
        Ok(())
    } else {
        Err(format!("{path} does not name R{number:03}"))
    }
}

#[test]
fn every_test_of_the_list_exists_and_bears_the_number() {
    let list = read(&root().join("tests/REPORTS.md"));
    let mut wrong = Vec::new();
    let mut last = 0;
    for (number, answer) in rows(&list) {
        let number: u32 = number.parse().expect("a number");
        assert!(number > last, "R{number:03} comes after R{last:03}");
        last = number;
        let left_out = answer.starts_with("Left out: ");
        let named: Vec<&str> = answer.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && !left_out {
            wrong.push(format!("R{number:03} has neither a test nor a reason"));
        }
        // What is no path is a word of another kind, such as a header's name.
        let paths = named.into_iter().filter(|name| name.contains('/'));
        wrong.extend(
            paths.filter_map(|name| check(name, number, left_out).err()).map(|why| format!("R{number:03}: {why}")),
        );
    }
    assert!(last > 250, "the list has been read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The texts of all files in a folder that were written by hand.
fn texts(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["target", "node_modules"].contains(&&*name) && !name.starts_with('.') {
                texts(&path, found);
            }
        } else if [".rs", ".txt", ".py", ".mjs"].iter().any(|end| name.ends_with(end)) || name == "run" {
            found.push((path.clone(), read(&path)));
        }
    }
}

#[test]
fn every_number_at_a_test_is_listed() {
    let list = read(&root().join("tests/REPORTS.md"));
    let listed: BTreeSet<u32> = rows(&list).into_iter().map(|(number, _)| number.parse().expect("a number")).collect();
    let mut files = Vec::new();
    for folder in ["adapters", "core", "tests"] {
        texts(&root().join(folder), &mut files);
    }
    let mut wrong = Vec::new();
    for (path, text) in &files {
        let other = |number: &u32| OTHER_THEMES.iter().any(|theme| theme.contains(number));
        let unknown = numbers(text).into_iter().filter(|number| !listed.contains(number) && !other(number));
        wrong.extend(unknown.map(|number| format!("{}: R{number:03} is not listed", path.display())));
    }
    assert!(files.len() > 100, "the files have been read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
