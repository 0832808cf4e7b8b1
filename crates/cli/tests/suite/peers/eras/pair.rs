//! A client, a server, and the way between: what either speaks, and what the two can play.

use crate::peers::http_client::Client;
use crate::peers::parts::not_installed;
use crate::peers::way::Way;

/// A revision of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revision {
    R2024,
    March2025,
    June2025,
    November2025,
    /// The first without sessions.
    R2026,
}

impl Revision {
    /// Those before the newest with sessions: an SDK speaks one of them if it is told to know no later one.
    const OLDER: [Self; 3] = [Self::R2024, Self::March2025, Self::June2025];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::R2024 => "2024-11-05",
            Self::March2025 => "2025-03-26",
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::R2026 => "2026-07-28",
        }
    }
}

/// An SDK as a client, and the newest revision that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) sdk: Client,
    pub(super) newest: Revision,
}

/// An SDK as a server, by the revisions that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// What the server of this client's SDK speaks.
    Of(Client),
    /// The same, as one that knows no later revision.
    UpTo(Client, Revision),
    /// TypeScript 2.x, 2026-07-28 alone.
    ModernAlone,
}

/// What a pair comes to with a task of 2025-11-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// It is made, looked at and cancelled.
    Carried,
    /// None is offered, and a request for one is refused.
    Refused,
    /// The client has to declare the extension first, which this SDK cannot.
    Undeclared,
}

/// A client, a server and the way between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) client: Caller,
    pub(super) server: Server,
    pub(super) way: Way,
}

/// The SDKs that can be told to know no revision later than one.
const OF_ANY_AGE: [Client; 2] = [Client::TypeScript2, Client::Python1];

impl Caller {
    fn all() -> Vec<Self> {
        let now = Client::ALL.map(Self::of);
        let then = Revision::OLDER.into_iter().flat_map(|newest| OF_ANY_AGE.map(|sdk| Self { sdk, newest }));
        now.into_iter().chain(then).collect()
    }

    const fn of(sdk: Client) -> Self {
        let newest = if sdk.is_modern() { Revision::R2026 } else { Revision::November2025 };
        Self { sdk, newest }
    }

    /// It begins without a handshake.
    pub(super) const fn is_modern(self) -> bool {
        self.sdk.is_modern()
    }

    pub(super) fn name(self) -> &'static str {
        match self.sdk {
            Client::TypeScript1 => "TypeScript 1.x",
            Client::TypeScript2 | Client::TypeScript2Modern => "TypeScript 2.x",
            Client::Python1 => "Python 1.x",
            Client::Python2 | Client::Python2Modern => "Python 2.x",
            Client::Rmcp | Client::RmcpModern => "rmcp 3.x",
        }
    }

    /// The command up to the scenarios.
    pub(super) fn command(self) -> Vec<String> {
        let newest = [String::from("--newest"), self.newest.name().to_owned()];
        let newest = if self == Self::of(self.sdk) { &[][..] } else { &newest };
        [self.sdk.command(), newest.to_vec()].concat()
    }

    /// Whether its server hears of a call whose limit was over.
    pub(super) fn tells_limits(self) -> bool {
        self.sdk != Client::Python1
    }
}

impl Server {
    fn all() -> Vec<Self> {
        let now = [Client::TypeScript1, Client::Python1, Client::TypeScript2, Client::Python2, Client::Rmcp];
        let then = Revision::OLDER.into_iter().flat_map(|newest| OF_ANY_AGE.map(|sdk| Self::UpTo(sdk, newest)));
        now.map(Self::Of).into_iter().chain([Self::ModernAlone]).chain(then).collect()
    }

    fn sdk(self) -> Client {
        match self {
            Self::Of(sdk) | Self::UpTo(sdk, _) => sdk,
            Self::ModernAlone => Client::TypeScript2Modern,
        }
    }

    pub(super) fn name(self) -> &'static str {
        Caller::of(self.sdk()).name()
    }

    /// The revisions that it speaks, in words.
    pub(super) fn revisions(self) -> &'static str {
        match (self.newest_session(), self.knows_modern()) {
            (Some(_), true) => "both eras",
            (Some(newest), false) => newest.name(),
            (None, _) => Revision::R2026.name(),
        }
    }

    pub(super) fn command(self) -> Vec<String> {
        let words = match self {
            Self::Of(_) => vec![],
            Self::UpTo(_, newest) => vec!["--newest".to_owned(), newest.name().to_owned()],
            Self::ModernAlone => vec!["--modern".to_owned()],
        };
        [self.sdk().server(), words].concat()
    }

    /// The newest revision with sessions that it knows.
    fn newest_session(self) -> Option<Revision> {
        match self {
            Self::Of(_) => Some(Revision::November2025),
            Self::UpTo(_, newest) => Some(newest),
            Self::ModernAlone => None,
        }
    }

    fn knows_modern(self) -> bool {
        match self {
            Self::Of(Client::TypeScript1 | Client::Python1) | Self::UpTo(..) => false,
            Self::Of(_) | Self::ModernAlone => true,
        }
    }

    /// Whether it tells when its list of tools changes.
    fn tells_changes(self) -> bool {
        match self {
            Self::ModernAlone | Self::Of(Client::TypeScript1) | Self::UpTo(Client::TypeScript2, _) => true,
            Self::Of(_) | Self::UpTo(..) => false,
        }
    }

    fn is_on_python(self) -> bool {
        matches!(self.sdk(), Client::Python1 | Client::Python2)
    }
}

impl Case {
    /// Every client before every server over each way.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let pairs =
            Caller::all().into_iter().flat_map(|client| Server::all().into_iter().map(move |server| (client, server)));
        let all = pairs.flat_map(|(client, server)| Way::ALL.map(|way| Self { client, server, way }));
        all.filter(|case| case.is_possible())
    }

    /// 2024-11-05 has no Streamable HTTP, and the client on rmcp has nothing else.
    fn is_possible(self) -> bool {
        let Self { client, server, way } = self;
        let begins = if way.begins_with_http() {
            client.newest != Revision::R2024
        } else {
            !matches!(client.sdk, Client::Rmcp | Client::RmcpModern)
        };
        begins && !(way.ends_with_http() && server.newest_session() == Some(Revision::R2024))
    }

    /// Whether the server knows nothing of the client's era.
    fn is_of_two_eras(self) -> bool {
        let knows =
            if self.client.is_modern() { self.server.knows_modern() } else { self.server != Server::ModernAlone };
        !knows
    }

    /// One of each kind: the TypeScript SDKs on every way, the others on one; of each older revision one either way.
    pub(super) fn is_telling(self) -> bool {
        let Self { client: Caller { sdk, newest }, server, way } = self;
        if !self.is_of_two_eras() {
            return false;
        }
        let older = match server {
            Server::UpTo(of, newest) => Some((of, newest)),
            Server::ModernAlone if newest < Revision::November2025 => Some((sdk, newest)),
            Server::Of(_) | Server::ModernAlone => None,
        };
        if let Some((of, newest)) = older {
            let usual = match newest {
                Revision::R2024 => Way::Run,
                Revision::March2025 => Way::Serve,
                Revision::June2025 | Revision::November2025 | Revision::R2026 => Way::Url,
            };
            return of == Client::TypeScript2
                && matches!(sdk, Client::TypeScript2 | Client::TypeScript2Modern)
                && way == usual;
        }
        let is_usual = match sdk {
            Client::TypeScript1 | Client::TypeScript2Modern => true,
            Client::Python2 | Client::Python2Modern => way == Way::Run,
            Client::Rmcp | Client::RmcpModern => way == Way::Serve,
            Client::TypeScript2 | Client::Python1 => false,
        };
        is_usual
            && !matches!(
                (sdk, server),
                (Client::TypeScript2Modern | Client::RmcpModern, Server::Of(Client::Python1))
                    | (Client::Python2Modern, Server::Of(Client::TypeScript1))
            )
    }

    /// The revision that the client is to find itself speaking.
    pub(super) fn revision(self) -> Revision {
        match self.server.newest_session() {
            Some(newest) if !self.client.is_modern() => newest.min(self.client.newest),
            Some(_) | None => self.client.newest,
        }
    }

    /// Whether the client and the server can play this, by themselves.
    pub(super) fn plays(self, scenario: &str) -> bool {
        let Self { client, server, way } = self;
        match scenario {
            // On HTTP the Python SDK stops a handler that would answer anyway.
            "late-answer" => !(server.is_on_python() && way.ends_with_http()),
            // The tool there has no such argument; and what takes long is an event, which the Python SDK 2.x cannot take.
            "large" => {
                let has_tool = !(server.is_on_python() && matches!(client.sdk, Client::Rmcp | Client::RmcpModern));
                has_tool && !(client.sdk.takes_small_events() && way.begins_with_http())
            }
            "subscription" => server.tells_changes() && (client.is_modern() || client.sdk == Client::TypeScript1),
            "task" => self.task().is_some(),
            // The Python SDK 1.x fails when its server ends while it leaves.
            "closing" => !(client.sdk == Client::Python1 && way == Way::Run),
            _ => true,
        }
    }

    /// What is to become of a task; `None` if the client cannot know of any.
    pub(super) fn task(self) -> Option<Task> {
        let knows = self.client.newest >= Revision::November2025;
        let is_offered = self.server == Server::Of(Client::TypeScript1);
        let follows = matches!(self.client.sdk, Client::TypeScript1 | Client::TypeScript2 | Client::Python1);
        match (is_offered, follows) {
            _ if !knows => None,
            (true, _) if self.client.is_modern() => Some(Task::Undeclared),
            (true, true) => Some(Task::Carried),
            (true, false) => None,
            (false, _) => Some(Task::Refused),
        }
    }

    /// What is not installed, in words.
    pub(super) fn missing(self) -> Option<String> {
        let folders = [self.client.sdk.needs(), self.server.sdk().needs()].concat();
        let commands: &[&str] = if folders.iter().any(|folder| folder.starts_with("node")) { &["node"] } else { &[] };
        not_installed(&folders, commands)
    }
}
