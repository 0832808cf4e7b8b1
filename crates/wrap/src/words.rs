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

/// The places of the words of a command that are flags of the shim before it; `None` if `wrap` has put no shim there. What
/// stands for the URL of a server and for its headers is not a flag.
#[must_use]
pub fn flags(words: &[String], own: OwnWords) -> Option<Range<usize>> {
    let mut end = match before(words, own) {
        Before::Shim(count) if words[count - 1] == "--" => count - 1,
        Before::Shim(count) => count,
        Before::Url => words.len() - 2,
        Before::Nothing | Before::ShimByHand | Before::Rescind => return None,
    };
    while end >= 4 && words[end - 2] == "--header-env" {
        end -= 2;
    }
    Some(2..end)
}

/// Flags that belong to an entry, and stay when its flags are replaced: what `wrap` says of it, and how its URL is reached.
const KEPT: [&str; 8] =
    ["--name", "--client-name", "--shared", "--shared-env", "--header", "--header-env", "--profile", "--sign-in"];

/// The same for one that has no value.
const KEPT_ALONE: &str = "--shared-folder";

/// Divides flags into those that belong to their entry and all others. One that is among the `wanted` does not belong to it.
#[must_use]
pub fn divided(flags: &[String], wanted: &[String]) -> (Vec<String>, Vec<String>) {
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let is_kept = |word: &str| {
        let name = name(word);
        (KEPT.contains(&&*name) || name == KEPT_ALONE) && !wanted.iter().any(|one| one.split('=').next() == Some(&name))
    };
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    let mut rest = flags.iter();
    while let Some(word) = rest.next() {
        let part = if is_kept(word) { &mut kept } else { &mut others };
        part.push(word.clone());
        if KEPT.contains(&&**word) {
            part.extend(rest.next().cloned());
        }
    }
    (kept, others)
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
    let given = NAMES.iter().zip([Some(entry), client]);
    given.filter_map(|(flag, name)| Some(format!("{flag}{}", name.filter(|name| is_plain(name))?))).collect()
}

/// Whether a command can carry this name as it is.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_odd = name.chars().any(char::is_control) || REFERENCES.iter().any(|start| name.contains(start));
    (1..=MAX_NAME).contains(&name.len()) && !is_odd
}

/// The places of the names in a command that begins with a shim: after its program and `run`.
#[must_use]
pub fn named(words: &[String]) -> Range<usize> {
    let is = |place: usize, flag: &str| words.get(place).is_some_and(|word| word.starts_with(flag));
    2..NAMES.iter().fold(2, |place, flag| place + usize::from(is(place, flag)))
}

/// The flags of a shim without the names with which they begin.
#[must_use]
pub fn unnamed(flags: &[String]) -> &[String] {
    NAMES.iter().fold(flags, |flags, name| match flags {
        [first, rest @ ..] if first.starts_with(name) => rest,
        _ => flags,
    })
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

    #[test]
    fn the_flags_of_a_shim_are_between_its_program_and_what_it_starts() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            flags(&words, own).map(|places| words[places].join(" "))
        };
        assert_eq!(of("/bin/rescind run npx").as_deref(), Some(""));
        assert_eq!(of("/bin/rescind run --unlisted npx --unlisted").as_deref(), Some("--unlisted"));
        assert_eq!(of("/bin/rescind run --unlisted --url https://a/mcp").as_deref(), Some("--unlisted"));
        for line in ["npx", "npx -y rescind run --unlisted npx", "rescind mcp"] {
            assert_eq!(of(line), None, "{line}");
        }
        // Words that name a command's own end, and headers of a URL.
        let any: OwnWords = |words| words.iter().position(|word| word == "server");
        let words = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(flags(&words("rescind run --unlisted -- server"), any), Some(2..3));
        assert_eq!(flags(&words("rescind run -- server"), any), Some(2..2));
        let url = "rescind run --unlisted --header-env A=B --header-env C=D --url https://a/mcp";
        assert_eq!(flags(&words(url), any), Some(2..3));
        assert_eq!(flags(&words("rescind run --header-env A=B --url https://a/mcp"), any), Some(2..2));
    }

    #[test]
    fn flags_that_belong_to_their_entry_are_kept_unless_they_are_given_anew() {
        let of = |flags: &str, wanted: &str| {
            let words =
                |line: &str| line.split(' ').filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
            let (kept, others) = divided(&words(flags), &words(wanted));
            [kept.join(" "), others.join(" ")]
        };
        assert_eq!(of("--timeout 5m --name a --restart", "--timeout 4m"), ["--name a", "--timeout 5m --restart"]);
        assert_eq!(of("--name=a --client-name b --timeout 5m", ""), ["--name=a --client-name b", "--timeout 5m"]);
        assert_eq!(of("--name a --timeout 5m", "--name b"), ["", "--name a --timeout 5m"]);
        assert_eq!(of("--name a", "--name=b"), ["", "--name a"]);
        let shared = "--shared=a --shared-env T --shared-folder";
        assert_eq!(of(&format!("{shared} --timeout 5m"), "--timeout 4m"), [shared, "--timeout 5m"]);
        assert_eq!(of("", ""), ["", ""]);
    }
}
