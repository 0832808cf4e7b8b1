//! YAML against another parser: what `wrap` writes has the meaning that it should have, `unwrap` gives back the same bytes,
//! and after a client wrote its file anew the same meaning. `serde_yaml` is the parser and writer of Goose.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use proptest::{prelude::*, sample::select};
use rescind_wrap::{
    client,
    config::{Change, Changed, Config},
    entry::Launch,
    journal::Note,
    verdict::Verdict,
};
use serde_yaml::{Mapping, Value};

/// A word of a command, as it means and as it is written.
#[derive(Clone, Debug)]
struct Word {
    means: String,
    written: String,
}

const PLAIN: [&str; 12] =
    ["npx", "-y", "--", "-x", "@", "a b", "C:\\x\\y.exe", "größe", "日本", "8080:80", "a#b", "${{ secrets.A }}"];
const ODD: [&str; 10] = ["", " ", "a: b", "# c", "- d", "'\"\\", "true", "8080", "{[,]}", "two\nlines"];

fn word() -> impl Strategy<Value = Word> {
    let plain = select(&PLAIN[..]).prop_map(|word| {
        let written = if word == "@" { "'@'".to_owned() } else { word.to_owned() };
        Word { means: word.to_owned(), written }
    });
    let single = select([&PLAIN[..], &ODD[..9]].concat())
        .prop_map(|word| Word { means: word.to_owned(), written: format!("'{}'", word.replace('\'', "''")) });
    let double = select([&PLAIN[..], &ODD[..]].concat()).prop_map(|word| {
        let written = serde_json::to_string(word).unwrap();
        Word { means: word.to_owned(), written }
    });
    prop_oneof![plain, single, double]
}

#[derive(Clone, Debug)]
enum Arguments {
    Missing,
    Brackets(Vec<Word>),
    /// Each on a line: how far in, and the space behind the `-`.
    Lines(Vec<Word>, usize, usize),
}

fn arguments() -> impl Strategy<Value = Arguments> {
    let words = || prop::collection::vec(word(), 0..4);
    prop_oneof![
        Just(Arguments::Missing),
        // Braces without quotes mean something in brackets.
        words().prop_map(|words| {
            let words = words.into_iter().filter(|word| !word.written.starts_with('$'));
            Arguments::Brackets(words.collect())
        }),
        (prop::collection::vec(word(), 1..4), 0..5_usize, 1..4_usize)
            .prop_map(|(words, inward, gap)| Arguments::Lines(words, inward, gap)),
    ]
}

#[derive(Clone, Debug)]
struct Server {
    program: Word,
    arguments: Arguments,
    is_flow: bool,
    arguments_first: bool,
    comment: bool,
}

fn server() -> impl Strategy<Value = Server> {
    (word(), arguments(), any::<[bool; 3]>()).prop_map(|(program, arguments, [is_flow, arguments_first, comment])| {
        let is_flow = is_flow && !matches!(arguments, Arguments::Lines(..)) && !program.written.starts_with('$');
        Server { program, arguments, is_flow, arguments_first, comment }
    })
}

impl Server {
    /// Its members, each on a line of its own, which are `inward` spaces in.
    fn lines(&self, inward: usize, program: &str) -> Vec<String> {
        let space = " ".repeat(inward);
        let comment = if self.comment { " # why: - [x" } else { "" };
        let command = vec![format!("{space}{program}: {}{comment}", self.program.written)];
        let arguments = match &self.arguments {
            Arguments::Missing => Vec::new(),
            Arguments::Brackets(words) => vec![format!("{space}args: [{}]{comment}", joined(words))],
            Arguments::Lines(words, more, gap) => {
                let item =
                    |word: &Word| format!("{space}{}-{}{}{comment}", " ".repeat(*more), " ".repeat(*gap), word.written);
                [vec![format!("{space}args:{comment}")], words.iter().map(item).collect()].concat()
            }
        };
        let other = vec![format!("{space}other: {{a: [1, ~], \"b\": x}}"), format!("{space}text: |\n{space}  args: [")];
        let [first, second] = if self.arguments_first { [arguments, command] } else { [command, arguments] };
        [first, second, other].concat()
    }

    fn flow(&self, program: &str) -> String {
        let arguments = match &self.arguments {
            Arguments::Missing => String::new(),
            Arguments::Brackets(words) | Arguments::Lines(words, ..) => format!(", args: [{}]", joined(words)),
        };
        format!("{program}: {}{arguments}, other: {{a: [1]}}", self.program.written)
    }
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| &*word.written).collect::<Vec<_>>().join(", ")
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
struct Manner {
    is_list: bool,
    has_mark: bool,
    has_returns: bool,
    has_document: bool,
    /// Whether it ends with a line end.
    ends: bool,
}

fn text(servers: &[Server], manner: Manner) -> String {
    let mut lines = vec!["# Mine".to_owned(), "before: {x: y}".to_owned()];
    // The other parser takes what comes after a mark for a second document.
    if manner.has_document && !manner.has_mark {
        lines.insert(0, "---".to_owned());
    }
    lines.push(if manner.is_list { "mcpServers:" } else { "extensions:" }.to_owned());
    for (place, server) in servers.iter().enumerate() {
        match (manner.is_list, server.is_flow) {
            (true, true) => lines.push(format!("  - {{name: s{place}, {} }}", server.flow("command"))),
            (true, false) => {
                let mut of_this = server.lines(4, "command");
                of_this[0].replace_range(2..4, "- ");
                lines.extend(of_this);
                lines.push(format!("    name: s{place}"));
            }
            (false, true) => lines.push(format!("  s{place}: {{ {} }}", server.flow("cmd"))),
            (false, false) => {
                lines.push(format!("  s{place}: # {place}"));
                lines.extend(server.lines(4, "cmd"));
            }
        }
    }
    lines.push("after: 1".to_owned());
    let end = if manner.has_returns { "\r\n" } else { "\n" };
    let text = lines.join("\n").replace('\n', end);
    let mark = if manner.has_mark { "\u{feff}" } else { "" };
    [mark, &text, if manner.ends { end } else { "" }].concat()
}

fn manner() -> impl Strategy<Value = Manner> {
    any::<[bool; 5]>().prop_map(|[is_list, has_mark, has_returns, has_document, ends]| Manner {
        is_list,
        has_mark,
        has_returns,
        has_document,
        ends,
    })
}

fn own(words: &[String]) -> Option<usize> {
    match words {
        [run, separator, ..] if run == "run" && separator == "--" => Some(2),
        [run, ..] if run == "run" => Some(1),
        _ => None,
    }
}

fn read(manner: Manner, bytes: &[u8]) -> Config {
    let shape = client::client(if manner.is_list { "continue" } else { "goose" }).unwrap().files[0].shape;
    Config::read(bytes, shape.syntax, shape.servers)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

fn shim() -> Vec<String> {
    ["/opt/My \"Tools\"/rescind", "run", "--"].map(str::to_owned).to_vec()
}

fn bare(config: &Config) -> Vec<usize> {
    let entries = config.entries().iter().enumerate();
    entries.filter(|(_, entry)| Verdict::of(entry, own, &[]) == Verdict::Bare).map(|(place, _)| place).collect()
}

fn taken_off(config: &Config, paths: &[Vec<String>], notes: &[Option<Note>]) -> Vec<u8> {
    let changes: Vec<_> = paths
        .iter()
        .zip(notes)
        .map(|(path, note)| {
            let place = config.entries().iter().position(|entry| entry.path == *path).unwrap();
            let verdict = Verdict::of(&config.entries()[place], own, &[]);
            let Verdict::Wrapped(words) = verdict else { panic!("{path:?}: {verdict}") };
            let added = note.as_ref().map(|note| match note {
                Note::Arguments(text) => &**text,
                Note::Url(_) => panic!("{path:?}"),
            });
            (place, Change::TakeOff { words, added })
        })
        .collect();
    config.changed(&changes).bytes
}

/// The entry of this path.
fn entry<'a>(root: &'a mut Value, path: &[String]) -> &'a mut Mapping {
    let name = path.last().unwrap();
    let servers = root.get_mut(&path[0]).unwrap();
    let server = if servers.is_sequence() {
        let mut list = servers.as_sequence_mut().unwrap().iter_mut();
        list.find(|one| one.get("name").and_then(Value::as_str) == Some(name.as_str()))
    } else {
        servers.get_mut(name)
    };
    server.unwrap().as_mapping_mut().unwrap()
}

/// The words of an entry, as the other parser reads it.
fn words(entry: &Mapping) -> Vec<String> {
    let program = ["command", "cmd"].iter().find_map(|name| entry.get(*name)).unwrap().as_str().unwrap().to_owned();
    let arguments = entry.get("args").and_then(Value::as_sequence).into_iter().flatten();
    [vec![program], arguments.map(|word| word.as_str().unwrap().to_owned()).collect()].concat()
}

fn parsed(bytes: &[u8]) -> Value {
    serde_yaml::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_wrapped_means_what_it_should_and_comes_back(
        servers in prop::collection::vec(server(), 1..4),
        manner in manner(),
    ) {
        let text = text(&servers, manner);
        let before = parsed(text.as_bytes());
        let config = read(manner, text.as_bytes());
        let places = bare(&config);
        let paths: Vec<_> = places.iter().map(|place| config.entries()[*place].path.clone()).collect();
        let mut expected = before.clone();
        for (place, path) in places.iter().zip(&paths) {
            let of_this = entry(&mut expected, path);
            let Launch::Command(command) = &config.entries()[*place].launch else { panic!("{path:?}") };
            prop_assert_eq!(&command.words, &words(of_this), "{}", text);
            let server: usize = path.last().unwrap()[1..].parse().unwrap();
            prop_assert_eq!(&command.words[0], &servers[server].program.means, "{}", text);
            let all = [shim(), words(of_this)].concat();
            let program = if of_this.contains_key("cmd") { "cmd" } else { "command" };
            of_this.insert(program.into(), all[0].clone().into());
            of_this.insert("args".into(), all[1..].to_vec().into());
        }
        let shim = shim();
        let changes: Vec<_> = places.iter().map(|place| (*place, Change::Prepend(&shim))).collect();
        let Changed { bytes, notes, .. } = config.changed(&changes);
        let wrapped = parsed(&bytes);
        prop_assert_eq!(&wrapped, &expected, "{}\n{}", text, String::from_utf8_lossy(&bytes));
        let between = read(manner, &bytes);
        prop_assert!(config.means_the_same(&between, &places), "{}", text);
        let after = taken_off(&between, &paths, &notes);
        prop_assert_eq!(String::from_utf8(after).unwrap(), text.clone());

        // Its client has written it anew.
        let anew = serde_yaml::to_string(&wrapped).unwrap();
        let after = taken_off(&read(manner, anew.as_bytes()), &paths, &notes);
        prop_assert_eq!(parsed(&after), before.clone(), "{}", anew);
        // And nobody knows any more what was added.
        let after = taken_off(&read(manner, anew.as_bytes()), &paths, &vec![None; paths.len()]);
        let (mut after, mut before) = (parsed(&after), before);
        for path in &paths {
            prop_assert_eq!(words(entry(&mut after, path)), words(entry(&mut before, path)), "{}", anew);
        }
    }
}

/// Everything else of the generated files is wrapped, but for what needs quotes and what is a whole line.
#[test]
fn what_the_property_is_about_is_wrapped_indeed() {
    let file = |program: &str, arguments: &str| format!("extensions:\n  a:\n    cmd: {program}\n{arguments}");
    let manner = Manner { is_list: false, has_mark: false, has_returns: false, has_document: false, ends: true };
    for arguments in ["", "    args: []\n", "    args: [a]\n", "    args:\n    - a\n", "    args:\n        -   'a'\n"] {
        for program in ["npx", "'a,b'", "\"x\"", "C:\\x.exe"] {
            let text = file(program, arguments);
            assert_eq!(bare(&read(manner, text.as_bytes())), [0], "{text}");
        }
    }
}

/// Files that nobody writes, or that somebody writes to do harm: each is refused, or changed as any other.
#[test]
fn a_hostile_file_is_refused_or_comes_back() {
    let entry = "extensions:\n  a:\n    cmd: npx\n    args: [-y]\n";
    let lines = "extensions:\n  a:\n    cmd: npx\n    args:\n    - -y\n";
    let laughs: String =
        (1..30).map(|level| format!("l{level}: &l{level} [*l{0}, *l{0}, *l{0}, *l{0}]\n", level - 1)).collect();
    let after = [
        "",
        "\n\n  \n",
        "...\n",
        "---\n",
        "---\n---\n...\n",
        "other: [1, 2",
        "other: {",
        "other: \"",
        "other: 'x\n",
        "other: *nobody\n",
        "other: &a [*a]\n",
        "? [complex, key]\n: {a: b}\n",
        "? |\n  lines\n: x\n",
        "? a\n? b\n",
        ": nothing\n",
        "other: |2-\n   kept\n  less\n\n\n",
        "other: >+\n  folded\n\n\n",
        "other: !!binary aGk=\n",
        "other: !unknown {a: b}\n",
        "other: x # comment",
        "# comment without an end",
        "\"quoted\": \"\\x41\\u00e9\\U0001F600\\\n  more\"\n",
        "'it''s': 'it''s'\n",
        "other:\n- a\n-   - b\n    - c\n- {d: e}\n",
        "other: 0o17\nmore: .inf\nyet: 2001-12-14t21:59:43.10-05:00\n",
        "other: a\u{85}b\u{2028}c\n",
        "other: \u{7}\n",
        "other: \u{0}\n",
        "other: \u{feff}x\n",
        "\tother: x\n",
        "other:\tx\t# y\n",
        "a: b: c\n",
        "extensions: {b: {cmd: c}}\n",
        "- list\n",
        "plain\n",
    ]
    .map(ToOwned::to_owned);
    let deep = [format!("x: {}", "[".repeat(100_000)), format!("x: {}", "{a: ".repeat(100_000))];
    let steps: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let wide: String = (0..2_000).map(|key| format!("k{key}: v\n")).collect();
    let long = format!("x: {}\n", "y".repeat(100_000));
    let more = [deep.as_slice(), &[steps, wide, long, format!("l0: &l0 x\n{laughs}")]].concat();
    let before = [
        "",
        "%YAML 1.1\n---\n",
        "%YAML 9.9\n---\n",
        "%TAG ! tag:a,b:\n---\n",
        "# c\n",
        "\u{feff}",
        "\r\n",
        "--- # c\n",
    ];
    let manner = Manner { is_list: false, has_mark: false, has_returns: false, has_document: false, ends: true };
    let shape = client::client("goose").unwrap().files[0].shape;
    let (mut refused, mut changed) = (0, 0);
    let all = before.iter().flat_map(|before| after.iter().map(move |after| (*before, after)));
    for (before, after) in all.chain(more.iter().map(|after| ("", after))) {
        for entry in [entry, lines] {
            for text in [
                format!("{before}{entry}{after}"),
                format!("{before}{entry}{after}").replace('\n', "\r\n"),
                format!("{before}{entry}{after}").replace('\n', "\r"),
                format!("{before}{after}\n{entry}"),
            ] {
                let Ok(config) = Config::read(text.as_bytes(), shape.syntax, shape.servers) else {
                    refused += 1;
                    continue;
                };
                let places = bare(&config);
                let paths: Vec<_> = places.iter().map(|place| config.entries()[*place].path.clone()).collect();
                changed += usize::from(!paths.is_empty());
                let shim = shim();
                let changes: Vec<_> = places.iter().map(|place| (*place, Change::Prepend(&shim))).collect();
                let Changed { bytes, notes, .. } = config.changed(&changes);
                let between = read(manner, &bytes);
                let start: String = text.chars().take(200).collect();
                assert!(config.means_the_same(&between, &places), "{start}");
                assert!(taken_off(&between, &paths, &notes) == text.as_bytes(), "{start}");
            }
        }
    }
    assert!(refused > 200 && changed > 400, "{refused} were refused, {changed} changed");
    for bytes in [&b"extensions: \xff"[..], b"\xff\xfee\0x\0", b"\xfe\xff\0e\0x"] {
        assert!(Config::read(bytes, shape.syntax, shape.servers).is_err());
    }
}
