//! Pages in `docs/` that speak of tests: what they name exists, and what is generated is up to date.

mod cases;
mod seeds;
mod sources;
