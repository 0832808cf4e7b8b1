//! What was seen of every SDK, checked against what is known of it, and printed as one table.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    sync::{Mutex, PoisonError},
};

use super::sdk::Sdk;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Server,
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Behaviour {
    OurCancel,
    OurTimeout,
    TheirLateAnswer,
    TheirQuestionFalls,
    TheirWithdrawal,
    OurTurn,
    Ids,
    TheirCancel,
    TheirTimeout,
    OurLateAnswer,
    OurQuestionFalls,
    OurWithdrawal,
    TheirTurn,
}

impl Behaviour {
    const ALL: [Self; 13] = [
        Self::OurCancel,
        Self::OurTimeout,
        Self::TheirLateAnswer,
        Self::TheirQuestionFalls,
        Self::TheirWithdrawal,
        Self::OurTurn,
        Self::Ids,
        Self::TheirCancel,
        Self::TheirTimeout,
        Self::OurLateAnswer,
        Self::OurQuestionFalls,
        Self::OurWithdrawal,
        Self::TheirTurn,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::OurCancel => "server: our cancel stops its work",
            Self::OurTimeout => "server: our timeout stops its work",
            Self::TheirLateAnswer => "server: its late answer harms nobody",
            Self::TheirQuestionFalls => "server: its question falls with our call",
            Self::TheirWithdrawal => "server: its cancel of a question stops us",
            Self::OurTurn => "server: its question falls with our turn",
            Self::Ids => "server: 0, 5 and \"5\" are three ids",
            Self::TheirCancel => "client: its cancel stops our work",
            Self::TheirTimeout => "client: its timeout stops our work",
            Self::OurLateAnswer => "client: our late answer harms nobody",
            Self::OurQuestionFalls => "client: our question falls with its call",
            Self::OurWithdrawal => "client: our cancel of a question stops it",
            Self::TheirTurn => "client: our question falls with its turn",
        }
    }
}

/// What was seen of a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Ok,
    /// What the SDK does instead.
    Fault(&'static str),
    /// The SDK offers no way to do it.
    Cannot,
}

type Everything = BTreeMap<(Behaviour, Sdk), Seen>;

/// What was seen of one SDK in one role; dropping it hands it to the table.
pub(crate) struct Report {
    sdk: Sdk,
    seen: BTreeMap<Behaviour, Seen>,
}

impl Report {
    pub(crate) fn new(sdk: Sdk) -> Self {
        Self { sdk, seen: BTreeMap::new() }
    }

    /// Notes what was seen, and fails if it is not what is known.
    pub(crate) fn note(&mut self, behaviour: Behaviour, seen: Seen) {
        self.seen.insert(behaviour, seen);
        let known = self.sdk.faults().iter().find(|(known, _)| *known == behaviour).map(|(_, fault)| *fault);
        let (name, words) = (self.sdk.name(), behaviour.words());
        match (seen, known) {
            (Seen::Ok, None) | (Seen::Cannot, None) => {}
            (Seen::Fault(fault), Some(known)) if fault == known => {}
            (Seen::Fault(fault), _) => panic!("{words}: {name} {fault}"),
            (Seen::Ok | Seen::Cannot, Some(known)) => panic!("{words}: it is no longer so that {name} {known}"),
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        static ALL: Mutex<(usize, Everything)> = Mutex::new((0, Everything::new()));
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let (reports, seen) = &mut *all;
        *reports += 1;
        seen.extend(self.seen.iter().map(|(behaviour, what)| ((*behaviour, self.sdk), *what)));
        // The JSON server is no client.
        if *reports == 2 * Sdk::ALL.len() - 1 {
            let table = table(seen);
            // Past the capture of the test harness: the table is wanted of tests that pass, too.
            drop(std::io::stdout().lock().write_all(table.as_bytes()));
        }
    }
}

const COLUMN: usize = 9;
const LABEL: usize = 44;

fn table(seen: &Everything) -> String {
    let mut text = format!("\n{:LABEL$}", "");
    for (number, _) in Sdk::ALL.iter().enumerate() {
        let _ = write!(text, "{:COLUMN$}", char::from(b'A' + number as u8));
    }
    text.push('\n');
    let mut faults: Vec<&str> = Vec::new();
    for behaviour in Behaviour::ALL {
        let _ = write!(text, "{:LABEL$}", behaviour.words());
        for sdk in Sdk::ALL {
            let cell = match seen.get(&(behaviour, sdk)) {
                Some(Seen::Ok) => "ok".to_owned(),
                Some(Seen::Fault(fault)) => {
                    let number = faults.iter().position(|known| *known == *fault).unwrap_or_else(|| {
                        faults.push(*fault);
                        faults.len() - 1
                    });
                    format!("fault {}", number + 1)
                }
                Some(Seen::Cannot) | None => "-".to_owned(),
            };
            let _ = write!(text, "{cell:COLUMN$}");
        }
        text.push('\n');
    }
    for (number, sdk) in Sdk::ALL.iter().enumerate() {
        let _ = writeln!(text, "  {} {}", char::from(b'A' + number as u8), sdk.name());
    }
    for (number, fault) in faults.iter().enumerate() {
        let _ = writeln!(text, "  fault {}: it {fault}", number + 1);
    }
    text
}
