//! `rescind completions SHELL`: the script by which a shell completes the words of this command.

use std::io::{self, Write};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell};

use crate::{Cli, completion::Completion, failure::Failure};

/// Print the script by which your shell completes the words of `rescind`.
///
/// bash: rescind completions bash > ~/.local/share/bash-completion/completions/rescind
/// zsh: rescind completions zsh > DIRECTORY/_rescind, with a DIRECTORY of your `fpath`
/// fish: rescind completions fish > ~/.config/fish/completions/rescind.fish
/// PowerShell: rescind completions powershell >> $PROFILE
///
/// Homebrew installs these by itself, and so does pip into its environment.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: ShellName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
        ShellName::PowerShell => Shell::PowerShell,
    };
    let mut command = shown(Cli::command());
    command.set_bin_name("rescind");
    command.build();
    let mut script = Vec::new();
    let done = shell.try_generate(&command, &mut script).and_then(|()| io::stdout().lock().write_all(&script));
    done.map_err(|error| Failure::new("stdout", error, "check where it leads to"))?;
    Ok(Completion::Whole)
}

/// The command without the subcommands that are for the program itself: scripts would offer them, hidden or not.
pub(crate) fn shown(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect::<Vec<_>>();
    Command::new("rescind")
        .disable_help_subcommand(true)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown)
}
