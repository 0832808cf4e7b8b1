//! Which words of a command are a shim's.

use std::ops::Range;

/// What stands before a server's own command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Before {
    /// Nothing: the command is the server's own.
    Nothing,
    /// A shim of ours: so many words, its program included.
    Shim(usize),
    /// A shim of ours in the place of a server at a URL, which is the last word.
    Url,
    /// A shim of ours that something else starts, such as `npx` or a shell: it was put there by hand.
    ShimByHand,
    /// The command is `rescind` itself, doing something else.
    Rescind,
}

/// How many words after the program are a shim's own, `run` included: `None` if they do not start a shim with a command.
pub type OwnWords = fn(&[String]) -> Option<usize>;

/// What stands before the server's own command in these words.
#[must_use]
pub fn before(words: &[String], own: OwnWords) -> Before {
    let Some((program, rest)) = words.split_first() else { return Before::Nothing };
    if is_program(program) {
        let is_run = rest.first().is_some_and(|word| word == "run");
        return match own(rest) {
            Some(count) if is_run && count < rest.len() => Before::Shim(1 + count),
            _ if is_run && reaches_url(rest, own) => Before::Url,
            _ => Before::Rescind,
        };
    }
    let by_hand = rest.windows(2).any(|pair| is_package(&pair[0]) && pair[1] == "run");
    let in_shell = rest.iter().any(|word| word.contains("rescind run "));
    if by_hand || in_shell { Before::ShimByHand } else { Before::Nothing }
}

/// The words that a shim puts before this program: `--` comes last where the program's name would be read as a flag.
#[must_use]
pub fn to_prepend(shim: &[String], program: &str) -> Vec<String> {
    let separator = program.starts_with('-').then(|| "--".to_owned());
    shim.iter().cloned().chain(separator).collect()
}

/// What the words begin with that name an entry and its client, in their order.
const NAMES: [&str; 2] = ["--name=", "--client-name="];

/// The longest name that is written into a command, in bytes: a system refuses to start what is far too long.
const MAX_NAME: usize = 1024;

/// How clients begin a reference to something else, which they would put in the name's place.
const REFERENCES: [&str; 3] = ["$", "{env:", "{file:"];

/// The words that tell a shim the names of its entry and of its client. A name that no command can carry as it is, or that
/// is empty, is left out.
#[must_use]
pub fn names(entry: &str, client: Option<&str>) -> Vec<String> {
    let is_plain = |name: &&str| {
        let is_odd = name.chars().any(char::is_control) || REFERENCES.iter().any(|start| name.contains(start));
        (1..=MAX_NAME).contains(&name.len()) && !is_odd
    };
    let given = NAMES.iter().zip([Some(entry), client]);
    given.filter_map(|(flag, name)| Some(format!("{flag}{}", name.filter(is_plain)?))).collect()
}

/// The places of the names in a command that begins with a shim: after its program and `run`.
#[must_use]
pub fn named(words: &[String]) -> Range<usize> {
    let is = |place: usize, flag: &str| words.get(place).is_some_and(|word| word.starts_with(flag));
    2..NAMES.iter().fold(2, |place, flag| place + usize::from(is(place, flag)))
}

/// Whether these words, from `run` on, are flags of a shim and then `--url URL`.
fn reaches_url(words: &[String], own: OwnWords) -> bool {
    let [flags @ .., flag, _] = words else { return false };
    let with_command = [flags, &["server".to_owned()]].concat();
    flag == "--url" && own(&with_command) == Some(flags.len())
}

/// How many shims of ours stand before the server's own command.
#[must_use]
pub fn shims(words: &[String], own: OwnWords) -> usize {
    match before(words, own) {
        Before::Shim(count) => 1 + shims(&words[count..], own),
        Before::ShimByHand | Before::Url => 1,
        Before::Nothing | Before::Rescind => 0,
    }
}

/// Whether this is the program, by whatever path, on whatever system it was written.
fn is_program(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    matches!(name, "rescind" | "rescind.exe" | "rescind.cmd")
}

/// Whether this is how a package runner is told of it.
fn is_package(word: &str) -> bool {
    is_program(word) || word.strip_prefix("rescind").is_some_and(|rest| rest.starts_with(['@', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flag without a value is known here.
    fn own(words: &[String]) -> Option<usize> {
        let command = words.iter().position(|word| word != "run" && word != "--unlisted");
        command.filter(|place| !words[*place].starts_with("--"))
    }

    fn of(line: &str) -> Before {
        before(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>(), own)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_name_stands_in_one_word_whatever_is_in_it() {
        let long = "n".repeat(300);
        for name in ["github", "my server", "it's \"mine\"", "検索 – ü", "-x", "--", "a=b", "C:\\x", &long] {
            assert_eq!(names(name, Some("cursor")), [format!("--name={name}"), "--client-name=cursor".to_owned()]);
            assert_eq!(names(name, None), [format!("--name={name}")]);
        }
    }

    #[test]
    fn a_name_that_no_command_can_carry_is_left_out() {
        let long = "n".repeat(MAX_NAME + 1);
        for name in ["", "a\nb", "a\0b", "$HOME", "${HOME}", "{env:HOME}", "{file:x}", &long] {
            assert_eq!(names(name, Some("cursor")), ["--client-name=cursor"], "{name:?}");
        }
    }

    #[test]
    fn names_stand_before_the_other_flags_and_what_a_person_adds_behind_them_is_none_of_them() {
        let of = |line: &[&str]| named(&words(line));
        assert_eq!(of(&["rescind", "run", "--timeout", "5m", "npx"]), 2..2);
        assert_eq!(of(&["rescind", "run", "--name=a", "--timeout", "5m", "npx"]), 2..3);
        assert_eq!(of(&["rescind", "run", "--client-name=zed", "npx"]), 2..3);
        assert_eq!(of(&["rescind", "run", "--name=a", "--client-name=zed", "npx"]), 2..4);
        assert_eq!(of(&["rescind", "run", "--name=a", "--client-name=zed", "--name=mine", "npx"]), 2..4);
        assert_eq!(of(&["rescind", "run", "--name=a", "--name=mine", "npx"]), 2..3);
    }

    #[test]
    fn a_shim_is_known_by_its_program_and_its_words() {
        assert_eq!(of("npx -y server"), Before::Nothing);
        assert_eq!(of("/opt/bin/rescind run npx"), Before::Shim(2));
        assert_eq!(of("C:\\bin\\rescind.exe run --unlisted npx -y"), Before::Shim(3));
        assert_eq!(of("rescind mcp"), Before::Rescind);
        assert_eq!(of("rescind run"), Before::Rescind);
        assert_eq!(of("/bin/rescind run --unlisted --url https://a/mcp"), Before::Url);
        assert_eq!(of("rescind run --url https://a/mcp --unlisted"), Before::Rescind);
        assert_eq!(of("npx -y rescind run npx -y server"), Before::ShimByHand);
        assert_eq!(of("npx rescind@0.1 run server"), Before::ShimByHand);
        assert_eq!(of("docker run image"), Before::Nothing);
        assert_eq!(of("npx -y rescinder run"), Before::Nothing);
        let shell = ["sh", "-c", "exec rescind run npx -y server"].map(ToOwned::to_owned);
        assert_eq!(before(&shell, own), Before::ShimByHand);
        let count = |line: &str| shims(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>(), own);
        assert_eq!(count("npx -y server"), 0);
        assert_eq!(count("/opt/bin/rescind run npx -y server"), 1);
        assert_eq!(count("/opt/bin/rescind run /old/rescind run --unlisted npx"), 2);
        assert_eq!(count("rescind run npx -y rescind run npx"), 2);
    }
}
