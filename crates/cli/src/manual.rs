//! The manual pages and completions that the packages carry. They are written to `target/manual` when this is tested,
//! so that what writes the pages is not in the command. The completions are those of `rescind completions`.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, completions::shown};

#[test]
fn each_command_has_a_page_and_each_shell_its_completions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/manual");
    let _ = fs::remove_dir_all(&folder);
    let mut command = shown(Cli::command());
    command.build();

    let pages = folder.join("man");
    fs::create_dir_all(&pages).unwrap();
    clap_mangen::generate_to(command.clone(), &pages).unwrap();
    for one in command.get_subcommands() {
        let page = fs::read_to_string(pages.join(format!("rescind-{}.1", one.get_name()))).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{page}");
    }

    let completions = folder.join("completions");
    fs::create_dir_all(&completions).unwrap();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
        let file = clap_complete::generate_to(shell, &mut command, "rescind", &completions).unwrap();
        let script = fs::read_to_string(file).unwrap();
        assert!(script.contains("doctor") && !script.contains("__guard"), "{script}");
    }
}
