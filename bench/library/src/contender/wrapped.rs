//! Another contender, its calling end behind `relay::wrap` with all settings as they come; the serving end as it is.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Failure, Library};
use crate::wire::{End, Reader, Writer};
use crate::work::Work;

pub(crate) struct Wrapped<L>(PhantomData<L>);

impl<L: Library> Library for Wrapped<L> {
    type Caller = L::Caller;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<L::Caller, Failure> {
        let wrap = rescind::relay::wrap(client.reader, client.writer).as_client();
        let (reader, writer, _) = wrap.max_in_flight(limit).spawn();
        let client = End { reader: Reader::Wrapped(reader), writer: Writer::Wrapped(writer) };
        L::open(client, server, work, limit).await
    }
}
