//! `docs/getting-started.md`: every session on it is played, by a client that does what the page says of it, and what
//! appears on the terminal is what the page shows. `RESCIND_WRITE_PAGES=1` writes what appeared into the page.
//!
//! A comment in the page says what happens between two of its blocks:
//! - `file: PATH`: the block after it is this file. It is put there the first time, and compared from then on.
//! - `client: begins`: the client starts the servers of its file, and has each do some work.
//! - `client: stops`: its user presses Stop, and the shim has seen that the work goes on.
//! - `client: ends`: it does, and all the work with it.

mod client;
mod page;
mod person;

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use tempfile::TempDir;

use client::Client;
use page::{Page, Part};
use person::Person;

use crate::shim::PROGRAM;

/// Where the page has the home of its reader.
const HOME: &str = "/home/you";

/// A computer of the page's reader.
pub(crate) struct Desk {
    home: TempDir,
    /// The command that `npx` runs instead of a package that it has downloaded.
    everything: String,
}

impl Desk {
    fn new(everything: String) -> Self {
        // Not in a folder of temporary files, of which `wrap` would warn.
        let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let desk = Self { home, everything };
        for folder in [".cargo/bin", "bin", "project"] {
            fs::create_dir_all(desk.path(folder)).unwrap();
        }
        fs::DirBuilder::new().mode(0o700).create(desk.path("run")).unwrap();
        // Links, since a program that is being written cannot be started.
        fs::hard_link(PROGRAM, desk.path(".cargo/bin/rescind")).unwrap();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/getting_started");
        for name in ["npx", "agent"] {
            symlink(scripts.join(format!("{name}.sh")), desk.path("bin").join(name)).unwrap();
        }
        desk
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// The environment of everything on it.
    fn environment(&self) -> BTreeMap<&'static str, String> {
        let home = self.home.path().to_str().unwrap();
        BTreeMap::from([
            ("HOME", home.to_owned()),
            ("PATH", format!("{home}/.cargo/bin:{home}/bin:{}", env::var("PATH").unwrap())),
            ("RESCIND_RUNTIME_DIR", format!("{home}/run")),
            ("EVERYTHING", self.everything.clone()),
        ])
    }
}

/// Plays every section of the page. `everything` is the command of the server that the page has its clients use.
pub(crate) fn play(everything: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/getting-started.md");
    let page = Page::read(&path);
    let section = |section| {
        let mut stage = Stage::new(Desk::new(everything.to_owned()));
        for part in page.parts(section) {
            stage.play(&page, &part);
        }
        stage.close()
    };
    // At once, for each waits for as long as its reader would.
    let others: Vec<_> = thread::scope(|scope| {
        let played: Vec<_> = page.sections().into_iter().map(|one| scope.spawn(move || section(one))).collect();
        assert_eq!(played.len(), 5, "clients");
        played.into_iter().flat_map(|section| section.join().unwrap()).collect()
    });
    page.close(others);
}

#[test]
fn what_the_page_shows_is_what_appears() {
    play("");
}

/// One section, being played.
struct Stage {
    desk: Desk,
    /// The files that the page showed first, as they were.
    files: BTreeMap<String, String>,
    clients: Vec<Client>,
    was_stopped: bool,
    /// What appeared instead of a block.
    others: Vec<(usize, String)>,
}

impl Stage {
    fn new(desk: Desk) -> Self {
        Self { desk, files: BTreeMap::new(), clients: Vec::new(), was_stopped: false, others: Vec::new() }
    }

    fn play(&mut self, page: &Page, part: &Part) {
        match part {
            Part::File { path, block } => self.file(page, path, *block),
            Part::Begins => {
                let files: Vec<PathBuf> = self.files.keys().map(|file| self.place(file)).collect();
                self.clients = files.iter().flat_map(|file| Client::begin(&self.desk, file)).collect();
            }
            Part::Stops => {
                self.clients.iter_mut().for_each(Client::stop);
                self.waits_until_it_is_seen_that_the_work_goes_on();
            }
            Part::Ends => {
                self.clients.drain(..).for_each(Client::end);
                self.was_stopped = true;
            }
            Part::Session { block } => {
                let shown = page.block(*block);
                let person = Person { environment: self.desk.environment(), folder: self.desk.path("project") };
                let appeared = person.plays(&shown);
                self.compare(page, *block, &appeared);
            }
        }
    }

    fn waits_until_it_is_seen_that_the_work_goes_on(&self) {
        let begun = Instant::now();
        loop {
            let mut ps = Command::new(PROGRAM);
            let said = ps.arg("ps").env_clear().envs(self.desk.environment()).output().unwrap().stdout;
            if String::from_utf8_lossy(&said).contains("stuck") {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "{}", String::from_utf8_lossy(&said));
        }
    }

    fn file(&mut self, page: &Page, path: &str, block: usize) {
        let place = self.place(path);
        if !self.files.contains_key(path) {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, page.block(block)).unwrap();
            self.files.insert(path.to_owned(), page.block(block));
            return;
        }
        let now = fs::read_to_string(place).unwrap();
        self.compare(page, block, &now);
    }

    fn compare(&mut self, page: &Page, block: usize, appeared: &str) {
        let appeared = self.in_the_pages_words(appeared);
        if !page.shows(block, &appeared) {
            self.others.push((block, appeared));
        }
    }

    /// Where a file of the page is.
    fn place(&self, path: &str) -> PathBuf {
        let project = self.desk.path("project");
        path.strip_prefix("~/").map_or_else(|| project.join(path), |path| self.desk.path(path))
    }

    fn in_the_pages_words(&self, text: &str) -> String {
        text.replace(self.desk.home.path().to_str().unwrap(), HOME)
    }

    /// Every file is again what it was. Returns what was not as the page has it.
    fn close(self) -> Vec<(usize, String)> {
        assert!(self.clients.is_empty() && self.was_stopped, "no client has ended");
        for (path, before) in &self.files {
            assert_eq!(fs::read_to_string(self.place(path)).unwrap(), *before, "{path}");
        }
        self.others
    }
}
