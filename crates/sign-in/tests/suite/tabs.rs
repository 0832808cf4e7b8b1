//! One page for one question: however many requests and processes want the same sign-in, and however often it is refused.

use std::{sync::Arc, time::Duration};

use rescind_sign_in::{Refused, Settings, SignIn, SignInError};
use serde_json::json;
use tokio::{
    task::{spawn_local, yield_now},
    time,
};

use crate::{
    rig::{Rig, advance, here, insufficient, refused},
    script::{Answer, TOKEN},
};

/// Three processes that want the same sign-in.
fn three(rig: &Rig) -> [SignIn; 3] {
    [rig.sign_in.clone(), rig.another(Settings::default()), rig.another(Settings::default())]
}

/// A request that a server refuses whatever token it has, sent again as the transport does; and the pages that the person
/// agrees to meanwhile.
async fn refused_for_ever(rig: &mut Rig, sign_in: &SignIn, scope: Option<&str>) -> (SignInError, usize) {
    let sign_in = sign_in.clone();
    let scope = scope.map(ToOwned::to_owned);
    let sent = spawn_local(async move {
        for attempt in 0.. {
            let token = sign_in.token().await;
            let like = scope.as_ref().map_or_else(|| refused(""), |scope| insufficient("", scope));
            if let Err(error) = sign_in.renew(&Refused { token, attempt, ..like }).await {
                return error;
            }
        }
        unreachable!()
    });
    let mut pages = 0;
    while !sent.is_finished() {
        yield_now().await;
        if let Some(page) = rig.asked_for() {
            pages += 1;
            page.agree(&rig.script).await;
        }
    }
    (sent.await.unwrap(), pages)
}

#[tokio::test]
async fn one_answer_serves_every_process_that_waits_for_it() {
    here(async {
        let mut rig = Rig::new();
        let waiting = three(&rig).map(|sign_in| (rig.wanting(&sign_in), sign_in));
        let page = rig.page().await;
        page.agree(&rig.script).await;
        for (waiting, sign_in) in waiting {
            waiting.await.unwrap().unwrap();
            assert_eq!(sign_in.token().await.unwrap().expose(), "access-2");
        }
        assert!(!rig.was_asked(), "one page is opened for all");
    })
    .await;
}

/// The person may sign in by another way than the page that was opened.
#[tokio::test]
async fn what_login_keeps_serves_a_process_that_waits_for_a_page() {
    here(async {
        let mut rig = Rig::new();
        let waiting = rig.wanting(&rig.sign_in);
        let page = rig.page().await;
        let login = Arc::new(rig.another(Settings::default()));
        let begun = spawn_local(async move { login.sign_in().await });
        rig.page().await.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        waiting.await.unwrap().unwrap();
        assert!(!page.is_open().await, "nobody waits for its page any more");
        assert!(!rig.sign_in.is_asking());
    })
    .await;
}

/// A token that another process has renewed says nothing of the scope that the person is asked for.
#[tokio::test]
async fn only_an_answer_to_the_question_ends_the_wait_for_it() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let sign_in = rig.sign_in.clone();
        let wanting = spawn_local(async move { sign_in.renew(&insufficient("access-2", "write")).await });
        let page = rig.page().await;
        let other = rig.another(Settings::default());
        other.renew(&refused("access-2")).await.unwrap();
        // Whoever watches looks several times.
        time::pause();
        for _ in 0..10 {
            time::advance(Duration::from_millis(250)).await;
        }
        time::resume();
        assert!(page.is_open().await && !wanting.is_finished());
        page.agree(&rig.script).await;
        wanting.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_person_who_says_no_says_it_to_every_process_that_waits() {
    here(async {
        let mut rig = Rig::new();
        let waiting = three(&rig).map(|sign_in| rig.wanting(&sign_in));
        let page = rig.page().await;
        page.back_with("error=access_denied").await;
        for waiting in waiting {
            let error = waiting.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("access was denied"), "{error}");
        }
        assert!(!rig.was_asked(), "he has said no");
        // To a process that asks afterwards he has not.
        let later = rig.another(Settings::default());
        let waiting = rig.wanting(&later);
        rig.page().await.agree(&rig.script).await;
        waiting.await.unwrap().unwrap();
    })
    .await;
}

/// Its client has gone away, or it was killed.
#[tokio::test]
async fn another_process_asks_in_place_of_one_that_has_given_up() {
    here(async {
        let mut rig = Rig::new();
        let [one, other, _] = three(&rig);
        let first = rig.wanting(&one);
        let page = rig.page().await;
        let second = rig.wanting(&other);
        while !other.is_asking() {
            yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let next = rig.page().await;
        assert!(!page.is_open().await);
        next.agree(&rig.script).await;
        second.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_every_token_has_the_person_asked_once() {
    here(async {
        for (has_refresh, scope) in [(true, None), (false, None), (true, Some("write"))] {
            let mut rig = Rig::new();
            if !has_refresh {
                rig.script.answer(TOKEN, Answer::Json(200, json!({"access_token": "a", "token_type": "Bearer"})));
            }
            let mut pages = 0;
            for request in 0..10 {
                let sign_in = rig.sign_in.clone();
                let (error, asked) = refused_for_ever(&mut rig, &sign_in, scope).await;
                pages += asked;
                let words = error.to_string();
                assert!(words.contains("refuses the token that was just given"), "{request}: {words}");
                assert!(words.contains("within the hour"), "{request}: {words}");
            }
            assert_eq!(pages, 1, "{has_refresh} {scope:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_every_token_has_the_person_asked_once_for_all_processes() {
    here(async {
        let mut rig = Rig::new();
        let mut pages = 0;
        let all = three(&rig);
        let waiting = all.clone().map(|sign_in| rig.wanting(&sign_in));
        rig.page().await.agree(&rig.script).await;
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        for sign_in in all {
            for _ in 0..10 {
                let (error, asked) = refused_for_ever(&mut rig, &sign_in, None).await;
                assert!(matches!(error, SignInError::StillRefused), "{error}");
                pages += asked;
            }
        }
        assert_eq!(pages, 0);
    })
    .await;
}

/// An hour later, or after `rescind login`.
#[tokio::test]
async fn a_refused_token_is_not_held_against_its_server_for_ever() {
    here(async {
        let mut rig = Rig::new();
        let sign_in = rig.sign_in.clone();
        assert_eq!(refused_for_ever(&mut rig, &sign_in, None).await.1, 1);
        advance(59 * 60);
        assert_eq!(refused_for_ever(&mut rig, &sign_in, None).await.1, 0);
        advance(60);
        assert_eq!(refused_for_ever(&mut rig, &sign_in, None).await.1, 1);
        let elsewhere = rig.another(Settings::default());
        let begun = spawn_local(async move { elsewhere.sign_in().await });
        rig.page().await.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        // Its token is used, and can be asked for again when it has served its time.
        let old = Refused { token: None, ..refused("") };
        rig.sign_in.renew(&old).await.unwrap();
        advance(3600);
        rig.script.revoke_all();
        let token = rig.sign_in.token().await;
        let sign_in = rig.sign_in.clone();
        let renewed = spawn_local(async move { sign_in.renew(&Refused { token, ..refused("") }).await });
        rig.page().await.agree(&rig.script).await;
        renewed.await.unwrap().unwrap();
    })
    .await;
}
