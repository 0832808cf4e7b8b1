//! The figures of a run: tables, ratios, and what is promised.

use std::fmt;

use rescind_bench::floor::{Standing, Verdict};
use rescind_bench::machine::Machine;
use serde::Serialize;

use crate::cell::{Outcome, Task};
use crate::contender::Contender;
use crate::plan::{CANCEL_SETTINGS, Part, Plan, SETTINGS, SMALL, WINDOWS};
use crate::samples::{Figure, Samples};

/// A whole run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) is_quick: bool,
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    /// Empty unless what promises took part.
    pub(crate) promises: Vec<Verdict>,
    pub(crate) samples: Samples,
    #[serde(skip)]
    pub(crate) plan: Plan,
    #[serde(skip)]
    pub(crate) parts: Vec<Part>,
    #[serde(skip)]
    pub(crate) contenders: Vec<Contender>,
}

impl Report {
    /// Whether a floor was missed.
    pub(crate) fn is_found_wanting(&self) -> bool {
        self.promises.iter().any(|promise| promise.standing == Standing::Below)
    }

    fn throughput(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\nEcho of a tools/call: µs per round trip / thousands a second with 64 / with 1024 outstanding"
        )?;
        let columns = SETTINGS.map(|(wire, threads)| format!("{}, {}", wire.name(), threads.name()));
        header(out, &columns)?;
        for &contender in self.contenders.iter().filter(|one| !one.echoes_as_another()) {
            let cells = SETTINGS.map(|setting| {
                WINDOWS.map(|window| {
                    let (figure, unit, digits) =
                        if window == 1 { (Figure::RoundTrip, 1.0, 1) } else { (Figure::PerSecond, 1e3, 0) };
                    self.cell(contender, self.plan.echoes(setting, window), figure, unit, digits)
                })
            });
            row(out, contender, &cells.map(|cell| cell.join(" / ")))?;
        }
        writeln!(out, "\nThe same, times L1's")?;
        header(out, &columns)?;
        for &contender in self.contenders.iter().filter(|one| !one.echoes_as_another()) {
            let cells = SETTINGS.map(|setting| {
                WINDOWS.map(|window| {
                    let figure = if window == 1 { Figure::RoundTrip } else { Figure::PerSecond };
                    let task = self.plan.echoes(setting, window);
                    or_dash(self.samples.ratio(contender, Contender::L1, task, figure), 2)
                })
            });
            row(out, contender, &cells.map(|cell| cell.join(" / ")))?;
        }
        self.wraps(out, "times the same library's without one", &columns, |contender, base| {
            SETTINGS.map(|setting| {
                let ratios = WINDOWS.map(|window| {
                    let figure = if window == 1 { Figure::RoundTrip } else { Figure::PerSecond };
                    let task = self.plan.echoes(setting, window);
                    or_dash(self.samples.ratio(contender, base, task, figure), 2)
                });
                ratios.join(" / ")
            })
        })
    }

    /// What a wrap adds to each library that takes part with and without one.
    fn wraps<const N: usize>(
        &self,
        out: &mut fmt::Formatter<'_>,
        title: &str,
        columns: &[String],
        cells: impl Fn(Contender, Contender) -> [String; N],
    ) -> fmt::Result {
        let measured = |one: &&Contender| one.unwrapped().is_some_and(|base| self.contenders.contains(&base));
        let mut titled = false;
        for &contender in self.contenders.iter().filter(measured) {
            let cells = contender.unwrapped().map(|base| cells(contender, base));
            let Some(cells) = cells.filter(|cells| cells.iter().any(|cell| cell.contains('.'))) else { continue };
            if !std::mem::replace(&mut titled, true) {
                writeln!(out, "\nWith a wrap, {title}")?;
                header(out, columns)?;
            }
            row(out, contender, &cells)?;
        }
        Ok(())
    }

    fn cancels(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nFrom the caller's cancel to the handler, Unix socket: µs p50/p99")?;
        let columns = CANCEL_SETTINGS
            .map(|(threads, is_busy)| format!("{}, {}", threads.name(), if is_busy { "64 busy" } else { "idle" }));
        header(out, &columns)?;
        for &contender in self.contenders.iter().filter(|one| one.has_calls()) {
            let cells = CANCEL_SETTINGS.map(|setting| {
                let task = self.plan.cancels(setting);
                let lost: f64 = self.samples.median(contender, task, Figure::Lost).unwrap_or_default();
                let lost = if lost > 0.0 { format!(", {lost:.0} lost") } else { String::new() };
                [Figure::CancelP50, Figure::CancelP99]
                    .map(|figure| self.cell(contender, task, figure, 1.0, 1))
                    .join("/")
                    + &lost
            });
            row(out, contender, &cells)?;
        }
        self.wraps(out, "times the same library's without one: p50/p99", &columns, |contender, base| {
            CANCEL_SETTINGS.map(|setting| {
                let task = self.plan.cancels(setting);
                let ratio = |figure| or_dash(self.samples.ratio(contender, base, task, figure), 2);
                [Figure::CancelP50, Figure::CancelP99].map(ratio).join("/")
            })
        })
    }

    fn scale(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &requests in &self.plan.scales {
            let task = Task::Scale { requests };
            writeln!(out, "\n{requests} waiting requests, Unix socket, one thread: each")?;
            let columns = ["bytes resident", "µs to cancel all (× L2)", "µs to drain all (× L2)", "cancels lost"];
            header(out, &columns.map(str::to_owned))?;
            for &contender in self.contenders.iter().filter(|one| one.has_calls()) {
                let cell = |figure, digits| self.cell(contender, task, figure, 1.0, digits);
                let compared = |figure| {
                    let ratio = or_dash(self.samples.ratio(contender, Contender::L2, task, figure), 1);
                    format!("{} ({ratio})", cell(figure, 2))
                };
                let cells = [
                    cell(Figure::Bytes, 0),
                    compared(Figure::CancelAll),
                    compared(Figure::DrainAll),
                    cell(Figure::Lost, 0),
                ];
                row(out, contender, &cells)?;
            }
        }
        Ok(())
    }

    fn small_buffers(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nEverything outstanding at once, 4 KiB each way: seconds until all is answered")?;
        header(out, &SMALL.map(|(wire, threads)| format!("{}, {}", wire.name(), threads.name())))?;
        for &contender in self.contenders.iter().filter(|one| !one.echoes_as_another()) {
            let figure = |setting| self.cell(contender, self.plan.small_buffers(setting), Figure::Seconds, 1.0, 2);
            row(out, contender, &SMALL.map(figure))?;
        }
        Ok(())
    }

    fn idle(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nSessions on which nothing happens, Unix socket, one thread")?;
        header(out, &["bytes resident per peer".to_owned()])?;
        for &contender in self.contenders.iter().filter(|one| one.has_calls() && !one.echoes_as_another()) {
            row(out, contender, &[self.cell(contender, self.plan.idle(), Figure::IdleBytes, 1.0, 0)])?;
        }
        Ok(())
    }

    /// The median, or why there is none.
    fn cell(&self, contender: Contender, task: Task, figure: Figure, unit: f64, digits: usize) -> String {
        if let Some(median) = self.samples.median(contender, task, figure) {
            return format!("{:.digits$}", median / unit);
        }
        match self.samples.of(contender, task).next() {
            Some(outcome) if outcome.is_wedged() => "wedged",
            Some(Outcome::Failed(_)) => "failed",
            Some(Outcome::LeftOut) => "too large",
            Some(_) | None => "–",
        }
        .to_owned()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            out,
            "{}, {} CPUs, Linux {}; one thread: on CPU {}; load {:.2} before, {:.2} after",
            machine.cpu, machine.cpus, machine.kernel, machine.pinned_to, machine.load_before, machine.load_after
        )?;
        if self.is_quick {
            writeln!(out, "A smoke run: it proves that all run, its figures mean nothing.")?;
        }
        writeln!(out, "Medians of {} interleaved rounds; both ends in one process.", self.rounds)?;
        for part in &self.parts {
            match part {
                Part::Throughput => self.throughput(out)?,
                Part::Cancels => self.cancels(out)?,
                Part::Scale => self.scale(out)?,
                Part::SmallBuffers => self.small_buffers(out)?,
                Part::Idle => self.idle(out)?,
            }
        }
        for (contender, task, outcome) in self.samples.failures() {
            if let Outcome::Failed(why) = outcome {
                writeln!(out, "\n{} failed in {task:?}: {why}", contender.name())?;
            }
        }
        if !self.promises.is_empty() {
            writeln!(out, "\nPromises of the library:")?;
        }
        for promise in &self.promises {
            writeln!(out, "{}", promise.line())?;
        }
        Ok(())
    }
}

fn header(out: &mut fmt::Formatter<'_>, columns: &[String]) -> fmt::Result {
    write!(out, "{:<30}", "")?;
    for column in columns {
        write!(out, " {column:>28}")?;
    }
    writeln!(out)
}

fn row(out: &mut fmt::Formatter<'_>, contender: Contender, cells: &[String]) -> fmt::Result {
    write!(out, "{:<30}", contender.name())?;
    for cell in cells {
        write!(out, " {cell:>28}")?;
    }
    writeln!(out)
}

fn or_dash(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
}
