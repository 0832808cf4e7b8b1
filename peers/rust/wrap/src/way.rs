//! The two ways to connect a program: as it is, and wrapped.

use rescind::relay::{
    self,
    wrap::{Ends, Wrap},
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadHalf, WriteHalf};

use crate::Raw;

/// What a program reads from and writes to.
pub type Io = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A wrap of one end of a pipe in memory.
pub type Pipe = Wrap<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

type Bare = Ends<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// Whether the relay stands between the program and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The program has the connection itself.
    Without,
    /// The program has what `relay::wrap` gave it.
    With,
}

impl Way {
    /// The connection of a client.
    pub fn client(self, io: DuplexStream, set: impl FnOnce(Pipe) -> Pipe) -> Io {
        self.connect(io, |wrap| set(wrap.as_client()))
    }

    /// The connection of a server.
    pub fn server(self, io: DuplexStream, set: impl FnOnce(Pipe) -> Pipe) -> Io {
        self.connect(io, |wrap| set(wrap.as_server()))
    }

    fn connect(self, io: DuplexStream, set: impl FnOnce(Bare) -> Pipe) -> Io {
        let (reader, writer) = tokio::io::split(io);
        match self {
            Self::Without => (Box::new(reader), Box::new(writer)),
            Self::With => {
                let (reader, writer, _link) = set(relay::wrap(reader, writer)).spawn();
                (Box::new(reader), Box::new(writer))
            }
        }
    }
}

/// Plays the same scene both ways, and gives what was seen without and with.
pub async fn both<T>(scene: impl AsyncFn(Way) -> T) -> [T; 2] {
    [scene(Way::Without).await, scene(Way::With).await]
}

/// A pipe that holds `capacity` bytes each way: the program's end, and a raw one.
pub fn connection(capacity: usize) -> (DuplexStream, Raw) {
    let (near, far) = tokio::io::duplex(capacity);
    (near, Raw::new(far))
}
