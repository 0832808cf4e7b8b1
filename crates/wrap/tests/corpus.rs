//! Files as clients have them: wrapped and unwrapped again each is what it was, byte for byte. How each looks in between
//! is in `wrapped/`; `RESCIND_WRITE_PAGES=1` writes it anew.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{env, fs, path::Path};

use rescind_wrap::{
    advice,
    client::{self, Shape},
    config::{Change, Changed, Config},
    entry::Launch,
    journal::Note,
    patience,
    remote::{self, Refusal},
    strict,
    verdict::Verdict,
    words,
};

/// A file of the corpus.
struct Case {
    name: String,
    bytes: Vec<u8>,
    shape: Shape,
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The files, each with the shape of the client that it is named after; those of nobody are broken.
fn cases(are_broken: bool) -> Vec<Case> {
    let mut files: Vec<_> = fs::read_dir(folder("corpus")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let cases = files.into_iter().filter_map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let client = client::client(name.split('.').next().unwrap());
        let toml = client::shape_of(Path::new("any.toml")).unwrap();
        let json = client::client("claude-desktop").unwrap().files[0].shape;
        let shape = match client {
            Some(client) => client.files[0].shape,
            None if name.ends_with("toml") => toml,
            None if name.ends_with("yaml") => client::client("goose").unwrap().files[0].shape,
            None => json,
        };
        (client.is_none() == are_broken).then(|| Case { bytes: fs::read(&path).unwrap(), name, shape })
    });
    cases.collect()
}

impl Case {
    fn read(&self, bytes: &[u8]) -> Config {
        Config::read(bytes, self.shape.syntax, self.shape.servers)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// The shim's words, of which a few flags are known here.
fn own(words: &[String]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "--timeout" | "--on-stuck" | "--header-env" => at += 2,
            "--unlisted" => at += 1,
            named if named.starts_with("--name=") || named.starts_with("--client-name=") => at += 1,
            "--" => return Some(at + 1),
            flag if flag.starts_with("--") => return None,
            _ => return Some(at),
        }
    }
    None
}

fn shim() -> Vec<String> {
    ["/opt/rescind \"beta\"/bin/rescind", "run", "--timeout", "5m"].map(str::to_owned).to_vec()
}

fn bare(config: &Config) -> Vec<usize> {
    let entries = config.entries().iter().enumerate();
    entries.filter(|(_, entry)| Verdict::of(entry, own, &[]) == Verdict::Bare).map(|(place, _)| place).collect()
}

fn commands(config: &Config) -> Vec<Option<Vec<String>>> {
    config.entries().iter().map(|entry| words_of(&entry.launch)).collect()
}

fn words_of(launch: &Launch) -> Option<Vec<String>> {
    match launch {
        Launch::Command(command) => Some(command.words.clone()),
        Launch::Url(_) | Launch::Elsewhere | Launch::Unclear(_) => None,
    }
}

fn wrapped(config: &Config, places: &[usize]) -> Changed {
    let shim = shim();
    config.changed(&places.iter().map(|place| (*place, Change::Prepend(&shim))).collect::<Vec<_>>())
}

fn unwrapped(config: &Config, places: &[usize], notes: &[Option<Note>]) -> Vec<u8> {
    let changes: Vec<_> = places
        .iter()
        .zip(notes)
        .map(|(place, note)| {
            let verdict = Verdict::of(&config.entries()[*place], own, &[]);
            let Verdict::Wrapped(words) = verdict else { panic!("{place}: {verdict}") };
            let added = note.as_ref().map(|note| match note {
                Note::Arguments(text) => &**text,
                Note::Url(_) => panic!("{place}"),
            });
            (*place, Change::TakeOff { words, added })
        })
        .collect();
    config.changed(&changes).bytes
}

#[test]
fn a_file_is_what_it_was_after_a_shim_came_and_went() {
    let cases = cases(false);
    assert!(cases.len() >= 40, "{} files are no corpus", cases.len());
    for case in cases {
        let before = case.read(&case.bytes);
        let places = bare(&before);
        let Changed { bytes, notes, .. } = wrapped(&before, &places);
        compare(&case.name, &bytes);
        let between = case.read(&bytes);
        assert!(bare(&between).is_empty(), "{}: a second shim would come", case.name);
        for (place, (before, between)) in commands(&before).into_iter().zip(commands(&between)).enumerate() {
            let expected =
                before.map(|before| if places.contains(&place) { [shim(), before].concat() } else { before });
            assert_eq!(between, expected, "{}", case.name);
        }
        let after = unwrapped(&between, &places, &notes);
        assert!(after == case.bytes, "{}: {}", case.name, String::from_utf8_lossy(&after));
        // Without the journal it means the same.
        let after = unwrapped(&between, &places, &vec![None; places.len()]);
        assert_eq!(commands(&case.read(&after)), commands(&before), "{}", case.name);
    }
}

/// An entry that an older release has wrapped gets names, and others, and loses them: all else stays as it is.
#[test]
fn a_shim_is_named_and_named_anew_and_the_file_is_what_it_was() {
    for case in cases(false) {
        let before = case.read(&case.bytes);
        let places = bare(&before);
        let Changed { bytes: first, notes, .. } = wrapped(&before, &places);
        let old = commands(&case.read(&first));
        let mut now = first.clone();
        for names in [words::names("a \"b\"", Some("cursor")), words::names("c", None), Vec::new()] {
            let config = case.read(&now);
            let named = |place: &usize| words::named(commands(&config)[*place].as_ref().unwrap());
            let changes = places.iter().map(|place| (*place, Change::Flags { places: named(place), words: &names }));
            let changed = config.changed(&changes.collect::<Vec<_>>());
            assert!(changed.left.is_empty(), "{}", case.name);
            let between = case.read(&changed.bytes);
            for place in &places {
                let (shim, rest) = old[*place].as_ref().unwrap().split_at(2);
                let expected = [shim, &names, rest].concat();
                assert_eq!(commands(&between)[*place].as_ref(), Some(&expected), "{}", case.name);
            }
            let after = unwrapped(&between, &places, &notes);
            assert!(after == case.bytes, "{}: {}", case.name, String::from_utf8_lossy(&after));
            now = changed.bytes;
        }
        assert!(now == first, "{}", case.name);
    }
}

/// One server after the other, and back in another order.
#[test]
fn each_server_comes_and_goes_by_itself() {
    for case in cases(false) {
        let places = bare(&case.read(&case.bytes));
        let mut bytes = case.bytes.clone();
        let mut notes = Vec::new();
        for place in &places {
            let changed = wrapped(&case.read(&bytes), &[*place]);
            bytes = changed.bytes;
            notes.extend(changed.notes);
        }
        assert!(bytes == wrapped(&case.read(&case.bytes), &places).bytes, "{}", case.name);
        for (place, note) in places.iter().zip(&notes) {
            bytes = unwrapped(&case.read(&bytes), &[*place], std::slice::from_ref(note));
        }
        assert!(bytes == case.bytes, "{}", case.name);
    }
}

/// A file whose shims have got other flags has what it would have if they had come with those, and comes back as any other.
#[test]
fn flags_of_a_shim_come_and_go() {
    let sets = [&["--unlisted"][..], &[], &["--on-stuck", "kill", "--timeout", "5m"], &["--timeout", "a\"b"]];
    for case in cases(false) {
        let before = case.read(&case.bytes);
        let places = bare(&before);
        let Changed { mut bytes, notes, .. } = wrapped(&before, &places);
        for flags in sets.map(|flags| flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<_>>()) {
            let config = case.read(&bytes);
            let flags_of =
                |place: &usize| words::flags(&words_of(&config.entries()[*place].launch).unwrap(), own).unwrap();
            let change = |place| (place, Change::Flags { places: flags_of(&place), words: &flags });
            let changed = config.changed(&places.iter().map(|place| change(*place)).collect::<Vec<_>>());
            assert_eq!(changed.left, Vec::<usize>::new(), "{}", case.name);
            bytes = changed.bytes;
            let shim = [&shim()[..2], &flags].concat();
            let expected =
                before.changed(&places.iter().map(|place| (*place, Change::Prepend(&shim))).collect::<Vec<_>>());
            let (now, expected) = (case.read(&bytes), case.read(&expected.bytes));
            assert_eq!(commands(&now), commands(&expected), "{}", case.name);
            let after = unwrapped(&now, &places, &notes);
            assert!(after == case.bytes, "{}: {}", case.name, String::from_utf8_lossy(&after));
        }
    }
}

/// The places of entries at a URL that a command can stand in for, those that may need a sign-in included.
fn remote(config: &Config, client: &str) -> Vec<usize> {
    let style = remote::style(Some(client));
    let entries = config.entries().iter().enumerate().filter(|(_, entry)| matches!(entry.launch, Launch::Url(_)));
    let can = entries.filter(|(_, entry)| matches!(remote::check(entry, style), Ok(()) | Err(Refusal::SignIn)));
    can.map(|(place, _)| place).collect()
}

#[test]
fn a_url_becomes_a_command_and_comes_back() {
    let mut files = 0;
    for case in cases(false) {
        let client = case.name.split('.').next().unwrap();
        let style = remote::style(Some(client));
        let before = case.read(&case.bytes);
        let places = remote(&before, client);
        if places.is_empty() {
            continue;
        }
        files += 1;
        let shim = shim();
        let changes: Vec<_> = places.iter().map(|place| (*place, Change::ToCommand(&shim, style))).collect();
        let Changed { bytes, notes, .. } = before.changed(&changes);
        compare(&format!("urls/{}", case.name), &bytes);
        let between = case.read(&bytes);
        for (place, (old, new)) in before.entries().iter().zip(between.entries()).enumerate() {
            if !places.contains(&place) {
                assert_eq!((&old.path, words_of(&old.launch)), (&new.path, words_of(&new.launch)), "{}", case.name);
                continue;
            }
            let Launch::Url(old) = &old.launch else { panic!("{}", case.name) };
            assert_eq!(Verdict::of(new, own, &[]), Verdict::WrappedUrl, "{}", case.name);
            let words = words_of(&new.launch).unwrap();
            assert!(words.starts_with(&shim) && words.last() == Some(&old.url), "{}: {words:?}", case.name);
        }
        let restored = |config: &Config, places: &[usize], notes: &[Option<Note>]| {
            let back = places.iter().zip(notes).map(|(place, note)| match note {
                Some(Note::Url(note)) => (*place, Change::ToUrl(note)),
                note => panic!("{}: {note:?}", case.name),
            });
            let changed = config.changed(&back.collect::<Vec<_>>());
            assert_eq!(changed.left, Vec::<usize>::new(), "{}", case.name);
            changed.bytes
        };
        assert!(restored(&between, &places, &notes) == case.bytes, "{}", case.name);
        // One after the other, and with the other servers wrapped meanwhile.
        let meanwhile = bare(&between);
        let Changed { bytes, notes: of_others, .. } = wrapped(&between, &meanwhile);
        let mut config = case.read(&bytes);
        for (place, note) in places.iter().zip(&notes).rev() {
            config = case.read(&restored(&config, &[*place], std::slice::from_ref(note)));
        }
        assert!(unwrapped(&config, &meanwhile, &of_others) == case.bytes, "{}", case.name);
        // No note holds a value.
        for secret in ["secret", "Bearer", "example.com", "${"] {
            assert!(!serde_json::to_string(&notes).unwrap().contains(secret), "{}: {notes:?}", case.name);
        }
    }
    assert!(files >= 8, "{files} files are no corpus");
}

#[test]
fn a_url_that_stays_is_told_why() {
    let mut all = String::new();
    for case in cases(false) {
        let client = case.name.split('.').next().unwrap();
        for entry in case.read(&case.bytes).entries() {
            if !matches!(entry.launch, Launch::Url(_)) {
                continue;
            }
            let told = remote::check(entry, remote::style(Some(client)));
            let told = told.map_or_else(|refusal| refusal.to_string(), |()| "can be wrapped".into());
            all += &format!("{}: {:?} {told}\n", case.name, entry.path.join(" > "));
        }
    }
    compare("urls.txt", all.as_bytes());
}

/// A client that writes its file anew keeps what it understands, and chooses the order and the spaces itself.
#[test]
fn a_url_comes_back_in_a_file_that_was_written_anew() {
    let text = r#"{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "x", "X-B": "y"}}}}"#;
    let shape = client::client("cursor").unwrap().files[0].shape;
    let read = |bytes: &[u8]| Config::read(bytes, shape.syntax, shape.servers).unwrap();
    let shim = shim();
    let Changed { bytes, notes, .. } =
        read(text.as_bytes()).changed(&[(0, Change::ToCommand(&shim, remote::style(Some("cursor"))))]);
    let [Some(Note::Url(note))] = &notes[..] else { panic!("{notes:?}") };
    let mut anew: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    anew["mcpServers"]["a"]["disabled"] = true.into();
    // Sorted by their keys, so `args` comes first.
    for text in [serde_json::to_string_pretty(&anew).unwrap(), anew.to_string()] {
        let Changed { bytes, left, .. } = read(text.as_bytes()).changed(&[(0, Change::ToUrl(note))]);
        assert!(left.is_empty(), "{text}");
        let back: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let expected = serde_json::json!({"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp",
            "headers": {"Authorization": "x", "X-B": "y"}, "disabled": true}}});
        assert_eq!(back, expected);
    }
    // Where another member has come between command and arguments.
    let entry = r#""type": "stdio", "command": "/r", "env": {"RESCIND_HEADER_AUTHORIZATION": "x", "RESCIND_HEADER_X_B": "y"}, "args": ["run", "--url", "https://a.example/mcp"]"#;
    let text = format!(r#"{{"mcpServers": {{"a": {{{entry}}}}}}}"#);
    let Changed { bytes, .. } = read(text.as_bytes()).changed(&[(0, Change::ToUrl(note))]);
    let back = r#"{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "x", "X-B": "y"}}}}"#;
    assert_eq!(String::from_utf8(bytes).unwrap(), back);
    // A header that somebody took away does not come back by itself.
    let text = text.replace(r#", "RESCIND_HEADER_X_B": "y""#, "");
    assert_eq!(read(text.as_bytes()).changed(&[(0, Change::ToUrl(note))]).left, [0]);
    // A variable that somebody added is nobody's header.
    anew["mcpServers"]["a"]["env"]["MORE"] = "z".into();
    let text = anew.to_string();
    let Changed { bytes, left, .. } = read(text.as_bytes()).changed(&[(0, Change::ToUrl(note))]);
    assert_eq!((left, String::from_utf8(bytes).unwrap()), (vec![0], text));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    let complaints: Vec<String> = cases(true)
        .iter()
        .map(|case| match Config::read(&case.bytes, case.shape.syntax, case.shape.servers) {
            Ok(_) => panic!("{} was read", case.name),
            Err(error) => format!("{}: {error}\n", case.name),
        })
        .collect();
    compare("broken.txt", complaints.concat().as_bytes());
}

#[test]
fn every_server_gets_a_verdict_in_words() {
    let mut all = String::new();
    for case in cases(false) {
        for entry in case.read(&case.bytes).entries() {
            let verdict = Verdict::of(entry, own, &[]);
            all += &format!("{}: {:?} {verdict}\n", case.name, entry.path.join(" > "));
        }
    }
    compare("verdicts.txt", all.as_bytes());
}

fn compare(name: &str, bytes: &[u8]) {
    let path = folder("wrapped").join(name);
    if env::var_os("RESCIND_WRITE_PAGES").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(path, bytes).unwrap();
    }
    let expected = fs::read(&path).unwrap_or_default();
    assert!(expected == bytes, "{}: {}", path.display(), String::from_utf8_lossy(bytes));
}

#[test]
fn the_page_of_clients_has_them_all() {
    let page = fs::read_to_string(folder("../../../docs/clients.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Clients\n")).unwrap();
    let rows: Vec<&str> =
        section.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `--")).collect();
    assert_eq!(rows.len(), client::CLIENTS.len());
    for client in client::CLIENTS {
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{}` | {} |", client.id, client.name))).unwrap();
        let paths = client.files.iter().map(|file| file.path).chain(client.project.iter().map(|file| file.path));
        for path in paths {
            assert!(row.contains(&format!("{path}`")), "{}: {path} is missing", client.id);
        }
    }
}

#[test]
fn the_page_of_clients_says_what_is_known_of_their_patience() {
    let page = fs::read_to_string(folder("../../../docs/clients.md")).unwrap();
    for known in patience::PATIENCE {
        let name = client::client(known.client).unwrap().name;
        let row = page.lines().find(|line| line.starts_with(&format!("| {name} | {} |", known.waits))).unwrap();
        assert!(row.contains(&format!(
            "| {} | {} | {} |",
            known.on_timeout.as_str(),
            known.on_stop.as_str(),
            known.set
        )));
        assert!(known.sources.iter().all(|source| row.contains(&format!("({source})"))), "{row}");
    }
}

#[test]
fn the_page_of_clients_has_each_timeout_that_is_proposed_and_each_form_that_is_refused() {
    let page = fs::read_to_string(folder("../../../docs/clients.md")).unwrap();
    let has = |client: &str, words: &str| {
        let start = format!("| {} | ", client::client(client).unwrap().name);
        page.lines().any(|line| line.strip_prefix(&start).is_some_and(|rest| rest.contains(words)))
    };
    for one in advice::ADVICE {
        assert!(has(one.client, &format!("{} | ", one.timeout)), "{one:?}");
    }
    for one in strict::STRICT {
        assert!(has(one.client, one.source), "{one:?}");
    }
}

/// Pieces that mean something in a document.
const PIECES: [&str; 31] = [
    "{", "}", "[", "]", ",", ":", "\"", "'", "'''", "\"\"\"", "//", "/*", "*/", "#", "\n", "\r\n", "\t", "\\", "=",
    ".", "\"args\"", "é", "- ", "&a ", "*a", "!!str ", "? ", "<<: *a", "|", ">-\n", "\n---\n",
];

/// The files of the corpus with a few pieces of each taken out, doubled or put in: what can still be read can be wrapped and
/// unwrapped.
#[test]
fn a_damaged_file_is_refused_or_changed_as_any_other() {
    let mut seed = 11_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below.max(1)
    };
    let (mut read, mut changed, mut moved) = (0, 0, 0);
    for case in cases(false) {
        for _ in 0..1_000 {
            let mut bytes = case.bytes.clone();
            for _ in 0..=random(3) {
                let (at, length) = (random(bytes.len() + 1), random(12));
                let end = (at + length).min(bytes.len());
                match random(3) {
                    0 => drop(bytes.drain(at..end)),
                    1 => drop(bytes.splice(at..at, bytes[at..end].to_vec()).collect::<Vec<_>>()),
                    _ => drop(bytes.splice(at..at, PIECES[random(PIECES.len())].bytes()).collect::<Vec<_>>()),
                }
            }
            let Ok(before) = Config::read(&bytes, case.shape.syntax, case.shape.servers) else { continue };
            read += 1;
            let places = bare(&before);
            changed += usize::from(!places.is_empty());
            let Changed { bytes: new, notes, .. } = wrapped(&before, &places);
            let text =
                || format!("{}: {}\n{}", case.name, String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&new));
            let between = Config::read(&new, case.shape.syntax, case.shape.servers);
            let between = between.unwrap_or_else(|error| panic!("{error}: {}", text()));
            for (place, (before, between)) in commands(&before).into_iter().zip(commands(&between)).enumerate() {
                let expected =
                    before.map(|before| if places.contains(&place) { [shim(), before].concat() } else { before });
                assert_eq!(between, expected, "{}", text());
            }
            assert!(unwrapped(&between, &places, &notes) == bytes, "{}", text());
            let client = case.name.split('.').next().unwrap();
            let (places, shim) = (remote(&before, client), shim());
            moved += usize::from(!places.is_empty());
            let style = remote::style(Some(client));
            let changes: Vec<_> = places.iter().map(|place| (*place, Change::ToCommand(&shim, style))).collect();
            let Changed { bytes: new, notes, .. } = before.changed(&changes);
            let text =
                || format!("{}: {}\n{}", case.name, String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&new));
            let between = Config::read(&new, case.shape.syntax, case.shape.servers);
            let between = between.unwrap_or_else(|error| panic!("{error}: {}", text()));
            let back = places.iter().zip(&notes).filter_map(|(place, note)| match note {
                Some(Note::Url(note)) => Some((*place, Change::ToUrl(note))),
                Some(Note::Arguments(_)) | None => None,
            });
            assert!(between.changed(&back.collect::<Vec<_>>()).bytes == bytes, "{}", text());
        }
    }
    assert!(read > 1_000 && changed > 500 && moved > 100, "{read} were read, {changed} changed, {moved} moved");
}
