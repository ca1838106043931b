// SPDX-License-Identifier: GPL-2.0

//! Takes the lock-free parts out of the module's source, for the models to compile with loom.
//!
//! A model names its parts in comments: a file below `rust/`, and the items, each with those of its
//! members that are taken, or all.
//!
//! ```text
//! //< sunrpc/xprt/backchannel.rs
//! //<   impl BcRequest { take }
//! //<   fn free
//! ```
//!
//! The items are taken as they are, but for the attributes of pinned initialisation, for paths of a
//! visibility, and for functions that C calls, through which a fault unwinds. rustfmt has formatted
//! them: an item begins at the left margin and ends with a brace there, and so do its members one
//! step to the right.

use std::path::Path;
use std::{env, fs};

/// The attributes that are left out.
const PINNED: [&str; 2] = ["#[pin_data", "#[pin]"];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap();
    let rust = Path::new(&root).join("../../rust");
    let out = env::var("OUT_DIR").unwrap();
    println!("cargo::rerun-if-changed=src/models");
    for entry in fs::read_dir(Path::new(&root).join("src/models")).unwrap() {
        let path = entry.unwrap().path();
        let parts = parts(&fs::read_to_string(&path).unwrap(), &rust);
        fs::write(Path::new(&out).join(path.file_name().unwrap()), parts).unwrap();
    }
}

/// Returns the parts that a model names.
fn parts(model: &str, rust: &Path) -> String {
    let (mut parts, mut source, mut file) = (String::new(), String::new(), "");
    for line in model.lines().filter_map(|line| line.strip_prefix("//<")) {
        match line.strip_prefix("  ") {
            None => {
                file = line.trim();
                let path = rust.join(file);
                println!("cargo::rerun-if-changed={}", path.display());
                source = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
                parts += &format!("// From rust/{file}.\n\n");
            }
            Some(item) => match take(&source, item.trim()) {
                Some(text) => parts += &(text + "\n\n"),
                None => panic!("rust/{file} has no `{}`", item.trim()),
            },
        }
    }
    parts
}

/// Returns an item of a file: `header`, or `header { members }`.
fn take(source: &str, item: &str) -> Option<String> {
    let (header, members) = item.split_once(" { ").unwrap_or((item, ""));
    let members: Vec<_> = members.trim_end_matches('}').split_whitespace().collect();
    let lines: Vec<&str> = source.lines().collect();
    let mut items = blocks(&lines, "").filter(|block| block.iter().any(|l| begins(l, header)));
    if members.is_empty() {
        return items.next().map(text);
    }
    // A type may have several blocks with the same header.
    items.find_map(|item| take_members(item, &members))
}

/// Returns an item with some of its members, if it has them all.
fn take_members(item: &[&str], members: &[&str]) -> Option<String> {
    let opening = item.iter().position(|line| line.ends_with('{'))?;
    let (head, rest) = item.split_at(opening + 1);
    let (inner, end) = rest.split_at(rest.len() - 1);
    let mut taken = vec![text(head)];
    for member in members {
        let named = |line: &&str| {
            let line = line.strip_prefix("    ").unwrap_or("");
            begins(line, member) || begins(line, &format!("fn {member}"))
        };
        let member = blocks(inner, "    ").find(|block| block.iter().any(named))?;
        taken.push(text(member));
    }
    taken.push(text(end));
    Some(taken.join("\n"))
}

/// Returns the items that begin at a margin, with their comments and attributes.
fn blocks<'a>(lines: &'a [&'a str], margin: &'a str) -> impl Iterator<Item = &'a [&'a str]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|line| !line.is_empty())?;
        rest = &rest[start..];
        let ends = |line: &&str| {
            let own = line.strip_prefix(margin).unwrap_or(" ");
            let starts = !own.starts_with([' ', '/', '#']);
            starts
                && (own.ends_with([';', '}', ',']) && !own.ends_with("({") || own.starts_with('}'))
        };
        let end = rest.iter().position(ends)? + 1;
        let (block, after) = rest.split_at(end);
        rest = after;
        Some(block)
    })
}

/// Returns whether a line begins with `header`, behind its visibility and other words.
fn begins(line: &str, header: &str) -> bool {
    let mut line = line;
    if let Some(rest) = line.strip_prefix("pub") {
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        };
        line = rest.trim_start();
    }
    for word in ["const fn", "unsafe fn", "unsafe extern \"C\" fn"] {
        if let Some(rest) = line.strip_prefix(word) {
            return begins(&format!("fn{rest}"), header);
        }
    }
    line.strip_prefix(header)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Returns the lines as text, without what no model compiles.
fn text(lines: &[&str]) -> String {
    let kept = |line: &&&str| !PINNED.iter().any(|name| line.trim().starts_with(name));
    let kept = lines
        .iter()
        .filter(kept)
        .map(|line| match line.split_once("pub(in ") {
            // The path is one of the module.
            Some((margin, rest)) => {
                let rest = rest.split_once(')').map_or(rest, |(_, rest)| rest);
                format!("{margin}pub(crate){rest}")
            }
            None => (*line).to_owned(),
        });
    // loom reports a fault by unwinding.
    let text = kept.collect::<Vec<_>>().join("\n");
    text.replace("extern \"C\" fn", "extern \"C-unwind\" fn")
}
