//! Asks many shims at once.

use tokio::task::JoinSet;

use super::Shim;

/// How many shims are asked at once.
const AT_A_TIME: usize = 32;

/// Asks each of `shims`, at most 32 at once, and returns the answers in the order of `shims`.
///
/// `ask` limits the time of each. Dropping the future stops asking.
pub async fn ask_all<T, F>(shims: Vec<Shim>, ask: impl Fn(Shim) -> F) -> Vec<(Shim, T)>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut asked, mut answers) = (JoinSet::new(), Vec::new());
    let mut waiting = shims.into_iter().enumerate();
    loop {
        while asked.len() < AT_A_TIME
            && let Some((place, shim)) = waiting.next()
        {
            let answer = ask(shim.clone());
            asked.spawn(async move { (place, (shim, answer.await)) });
        }
        match asked.join_next().await {
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(_)) => {}
            None => break,
        }
    }
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
