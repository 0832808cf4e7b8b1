//! The shared file is compiled for loom here, and only here: its dependencies know nothing of it.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
