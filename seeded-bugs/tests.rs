//! Whatever checks the engine finds deliberate bugs in it: so what it says of the engine without them is worth
//! something.

mod endpoint;
mod explore;
mod floods;
mod spoilt;
mod storm;
