//! The first act: a person presses Stop in an editor, and the work stops up to three hops away.

mod editor;
#[cfg(test)]
mod example;
mod expectations;

mod receipts;
mod story;
mod timeline;

use std::io;

use crate::paint::{Ink, Paint, wrapped};
pub(crate) use story::Story;

pub(crate) fn play() -> io::Result<Story> {
    let (seen, played) = editor::play()?;
    let mut story = Story::new(&seen);
    story.unexpected = match played {
        Ok(()) => expectations::of_turn(&story),
        // What else is missing follows from it.
        Err(error) => vec![error.to_string()],
    };
    story.unexpected.extend(expectations::of_session(&story, &seen));
    Ok(story)
}

pub(crate) fn picture(story: &Story, paint: Paint) -> String {
    let arrow = paint.glyphs.arrow;
    let parts = format!("an editor {arrow} an agent {arrow} a tool server {arrow} a process");
    let spoken = format!(" (ACP v1, MCP {})\n\n", story.mcp);
    let mut text = paint.text(Ink::Name, parts) + &spoken;
    text += &timeline::draw(story, paint);
    text += "\n";
    text += &receipts::write(story, paint);
    text += "\n";
    if story.unexpected.is_empty() {
        let summary = "All as expected: one Stop ended all six, the session continues, and no process is left.";
        text + &format!("  {}\n", wrapped(summary, 2, paint.width))
    } else {
        text + &crate::failures(&story.unexpected, paint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::TERMINATION;

    #[test]
    fn an_act_that_went_as_expected_is_drawn_as_in_the_example() {
        let example = include_str!("stop/example.txt").replace("SIGTERM", TERMINATION);
        assert_eq!(picture(&example::story(), Paint::PLAIN), example);
    }

    #[test]
    fn what_was_not_expected_is_listed() {
        let mut story = example::story();
        story.unexpected.push("make: the work must stop".to_owned());
        let text = picture(&story, Paint::PLAIN);
        assert!(text.ends_with("  not as expected\n  - make: the work must stop\n"), "{text}");
    }

    #[test]
    fn an_answer_that_came_before_a_cancel_says_who_gave_it() {
        let mut story = example::story();
        let permission = story.rows.iter_mut().find(|row| row.name() == "permission").unwrap();
        permission.cancels.clear();
        permission.receipt.as_mut().unwrap().outcome = "completed_first".to_owned();
        let text = picture(&story, Paint::PLAIN);
        let line = "  permission   answered by the editor with outcome \"cancelled\" before a cancel was sent.\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in [80, 88, 96] {
            let text = picture(&example::story(), Paint { width, ..Paint::PLAIN });
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
        }
    }

    #[test]
    fn a_turn_that_never_began_can_be_drawn() {
        let text = picture(&Story::new(&editor::Seen::default()), Paint::PLAIN);
        assert!(text.contains("prompt"), "{text}");
    }
}
