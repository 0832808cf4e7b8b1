//! What the library promises, relative to the other contenders in the same
//! run.

use rescind_bench::floor::{Promise, Verdict};

use crate::cell::{Task, Threads};
use crate::contender::Contender;
use crate::plan::{Plan, SETTINGS};
use crate::samples::{Figure, Samples};
use crate::wire::Wire;

/// Judges `ours` by what was measured; a promise of something that was not measured is left out.
pub(crate) fn judge(ours: Contender, samples: &Samples, plan: &Plan) -> Vec<Verdict> {
    let smallest = plan.scales.iter().min().map(|&requests| Task::Scale { requests });
    let largest = plan.scales.iter().max().map(|&requests| Task::Scale { requests });
    let scale = |task: Option<Task>, figure| samples.median(ours, task?, figure);
    let beside_l2 = |figure| samples.ratio(ours, Contender::L2, largest?, figure);
    let trip = plan.echoes((Wire::Unix, Threads::One), 1);
    let wedged = samples.failures().filter(|(contender, ..)| *contender == ours).count();
    let mut verdicts: Vec<Verdict> = [
        (Promise::at_least("one thread: requests/s, times L1's", 0.2, 0.4), slowest(ours, samples, plan, Threads::One)),
        (
            Promise::at_least("two workers: requests/s, times L1's", 0.12, 0.25),
            slowest(ours, samples, plan, Threads::Two),
        ),
        (
            Promise::at_most("one outstanding: round trip, times L1's", 2.0, 1.5),
            samples.ratio(ours, Contender::L1, trip, Figure::RoundTrip),
        ),
        (Promise::at_most("resident bytes per waiting request", 1200.0, 600.0), scale(smallest, Figure::Bytes)),
        (
            Promise::at_most("resident bytes per idle peer", 8192.0, 4096.0),
            samples.median(ours, plan.idle(), Figure::IdleBytes),
        ),
        // 2 µs and 0.9 µs, where L2 cancels at 1.0: machines differ by more than that.
        (Promise::at_most("most waiting: to cancel all, times L2's", 2.0, 0.9), beside_l2(Figure::CancelAll)),
        (Promise::at_most("most waiting: to drain all, times L2's", 2.0, 0.9), beside_l2(Figure::DrainAll)),
        (Promise::at_most("cancels lost", 0.0, 0.0), samples.most(ours, Figure::Lost)),
        (Promise::at_most("sessions wedged or failed", 0.0, 0.0), Some(wedged as f64)),
    ]
    .into_iter()
    .filter_map(|(promise, measured)| Some(promise.judge(measured?)))
    .collect();
    verdicts.extend(cancels(ours, samples, plan));
    verdicts
}

/// The worst ratio to L1 with many outstanding.
fn slowest(ours: Contender, samples: &Samples, plan: &Plan, threads: Threads) -> Option<f64> {
    let settings = SETTINGS.into_iter().filter(|setting| setting.1 == threads);
    let tasks = settings.flat_map(|setting| [64, 1024].map(|window| plan.echoes(setting, window)));
    let ratios = tasks.map(|task| samples.ratio(ours, Contender::L1, task, Figure::PerSecond));
    // One that wedged has no ratio, and is counted apart.
    ratios.flatten().reduce(f64::min)
}

/// The medians relative to tarpc's. Idle, the goal is L2's, which is a ratio to tarpc's of the same run too.
fn cancels(ours: Contender, samples: &Samples, plan: &Plan) -> Vec<Verdict> {
    let ratio =
        |contender, setting| samples.ratio(contender, Contender::Tarpc, plan.cancels(setting), Figure::CancelP50);
    let idle = |name, threads| {
        let promise = Promise::at_most(name, 1.0, ratio(Contender::L2, (threads, false))?);
        Some(promise.judge(ratio(ours, (threads, false))?))
    };
    let busy = |name, threads| Some(Promise::at_most(name, 0.5, 0.2).judge(ratio(ours, (threads, true))?));
    [
        idle("one thread, idle: cancel, times tarpc's", Threads::One),
        idle("two workers, idle: cancel, times tarpc's", Threads::Two),
        busy("one thread, 64 busy: cancel, times tarpc's", Threads::One),
        busy("two workers, 64 busy: cancel, times tarpc's", Threads::Two),
    ]
    .into_iter()
    .flatten()
    .collect()
}
