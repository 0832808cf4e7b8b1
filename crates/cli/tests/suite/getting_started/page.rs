//! A page with sessions on it.

use std::{
    env, fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// A page, and what its blocks are to hold.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    lines: Vec<String>,
    /// The lines inside the fences of each block.
    blocks: Vec<Range<usize>>,
}

/// A part of a section that something is done for.
#[derive(Debug)]
pub(super) enum Part {
    File { path: String, block: usize },
    Session { block: usize },
    Begins,
    Stops,
    Ends,
}

impl Page {
    pub(super) fn read(path: &Path) -> Self {
        let lines: Vec<String> = fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        let fences: Vec<usize> = (0..lines.len()).filter(|&line| lines[line].starts_with("```")).collect();
        let blocks = fences.chunks(2).map(|pair| pair[0] + 1..pair[1]).collect();
        Self { path: path.to_owned(), lines, blocks }
    }

    /// The lines of each section with a client.
    pub(super) fn sections(&self) -> Vec<Range<usize>> {
        let mut heads: Vec<usize> = (0..self.lines.len()).filter(|&line| self.lines[line].starts_with("## ")).collect();
        heads.push(self.lines.len());
        let sections = heads.windows(2).map(|pair| pair[0]..pair[1]);
        sections
            .filter(|section| self.lines[section.clone()].iter().any(|line| line.starts_with("<!-- file:")))
            .collect()
    }

    pub(super) fn parts(&self, section: Range<usize>) -> Vec<Part> {
        let mut file = None;
        let mut parts = Vec::new();
        for line in section {
            let words = self.lines[line].strip_prefix("<!-- ").and_then(|words| words.strip_suffix(" -->"));
            match words.map(|words| words.split_once(": ").unwrap_or((words, ""))) {
                Some(("file", path)) => file = Some(path.to_owned()),
                Some(("client", "begins")) => parts.push(Part::Begins),
                Some(("client", "stops")) => parts.push(Part::Stops),
                Some(("client", "ends")) => parts.push(Part::Ends),
                Some(other) => panic!("line {}: {other:?}", line + 1),
                None => {}
            }
            let Some(block) = self.blocks.iter().position(|block| block.start == line + 1) else { continue };
            match file.take() {
                Some(path) => parts.push(Part::File { path, block }),
                None if self.lines[line] == "```console" => parts.push(Part::Session { block }),
                None => panic!("line {}: a block that is neither a file nor a session", line + 1),
            }
        }
        parts
    }

    pub(super) fn block(&self, block: usize) -> String {
        self.lines[self.blocks[block].clone()].iter().map(|line| format!("{line}\n")).collect()
    }

    pub(super) fn shows(&self, block: usize, appeared: &str) -> bool {
        comparable(&self.block(block)) == comparable(appeared)
    }

    /// Complains of blocks that something else appeared for, or writes that into the page.
    pub(super) fn close(mut self, mut others: Vec<(usize, String)>) {
        others.sort();
        if env::var_os("RESCIND_WRITE_PAGES").is_some() {
            for (block, text) in others.iter().rev() {
                self.lines.splice(self.blocks[*block].clone(), text.lines().map(|line| line.trim_end().to_owned()));
            }
            return fs::write(self.path, self.lines.join("\n") + "\n").unwrap();
        }
        let differs = |(block, text): &(usize, String)| {
            format!("line {} is\n{}but appeared was\n{text}", self.blocks[*block].start + 1, self.block(*block))
        };
        let others: String = others.iter().map(differs).collect();
        assert!(others.is_empty(), "{}: {others}`just pages` writes it", self.path.display());
    }
}

/// A text without what differs from one time to the next: times, shares, numbers of processes, the widths of columns,
/// and the order of sessions, which is that of their processes: a system that has no higher number begins anew.
fn comparable(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let mut words: Vec<String> = line.split_whitespace().map(steady).collect();
        for at in 1..words.len() {
            if ["s", "ms", "µs"].contains(&words[at].as_str()) && is_number(&words[at - 1]) {
                (words[at - 1], words[at]) = ("#".into(), "s".into());
            }
        }
        words.join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(of_line).collect();
    lines.chunk_by_mut(|one, next| [one, next].iter().all(|line| line.starts_with("#/"))).for_each(<[_]>::sort);
    lines
}

fn steady(word: &str) -> String {
    match word.split_once('/') {
        Some((session, id)) if is_number(session) => format!("#/{id}"),
        None if word.strip_suffix('%').is_some_and(is_number) => "#%".to_owned(),
        // Not a count, which has one digit on this page.
        None if word.len() > 1 && word.parse::<u32>().is_ok() => "#".to_owned(),
        _ => word.to_owned(),
    }
}

fn is_number(word: &str) -> bool {
    word == "#" || (!word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
}
