//! JSON-RPC messages as bytes: where one begins and ends, what it is, and the id that it carries.
//!
//! [`framing`] cuts a stream into messages, by lines or by content-length
//! headers, in bounded memory. [`frame`] reads one message's envelope in a
//! single pass and leaves its params, result and error as the bytes that came
//! in. [`json`] scans and writes JSON text without a document tree. [`message`]
//! writes whole messages, [`excerpt`] quotes what cannot be read. Nothing here knows what a request is for.
//!
//! No I/O, no clock, no threads, no `unsafe`.

#![warn(missing_docs)]

pub mod excerpt;
pub mod frame;
pub mod framing;
pub mod id;
pub mod json;
pub mod kind;
pub mod message;
