//! Pages in `docs/` that speak of tests: what they name exists, and what is generated is up to date.

mod cases;
mod paths;
mod seeds;
mod sources;
