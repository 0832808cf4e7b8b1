//! Questions of a task and the client's answers, from whatever process.

use rescind_tasks::{Owner, Status, TaskDialect, TaskError, TaskOutcome};

use super::rig::{DIALECTS, json, on_every_store, result};

#[test]
fn the_work_wakes_when_its_question_is_answered_elsewhere() {
    on_every_store(async |rig| {
        let mut run = rig.begin(TaskDialect::Extension).await;
        let id = run.task().summary.id.clone();
        run.ask_input(None, vec![("a".to_owned(), json("1")), ("b".to_owned(), json("2"))]).await.unwrap();
        let work = tokio::spawn(async move {
            while run.task().summary.status == Status::InputRequired {
                run.changed().await.unwrap();
            }
            let inputs = run.task().inputs.clone();
            run.finish(result(), None).await.unwrap();
            inputs
        });
        let elsewhere = rig.elsewhere();
        let task = elsewhere.answer(&Owner::NONE, &id, vec![("b".to_owned(), json(r#"{"yes":true}"#))]).await.unwrap();
        assert_eq!(task.summary.status, Status::InputRequired);
        assert_eq!(task.inputs.pending().collect::<Vec<_>>(), [("a", &json("1"))]);
        let rest =
            vec![("a".to_owned(), json("3")), ("b".to_owned(), json("\"too late\"")), ("c".to_owned(), json("4"))];
        let task = elsewhere.answer(&Owner::NONE, &id, rest).await.unwrap();
        assert_eq!(task.summary.status, Status::Working);
        let inputs = work.await.unwrap();
        assert_eq!(inputs.response("a"), Some(&json("3")));
        assert_eq!(inputs.response("b"), Some(&json(r#"{"yes":true}"#)), "the first answer stands");
        assert_eq!(inputs.response("c"), None);
    });
}

#[test]
fn answers_without_a_question_change_nothing() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let mut run = rig.begin(dialect).await;
            let id = run.task().summary.id.clone();
            let answers = || vec![("a".to_owned(), json("1"))];
            let task = rig.store.answer(&Owner::NONE, &id, answers()).await.unwrap();
            assert_eq!(task, *run.task());
            run.finish(TaskOutcome::Error(json("{}")), None).await.unwrap();
            let ended = rig.store.answer(&Owner::NONE, &id, answers()).await;
            assert!(matches!(ended, Err(TaskError::Ended { status: Status::Failed })));
        }
    });
}
