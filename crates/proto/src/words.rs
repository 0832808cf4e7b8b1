//! Enums of which each variant has a word.

/// Declares an enum with the word of each variant beside it, and `as_str`.
macro_rules! words {
    (
        $(#[$enum_meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$meta:meta])*
                $variant:ident $(($($tuple:tt)+))? $({ $($fields:tt)+ })? = $word:literal,
            )+
        }
    ) => {
        $(#[$enum_meta])*
        $vis enum $name {
            $($(#[$meta])* $variant $(($($tuple)+))? $({ $($fields)+ })?,)+
        }

        impl $name {
            /// Its word in messages, logs and recordings.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)+
                }
            }
        }
    };
}
