//! A person at a terminal.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::shim::terminal::Terminal;

/// What a shell says after a command.
const OVER: &str = "--over--";

/// The ends of questions.
const QUESTIONS: [&str; 2] = ["[y/N] ", "[Y/n] "];

pub(super) struct Person {
    pub(super) environment: BTreeMap<&'static str, String>,
    pub(super) folder: PathBuf,
}

impl Person {
    /// Types the commands and the answers of a session; what stands on the terminal in the end.
    pub(super) fn plays(&self, session: &str) -> String {
        let mut commands: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
        for line in session.lines() {
            let asked = QUESTIONS.iter().find_map(|question| Some((*question, line.rsplit_once(question)?.1)));
            match (line.strip_prefix("$ "), asked) {
                (Some(command), _) => commands.push((command, Vec::new())),
                (None, Some(asked)) => commands.last_mut().expect("a command").1.push(asked),
                (None, None) => {}
            }
        }
        commands.iter().map(|(command, answers)| format!("$ {command}\n{}", self.enters(command, answers))).collect()
    }

    fn enters(&self, line: &str, answers: &[(&str, &str)]) -> String {
        let terminal = Terminal::open();
        let program = terminal.end();
        let mut modes = tcgetattr(&program).unwrap();
        modes.local_modes |= LocalModes::ECHO;
        tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
        // So wide that nothing is cut, however long the path of this home is.
        tcsetwinsize(&program, Winsize { ws_row: 40, ws_col: 400, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"eval "$0"; echo "--over--""#, line]).env_clear().envs(&self.environment);
        shell.current_dir(&self.folder).stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end());
        let mut shell = shell.spawn().unwrap();
        let mut shown = String::new();
        for (question, answer) in answers {
            shown += &terminal.shows_until(question);
            terminal.type_in(&format!("{answer}\n"));
        }
        shown += &terminal.shows_until(OVER);
        shell.wait().unwrap();
        let shown = shown.replace("\r\n", "\n");
        standing(shown.split(OVER).next().unwrap_or_default())
    }
}

/// What is on the screen after this: lines that were drawn over are gone. What only the place of this test brings
/// about is left out.
fn standing(shown: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    let mut rest = shown;
    while let Some(next) = rest.chars().next() {
        let order = rest.strip_prefix("\u{1b}[").and_then(|order| {
            let end = order.find(|c: char| c.is_ascii_alphabetic())?;
            Some((&order[..end], &order[end..=end], &order[end + 1..]))
        });
        match order {
            Some((count, "F", after)) => {
                let up = count.parse().unwrap_or(1);
                let kept = lines.len().saturating_sub(up + 1);
                lines.truncate(kept);
                lines.push(String::new());
                rest = after;
            }
            Some((_, _, after)) => rest = after,
            None if next == '\n' => {
                lines.push(String::new());
                rest = &rest[1..];
            }
            None => {
                lines.last_mut().expect("a line").push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    let mut is_of_this_place = false;
    let lines = lines.iter().filter(|line| {
        let is_hint_of_it = is_of_this_place && line.starts_with("hint: ");
        is_of_this_place = line.starts_with("warning: ") && line.contains("and will not stay");
        !is_of_this_place && !is_hint_of_it
    });
    let text: Vec<&str> = lines.map(|line| line.trim_end()).collect();
    format!("{}\n", text.join("\n").trim_end_matches('\n')).trim_start_matches('\n').to_owned()
}
