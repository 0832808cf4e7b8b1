//! Values of flags by their names, which help lists and a wrong value is answered with.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A value, its name, and what help says of it, if anything.
pub(crate) type Named<T> = (T, &'static str, &'static str);

/// Makes a parser of these values.
pub(crate) fn value_of<T: Copy + Send + Sync>(all: &'static [Named<T>]) -> impl TypedValueParser<Value = T> {
    let value = |(_, name, help): &Named<T>| PossibleValue::new(name).help((!help.is_empty()).then_some(*help));
    let names = PossibleValuesParser::new(all.iter().map(value));
    names.try_map(|given| all.iter().find(|(_, name, _)| *name == given).map(|(value, ..)| *value).ok_or("unknown"))
}
