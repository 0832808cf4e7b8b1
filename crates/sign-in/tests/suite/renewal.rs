//! Tokens that expire, are refused, or may do too little.

use std::sync::Arc;

use rescind_sign_in::{Effort, Refused, Settings, SignInError};
use serde_json::json;
use tokio::task::{spawn_local, yield_now};

use crate::{
    rig::{Rig, advance, here, insufficient, refused},
    script::{Answer, REGISTER, REVOKE, TOKEN},
};

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        assert_eq!(rig.token().await.as_deref(), Some("access-2"));
        advance(3600 - 30);
        assert_eq!(rig.token().await.as_deref(), Some("access-3"));
        assert_eq!(rig.script.asked(TOKEN)[1].value("refresh_token").as_deref(), Some("refresh-2"));
        // The next one is used the next time.
        advance(3600);
        assert_eq!(rig.token().await.as_deref(), Some("access-4"));
        assert_eq!(rig.script.asked(TOKEN)[2].value("refresh_token").as_deref(), Some("refresh-3"));
        assert!(!rig.was_asked());
    })
    .await;
}

#[tokio::test]
async fn however_many_are_refused_one_token_is_asked_for() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let sign_in = rig.sign_in.clone();
                spawn_local(async move { sign_in.renew(&refused("access-2")).await })
            })
            .collect();
        for one in waiting {
            one.await.unwrap().unwrap();
        }
        assert_eq!(rig.script.asked(TOKEN).len(), 2);
        assert_eq!(rig.token().await.as_deref(), Some("access-3"));
    })
    .await;
}

/// The old refresh token is void as soon as it was used: two that use it at once would both be signed out.
#[tokio::test]
async fn two_processes_that_renew_at_once_lose_nothing() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let (one, other) = (rig.another(Settings::default()), rig.another(Settings::default()));
        let refused = refused("access-2");
        let (first, second) = tokio::join!(one.renew(&refused), other.renew(&refused));
        first.unwrap();
        second.unwrap();
        assert_eq!(rig.script.asked(TOKEN).len(), 2, "the second has found what the first was given");
        for sign_in in [one, other] {
            assert_eq!(sign_in.token().await.unwrap().expose(), "access-3");
        }
    })
    .await;
}

#[tokio::test]
async fn a_sign_in_that_was_revoked_leads_to_another() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        rig.script.revoke_all();
        let sign_in = rig.sign_in.clone();
        let renewed = spawn_local(async move { sign_in.renew(&refused("access-2")).await });
        let page = rig.page().await;
        page.agree(&rig.script).await;
        renewed.await.unwrap().unwrap();
        assert_eq!(rig.token().await.as_deref(), Some("access-4"));
        // Its client is the same, and comes back to the same port.
        assert_eq!(rig.script.asked(REGISTER).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_was_forgotten_is_registered_anew() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        rig.script.forget_clients();
        let sign_in = rig.sign_in.clone();
        let renewed = spawn_local(async move { sign_in.renew(&refused("access-2")).await });
        rig.page().await.agree(&rig.script).await;
        renewed.await.unwrap().unwrap();
        assert_eq!(rig.script.asked(REGISTER).len(), 2);
    })
    .await;
}

/// The person has agreed already when that comes out; he is asked once more, with a client that is known.
#[tokio::test]
async fn a_client_that_is_forgotten_during_a_sign_in_is_registered_anew() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        // What is refused now was not just given.
        advance(10 * 60);
        let sign_in = rig.another(Settings::default());
        let renewed = spawn_local(async move { sign_in.renew(&insufficient("access-2", "read")).await });
        let page = rig.page().await;
        rig.script.forget_clients();
        page.agree(&rig.script).await;
        rig.page().await.agree(&rig.script).await;
        renewed.await.unwrap().unwrap();
        assert_eq!(rig.script.asked(REGISTER).len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_away_ends_no_sign_in() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        rig.script.answer(TOKEN, Answer::Json(503, json!({})));
        let error = rig.sign_in.renew(&refused("access-2")).await.unwrap_err();
        assert!(matches!(error, SignInError::Http { .. }), "{error}");
        assert!(!rig.was_asked());
        assert!(rig.sign_in.record().unwrap().unwrap().can_be_renewed());
    })
    .await;
}

#[tokio::test]
async fn more_scopes_are_asked_for_beside_those_that_there_are() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let sign_in = rig.sign_in.clone();
        let renewed = spawn_local(async move { sign_in.renew(&insufficient("access-2", "write")).await });
        let page = rig.page().await;
        assert_eq!(page.value("scope").as_deref(), Some("read write"));
        page.agree(&rig.script).await;
        renewed.await.unwrap().unwrap();
        assert_eq!(rig.script.asked(TOKEN).len(), 2, "no token was renewed in vain");
        // The client may ask for that from now on.
        assert!(rig.script.asked(REGISTER).pop().unwrap().body.contains("read write"));
    })
    .await;
}

/// Otherwise a server could have the person asked for ever.
#[tokio::test]
async fn a_server_that_is_never_content_is_given_up() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        for attempt in 0..3 {
            let sign_in = rig.sign_in.clone();
            let token = rig.token().await.unwrap();
            let wanted = Refused { attempt, ..insufficient(&token, &format!("scope-{attempt}")) };
            let renewed = spawn_local(async move { sign_in.renew(&wanted).await });
            rig.page().await.agree(&rig.script).await;
            renewed.await.unwrap().unwrap();
        }
        let token = rig.token().await.unwrap();
        let wanted = Refused { attempt: 3, ..insufficient(&token, "scope-3") };
        let error = rig.sign_in.renew(&wanted).await.unwrap_err();
        assert!(matches!(error, SignInError::StillRefused), "{error}");

        // A token that was just given, and that does have what is wanted.
        let error = rig.sign_in.renew(&insufficient(&token, "scope-2")).await.unwrap_err();
        assert!(matches!(error, SignInError::StillRefused), "{error}");
        let error = rig.sign_in.renew(&Refused { attempt: 1, ..refused(&token) }).await.unwrap_err();
        assert!(matches!(error, SignInError::StillRefused), "{error}");
    })
    .await;
}

/// Each of them is another one than the last.
#[tokio::test]
async fn tokens_that_expire_at_once_and_are_refused_have_nobody_asked_for_ever() {
    here(async {
        let mut rig = Rig::new();
        let token = |n: u32| json!({"access_token": format!("t-{n}"), "token_type": "Bearer", "expires_in": 0, "refresh_token": "r"});
        rig.script.answer(TOKEN, Answer::Json(200, token(0)));
        let mut asked = 0;
        for attempt in 0.. {
            rig.script.answer(TOKEN, Answer::Json(200, token(attempt)));
            let used = rig.sign_in.token().await;
            let sign_in = rig.sign_in.clone();
            let refused = Refused { token: used, attempt, ..refused("") };
            let renewed = spawn_local(async move { sign_in.renew(&refused).await });
            while !renewed.is_finished() {
                yield_now().await;
                if let Some(page) = rig.asked_for() {
                    asked += 1;
                    page.agree(&rig.script).await;
                }
            }
            if let Err(error) = renewed.await.unwrap() {
                assert!(matches!(error, SignInError::StillRefused), "{error}");
                break;
            }
        }
        assert_eq!(asked, 1);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_asked_for_what_nobody_waits_for_nor_twice_in_vain() {
    here(async {
        let mut rig = Rig::new();
        let quiet = Refused { token: None, effort: Effort::Quiet, ..refused("") };
        assert!(matches!(rig.sign_in.renew(&quiet).await.unwrap_err(), SignInError::Nobody));
        assert!(matches!(rig.alone().renew(&refused("")).await.unwrap_err(), SignInError::Nobody));
        assert!(!rig.was_asked());

        let sign_in = rig.sign_in.clone();
        let renewed = spawn_local(async move { sign_in.renew(&refused("")).await });
        rig.page().await.back_with("error=access_denied").await;
        assert!(matches!(renewed.await.unwrap().unwrap_err(), SignInError::Denied));
        assert!(matches!(rig.sign_in.renew(&refused("")).await.unwrap_err(), SignInError::Denied));
        assert!(!rig.was_asked(), "he has said no");
        // What he does elsewhere is found.
        let elsewhere = Arc::new(rig.another(Settings::default()));
        let begun = spawn_local({
            let elsewhere = Arc::clone(&elsewhere);
            async move { elsewhere.sign_in().await }
        });
        rig.page().await.agree(&rig.script).await;
        begun.await.unwrap().unwrap();
        rig.sign_in.renew(&refused("")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_sign_in_goes_on_for_those_who_still_wait_and_ends_with_the_last() {
    here(async {
        let mut rig = Rig::new();
        let mut waiting: Vec<_> = (0..3)
            .map(|_| {
                let sign_in = rig.sign_in.clone();
                spawn_local(async move { sign_in.renew(&refused("")).await })
            })
            .collect();
        let page = rig.page().await;
        let last = waiting.pop().unwrap();
        for one in waiting {
            one.abort();
            assert!(one.await.unwrap_err().is_cancelled());
        }
        assert!(page.is_open().await && rig.sign_in.is_asking());
        last.abort();
        assert!(last.await.unwrap_err().is_cancelled());
        assert!(!rig.sign_in.is_asking());
        // Its task is dropped when it has its next turn.
        yield_now().await;
        assert!(!page.is_open().await, "nothing listens any more");
        assert_eq!(rig.script.asked(TOKEN).len(), 0);
        rig.assert_nothing_kept();
        assert!(!rig.was_asked(), "there was one page for all");
    })
    .await;
}

/// The old token is void already: nobody could go on with it.
#[tokio::test]
async fn a_renewal_that_nobody_waits_for_is_kept() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let sign_in = rig.sign_in.clone();
        let waiting = spawn_local(async move { sign_in.renew(&refused("access-2")).await });
        while rig.script.asked(TOKEN).len() < 2 {
            yield_now().await;
        }
        waiting.abort();
        while rig.alone().token().await.unwrap().expose() != "access-3" {
            yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn signing_out_makes_the_tokens_void() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let (record, revoked) = rig.sign_in.sign_out().await.unwrap().unwrap();
        assert_eq!(record.client_id(), "client-1");
        revoked.unwrap().unwrap();
        let asked = rig.script.asked(REVOKE);
        let tokens: Vec<_> = asked.iter().map(|asked| asked.value("token").unwrap()).collect();
        assert_eq!(tokens, ["refresh-2", "access-2"]);
        rig.assert_nothing_kept();
        assert!(rig.sign_in.sign_out().await.unwrap().is_none());
        assert_eq!(rig.token().await, None);
    })
    .await;
}
