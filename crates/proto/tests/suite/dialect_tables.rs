//! Every dialect's table, as a person reads it: what a revision changes, and nothing that it keeps.
//!
//! A change of a table shows in `snapshots/`. `INSTA_UPDATE=always cargo test -p rescind-proto dialect_tables` writes it.

use core::fmt::Write;
use std::{fs, path::Path};

use rescind_proto::dialect::{Dialect, Family, UNKNOWN, codex};

#[test]
fn every_dialect_says_what_its_table_says() {
    insta::assert_snapshot!("dialect_tables", tables());
}

fn tables() -> String {
    let mut text = String::new();
    let mut before: Option<&Dialect> = None;
    for dialect in Dialect::ALL.into_iter().chain([&UNKNOWN, &codex::APP_SERVER, &codex::UNSEEN]) {
        let base = before.replace(dialect).filter(|base| base.family == dialect.family);
        match base {
            None => _ = writeln!(text, "{dialect}"),
            Some(base) => _ = writeln!(text, "{dialect}: as {base}, but"),
        }
        let earlier = base.map(answers);
        for (place, (question, answer)) in answers(dialect).into_iter().enumerate() {
            if earlier.as_ref().is_none_or(|earlier| earlier[place].1 != answer) {
                let _ = writeln!(text, "  {question:22} {answer}");
            }
        }
        text.push('\n');
    }
    text
}

/// Every field but the name, which is the heading.
fn answers(dialect: &Dialect) -> Vec<(&'static str, String)> {
    macro_rules! answers {
        ($($field:ident)+) => {{
            let Dialect { name: _, $($field),+ } = dialect;
            vec![$((stringify!($field), format!("{:?}", $field))),+]
        }};
    }
    answers! {
        family date stateless opaque cancel aliases settlement gave_up cancellers no_server_requests uncancellable tasks disconnect gate
        batches reuse null_ids sticky stray_error clocks cancel_results upkeep failure progress turn threads handshake ping last_request
        handshake_first subscription lists meta http
    }
}

/// A table that is not in the list has no name, and no other test looks at it.
#[test]
fn every_table_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dialect");
    let list = fs::read_to_string(folder.with_extension("rs")).unwrap();
    let mut tables = Vec::new();
    for family in ["mcp", "acp", "lsp"] {
        let text = fs::read_to_string(folder.join(family).with_extension("rs")).unwrap();
        let consts = text.split("pub const ").filter_map(|rest| rest.split_once(": Dialect ="));
        let own = consts.filter(|(_, value)| value.trim_start().starts_with("Dialect {"));
        tables.extend(own.map(|(name, _)| format!("&{family}::{name},")));
    }
    assert_eq!(tables.len(), Dialect::ALL.len(), "{tables:?}");
    assert!(tables.iter().all(|table| list.contains(table)), "{tables:?}");
}

#[test]
fn each_family_is_one_run_of_the_list() {
    let mut families: Vec<_> = Dialect::ALL.iter().map(|dialect| dialect.family).collect();
    families.dedup();
    assert_eq!(families, [Family::Mcp, Family::Acp, Family::Lsp], "a revision is compared with the one before it");
}
