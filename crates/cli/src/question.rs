//! A question to the person at the terminal.

use std::{
    fmt,
    io::{self, BufRead, IsTerminal, Write},
};

use crate::failure::Failure;

/// Fails where nobody can be asked before a command does what it `would`.
pub(crate) fn require_terminal(command: &str, would: fmt::Arguments<'_>, hint: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(command, format_args!("would {would}, and cannot ask without a terminal"), hint))
}

/// Asks a question on stderr that is answered with yes or no on stdin. Anything but yes is no.
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    let answer = read(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks a question on stderr where an empty line is yes. Anything but yes, and the end of stdin, is no.
pub(crate) fn ask_unless_no(question: &str) -> Result<bool, Failure> {
    let answer = read(&format!("{question} [Y/n] "))?;
    Ok(answer.ends_with('\n') && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

/// Prints this on stderr, and returns the next line of stdin with its end.
fn read(prompt: &str) -> Result<String, Failure> {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::new("stdin", error, "use --yes"))?;
    Ok(answer)
}
