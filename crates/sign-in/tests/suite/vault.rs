//! What is kept, and from whom.

use std::fs;

use rescind_sign_in::Settings;

use crate::rig::{Rig, here, refused};

/// The one file with a sign-in.
fn file(rig: &Rig) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(rig.vault()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[tokio::test]
async fn profiles_are_kept_apart() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let other = rig.another(Settings { profile: "other".into(), ..Settings::default() });
        assert!(other.record().unwrap().is_none());
        assert_eq!(other.token().await, None);
    })
    .await;
}

#[tokio::test]
async fn a_file_that_was_damaged_is_no_sign_in() {
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let file = file(&rig);
        let whole = fs::read(&file).unwrap();
        for damaged in [&b""[..], b"{}", b"\xff", &whole[..whole.len() / 2]] {
            fs::write(&file, damaged).unwrap();
            rig.assert_nothing_kept();
        }
        rig.signed_in().await;
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn what_others_could_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    here(async {
        let mut rig = Rig::new();
        rig.signed_in().await;
        let file = file(&rig);
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&rig.vault())), (0o600, 0o700));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = rig.sign_in.renew(&refused("access-2")).await.unwrap_err().to_string();
        assert!(error.contains("is not its owner's alone"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(rig.vault(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = rig.sign_in.renew(&refused("access-2")).await.unwrap_err().to_string();
        assert!(error.contains("is not its owner's alone"), "{error}");
    })
    .await;
}

/// Nothing but the file has them.
#[tokio::test]
async fn nothing_secret_is_shown() {
    here(async {
        let mut rig = Rig::new();
        let record = rig.signed_in().await;
        let shown = format!("{record:?} {:?}", rig.sign_in);
        assert!(shown.contains("as.test") && !shown.contains("access-") && !shown.contains("refresh-"), "{shown}");
        let text = fs::read_to_string(file(&rig)).unwrap();
        assert!(text.contains("access-2") && text.contains("refresh-2"));
    })
    .await;
}
