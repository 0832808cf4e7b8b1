//! Many shims, asked at once.

use tokio::task::JoinSet;

use super::Shim;

/// How many shims are asked at a time.
const AT_A_TIME: usize = 32;

/// Asks each of `shims`, at most 32 at a time, and gives the answers in their order.
///
/// Each may take as long as `ask` lets it. Dropped, it asks no more.
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
