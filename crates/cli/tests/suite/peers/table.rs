//! Two runs side by side.

use serde_json::Value;

use super::story::Story;

const LABEL: usize = 20;
const COLUMN: usize = 52;

/// What caller and work saw, without the shim and through it, one row a call or piece of work.
pub(crate) fn table(title: &str, direct: &Story, shim: &Story) -> String {
    let mut text = format!("\n{title}\n");
    row(&mut text, "", "without the shim", "through the shim");
    for call in union(direct.calls(), &shim.calls()) {
        let cell = |story: &Story| story.outcomes(call).join("; then ");
        row(&mut text, call, &cell(direct), &cell(shim));
    }
    let ids = |story: &Story| story.hits().into_iter().map(|(id, _)| id.clone()).collect();
    for id in union::<Value>(ids(direct), &ids(shim)) {
        let cell = |story: &Story| hit(story, &id);
        row(&mut text, &format!("cancel {id}"), &cell(direct), &cell(shim));
    }
    let answers = |story: &Story| {
        let words = story.answers().into_iter().map(|(id, code)| format!("{id}: {code}"));
        words.collect::<Vec<_>>().join(", ")
    };
    row(&mut text, "answers", &answers(direct), &answers(shim));
    for work in union(direct.works(), &shim.works()) {
        let cell = |story: &Story| marks(story, work);
        row(&mut text, &format!("work {work}"), &cell(direct), &cell(shim));
    }
    let permissions = |story: &Story| story.permissions().join(", ");
    row(&mut text, "permission", &permissions(direct), &permissions(shim));
    let receipts = |story: &Story| story.recording().outcomes().join(", ");
    row(&mut text, "receipts", &receipts(direct), &receipts(shim));
    let running = |story: &Story| story.running().join(", ");
    row(&mut text, "runs on", &running(direct), &running(shim));
    let stray = |story: &Story| match story.callbacks().as_slice() {
        [] => String::new(),
        [first, rest @ ..] => format!("{}: {first}", rest.len() + 1),
    };
    row(&mut text, "stray messages", &stray(direct), &stray(shim));
    let missed = |story: &Story| story.missed().join(", ");
    row(&mut text, "never came", &missed(direct), &missed(shim));
    let exit = |story: &Story| story.exit().unwrap_or_default();
    row(&mut text, "server's exit", &exit(direct), &exit(shim));
    text
}

/// A row with nothing to say on either side is left out.
fn row(text: &mut String, label: &str, direct: &str, shim: &str) {
    if label.is_empty() || !direct.is_empty() || !shim.is_empty() {
        let [direct, shim] = [direct, shim].map(|cell| match cell {
            "" => "-".to_owned(),
            cell if cell.chars().count() > COLUMN => {
                let short: String = cell.chars().take(COLUMN - 1).collect();
                format!("{short}…")
            }
            cell => cell.to_owned(),
        });
        text.push_str(&format!("  {label:LABEL$}{direct:COLUMN$}  {shim}\n"));
    }
}

fn union<T: Clone + PartialEq>(mut first: Vec<T>, second: &[T]) -> Vec<T> {
    for item in second {
        if !first.contains(item) {
            first.push(item.clone());
        }
    }
    first
}

fn hit(story: &Story, id: &Value) -> String {
    let hit = story.hits().into_iter().find(|(cancelled, _)| *cancelled == id);
    hit.map(|(_, stopped)| format!("stopped {stopped}")).unwrap_or_default()
}

fn marks(story: &Story, work: &str) -> String {
    let mut words: Vec<String> = story.events(work).into_iter().map(str::to_owned).collect();
    if story.ticks(work) > 0 {
        words.insert(1, format!("{} ticks", story.ticks(work)));
    }
    if let Some(reason) = story.reason(work) {
        words.push(format!("({reason})"));
    }
    words.join(", ")
}
